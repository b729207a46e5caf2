"""The decision about a mention: accept its best candidate, answer NIL, or leave both to review.

Three outcomes are possible: the best candidate is right, another concept of the terminology is, or none fits (NIL).
Their probabilities are a multinomial logistic regression over the evidence x for the best candidate,

    P(k | x) = exp(w_k . z + b_k) / sum_j exp(w_j . z + b_j),    z = (x - mean) / scale,

and each of two thresholds keeps one stated error: of what is accepted, the share that is wrong; of what is NIL, the
share that has a concept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.mappings.record import Decision

Float = NDArray[np.float64]

RIGHT, OTHER, NONE = 0, 1, 2
# The decisions with a stated error.
Kind = Literal["accept", "nil"]
ACCEPT: Final = "accept"
NIL: Final = "nil"
REVIEW: Final = "review"
WITH_ERROR: tuple[Kind, Kind] = (ACCEPT, NIL)
MAX_STEPS = 100
TINY = 1e-9
# Evidence is clipped at this many standard deviations, so that an unusual mention cannot distort the probabilities.
CLIP = 6.0


def grounds(kind: Kind, confidence: Float, nil: Float, vetoed: NDArray[np.bool_]) -> Float:
    """Return the probability (n,) by which a decision is made; 0 where it never is.

    Args:
        confidence: (n,) probability that the best candidate is right.
        nil: (n,) probability that none fits.
        vetoed: (n,) whether the best candidate is never accepted.
    """
    if kind == NIL:
        return np.where(nil >= confidence, nil, 0.0)
    return np.where(vetoed | (nil >= confidence), 0.0, confidence)


class Thresholds(NamedTuple):
    """The least probabilities by which an answer is accepted, and by which it is NIL; None: never."""

    accept: float | None
    nil: float | None

    def decide(self, confidence: Float, nil: Float, vetoed: NDArray[np.bool_]) -> list[Decision]:
        """Return the decisions about n mentions; see `grounds`."""
        decisions: list[Decision] = [REVIEW] * len(confidence)
        for kind, least in zip(WITH_ERROR, self, strict=True):
            if least is not None:
                for row in np.flatnonzero(grounds(kind, confidence, nil, vetoed) >= max(least, TINY)).tolist():
                    decisions[row] = kind
        return decisions


@dataclass(frozen=True)
class Outcomes:
    """The probabilities of the three outcomes.

    Attributes:
        mean: (d,) of the evidence.
        scale: (d,) its standard deviations; 1 where constant.
        weight: (d, 3).
        bias: (3,).
    """

    mean: Float
    scale: Float
    weight: Float
    bias: Float

    def __call__(self, evidence: Float) -> Float:
        """Return the probabilities, (n, 3), for evidence (n, d)."""
        return _softmax(self._standardised(evidence) @ self.weight + self.bias)

    def _standardised(self, evidence: Float) -> Float:
        return np.clip((np.asarray(evidence, np.float64) - self.mean) / self.scale, -CLIP, CLIP)

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Outcomes:
        """Return the probabilities that `to_arrays` wrote."""
        return cls(*(arrays[name] for name in cls.__dataclass_fields__))


def fit_outcomes(
    evidence: Float, outcome: NDArray[np.int64], weight: Float | None = None, *, l2: float = 1.0
) -> Outcomes:
    """Fit the probabilities by Newton's method, with a ridge penalty.

    Args:
        evidence: (n, d), finite.
        outcome: (n,) `RIGHT`, `OTHER` or `NONE`.
        weight: (n,) how much each counts; 1 by default.
        l2: the penalty l2 / 2 |w|^2; for the bias a thousandth.
    """
    x, y = np.asarray(evidence, np.float64), np.asarray(outcome, np.int64)
    if x.ndim != 2 or y.shape != (len(x),) or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"need finite evidence (n, d) and outcomes (n,), n > 0; got {x.shape} and {y.shape}")
    w = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    design = np.column_stack([np.clip((x - mean) / scale, -CLIP, CLIP), np.ones(len(x))])
    wanted = np.eye(3)[y]
    penalty = np.tile(np.append(np.full(x.shape[1], l2), l2 / 1000)[:, None], (1, 3))
    size = design.shape[1]

    def loss(weights: Float) -> float:
        p = _softmax(design @ weights)
        return float(
            -(w * np.log(np.maximum(p[np.arange(len(y)), y], 1e-300))).sum() + (penalty * weights**2).sum() / 2
        )

    weights = np.zeros((size, 3))
    value = loss(weights)
    for _ in range(MAX_STEPS):
        p = _softmax(design @ weights)
        gradient = design.T @ (w[:, None] * (p - wanted)) + penalty * weights
        if np.abs(gradient).max() <= 1e-9 * max(1.0, w.sum()):
            break
        curvature = np.zeros((3, size, 3, size))
        for j in range(3):
            for k in range(3):
                part = w * p[:, j] * ((j == k) - p[:, k])
                curvature[j, :, k, :] = (design.T * part) @ design
        curvature = curvature.reshape(3 * size, 3 * size) + np.diag(penalty.T.ravel())
        step = np.linalg.solve(curvature, gradient.T.ravel()).reshape(3, size).T
        share = 1.0
        while (tried := loss(weights - share * step)) > value and share > 1e-8:
            share /= 2
        if tried > value:
            break
        weights, value = weights - share * step, tried
    return Outcomes(mean, scale, weights[:-1], weights[-1])


def _softmax(values: Float) -> Float:
    part = np.exp(values - values.max(axis=1, keepdims=True))
    found: Float = part / part.sum(axis=1, keepdims=True)
    return found
