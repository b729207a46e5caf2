"""MCSM as its equation says, one concept after the other, in plain Python."""

from __future__ import annotations

import math


def mcsm_of_concepts(vectors: list[list[float]], types: list[set[str]], kind: str, k: int) -> dict[int, float]:
    """The score of each concept of a type: concept -> sum over its k nearest others; equals by number."""
    lengths = [math.sqrt(math.fsum(x * x for x in vector)) for vector in vectors]
    scores = {}
    for concept, own in enumerate(types):
        if kind not in own:
            continue
        similar = []
        for other, vector in enumerate(vectors):
            if other != concept:
                product = math.fsum(x * y for x, y in zip(vectors[concept], vector, strict=True))
                similar.append((-product / (lengths[concept] * lengths[other]), other))
        similar.sort()
        scores[concept] = sum(
            1 / math.log2(place + 1) for place, (_, other) in enumerate(similar[:k], 1) if kind in types[other]
        )
    return scores
