"""Which strings an encoder was trained on, where it came with a list of them: nothing may be measured on these.

The list is one file in the model's folder, a number of 32 bits for each string: of a string that is not among them one
in some thousands is taken for one that is.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita import artefact

FILE = "learned.npy"


def write(folder: Path, strings: Iterable[str]) -> None:
    """Note in a model's folder that it was trained on these cleaned strings."""
    with artefact.atomic_file(folder / FILE) as file:
        np.save(file, np.unique(_numbers(list(strings))))


def copy(source: Path, folder: Path) -> None:
    """Copy the list of one model's folder, if there is one, into another's."""
    if is_told(source) and source.resolve() != folder.resolve():
        shutil.copyfile(source / FILE, folder / FILE)


def is_told(folder: Path) -> bool:
    """Tell whether the model of a folder has a list."""
    return (folder / FILE).is_file()


def has_learned(folder: Path, strings: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which cleaned strings the model of a folder was trained on, (n,); none where it has no list."""
    if not is_told(folder):
        return np.zeros(len(strings), bool)
    return np.isin(_numbers(strings), np.load(folder / FILE, allow_pickle=False))


def _numbers(strings: Sequence[str]) -> NDArray[np.uint32]:
    return np.fromiter(
        (zlib.crc32(string.encode("utf-8", "surrogatepass")) for string in strings), np.uint32, len(strings)
    )
