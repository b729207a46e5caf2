"""Confidence: from evidence to the probability that an answer is right.

Two calibrators, both plain arrays:

    logistic   confidence = 1 / (1 + exp(-(w . (x - mean) / scale + b)))                         (Platt 1999)
    isotonic   the non-decreasing curve nearest to the share right, over a score                 (Zadrozny & Elkan 2002)

How far they can be believed is measured in `alphita.calibrate.reliability`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# The least probability that a logarithm is taken of.
TINY = 1e-15
FOLDS = 5
# The calibrator of every group that has none of its own.
COMMON = "all"
# A group (a language) has a calibrator of its own from so many right and so many wrong answers on: about 25 of the
# rarer outcome to each weight, where logistic regression begins to be dependable.
MIN_OF_EACH = 200
# Beyond these log-odds a float64 probability would soon be 0 or 1 itself.
MAX_LOG_ODDS = 30.0
MAX_STEPS = 100


def losses(confidence: Float, right: Bool) -> Float:
    """Return (n,) -log p, p the confidence in what was the case, 1e-15 at least."""
    return -np.log(np.maximum(np.where(right, confidence, 1 - confidence), TINY))


@dataclass(frozen=True)
class Logistic:
    """A logistic regression over d standardised features.

    Attributes:
        mean: (d,) of the features.
        scale: (d,) their standard deviations; 1 where constant.
        weight: (d,).
        bias: (1,).
    """

    mean: Float
    scale: Float
    weight: Float
    bias: Float

    def log_odds(self, features: Float) -> Float:
        """Return the (n,) log-odds for (n, d) features, cut to +-30."""
        odds: Float = (np.asarray(features, np.float64) - self.mean) / self.scale @ self.weight + self.bias[0]
        return np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def apply(self, features: Float) -> Float:
        """Return the (n,) confidences, strictly between 0 and 1, for (n, d) features."""
        return _sigmoid(self.log_odds(features))

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Logistic:
        """Return the calibrator that `to_arrays` wrote."""
        return cls(*(arrays[name] for name in ("mean", "scale", "weight", "bias")))


@dataclass(frozen=True)
class Isotonic:
    """A non-decreasing curve over a score: straight between its knots, level beyond them.

    Attributes:
        knots: (k,) scores, increasing: the mean score of each block of pooled answers.
        values: (k,) confidences, increasing.
        logistic: makes the score (log-odds) out of features; None: `apply` is given the score itself.
    """

    knots: Float
    values: Float
    logistic: Logistic | None = None

    def apply(self, evidence: Float) -> Float:
        """Return the (n,) confidences, strictly between 0 and 1.

        Args:
            evidence: (n,) scores; (n, d) features if it has a logistic.
        """
        score = np.asarray(evidence, np.float64) if self.logistic is None else self.logistic.log_odds(evidence)
        return np.interp(score, self.knots, self.values)

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        own = {"knots": self.knots, "values": self.values}
        inner = {} if self.logistic is None else self.logistic.to_arrays()
        return own | {f"logistic.{name}": numbers for name, numbers in inner.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Isotonic:
        """Return the calibrator that `to_arrays` wrote."""
        inner = {name.removeprefix("logistic."): arrays[name] for name in arrays if name.startswith("logistic.")}
        return cls(arrays["knots"], arrays["values"], Logistic.from_arrays(inner) if inner else None)


Calibrator = Logistic | Isotonic


def fit_logistic(features: Float, right: Bool, *, l2: float = 1.0) -> Logistic:
    """Fit a logistic regression by Newton's method.

    Args:
        features: (n, d), finite.
        right: (n,) whether the answer is right.
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    if x.ndim != 2 or y.shape != (len(x),) or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"need finite features (n, d) and right (n,), n > 0; got {x.shape} and {y.shape}")
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    if y.all() or not y.any():
        bias = np.log((y.sum() + 1) / ((~y).sum() + 1))
        return Logistic(mean, scale, np.zeros(x.shape[1]), np.array([bias]))
    design = np.column_stack([(x - mean) / scale, np.ones(len(x))])
    penalty = np.append(np.full(x.shape[1], float(l2)), 0.0)
    sign = np.where(y, 1.0, -1.0)

    def loss(weights: Float) -> float:
        return float(np.logaddexp(0, -sign * (design @ weights)).sum() + (penalty * weights**2).sum() / 2)

    weights = np.append(np.zeros(x.shape[1]), np.log(y.mean() / (1 - y.mean())))
    value = loss(weights)
    for _ in range(MAX_STEPS):
        p = _sigmoid(design @ weights)
        gradient = design.T @ (p - y) + penalty * weights
        if np.abs(gradient).max() <= 1e-10 * len(x):
            break
        curvature = (design.T * (p * (1 - p))) @ design + np.diag(penalty)
        # Least squares, for without a penalty a constant feature leaves the curvature singular.
        step = np.linalg.lstsq(curvature, gradient)[0]
        share = 1.0
        while (tried := loss(weights - share * step)) > value and share > 1e-8:
            share /= 2
        if tried > value:
            break
        weights, value = weights - share * step, tried
    return Logistic(mean, scale, weights[:-1], weights[-1:])


def fit_isotonic(score: Float, right: Bool) -> Isotonic:
    """Fit an isotonic regression by pooling adjacent violators (Barlow et al. 1972).

    Args:
        score: (n,) finite, n > 0.
        right: (n,) whether the answer is right.
    """
    s, y = np.asarray(score, np.float64), np.asarray(right, bool)
    if s.ndim != 1 or y.shape != s.shape or not len(s) or not np.isfinite(s).all():
        raise ValueError(f"need finite scores (n,) and right (n,), n > 0; got {s.shape} and {y.shape}")
    places, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    hits: Float = np.bincount(inverse, y, minlength=len(places)).astype(np.float64)
    weights: Float = counts.astype(np.float64)
    hits[0] += 1
    weights[0] += 1
    weights[-1] += 1
    starts = pool(hits, weights)
    totals = np.add.reduceat(hits, starts), np.add.reduceat(weights, starts)
    knots = np.add.reduceat(places * counts, starts) / np.add.reduceat(counts, starts)
    ends = np.append(starts[1:], len(places)) - 1
    return Isotonic(np.clip(knots, places[starts], places[ends]), totals[0] / totals[1])


def pool(sums: Float, weights: Float) -> NDArray[np.int64]:
    """Pool adjacent violators: return where the blocks begin whose means (sum / weight) increase.

    Args:
        sums: (n,) weight times value, in the order of the score.
        weights: (n,) greater than 0.
    """
    blocks: list[tuple[float, float, int]] = []
    for place, (total, weight) in enumerate(zip(sums.tolist(), weights.tolist(), strict=True)):
        start = place
        # Compared by products, which are exact for counts: the mean before is not below this one's.
        while blocks and blocks[-1][0] * weight >= total * blocks[-1][1]:
            before, mass, start = blocks.pop()
            total, weight = total + before, weight + mass
        blocks.append((total, weight, start))
    return np.array([start for _, _, start in blocks], np.int64)


def fit_calibrator(features: Float, right: Bool, *, seed: int = 0) -> Calibrator:
    """Fit a logistic regression, or an isotonic one on top of it where that is clearly better.

    Args:
        features: (n, d).
        right: (n,).
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    logistic = fit_logistic(x, y)
    if len(y) < FOLDS:
        return logistic
    fold = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    gain = np.empty(len(y))
    for number in range(FOLDS):
        learned, held = fold != number, fold == number
        first = fit_logistic(x[learned], y[learned])
        second = _on_top(first, x[learned], y[learned])
        gain[held] = losses(first.apply(x[held]), y[held]) - losses(second.apply(x[held]), y[held])
    return _on_top(logistic, x, y) if gain.mean() > gain.std() / np.sqrt(len(gain)) else logistic


def fit_calibrators(
    features: Float, right: Bool, groups: Sequence[str | None], *, seed: int = 0
) -> dict[str, Calibrator]:
    """Fit the common calibrator ("all") and one for each group with 200 right and 200 wrong answers or more.

    Args:
        features: (n, d).
        right: (n,).
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    names = np.array([group or "" for group in groups])
    fitted: dict[str, Calibrator] = {COMMON: fit_calibrator(x, y, seed=seed)}
    for name in sorted(set(names.tolist()) - {""}):
        own = names == name
        if min(y[own].sum(), (~y[own]).sum()) >= MIN_OF_EACH:
            fitted[name] = fit_calibrator(x[own], y[own], seed=seed)
    return fitted


def _on_top(logistic: Logistic, features: Float, right: Bool) -> Isotonic:
    curve = fit_isotonic(logistic.log_odds(features), right)
    return Isotonic(curve.knots, curve.values, logistic)


def _sigmoid(log_odds: Float) -> Float:
    return np.exp(-np.logaddexp(0, -log_odds))
