from __future__ import annotations

import pytest

from tests.faults.writers import Place, prepare


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """What the writers read; what they write goes elsewhere."""
    return prepare(tmp_path_factory.mktemp("place"))
