"""Mentions made to be answered wrongly, by kind: what is accepted of them, and what of that is wrong.

    python bench/adversarial.py bench/adversarial.tsv --to hpo
    python bench/adversarial.py bench/attack.tsv --to hpo

attack.tsv: what was accepted of a stranger's 4,168 strings ("blind"), and 2,292 of whoever mended, half laid aside.

What NIL costs is told beside: of the mentions that one concept or more is right for, how often the first candidate is
right, or one of five, and how often NIL was answered though it was. As JSON, and as a table to read.

Columns of the file: kind, origin ("seen" by whoever mended the answers, "blind", "second", "third" to "tenth" of
strangers, or "aside": written by whoever mended, and looked at when it was done), mention, and what is right: CURIEs of
which any will do, with | between; of several concepts all, with + between; `NIL` where no concept fits; `?` where the
string alone does not tell; `NOT` where nothing is found with the patient. Whatever is accepted for the last three, or
for several concepts as one, is wrong.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import alphita
import harness
from alphita import artefact
from alphita.mention.assertion import names_in

HERE = Path(__file__).resolve().parent
FIVE = 5
COLUMNS = {
    "mentions": "mentions",
    "right": "right",
    "accepted": "accepted",
    "accepted_wrong": "accepted wrong",
    "nil": "NIL",
    "named": "one concept is right",
    "first": "first candidate",
    "five": "among five",
    "lost_first": "NIL though first",
    "lost_five": "NIL though among five",
}


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
    results = normalizer.normalize([row["mention"] for row in rows], top_k=FIVE)
    for row, result in zip(rows, results, strict=True):
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
                **_of_candidates(row["right"], [each.concept_id for each in result.candidates], result.concept_id),
            )
        if is_wrong_accept:
            wrong.append({**row, "accepted": f"{result.concept_id} {result.concept_name}"})
    return {"counts": {kind: dict(count) for kind, count in counts.items()}, "accepted_wrong": wrong}


def _of_candidates(right: str, candidates: list[str], answer: str | None) -> dict[str, bool]:
    """Return where the right concept of a mention stands, and whether NIL was answered all the same."""
    wanted = set(right.split("|"))
    named = ":" in right and "+" not in right
    first, five = named and candidates[0:1] != [] and candidates[0] in wanted, named and bool(wanted & set(candidates))
    is_nil = answer is None
    return {"named": named, "first": first, "five": five, "lost_first": first and is_nil, "lost_five": five and is_nil}


def table(found: dict[str, Any], facts: str, before: dict[str, Any] | None = None) -> str:
    """Return the counts as a page of Markdown, beside those of a former report, if there is one."""
    lines = ["# Misleading mentions, and the cost of NIL", "", facts, ""]
    lines += ["| kind | " + " | ".join(COLUMNS.values()) + " |", "|" + "---|" * (len(COLUMNS) + 1)]
    for kind, count in found["counts"].items():
        lines.append(f"| {kind} | " + " | ".join(str(int(count[name])) for name in COLUMNS) + " |")
    if before is not None:
        lines += ["", "Before, and now:", "", "| kind | accepted | accepted wrong |", "|---|---|---|"]
        for kind, now in found["counts"].items():
            then = before["counts"].get(kind, {})
            pairs = [f"{int(then.get(name, 0))} → {int(now[name])}" for name in ("accepted", "accepted_wrong")]
            lines.append(f"| {kind} | {' | '.join(pairs)} |")
    if wrong := "; ".join(row["mention"] for row in found["accepted_wrong"]):
        lines += ["", f"Wrongly accepted ([with their answers](adversarial.json)): {wrong}."]
    else:
        lines += ["", "None is wrongly accepted."]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Run from the command line."""
    parser = harness.parser(__doc__)
    parser.add_argument("mentions", type=Path)
    parser.add_argument("--to", default="hpo")
    parser.add_argument("--error", type=float, default=0.05)
    parser.add_argument("--before", type=Path, help="the JSON of a former report of the same mentions, to compare with")
    parser.set_defaults(output=HERE.parent / "docs" / "results" / "adversarial.json")
    given = parser.parse_args()
    with given.mentions.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    before = json.loads(given.before.read_text(encoding="utf-8")) if given.before is not None else None
    found = measure(rows, given.to, given.error)
    harness.write(given, found, mentions=artefact.hash_file(given.mentions))
    told = (
        f"`python bench/adversarial.py bench/{given.mentions.name} --to {given.to}`, at an allowed error of "
        f"{given.error:.0%}; by kind, by author (`seen`: written by the developers; `aside`: also, but "
        "evaluated only at the end; `blind` to `tenth`: independent tests, reduced to the strings that were "
        "accepted at that time and judged right or wrong), and all."
    )
    with artefact.atomic_file(given.output.with_suffix(".md"), "w") as file:
        file.write(table(found, told, before))
    for kind, count in found["counts"].items():
        print(f"{kind:12}", "  ".join(f"{name} {number}" for name, number in count.items()))
    for row in found["accepted_wrong"]:
        print(f"accepted wrongly: {row['mention']} -> {row['accepted']}; right is {row['right']}")


if __name__ == "__main__":
    main()
