"""A step of learning a head: forward, loss, their slopes and Adam, in NumPy.

The network is that of `encoder.head`. The loss is the multi-similarity loss, whose equation stands in
`objectives.multi_similarity`, over all pairs of rows of a batch: S_ij = y_i . y_j, positive where the concepts are
equal. All is computed in the type of the weights: float32, or float64 in tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.encoder.head import Head, gelu, gelu_slope, lengths

# float32, or float64 in tests.
Floats = NDArray[Any]
# Of the loss: CODER's, but lambda, 0.5 there; on three terminologies 0.6 found more (bench/head.py of commit 0db22db).
ALPHA, BETA, LAMBDA, EPSILON = 2.0, 50.0, 0.6, 0.1
SPREAD = 2.0
# Adam (Kingma and Ba 2015), as its authors have it.
MEAN_KEPT, SQUARE_KEPT, SMALLEST = 0.9, 0.999, 1e-8


class Weights(NamedTuple):
    """What is learned, or its slopes; see `Head`."""

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats

    def head(self, strength: float = 1.0) -> Head:
        """Return the head, with `strength` times its own part: 0 changes nothing."""
        scaled = (self.w1, self.b1, self.w2 * strength, self.b2 * strength)
        return Head(*(np.array(weight, np.float32) for weight in scaled))


class Seen(NamedTuple):
    """What the way back needs of the way there.

    Attributes:
        x: (n, d) input.
        u: (n, h) hidden, before gelu.
        tanh: (n, h) of the gelu.
        g: (n, h) gelu(u).
        y: (n, d) output of length 1.
        length: (n, 1) before that.
    """

    x: Floats
    u: Floats
    tanh: Floats
    g: Floats
    y: Floats
    length: Floats


def start(dim: int, hidden: int, random: np.random.Generator) -> Weights:
    """Return weights that change nothing: W1 random with rows of length `SPREAD` by expectation, the rest 0."""
    w1 = random.standard_normal((hidden, dim), np.float32) * np.float32(SPREAD * dim**-0.5)
    zeros = [np.zeros(shape, np.float32) for shape in ((hidden,), (dim, hidden), (dim,))]
    return Weights(w1, *zeros)


def forward(weights: Weights, x: Floats) -> Seen:
    """Return y = unit(x + W2 gelu(W1 x + b1) + b2) of each row of x (n, d), which may have any length."""
    u = x @ weights.w1.T
    u += weights.b1
    g, tanh = gelu(u)
    y = g @ weights.w2.T
    y += x
    y += weights.b2
    length = lengths(y)
    y /= length
    return Seen(x, u, tanh, g, y, length)


def backward(weights: Weights, seen: Seen, dy: Floats) -> Weights:
    """Return the slopes of the weights, from the slope of the loss by y, (n, d)."""
    dv = dy - seen.y * np.einsum("ij,ij->i", dy, seen.y)[:, None]
    dv /= seen.length
    du = dv @ weights.w2
    du *= gelu_slope(seen.u, seen.tanh)
    return Weights(du.T @ seen.x, du.sum(0), dv.T @ seen.g, dv.sum(0))


def multi_similarity(
    y: Floats,
    concept: NDArray[np.int64],
    *,
    alpha: float = ALPHA,
    beta: float = BETA,
    lam: float = LAMBDA,
    eps: float = EPSILON,
) -> tuple[float, Floats]:
    """Return the loss of a batch, the mean over its rows, and its slope by y.

    Args:
        y: (n, d), of length 1.
        concept: (n,) the concept of each row.
    """
    n = len(y)
    one, other = _same(concept)
    push = y @ y.T
    pull = push[one, other]
    push[one, other] = -np.inf
    np.fill_diagonal(push, -np.inf)
    lowest = np.full(n, np.inf, y.dtype)
    np.minimum.at(lowest, one, pull)
    highest = push.max(1)
    np.copyto(push, -np.inf, where=push <= (lowest - eps)[:, None])
    push -= lam
    push *= beta
    np.exp(push, out=push)
    pushed = push.sum(1)
    pulls = np.where(pull < highest[one] + eps, np.exp(-alpha * (pull - lam)), 0).astype(y.dtype)
    pulled = np.bincount(one, pulls, n).astype(y.dtype)
    loss = float((np.log1p(pulled) / alpha + np.log1p(pushed) / beta).mean())
    # alpha and beta cancel: each pair's slope is its share of its sum.
    push /= (n * (1 + pushed))[:, None]
    push[one, other] = -pulls / (n * (1 + pulled[one]))
    return loss, (push + push.T) @ y


def _same(concept: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of all ordered pairs of two rows of one concept."""
    order = np.argsort(concept, kind="stable")
    _, first, place, count = np.unique(concept[order], return_index=True, return_inverse=True, return_counts=True)
    size = count[place]
    one = np.repeat(np.arange(len(order)), size)
    other = np.arange(len(one)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first[place], size)
    apart = one != other
    return order[one[apart]], order[other[apart]]


class Adam:
    """Adam over weights, which it changes in place."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.steps = weights, 0
        self.mean = [np.zeros_like(weight) for weight in weights]
        self.square = [np.zeros_like(weight) for weight in weights]

    def step(self, slopes: Weights, rate: float) -> None:
        """Go one step down the slopes."""
        self.steps += 1
        scale = rate / (1 - MEAN_KEPT**self.steps)
        correction = 1 / (1 - SQUARE_KEPT**self.steps)
        for weight, slope, mean, square in zip(self.weights, slopes, self.mean, self.square, strict=True):
            mean *= MEAN_KEPT
            mean += (1 - MEAN_KEPT) * slope
            square *= SQUARE_KEPT
            square += (1 - SQUARE_KEPT) * slope**2
            below = np.sqrt(square * correction)
            below += SMALLEST
            np.divide(mean, below, out=below)
            below *= scale
            weight -= below
