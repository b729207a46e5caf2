"""What the papers claim, judged on our figures by one rule: the table of docs/results/claims.md.

    python runs/claims.py docs/results

claims.tsv in that folder lists the claims. A line names two rows of FILE.json and a column whose figures it keeps by
seed (`of first/of second` where they differ), and the end of the measure's range; "over" says that the first is above
the second, "alike" that they are equal. `study.judge` says how a verdict is reached. Experiments (runs/experiments.py)
keep items beside the seeds, so their intervals have both; their claims are read from their own tables.

A note says what the interval does not:

    untrained    one of the two has learnt nothing of its own task yet; the verdict is then that it cannot be told
    MS starves   the second is below the encoder as it comes: shown is that a damage is undone, not a gain
    tuned base   the encoder as it comes was tuned on a billion pairs of sentences; those of the papers were not
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import study
from alphita.errors import InputError

CLAIMS = "claims.tsv"
UNSEEDED = ("base", "start", "the encoder as it comes")
"""Rows of encoders that are not trained: their one figure stands beside each seed."""
NOTES = {
    "": "",
    "untrained": "; one of them has learnt nothing yet",
    "MS starves": "; over a starved MS",
    "tuned base": "; a base tuned before",
}


def listed(folder: Path) -> list[dict[str, str]]:
    """Return the claims, a column's name -> its cell."""
    with (folder / CLAIMS).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def figures(found: Mapping[str, Any], row: str, column: str) -> dict[int, float]:
    """Return seed -> figure of a row of a table; {} if it has none."""
    if row in found.get("cells", {}):
        return {
            int(seed): cell["figures"][column]
            for seed, cell in found["cells"][row].items()
            if column in cell["figures"]
        }
    for one in [*found["rows"], *found.get("graphs", [])]:
        if row in (one.get("name"), one["title"]):
            of = one["figures"].get(column, {})
            values = dict(zip(one["seeds"], of["values"], strict=True)) if "values" in of else of
            return {int(seed): float(value) for seed, value in values.items()}
    return {}


def judged(claim: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return a claim with the means of its two rows, the difference with its interval, in points, and the verdict."""
    file = folder / f"{claim['file']}.json"
    found = study.read(file)
    columns = claim["column"].split("/") * 2
    first, second = (
        figures(found, claim[side], column) for side, column in zip(("first", "second"), columns, strict=False)
    )
    if not first or not second:
        raise InputError(
            "has no such figures", file=file, field=claim["column"], value=f"{claim['first']}, {claim['second']}"
        )
    first, second = beside(claim["first"], first, second), beside(claim["second"], second, first)
    said = of_items(found, claim) or study.verdict(first, second, float(claim["range"]) / 100)
    if said is None:
        raise InputError("these rows share no seed", file=file, value=f"{claim['first']}, {claim['second']}")
    point = float(claim["range"]) / 100
    said["verdict"] = study.concluded(said["low"], said["high"], point, alike=claim["kind"] == "alike")
    if claim["note"] == "untrained":
        said["verdict"] = study.OPEN
    seeds = sorted(set(first) & set(second))
    means = [float(np.mean([side[seed] for seed in seeds])) for side in (first, second)]
    return {**claim, **said, "means": means, "point": point}


def beside(name: str, own: dict[int, float], other: Mapping[int, float]) -> dict[int, float]:
    """Return the figures of a row for the seeds of another, if it has one figure for all."""
    return dict.fromkeys(other, next(iter(own.values()))) if name in UNSEEDED and len(own) == 1 else own


def of_items(found: Mapping[str, Any], claim: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what an experiment's own table says of the claim, by seeds and items; None for other tables."""
    for one in found.get("orderings", []):
        if one.get("arms") == [claim["first"], claim["second"]] and one["column"] == claim["column"]:
            return {key: one[key] for key in ("n", "mean", "low", "high")}
    return None


def markdown(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of the verdicts."""
    lines = [
        "| claim | where | on | first | second | points [95%] | n | verdict |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for one in claims:
        top = float(one["range"])
        shown = [f"{mean:.2f}" if 1 < top < 100 else f"{mean * 100 / top:.1f}" for mean in one["means"]]
        ends = [] if one["low"] is None else [f"{one[end] / one['point']:+.1f}" for end in ("low", "high")]
        points = f"{one['mean'] / one['point']:+.1f}" + (f" [{', '.join(ends)}]" if ends else "")
        measure = f"[{one['measure']}]({one['file']}.json)"
        cells = [
            one["claim"],
            one["where"],
            measure,
            *shown,
            points,
            str(one["n"]),
            f"{one['verdict']}{NOTES[one['note']]}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def of_folder(folder: Path) -> str:
    """Return the table of the claims that a folder lists."""
    return markdown([judged(claim, folder) for claim in listed(folder)])


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of claims.tsv and the figures")
    given = parser.parse_args(words)
    return study.status(lambda: print(of_folder(given.folder)))


if __name__ == "__main__":
    sys.exit(main())
