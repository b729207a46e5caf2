"""Progress on stderr: a bar with rate and time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from alphita.printing import console, visible

SECONDS_BETWEEN_LINES = 10.0
# Variable of the environment by which all processes of a command are silent.
SILENT = "ALPHITA_QUIET"


class Bar(Protocol):
    """What long work reports to."""

    def advance(self, n: int = 1) -> None:
        """Say that `n` more units are done."""

    def note(self, text: str) -> None:
        """Show a few words beside the count, until the next ones."""

    def skip(self, seconds: float) -> None:
        """Leave time out of the rate and the time left: it went to other work."""


class _Silent:
    def advance(self, n: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def skip(self, seconds: float) -> None:
        pass


class _PlainBar:
    def __init__(self, label: str, total: int | None, unit: str, done: int) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self.before = done
        self.start = self.last = time.monotonic()
        self.printed = -1
        self.text = ""

    def note(self, text: str) -> None:
        self.text = text

    def skip(self, seconds: float) -> None:
        self.start += seconds

    def advance(self, n: int = 1) -> None:
        self.done += n
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            self.line()

    def pace(self) -> tuple[str, str]:
        """Return the rate and the time left, "" where nobody knows it."""
        seconds = time.monotonic() - self.start
        rate = (self.done - self.before) / seconds if seconds > 0 else 0.0
        # A total may be an estimate, which the work then exceeds.
        known = self.total is not None and rate > 0
        return speed(rate, self.unit), f"{duration(max(0, (self.total or 0) - self.done) / rate)} left" if known else ""

    def line(self, *, end: bool = False) -> None:
        of = f"/{self.total:,}" if self.total is not None else ""
        rate, left = self.pace()
        left = f", {left}" if left and not end else ""
        if end and self.printed == self.done:
            return
        self.printed = self.done
        note = f", {self.text}" if self.text else ""
        say(f"{self.label}: {self.done:,}{of} {self.unit}, {rate}{left}{note}")


def speed(rate: float, unit: str) -> str:
    """Return `rate` units a second in words: "12.3 rows/s", or "25.1 s each" where one takes longer than a second."""
    return f"{1 / rate:,.1f} s each" if 0 < rate < 1 else f"{rate:,.1f} {unit}/s"


def duration(seconds: float) -> str:
    """Return a time in words: "95 s", "34 min", "4 h 3 min"."""
    if seconds < 120:
        return f"{seconds:,.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"


@contextmanager
def bar(
    label: str, total: int | None = None, unit: str = "rows", *, done: int = 0, shown: bool = True
) -> Iterator[Bar]:
    """Show progress of `total` units of work on stderr while the block runs; the block calls `advance(n)`."""
    if not shown or is_silent():
        yield _Silent()
        return
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.table import Column

        def last(name: str) -> TextColumn:
            """What is cut where the terminal is narrow."""
            shown = Column(no_wrap=True, overflow="ellipsis", ratio=1)
            return TextColumn(f"{{task.fields[{name}]}}", style="aside", table_column=shown)

        pace = (TextColumn(f"{{task.fields[{name}]}}", style="aside") for name in ("rate", "left"))
        columns = (TextColumn("{task.description}"), BarColumn(10), MofNCompleteColumn(), *pace, last("text"))
        with Progress(*columns, console=console(stderr=True), expand=True) as screen:
            task = screen.add_task(label, total=total, completed=done, text="", rate="", left="")

            class _RichBar(_PlainBar):
                def advance(self, n: int = 1) -> None:
                    self.done += n
                    rate, left = self.pace()
                    screen.update(task, completed=self.done, rate=rate, left=left)

                def note(self, text: str) -> None:
                    screen.update(task, text=text)

            yield _RichBar(label, total, unit, done)
        return
    plain = _PlainBar(label, total, unit, done)
    yield plain
    plain.line(end=True)


def silence() -> None:
    """Print no progress from now on, here and in the processes that are started from here."""
    os.environ[SILENT] = "1"


def is_silent() -> bool:
    """Return whether no progress is printed."""
    return bool(os.environ.get(SILENT))


def say(text: str) -> None:
    """Print one plain line to stderr, unless progress is silenced; see `printing.visible`."""
    if is_silent():
        return
    print(visible(text), file=sys.stderr, flush=True)
