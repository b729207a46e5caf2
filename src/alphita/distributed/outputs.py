"""The output's folder: whether it may be taken, and by one job at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alphita import progress
from alphita.distributed.files import Place
from alphita.distributed.plan import JOB, KIND, MANIFEST, WORK
from alphita.errors import AlphitaError, UsageError


def look(out: Place, identity: dict[str, Any], *, resume: bool, force: bool) -> dict[str, Any] | None:
    """See what is in the output's folder; return the manifest of a finished job that is to be resumed.

    Raises:
        UsageError: it holds what may not be replaced, or another job than the one to be resumed.
    """
    names = out.names()
    if not names:
        if out.exists() and "." in out.name and out.is_local and Path(out.url).is_file():
            raise UsageError(f"{out} is a file; with --engine the output is a folder")
        return None
    if MANIFEST not in names and JOB not in names:
        if set(names) <= {WORK}:
            out.remove()
            return None
        raise UsageError(f"{out} is not empty, and holds no job; choose another name")
    found = json.loads((out / (MANIFEST if MANIFEST in names else JOB)).content())
    if found.get("kind") != KIND:
        raise UsageError(f"{out} holds something else than an output of alphita normalize; choose another name")
    if force:
        out.remove()
        return None
    if not resume and MANIFEST in names:
        raise UsageError(f"{out} already exists; choose another name or use --force")
    if not resume:
        raise UsageError(f"an unfinished job is there ({out}); go on with --resume, or begin anew with --force")
    before = found["job"]
    for name in sorted(before.keys() | identity.keys()):
        if before.get(name) != identity.get(name):
            raise UsageError(
                f"cannot resume: {name} was {before.get(name)!r} when the job began and is {identity.get(name)!r} now; "
                "give the same, or begin anew with --force"
            )
    if MANIFEST in names:
        clear(out)
        progress.say(f"{out} is finished already")
        return dict(found)
    return None


def clear(out: Place) -> None:
    """Remove what a finished job does not need."""
    (out / WORK).remove()
    (out / JOB).remove()


def check_apart(files: Sequence[Place], out: str) -> None:
    """Refuse an output among the input's files: the next run would read it."""
    for file in files:
        if file.url == out or file.url.startswith(out.rstrip("/") + "/"):
            raise UsageError(f"{Place(out)} holds the input; choose another folder for the output")


@contextmanager
def locked(out: str) -> Iterator[None]:
    """Keep others from writing the same output, where it lies on a disk.

    Raises:
        AlphitaError: another process is at work on it, or there is no permission.
    """
    if not Place(out).is_local:
        yield
        return
    path = Path(f"{out}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; nothing was changed") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlphitaError(f"another alphita is writing this output now ({path})") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
