"""Scoring of similarity: a system's against people's, set by set; over several sets the mean of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.index.neighbours import unit
from alphita_lab.evaluation.scoring.results import Metric, Result

Correlation = Callable[[NDArray[np.float64], NDArray[np.float64]], float]


@dataclass(frozen=True)
class Pairs:
    """One set of n pairs with people's scores, higher is more alike, and the concept ids of both where it has them."""

    name: str
    left: Sequence[str]
    right: Sequence[str]
    gold: Sequence[float]
    concepts: Sequence[tuple[str | None, str | None]] | None = None
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        others = [self.right, self.gold, *self.columns.values(), *([] if self.concepts is None else [self.concepts])]
        if any(len(column) != len(self.left) for column in others):
            raise ValueError(f"the columns of {self.name} are not of one length")

    def __len__(self) -> int:
        return len(self.left)


def pearson(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the correlation of two rows of numbers, -1 to 1; NaN if one of them is constant or has one number."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    # Brought to about 1 first, so that squares neither overflow nor vanish.
    one, other = ((row - row.mean()) / np.ptp(row) for row in (first, second))
    return float(np.clip(one @ other / np.sqrt((one @ one) * (other @ other)), -1, 1))


def spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the rank correlation, -1 to 1; equal numbers share the mean of their ranks; NaN as `pearson`."""
    from scipy.stats import rankdata

    return pearson(rankdata(first), rankdata(second))


def mean_pearson(values: NDArray[np.float64]) -> float:
    """Return the mean over sets of `pearson`, of rows (gold, similarity, set number); see `_mean_over_sets`."""
    return _mean_over_sets(pearson, values)


def mean_spearman(values: NDArray[np.float64]) -> float:
    """Return the mean over sets of `spearman`, of rows (gold, similarity, set number); see `_mean_over_sets`."""
    return _mean_over_sets(spearman, values)


def _mean_over_sets(correlation: Correlation, values: NDArray[np.float64]) -> float:
    """Sets in which the correlation is not defined count for nothing; NaN if it is defined in none."""
    correlations = []
    for number in np.unique(values[:, 2]):
        rows = values[values[:, 2] == number]
        correlations.append(correlation(rows[:, 0], rows[:, 1]))
    defined = [value for value in correlations if np.isfinite(value)]
    return float(np.mean(defined)) if defined else float("nan")


def mean_of_names(vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the mean of the unit vectors of each concept's names, (n, d); NaN where no name of it has a vector.

    Args:
        vectors: (m, d) of the names, concept by concept; a row of NaN where the system has none.
        offsets: (n + 1,) where the names of each concept begin; each has one at least.
    """
    known = np.isfinite(vectors.sum(axis=1))
    vectors = unit(np.where(known[:, None], vectors, 0))
    counts = np.add.reduceat(known, offsets[:-1], dtype=np.float32)
    sums = np.add.reduceat(vectors, offsets[:-1], axis=0)
    return np.asarray(sums / np.where(counts > 0, counts, np.nan)[:, None], np.float32)


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the cosine of two vectors (d,); NaN if one holds NaN or is zero."""
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / length if length > 0 else float("nan")


COLUMNS = ("gold", "similarity", "set")
SPEARMAN = Metric("Spearman", COLUMNS, mean_spearman, fraction=False)
PEARSON = Metric("Pearson", COLUMNS, mean_pearson, fraction=False)


def result_of(
    sets: Sequence[Pairs],
    similarity: Sequence[NDArray[np.float32]],
    metrics: tuple[Metric, ...],
    *,
    subsets: Sequence[str] = (),
    notes: Mapping[str, Any] | None = None,
) -> Result:
    """Return the result of the sets."""
    frames = []
    for number, (pair_set, values) in enumerate(zip(sets, similarity, strict=True)):
        frames.append(
            pl.DataFrame(
                {
                    "dataset": [pair_set.name] * len(pair_set),
                    "set": np.full(len(pair_set), number),
                    "left": list(pair_set.left),
                    "right": list(pair_set.right),
                    "gold": np.asarray(pair_set.gold, np.float64),
                    "similarity": np.asarray(values, np.float64),
                    **{name: list(held) for name, held in pair_set.columns.items()},
                }
            ).with_columns(pl.col("similarity").fill_nan(None))
        )
    rows = pl.concat(frames, how="diagonal_relaxed").with_row_index("pair")
    missing = {pair_set.name: int(np.isnan(values).sum()) for pair_set, values in zip(sets, similarity, strict=True)}
    counted = {
        "pairs": len(rows),
        "pairs without an answer": sum(missing.values()),
        **{f"pairs without an answer in {name}": count for name, count in missing.items() if count and len(sets) > 1},
    }
    return Result(rows, metrics, ("dataset", *subsets), notes={**counted, **(notes or {})})
