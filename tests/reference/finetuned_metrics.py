"""The measures of the fine-tuned tasks, slow and plain."""

from __future__ import annotations

from collections.abc import Sequence


def entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Read tags from left to right, with the entity that is open, as conlleval does."""
    found: list[tuple[int, int, str]] = []
    kind, start = None, 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, own = tag.partition("-")
        if kind is not None and (prefix in "BO" or own != kind):
            found.append((start, place, kind))
            kind = None
        if prefix != "O" and kind is None:
            kind, start = own, place
    return found


def precision_recall_f1(right: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Return 0 for what cannot be divided."""
    precision = right / predicted if predicted else 0.0
    recall = right / gold if gold else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def macro_f1(gold: Sequence[int], predicted: Sequence[int]) -> float:
    """Return the mean F1 of the labels that occur."""
    labels = set(gold) | set(predicted)
    total = 0.0
    for label in labels:
        right = sum(one == other == label for one, other in zip(gold, predicted, strict=True))
        total += precision_recall_f1(right, list(predicted).count(label), list(gold).count(label))[2]
    return total / len(labels)


def first_right(scores: Sequence[float], right: Sequence[bool]) -> int | None:
    """Sort the candidates, wrong ones first among equals, and walk down."""
    order = sorted(zip(scores, right, strict=True), key=lambda one: (-one[0], one[1]))
    for rank, (_, is_right) in enumerate(order, 1):
        if is_right:
            return rank
    return None


def ordered_pairs(scores: Sequence[float], labels: Sequence[float]) -> tuple[float, int]:
    """Look at every pair of documents."""
    ordered, pairs = 0.0, 0
    for one in range(len(scores)):
        for other in range(len(scores)):
            if labels[one] > labels[other]:
                pairs += 1
                if scores[one] > scores[other]:
                    ordered += 1
                elif scores[one] == scores[other]:
                    ordered += 0.5
    return ordered, pairs


def pair_by_places(queries: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return the score of the authors' scripts for two documents a query, with no equal scores or labels.

    Both orders are written down; a place that holds the same document in both is right.
    """
    right = wrong = 0
    for scores, labels in queries:
        by_score = sorted(range(2), key=lambda one: -scores[one])
        by_label = sorted(range(2), key=lambda one: -labels[one])
        for one, other in zip(by_score, by_label, strict=True):
            right += one == other
            wrong += one != other
    return right / wrong


def cut_pair(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Take tokens off the end of the longer side, one at a time; off the second where both are as long."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second
