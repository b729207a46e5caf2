"""A small index for all tests of the service."""

from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from tests.doubles import HashEncoder
from tests.service.review_service import index_of, service


@pytest.fixture
def normalizer(index_path) -> Normalizer:
    return Normalizer(Index.open(index_path), encoder=HashEncoder())


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return index_of(tmp_path_factory.mktemp("index"))


@pytest.fixture
def lab(tmp_path, index):
    """A service with one project, in which nothing is decided."""
    made = service(tmp_path, index)
    yield made
    made.store.close()
