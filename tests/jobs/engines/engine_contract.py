"""What every engine passes. A test module gives an open engine of two workers, and runs all of `CASES`.

@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case, engine, tmp_path):
    case(engine, tmp_path)
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import alphita
from alphita import artefact
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines import MAX_DEATHS, Engine, Receipt, SameVersion
from tests.waiting import SECONDS, has_ended, wait_until

# How long a slow task takes, if it is not stopped.
SLOW = 1.5
# The file in the folder of the notes that ends the tasks that are held.
GO_ON = "go on"


@dataclass(frozen=True)
class Squares:
    """Opens a worker that squares its task, and notes in a folder what it did.

    Attributes:
        folder: for the notes.
        fails: the task that raises.
        breaks: the task that raises what is no AlphitaError.
        waits: the task that waits to be killed, the first time.
        dies: the task that kills its worker.
        slow: from this task on they take their time.
        held: from this task on they wait for the file `GO_ON`.
    """

    folder: str
    fails: int = -1
    breaks: int = -1
    waits: int = -1
    dies: int = -1
    slow: int = 1_000
    held: int = 1_000

    def __call__(self) -> Squaring:
        return Squaring(self)


class Squaring:
    def __init__(self, what: Squares) -> None:
        self.what = what

    def __call__(self, task: int) -> Receipt:
        what, folder = self.what, Path(self.what.folder)
        begun = note(folder, "begun", task)
        if task == what.fails:
            raise UsageError(f"the column 'x' is missing in part {task}")
        if task == what.breaks:
            raise ZeroDivisionError("nought below the line")
        if task == what.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if task == what.waits and begun == 1:
            draft = folder / "pid.draft"
            draft.write_text(str(os.getpid()))
            draft.rename(folder / "pid")
            time.sleep(SECONDS)
        if task >= what.slow:
            time.sleep(SLOW)
        if task >= what.held:
            (folder / f"held by {os.getpid()}").touch()
            wait_until((folder / GO_ON).exists)
        note(folder, "ended", task)
        return {"square": task**2, "pid": os.getpid()}


@dataclass(frozen=True)
class OpensIndex:
    """Opens a worker that needs an index."""

    index: str

    def __call__(self) -> Squaring:
        artefact.open_manifest(self.index, "index")
        return Squaring(Squares(""))


def note(folder: Path, what: str, task: int) -> int:
    """Note that a task was begun or ended; return how often by now. Tasks are noted by one process at a time."""
    file = folder / f"{what}-{task}"
    with file.open("a") as notes:
        notes.write("x")
    return file.stat().st_size


def noted(folder: Path, what: str) -> Counter[int]:
    """Return how often each task was begun or ended."""
    return Counter({int(file.name.partition("-")[2]): file.stat().st_size for file in folder.glob(f"{what}-*")})


def every_task_is_done_once(engine: Engine, folder: Path) -> None:
    tasks = [*range(12, 0, -1), 40]
    made = list(engine.run(Squares(str(folder)), tasks, what="Squaring"))
    assert sorted(task for task, _ in made) == sorted(tasks)
    assert all(receipt["square"] == task**2 for task, receipt in made)
    assert noted(folder, "begun") == noted(folder, "ended") == Counter(tasks)


def no_task_gives_nothing(engine: Engine, folder: Path) -> None:
    assert list(engine.run(Squares(str(folder)), [], what="Squaring")) == []


def facts_are_told(engine: Engine, folder: Path) -> None:
    facts = engine.facts()
    assert facts["engine"]
    assert facts["version"]
    assert facts["workers"] == 2


def the_words_of_an_error_come_through(engine: Engine, folder: Path) -> None:
    with pytest.raises(AlphitaError, match="the column 'x' is missing in part 3"):
        list(engine.run(Squares(str(folder), fails=3), range(6), what="Squaring"))


def the_words_of_a_fault_come_through(engine: Engine, folder: Path) -> None:
    with pytest.raises(AlphitaError, match="nought below the line"):
        list(engine.run(Squares(str(folder), breaks=2), range(4), what="Squaring"))


def a_killed_worker_costs_its_own_task(engine: Engine, folder: Path) -> None:
    def kill() -> None:
        wait_until((folder / "pid").exists)
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    made = dict(engine.run(Squares(str(folder), waits=3), range(10), what="Squaring"))
    killer.join()
    assert {task: receipt["square"] for task, receipt in made.items()} == {task: task**2 for task in range(10)}
    assert noted(folder, "ended") == Counter(range(10))
    assert noted(folder, "begun") - Counter(range(10)) == Counter([3])


def a_task_that_kills_its_workers_is_given_up(engine: Engine, folder: Path) -> None:
    with pytest.raises(AlphitaError, match=f"task 2 ended {MAX_DEATHS} workers") as caught:
        list(engine.run(Squares(str(folder), dies=2), range(4), what="Squaring"))
    assert "--resume" in str(caught.value)
    assert noted(folder, "begun")[2] == MAX_DEATHS


def closing_stops_what_is_at_work(engine: Engine, folder: Path) -> None:
    going = engine.run(Squares(str(folder), held=1), range(6), what="Squaring")
    assert next(going)[0] == 0
    wait_until(lambda: list(folder.glob("held by *")))
    going.close()  # type: ignore[attr-defined]
    wait_until(lambda: all(has_ended(int(file.name.split()[2])) for file in folder.glob("held by *")))
    time.sleep(0.5)
    (folder / GO_ON).touch()
    time.sleep(0.5)
    assert noted(folder, "ended") == Counter([0])
    # It can be used again.
    assert len(list(engine.run(Squares(str(folder)), [7, 8], what="Squaring"))) == 2


def another_version_is_refused(engine: Engine, folder: Path) -> None:
    engine.check(SameVersion(Squares(str(folder))))
    with pytest.raises(AlphitaError) as caught:
        engine.check(SameVersion(Squares(str(folder)), version="0.0.1"))
    assert "0.0.1" in str(caught.value)
    assert alphita.__version__ in str(caught.value)


def a_missing_index_is_told_at_the_start(engine: Engine, folder: Path) -> None:
    with pytest.raises(AlphitaError) as caught:
        engine.check(OpensIndex(str(folder / "missing.index")))
    assert "no such index" in str(caught.value)
    assert "missing.index" in str(caught.value)


CASES: list[Callable[[Engine, Path], None]] = [
    *(every_task_is_done_once, no_task_gives_nothing, facts_are_told, the_words_of_an_error_come_through),
    *(the_words_of_a_fault_come_through, a_killed_worker_costs_its_own_task),
    *(a_task_that_kills_its_workers_is_given_up, closing_stops_what_is_at_work, another_version_is_refused),
    a_missing_index_is_told_at_the_start,
]
