"""Naive float64 loops for the ranker's loss and for the gathering of candidates."""

from __future__ import annotations

import math


def listwise_loss(scores, right, weights):
    """Return the weighted mean of -log p(right); scores and right are lists of lists, one a mention."""
    total, weight_sum = 0.0, 0.0
    for score, is_right, weight in zip(scores, right, weights, strict=True):
        if not any(is_right):
            continue
        whole = sum(math.exp(s) for s in score)
        good = sum(math.exp(s) for s, one in zip(score, is_right, strict=True) if one)
        total -= weight * math.log(good / whole)
        weight_sum += weight
    return total / weight_sum if weight_sum else 0.0


def cross_entropy(odds, nil, weights):
    """Return the weighted mean of -log p(NIL) or -log(1 - p(NIL))."""
    total = 0.0
    for u, is_nil, weight in zip(odds, nil, weights, strict=True):
        p = 1 / (1 + math.exp(-u))
        total -= weight * math.log(p if is_nil else 1 - p)
    return total / sum(weights)


def candidates(pairs, string_terms, term_concept, standing):
    """Return a mention's (concept, term, cosine, letters, best cosine, best letters, strings, exact, fused).

    pairs: (string, exact, cosine, letters); string_terms: terms of each string.
    """
    by_concept = {}
    for string, exact, cosine, letters in pairs:
        for term in string_terms[string]:
            entry = (-int(exact), -(cosine + letters), standing[term], term, string, cosine, letters)
            by_concept.setdefault(term_concept[term], []).append(entry)
    found = []
    for concept, entries in by_concept.items():
        best = min(entries)
        found.append(
            (
                concept,
                best[3],
                best[5],
                best[6],
                max(entry[5] for entry in entries),
                max(entry[6] for entry in entries),
                len({entry[4] for entry in entries}),
                -best[0],
                -best[1],
            )
        )
    return sorted(found)


def cosine(left, right):
    """Return the cosine of two vectors; 0 where one is 0."""
    lengths = math.sqrt(sum(x * x for x in left)) * math.sqrt(sum(x * x for x in right))
    return sum(x * y for x, y in zip(left, right, strict=True)) / lengths if lengths else 0.0


def middle(query, vectors, hidden=None):
    """Return the cosine of a query and the mean of a concept's vectors, by string; that of `hidden` left out."""
    left = [vector for string, vector in vectors.items() if string != hidden]
    if not left:
        return 0.0
    return cosine(query, [sum(numbers) / len(left) for numbers in zip(*left, strict=True)])


def neighbours_share(cosines, parents, sharpness=10.0):
    """Return for each candidate of a mention the share of its parents, and of its children, in the candidates' weight.

    cosines: by concept; parents: the parents of each concept.
    """
    whole = sum(math.exp(sharpness * value) for value in cosines.values())
    weight = {concept: math.exp(sharpness * value) / whole for concept, value in cosines.items()}
    of_parents = {one: sum(weight[other] for other in cosines if other in parents[one]) for one in cosines}
    of_children = {one: sum(weight[other] for other in cosines if one in parents[other]) for one in cosines}
    return of_parents, of_children
