"""Accuracy and the percentile bootstrap, query by query."""

from __future__ import annotations

import math


def accuracy(rankings, gold, k) -> float:
    right = 0
    for ranking, answer in zip(rankings, gold, strict=True):
        if answer is None:
            right += len(ranking) == 0 or ranking[0] is None
            continue
        wanted = {answer} if isinstance(answer, str) else set(answer)
        found = False
        for place in range(min(k, len(ranking))):
            if ranking[place] in wanted:
                found = True
        right += found
    return right / len(gold)


def binomial_quantile(n: int, p: float, share: float) -> float:
    """Least x/n with P(X <= x) >= share, X binomial: what a bootstrap of n rights and wrongs converges to."""
    below = 0.0
    for x in range(n + 1):
        below += math.comb(n, x) * p**x * (1 - p) ** (n - x)
        if below >= share:
            return x / n
    return 1.0


def tfidf_cosines(query: str, terms: list[str]) -> list[float]:
    """Cosine of character 3-grams inside words padded by a space, weighted by tf * (ln((1 + n) / (1 + df)) + 1)."""

    def grams(string: str) -> list[str]:
        found = []
        for word in string.split():
            padded = f" {word} "
            found += [padded[i : i + 3] for i in range(max(1, len(padded) - 2))]
        return found

    counts = [grams(term) for term in terms]
    vocabulary = {gram for term in counts for gram in term}
    weight = {g: math.log((1 + len(terms)) / (1 + sum(g in term for term in counts))) + 1 for g in vocabulary}

    def vector(gram_list: list[str]) -> dict[str, float]:
        raw = {g: gram_list.count(g) * weight[g] for g in set(gram_list) & vocabulary}
        length = math.sqrt(sum(value**2 for value in raw.values()))
        return {g: value / length for g, value in raw.items()}

    q = vector(grams(query))
    return [sum(q.get(g, 0.0) * value for g, value in vector(term).items()) for term in counts]
