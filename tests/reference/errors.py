"""Slow, plain Python: what the error analysis counts."""

from __future__ import annotations

from collections import Counter


def groups_by_words(rows: list[dict]) -> dict[str, tuple[int, float]]:
    names = {0: "1", 1: "1", 2: "2", 3: "3", 4: "4 to 5", 5: "4 to 5", 6: "6 to 8", 7: "6 to 8", 8: "6 to 8"}
    return _groups((names.get(len(row["mention"].split()), "9 and more"), row) for row in rows)


def groups_by_characters(rows: list[dict]) -> dict[str, tuple[int, float]]:
    def name(n: int) -> str:
        if n <= 5:
            return "1 to 5"
        if n <= 10:
            return "6 to 10"
        if n <= 20:
            return "11 to 20"
        return "21 to 40" if n <= 40 else "41 and more"

    return _groups((name(len(row["mention"])), row) for row in rows)


def groups_by_overlap(rows: list[dict]) -> dict[str, tuple[int, float]]:
    def name(value: float | None) -> str:
        if value is None:
            return "gold not among the targets"
        if value == 0:
            return "0"
        if value <= 0.25:
            return "above 0 to 0.25"
        if value <= 0.5:
            return "0.25 to 0.5"
        if value <= 0.75:
            return "0.5 to 0.75"
        return "0.75 to below 1" if value < 1 else "1 (same 3-grams)"

    return _groups((name(row["overlap"]), row) for row in rows)


def groups_by_column(rows: list[dict], column: str) -> dict[str, tuple[int, float]]:
    return _groups((str(row[column]), row) for row in rows if row[column] is not None)


def confusions(rows: list[dict]) -> Counter:
    return Counter(
        (
            row["gold"],
            row["gold_name"],
            row["predicted"][0] if row["predicted"] else None,
            row["matched"][0] if row["matched"] else None,
        )
        for row in rows
        if row["right@1"] is False
    )


def disagreement(gold: list[float], ours: list[float]) -> list[float]:
    """Distance of the two ranks of each, ties sharing their mean rank, as a share of n + 1."""

    def ranks(values: list[float]) -> list[float]:
        return [
            sum(other < one for other in values) + (1 + sum(other == one for other in values)) / 2 for one in values
        ]

    return [abs(a - b) / (len(gold) + 1) for a, b in zip(ranks(gold), ranks(ours), strict=True)]


def _groups(labelled) -> dict[str, tuple[int, float]]:
    found: dict[str, list[bool]] = {}
    for name, row in labelled:
        if row["right@1"] is not None:
            found.setdefault(name, []).append(row["right@1"])
    return {name: (len(values), sum(values) / len(values)) for name, values in found.items()}
