from __future__ import annotations

import pytest

from alphita.terminology.store import Terminology
from tests.lab.graph.graphs import ring


@pytest.fixture(scope="session")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return ring(tmp_path_factory.mktemp("ring") / "ring.terminology")
