"""What the tests of several scripts share; the folder whose Python files they import."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.runs.commands import CALLS, in_process

sys.path.append(str(Path(__file__).parents[2] / "runs"))


@pytest.fixture
def commands_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cells of a table call commands in this process; their calls are kept."""
    monkeypatch.setattr(importlib.import_module("study"), "caller", in_process)
    CALLS.clear()
