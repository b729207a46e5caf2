"""The token ids of many strings, end to end: made once, kept in the cache folder, memory-mapped."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, clock, machine

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

AT_ONCE = 65_536
# Fewer strings are tokenized anew each time, in a second or two.
MIN_CACHED = 100_000
TABLES_KEPT = 8


class TokenTable:
    """The token ids of n strings.

    Attributes:
        ids: (tokens,) int32.
        offsets: (n + 1,) int64; string i has the ids offsets[i] up to offsets[i + 1].
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self.offsets) - 1

    def rows(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of some strings, end to end, and the length of each.

        Args:
            rows: (m,) numbers of strings.

        Returns:
            (tokens,) int64 and (m,) int64.
        """
        starts = self.offsets[rows]
        lengths = self.offsets[np.asarray(rows) + 1] - starts
        before = np.cumsum(lengths) - lengths
        places = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
        return self.ids[places].astype(np.int64), lengths


def tokenize(encoder: TermEncoder, strings: Sequence[str]) -> TokenTable:
    """Return the token ids of `strings`, from the cache if they were made before."""
    if len(strings) < MIN_CACHED:
        return TokenTable(*_make(encoder, strings))
    digest = hashlib.sha256()
    for start in range(0, len(strings), AT_ONCE):
        digest.update("\0".join(strings[start : start + AT_ONCE]).encode("utf-8", "surrogatepass") + b"\1")
    code = artefact.code_hash("encoder")
    key = artefact.hash_json([code, encoder.tokenizer_hash, encoder.max_length, digest.hexdigest()])
    folder = machine.cache_dir() / "tokens" / key[:32]
    table = _stored(folder, len(strings))
    if table is None:
        made = _make(encoder, strings)
        with contextlib.suppress(OSError):
            _store(folder, *made)
        table = _stored(folder, len(strings)) or TokenTable(*made)
    with contextlib.suppress(OSError):
        clock.mark(folder)
    return table


def _stored(folder: Path, strings: int) -> TokenTable | None:
    """Return the table in a folder, mapped; None where there is none, and none is left where it is not whole."""
    try:
        ids, offsets = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets"))
        if len(offsets) == strings + 1 and offsets[-1] == len(ids):
            return TokenTable(ids, offsets)
    except (OSError, ValueError, EOFError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _make(encoder: TermEncoder, strings: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    parts, lengths = [], []
    for start in range(0, len(strings), AT_ONCE):
        block = encoder.tokenize(strings[start : start + AT_ONCE])
        lengths.append(np.fromiter(map(len, block), np.int64, len(block)))
        parts.append(np.fromiter((token for row in block for token in row), np.int32, int(lengths[-1].sum())))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
    return np.concatenate([*parts, np.empty(0, np.int32)]), offsets.astype(np.int64)


def _store(folder: Path, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
    """Write a table whole, and drop the tables that were not used for longest."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=machine.cache_folder("tokens")))
    np.save(aside / "ids.npy", ids, allow_pickle=False)
    np.save(aside / "offsets.npy", offsets, allow_pickle=False)
    try:
        aside.rename(folder)
    except OSError:
        # Another process was quicker.
        shutil.rmtree(aside, ignore_errors=True)
    # This one is the newest, whatever the clock says that it was when the others were used.
    tables = sorted(
        (path for path in folder.parent.iterdir() if not path.name.startswith(".") and path != folder),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for old in tables[TABLES_KEPT - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
