"""Error analysis: what a system gets wrong, and where, from a result's rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita_lab.evaluation.scoring.results import Metric, Result, mean, statistic_with_interval

SHOWN = 20
BINS = 20
# Draws of the interval of a share: a resample of rights and wrongs is a draw from a binomial distribution.
DRAWS = 10_000
# More values than this are not groups but identifiers.
MAX_GROUPS = 60
# Upper ends of the groups, the last one open.
WORDS = (1, 2, 3, 5, 8)
CHARACTERS = (5, 10, 20, 40)
OVERLAPS = (0.25, 0.5, 0.75)
# What a correlation is worked out from.
PAIR = ("gold", "similarity")
# Columns to break down by where a benchmark has them, beside those that it names itself.
GROUPS = ("language", "semantic_type", "type", "group", "corpus")


def analyse(result: Result, task: str) -> dict[str, Any]:
    """Return the error analysis of a result, as plain JSON."""
    metric = next(
        (metric for metric in result.metrics if _by_row(metric) or set(PAIR) <= set(metric.columns)), result.metrics[0]
    )
    rows = result.rows
    errors: dict[str, Any] = {"metric": metric.name}
    if set(PAIR) <= set(metric.columns):
        kept = rows.filter(pl.all_horizontal(pl.col(name).cast(pl.Float64).is_finite() for name in PAIR))
        return errors | {"unscored": len(rows) - len(kept), "disagreements": _disagreements(kept)}
    if not _by_row(metric):
        return errors
    score = pl.col(metric.columns[0]).cast(pl.Float64)
    kept = rows.filter(score.is_not_null() & score.is_not_nan())
    values = kept[metric.columns[0]].cast(pl.Float64).to_numpy()
    errors["unscored"] = len(rows) - len(kept)
    errors["by"] = _breakdowns(kept, values, result, task)
    if set(np.unique(values)) <= {0.0, 1.0}:
        errors |= _wrong_answers(kept, values == 1)
    return errors


def _by_row(metric: Metric) -> bool:
    return len(metric.columns) == 1 and metric.statistic is mean


def _breakdowns(rows: pl.DataFrame, values: NDArray[np.float64], result: Result, task: str) -> list[dict[str, Any]]:
    named: list[tuple[str, list[Any], list[Any]]] = []
    if task == "normalization" and "mention" in rows.columns:
        mentions = rows["mention"].to_list()
        for name, lengths, ends in (
            ("words in the mention", [len(mention.split()) for mention in mentions], WORDS),
            ("characters in the mention", [len(mention) for mention in mentions], CHARACTERS),
        ):
            labels = _ranges(ends)
            named.append((name, [labels[np.searchsorted(ends, length)] for length in lengths], labels))
    if "overlap" in rows.columns:
        labels = ["0", "above 0 to 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to below 1", "1 (same 3-grams)"]
        labels.append("gold not among the targets")
        named.append(("overlap with the nearest gold name", [_overlap(v, labels) for v in rows["overlap"]], labels))
    for column in dict.fromkeys((*result.subsets, *GROUPS)):
        if column in rows.columns and 1 < rows[column].drop_nulls().n_unique() <= MAX_GROUPS:
            named.append((column, rows[column].to_list(), rows[column].drop_nulls().unique().sort().to_list()))
    breakdowns = []
    for name, groups, order in named:
        label_of_row = np.array([str(group) for group in groups])
        parts = [(str(value), values[label_of_row == str(value)]) for value in order]
        parts = [(value, part) for value, part in parts if len(part)]
        if len(parts) > 1:
            breakdowns.append({"name": name, "groups": [_group(value, part) for value, part in parts]})
    return breakdowns


def _ranges(ends: Sequence[int]) -> list[str]:
    """Return the labels of groups of whole numbers: up to each end, and above the last."""
    starts = [1, *(end + 1 for end in ends)]
    closed = [str(end) if start == end else f"{start} to {end}" for start, end in zip(starts, ends, strict=False)]
    return [*closed, f"{starts[-1]} and more"]


def _overlap(value: float | None, labels: Sequence[str]) -> str:
    if value is None:
        return labels[-1]
    if value in (0, 1):
        return labels[0] if value == 0 else labels[5]
    return labels[1 + int(np.searchsorted(OVERLAPS, value))]


def _group(value: str, scores: NDArray[np.float64]) -> dict[str, Any]:
    score = float(scores.mean())
    if not set(np.unique(scores)) <= {0.0, 1.0}:
        _, interval = statistic_with_interval(mean, scores[:, None])
    elif len(scores) > 1:
        drawn = np.random.default_rng(0).binomial(len(scores), score, DRAWS) / len(scores)
        low, high = np.quantile(drawn, [0.025, 0.975])
        interval = float(low), float(high)
    else:
        interval = None
    low, high = interval or (None, None)
    return {"value": value, "n": len(scores), "score": score, "low": low, "high": high}


def _wrong_answers(rows: pl.DataFrame, right: NDArray[np.bool_]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "gold" not in rows.columns and "relation" in rows.columns:
        rows = rows.rename({"relation": "gold"})
    wrong = rows.filter(~right)
    if {"gold", "predicted"} <= set(rows.columns):
        answers = _first_answers(wrong)
        keys = [name for name in ("gold", "gold_name", "predicted", "matched") if name in answers.columns]
        example = [pl.col("mention").first().alias("example")] if "mention" in answers.columns else []
        counted = answers.group_by(keys, maintain_order=True).agg(pl.len().alias("count"), *example)
        found["confusions"] = counted.sort("count", descending=True, maintain_order=True).head(SHOWN).to_dicts()
        if "similarity" in answers.columns:
            names = [name for name in ("mention", *keys, "similarity") if name in answers.columns]
            surest = answers.filter(pl.col("similarity").is_finite())
            surest = surest.sort("similarity", descending=True, maintain_order=True)
            surest = surest.unique(names[:-1], keep="first", maintain_order=True).head(SHOWN)
            found["examples"] = surest.select(names).to_dicts()
    if "similarity" in rows.columns:
        values = rows["similarity"].cast(pl.Float64).to_numpy()
        known = np.isfinite(values)
        if known.any():
            found["similarity"] = histogram({"right": values[known & right], "wrong": values[known & ~right]})
    return found


def _first_answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with only the first of several answers; numbers that stand for classes become strings."""
    changes = []
    for name in ("gold", "gold_name", "predicted", "matched"):
        if name in rows.columns:
            column = pl.col(name)
            if isinstance(rows.schema[name], pl.List):
                column = column.list.first()
            changes.append(column.cast(pl.String))
    return rows.with_columns(changes)


def histogram(values: dict[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    """Return how values fall into bins of equal width."""
    together = np.concatenate(list(values.values()))
    low, high = float(together.min()), float(together.max())
    # Similarities lie in 0 to 1 as a rule; one scale makes systems comparable.
    edges = np.linspace(0 if low >= 0 else min(low, -1), max(1, high), BINS + 1)
    counts = {name: np.histogram(own, edges)[0].tolist() for name, own in values.items()}
    return {"edges": edges.tolist(), **counts}


def _disagreements(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the pairs of texts whose ranks, as shares of all of their set, are furthest apart."""
    if len(rows) < 2:
        return []
    # Each set has a scale of its own.
    sets = pl.col("set") if "set" in rows.columns else pl.lit(0)
    gold, ours = (pl.col(name).cast(pl.Float64).rank().over(sets) / (pl.len().over(sets) + 1) for name in PAIR)
    ranked = rows.with_columns(gold_rank=gold, system_rank=ours)
    ranked = ranked.sort((pl.col("gold_rank") - pl.col("system_rank")).abs(), descending=True, maintain_order=True)
    texts = [name for name, kind in rows.schema.items() if kind == pl.String]
    return ranked.head(SHOWN).select(*texts, *PAIR, "gold_rank", "system_rank").to_dicts()
