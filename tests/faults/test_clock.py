"""A clock that is set back: in the midst of a job, between a job and its end, and before what the cache keeps."""

from __future__ import annotations

import itertools
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from alphita.annotating import job as texts_job
from alphita.normalizer.writing import run as rows_job
from alphita.training.engine import tokens
from tests.faults.writers import WRITERS, Place, content, prepare

JOBS = [writer for writer in WRITERS if writer.name in ("job-csv", "job-sssom", "annotation-jsonl", "index")]
YEAR = 365 * 86_400.0


class Back(datetime):
    """A clock that goes back a day each time that it is looked at."""

    looked = itertools.count()

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(UTC) - timedelta(days=next(cls.looked))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return prepare(tmp_path_factory.mktemp("clock"))


@pytest.mark.parametrize("writer", JOBS, ids=[writer.name for writer in JOBS])
def test_a_job_ends_as_ever(writer, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "back").mkdir()
    writer.write(place, tmp_path / "good" / f"out{writer.suffix}")
    # What it reads was changed a year from now; its own clocks go back.
    for path in place.folder.rglob("*"):
        os.utime(path, (time.time() + YEAR, time.time() + YEAR))
    hours = itertools.count(0, -3_600)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(hours)))
    monkeypatch.setattr(time, "time", lambda: 1e9 + next(hours))
    writer.write(place, tmp_path / "back" / f"out{writer.suffix}")
    good, back = (content(tmp_path / name / f"out{writer.suffix}") for name in ("good", "back"))
    assert good == back


@pytest.mark.parametrize("name", ["job-sssom", "annotation-jsonl"])
def test_a_job_is_gone_on_with_at_an_earlier_time(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = next(writer for writer in WRITERS if writer.name == name)
    writer.write(place, tmp_path / f"good{writer.suffix}")
    out, step = tmp_path / f"out{writer.suffix}", itertools.count()
    kept = os.fsync

    def cut(descriptor: int) -> None:
        kept(descriptor)
        if next(step) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(KeyboardInterrupt):
        writer.write(place, out)
    monkeypatch.setattr(os, "fsync", kept)
    for module in (rows_job, texts_job):
        monkeypatch.setattr(module, "datetime", Back)
    writer.write(place, out)
    assert list(content(out).values()) == list(content(tmp_path / f"good{writer.suffix}").values())


def test_what_was_just_kept_stays_beside_what_is_of_the_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TABLES_KEPT", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() + YEAR, time.time() + YEAR + ord(name)))
    tokens._store(tmp_path / "new", np.zeros(1, np.int32), np.zeros(2, np.int64))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "new"]
