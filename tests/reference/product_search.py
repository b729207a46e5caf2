"""Search among products as plain loops in float64, written from the definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Vector = np.ndarray


def grams(string: str) -> set[str]:
    """Return the 3-grams of a string with a blank at both ends, and its 2-grams where a character is a word."""
    padded = f" {string} "
    found = {padded[place : place + 3] for place in range(len(padded) - 2)}
    twos = {padded[place : place + 2] for place in range(len(padded) - 1)}
    return found | {two for two in twos if any(ord(sign) >= 0x2E80 for sign in two)}


def letters(query: str, string: str, strings: Sequence[str]) -> float:
    """Return the cosine of the idf-weighted n-grams of two strings, those known that some of `strings` has."""
    df: dict[str, int] = {}
    for one in strings:
        for gram in grams(one):
            df[gram] = df.get(gram, 0) + 1
    idf = {gram: math.log((1 + len(strings)) / (1 + count)) + 1 for gram, count in df.items()}
    left, right = grams(query) & df.keys(), grams(string)
    shared = sum(idf[gram] ** 2 for gram in left & right)
    lengths = [math.sqrt(sum(idf[gram] ** 2 for gram in some)) for some in (left, right)]
    return shared / (lengths[0] * lengths[1]) if shared else 0.0


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors, 0 where one has no length."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    length = math.sqrt(float(one @ one)) * math.sqrt(float(other @ other))
    return float(one @ other) / length if length else 0.0


def similarity(query: str, string: str, strings: Sequence[str], vectors: Mapping[str, Vector]) -> float:
    """Return how near a query is to one of `strings`: 1 if equal, else the mean of cosine, from 0 on, and letters."""
    if query == string:
        return 1.0
    near = max(cosine(vectors[query], vectors[string]), 0.0)
    return min((near + letters(query, string, strings)) / 2, 1.0)


def projected(vector: Vector, weight: Vector, bias: Vector) -> list[float]:
    """Return f(x) = GELU(W x + b), with GELU(x) = x Phi(x), Phi the normal distribution's."""
    found = []
    for row in range(len(weight)):
        total = float(bias[row])
        for column in range(weight.shape[1]):
            total += float(weight[row, column]) * float(vector[column])
        found.append(total * (1 + math.erf(total / math.sqrt(2))) / 2)
    return found


def predicted(query: Vector, text: Vector, weight: Vector, bias: Vector, gamma: float) -> float:
    """Return sigma(gamma - || f(E(t + n)) - f(E(q)) ||)."""
    pairs = zip(projected(text, weight, bias), projected(query, weight, bias), strict=True)
    return 1 / (1 + math.exp(math.sqrt(sum((one - other) ** 2 for one, other in pairs)) - gamma))
