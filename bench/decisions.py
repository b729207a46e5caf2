"""A store of reviews in which a table's own answers are the decisions: to measure what is learned from decisions.

    python bench/decisions.py --index X.index --table mentions.csv -o reviews.sqlite
    alphita calibrate --index X.index --from-mappings reviews.sqlite -o with_decisions.calibration

The table has the columns mention and concept_id ("NIL": none fits). The index answers each distinct mention; a reviewer
who knows the table accepts the first candidate where it is right, and else chooses another concept or says NIL, in the
order of the seed. What the commands with --from-mappings then report is measured on the newest fifth.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from alphita.errors import UsageError
from alphita.index.store import Index
from alphita.mappings.record import Mapping
from alphita.mappings.review.records import Decision, Kind, Project, Row
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.normalizer import Normalizer
from alphita.normalizer.records import lines

PROJECT, REVIEWER = "table", "simulated"
TOP = 5
NIL = "NIL"


class Decided(NamedTuple):
    """A mention, what it was answered, and what is right (None: no concept)."""

    mention: str
    candidates: Sequence[Mapping]
    concept: str | None


def fill(path: Path, terminology: str, decided: Iterable[Decided]) -> int:
    """Make a store of decisions; return how many there are.

    Args:
        path: of the store, which must not be there.
        terminology: content hash of the release that they are about.
        decided: in the order in which they are taken.
    """
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name")
    all_ = list(decided)
    with ReviewStore.open(path, create=True) as store:
        store.add_project(Project(PROJECT, "simulated", "mention", terminology, "", "none", ""))
        store.add_rows(
            PROJECT,
            (
                Row(0, PROJECT, number, str(number), one.mention, 1, {}, tuple(one.candidates))
                for number, one in enumerate(all_, 1)
            ),
        )
        for number, one in enumerate(all_, 1):
            answered = one.candidates[0].concept_id if one.candidates else None
            kind: Kind = "nil" if one.concept is None else "accept" if one.concept == answered else "choose"
            store.decide(Decision(f"u{number}", PROJECT, number, REVIEWER, kind, one.concept))
    return len(all_)


def main(given: list[str] | None = None) -> None:
    """Answer the table's mentions and decide them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    with open(arguments.table, encoding="utf-8-sig", newline="") as file:
        right = {line["mention"]: line["concept_id"] for line in csv.DictReader(file)}
    mentions = list(right)
    random.Random(arguments.seed).shuffle(mentions)
    index = Index.open(arguments.index)
    results = Normalizer(index).normalize(mentions, top_k=TOP)
    decided = (
        Decided(mention, lines(number, result, TOP), None if right[mention] == NIL else right[mention])
        for number, (mention, result) in enumerate(zip(mentions, results, strict=True), 1)
    )
    count = fill(arguments.output, str(index.manifest["terminology_hash"]), decided)
    print(f"{arguments.output}: {count:,} decisions")


if __name__ == "__main__":
    main()
