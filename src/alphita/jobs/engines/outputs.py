"""The output's folder: whether it may be taken, and by one job at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alphita import progress
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.jobs.engines.files import Place
from alphita.jobs.engines.plan import JOB, KIND, MANIFEST, WORK
from alphita.jobs.journal import refuse_other


def look(out: Place, identity: dict[str, Any], *, resume: bool, force: bool) -> dict[str, Any] | None:
    """See what is in the output's folder; return the manifest of a finished job that is to be resumed."""
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
        old = out.move_aside()
        (old / WORK).remove()
        # By its description an unfinished job's folder is still known as an output.
        if MANIFEST in names or old.names() == [JOB]:
            discard(old)
        if old.exists():
            progress.say(f"the earlier output is now {old}")
        return None
    if not resume and MANIFEST in names:
        raise UsageError(f"{out} already exists; choose another name or use --force")
    if not resume:
        raise UsageError(f"an unfinished job is there ({out}); go on with --resume, or begin anew with --force")
    refuse_other(found["job"], identity)
    if MANIFEST in names:
        clear(out)
        progress.say(f"{out} is finished already")
        return dict(found)
    return None


def clear(out: Place) -> None:
    """Remove what a finished job does not need."""
    (out / WORK).remove()
    (out / JOB).remove()


def discard(out: Place) -> None:
    """Remove what a job has for the way; of the folder, if nothing else is in it, nothing stays."""
    clear(out)
    if not out.names():
        out.remove()


def input_files(given: Place, out: Place) -> list[Place]:
    """Return the Parquet files of an input; those that earlier jobs wrote into its folder are passed over, and told."""
    files = given.parquet_files()
    below = [*given.folders_with(MANIFEST, JOB), *given.folders_matched(files)]
    outputs = [folder for folder in below if _is_output(folder)]
    kept = [file for file in files if not any(_lies_in(file, folder) for folder in outputs)]
    for file in kept:
        if file.url == out.url or _lies_in(file, out):
            raise UsageError(f"{out} holds the input; choose another folder for the output")
    if files[0].url != given.url and _lies_in(out, given):
        raise UsageError(f"{out} lies in the folder of the input; choose another one for the output")
    if len(kept) < len(files):
        progress.say(
            f"{len(files) - len(kept)} files are an earlier output, and not read: {', '.join(map(str, outputs))}"
        )
    if not kept:
        raise InputError("no Parquet file is there but earlier outputs", file=str(given), remedy="give the one to read")
    return kept


def _is_output(folder: Place) -> bool:
    for name in (MANIFEST, JOB):
        if (folder / name).exists():
            try:
                return bool(json.loads((folder / name).content()).get("kind") == KIND)
            except (ValueError, AttributeError):
                # Whatever else has a file of this name.
                return False
    return False


def _lies_in(place: Place, folder: Place) -> bool:
    return place.url.startswith(folder.url.rstrip("/") + "/")


@contextmanager
def locked(out: str) -> Iterator[None]:
    """Keep others from writing the same output, where it lies on a disk."""
    if not Place(out).is_local:
        yield
        return
    path = Path(f"{out}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; nothing was changed") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that was at work when this one opened it has removed it since.
            os.stat(path)
        except (BlockingIOError, FileNotFoundError):
            raise AlphitaError(f"another alphita is writing this output now ({path})") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
