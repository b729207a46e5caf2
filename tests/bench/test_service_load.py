"""A small run of the bench of the service under load."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from alphita.encoder.encoder import TermEncoder
from alphita.index.store import build
from tests.doubles import small_terminology
from tests.tiny import tiny_model

sys.path.append(str(Path(__file__).parents[2] / "bench"))
load = importlib.import_module("service_load")


@pytest.mark.slow
def test_a_small_load(tmp_path):
    encoder = TermEncoder.load(tiny_model(tmp_path / "model"))
    index = build(small_terminology(), encoder, tmp_path / "x.index")
    out = tmp_path / "load.json"
    words = ["--index", index.path, "-o", out, "--seconds", 1, "--rows", 8, "--clients", 3, "--per-second", 20]
    load.main(list(map(str, words)))
    found = json.loads(out.read_text())
    for name in ("single_even", "single_random"):
        assert found[name]["statuses"] == {"200": 20}
        assert 0 < found[name]["p50_ms"] <= found[name]["p99_ms"] <= found[name]["max_ms"]
    assert found["batches"]["mentions_per_second"] > 0
    for name in ("crowd", "hasty_crowd"):
        assert found[name]["refused_without_retry_after_or_otherwise"] == 0
        assert found[name]["statuses"]["200"] > 0
        assert found[name]["memory_mb"]["peak"] > 100
