"""A small report with everything that can stand in one; the strings try to break out of the markup."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl

from alphita_lab.evaluation.benchmarks import Published
from alphita_lab.evaluation.run import written
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result, compare

EVIL = '<script>alert("x")</script> & \'"|*_'


def linking_result(share: float, seed: int, n: int = 60) -> Result:
    same, own = np.random.default_rng(0), np.random.default_rng(seed)
    hard = same.random(n)
    rows = pl.DataFrame(
        {
            "query": range(n),
            "mention": ["word " * (number % 4) + EVIL for number in range(n)],
            "gold": [f"X:{number % 7}" for number in range(n)],
            "gold_name": [None if number % 10 == 9 else f"name {EVIL}" for number in range(n)],
            "overlap": [None if number % 10 == 9 else number % 10 / 8 for number in range(n)],
            "predicted": [[f"X:{number % 5}"] for number in range(n)],
            "matched": [[f"found {EVIL}"] for _ in range(n)],
            "similarity": own.random(n),
            "covered": [number % 10 != 9 for number in range(n)],
            **{f"right@{k}": hard < share + 0.1 * k for k in (1, 3, 5)},
            "seen": [number % 4 == 0 for number in range(n)],
            "language": ["it" if number % 2 else "en" for number in range(n)],
        }
    )
    metrics = tuple(Metric(f"accuracy@{k}", (f"right@{k}",)) for k in (1, 3, 5))
    notes = {"queries": n, "covered": int(rows["covered"].sum()), "own note": share}
    means = [Figure("accuracy@1", "mean of folds", share, n), Figure("theta", "best", 0.5, n)]
    curves = {"theta F1": ([0.1, 0.5, 0.9], [0.2, share, 0.3])}
    tables = {"nearest to fever": pl.DataFrame({"en": ["pyrexia *", "<chill>"], "it": ["febbre *", ""]})}
    histograms = {"similarity": ([0.0, 0.5, 1.0], {"synonyms": [1, 3], "others": [4, 0]})}
    return Result(rows, metrics, ("language", "seen", "covered"), means, notes, curves, tables, histograms)


def entry(name: str, results: dict[str, Result], baseline: str | None, **changes: Any) -> dict[str, Any]:
    systems: list[dict[str, Any]] = []
    for system, result in results.items():
        facts = {"kind": "encoder", "pooling": "mean"}
        systems.append({"name": system} | written(result, facts, 83.2, "normalization"))
        if baseline not in (None, system):
            systems[-1]["against"] = {"baseline": baseline, "differences": compare(result, results[baseline])}
    return {
        "name": name,
        "title": f"what {name} is {EVIL}",
        "task": "normalization",
        "citation": "Somebody 2001",
        "main_metric": "accuracy@1",
        "tested_on_real_data": True,
        "options": {"k": 5},
        "published": [],
        "not_run": None,
        "where": "at https://example.org",
        "systems": systems,
    } | changes


def published(system: str, value: float, **changes: Any) -> dict[str, Any]:
    return dataclasses.asdict(Published(system, "accuracy@1", value, "Author et al. 2020, table 1")) | changes


def sample() -> dict[str, Any]:
    ours, theirs = f"ours {EVIL}", "tfidf"
    results = {ours: linking_result(0.6, 1), theirs: linking_result(0.3, 2)}
    papers = [
        published("PaperBERT", 0.6355),
        published("Other", 0.5, differs=f"other folds {EVIL}", slip="two tables differ"),
        published("Third", 0.47, source="Author et al. 2021, table 2", differs=f"other folds {EVIL}"),
        published("Fourth", 0.46, slip="no table has it"),
        published("PaperBERT", 0.7, subset="language=it"),
        published("PaperBERT", 0.6, subset="mean of folds"),
    ]
    first = entry("links", results, theirs, published=papers)
    first["systems"].append({"name": "vectors", "not_applicable": "needs a system for text"})
    second = entry("alone", {theirs: linking_result(0.5, 3)}, None, tested_on_real_data=False, task="similarity")
    missing = entry(
        "missing",
        {},
        None,
        not_run="the benchmark missing finds no file here",
        tested_on_real_data=False,
        published=[published("PaperBERT", 0.8)],
    )
    return {
        "format_version": 1,
        "provenance": {
            "commit": "a" * 40,
            "command": ["alphita", "evaluate", EVIL],
            "config": {"models": [EVIL]},
            "seed": 0,
            "data": {"links/file.txt": "b" * 64},
            "machine": {"cores": 2},
            "alphita_version": "0.1",
            "packages": {"numpy": "2"},
        },
        "benchmarks": [first, second, missing],
    }
