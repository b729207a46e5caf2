"""The tables of the Italian system: figures with their spread over the seeds, and which of the paper's orderings hold.

Each ordering is one that Amore Bondarenko et al. 2022 print, said as "first over second on a measure". It is judged by
the differences of the two rows, seed by seed: it holds if their mean is above their standard deviation (n - 1 in the
denominator), it does not if the mean is below minus that, and otherwise the two are within the spread of the seeds. One
seed tells nothing of the spread: then the difference alone is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphita_lab.evaluation.scoring.mcsm import discounts

HOLDS, FAILS, SPREAD, ONE = "holds", "does not hold", "within the spread", "one seed"
# Measures whose mean says how good a row is "on average", each of 1 at most.
AVERAGE = "average"
BY_TYPE = "MCSM type="


@dataclass(frozen=True)
class Column:
    """One column: where its figure stands in a report.

    Attributes:
        name: its key in table.json.
        title: as the table prints it.
        benchmark: in the report.
        metric: of the system.
        subset: of the rows.
        scale: what the figure is printed times.
        digits: printed after the point.
    """

    name: str
    title: str
    benchmark: str
    metric: str
    subset: str = "all"
    scale: float = 1.0
    digits: int = 2


COLUMNS = (
    Column("mcsm", "MCSM", "mcsm", "MCSM", "mean of types"),
    Column("f1", "clustering F1", "clustering_pairs", "F1", scale=100, digits=1),
    Column("theta", "θ", "clustering_pairs", "theta"),
    Column("f1_tuned", "F1, θ tuned elsewhere", "clustering_pairs", "F1, tuned theta", scale=100, digits=1),
    Column("theta_tuned", "that θ", "clustering_pairs", "theta, tuned"),
    Column("mayo", "MayoSRS", "relatedness", "Spearman", "dataset=MayoSRS"),
    Column("mini_physicians", "MiniMayoSRS, physicians", "relatedness", "Spearman", "dataset=MiniMayoSRS physicians"),
    Column("mini_coders", "MiniMayoSRS, coders", "relatedness", "Spearman", "dataset=MiniMayoSRS coders"),
    Column("umnsrs", "UMNSRS relatedness", "relatedness", "Spearman", "dataset=UMNSRS relatedness"),
    Column("umnsrs_similarity", "UMNSRS similarity", "relatedness", "Spearman", "dataset=UMNSRS similarity"),
    Column("synonyms_1", "held-out synonyms @1", "held_out_synonyms", "accuracy@1", scale=100, digits=1),
    Column("synonyms_5", "@5", "held_out_synonyms", "accuracy@5", scale=100, digits=1),
    Column("translations_1", "held-out translations @1", "held_out_translations", "accuracy@1", scale=100, digits=1),
    Column("translations_5", "@5", "held_out_translations", "accuracy@5", scale=100, digits=1),
    Column("misspelt", "misspelt names @1", "misspelt_names", "accuracy@1", scale=100, digits=1),
)
GRAPH_COLUMNS = (
    *(Column(name, name, "", name, digits=3) for name in ("hits@1", "hits@3", "hits@10")),
    Column("MR", "MR", "", "MR", digits=0),
    Column("MRR", "MRR", "", "MRR", digits=3),
    Column("MCSM", "MCSM", "", "MCSM"),
    *(
        Column(one.subset.removeprefix("dataset="), one.title, "", "Spearman")
        for one in COLUMNS
        if one.benchmark == "relatedness"
    ),
    Column("CUIs", "CUIs", "", "CUIs", digits=0),
)
MAYO = ("mayo", "mini_physicians", "mini_coders")
RELATED = (*MAYO, "umnsrs")


@dataclass(frozen=True)
class Ordering:
    """One row over another in the paper.

    Attributes:
        first: the row that is better there.
        second: the other.
        columns: on which measures, by their names; those that nothing was measured of are passed over.
        source: where the paper says so.
    """

    first: str
    second: str
    columns: tuple[str, ...]
    source: str


ORDERINGS = (
    Ordering("v3", "v1", ("mcsm", "f1", "umnsrs"), "table 3"),
    Ordering("v1", "v3", MAYO, "table 3: v3 is not the best on MayoSRS"),
    Ordering("v2", "v1", ("mcsm", "f1"), "table 3"),
    Ordering("v3", "v2", ("mcsm", "f1"), "table 3"),
    Ordering("base", "ext", ("mcsm", "f1", *MAYO), "tables 4 and 5: masked language modelling alone does harm"),
    Ordering("ext", "base", ("misspelt",), "§3.1: the extended vocabulary helps to correct misspellings"),
    Ordering("v3", "ext", ("mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("injected", "ext", ("mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("v3", "injected", ("mcsm", "f1"), "tables 4 and 5"),
    Ordering("pipelined", "v3", (AVERAGE, "mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("pipelined", "injected", (AVERAGE, "mcsm", "f1", *RELATED), "tables 4 and 5"),
    *(
        Ordering(one, f"{one}_{other}", (AVERAGE,), "§4: ComplEx is the best in it")
        for one in ("v3", "injected")
        for other in ("transe", "rotate", "simple")
    ),
    Ordering("pipelined", "pipelined_cls", ("mcsm", "f1"), "§4: [CLS] loses on these"),
    Ordering("pipelined_cls", "pipelined", RELATED, "§4: [CLS] wins on these"),
    Ordering("pipelined_16", "pipelined", ("f1",), "§4, footnote 2: 16 epochs for 4"),
    Ordering("pipelined", "pipelined_16", ("mcsm", *RELATED), "§4: longer training harms these"),
)


def figures_in(found: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    """Return the figures of one report by column, with MCSM by type and the average.

    Args:
        found: (benchmark, metric, subset) -> value.
    """
    figures = {
        one.name: found[one.benchmark, one.metric, one.subset]
        for one in COLUMNS
        if (one.benchmark, one.metric, one.subset) in found
    }
    for (benchmark, metric, subset), value in sorted(found.items()):
        if (benchmark, metric) == ("mcsm", "MCSM") and subset.startswith("type="):
            figures[f"{BY_TYPE}{subset.removeprefix('type=')}"] = value
    parts = []
    if "mcsm" in figures:
        parts.append(figures["mcsm"] / float(discounts(40).sum()))
    if "f1" in figures:
        parts.append(figures["f1"])
    mayo = [figures[name] for name in (MAYO[:1] if MAYO[0] in figures else MAYO[1:]) if name in figures]
    parts += [float(np.mean(mayo))] if mayo else []
    parts += [figures["umnsrs"]] if "umnsrs" in figures else []
    if parts:
        figures[AVERAGE] = float(np.mean(parts))
    return figures


def verdict(first: Mapping[int, float], second: Mapping[int, float]) -> dict[str, Any] | None:
    """Return whether the first row is above the second: differences, their mean and standard deviation, verdict.

    Args:
        first: seed -> figure; of a row that has one figure for all seeds, {0: figure} (see `paired`).
        second: likewise.

    Returns:
        None where they have no seed in common.
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return None
    differences = [first[seed] - second[seed] for seed in seeds]
    mean = float(np.mean(differences))
    if len(seeds) == 1:
        return {"n": 1, "mean": mean, "sd": None, "verdict": ONE}
    sd = float(np.std(differences, ddof=1))
    said = HOLDS if mean > sd else FAILS if mean < -sd else SPREAD
    return {"n": len(seeds), "mean": mean, "sd": sd, "verdict": said}


def paired(row: Mapping[str, Any], other: Mapping[str, Any], column: str) -> Mapping[int, float]:
    """Return seed -> figure of a row; a row of no seed (the base) has its figure for each seed of the other."""
    own: Mapping[int, float] = row["figures"].get(column, {})
    if row["seeded"] or not own:
        return own
    (value,) = own.values()
    return dict.fromkeys(other["figures"].get(column, {}), value)


def orderings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge the paper's orderings on rows of `figures` by column and seed; those of missing rows are left out."""
    by_name = {row["name"]: row for row in rows}
    titles = {one.name: one.title for one in COLUMNS} | {AVERAGE: AVERAGE}
    found = []
    for one in ORDERINGS:
        if one.first not in by_name or one.second not in by_name:
            continue
        first, second = by_name[one.first], by_name[one.second]
        for column in one.columns:
            said = verdict(paired(first, second, column), paired(second, first, column))
            if said is not None:
                names = {"first": first["title"], "second": second["title"], "measure": titles[column]}
                found.append({**names, "column": column, "paper": one.source, **said})
    return found


def cell(values: Sequence[float], column: Column) -> str:
    """Return "17.4 ± 0.5": mean and standard deviation over the seeds (n - 1), none of one seed; "–" for no value."""
    if not values:
        return "–"
    scaled = [column.scale * value for value in values]
    spread = f" ± {np.std(scaled, ddof=1):.{column.digits}f}" if len(scaled) > 1 else ""
    return f"{np.mean(scaled):.{column.digits}f}{spread}"


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """Return the lines of a Markdown table with the columns that any row has."""
    shown = [one for one in columns if any(row["figures"].get(one.name) for row in rows)]
    lines = ["| row | n | " + " | ".join(one.title for one in shown) + " |", "|---|" + "---:|" * (len(shown) + 1)]
    for row in rows:
        cells = [cell(list(row["figures"].get(one.name, {}).values()), one) for one in shown]
        lines.append(f"| {row['title']} | {len(row['seeds'])} | " + " | ".join(cells) + " |")
    return lines


def table_by_type(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table of MCSM with a line for each semantic type and their mean; none, if none.

    The paper's table 4 has the types side by side; their names are too long for that here.
    """
    scored = [row for row in rows if COLUMNS[0].name in row["figures"]]
    names = dict.fromkeys(name for row in scored for name in row["figures"] if name.startswith(BY_TYPE))
    if not names:
        return []
    lines = ["| type | " + " | ".join(row["title"] for row in scored) + " |", "|---|" + "---:|" * len(scored)]
    for name, title in [
        *((name, name.removeprefix(BY_TYPE)) for name in names),
        (COLUMNS[0].name, "mean of the types"),
    ]:
        cells = [cell(list(row["figures"].get(name, {}).values()), COLUMNS[0]) for row in scored]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def markdown(
    rows: Sequence[Mapping[str, Any]], graphs: Sequence[Mapping[str, Any]], judged: Sequence[Mapping[str, Any]]
) -> str:
    """Return all tables of what is finished as Markdown."""
    lines = ["# The Italian system", ""]
    if graphs:
        lines += ["## Graph models (table 2)", "", *table(graphs, GRAPH_COLUMNS), ""]
    if rows:
        lines += ["## Encoders (tables 3 and 5)", "", *table(rows, COLUMNS), ""]
    if types := table_by_type(rows):
        lines += ["## MCSM by type (table 4)", "", *types, ""]
    if judged:
        lines += ["## Which of the paper's orderings hold", "", *table_of_orderings(judged), ""]
    lines += [
        "Mean ± standard deviation over n seeds (n - 1 in the denominator). F1 and accuracies in percent, MCSM of "
        "11.09 at most, Spearman's correlations as they are. θ: chosen on the scored pairs, as the paper does; beside "
        "it one chosen on other concepts. An ordering holds where the mean difference of the two rows, seed by seed, "
        "is above its standard deviation, and does not where it is below minus that. Average: the mean of MCSM (as a "
        "share of its maximum), F1, MayoSRS (MiniMayoSRS where that is all there is) and UMNSRS relatedness. CUIs: "
        "those of the relatedness sets that have a vector; pairs without are left out.",
        "",
    ]
    return "\n".join(lines)


def table_of_orderings(judged: Sequence[Mapping[str, Any]], columns: Sequence[Column] = COLUMNS) -> list[str]:
    """Return the lines of a Markdown table of what was judged, as `orderings` gives it, in the form of `columns`."""
    forms = {one.name: one for one in columns}
    lines = ["| first over second | on | difference | n | verdict | in the paper |", "|---|---|---:|---:|---|---|"]
    for one in judged:
        column = forms.get(one["column"], Column("", "", "", "", digits=3))
        ends = "" if one["sd"] is None else f" ± {column.scale * one['sd']:.{column.digits}f}"
        difference = f"{column.scale * one['mean']:+.{column.digits}f}{ends}"
        lines.append(
            f"| {one['first']} over {one['second']} | {one['measure']} | {difference} | {one['n']} | {one['verdict']} "
            f"| {one['paper']} |"
        )
    return lines
