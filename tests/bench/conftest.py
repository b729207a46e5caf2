"""The folders whose files the tests here import."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
sys.path += [str(BENCH), str(BENCH / "peers")]
