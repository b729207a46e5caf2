"""A small encoder, the same without dropout, and a small terminology with relations; none is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.terminology.store import Terminology
from tests.tiny import tiny_model, tiny_terminology


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def undropped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("undropped") / "tiny", dropout=0.0)


@pytest.fixture(scope="session")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology")
