"""Writes one thing again and again, each time killed one step later: WRITER FOLDER EVERY.

A step is what changes a folder: a file opened to be written, renamed, removed, or a folder made. Before step n a child
of this process kills itself by SIGKILL, for n = 1, 1 + EVERY, ..., until one comes to its end. After each kill nothing
that is not whole lies under the final name, and to write again gives what an unbroken run gives.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from tests.doubles import HashEncoder
from tests.faults.writers import GROWING, WRITERS, Place, content
from tests.killing import child, kill_before


def main(name: str, folder: str, every: str) -> None:
    """Run; the number of kills is printed."""
    writer = next(one for one in WRITERS if one.name == name)
    place = Place(Path(folder), Normalizer(Index.open(Path(folder) / "x.index"), encoder=HashEncoder()))
    work = Path(folder) / f"killed-{name}"
    work.mkdir()
    out = work / f"out{writer.suffix}"
    assert child(lambda: writer.write(place, out)) == 0
    expected = content(out)
    kills, step = 0, 1
    while True:
        shutil.rmtree(work)
        work.mkdir()

        def killed(step: int = step) -> None:
            kill_before(step, work)
            writer.write(place, out)

        ended = child(killed)
        assert ended in (0, -signal.SIGKILL), f"step {step}: {ended}"
        if ended == 0:
            break
        kills += 1
        if writer.name not in GROWING:
            assert not out.exists() or content(out) == expected, f"step {step}: {list(content(out))}"
        if not out.exists() or any(work.glob("*.parts")) or writer.name in GROWING:
            assert child(lambda: writer.write(place, out)) == 0, f"step {step}: again"
        differs = sorted(name for name, _ in content(out).items() ^ expected.items())
        assert not differs, f"step {step}: again: {differs}"
        left = [path.name for path in work.iterdir() if path != out]
        assert not [one for one in left if ".part" in one], f"step {step}: {left}"
        step += int(every)
    print(f"{kills} kills")


if __name__ == "__main__":
    main(*sys.argv[1:])
