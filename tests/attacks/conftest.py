"""Attacks on the service, over the fixtures of its tests."""

from tests.service.conftest import index, lab, normalizer

__all__ = ["index", "lab", "normalizer"]
