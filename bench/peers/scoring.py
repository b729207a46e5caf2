"""One rule for all: distinct concepts in order of first appearance, right at k if a right one is among the first k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scipy.stats import binomtest

# Parts of a query: mentions, each with the ids any of which is right.
Query = Sequence[tuple[str, frozenset[str]]]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """A share of n with its Wilson interval, as fractions."""

    right: int
    n: int
    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def share(right: int, n: int) -> Share:
    """Return right / n with the 95% score interval of Wilson 1927."""
    interval = binomtest(right, n).proportion_ci(CONFIDENCE, method="wilson")
    return Share(right, n, right / n, float(interval.low), float(interval.high))


def ranked(lines: Iterable[Sequence[str]], mentions: Sequence[str]) -> dict[str, list[str]]:
    """Return the distinct concepts of each mention, in order of first appearance by rank.

    Args:
        lines: query (number of the mention), rank, id, score.
        mentions: as asked.

    Raises:
        ValueError: an answer to a mention that was not asked.
    """
    answers: dict[int, list[tuple[int, str]]] = {}
    for query, rank, one, _ in lines:
        answers.setdefault(int(query), []).append((int(rank), one))
    if strange := [query for query in answers if not 0 <= query < len(mentions)]:
        raise ValueError(f"an answer to query {strange[0]}, of {len(mentions)}")
    return {
        mention: list(dict.fromkeys(one for _, one in sorted(answers.get(number, []), key=lambda answer: answer[0])))
        for number, mention in enumerate(mentions)
    }


def right_at(queries: Iterable[Query], found: Mapping[str, Sequence[str]], k: int) -> list[bool]:
    """Tell of each query whether every part has a right concept among its first k."""
    return [all(gold.intersection(found[mention][:k]) for mention, gold in parts) for parts in queries]


def answered(queries: Iterable[Query], found: Mapping[str, Sequence[str]]) -> list[bool]:
    """Tell of each query whether every part has an answer."""
    return [all(found[mention] for mention, _ in parts) for parts in queries]
