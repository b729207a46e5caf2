"""What the tests of several scripts share."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.bench.commands import CALLS, in_process

sys.path.append(str(Path(__file__).parents[2] / "bench"))


@pytest.fixture
def commands_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cells of a table call commands in this process; their calls are kept."""
    monkeypatch.setattr(importlib.import_module("cells"), "caller", in_process)
    CALLS.clear()
