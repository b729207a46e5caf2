"""Okapi BM25 word by word, and normalised Levenshtein similarity by the full table."""

from __future__ import annotations

import math


def score(query: list[str], document: list[str], documents: list[list[str]], k1: float, b: float) -> float:
    """The score of one document of the collection `documents`, all given as words."""
    average = sum(len(one) for one in documents) / len(documents)
    total = 0.0
    for word in query:
        often = document.count(word)
        if not often:
            continue
        held = sum(word in one for one in documents)
        rarity = math.log(1 + (len(documents) - held + 0.5) / (held + 0.5))
        total += rarity * often * (k1 + 1) / (often + k1 * (1 - b + b * len(document) / average))
    return total


def edit_similarity(left: str, right: str) -> float:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) + 1):
        for j in range(len(right) + 1):
            if not i or not j:
                table[i][j] = i + j
                continue
            other = left[i - 1] != right[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + other)
    longest = max(len(left), len(right))
    return 1 - table[-1][-1] / longest if longest else 1.0
