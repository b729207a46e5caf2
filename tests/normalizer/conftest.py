"""A small index and a normaliser over it."""

from __future__ import annotations

import pytest

from alphita.index.store import Index
from alphita.normalizer.answering.normalizer import Normalizer
from tests.doubles import HashEncoder


@pytest.fixture
def normalizer(index_path) -> Normalizer:
    return Normalizer(Index.open(index_path), encoder=HashEncoder())
