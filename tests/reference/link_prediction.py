"""Ranks of link prediction in plain Python: candidates one by one."""

from __future__ import annotations

from collections.abc import Callable

Triple = tuple[int, int, int]


def realistic_ranks(
    score: Callable[[int, int, int], float], test: list[Triple], n_entities: int, known: set[Triple] | None
) -> dict[str, list[float]]:
    """Return the rank of each test triple's tail and head: the mean of the best and the worst that ties allow."""
    found: dict[str, list[float]] = {"tail": [], "head": []}
    for head, relation, tail in test:
        for side in ("tail", "head"):
            better = equal = 0
            for entity in range(n_entities):
                other = (head, relation, entity) if side == "tail" else (entity, relation, tail)
                if other == (head, relation, tail) or (known is not None and other in known):
                    continue
                better += score(*other) > score(head, relation, tail)
                equal += score(*other) == score(head, relation, tail)
            found[side].append(((1 + better) + (1 + better + equal)) / 2)
    return found
