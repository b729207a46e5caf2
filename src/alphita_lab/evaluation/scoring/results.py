"""What a benchmark measured: one row a query, metrics over the rows, figures with their intervals; and accuracy@k."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

Gold = str | Collection[str] | None
# Resamples drawn at once: 8 M numbers of 8 bytes.
NUMBERS_AT_ONCE = 8_000_000


def accuracy_at_k(rankings: Sequence[Sequence[str | None]], gold: Sequence[Gold], k: int) -> NDArray[np.bool_]:
    """Tell of each query whether it is right within `k`; the mean is accuracy@k.

    Returns:
        (n,) bool.
    """
    if len(rankings) != len(gold):
        raise ValueError(f"{len(rankings)} rankings for {len(gold)} gold answers")
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    right = np.zeros(len(gold), dtype=bool)
    for number, (ranking, answer) in enumerate(zip(rankings, gold, strict=True)):
        if answer is None:
            right[number] = not ranking or ranking[0] is None
        elif isinstance(answer, str):
            right[number] = answer in ranking[:k]
        elif not answer:
            raise ValueError(f"query {number} has no gold concept; NIL is None")
        else:
            right[number] = any(concept in answer for concept in ranking[:k] if concept is not None)
    return right


def score(
    rankings: Sequence[Sequence[str | None]], gold: Sequence[Gold], *, ks: Sequence[int] = (1, 3, 5), seed: int = 0
) -> dict[str, Any]:
    """Return n, accuracy@k and its 95% interval for each k, as fractions: `acc1`, `acc1_interval`, ..."""
    figures: dict[str, Any] = {"n": len(gold)}
    for k in ks:
        right = accuracy_at_k(rankings, gold, k)
        figures[f"acc{k}"] = float(right.mean())
        figures[f"acc{k}_interval"] = list(bootstrap_interval(right, seed=seed))
    return figures


def bootstrap_interval(values: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Return the 95% percentile bootstrap interval of the mean of values (n,), e.g. one figure per query."""
    sample = _sample(values)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    block = max(1, NUMBERS_AT_ONCE // len(sample))
    for start in range(0, resamples, block):
        drawn = rng.integers(0, len(sample), (min(block, resamples - start), len(sample)))
        means[start : start + len(drawn)] = sample[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    return float(low), float(high)


def _sample(values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"needs one figure per query and at least one query, not an array of shape {sample.shape}")
    return sample


ALL = "all"
# Resamples of a statistic that is not a mean, and so is worked out anew for each.
RESAMPLES = 1000
# Numbers drawn for the interval of a mean at most; more queries are resampled fewer times, never under 1,000.
MEAN_DRAWS = 20_000_000
# Columns that tell what was asked; where two results have them, they must be the same.
ASKED = ("query", "mention", "gold")

Statistic = Callable[[NDArray[np.float64]], float]


def mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the first column."""
    return float(values[:, 0].mean())


def macro_f1(values: NDArray[np.float64]) -> float:
    """Return the mean F1 of the classes, from columns gold and predicted class number."""
    gold, predicted = values.astype(np.int64).T
    size = int(values.max()) + 1
    right = np.bincount(gold[gold == predicted], minlength=size)
    both = np.bincount(gold, minlength=size) + np.bincount(predicted, minlength=size)
    return float((2 * right[both > 0] / both[both > 0]).mean())


@dataclass(frozen=True)
class Metric:
    """One measure over the rows of a result.

    Attributes:
        name: as reports print it, e.g. "accuracy@1", "Spearman".
        columns: the columns of the rows that it is worked out from.
        statistic: (n, len(columns)) float64 -> a number; the mean of the column by default.
        higher_is_better: False where small is good (a mean rank).
        fraction: whether it lies in 0 to 1 and is printed as a percentage.
    """

    name: str
    columns: tuple[str, ...]
    statistic: Statistic = mean
    higher_is_better: bool = True
    fraction: bool = True


@dataclass(frozen=True)
class Figure:
    """One number of a report.

    Attributes:
        metric: the metric's name.
        subset: which rows: "all", or "column=value", e.g. "language=it".
        value: the number; None where it is not defined (no rows, a constant).
        n: rows it was worked out from.
        low: low end of the 95% bootstrap interval over rows; None where there is none.
        high: high end.
    """

    metric: str
    subset: str
    value: float | None
    n: int
    low: float | None = None
    high: float | None = None


@dataclass
class Result:
    """What one system did on one benchmark.

    Attributes:
        rows: one row a query (or pair, concept, triple, ...), in the order of the data, whatever the system, for two
            systems are compared row by row. Metric columns hold numbers (bool, int or float; null: the system gave no
            answer to score); the others tell what was asked and answered.
        metrics: the measures over the rows, the main one first.
        subsets: columns of `rows` by whose values figures are broken down; a row whose value is null is in none.
        figures: figures that are not statistics of rows, e.g. a best threshold.
        notes: counts and facts that a reader must know: coverage of the gold, what was left out and why, ties, the
            share of strings that a system cannot represent.
        curves: name -> (x, y) points of a curve, e.g. a threshold sweep, for the plots.
        tables: title -> a small table to be read by eye, printed as it is.
        histograms: name of the axis -> (n + 1 edges, label -> n counts).
    """

    rows: pl.DataFrame
    metrics: tuple[Metric, ...]
    subsets: tuple[str, ...] = ()
    figures: list[Figure] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    histograms: dict[str, tuple[Sequence[float], Mapping[str, Sequence[int]]]] = field(default_factory=dict)


def figures_of(result: Result, *, seed: int = 0) -> list[Figure]:
    """Return every metric over all rows and over each subset, with intervals, then the result's own figures."""
    figures = []
    for subset, rows in _parts(result):
        figures += [_figure(metric, subset, rows, seed) for metric in result.metrics]
    return figures + result.figures


def _parts(result: Result) -> list[tuple[str, pl.DataFrame]]:
    parts = [(ALL, result.rows)]
    for column in result.subsets:
        values = result.rows[column].drop_nulls().unique().sort().to_list()
        parts += [(f"{column}={value}", result.rows.filter(pl.col(column) == value)) for value in values]
    return parts


def _figure(metric: Metric, subset: str, rows: pl.DataFrame, seed: int) -> Figure:
    values = scored(metric, rows)
    value, interval = statistic_with_interval(metric.statistic, values, seed=seed)
    low, high = interval or (None, None)
    return Figure(metric.name, subset, value, len(values), low, high)


def scored(metric: Metric, rows: pl.DataFrame) -> NDArray[np.float64]:
    """Return the numbers of the metric's columns, (n, columns); rows in which one is missing are left out."""
    columns = [pl.col(name).cast(pl.Float64) for name in metric.columns]
    return rows.select(columns).drop_nulls().drop_nans().to_numpy().astype(np.float64)


def statistic_with_interval(
    statistic: Statistic, values: NDArray[np.float64], *, seed: int = 0
) -> tuple[float | None, tuple[float, float] | None]:
    """Return a statistic and its 95% percentile bootstrap interval over rows.

    Args:
        statistic: (n, c) -> a number.
        values: (n, c) float64.
    """
    if not len(values):
        return None, None
    value = statistic(values)
    if not np.isfinite(value):
        return None, None
    if len(values) == 1:
        return value, None
    if statistic is mean:
        resamples = int(np.clip(MEAN_DRAWS // len(values), 1000, 10_000))
        return value, bootstrap_interval(values[:, 0], resamples=resamples, seed=seed)
    rng = np.random.default_rng(seed)
    drawn = np.array([statistic(values[rng.integers(0, len(values), len(values))]) for _ in range(RESAMPLES)])
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < RESAMPLES / 2:
        return value, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return value, (float(low), float(high))


def compare(ours: Result, theirs: Result, *, seed: int = 0) -> list[dict[str, Any]]:
    """Return how far one system is above another in every metric over all rows, by paired bootstrap over rows."""
    if len(ours.rows) != len(theirs.rows):
        raise ValueError(f"the systems answered different queries: {len(ours.rows)} and {len(theirs.rows)}")
    for name in ASKED:
        if name in ours.rows.columns and name in theirs.rows.columns and not ours.rows[name].equals(theirs.rows[name]):
            raise ValueError(f"the systems answered different queries: {name!r} differs")
    shared = {metric.name for metric in theirs.metrics}
    return [_paired(metric, ours.rows, theirs.rows, seed) for metric in ours.metrics if metric.name in shared]


def _paired(metric: Metric, ours: pl.DataFrame, theirs: pl.DataFrame, seed: int) -> dict[str, Any]:
    columns = [pl.col(name).cast(pl.Float64) for name in metric.columns]
    left, right = (frame.select(columns).to_numpy().astype(np.float64) for frame in (ours, theirs))
    both = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    left, right = left[both], right[both]
    empty: dict[str, Any] = {"metric": metric.name, "difference": None, "low": None, "high": None, "p": None, "n": 0}
    if not len(left):
        return empty
    statistic = metric.statistic
    value = statistic(left) - statistic(right)
    if not np.isfinite(value):
        return empty
    if len(left) == 1:
        # One row drawn again and again has no spread; that tells nothing.
        return empty | {"difference": float(value), "n": 1}
    rng = np.random.default_rng(seed)
    draws = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        rows = rng.integers(0, len(left), len(left))
        draws[number] = statistic(left[rows]) - statistic(right[rows])
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return empty
    low, high = np.quantile(draws, [0.025, 0.975])
    least = (min((draws <= 0).sum(), (draws >= 0).sum()) + 1) / (len(draws) + 1)
    return {
        "metric": metric.name,
        "difference": float(value),
        "low": float(low),
        "high": float(high),
        "p": float(min(1.0, 2 * least)),
        "n": len(left),
    }


def merge_notes(*notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes of several parts as one: numbers are added, other values are listed where they differ."""
    gathered: dict[str, list[Any]] = {}
    for part in notes:
        for name, value in part.items():
            gathered.setdefault(name, []).append(value)
    return {name: _merged(values) for name, values in gathered.items()}


def _merged(values: Sequence[Any]) -> Any:  # noqa: ANN401 - any JSON value
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return sum(values)
    distinct = [value for number, value in enumerate(values) if value not in values[:number]]
    return distinct[0] if len(distinct) == 1 else "; ".join(map(str, distinct))
