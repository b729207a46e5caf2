"""A clock that is set back or forward: in the midst of a job, for keys, decisions, caches and the page's outbox.

That nothing asks it past `alphita.clock` is a rule of ruff (TID251, pyproject.toml).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from starlette.datastructures import Headers

from alphita import clock, service
from alphita.errors import InputError
from alphita.index import sources
from alphita.review import rules
from alphita.service import keys
from alphita.service.checking import Parts, check
from alphita.service.settings import Settings
from alphita_lab.training.engine import forward
from tests.faults.writers import WRITERS, Place, broken_off, content
from tests.waiting import SECONDS

JOBS = [writer for writer in WRITERS if writer.name in ("job-csv", "job-sssom", "annotation-jsonl", "index")]
YEAR = 365 * 86_400.0


def set_by(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the machine's clock forward, or back if below 0."""
    at = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: at)


def started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program begin at what its clock says now."""
    monkeypatch.setattr(clock, "_BEGAN", time.time() - time.clock_gettime(clock._STEADY))


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
    out = tmp_path / "cut" / f"out{writer.suffix}"
    out.parent.mkdir()
    broken_off(writer, place, out)
    days = itertools.count()
    monkeypatch.setattr(clock, "today", lambda: datetime.now(UTC).date() - timedelta(days=next(days)))
    writer.write(place, out)
    assert next(days) == 1
    assert list(content(out).values()) == list(content(tmp_path / f"good{writer.suffix}").values())


def test_what_was_just_kept_stays_beside_what_is_of_the_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "TABLES_KEPT", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() + YEAR, time.time() + YEAR + ord(name)))
    forward._store(tmp_path / "new", np.zeros(1, np.int32), np.zeros(2, np.int64))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "new"]


def test_the_time_goes_on_whatever_the_clock_is_set_to(monkeypatch: pytest.MonkeyPatch) -> None:
    before, today = clock.now(), clock.today()
    set_by(monkeypatch, -YEAR)
    assert timedelta() <= clock.now() - before < timedelta(minutes=1)
    assert clock.today(after=time.time() + 2 * YEAR) > today
    set_by(monkeypatch, 2 * YEAR)
    assert clock.now() - before > timedelta(days=300)
    # Set right again.
    monkeypatch.undo()
    assert timedelta() <= clock.now() - before < timedelta(minutes=1)


def refused(settings: Settings, key: str) -> str:
    try:
        return asyncio.run(
            keys.Authentication(None, settings)._by_key(Headers({"authorization": f"Bearer {key}"}))
        ).name  # type: ignore[arg-type]
    except keys.Refusal as error:
        return error.code


def test_a_key_that_has_ended_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, today = tmp_path / "keys.tsv", clock.today()
    ended, good = keys.add(path, "ann", today - timedelta(days=1)), keys.add(path, "ben", today + timedelta(days=30))
    settings = Settings(keys=path)
    assert (refused(settings, ended), refused(settings, good)) == ("expired_key", "ben")
    # While the server runs, and before it starts again: not before its keys were written.
    set_by(monkeypatch, -YEAR)
    assert (refused(settings, ended), refused(settings, good)) == ("expired_key", "ben")
    started_again(monkeypatch)
    assert clock.today() < date.fromordinal(today.toordinal() - 300)
    assert (refused(settings, ended), refused(settings, good)) == ("expired_key", "ben")
    assert "ann's key expired" in next(check(Parts(settings, *[None] * 2))).text  # type: ignore[arg-type]


def test_decisions_that_a_store_told_are_of_the_past_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_latest", "")
    told = rules.now()
    set_by(monkeypatch, -YEAR)
    started_again(monkeypatch)
    assert rules.now() >= told == rules.moment(told, "at")
    monkeypatch.setattr(rules, "_latest", "")
    with pytest.raises(InputError, match=f"a time in the future.*by this machine's clock it is {rules.now()[:10]}"):
        rules.moment(told, "at")


def test_a_clock_set_forward_or_back_once_empties_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))

    def made(number: int) -> Path:
        (tmp_path / f"{number}.csv").write_text(f"id,term\nX:{number},fever\n")
        return sources.terminology_of(tmp_path / f"{number}.csv")

    paths = [made(0), made(1)]
    set_by(monkeypatch, YEAR)
    paths.append(made(2))
    monkeypatch.undo()
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    # Opened by a machine that does not know the time yet.
    set_by(monkeypatch, 86_400 - time.time())
    started_again(monkeypatch)
    assert made(0) == paths[0]
    monkeypatch.undo()
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    made(3)
    assert all(path.exists() for path in paths)


def test_the_page_sends_decisions_in_the_order_in_which_they_were_taken(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        driver = pytest.importorskip("playwright._impl._driver", reason="Playwright brings a Node")
        node = driver.compute_driver_executable()[0]
    page = Path(service.__file__).parent / "page"
    (tmp_path / "test.mjs").write_text(
        f"""
        import {{ Outbox }} from "{(page / "outbox.js").as_uri()}";
        const held = new Map();
        globalThis.localStorage = {{
          get length() {{ return held.size; }}, key: (place) => [...held.keys()][place],
          getItem: (key) => held.get(key), setItem: (key, text) => held.set(key, text),
        }};
        const down = {{ post: async () => {{ throw new Error("down"); }} }};
        const box = new Outbox(down);
        for (const [place, hour] of [9, 8, 12, 8].entries()) {{
          Date.now = () => hour * 3_600_000;
          box.add({{ uid: `${{9 - place}}`, reviewer: "ann", body: {{}} }});
        }}
        await new Promise((done) => setTimeout(done, 10));
        const wait = box.until - performance.now();
        clearTimeout(box.timer);
        const again = new Outbox(down);
        again.resume("ann");
        await new Promise((done) => setTimeout(done, 10));
        clearTimeout(again.timer);
        // A second, less what a busy machine took since: not the hours between two clocks.
        console.log(again.items.map((item) => item.uid).join(" "), Math.abs(wait - 1000) < 600_000);
        """
    )
    done = subprocess.run([node, tmp_path / "test.mjs"], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.stdout == "9 8 7 6 true\n", done.stderr
