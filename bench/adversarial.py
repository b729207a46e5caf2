"""Mentions made to be answered wrongly, by kind: what is accepted of them, and what of that is wrong.

    python bench/adversarial.py bench/adversarial.tsv --to hpo

Columns of the file: kind, origin ("seen" by whoever mended the answers, or "blind"), mention, and what is right: CURIEs
of which any will do, with | between; of several concepts all, with + between; `NIL` where no concept fits; `?` where
the string alone does not tell; `NOT` where nothing is found with the patient. Whatever is accepted for the last three,
or for several concepts as one, is wrong.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import alphita
from alphita import artefact, machine
from alphita.normalizer.answering.several import names_in

HERE = Path(__file__).resolve().parent


def judge(right: str, concept: str | None, decision: str | None) -> tuple[bool, bool]:
    """Return whether an answer is right, and whether it is accepted though it is wrong."""
    allowed = set(right.split("|"))
    is_right = concept in allowed or (concept is None and not any(":" in each for each in allowed))
    return is_right, decision == "accept" and concept not in allowed


def measure(rows: list[dict[str, str]], to: str, error: float) -> dict[str, Any]:
    """Return the counts of each kind and origin, and the mentions that are accepted wrongly."""
    normalizer = alphita.load(to, error=error)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = []
    for row, result in zip(rows, normalizer.normalize([row["mention"] for row in rows]), strict=True):
        is_right, is_wrong_accept = judge(row["right"], result.concept_id, result.decision)
        if "+" in row["right"]:
            parts = names_in(row["mention"], normalizer.index.rows)
            answered = {each.concept_id for each in normalizer.normalize(parts)}
            is_right = answered == set(row["right"].split("+"))
        for kind in (row["kind"], row["origin"], "all"):
            counts[kind].update(
                mentions=1,
                right=is_right,
                accepted=result.decision == "accept",
                accepted_wrong=is_wrong_accept,
                nil=result.decision == "nil",
            )
        if is_wrong_accept:
            wrong.append({**row, "accepted": f"{result.concept_id} {result.concept_name}"})
    return {"counts": {kind: dict(count) for kind, count in counts.items()}, "accepted_wrong": wrong}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mentions", type=Path)
    parser.add_argument("--to", default="hpo")
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("-o", "--out", type=Path, default=HERE.parent / "docs" / "results" / "adversarial.json")
    given = parser.parse_args()
    with given.mentions.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = measure(rows, given.to, given.error)
    facts = {"to": given.to, "error": given.error, "mentions": artefact.hash_file(given.mentions)}
    with artefact.atomic_file(given.out, "w") as file:
        json.dump({**found, **facts, "machine": machine.describe()}, file, indent=1, ensure_ascii=False)
    for kind, count in found["counts"].items():
        print(f"{kind:12}", "  ".join(f"{name} {number}" for name, number in count.items()))
    for row in found["accepted_wrong"]:
        print(f"accepted wrongly: {row['mention']} -> {row['accepted']}; right is {row['right']}")


if __name__ == "__main__":
    main()
