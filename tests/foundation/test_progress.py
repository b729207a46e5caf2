from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from alphita import progress

WORK = """
import sys
from alphita import progress
assert "rich" not in sys.modules
with progress.bar("encode", 3, unit="terms") as bar:
    for _ in range(3):
        bar.advance()
progress.say("done")
"""


def test_off_a_terminal_the_bar_is_plain_lines_on_stderr():
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert re.fullmatch(r"encode: 3/3 terms, [\d,.]+ terms/s\ndone\n", done.stderr)


def test_on_a_terminal_the_bar_goes_to_stderr_alone():
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdout=subprocess.PIPE, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:
            pass  # Linux says so when the other end is closed.
        os.close(ours)
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert process.returncode == 0
    text = shown.decode()
    assert "encode" in text
    assert "3/3" in text
    assert "terms/s" in text
    assert text.endswith("done\r\n")


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when told."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_plain_bar_speaks_every_ten_seconds_with_rate_and_time_left(clock, capsys):
    with progress.bar("train", 1000, unit="steps") as bar:
        for _ in range(100):
            clock[0] += 0.25
            bar.advance(4)
        assert capsys.readouterr().err.splitlines() == [
            "train: 160/1,000 steps, 16.0 steps/s, 52 s left",
            "train: 320/1,000 steps, 16.0 steps/s, 42 s left",
        ]
    assert capsys.readouterr() == ("", "train: 400/1,000 steps, 16.0 steps/s\n")


def test_time_that_went_to_other_work_is_no_part_of_the_rate(clock, capsys):
    with progress.bar("train", 100, unit="steps") as bar:
        for seconds in (5, 5):
            clock[0] += seconds
            bar.advance(10)
            clock[0] += 600
            bar.skip(600)
    assert capsys.readouterr().err.splitlines()[0] == "train: 20/100 steps, 2.0 steps/s, 40 s left"


def test_80_columns_hold_all_but_the_last_words():
    work = """
import time
from alphita import progress
with progress.bar("training coder", 100_000, unit="steps", done=50_000) as bar:
    bar.note("loss 0.2557, 230 terms/s, and more words than there is room for")
    time.sleep(0.3)
    bar.advance(1)
"""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen([sys.executable, "-c", work], stderr=theirs, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:
            pass
        os.close(ours)
    assert re.search(r"50001/100000 .* steps/s .* min left +loss .*…", re.sub(r"\x1b\[[\d;?]*\w", "", shown.decode()))


@pytest.mark.parametrize(
    ("total", "done", "steps", "said"),
    [
        (None, 0, [(20, 3000)], ["read: 3,000 rows, 150.0 rows/s"]),
        (10, 0, [(20, 40)], ["read: 40/10 rows, 2.0 rows/s, 0 s left"]),
        (0, 0, [], ["read: 0/0 rows, 0.0 rows/s"]),
        (100, 40, [(20, 10)], ["read: 50/100 rows, 2.0 s each, 100 s left"]),
    ],
)
def test_a_bar_of_any_total(clock, capsys, total, done, steps, said):
    with progress.bar("read", total, done=done) as bar:
        for seconds, rows in steps:
            clock[0] += seconds
            bar.advance(rows)
    assert capsys.readouterr().err.splitlines() == said


def test_a_failure_passes_through_and_claims_no_end(capsys):
    with pytest.raises(ValueError, match="bad"), progress.bar("read", 10):
        raise ValueError("bad")
    assert capsys.readouterr() == ("", "")


def test_slow_work_tells_how_long_one_takes_and_how_long_all_will(clock, capsys):
    with progress.bar("train", 100, "steps") as bar:
        clock[0] += 146
        bar.note("loss 2.5")
        bar.advance()
        bar.advance(99)
    assert capsys.readouterr().err.splitlines() == [
        "train: 1/100 steps, 146.0 s each, 4 h 1 min left, loss 2.5",
        "train: 100/100 steps, 1.5 s each, loss 2.5",
    ]


@pytest.mark.parametrize(
    ("rate", "said"), [(1234.56, "1,234.6 rows/s"), (1.0, "1.0 rows/s"), (0.04, "25.0 s each"), (0.0, "0.0 rows/s")]
)
def test_speed(rate, said):
    assert progress.speed(rate, "rows") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (3569, "59 min"), (3599, "1 h 0 min"), (360_000, "100 h 0 min")],
)
def test_duration(seconds, said):
    assert progress.duration(seconds) == said
