"""What follows from an index alone and takes long to find: kept in the cache, under the hash of the index and the code.

    derived/HASH.npz       arrays by name, for large indexes only

A cache that cannot be read or written only costs the time to find it again.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, machine
from alphita.index.segment import Segment

FOLDER = "derived"
# Smaller indexes are read as quickly.
FROM_STRINGS = 20_000
Arrays = Mapping[str, NDArray[Any]]


def kept(segment: Segment, name: str, code: tuple[str, ...], find: Callable[[], Arrays]) -> Arrays:
    """Return what `find` returns, found once for each index.

    Args:
        segment: of the index from which it follows.
        name: what it is.
        code: the files and packages of Alphita that find it; if they change, it is found again.
        find: returns arrays of numbers or of strings.
    """
    if len(segment.strings) < FROM_STRINGS or not segment.index_hash:
        return find()
    key = artefact.hash_json([name, segment.index_hash, artefact.code_hash(*code), np.__version__])
    path = machine.cache_dir() / FOLDER / f"{key[:32]}.npz"
    with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile), np.load(path, allow_pickle=False) as file:
        return dict(file)
    found = find()
    with contextlib.suppress(OSError):
        machine.cache_folder(FOLDER)
        with artefact.atomic_file(path, private=True) as file:
            np.savez(file, **dict(found))  # type: ignore[arg-type]
    return found
