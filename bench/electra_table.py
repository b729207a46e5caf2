"""The tables of ELECTRA with entity masking and product attribute prediction, and which of the paper's claims hold.

Each claim of Liu, Jiang and Lyu 2022 says that one number is above another. It is judged by the differences, seed by
seed: it holds if their mean is above their standard deviation (n - 1 in the denominator), it does not if the mean is
below minus that, and otherwise the two are within the spread of the seeds. One seed tells nothing of the spread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from italian_table import Column, Ordering, table, verdict
from qtrel import EASY, HARD, KNOWN, MISSING, SETS

EASY_F1, HARD_F1 = "easy_f1", "hard_f1"
FOUND = "recall@10"
PERCENT: dict[str, Any] = {"scale": 100, "digits": 1}
PRETRAINED = (
    Column("sequences", "sequences, thousands", "", "", scale=1e-3, digits=1),
    Column("auc", "replaced-token AUC", "", "dev_replaced_auc", digits=3),
    Column("detection", "discriminator's loss", "", "dev_discriminator_loss", digits=3),
    Column("guessing", "generator's loss", "", "dev_generator_loss", digits=2),
    Column("guessed", "generator's accuracy", "", "dev_generator_accuracy", **PERCENT),
    Column("attribute_dev", "PAP in training, @1", "", "dev_attribute_acc1", **PERCENT),
)
RANKED = (
    Column("ranking_1", "@1", "", "accuracy@1", **PERCENT),
    Column("ranking_apart", "@1, no word shared", "", "accuracy@1", "shares_a_word=no", **PERCENT),
    Column("ranking_mrr", "MRR", "", "MRR", **PERCENT),
    Column("ranking_10", "hits@10", "", "hits@10", **PERCENT),
)
FREQUENCY = "value frequency alone"
TUNED = (
    Column(EASY_F1, "easy F1", "", EASY, **PERCENT),
    Column("easy_best", "maximum", "", EASY, **PERCENT),
    Column(HARD_F1, "hard F1", "", HARD, **PERCENT),
    Column("hard_best", "maximum", "", HARD, **PERCENT),
    Column("easy_accuracy", "easy accuracy", "", EASY, **PERCENT),
    Column("hard_accuracy", "hard accuracy", "", HARD, **PERCENT),
)
ROUTES = ("titles", "values", "predicted", "fused")
MISSING_HARD = f"{MISSING}|{HARD}|fused|{FOUND}"


QTRELS = (EASY_F1, HARD_F1)
ORDERINGS = (
    Ordering("em", "base", QTRELS, "table 5"),
    Ordering("em_128", "base_128", QTRELS, "table 5; batch 128"),
    Ordering("em_pap", "em", QTRELS, "table 5"),
    Ordering("em_pap", "em_128", QTRELS, "table 5; the paper's batches"),
    Ordering("em_pap", "base", QTRELS, "table 5"),
    Ordering("em_pap", "base_128", QTRELS, "table 5; the paper's batches"),
    *(Ordering("em_pap", f"rho_{share}", QTRELS, "§4.3.2, figure 2: ρ 5% is the best") for share in (1, 10, 15)),
    *(Ordering("em_pap", f"gamma_{margin}", QTRELS, "§4.3.2: γ 4 is the best") for margin in (2, 6, 8)),
    Ordering("em_pap", "em", ("ranking_1", "ranking_apart", MISSING_HARD), "not in the paper: what PAP trains"),
    Ordering("em", "em_128", QTRELS, "not in the paper: batch 16 over 128 at as many sequences"),
)
RHOS, GAMMAS = ("rho_1", "em_pap", "rho_10", "rho_15"), ("gamma_2", "em_pap", "gamma_6", "gamma_8")
TITLES = {EASY_F1: "QTRel-easy F1", HARD_F1: "QTRel-hard F1", MISSING_HARD: "recall@10 of missing values, hard, fused"}
TITLES |= {"ranking_1": "value among 100 @1", "ranking_apart": "value among 100 @1, no word shared"}


def figures_in(
    trained: Mapping[str, Any], ranked: Mapping[tuple[str, str, str], float], searched: Mapping[str, Any]
) -> dict[str, float]:
    """Return the figures of one row and seed by column.

    Args:
        trained: what pretraining.json says.
        ranked: (benchmark, metric, subset) -> value, of the report on attribute_ranking.
        searched: what qtrel.json says; nothing where the row was not fine-tuned.
    """
    of_training = trained["figures"] | {"sequences": trained["batch"] * trained["steps"]}
    figures = {
        one.name: float(of_training[key]) for one in PRETRAINED if (key := one.metric or one.name) in of_training
    }
    for one in RANKED:
        for prefix, subset in (("", one.subset), ("frequency_", FREQUENCY)):
            # What frequency alone gives is told for all questions only.
            if prefix and one.subset != "all":
                continue
            value = ranked.get(("attribute_ranking", one.metric, subset))
            if value is not None:
                figures[prefix + one.name] = value
    for short, name in (("easy", EASY), ("hard", HARD)):
        if runs := searched.get("fine_tuned", {}).get(name):
            figures[f"{short}_f1"], figures[f"{short}_best"] = float(np.mean(runs["f1"])), float(max(runs["f1"]))
            figures[f"{short}_accuracy"] = float(np.mean(runs["accuracy"]))
    for setting, by_set in searched.get("search", {}).items():
        for name, routes in by_set.items():
            for route, values in routes.items():
                for measure in (FOUND, "mrr"):
                    figures[f"{setting}|{name}|{route}|{measure}"] = float(values[measure])
    return figures


def gains(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return seed -> by how much the first row is above the second, for the seeds that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(set(first) & set(second))}


def ranges(rows: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return seed -> the greatest figure of the rows less the least, for the seeds that all have."""
    seeds = sorted(set.intersection(*map(set, rows)))
    return {seed: max(row[seed] for row in rows) - min(row[seed] for row in rows) for seed in seeds}


def claims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge what the paper claims on rows of `figures` by column and seed; claims on missing rows are left out."""
    found = []
    for claim, measure, source, first, second in _compared(rows):
        said = verdict(first, second)
        if said is not None:
            found.append({"claim": claim, "measure": TITLES[measure], "paper": source, **said})
    return found


def _compared(
    rows: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, str, str, Mapping[int, float], Mapping[int, float]]]:
    """Yield claim, measure, source, and two rows of seed -> number, the first of which is said to be the greater."""
    by_name = {row["name"]: row for row in rows}

    def figures(name: str, column: str) -> Mapping[int, float]:
        found: Mapping[int, float] = by_name[name]["figures"].get(column, {})
        return found

    for one in ORDERINGS:
        if one.first in by_name and one.second in by_name:
            for column in one.columns:
                claim = f"{by_name[one.first]['title']} over {by_name[one.second]['title']}"
                yield claim, column, one.source, figures(one.first, column), figures(one.second, column)
    for other in ("em", "em_128"):
        if "em_pap" in by_name and other in by_name:
            hard, easy = (gains(figures("em_pap", one), figures(other, one)) for one in (HARD_F1, EASY_F1))
            claim = f"what PAP adds to {by_name[other]['title']}: more to the hard part than to the easy one"
            yield claim, HARD_F1, "§4.3.2: 1.98 against 0.23", hard, easy
    if set(RHOS) | set(GAMMAS) <= set(by_name):
        for column in QTRELS:
            by_rho, by_gamma = (ranges([figures(name, column) for name in names]) for names in (RHOS, GAMMAS))
            yield "greatest less least, by ρ over by γ", column, "§4.3.2: γ matters less", by_rho, by_gamma


def markdown(rows: Sequence[Mapping[str, Any]], sets: Mapping[str, Any], judged: Sequence[Mapping[str, Any]]) -> str:
    """Return all tables of what is finished as Markdown.

    Args:
        rows: of `electra_rows.rows_of`.
        sets: counts of the sets of query-title relevance.
        judged: of `claims`.
    """
    tuned = [dict(row) | {"seeds": sorted(own)} for row in rows if (own := row["figures"].get(HARD_F1))]
    lines = ["# ELECTRA, entity masking, product attribute prediction", "", "## Pre-training", ""]
    lines += [*table(rows, PRETRAINED), "", "Not masked alike, rows with EM and without are not to be compared here."]
    lines += ["", "## The held-out value among 100 of its attribute", "", *table(_with_frequency(rows), RANKED), ""]
    if tuned:
        sizes = "; ".join(
            f"{name} " + " / ".join(f"{sets[f'{name}.{part}']['pairs']:,}" for part in ("train", "dev", "test"))
            for name in SETS
        )
        lines += ["## Query-title relevance (table 5)", "", *table(tuned, TUNED), ""]
        lines += [f"Pairs: {sizes}. Half are relevant: who always says so has F1 66.7, accuracy 50.", ""]
        for setting, told in ((KNOWN, "the table as it is"), (MISSING, "the values asked for are taken out of it")):
            columns = [
                Column(f"{name}|{measure}", f"{name} {measure}", "", "", **PERCENT)
                for name in SETS
                for measure in (FOUND, "mrr")
            ]
            lines += [f"## Search: {told}", "", *table(list(_by_route(tuned, setting)), columns), ""]
    if judged:
        lines += ["## Which of the paper's claims hold", "", *_judged(judged), ""]
    lines += [
        "Mean ± standard deviation over n seeds of the pre-training (n - 1 in the denominator). F1 and accuracy: the "
        "mean of the runs of fine-tuning of each seed; maximum: the best of them. Loss and AUC on text that is held "
        "out. A claim holds where the mean difference, seed by seed, is above its standard deviation, and does not "
        "where it is below minus that. F1, accuracy and recall in percent.",
        "",
    ]
    return "\n".join(lines)


def _with_frequency(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows with one more: what a value's frequency with the attribute gives, the same for all of them."""
    first = next((row for row in rows if "frequency_ranking_1" in row["figures"]), None)
    if first is None:
        return list(rows)
    own = {
        one.name: dict([next(iter(first["figures"][key].items()))])
        for one in RANKED
        if (key := f"frequency_{one.name}") in first["figures"]
    }
    return [{"title": FREQUENCY, "seeds": [0], "figures": own}, *rows]


def _by_route(rows: Sequence[Mapping[str, Any]], setting: str) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each row and route of the search."""
    for row in rows:
        for route in ROUTES:
            figures = {
                f"{name}|{measure}": row["figures"].get(f"{setting}|{name}|{route}|{measure}", {})
                for name in SETS
                for measure in (FOUND, "mrr")
            }
            if any(figures.values()):
                yield {"title": f"{row['title']}: {route}", "seeds": row["seeds"], "figures": figures}


def _judged(judged: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| claim | on | difference, points | n | verdict | in the paper |", "|---|---|---:|---:|---|---|"]
    for one in judged:
        ends = "" if one["sd"] is None else f" ± {100 * one['sd']:.1f}"
        lines.append(
            f"| {one['claim']} | {one['measure']} | {100 * one['mean']:+.1f}{ends} | {one['n']} | {one['verdict']} "
            f"| {one['paper']} |"
        )
    return lines
