"""Waits for what another thread or process does: for a condition, never for a time that a busy machine exceeds."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# For a process that imports these tests, and what they test from where they do.
PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
# After this the other is taken for stuck.
SECONDS = 600


def wait_until(holds: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Return once a condition holds; a process that must make it hold may not end before."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert process is None or process.poll() is None, "ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def free_port() -> int:
    """Return a port that nothing listens at: below those that the system gives to whoever connects to something."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 1_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def has_ended(process: int) -> bool:
    """Say whether a process is gone, or dead and only not asked for yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
