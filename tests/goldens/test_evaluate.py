"""The report of `alphita evaluate`."""

from __future__ import annotations

from pathlib import Path

from tests.goldens import benchmark
from tests.goldens.conftest import World
from tests.goldens.golden import Goldens, told

FOLDER = Path(__file__).parent
SYSTEMS = [
    *("-b", "exact_match", "-m", "edit_distance", "-m", "alphita-en,name=encoder"),
    *("-m", "normalizer:alphita-en,ranking=fusion,borrow=false,learn=no"),
    *("-m", "normalizer:alphita-en,borrow=false,learn=no"),
]


def test_a_benchmark_of_our_own(world: World, tmp_path: Path) -> None:
    """All of the report but its page, which has times in its midst, and the manifest, which has such files' hashes."""
    golden, out = Goldens("evaluate", ["own"]), tmp_path / "out"
    words = ["evaluate", benchmark.__file__, *SYSTEMS, "-o", out / "report"]
    golden.check("own", told(*words, out=out, folders=[FOLDER], left_out=("report.html", "manifest.json")))
    golden.check_complete()
