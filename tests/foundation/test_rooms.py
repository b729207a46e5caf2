"""How large each room may be, in lines of Python: rooms.tsv holds ceilings that only fall.

ALPHITA_UPDATE_ROOMS=1 lowers them to what is there. Raising one by hand is a commit of its own, with its reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("rooms.tsv")
CEILINGS = {room: int(lines) for room, lines in (row.split("\t") for row in TABLE.read_text("utf-8").splitlines()[1:])}
# What a room may be below its ceiling before the ceiling has to follow.
SLACK = 100


def lines_of(room: str) -> int:
    folder = ROOT / room
    files = folder.glob("*.py") if room in ("src/alphita", "src/alphita_lab") else folder.rglob("*.py")
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


@pytest.mark.parametrize("room", CEILINGS)
def test_a_room_keeps_below_its_ceiling(room):
    lines = lines_of(room)
    if os.environ.get("ALPHITA_UPDATE_ROOMS") and lines < CEILINGS[room]:
        CEILINGS[room] = lines
        rows = ["room\tlines", *(f"{name}\t{ceiling}" for name, ceiling in CEILINGS.items())]
        TABLE.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert lines <= CEILINGS[room], f"{room} has {lines} lines, of {CEILINGS[room]} that it may have"
    assert lines + SLACK >= CEILINGS[room], f"{room} has {lines} lines: run with ALPHITA_UPDATE_ROOMS=1"


def test_every_room_has_a_ceiling():
    packages = (ROOT / "src" / "alphita", ROOT / "src" / "alphita_lab")
    rooms = {path.parent for package in packages for path in package.glob("*/__init__.py")}
    assert {
        path.relative_to(ROOT).as_posix() for path in {*rooms, *packages, ROOT / "tests", ROOT / "bench", ROOT / "runs"}
    } == set(CEILINGS)
