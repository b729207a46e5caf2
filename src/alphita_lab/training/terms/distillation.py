"""Targets of self-distillation (BioLORD-2023, Remy et al. 2024, "Self-distillation phase"), and the head to meet them.

For concept i, with a the contrastive model's vector of its name and b that of its text, both at length 1:

    z_i = (a_i + b_i) / 2, or a_i where the concept has no text
    C = 1/(n - 1) sum_i (z_i - mu) (z_i - mu)^T,   mu = 1/n sum_i z_i
    t_i = V^T (z_i - mu),   V the k eigenvectors of C with the greatest eigenvalues
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError
from alphita_lab.training.engine import runs
from alphita_lab.training.terms.batches import Batch
from alphita_lab.training.terms.samplers import EpochWalk

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

Float64 = NDArray[np.float64]
# Concepts read at once: 50 MB of float64 at 768 numbers a vector.
BLOCK = 8192


@dataclass(frozen=True)
class Targets:
    """What a name or text of each concept is to be projected onto."""

    values: NDArray[np.float32]  # (n, k) float32
    components: Float64  # (k, d) float64, rows of length 1 at right angles, the greatest share of the variance first
    mean: Float64  # (d,) float64, taken off before projection
    explained: Float64  # (k,) float64, the share of the variance along each component, 0 to 1


def targets(
    names: NDArray[np.floating[Any]],
    texts: NDArray[np.floating[Any]],
    has_text: NDArray[np.bool_] | None = None,
    *,
    dim: int = 64,
    block: int = BLOCK,
) -> Targets:
    """Return the targets of n concepts.

    Args:
        names: (n, d) the contrastive model's vector of each concept's name, of any length but 0.
        texts: (n, d) that of its text.
        has_text: (n,) whether the concept has a text.
    """
    has = np.ones(len(names), bool) if has_text is None else has_text
    n, d = names.shape
    if n <= dim:
        raise InputError(
            f"{n} concepts are too few for targets of {dim} numbers", remedy="take more concepts, or smaller targets"
        )
    mean = np.zeros(d)
    for _, mixed in _mixed(names, texts, has, block):
        mean += mixed.sum(0)
    mean /= n
    covariance = np.zeros((d, d))
    for _, mixed in _mixed(names, texts, has, block):
        mixed -= mean
        covariance += mixed.T @ mixed
    covariance /= n - 1
    total = float(np.trace(covariance))
    if total <= d * np.finfo(np.float64).eps:
        raise InputError("the vectors of all concepts are equal, so there is nothing to distil")
    # Ascending; what is below 0 is rounding.
    variances, vectors = np.linalg.eigh(covariance)
    components = vectors[:, ::-1][:, :dim].T
    # An eigenvector and its opposite serve alike: one of them is chosen.
    furthest = np.abs(components).argmax(1)
    components = components * np.sign(components[np.arange(dim), furthest])[:, None]
    values = np.empty((n, dim), np.float32)
    for start, mixed in _mixed(names, texts, has, block):
        values[start : start + len(mixed)] = (mixed - mean) @ components.T
    return Targets(values, components, mean, variances[::-1][:dim].clip(min=0) / total)


def _mixed(
    names: NDArray[np.floating[Any]], texts: NDArray[np.floating[Any]], has: NDArray[np.bool_], block: int
) -> Iterator[tuple[int, Float64]]:
    """Yield z block by block: the first concept, and the (b, d) rows."""
    for start in range(0, len(names), block):
        part = slice(start, start + block)
        mixed = _unit(names[part], np.arange(start, start + len(names[part])), "name")
        told = np.flatnonzero(has[part])
        if len(told):
            mixed[told] += _unit(texts[part][told], start + told, "text")
            mixed[told] /= 2
        yield start, mixed


def _unit(vectors: NDArray[np.floating[Any]], rows: NDArray[np.int64], what: str) -> Float64:
    exact = np.array(vectors, np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    if bad.any():
        row = int(rows[np.flatnonzero(bad)[0]])
        raise InputError(
            f"the vector of a {what} is 0 or not finite", field=f"concept {row}", remedy="encode names and texts anew"
        )
    exact /= lengths[:, None]
    return exact


class ProjectionHead(torch.nn.Module):
    """A linear layer from an encoder's vectors to targets.

    Randomly initialised, as the paper's, weights and bias are uniform between -1 / sqrt(d) and 1 / sqrt(d), as in
    torch's own linear layers; the seed is then what tells runs apart. `start_from` puts it where the teacher's is.
    """

    def __init__(self, dim: int, outputs: int = 64, *, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        bound = 1 / math.sqrt(dim)
        self.weight = torch.nn.Parameter(torch.empty(outputs, dim).uniform_(-bound, bound, generator=random))
        self.bias = torch.nn.Parameter(torch.empty(outputs).uniform_(-bound, bound, generator=random))

    def forward(self, e: torch.Tensor) -> torch.Tensor:
        """Return W e + b of the vectors `e` (n, d), as the encoder gives them, as (n, k) float32."""
        with torch.autocast(e.device.type, enabled=False):
            return torch.nn.functional.linear(e.to(self.weight.dtype), self.weight, self.bias)

    def start_from(self, made: Targets) -> None:
        """Start as the projection that made the targets: W = V^T, b = -V^T mu."""
        if made.components.shape != self.weight.shape:
            raise InputError(
                f"the teacher's vectors have {made.components.shape[1]} numbers, the student's {self.weight.shape[1]}",
                field="head",
                value="teacher",
                remedy="set head=random, which needs no likeness of the two",
            )
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(np.array(made.components)))
            self.bias.copy_(torch.from_numpy(-(made.components @ made.mean)))


PARTS = ("values", "components", "mean", "explained")
AT_ONCE = 65_536


def mean_vectors(
    encoder: TermEncoder, strings: Sequence[str], owners: NDArray[np.integer[Any]], n: int, file: Path
) -> NDArray[np.float32]:
    """Return the mean of the vectors, each at length 1, of the strings of each of n owners.

    (n, d) float32; owners: (m,) whose each is, 0 to n - 1, ascending.
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
        """Take `owners`: (m,) the concept of each string, 0 to n - 1; `values`: (n, k) the concepts' targets."""
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
