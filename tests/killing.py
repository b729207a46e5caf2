"""A training run of the command line, killed in its midst and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.cli.command import alphita

SECONDS = 120


def train_command(recipe: str, terminology: Path, model: Path, settings: Mapping[str, Any]) -> list[str]:
    """Return the words of `alphita train RECIPE`, but for the output."""
    return [
        sys.executable,
        "-m",
        "alphita",
        "train",
        recipe,
        "-t",
        str(terminology),
        "--encoder",
        str(model),
        "--threads",
        "1",
        *(f"--set={key}={value}" for key, value in settings.items()),
    ]


def in_this_process(command: list[str]) -> int:
    """Return the exit code of such a command; a process of its own would take seconds to begin."""
    import torch

    threads = torch.get_num_threads()
    with mock.patch.dict(os.environ):
        try:
            return alphita(*command[3:])
        finally:
            torch.set_num_threads(threads)


class Runs(NamedTuple):
    """Two models of one command, and what the second run printed when it went on."""

    whole: Path
    resumed: Path
    said: subprocess.CompletedProcess[str]


def whole_and_resumed(command: list[str], folder: Path, work: str = "killed.training") -> Runs:
    """Run a command to its end, and again with kill -9 once `work` has a checkpoint; go on.

    A killed run leaves no model, and is not begun anew unasked.
    """
    whole, killed = folder / "whole", folder / "killed"
    assert in_this_process([*command, "-o", str(whole)]) == 0
    process = subprocess.Popen([*command, "-o", str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while not list((folder / work).glob("step-*/state.json")):
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not killed.exists()
    assert in_this_process([*command, "-o", str(killed)]) == 2
    said = subprocess.run([*command, "-o", str(killed), "--resume"], check=True, capture_output=True, text=True)
    return Runs(whole, killed, said)
