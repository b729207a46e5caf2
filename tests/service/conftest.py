"""A small index for all tests of the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.index.store import Index, build
from alphita.normalizer.answering.normalizer import Normalizer
from tests.doubles import HashEncoder, small_terminology


@pytest.fixture(scope="session")
def index_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("service") / "small.index"
    build(small_terminology(), HashEncoder(), path)
    return path


@pytest.fixture
def normalizer(index_path) -> Normalizer:
    return Normalizer(Index.open(index_path), encoder=HashEncoder())
