"""A process killed while it decides has lost nothing that it had acknowledged, and what it sends again is kept once."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from alphita.review.store import ReviewStore
from tests.review.samples import row, store
from tests.review.writing import N_ROWS, kind

KILLS = 10
ROOT = Path(__file__).parents[2]


def start(path: Path, acknowledged: dict[str, int]) -> subprocess.Popen[str]:
    reviewers = [f"{who}={last + 1}" for who, last in acknowledged.items()]
    command = [sys.executable, "-m", "tests.review.writing", str(path), *reviewers]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def check(path: Path, acknowledged: dict[str, int]) -> None:
    """See that each acknowledged action is there once, in order, and that what follows from them fits."""
    with ReviewStore.open(path) as reviews:
        history = list(reviews.history("codes"))
        uids = Counter(one.uid for one in history)
        assert max(uids.values(), default=0) == 1
        for reviewer, last in acknowledged.items():
            alone = [one for one in history if one.reviewer == reviewer and one.kind == "choose"]
            expected = [number for number in range(last + 1) if kind(number) == "decide"]
            found = [int(one.comment) for one in alone]
            # One more may be stored whose acknowledgement did not come through.
            assert found[: len(expected)] == expected
            assert found[len(expected) :] in ([], [last + 1])
            assert all(f"{reviewer} {number}" in uids for number in expected)
        in_force = {}
        undone = {one.undoes for one in history}
        for one in history:
            if one.kind != "undo" and one.id not in undone:
                in_force[one.row, one.reviewer] = one.id
        for number in range(1, N_ROWS + 1):
            standing = reviews.standing(number)
            assert {(number, one.reviewer): one.id for one in standing.decisions} == {
                key: id for key, id in in_force.items() if key[0] == number
            }
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        batches = {uid for (uid,) in connection.execute("SELECT uid FROM batch")}
    for reviewer, last in acknowledged.items():
        assert all(f"{reviewer} {number}" in batches for number in range(last + 1) if kind(number) != "decide")


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    store(tmp_path, [row(number) for number in range(1, N_ROWS + 1)]).close()
    path = tmp_path / "reviews.sqlite"
    chance = random.Random(7)
    acknowledged = {"ann": -1, "bob": -1}
    for _ in range(KILLS):
        writer = start(path, acknowledged)
        try:
            lines = [writer.stdout.readline() for _ in range(chance.randint(5, 50))]
        finally:
            writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        for line in [*lines, *rest.splitlines(keepends=True)]:
            # A last line that was cut off acknowledges nothing.
            if line.endswith("\n"):
                who, number = line.split()
                assert int(number) == acknowledged[who] + 1
                acknowledged[who] += 1
        check(path, acknowledged)
    assert min(acknowledged.values()) > KILLS
