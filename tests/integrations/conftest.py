"""A small index and a normaliser over it."""

from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from tests.doubles import HashEncoder

# The beginning of a program in which a package is not installed.
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "{0}":
            raise ModuleNotFoundError("no {0}", name="{0}")

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture(scope="session")
def normalizer(index_path) -> Normalizer:
    return Normalizer(Index.open(index_path), encoder=HashEncoder())
