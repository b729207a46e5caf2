"""The learned ranker: which of a mention's candidates is meant, or none of them.

A small network gives each candidate a score s from its features; another gives the probability that no concept fits
(NIL) from features of the mention and its best candidate:

    p(NIL) = 1 / (1 + exp(-u)),    p(c) = (1 - p(NIL)) exp(s_c) / sum_c' exp(s_c')

`ranker_training` trains them. Everything is NumPy, in float64 for answers, so that equal candidates stay equal, and
saved as plain arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

# Features are clipped at this many standard deviations, so that an unusual mention cannot distort the scores.
CLIP = 6.0
MAX_LOG_ODDS = 30.0
# Decimals of a score: further ones depend on the other rows of a product, and would order ties at random.
DIGITS = 6
ROWS_AT_ONCE = 2048


class Probabilities(NamedTuple):
    """The ranker's output for n mentions and their c candidates.

    Attributes:
        score: (c,) float64, s.
        probability: (c,) float64, p(c).
        nil: (n,) float64, p(NIL); 1 for a mention without candidates.
    """

    score: Float
    probability: Float
    nil: Float


@dataclass(frozen=True)
class Network:
    """One hidden layer of rectified units over standardised inputs: d -> h -> 1.

    Attributes:
        mean: (d,) of the inputs.
        scale: (d,) their standard deviations.
        weight: (d, h).
        bias: (h,).
        out: (h,).
        out_bias: (1,).
    """

    mean: Float
    scale: Float
    weight: Float
    bias: Float
    out: Float
    out_bias: Float

    def standardise(self, inputs: NDArray[np.float32]) -> Float:
        """Return (n, d): zero mean, unit variance over the training data, clipped."""
        return standardised(inputs, self.mean, self.scale)

    def __call__(self, inputs: NDArray[np.float32]) -> Float:
        """Return the (n,) outputs for (n, d) inputs."""
        return mean_of_members((self,), inputs)


def standardised(inputs: NDArray[np.float32], mean: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    """Return inputs (n, d) standardised and clipped, in the precision of the mean."""
    values = inputs - mean
    values /= scale
    return np.clip(values, -CLIP, CLIP, out=values)


@dataclass(frozen=True)
class Ranker:
    """Scores candidates and NIL: the mean of a few networks that differ only in their initial weights."""

    candidates: tuple[Network, ...]
    mentions: tuple[Network, ...]

    @functools.cached_property
    def _joined(self) -> tuple[tuple[Network, ...], tuple[Network, ...]]:
        return joined(self.candidates), joined(self.mentions)

    def score(self, candidates: NDArray[np.float32]) -> Float:
        """Return the scores (c,) of candidates with features (c, d)."""
        return _mean(self._joined[0], len(self.candidates), candidates)

    def __call__(
        self,
        candidates: NDArray[np.float32],
        mentions: NDArray[np.float32],
        offsets: NDArray[np.int64],
        penalty: Float | None = None,
    ) -> Probabilities:
        """Score n mentions.

        Args:
            candidates: (c, d) features, mention by mention.
            mentions: (n, e) features.
            offsets: (n + 1,) where each mention's candidates begin.
            penalty: (c,) what is taken off the scores.
        """
        score = self.score(candidates) - (0.0 if penalty is None else penalty)
        odds = _mean(self._joined[1], len(self.mentions), about(score, candidates, mentions, offsets))
        nil = np.where(np.diff(offsets) > 0, 1 / (1 + np.exp(-np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))), 1.0)
        return Probabilities(score, softmax(score, offsets) * np.repeat(1 - nil, np.diff(offsets)), nil)

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        networks = {"candidates": self.candidates, "mentions": self.mentions}
        return {
            f"{part}.{number}.{name}": values
            for part, members in networks.items()
            for number, network in enumerate(members)
            for name, values in vars(network).items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Ranker:
        """Return the ranker that `to_arrays` wrote."""
        numbers = sorted({int(name.split(".")[1]) for name in arrays})
        parts = (
            tuple(
                Network(*(arrays[f"{part}.{number}.{name}"] for name in Network.__dataclass_fields__))
                for number in numbers
            )
            for part in ("candidates", "mentions")
        )
        return cls(*parts)


def mean_of_members(members: tuple[Network, ...], inputs: NDArray[np.float32]) -> Float:
    """Return the members' mean outputs (n,)."""
    return _mean(joined(members), len(members), inputs)


def joined(members: tuple[Network, ...]) -> tuple[Network, ...]:
    """Join networks that scale their inputs alike, such as those of `train`, into one: a single product."""
    if not _alike(members):
        return members
    first = members[0]
    weight = np.concatenate([network.weight for network in members], axis=1)
    bias, out = (np.concatenate([getattr(network, name) for network in members]) for name in ("bias", "out"))
    shift = np.array([sum(float(network.out_bias[0]) for network in members)])
    return (Network(first.mean, first.scale, weight, bias, out, shift),)


def _mean(networks: tuple[Network, ...], members: int, inputs: NDArray[np.float32]) -> Float:
    """Return the mean output (n,) of all members, from the `joined` networks."""
    total = np.zeros(len(inputs))
    for network in networks:
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            hidden = network.standardise(inputs[start : start + ROWS_AT_ONCE]) @ network.weight
            hidden += network.bias
            np.maximum(hidden, 0.0, out=hidden)
            total[start : start + ROWS_AT_ONCE] += hidden @ network.out / members + network.out_bias[0] / members
    return total


def _alike(members: tuple[Network, ...]) -> bool:
    first = members[0]
    return all(
        np.array_equal(network.mean, first.mean) and np.array_equal(network.scale, first.scale) for network in members
    )


def softmax(score: Float, offsets: NDArray[np.int64]) -> Float:
    """Return the softmax over each mention's candidates.

    Args:
        offsets: (n + 1,) where each mention's candidates begin.
    """
    counts = np.diff(offsets)
    filled = counts > 0
    if not filled.any():
        return np.zeros_like(score)
    starts, counts = offsets[:-1][filled], counts[filled]
    part = np.exp(score - np.repeat(np.maximum.reduceat(score, starts, axis=-1), counts, axis=-1))
    found: Float = part / np.repeat(np.add.reduceat(part, starts, axis=-1), counts, axis=-1)
    return found


def about(
    score: Float, candidates: NDArray[np.float32], mentions: NDArray[np.float32], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the features for NIL: those of a mention and its best candidate, and the lead of that candidate.

    Returns:
        (n, e + d + 1) float32; zeros for the best candidate if a mention has none.
    """
    n = len(offsets) - 1
    request = np.repeat(np.arange(n), np.diff(offsets))
    order = np.lexsort((-np.round(score, DIGITS), request))
    best = np.zeros((n, candidates.shape[1]), np.float32)
    ahead = np.zeros((n, 1), np.float32)
    filled, several = np.flatnonzero(np.diff(offsets) > 0), np.flatnonzero(np.diff(offsets) > 1)
    best[filled] = candidates[order[offsets[filled]]]
    ahead[several, 0] = score[order[offsets[several]]] - score[order[offsets[several] + 1]]
    return np.concatenate([mentions, best, ahead], axis=1)
