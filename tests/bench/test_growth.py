"""The bench of growth: names follow from the seed, steps are measured in a process of their own, slopes are told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import growth  # noqa: E402


def points(*pairs: tuple[int, float]) -> list[dict[str, float]]:
    return [{"size": size, "seconds": seconds, "bytes": 0} for size, seconds in pairs]


def test_names_follow_from_the_seed_and_are_of_some_concepts():
    made = growth.names(500, 3)
    assert made == growth.names(500, 3) != growth.names(500, 4)
    assert 125 <= len({concept for concept, _ in made}) <= 500


def test_what_grows_with_the_square_is_too_steep_and_what_is_linear_is_not():
    told = growth.report(
        {"index": points((100, 0.01), (1000, 1.0)), "job": points((100, 1.0), (1000, 10.0)), "open": points((9, 1.0))}
    )
    assert [told[name]["slope_of_seconds"] for name in told] == [2.0, 1.0, None]
    assert [told[name]["too_steep"] for name in told] == [True, False, False]
    assert told["job"]["slope_of_bytes"] is None


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux tells it")
def test_steps_are_measured_and_drawn(tmp_path):
    out, picture = tmp_path / "growth.json", tmp_path / "growth.png"
    sizes = ("--names", "600,900", "--rows", "300", "--steps", "import,words,convert")
    command = [sys.executable, BENCH / "growth.py", *sizes, "-o", out, "--picture", picture]
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    steps = json.loads(out.read_text())["steps"]
    assert [point["size"] for step in steps.values() for point in step["points"]] == [600, 900, 600, 900, 300]
    assert all(point["seconds"] > 0 for point in steps["import"]["points"])
    assert picture.read_bytes().startswith(b"\x89PNG")
