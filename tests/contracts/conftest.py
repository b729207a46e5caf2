from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alphita.terminology.store import Terminology
from tests.contracts.findings import write
from tests.contracts.recipe_cases import Given
from tests.tiny import tiny_model


@pytest.fixture(scope="session")
def given(tmp_path_factory) -> Given:
    return Given(tmp_path_factory.mktemp("data"), tiny_model(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="session")
def model(given: Given) -> Path:
    return given.model


@pytest.fixture(scope="session")
def terminology(given: Given) -> Terminology:
    return given.terminology


@pytest.fixture(scope="module")
def to(tmp_path_factory) -> Iterator[str]:
    """A terminology's file, which the first door that is asked imports and indexes with the default model."""
    folder = tmp_path_factory.mktemp("findings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        yield str(write(folder / "findings.obo"))
