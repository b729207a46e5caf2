"""Kills at a chosen step, a disk without room, and a training run that is cut or killed and gone on with."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from alphita.errors import AlphitaError
from tests.cli.command import alphita

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")
# Their last argument may be the folder that the name is looked up in, -1 for none.
IN_FOLDER = ("os.remove", "os.mkdir", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# The command line, killed as soon as a checkpoint stands in a folder.
KILLED_AT_A_CHECKPOINT = """
import os, signal, sys
from alphita.cli import main
from alphita_lab.training.engine import loop
save = loop.save_checkpoint
work = sys.argv.pop(1)
def saving(folder, *more):
    save(folder, *more)
    if str(folder) == work:
        os.kill(os.getpid(), signal.SIGKILL)
loop.save_checkpoint = saving
main()
"""


def child(work: Callable[[], None]) -> int:
    """Do some work in a child; return 0, or how it ended: the number of the signal, negative."""
    process = os.fork()
    if not process:
        try:
            work()
        except AlphitaError as error:
            print(error, flush=True)
            os._exit(3)
        except BaseException:
            traceback.print_exc()
            os._exit(4)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill_before(step: int, below: Path) -> None:
    """Kill this process before it changes something below a folder for the `step`th time."""
    done = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal done
        if event != "open" and event not in CHANGES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITING):
            return
        named = str(arguments[0])
        if event in IN_FOLDER and isinstance(folder := arguments[-1], int) and folder >= 0:
            named = f"{os.readlink(f'/proc/self/fd/{folder}')}/{named}"
        if str(below) in named:
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes: to a program that is what a full disk is."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


@contextmanager
def cut_at(kind: Any, number: int) -> Iterator[None]:
    """Interrupt the run in the context before micro-batch `number` of steps of a kind."""
    step = kind.__call__

    def failing(self: Any, current: int, share: float) -> Any:
        if current == number:
            raise KeyboardInterrupt
        return step(self, current, share)

    with mock.patch.object(kind, "__call__", failing), pytest.raises(KeyboardInterrupt):
        yield


def whole_and_resumed(command: list[str], folder: Path) -> tuple[Path, Path]:
    """Run a command to its end, and again with kill -9 at the first checkpoint; go on. Return both models.

    A killed run leaves no model, and is not begun anew unasked.
    """
    whole, killed, work = folder / "whole", folder / "killed", folder / "killed.training"
    assert in_this_process([*command, "-o", str(whole)]) == 0
    dying = [command[0], "-c", KILLED_AT_A_CHECKPOINT, str(work), *command[3:], "-o", str(killed)]
    assert subprocess.run(dying, capture_output=True).returncode == -signal.SIGKILL
    assert len(list(work.glob("step-*/state.json"))) == 1
    assert not killed.exists()
    assert in_this_process([*command, "-o", str(killed)]) == 2
    assert in_this_process([*command, "-o", str(killed), "--resume"]) == 0
    return whole, killed
