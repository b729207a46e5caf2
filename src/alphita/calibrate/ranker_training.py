"""Trains the ranker: candidate scores and NIL, with Adam, on mentions with known answers.

The loss of the scores is the negative log of the softmax of the right candidates (their sum), over the mentions that
name a concept; the loss of NIL is its cross-entropy. Everything is NumPy in float32. Training starts from random
weights, or from those of another ranker with the same features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.answer.ranker import MAX_LOG_ODDS, Float, Network, Ranker, about, mean_of_members, softmax, standardised

HIDDEN = 32
MEMBERS = 4
EPOCHS = 15
# Mentions per step; fewer for small data, so that an epoch has at least this many steps.
BATCH = 256
MIN_BATCH = 32
BATCHES = 16
LEARNING_RATE = 1.2e-2
# Starting from another ranker, fewer epochs are needed, and more would lose what it has learned.
TUNING_EPOCHS = 8
TUNING_RATE = 5e-3
DECAY = 1e-4
BETAS = (0.9, 0.999)
TINY = 1e-30


class Training(NamedTuple):
    """Mentions to learn from, n of them with c candidates.

    Attributes:
        candidates, mentions: (c, d) and (n, e) features; candidates mention by mention, from `offsets` (n + 1,).
        right, nil: (c,) whether the candidate is right, (n,) whether no concept fits. Neither: ignored.
        weight: (n,) how much the mention counts.
    """

    candidates: NDArray[np.float32]
    mentions: NDArray[np.float32]
    offsets: NDArray[np.int64]
    right: NDArray[np.bool_]
    nil: NDArray[np.bool_]
    weight: Float


def loss(score: Float, data: Training) -> tuple[Float, Float]:
    """Return the weighted mean of -log p(right) over mentions that have a right candidate, and its gradient."""
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
    return value, share * (1 / (1 + np.exp(-np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))) - nil)


def train(
    data: Training, *, start: Ranker | None = None, seed: int = 0, epochs: int | None = None, members: int = MEMBERS
) -> Ranker:
    """Fit a ranker."""
    random = np.random.default_rng(seed)
    steps = (epochs or EPOCHS, LEARNING_RATE) if start is None else (epochs or TUNING_EPOCHS, TUNING_RATE)
    inputs = data.candidates
    initial = _drawn(inputs, random, members) if start is None else _continued(start.candidates, inputs)
    candidates = _fit(inputs, initial, _teaching(data), _ranking_gradients(data), random, steps)
    inputs = about(mean_of_members(candidates, data.candidates), data.candidates, data.mentions, data.offsets)
    initial = _drawn(inputs, random, members) if start is None else _continued(start.mentions, inputs)
    mentions = _fit(
        inputs,
        initial,
        np.arange(len(data.nil)),
        lambda some: (some, lambda odds: nil_loss(odds, data.nil[some], data.weight[some])[1]),
        random,
        steps,
    )
    return Ranker(candidates, mentions)


# Takes some mentions; returns their input rows, and a function from outputs (members, rows) to the gradient.
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


class Initial(NamedTuple):
    """Starting point of training: mean and standard deviation (d,) of the inputs, and weights by member."""

    mean: Float
    scale: Float
    weights: dict[str, NDArray[np.float32]]


def _fit(
    inputs: NDArray[np.float32],
    initial: Initial,
    mentions: NDArray[np.int64],
    gradients: Gradients,
    random: np.random.Generator,
    length: tuple[int, float],
) -> tuple[Network, ...]:
    """Fit several networks on the same mentions in the same order, with Adam in float32; `length`: epochs, rate."""
    mean, scale, weights = initial
    epochs, highest = length
    values = standardised(inputs, mean.astype(np.float32), scale.astype(np.float32))
    moments = {name: (np.zeros_like(weight), np.zeros_like(weight)) for name, weight in weights.items()}
    n = len(mentions)
    size = min(BATCH, max(MIN_BATCH, -(-n // BATCHES)))
    steps = max(1, epochs * -(-n // size))
    step = 0
    for _ in range(epochs):
        order = random.permutation(n)
        for first_row in range(0, n, size):
            rows, by_output = gradients(mentions[np.sort(order[first_row : first_row + size])])
            step += 1
            # Linear warm-up over a tenth, then a cosine to zero.
            rate = highest * min(1.0, 10 * step / steps) * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in back(weights, values[rows], by_output).items():
                average, square = moments[name]
                average += (1 - BETAS[0]) * (gradient - average)
                square += (1 - BETAS[1]) * (gradient**2 - square)
                update = (average / (1 - BETAS[0] ** step)) / (np.sqrt(square / (1 - BETAS[1] ** step)) + 1e-8)
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


def _drawn(inputs: NDArray[np.float32], random: np.random.Generator, members: int) -> Initial:
    """Return random weights."""
    d = inputs.shape[1]
    mean, scale, varied = _moments(inputs)
    weights = {
        # Inputs that are constant here cannot be learned from, and must have no effect elsewhere.
        "weight": random.normal(0, np.sqrt(2 / d), (members, d, HIDDEN)) * varied[:, None],
        "bias": np.zeros((members, HIDDEN)),
        "out": random.normal(0, np.sqrt(1 / HIDDEN), (members, HIDDEN)),
        "out_bias": np.zeros((members, 1)),
    }
    return Initial(mean, scale, {name: values.astype(np.float32) for name, values in weights.items()})


def _continued(members: tuple[Network, ...], inputs: NDArray[np.float32]) -> Initial:
    """Return the weights of networks that scale their inputs alike; unused inputs get their own scale."""
    weights = {name: np.stack([getattr(member, name) for member in members]).astype(np.float32) for name in _LEARNED}
    mean, scale, varied = _moments(inputs)
    new = varied & ~weights["weight"].any(axis=(0, 2))
    return Initial(np.where(new, mean, members[0].mean), np.where(new, scale, members[0].scale), weights)


def back(
    weights: Mapping[str, NDArray[Any]], values: NDArray[Any], by_output: Callable[[NDArray[Any]], NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the gradients by the weights of m networks on inputs (n, d), given those by their outputs."""
    hidden = values @ weights["weight"]
    hidden += weights["bias"][:, None]
    np.maximum(hidden, 0.0, out=hidden)
    outer = by_output((hidden @ weights["out"][:, :, None])[..., 0] + weights["out_bias"])
    inner = outer[:, :, None] * weights["out"][:, None]
    inner *= hidden > 0
    return {
        "weight": values.T @ inner,
        "bias": inner.sum(axis=1),
        "out": (outer[:, None] @ hidden)[:, 0],
        "out_bias": outer.sum(axis=1, keepdims=True),
    }
