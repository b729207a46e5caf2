"""Where a store may lie: a file of one's own on a disk of this machine.

SQLite's write-ahead log needs memory that all writers share, which no network share has: a store there loses decisions
without a word.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from alphita.errors import InputError

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "panfs",
        "pvfs2",
        "smb3",
        "smbfs",
        "fuse.blobfuse",
        "fuse.blobfuse2",
        "fuse.ceph",
        "fuse.curlftpfs",
        "fuse.davfs2",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
    }
)
# Files that SQLite keeps beside the store.
BESIDE = ("-wal", "-shm")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: Path) -> str:
    """Return the type of the file system that `path` lies (or would lie) on: "ext4", "nfs4", ...; "" if unknown."""
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    best, found = -1, ""
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        if len(fields.split(" ")) < 5 or not rest:
            continue
        point = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4]))
        # Of two mounts on one point, the later hides the earlier.
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, found = len(point.parts), rest.split(" ")[0]
    return found


def check(path: Path, *, create: bool) -> None:
    """See that `path` is a file that a store can be in, or become; make it, empty and private, where that is wanted."""
    check_folder(path)
    if not path.exists():
        if not create:
            raise InputError("no such review store", file=path)
        _make(path)
    if not path.is_file():
        raise InputError("not a plain file", file=path)
    for one in (path, path.parent):
        _check_writable(one)
    make_private(path)


def check_folder(path: Path) -> None:
    """See that a store can be, or could be made, where `path` is."""
    if path.is_dir():
        raise InputError("a directory, not a review store", file=path, remedy="name a file in it")
    if not path.parent.is_dir():
        raise InputError("its folder does not exist", file=path)
    if file_system(path).lower() in NETWORK:
        raise InputError(
            f"on a network share ({file_system(path)}), where decisions could be lost",
            file=path,
            remedy="keep the store on a disk of this machine, and let others use it through `alphita serve`",
        )
    if not path.exists():
        _check_writable(path.parent)


def _check_writable(path: Path) -> None:
    if not _may_write(path):
        raise InputError("read-only", file=path, remedy="a review store and its folder must be writable for this user")


def make_private(path: Path) -> None:
    """Let only its owner read a store; SQLite gives the files beside it the same mode."""
    for one in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        with contextlib.suppress(OSError):
            if one.stat().st_mode & 0o077:
                one.chmod(0o600)


def _make(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", file=path) from None


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
