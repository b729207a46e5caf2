"""Ranking of concepts by their best name, and the scoring of mentions, one query at a time."""

from __future__ import annotations


def rank(similarities, names, ids, k) -> list[tuple[float, str, str]]:
    """One query's first k concepts as (similarity, concept, name).

    Args:
        similarities: name -> similarity; a name that is missing is no answer.
        names: cleaned names, one for each of `ids`.
        ids: concept ids.
        k: concepts wanted.
    """
    distinct = list(dict.fromkeys(names))
    order = sorted((name for name in distinct if name in similarities), key=lambda name: -similarities[name])
    found: list[tuple[float, str, str]] = []
    for name in order:
        for other, one in zip(names, ids, strict=True):
            if other == name and one not in [concept for _, concept, _ in found]:
                found.append((similarities[name], one, name))
    return found[:k]


def right(rankings, gold, k) -> bool:
    """Whether each part of a mention has a gold concept among the first k of its ranking."""
    for ranking, wanted in zip(rankings, gold, strict=True):
        if not any(concept in wanted for _, concept, _ in ranking[:k]):
            return False
    return True


def shared(rankings, gold, names, ids) -> bool:
    """Whether each part's best name is a name of a gold concept."""
    for ranking, wanted in zip(rankings, gold, strict=True):
        if not ranking:
            return False
        holders = {one for name, one in zip(names, ids, strict=True) if name == ranking[0][2]}
        if not holders & wanted:
            return False
    return True


def overlap(mention, names) -> float | None:
    """The greatest Jaccard index of character 3-grams with any of the names."""

    def grams(string) -> set[str]:
        padded = f" {string} "
        return {padded[start : start + 3] for start in range(len(padded)) if len(padded[start : start + 3]) == 3}

    best = None
    for name in names:
        left, right_ = grams(mention), grams(name)
        value = len(left & right_) / len(left | right_) if left | right_ else 0.0
        best = value if best is None else max(best, value)
    return best
