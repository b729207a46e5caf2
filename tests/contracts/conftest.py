from __future__ import annotations

from pathlib import Path

import pytest

from alphita.terminology.store import Terminology
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
