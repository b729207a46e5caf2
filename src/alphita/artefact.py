"""Artefacts: immutable folders with a `manifest.json` (kind, hashes of all files, sources, config, seed, command).

A terminology, a split, a model and an index are each one. It is written aside, fsynced and renamed into place.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from alphita import __version__, clock, drafts, machine, progress, textio
from alphita.drafts import MANIFEST
from alphita.errors import AlphitaError, InputError, UsageError

FORMAT_VERSION = 1
READABLE_VERSIONS = (FORMAT_VERSION,)
# Every file up to this much in all is rehashed whenever an artefact is opened (some tenths of a second); a larger one
# once, and then only when a file of it was written since.
VERIFY_UP_TO_BYTES = 16 * 2**20
FULL_DISK = re.compile("|".join(os.strerror(code) for code in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)))
# What the manifest says itself; a draft's fields cannot replace it.
RESERVED = ("kind", "format_version", "files", "content_hash", "alphita_version", *drafts.HOW_MADE)
REBUILD = {
    "terminology": "alphita terminology import …",
    "split": "alphita terminology split …",
    "model": "alphita train …",
    "index": "alphita index --model … --terminology … -o …",
    "report": "alphita evaluate …",
    "graph_vectors": "alphita graph train MODEL -t X.terminology -o X.vectors",
    "mentions": "alphita mentions CORPUS -t X.terminology -o X.mentions",
    "product_search": "alphita search build --model … -t … -o X.search",
    "calibration": "alphita calibrate --index X.index --split S.split --force",
}


@dataclass
class Draft:
    """An artefact being written.

    Attributes:
        fields: what goes into the manifest beside the hashes (sources, config, seed, licence, ...).
    """

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)


@contextmanager
def create(target: Path | str, kind: str, *, force: bool = False, private: bool = False) -> Iterator[Draft]:
    """Write an artefact aside; on a clean exit it appears at `target`, on an error nothing does.

    Args:
        target: the folder to create. If it exists already that is an error, unless `force`, which moves the old one
            aside to `NAME.old-1` (`-2`, ...), unless it is the same.
        kind: what it is, e.g. "terminology".
        force: replace an existing target.
        private: only its owner can read it.

    Yields:
        The draft to fill.

    Raises:
        UsageError: the target exists and `force` is not given.
        AlphitaError: the disk is full or the place not writable.
    """
    with atomic_folder(Path(target), force=force, private=private) as aside:
        draft = Draft(aside)
        yield draft
        manifest = _write_manifest(draft, kind)
    if _size(manifest) > VERIFY_UP_TO_BYTES:
        # Its hashes were taken a moment ago.
        _write_note(_note_of(Path(target), manifest))


@contextmanager
def atomic_folder(target: Path, *, force: bool = False, private: bool = False) -> Iterator[Path]:
    """Write a folder whole or not at all: aside, fsynced, renamed; see `create`, which gives it a manifest."""
    try:
        refuse_existing(target, force, " (the old one is moved aside)")
        target.parent.mkdir(parents=True, exist_ok=True)
        with drafts.aside(target, folder=True, private=private) as (aside, _):
            yield aside
            drafts.sync_tree(aside)
            # Looked at again: another process may have written it meanwhile.
            refuse_existing(target, force, " (the old one is moved aside)")
            drafts.put_in_place(aside, target)
            drafts.sync_folder(target.parent)
    except Exception as error:
        if not _is_failed_write(error):
            raise
        raise _not_written(target, error) from error


def open_manifest(path: Path | str, kind: str) -> dict[str, Any]:
    """Read and check an artefact's manifest: kind, format version, and the size of every file."""
    path = Path(path)
    remedy = f"make it with: {REBUILD.get(kind, 'alphita')}"
    try:
        if not path.exists():
            raise InputError(f"no such {kind}", file=path, remedy=remedy)
        manifest = textio.json_file(path / MANIFEST)
        kind_found, version, files = manifest["kind"], manifest["format_version"], manifest["files"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"not an alphita {kind}: no readable {MANIFEST}", file=path, remedy=remedy) from None
    if kind_found != kind:
        raise InputError(f"this is {_a(kind_found)}, but {_a(kind)} is needed", file=path, remedy=remedy)
    if version not in READABLE_VERSIONS:
        raise InputError(
            f"format version {version} cannot be read by this alphita (it reads {list(READABLE_VERSIONS)})",
            file=path,
            remedy=f"build it again: {REBUILD.get(kind, 'alphita')}",
        )
    try:
        genuine = manifest["content_hash"] == _content_hash(manifest)
        sizes = {name: facts["size"] for name, facts in files.items()}
    except (AttributeError, KeyError, TypeError):
        genuine, sizes = False, {}
    if not genuine:
        raise InputError("the manifest was changed after it was written", file=path / MANIFEST, remedy=remedy)
    for name, expected in sizes.items():
        try:
            size = (path / name).stat().st_size
        except OSError:
            raise InputError(f"file {name} is missing", file=path, remedy=remedy) from None
        if size != expected:
            raise InputError(f"file {name} has {size} bytes, the manifest says {expected}", file=path, remedy=remedy)
    return dict(manifest)


def verify(path: Path | str, kind: str) -> dict[str, Any]:
    """Check an artefact like `open_manifest`, and every file's sha256 too."""
    manifest = open_manifest(path, kind)
    for name, facts in manifest["files"].items():
        if hash_file(Path(path) / name) != facts["sha256"]:
            remedy = f"it was changed or damaged; make it again: {REBUILD.get(kind, 'alphita')}"
            raise InputError(f"the hash of {name} is not the manifest's", file=path, remedy=remedy)
    return manifest


def open_checked(path: Path | str, kind: str, verify_all: bool | None = None) -> dict[str, Any]:
    """Check an artefact that is about to be opened: what is mapped into memory is believed.

    Every file is rehashed. One larger than `VERIFY_UP_TO_BYTES` is so once: what was found sound is noted in the cache,
    by place, size and times of each file. Nothing but `verify_all` sees what a disk loses without being written to.
    """
    manifest = open_manifest(path, kind)
    if verify_all is False:
        return manifest
    if verify_all or (size := _size(manifest)) <= VERIFY_UP_TO_BYTES:
        return verify(path, kind)
    note = _note_of(Path(path), manifest)
    if not note.exists():
        progress.say(f"checking {path} for damage ({size / 2**30:.1f} GB): once, and again when it was changed")
        verify(path, kind)
        _write_note(note)
    return manifest


def _size(manifest: dict[str, Any]) -> int:
    return sum(int(facts["size"]) for facts in manifest["files"].values())


def _note_of(path: Path, manifest: dict[str, Any]) -> Path:
    """Return the file whose being there says that an artefact was found sound as it now lies there."""
    facts = [(path / name).stat() for name in manifest["files"]]
    lies = [[fact.st_size, fact.st_ino, fact.st_dev, fact.st_mtime_ns, fact.st_ctime_ns] for fact in facts]
    name = hash_json([str(resolved(path)), manifest["content_hash"], lies])[:32]
    return machine.cache_dir() / "sound" / name


def _write_note(note: Path) -> None:
    # Without it the next opening looks again.
    with contextlib.suppress(OSError):
        os.close(os.open(machine.cache_folder("sound") / note.name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def hash_file(path: Path | str) -> str:
    """Return the sha256 of a file as 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the sha256 of a JSON value in canonical form (sorted keys, no spaces)."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@contextmanager
def atomic_file(
    path: Path | str,
    mode: str = "wb",
    *,
    private: bool = False,
    force: bool = True,
    newline: str | None = None,
    so_far: str = "nothing was changed",
) -> Iterator[IO[Any]]:
    """Write one file whole or not at all: aside, fsynced, renamed."""
    path = Path(path)
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": newline}
    try:
        refuse_existing(path, force)
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafts.aside(path, private=private) as (aside, descriptor):
            with os.fdopen(descriptor, mode, closefd=False, **text) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            refuse_existing(path, force)
            aside.replace(path)
            drafts.sync_folder(path.parent)
    except Exception as error:
        if not _is_failed_write(error):
            raise
        raise _not_written(path, error, so_far) from error


def _a(kind: object) -> str:
    return f"{'an' if str(kind).startswith(tuple('aeiou')) else 'a'} {kind}"


def refuse_existing(path: Path, force: bool, what_force_does: str = "") -> None:
    """Raise UsageError if `path` exists and may not be replaced: to be said before the work, not after.

    Nor can what has no name of its own, such as "." and "/".
    """
    if path.name in ("", ".."):
        raise UsageError(f"{path} is a folder without a name of its own; name what is to be made: {path / 'NAME'}")
    if not force and path.exists():
        raise UsageError(f"{path} already exists; choose another name or use --force{what_force_does}")


def absolute(path: Path) -> Path:
    """Return a path from the root on."""
    try:
        return path.absolute()
    except FileNotFoundError:
        raise AlphitaError(f"cannot tell where {path} is: the working folder was deleted; go to another") from None


def resolved(path: Path) -> Path:
    """Return a path from the root on, without links."""
    try:
        return absolute(path).resolve()
    except (RuntimeError, OSError):
        raise InputError("its links lead round in a circle", file=path, remedy="name a file itself") from None


def refuse_unwritable(path: Path) -> None:
    """Raise if a file cannot be made at `path`: to be said before the work, not after."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file")
    folder = next(folder for folder in absolute(path).parents if os.path.exists(folder))
    if not folder.is_dir():
        raise AlphitaError(f"cannot write {path}: {folder} is no folder; choose another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AlphitaError(f"cannot write {path}: the folder {folder} may not be written; choose another")


def refuse_same(files: Mapping[str, Path]) -> None:
    """Raise UsageError if two are the same file or folder, so that one would replace the other."""
    for (what, first), (other_what, second) in itertools.combinations(files.items(), 2):
        is_same = first.samefile(second) if first.exists() and second.exists() else resolved(first) == resolved(second)
        if is_same:
            raise UsageError(f"{second} is {what}; choose another name for {other_what}")


def _is_failed_write(error: Exception) -> bool:
    # safetensors and FAISS raise errors of their own, which only say in words that the disk is full.
    return isinstance(error, OSError) or (not isinstance(error, AlphitaError) and bool(FULL_DISK.search(str(error))))


def _not_written(target: Path, error: Exception, so_far: str = "nothing was changed") -> AlphitaError:
    named = str(getattr(error, "filename", None) or "")
    # The draft's own name means nothing to the user; another file's (an input that is gone) does.
    other = f": {named}" if named and not Path(named).name.endswith(".draft") and ".draft/" not in named else ""
    full_disk = FULL_DISK.search(str(error))
    # NumPy only counts the bytes that were not written.
    problem = full_disk[0] if full_disk else getattr(error, "strerror", None) or f"{error} (is the disk full?)"
    return AlphitaError(f"could not write {target}: {problem}{other}; {so_far}")


def _write_manifest(draft: Draft, kind: str) -> dict[str, Any]:

    if taken := sorted(draft.fields.keys() & set(RESERVED)):
        raise ValueError(f"the manifest's own fields cannot be given: {taken}")
    # One copied along from another artefact is about to be replaced.
    (draft.path / MANIFEST).unlink(missing_ok=True)
    files = {
        file.relative_to(draft.path).as_posix(): {"sha256": hash_file(file), "size": file.stat().st_size}
        for file in sorted(draft.path.rglob("*"))
        if file.is_file()
    }
    manifest: dict[str, Any] = {"kind": kind, "format_version": FORMAT_VERSION, **draft.fields, "files": files}
    manifest["content_hash"] = _content_hash(manifest)
    # Time and command say how it came to be, not what it is: they stay out of the content hash.
    manifest |= {
        "alphita_version": __version__,
        "created": clock.now().isoformat(timespec="seconds"),
        "command": machine.command(),
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    # A file name that is not UTF-8 reaches us as lone surrogates; escaped by a backslash they are JSON's own escapes.
    (draft.path / MANIFEST).write_bytes(text.encode("utf-8", errors="backslashreplace"))
    return manifest


def _content_hash(manifest: dict[str, Any]) -> str:
    return hash_json(
        {
            "kind": manifest["kind"],
            "format_version": manifest["format_version"],
            "files": {name: facts["sha256"] for name, facts in manifest["files"].items()},
        }
    )


# The code that decides an answer, from the row that is read to what is written, and that which decides trained weights.
ANSWERING = (
    *("annotation", "answer", "calibrate", "encoder", "index", "jobs", "mappings", "mention", "review", "terminology"),
    *("machine.py", "textio.py", "workbooks.py"),
)
_LEARNING = ("encoder", "graph", "objectives", "recipes", "training", "verbalisation")
TRAINING = ("encoder", "index", "terminology", *(f"../alphita_lab/{room}" for room in _LEARNING))


def build(parts: tuple[str, ...] = ANSWERING) -> str:
    """Return the version with the hash of the code that decides a result: a job goes on with the same one only."""
    return f"{__version__}+{code_hash(*parts)[:12]}"


def other_build(begun: Mapping[str, Any], parts: tuple[str, ...]) -> str:
    """Return what to say of long work that was begun by another build, which its note names; "" if it was this one."""
    before, now = begun.get("build"), build(parts)
    if before == now:
        return ""
    return (
        f"begun by alphita {before or 'of an earlier build'}, gone on with by {now}: start again for one of this alone"
    )


@functools.cache
def code_hash(*parts: str) -> str:
    """Return the hash of the code that makes what a cache keeps: two builds of one version may make two things."""
    root = Path(__file__).resolve().parent
    files = sorted(
        file
        for part in parts
        for file in ([root / part] if (root / part).is_file() else (root / part).resolve().rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )
    return hash_json([[file.relative_to(root.parent).as_posix(), hash_file(file)] for file in files])
