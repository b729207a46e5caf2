"""What time it is: the one place that asks the machine's clock, which people and programs set back and forward.

Durations come from `time.monotonic`. What time it is comes from here, for nothing may become valid again, be taken for
older than what came before it, or be thrown away, because a clock was set.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from pathlib import Path

# It goes on while the machine sleeps, where the system has such a clock, and nobody sets it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BEGAN = time.time() - time.clock_gettime(_STEADY)


def seconds() -> float:
    """Return the time, seconds since 1970: the machine's, or what it was when the program began and what went by
    since."""
    return max(time.time(), _BEGAN + time.clock_gettime(_STEADY))


def now() -> datetime:
    """Return the time, UTC; see `seconds`."""
    return datetime.fromtimestamp(seconds(), UTC)


def today(after: float = 0.0) -> date:
    """Return the day, UTC, and no day before a time that is known to be past, seconds since 1970."""
    return datetime.fromtimestamp(max(seconds(), after), UTC).date()


def mark(path: Path) -> None:
    """Write down that a file was used now, unless it was already marked with a later time."""
    then = max(seconds(), path.stat().st_mtime)
    os.utime(path, (then, then), follow_symlinks=False)
