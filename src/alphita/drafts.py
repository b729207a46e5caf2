"""Drafts: what is written aside, locked, and renamed into its place when it is whole.

A draft that a kill left behind has no lock; it is removed when its target is next written.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alphita import textio

MANIFEST = "manifest.json"
# When and by which command an artefact was made: it does not make it another.
HOW_MADE = {"created": None, "command": None}
SCRATCH = "alphita"


@contextmanager
def aside(target: Path, *, folder: bool = False, private: bool = False) -> Iterator[tuple[Path, int]]:
    """Make a locked draft beside `target`, and remove it at the end unless it was renamed."""
    remove_abandoned(target.parent, target.name)
    # Again if another process takes the draft for abandoned in the moment before the lock.
    while True:
        aside = target.parent / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.draft"
        if folder:
            aside.mkdir(0o700 if private else 0o777)
            try:
                descriptor = os.open(aside, os.O_RDONLY)
            except FileNotFoundError:
                continue
        else:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        try:
            # Where locks do not work no one can take this one either, so that the draft is left in peace.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not aside.exists():
                continue
            yield aside, descriptor
            return
        finally:
            os.close(descriptor)
            _remove(aside)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a temporary folder that only its owner can read, and remove it at the end; one left by a kill is removed."""
    with aside(Path(tempfile.gettempdir(), SCRATCH), folder=True, private=True) as (folder, _):
        yield folder


def clear_up() -> None:
    """Remove the temporary folders that a kill left."""
    remove_abandoned(Path(tempfile.gettempdir()), SCRATCH)


def remove_abandoned(folder: Path, target: str | None = None) -> None:
    """Remove the drafts in a folder, of `target` or (None) of all that is written there, whose writer was killed."""
    name = re.compile(rf"\.{'.+' if target is None else re.escape(target)}\.\d+-[0-9a-f]{{8}}\.draft")
    drafts_here: list[Path] = []
    with contextlib.suppress(OSError):
        drafts_here = [path for path in folder.iterdir() if name.fullmatch(path.name)]
    for draft in drafts_here:
        with contextlib.suppress(OSError):
            # Others may write in a temporary folder: no link is followed, no pipe waited for.
            descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(draft)
            finally:
                os.close(descriptor)


def _remove(draft: Path) -> None:
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            draft.unlink()


def put_in_place(aside: Path, target: Path) -> None:
    """Rename a draft to its target; an old one is moved aside to `NAME.old-1` (`-2`, ...), unless it is the same."""
    if target.is_dir() and not target.is_symlink() and _is_same(aside, target):
        target.chmod(aside.stat().st_mode)
        with contextlib.suppress(FileNotFoundError):
            (aside / MANIFEST).replace(target / MANIFEST)
        return
    old = _free_name(target) if target.exists() else None
    if old is not None:
        target.rename(old)
    try:
        aside.rename(target)
    except OSError:
        if old is not None:
            old.rename(target)
        raise


def _is_same(first: Path, second: Path) -> bool:
    sizes, others = (
        {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        for folder in (first, second)
    )
    # Small ones first: a manifest, say, tells two apart in a moment.
    names = sorted(sizes, key=lambda name: sizes[name])
    # What cannot be read is moved aside, not judged.
    with contextlib.suppress(OSError):
        return sizes.keys() == others.keys() and all(_is_same_file(first / name, second / name) for name in names)
    return False


def _is_same_file(first_file: Path, second_file: Path) -> bool:
    if first_file.name != MANIFEST:
        return filecmp.cmp(first_file, second_file, shallow=False)
    try:
        first, second = (textio.json_file(path) | HOW_MADE for path in (first_file, second_file))
    except (TypeError, ValueError):
        return False
    return bool(first == second)


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return name


def sync_tree(folder: Path) -> None:
    """Make a folder and all below it durable."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        else:
            sync_folder(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
