"""Scores of graph models in plain Python, from their definitions, over vectors whose parts stand end to end."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

Vector = Sequence[float]


def transe(head: Vector, relation: Vector, tail: Vector) -> float:
    """Return -|h + r - t|."""
    return -math.sqrt(sum((h + r - t) ** 2 for h, r, t in zip(head, relation, tail, strict=True)))


def complex(head: Vector, relation: Vector, tail: Vector) -> float:
    """Return the real part of the sum of h r conj(t)."""
    triples = zip(_numbers(head), _numbers(relation), _numbers(tail), strict=True)
    return sum((h * r * t.conjugate()).real for h, r, t in triples)


def rotate(head: Vector, relation: Vector, tail: Vector) -> float:
    """Return -|h r - t|."""
    triples = zip(_numbers(head), _numbers(relation), _numbers(tail), strict=True)
    return -math.sqrt(sum(abs(h * r - t) ** 2 for h, r, t in triples))


def simple(head: Vector, relation: Vector, tail: Vector) -> float:
    """Return half of the sum of h_h r t_t and h_t r' t_h."""
    half = len(head) // 2
    forward = sum(head[i] * relation[i] * tail[half + i] for i in range(half))
    inverse = sum(head[half + i] * relation[half + i] * tail[i] for i in range(half))
    return (forward + inverse) / 2


def _numbers(vector: Vector) -> list[builtins.complex]:
    half = len(vector) // 2
    return [a + 1j * b for a, b in zip(vector[:half], vector[half:], strict=True)]
