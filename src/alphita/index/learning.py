"""Trains the head of an index (`encoder.head`), in seconds, on the synonyms of its terminology.

The encoder's vectors do not change. Forward pass, loss, gradients and Adam are NumPy, in the type of the weights:
float32, or float64 in tests. The loss is the multi-similarity loss (equation: `objectives.multi_similarity`) over all
pairs of rows of a batch: S_ij = y_i . y_j, positive where the concepts are equal.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder.head import HIDDEN, Head, gelu, gelu_slope, lengths
from alphita.index.neighbours import Vectors, blocks, full, unit
from alphita.terminology.text import clean_many

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

# float32, or float64 in tests.
AnyFloats = NDArray[Any]
# Of the loss: as in CODER, except lambda, 0.5 there; on three terminologies 0.6 is better (bench/head.py of commit
# 0db22db).
ALPHA, BETA, LAMBDA, EPSILON = 2.0, 50.0, 0.6, 0.1
SPREAD = 2.0
# Adam (Kingma and Ba 2015), with its authors' settings.
MEAN_KEPT, SQUARE_KEPT, SMALLEST = 0.9, 0.999, 1e-8


class Weights(NamedTuple):
    """The weights of a head, or their gradients; see `Head`."""

    w1: AnyFloats
    b1: AnyFloats
    w2: AnyFloats
    b2: AnyFloats

    def head(self, strength: float = 1.0) -> Head:
        # With strength 0, the head has no effect.
        scaled = (self.w1, self.b1, self.w2 * strength, self.b2 * strength)
        return Head(*(np.array(weight, np.float32) for weight in scaled))


class Forward(NamedTuple):
    """The values of `forward` for `backward`: input x (n, d), hidden u (n, h) before gelu, its tanh and g = gelu(u),
    output y (n, d) of length 1, and its length (n, 1) before that."""

    x: AnyFloats
    u: AnyFloats
    tanh: AnyFloats
    g: AnyFloats
    y: AnyFloats
    length: AnyFloats


def initial_weights(dim: int, hidden: int, random: np.random.Generator) -> Weights:
    """Return initial weights without effect: W1 random with rows of length `SPREAD` by expectation, the rest 0."""
    w1 = random.standard_normal((hidden, dim), np.float32) * np.float32(SPREAD * dim**-0.5)
    zeros = [np.zeros(shape, np.float32) for shape in ((hidden,), (dim, hidden), (dim,))]
    return Weights(w1, *zeros)


def forward(weights: Weights, x: AnyFloats) -> Forward:
    """Return y = unit(x + W2 gelu(W1 x + b1) + b2) of each row of x (n, d), which may have any length."""
    u = x @ weights.w1.T
    u += weights.b1
    g, tanh = gelu(u)
    y = g @ weights.w2.T
    y += x
    y += weights.b2
    length = lengths(y)
    y /= length
    return Forward(x, u, tanh, g, y, length)


def backward(weights: Weights, seen: Forward, dy: AnyFloats) -> Weights:
    """Return the gradients of the weights, given that of the loss by y, (n, d)."""
    dv = dy - seen.y * np.einsum("ij,ij->i", dy, seen.y)[:, None]
    dv /= seen.length
    du = dv @ weights.w2
    du *= gelu_slope(seen.u, seen.tanh)
    return Weights(du.T @ seen.x, du.sum(0), dv.T @ seen.g, dv.sum(0))


def multi_similarity(
    y: AnyFloats,
    concept: NDArray[np.int64],
    *,
    alpha: float = ALPHA,
    beta: float = BETA,
    lam: float = LAMBDA,
    eps: float = EPSILON,
) -> tuple[float, AnyFloats]:
    """Return the loss of a batch, the mean over its rows, and its gradient by y (n, d), for concepts (n,)."""
    n = len(y)
    left, right = _same(concept)
    push = y @ y.T
    pull = push[left, right]
    push[left, right] = -np.inf
    np.fill_diagonal(push, -np.inf)
    lowest = np.full(n, np.inf, y.dtype)
    np.minimum.at(lowest, left, pull)
    highest = push.max(1)
    np.copyto(push, -np.inf, where=push <= (lowest - eps)[:, None])
    push -= lam
    push *= beta
    np.exp(push, out=push)
    pushed = push.sum(1)
    pulls = np.where(pull < highest[left] + eps, np.exp(-alpha * (pull - lam)), 0).astype(y.dtype)
    pulled = np.bincount(left, pulls, n).astype(y.dtype)
    loss = float((np.log1p(pulled) / alpha + np.log1p(pushed) / beta).mean())
    # alpha and beta cancel: the gradient of each pair is its share of the sum.
    push /= (n * (1 + pushed))[:, None]
    push[left, right] = -pulls / (n * (1 + pulled[left]))
    return loss, (push + push.T) @ y


def _same(concept: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all ordered pairs of two rows of the same concept."""
    order = np.argsort(concept, kind="stable")
    _, first, place, count = np.unique(concept[order], return_index=True, return_inverse=True, return_counts=True)
    size = count[place]
    left = np.repeat(np.arange(len(order)), size)
    right = np.arange(len(left)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first[place], size)
    apart = left != right
    return order[left[apart]], order[right[apart]]


class Adam:
    """Adam; it changes the weights in place."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.steps = weights, 0
        self.mean = [np.zeros_like(weight) for weight in weights]
        self.square = [np.zeros_like(weight) for weight in weights]

    def step(self, slopes: Weights, rate: float) -> None:
        """Update the weights by one step of Adam."""
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


QUESTIONS, CANDIDATES = 2_000, 16_384
# Expected length of the noise that replaces misspelling if no misspelt strings are given.
NOISE = 0.5
QUESTIONS_AT_ONCE = 256

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]


class Scores(NamedTuple):
    """Which questions (q,), and which noisy ones (r,), were answered correctly."""

    right: NDArray[np.bool_]
    noisy_right: NDArray[np.bool_]

    def figures(self) -> dict[str, float | None]:
        """Return the shares, for JSON; None if there were no questions."""
        columns = {"accuracy_at_1": self.right, "noisy_accuracy_at_1": self.noisy_right}
        return {name: round(float(right.mean()), 4) if len(right) else None for name, right in columns.items()}

    def against(self, before: Scores, *, noisy: bool = False) -> tuple[int, int]:
        """Return how many questions are right here and wrong in `before`, and the other way round."""
        new, old = (scores.noisy_right if noisy else scores.right for scores in (self, before))
        return int((new & ~old).sum()), int((old & ~new).sum())


class HeldOut(NamedTuple):
    """Validation questions for a head: held-back names (q, d) and noisy names (r, d), each with its concept; the answer
    is the concept of the nearest candidate among names (c, d) with their concepts."""

    candidates: Floats
    concept: Rows
    questions: Floats
    wanted: Rows
    noisy: Floats
    noisy_wanted: Rows

    @classmethod
    def of(
        cls,
        x: Floats,
        concept: Rows,
        held: NDArray[np.bool_],
        noised: tuple[Floats, Rows] | None,
        random: np.random.Generator,
    ) -> HeldOut:
        """Draw the questions from vectors (n, d) of names, the concept of each, and whether it is held back."""
        known = np.flatnonzero(~held)
        asked = np.flatnonzero(held & np.isin(concept, concept[known]))
        asked = np.sort(random.permutation(asked)[:QUESTIONS])
        own = np.isin(concept[known], concept[asked] if noised is None else np.append(concept[asked], noised[1]))
        order = np.concatenate([known[own], random.permutation(known[~own])])
        candidates = np.sort(order[:CANDIDATES])
        if noised is None:
            drawn = random.permutation(candidates)[:QUESTIONS]
            noise = random.standard_normal((len(drawn), x.shape[1]), np.float32)
            noisy, wanted = unit(x[drawn] + np.float32(NOISE * x.shape[1] ** -0.5) * noise), concept[drawn]
        else:
            place = np.flatnonzero(np.isin(noised[1], concept[candidates]))
            place = np.sort(random.permutation(place)[:QUESTIONS])
            noisy, wanted = noised[0][place], noised[1][place]
        return cls(x[candidates], concept[candidates], x[asked], concept[asked], noisy, wanted)

    def scores(self, head: Head | None) -> Scores:
        """Return which answers are right with a head, or with the unchanged vectors."""

        def mapped(vectors: Floats) -> Floats:
            return vectors if head is None else head(vectors)

        candidates = mapped(self.candidates)
        return Scores(
            self._right(mapped(self.questions), self.wanted, candidates),
            self._right(mapped(self.noisy), self.noisy_wanted, candidates),
        )

    def _right(self, questions: Floats, wanted: Rows, candidates: Floats) -> NDArray[np.bool_]:
        nearest = np.empty(len(questions), np.int64)
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            rows = slice(start, start + QUESTIONS_AT_ONCE)
            nearest[rows] = (questions[rows] @ candidates.T).argmax(1)
        return np.asarray(self.concept[nearest] == wanted)


# One in this many strings is held back.
HELD_BACK = 10
# Maximum strings for training; more do not help within the number of steps, and need memory.
MAX_STRINGS = 200_000
# With fewer concepts, training is impossible; with fewer questions, its benefit cannot be shown.
FEWEST_CONCEPTS, FEWEST_QUESTIONS = 50, 30
# Limit, so that bunching does not take longer than the steps.
MAX_BUNCHES = 256
# Rows of a batch, similar ones, that are compared with each other; rows of noise that serve all batches.
COMPARED, NOISE_ROWS = 128, 4096
# Share of the noisy strings for validation instead of training.
ASKED_NOISE = 0.25
# Strengths of the head to try; the first that does not harm noisy strings is used.
STRENGTHS = (1.0, 0.7, 0.4)


@dataclass(frozen=True)
class HeadSettings:
    """Settings for training a head.

    Attributes:
        batch, bunch: pairs of rows in a step; number of similar concepts that are drawn together.
        variants: share of pairs of a name and a variant of it, if there are any.
        most_steps, rounds, fewest_steps: each concept is drawn `rounds` times, within these limits.
        rate, warm_up: peak step size of Adam; share of the steps with linear warm-up, before a cosine decay.
        noise: expected length of the noise added to an input of length 1.
        gain, harm: share of the questions that must be gained, and of noisy strings that may be lost.
    """

    hidden: int = HIDDEN
    batch: int = 256
    bunch: int = 16
    variants: float = 0.5
    most_steps: int = 450
    rounds: float = 20.0
    fewest_steps: int = 60
    rate: float = 6e-3
    warm_up: float = 0.1
    noise: float = 0.5
    gain: float = 0.005
    harm: float = 0.005


class Learned(NamedTuple):
    """The head, None if none helps, and a report for JSON: shares of right answers before and after, the reason."""

    head: Head | None
    report: dict[str, Any]


class Variants(NamedTuple):
    """Vectors (m, d), of length 1, of misspelt or shortened variants of strings, and the row of each string (m,)."""

    vectors: Vectors
    of: Rows


def is_held_back(strings: Sequence[str], seed: int = 0) -> NDArray[np.bool_]:
    """Tell which strings are held back if they are synonyms: one in ten, by a hash of the string."""
    key = f"held back {seed}".encode()
    drawn = (
        int.from_bytes(hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest())
        for string in strings
    )
    return np.fromiter((number % HELD_BACK == 0 for number in drawn), bool, len(strings))


def held_back_of(terminology: Terminology) -> frozenset[str]:
    """Return a terminology's cleaned strings that must not be used to train an encoder, as for the head."""
    strings = clean_many(terminology.terms["string"].to_pylist())
    return frozenset(itertools.compress(strings, is_held_back(strings)))


def learn(
    vectors: Vectors,
    groups: tuple[Rows, Rows],
    held_back: NDArray[np.bool_],
    *,
    noised: Variants | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
) -> Learned:
    """Train a head for the strings of an index.

    Args:
        vectors: (n, d) of length 1, from the encoder, one per distinct cleaned string.
        groups: (m,) string rows and (m,) concept rows: the string is an exact name of the concept.
        held_back: (n,) bool: `is_held_back` of the strings that are not the preferred name of any concept.
    """
    machine.keep_freed_memory()
    clock, processor = time.perf_counter(), time.process_time()
    settings = settings or HeadSettings()
    random = np.random.default_rng(seed)
    head, report = _learn(vectors, groups, held_back, noised, random, settings)
    report |= {
        "seed": seed,
        "seconds": round(time.perf_counter() - clock, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
    }
    return Learned(head, report)


def _learn(
    vectors: Vectors,
    groups: tuple[Rows, Rows],
    held_back: NDArray[np.bool_],
    noised: Variants | None,
    random: np.random.Generator,
    settings: HeadSettings,
) -> tuple[Head | None, dict[str, Any]]:
    string, concept = _drawn(*_unambiguous(*groups), random)
    held = held_back[string]
    names = _several(concept[~held])
    report: dict[str, Any] = {"steps": 0, "concepts": len(names.start), "strings": int(names.size.sum())}
    if len(names.start) < FEWEST_CONCEPTS:
        return None, report | {"reason": f"concepts with two names to learn from: {len(names.start)}"}
    x = full(vectors[string])
    spoilt, to_ask = _parted(noised, string, concept, held, random)
    held_out = HeldOut.of(x, concept, held, to_ask, random)
    if len(held_out.questions) < FEWEST_QUESTIONS:
        return None, report | {"reason": f"held-back synonyms to try a head on: {len(held_out.questions)}"}
    examples = _examples(x[~held], concept[~held], [*spoilt])
    steps = math.ceil(settings.rounds * len(examples.members.start) / settings.batch)
    steps = min(settings.most_steps, max(settings.fewest_steps, steps))
    weights = _train(examples, steps, random, settings)
    before = held_out.scores(None)
    report |= {
        "steps": steps,
        "questions": len(held_out.questions),
        "candidates": len(held_out.candidates),
        "noisy_questions": len(held_out.noisy),
        "before": before.figures(),
    }
    reason = ""
    for strength in STRENGTHS:
        head = weights.head(strength)
        after = held_out.scores(head)
        report |= {"after": after.figures(), "strength": strength}
        reason = _objection(before, after, settings)
        if not reason:
            return head, report | {"reason": "better on held-back synonyms"}
    return None, report | {"reason": reason}


def _objection(before: Scores, after: Scores, settings: HeadSettings) -> str:
    """Return why the head should not be used; "" if it should."""
    won, lost = after.against(before)
    if won <= lost or won - lost < max(settings.gain * len(before.right), 2 * math.sqrt(won + lost)):
        return f"of {len(before.right)} held-back synonyms it wins {won} and loses {lost}: no gain to rely on"
    won, lost = after.against(before, noisy=True)
    if lost - won > max(settings.harm * len(before.noisy_right), math.sqrt(won + lost)):
        return f"of {len(before.noisy_right)} noisy strings it wins {won} and loses {lost}"
    return ""


def _unambiguous(string: Rows, concept: Rows) -> tuple[Rows, Rows]:
    """Return the distinct pairs, sorted by string, without strings of several concepts."""
    if not len(string):
        return string, concept
    concepts = int(concept.max()) + 1
    string, concept = np.divmod(np.unique(string.astype(np.int64) * concepts + concept), concepts)
    alone = np.ones(len(string), bool)
    repeated = string[1:] == string[:-1]
    alone[1:] &= ~repeated
    alone[:-1] &= ~repeated
    return string[alone], concept[alone]


def _drawn(string: Rows, concept: Rows, random: np.random.Generator) -> tuple[Rows, Rows]:
    """Return the names of randomly chosen concepts, at most `MAX_STRINGS` names."""
    if len(string) <= MAX_STRINGS:
        return string, concept
    _, place, count = np.unique(concept, return_inverse=True, return_counts=True)
    order = random.permutation(len(count))
    kept = np.zeros(len(count), bool)
    kept[order[np.cumsum(count[order]) <= MAX_STRINGS]] = True
    return string[kept[place]], concept[kept[place]]


class _Members(NamedTuple):
    """Groups of two rows or more among rows sorted by group: where each starts, how many it has."""

    start: Rows
    size: Rows


def _several(concept: Rows) -> _Members:
    _, start, count = np.unique(np.sort(concept), return_index=True, return_counts=True)
    kept = count > 1
    return _Members(start[kept].astype(np.int64), count[kept].astype(np.int64))


class _Examples(NamedTuple):
    """Training examples: vectors x (n, d) of names, then of variants, with the concept of each; the rows of names in
    order of their concepts, of which `members` are those with several; and pairs (p, 2) of a name and a variant."""

    x: Floats
    order: Rows
    members: _Members
    concept: Rows
    pairs: Rows


def _examples(x: Floats, concept: Rows, variants: list[tuple[Floats, Rows]]) -> _Examples:
    """Collect examples from names, and from variants with the rows of their names."""
    of = np.concatenate([np.zeros(0, np.int64), *(of for _, of in variants)])
    pairs = np.stack([of, len(x) + np.arange(len(of))], axis=1)
    return _Examples(
        np.concatenate([x, *(part for part, _ in variants)]),
        np.argsort(concept, kind="stable"),
        _several(concept),
        np.concatenate([concept, concept[of]]),
        pairs,
    )


def _parted(
    noised: Variants | None, string: Rows, concept: Rows, held: NDArray[np.bool_], random: np.random.Generator
) -> tuple[list[tuple[Floats, Rows]], tuple[Floats, Rows] | None]:
    """Return the variants for training, with the rows of their names, and those for validation, with their concepts."""
    if noised is None:
        return [], None
    place = np.minimum(np.searchsorted(string, noised.of), len(string) - 1)
    known = np.flatnonzero((string[place] == noised.of) & ~held[place])
    asked = random.random(len(known)) < ASKED_NOISE
    learned, kept = known[~asked], known[asked]
    row = np.cumsum(~held) - 1
    return [(full(noised.vectors[learned]), row[place[learned]])], (full(noised.vectors[kept]), concept[place[kept]])


def _train(examples: _Examples, steps: int, random: np.random.Generator, settings: HeadSettings) -> Weights:
    """Return the weights after all steps."""
    dim = examples.x.shape[1]
    weights = initial_weights(dim, settings.hidden, random)
    adam = Adam(weights)
    batches = _batches(examples, settings, random)
    noise = random.standard_normal((max(NOISE_ROWS, 4 * settings.batch), dim), np.float32)
    noise *= np.float32(settings.noise * dim**-0.5)
    for step in range(1, steps + 1):
        rows, concept = next(batches)
        x = examples.x[rows]
        start = int(random.integers(0, len(noise) - len(rows)))
        x += noise[start : start + len(rows)]
        seen = forward(weights, unit(x))
        slope = np.empty_like(x)
        for start in range(0, len(rows), COMPARED):
            part = slice(start, start + COMPARED)
            _, slope[part] = multi_similarity(seen.y[part], concept[part])
        adam.step(backward(weights, seen, slope), _rate(step, steps, settings))
    return weights


def _rate(step: int, steps: int, settings: HeadSettings) -> float:
    warm = min(1.0, step / max(1.0, settings.warm_up * steps))
    return settings.rate * warm * (1 + math.cos(math.pi * (step - 1) / steps)) / 2


def _batches(examples: _Examples, settings: HeadSettings, random: np.random.Generator) -> Iterator[tuple[Rows, Rows]]:
    """Yield endless batches of rows with their concepts: two names per concept, then names with variants."""
    start, size = examples.members
    others = min(round(settings.batch * settings.variants), len(examples.pairs))
    names = _in_turn(examples.x, examples.order[start], settings.batch - others, settings.bunch, random)
    variants = _in_turn(examples.x, examples.pairs[:, 0], others, settings.bunch, random)
    while True:
        drawn = next(names)
        first = random.integers(0, size[drawn])
        second = (first + random.integers(1, size[drawn])) % size[drawn]
        rows = examples.order[np.stack([start[drawn] + first, start[drawn] + second], axis=1).ravel()]
        if others:
            rows = np.concatenate([rows, examples.pairs[next(variants)].ravel()])
        yield rows, examples.concept[rows]


def _in_turn(x: Floats, rows: Rows, taken: int, bunch: int, random: np.random.Generator) -> Iterator[Rows]:
    """Yield `taken` positions of `rows` at a time, endlessly; none repeats before (nearly) all others were drawn."""
    taken, waiting = min(taken, len(rows)), np.zeros(0, np.int64)
    while True:
        if len(waiting) < taken:
            waiting = random.permutation(len(rows)) if bunch <= 1 else _in_bunches(x, rows, bunch, random)
        drawn, waiting = waiting[:taken], waiting[taken:]
        yield drawn


def _in_bunches(x: Floats, rows: Rows, bunch: int, random: np.random.Generator) -> Rows:
    centres = x[random.choice(rows, min(MAX_BUNCHES, max(1, len(rows) // bunch)), replace=False)].T
    nearest = np.concatenate([(block @ centres).argmax(1) for _, block in blocks(x, chosen=rows)])
    return np.lexsort((random.random(len(rows)), nearest))
