"""Reliability of confidences: figures of their calibration, each with an interval, and a plot.

Expected calibration error is the mean distance between confidence and share right over bins (Naeini et al. 2015). The
headline has 15 bins of equal mass: where confidences crowd near 1, most bins of equal width are nearly empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.calibrate.risk_coverage import Bool, Drawing, Float, clopper_pearson

Equal = Literal["mass", "width"]

# The least probability of which the logarithm is computed.
MIN_PROBABILITY = 1e-15
BINS = 15
RESAMPLES = 1000


class Bin(NamedTuple):
    """Answers of similar confidence: a row of the reliability table.

    `right` is the share of them that are right, `low` and `high` its 95% Clopper-Pearson interval.
    """

    least: float
    greatest: float
    answers: int
    confidence: float
    right: float
    low: float
    high: float


def reliability(confidence: Float, right: Bool, bins: int = BINS, *, equal: Equal = "mass") -> list[Bin]:
    """Return the non-empty bins, from low to high confidence."""
    table = []
    place = _places(confidence, bins, equal)
    for number in np.unique(place).tolist():
        own, hits = confidence[place == number], right[place == number]
        low, high = clopper_pearson(int(hits.sum()), len(hits))
        ends = float(own.min()), float(own.max())
        table.append(Bin(*ends, len(own), float(own.mean()), float(hits.mean()), low, high))
    return table


def expected_calibration_error(confidence: Float, right: Bool, bins: int = BINS, *, equal: Equal = "mass") -> float:
    """Return the mean over the answers of |mean confidence - share right| of their bin; bins as in `reliability`."""
    counts, gaps = _gaps(confidence, right, bins, equal)
    return float((counts * gaps).sum() / counts.sum())


def maximum_calibration_error(confidence: Float, right: Bool, bins: int = BINS, *, equal: Equal = "mass") -> float:
    """Return the greatest |mean confidence - share right| of a bin; bins as in `reliability`."""
    return float(_gaps(confidence, right, bins, equal)[1].max())


def brier(confidence: Float, right: Bool) -> float:
    """Return the mean of (confidence - right)^2."""
    return float(np.mean((confidence - right) ** 2))


def log_loss(confidence: Float, right: Bool) -> float:
    """Return the mean -log p, p the confidence in the actual outcome, at least `MIN_PROBABILITY`."""
    return float(-np.log(np.maximum(np.where(right, confidence, 1 - confidence), MIN_PROBABILITY)).mean())


def auroc(score: Float, right: Bool) -> float:
    """Return P(a right answer has a higher score than a wrong one), ties counting half; NaN without either."""
    from scipy.stats import rankdata

    hits = int(right.sum())
    pairs = hits * (len(right) - hits)
    # Mann and Whitney's U.
    return float((rankdata(score)[right].sum() - hits * (hits + 1) / 2) / pairs) if pairs else float("nan")


STATISTICS: dict[str, Callable[[Float, Bool], float]] = {
    "expected_calibration_error": expected_calibration_error,
    "expected_calibration_error_equal_width": lambda c, r: expected_calibration_error(c, r, equal="width"),
    "maximum_calibration_error": maximum_calibration_error,
    "brier": brier,
    "log_loss": log_loss,
    "auroc": auroc,
}


def figures(confidence: Float, right: Bool, *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Return n (above 0), the share right, the mean confidence, and every figure with its 95% interval, as JSON."""
    if not len(right):
        raise ValueError("no answers to measure")
    order = np.argsort(confidence, kind="stable")
    c, r = np.asarray(confidence, np.float64)[order], np.asarray(right, bool)[order]
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(STATISTICS)))
    for number in range(resamples):
        # A sample repeated in order is already sorted, which makes sorting for each figure fast.
        rows = np.repeat(np.arange(len(c)), np.bincount(rng.integers(0, len(c), len(c)), minlength=len(c)))
        drawn[number] = [statistic(c[rows], r[rows]) for statistic in STATISTICS.values()]
    found: dict[str, Any] = {"n": len(c), "right": float(r.mean()), "mean_confidence": float(c.mean()), "bins": BINS}
    for column, (name, statistic) in enumerate(STATISTICS.items()):
        value = statistic(c, r)
        defined = drawn[:, column][np.isfinite(drawn[:, column])]
        ends = np.quantile(defined, [0.025, 0.975]).tolist() if np.isfinite(value) and len(defined) else [None, None]
        found[name] = {"value": value if np.isfinite(value) else None, "low": ends[0], "high": ends[1]}
    return found


def reliability_svg(confidence: Float, right: Bool) -> str:
    """Return the reliability plot as an SVG file: share right over confidence, in bins of equal mass."""
    table = reliability(confidence, right)
    error = expected_calibration_error(confidence, right)
    drawing = Drawing(
        "Reliability",
        f"expected calibration error {100 * error:.1f}%, {len(right):,} answers in {BINS} bins of equal mass",
        x_label="confidence",
        y_label="share right",
    )
    drawing.line([(0, 0), (1, 1)], "perfect", colour="var(--s1)", dashes="6 3")
    drawing.dots(
        [(row.confidence, row.right) for row in table],
        [(row.low, row.high) for row in table],
        [
            f"{row.answers:,} answers of confidence {row.least:.3f} to {row.greatest:.3f}: {100 * row.right:.1f}% right"
            for row in table
        ],
        "measured, with 95% interval",
    )
    return drawing.svg()


def _places(confidence: Float, bins: int, equal: Equal) -> NDArray[np.int64]:
    """Return the bin of each answer."""
    if equal == "width":
        return np.minimum((confidence * bins).astype(np.int64), bins - 1)
    from scipy.stats import rankdata

    # The position of ties is their mean rank - 1/2; computed in integers, to be the same on all machines.
    twice = (2 * rankdata(confidence) - 1).astype(np.int64)
    return twice * bins // (2 * len(confidence))


def _gaps(confidence: Float, right: Bool, bins: int, equal: Equal) -> tuple[NDArray[np.int64], Float]:
    """Return the count and |mean confidence - share right| of each non-empty bin."""
    place = _places(confidence, bins, equal)
    counts = np.bincount(place, minlength=bins)
    sums = np.bincount(place, confidence - right, minlength=bins)
    filled = counts > 0
    return counts[filled], np.abs(sums[filled]) / counts[filled]
