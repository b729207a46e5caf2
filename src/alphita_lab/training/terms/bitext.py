"""Mining translations: mutual nearest neighbours by margin (Artetxe and Schwenk, ACL 2019, §3.1).

With NN_k(x) the k strings of the other language nearest to x,

    m(x, y) = [ sum_{z in NN_k(x)} cos(x, z) + sum_{z in NN_k(y)} cos(y, z) ] / 2k
    margin(x, y) = cos(x, y) / m(x, y)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.index.backends import faiss as exact
from alphita.index.neighbours import nearest, unit
from alphita.terminology.text import clean
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, Collected
from alphita_lab.training.terms.mining import Encoder

QUERIES_AT_ONCE = 4096
ORIGIN = "mined"
Float32 = NDArray[np.float32]


def mine(
    source_vectors: Float32, target_vectors: Float32, *, k: int = 4, threshold: float = -np.inf
) -> tuple[NDArray[np.int64], Float32]:
    """Return the mutual nearest neighbours by margin. All vectors are compared, some thousands at a time.

    Args:
        source_vectors: (n, d) float32, of any length: cosines are taken.
        target_vectors: (m, d) float32.

    Returns:
        (p, 2) int64 rows of source and target, each in one pair at most, in the order of the source, and (p,) float32
    """
    if not len(source_vectors) or not len(target_vectors):
        return np.empty((0, 2), np.int64), np.empty(0, np.float32)
    source, target = unit(source_vectors), unit(target_vectors)
    forward, forward_rows = _neighbours(source, target, k)
    backward, backward_rows = _neighbours(target, source, k)
    source_mean, target_mean = forward.mean(1), backward.mean(1)
    to_target = _margins(forward, (source_mean[:, None] + target_mean[forward_rows]) / 2)
    to_source = _margins(backward, (target_mean[:, None] + source_mean[backward_rows]) / 2)
    n = np.arange(len(source))
    best = to_target.argmax(1)
    margins, found = to_target[n, best], forward_rows[n, best]
    back = backward_rows[np.arange(len(target)), to_source.argmax(1)]
    kept = (back[found] == n) & (margins >= threshold) & (margins > -np.inf)
    return np.stack([n[kept], found[kept]], axis=1), margins[kept]


def mine_strings(
    encoder: Encoder,
    sources: Sequence[str],
    targets: Sequence[str],
    language: str,
    *,
    source_language: str = "en",
    k: int = 4,
    threshold: float = -np.inf,
    exclude: frozenset[str] = frozenset(),
) -> tuple[AlignedPairs, Float32]:
    """Mine pairs of strings, cleaned, each once, with the checks that all aligned pairs go through."""
    written = [_distinct(strings, exclude) for strings in (sources, targets)]
    vectors = [encoder.encode(list(strings)) for strings in written]
    rows, margins = mine(*vectors, k=k, threshold=threshold)
    originals = [list(strings.values()) for strings in written]
    collected = Collected(source_language)
    kept = []
    for place in np.argsort(-margins, kind="stable").tolist():
        source, target = rows[place].tolist()
        if collected.add(originals[0][source], originals[1][target], language, origin=ORIGIN) is None:
            kept.append(place)
    return collected.pairs(), margins[np.array(kept, np.int64)]


def _neighbours(queries: Float32, among: Float32, k: int) -> tuple[Float32, NDArray[np.int64]]:
    """Return the cosines and rows of each query's nearest, (q, min(k, n)) each, nearest first."""
    backend = exact.attach(among)
    blocks = (queries[start : start + QUERIES_AT_ONCE] for start in range(0, len(queries), QUERIES_AT_ONCE))
    similarity, rows = zip(*(nearest(backend, among.shape, block, k) for block in blocks), strict=True)
    return np.concatenate(similarity), np.concatenate(rows)


def _margins(cosines: Float32, means: Float32) -> Float32:
    """Return the margin of each cosine against the mean of its neighbourhoods, same shapes."""
    return np.where(means > 0, cosines / np.where(means > 0, means, 1), -np.inf).astype(np.float32)


def _distinct(strings: Sequence[str], exclude: frozenset[str]) -> dict[str, str]:
    """Return each distinct cleaned string with how it is first written."""
    written: dict[str, str] = {}
    for string in strings:
        cleaned = clean(string)
        if cleaned and cleaned not in exclude:
            written.setdefault(cleaned, string)
    return written
