from __future__ import annotations

from pathlib import Path

import pytest

from alphita.index.store import build
from tests.doubles import HashEncoder, small_terminology


@pytest.fixture
def index_path(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    return build(small_terminology(), HashEncoder(), tmp_path / "small.index").path
