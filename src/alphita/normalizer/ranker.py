"""The learned ranker: which of a mention's candidates is meant, or none of them.

A small network gives each candidate a score s from its features; another gives the probability that no concept fits
(NIL) from what is known of the mention and of its best candidate:

    p(NIL) = 1 / (1 + exp(-u)),    p(c) = (1 - p(NIL)) exp(s_c) / sum_c' exp(s_c')

The first learns by the negative logarithm of the softmax of what is right (of all that are right together) over the
mentions that name a concept, the second by the cross-entropy of NIL; both with Adam. Everything is NumPy: float32 while
training, where nothing needs more, float64 when it answers, so that equal candidates stay equal. It is saved as plain
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

HIDDEN = 32
EPOCHS = 15
MEMBERS = 4
# Mentions a step; fewer where there are few, so that there are so many steps an epoch.
BATCH = 256
LEAST_BATCH = 32
BATCHES = 16
LEARNING_RATE = 1.2e-2
# From the weights of another ranker on less is needed, and more would lose what that knows.
TUNING_EPOCHS = 8
TUNING_RATE = 5e-3
DECAY = 1e-4
BETAS = (0.9, 0.999)
# Features are clipped at so many standard deviations, so that an odd mention cannot throw the scores anywhere.
CLIP = 6.0
MOST_LOG_ODDS = 30.0
# Of a score: further ones depend on what else was multiplied with it, and would order equal candidates by chance.
DIGITS = 6
ROWS_AT_ONCE = 2048
TINY = 1e-30


class Probabilities(NamedTuple):
    """What the ranker says of n mentions and their c candidates.

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
        return _mean((self,), inputs)


def standardised(inputs: NDArray[np.float32], mean: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    """Return inputs (n, d) less their mean, in standard deviations, clipped; of the mean's precision."""
    values = inputs - mean
    values /= scale
    return np.clip(values, -CLIP, CLIP, out=values)


@dataclass(frozen=True)
class Ranker:
    """Scores candidates and NIL: the mean of a few members that differ in their first weights only.

    Attributes:
        candidates: one network a member, over the features of a candidate.
        mentions: likewise, over what `about` gathers of a mention; gives u.
    """

    candidates: tuple[Network, ...]
    mentions: tuple[Network, ...]

    def score(self, candidates: NDArray[np.float32]) -> Float:
        """Return the scores (c,) of candidates with features (c, d)."""
        return _mean(self.candidates, candidates)

    def __call__(
        self, candidates: NDArray[np.float32], mentions: NDArray[np.float32], offsets: NDArray[np.int64]
    ) -> Probabilities:
        """Score n mentions.

        Args:
            candidates: (c, d) features, mention by mention.
            mentions: (n, e) features.
            offsets: (n + 1,) where each mention's candidates begin.
        """
        score = self.score(candidates)
        odds = _mean(self.mentions, about(score, candidates, mentions, offsets))
        nil = np.where(np.diff(offsets) > 0, 1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS))), 1.0)
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


def _mean(members: tuple[Network, ...], inputs: NDArray[np.float32]) -> Float:
    """Return the members' mean outputs (n,): one product for all that read their inputs alike, as those of `train`."""
    if not _alike(members):
        total: Float = sum((_mean((network,), inputs) for network in members), np.zeros(len(inputs)))
        return total / len(members)
    first = members[0]
    weight = np.concatenate([network.weight for network in members], axis=1)
    bias, out = (np.concatenate([getattr(network, name) for network in members]) for name in ("bias", "out"))
    shift = sum(float(network.out_bias[0]) for network in members) / len(members)
    found = np.empty(len(inputs))
    for start in range(0, len(inputs), ROWS_AT_ONCE):
        hidden = first.standardise(inputs[start : start + ROWS_AT_ONCE]) @ weight
        hidden += bias
        np.maximum(hidden, 0.0, out=hidden)
        found[start : start + ROWS_AT_ONCE] = hidden @ out / len(members) + shift
    return found


def _alike(members: tuple[Network, ...]) -> bool:
    first = members[0]
    return all(
        np.array_equal(network.mean, first.mean) and np.array_equal(network.scale, first.scale) for network in members
    )


def softmax(score: Float, offsets: NDArray[np.int64]) -> Float:
    """Return the softmax over each mention's candidates.

    Args:
        score: (..., c).
        offsets: (n + 1,) where each mention's candidates begin.

    Returns:
        (..., c), of the score's precision.
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
    """Return what NIL is told by: a mention's features, its best candidate's, and how far that is ahead of the next.

    Returns:
        (n, e + d + 1) float32; zeros for the best candidate of a mention that has none.
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


class Training(NamedTuple):
    """Mentions to learn from.

    Attributes:
        candidates: (c, d) float32 features, mention by mention.
        mentions: (n, e) float32 features.
        offsets: (n + 1,) int64.
        right: (c,) bool, whether the candidate is right.
        nil: (n,) bool, whether no concept fits. What is neither NIL nor has a right candidate teaches nothing.
        weight: (n,) float64, how much the mention counts.
    """

    candidates: NDArray[np.float32]
    mentions: NDArray[np.float32]
    offsets: NDArray[np.int64]
    right: NDArray[np.bool_]
    nil: NDArray[np.bool_]
    weight: Float


def loss(score: Float, data: Training) -> tuple[Float, Float]:
    """Return the weighted mean of -log p(right) over mentions that have a right candidate, and its gradient.

    Args:
        score: (..., c): of one network, or of several.
        data: the mentions.

    Returns:
        (...) and (..., c).
    """
    counts = np.diff(data.offsets)
    filled = counts > 0
    counts, weight = counts[filled], data.weight[filled]
    probability = softmax(score, data.offsets)
    if not len(counts):
        return np.zeros(score.shape[:-1]), probability
    starts = data.offsets[:-1][filled]
    weight = np.where(np.logical_or.reduceat(data.right, starts), weight, 0.0)
    share = (weight / max(weight.sum(), TINY)).astype(score.dtype)
    rights = probability * data.right
    safe = np.maximum(np.add.reduceat(rights, starts, axis=-1), TINY)
    # d(-log P_right) / ds_c = p_c - [c is right] p_c / P_right.
    gradient = np.repeat(share, counts) * (probability - rights / np.repeat(safe, counts, axis=-1))
    return -(share * np.log(safe)).sum(axis=-1), gradient


def nil_loss(odds: Float, nil: NDArray[np.bool_], weight: Float) -> tuple[Float, Float]:
    """Return the weighted mean cross-entropy of NIL, (...), for log-odds u (..., n), and its gradient (..., n)."""
    share = (weight / max(weight.sum(), TINY)).astype(odds.dtype)
    value = (share * (np.logaddexp(0, odds) - nil * odds)).sum(axis=-1)
    return value, share * (1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS))) - nil)


def train(
    data: Training, *, start: Ranker | None = None, seed: int = 0, epochs: int | None = None, members: int = MEMBERS
) -> Ranker:
    """Fit a ranker.

    Args:
        data: mentions to learn from.
        start: a ranker of the same features that is learned on from; its members decide how many there are.
        seed: of the first weights and of the order of the mentions.
        epochs: times that all mentions are gone through; 15 by default, 8 from a start.
        members: networks whose mean it is.
    """
    random = np.random.default_rng(seed)
    steps = (epochs or EPOCHS, LEARNING_RATE) if start is None else (epochs or TUNING_EPOCHS, TUNING_RATE)
    inputs = data.candidates
    first = _first(inputs, random, members) if start is None else _of(start.candidates, inputs)
    candidates = _fit(inputs, first, _teaching(data), _ranking_gradients(data), random, steps)
    inputs = about(_mean(candidates, data.candidates), data.candidates, data.mentions, data.offsets)
    first = _first(inputs, random, members) if start is None else _of(start.mentions, inputs)
    mentions = _fit(inputs, first, np.arange(len(data.nil)), _nil_gradients(data), random, steps)
    return Ranker(candidates, mentions)


# Takes some mentions; returns the rows of the inputs that they are, and from outputs (members, rows) to the gradient.
Gradients = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], Callable[[Float], Float]]]


def _teaching(data: Training) -> NDArray[np.int64]:
    """Return the mentions that have a right candidate and another: the gradient of all others is 0."""
    counts = np.diff(data.offsets)
    request = np.repeat(np.arange(len(counts)), counts)
    return np.flatnonzero((np.bincount(request, data.right, minlength=len(counts)) > 0) & (counts > 1))


def _ranking_gradients(data: Training) -> Gradients:
    def of(some: NDArray[np.int64]) -> tuple[NDArray[np.int64], Callable[[Float], Float]]:
        counts = np.diff(data.offsets)[some]
        ends = np.cumsum(counts)
        rows = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(data.offsets[some] - (ends - counts), counts)
        offsets = np.concatenate([[0], ends]).astype(np.int64)
        batch = Training(
            data.candidates[:0], data.mentions[:0], offsets, data.right[rows], data.nil[some], data.weight[some]
        )
        return rows, lambda score: loss(score, batch)[1]

    return of


def _nil_gradients(data: Training) -> Gradients:
    return lambda some: (some, lambda odds: nil_loss(odds, data.nil[some], data.weight[some])[1])


class First(NamedTuple):
    """Where learning begins.

    Attributes:
        mean: (d,) of the inputs.
        scale: (d,) their standard deviations.
        weights: those of a `Network`, a member each row.
    """

    mean: Float
    scale: Float
    weights: dict[str, NDArray[np.float32]]


def _fit(
    inputs: NDArray[np.float32],
    first: First,
    mentions: NDArray[np.int64],
    gradients: Gradients,
    random: np.random.Generator,
    length: tuple[int, float],
) -> tuple[Network, ...]:
    """Fit networks side by side on the same mentions in the same order, by Adam in float32; `length`: epochs, rate."""
    mean, scale, weights = first
    epochs, highest = length
    values = standardised(inputs, mean.astype(np.float32), scale.astype(np.float32))
    moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in weights.items()}
    n = len(mentions)
    size = min(BATCH, max(LEAST_BATCH, -(-n // BATCHES)))
    steps = max(1, epochs * -(-n // size))
    step = 0
    for _ in range(epochs):
        order = random.permutation(n)
        for first_row in range(0, n, size):
            rows, by_output = gradients(mentions[np.sort(order[first_row : first_row + size])])
            step += 1
            # Linear warm-up over a tenth, then a cosine to nothing.
            rate = highest * min(1.0, 10 * step / steps) * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in back(weights, values[rows], by_output).items():
                mean_of, square = moments[name]
                mean_of += (1 - BETAS[0]) * (gradient - mean_of)
                square += (1 - BETAS[1]) * (gradient**2 - square)
                update = (mean_of / (1 - BETAS[0] ** step)) / (np.sqrt(square / (1 - BETAS[1] ** step)) + 1e-8)
                weights[name] -= np.float32(rate) * (update + DECAY * weights[name])
    return tuple(
        Network(mean, scale, *(weights[name][number].astype(np.float64) for name in _LEARNED))
        for number in range(len(weights["out_bias"]))
    )


_LEARNED = ("weight", "bias", "out", "out_bias")


def _moments(inputs: NDArray[np.float32]) -> tuple[Float, Float, NDArray[np.bool_]]:
    """Return mean and standard deviation (1 where constant) of the inputs, and which vary, (d,) each."""
    scale = inputs.std(axis=0, dtype=np.float64)
    varied = scale > 1e-6
    return inputs.mean(axis=0, dtype=np.float64), np.where(varied, scale, 1.0), varied


def _first(inputs: NDArray[np.float32], random: np.random.Generator, members: int) -> First:
    """Return weights drawn by chance."""
    d = inputs.shape[1]
    mean, scale, varied = _moments(inputs)
    weights = {
        # What is the same everywhere here teaches nothing, and must have no say where it is another.
        "weight": random.normal(0, np.sqrt(2 / d), (members, d, HIDDEN)) * varied[:, None],
        "bias": np.zeros((members, HIDDEN)),
        "out": random.normal(0, np.sqrt(1 / HIDDEN), (members, HIDDEN)),
        "out_bias": np.zeros((members, 1)),
    }
    return First(mean, scale, {name: values.astype(np.float32) for name, values in weights.items()})


def _of(members: tuple[Network, ...], inputs: NDArray[np.float32]) -> First:
    """Return the weights of networks that read their inputs alike; inputs that had no say get their own scale."""
    weights = {name: np.stack([getattr(one, name) for one in members]).astype(np.float32) for name in _LEARNED}
    mean, scale, varied = _moments(inputs)
    new = varied & ~weights["weight"].any(axis=(0, 2))
    return First(np.where(new, mean, members[0].mean), np.where(new, scale, members[0].scale), weights)


def back(
    weights: Mapping[str, NDArray[Any]], values: NDArray[Any], by_output: Callable[[NDArray[Any]], NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the gradients by the weights of m networks, given those by their outputs.

    Args:
        weights: "weight" (m, d, h), "bias" (m, h), "out" (m, h), "out_bias" (m, 1).
        values: (n, d) standardised inputs.
        by_output: from outputs (m, n) to the gradient by them.
    """
    hidden = values @ weights["weight"]
    hidden += weights["bias"][:, None]
    np.maximum(hidden, 0.0, out=hidden)
    outer = by_output((hidden @ weights["out"][:, :, None])[..., 0] + weights["out_bias"])
    inner = outer[:, :, None] * weights["out"][:, None]
    inner *= hidden > 0
    return {
        "weight": values.T @ inner, "bias": inner.sum(axis=1), "out": (outer[:, None] @ hidden)[:, 0],
        "out_bias": outer.sum(axis=1, keepdims=True),
    }  # fmt: skip
