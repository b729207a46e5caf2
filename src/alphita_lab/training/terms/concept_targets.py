"""The targets of self-distillation made with a teacher, and kept beside the run: a folder with values.npy (n, k),
components.npy (k, d), mean.npy (d,) and explained.npy (k,), as `distillation.Targets` has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError
from alphita_lab.training.engine import runs
from alphita_lab.training.terms.batches import Batch
from alphita_lab.training.terms.distillation import Targets, targets
from alphita_lab.training.terms.triples import EpochWalk

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

PARTS = ("values", "components", "mean", "explained")
AT_ONCE = 65_536


def mean_vectors(
    encoder: TermEncoder, strings: Sequence[str], owners: NDArray[np.integer[Any]], n: int, file: Path
) -> NDArray[np.float32]:
    """Return the mean of the vectors, each at length 1, of the strings of each of n owners.

    Args:
        owners: (m,) whose each is, 0 to n - 1, ascending.

    Returns:
        (n, d) float32.
    """
    found = np.lib.format.open_memmap(file, "w+", np.float32, (n, encoder.dim))
    counts = np.bincount(owners, minlength=n)
    with progress.bar("encoding", len(strings), "strings") as bar:
        for start in range(0, len(strings), AT_ONCE):
            vectors = encoder.encode(strings[start : start + AT_ONCE])
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            np.add.at(found, owners[start : start + AT_ONCE], vectors / np.maximum(lengths, np.float32(1e-12)))
            bar.advance(len(vectors))
    for start in range(0, n, AT_ONCE):
        found[start : start + AT_ONCE] /= np.maximum(counts[start : start + AT_ONCE, None], 1).astype(np.float32)
    return found


def make(
    folder: Path,
    encoder: TermEncoder,
    names: tuple[Sequence[str], NDArray[np.integer[Any]]],
    texts: tuple[Sequence[str], NDArray[np.integer[Any]]],
    n: int,
    *,
    dim: int,
    facts: Mapping[str, Any],
) -> None:
    """Make the targets of n concepts and keep them in `folder`, unless they are there."""
    facts = {**facts, "teacher": encoder.content_hash, "dim": dim}
    fingerprint = runs.fingerprint(facts)
    if folder.exists():
        if artefact.open_manifest(folder, "targets").get("fingerprint") != fingerprint:
            raise InputError(
                "these targets are of another teacher, terminology or config",
                file=folder,
                remedy="give what the run was started with, or start again with --force",
            )
        return
    if dim > encoder.dim:
        raise InputError(
            f"the teacher's vectors have {encoder.dim} numbers, fewer than the targets",
            field="dim",
            value=dim,
            remedy=f"set dim={encoder.dim} or less",
        )
    with artefact.create(folder, "targets") as draft:
        files = [draft.path / f"{part}.mean.npy" for part in ("names", "texts")]
        mean_names = mean_vectors(encoder, *names, n, files[0])
        mean_texts = mean_vectors(encoder, *texts, n, files[1])
        made = targets(mean_names, mean_texts, np.bincount(texts[1], minlength=n) > 0, dim=dim)
        for file in files:
            file.unlink()
        for part in PARTS:
            np.save(draft.path / f"{part}.npy", getattr(made, part), allow_pickle=False)
        draft.fields.update({**facts, "fingerprint": fingerprint})


class TargetBatches:
    """Batches of strings and the targets of their concepts, in shuffled epochs of the strings."""

    def __init__(self, owners: NDArray[np.integer[Any]], values: NDArray[np.float32], *, batch: int, seed: int) -> None:
        """Prepare to draw.

        Args:
            owners: (m,) the concept of each string, 0 to n - 1.
            values: (n, k) the concepts' targets.
        """
        self._owners, self._values = owners, values
        self._walk = EpochWalk(len(owners), batch, [seed, 13])

    def batch(self, number: int) -> Batch:
        """Return batch `number` (from 0); its arrays are place (n,), among its terms, and target (n, k)."""
        rows = self._walk.places(number)
        terms, place = np.unique(rows, return_inverse=True)
        return Batch(terms, {"place": place, "target": np.array(self._values[self._owners[rows]])}, rows=len(rows))


def read(folder: Path) -> Targets:
    """Return the targets kept in `folder`, as memory maps."""
    artefact.open_checked(folder, "targets")
    return Targets(*(np.load(folder / f"{part}.npy", mmap_mode="r") for part in PARTS))
