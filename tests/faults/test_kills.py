"""Kill -9 at each point where something appears, and two processes that write the same: what is there is whole."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError
from alphita.index.store import Index
from tests.doubles import HashEncoder
from tests.faults.writers import WRITERS, Place, Writer, content, prepare

ROOT = Path(__file__).parents[2]
# In the quick run: one of each way to write, and how many of its steps are passed over.
QUICK = {"terminology": 7, "job-csv": 7, "conversion": 3}


def kills(name: str, folder: Path, every: int) -> int:
    command = [sys.executable, "-m", "tests.faults.killed", name, str(folder), str(every)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-2])


@pytest.mark.slow
@pytest.mark.parametrize("name", [writer.name for writer in WRITERS])
def test_a_kill_at_each_point(place: Place, name: str) -> None:
    assert kills(name, place.folder, 1) > 1


@pytest.mark.parametrize("name", QUICK)
def test_a_kill_at_some_points(name: str, tmp_path: Path) -> None:
    assert kills(name, prepare(tmp_path).folder, QUICK[name]) > 1


def _write(name: str, folder: str, out: str, together: object) -> None:
    writer = next(one for one in WRITERS if one.name == name)
    place = Place(Path(folder), Normalizer(Index.open(Path(folder) / "x.index"), encoder=HashEncoder()))
    together.wait()  # type: ignore[attr-defined]
    try:
        writer.write(place, Path(out))
    except AlphitaError as error:
        print(error)
        sys.exit(2)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS, ids=[writer.name for writer in WRITERS])
def test_of_two_processes_one_writes_it_whole_and_the_other_is_told(
    place: Place, writer: Writer, tmp_path: Path
) -> None:
    if writer.name == "rejects":
        pytest.skip("grows under its own name")
    writer.write(place, tmp_path / f"good{writer.suffix}")
    expected = {
        name.replace("good", "out", 1): found for name, found in content(tmp_path / f"good{writer.suffix}").items()
    }
    context = multiprocessing.get_context("spawn")
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        out = tmp_path / str(number) / f"out{writer.suffix}"
        together = context.Barrier(2)
        both = [
            context.Process(target=_write, args=(writer.name, str(place.folder), str(out), together)) for _ in range(2)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join(120)
        ended = sorted(process.exitcode for process in both)
        assert ended in ([0, 0], [0, 2])
        assert content(out) == expected
        assert not [one.name for one in out.parent.iterdir() if ".part" in one.name]
