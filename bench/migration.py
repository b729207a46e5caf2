"""What a new release of a terminology does to decisions: counts by reason, and cases to judge by eye.

    python bench/migration.py --from OLD.terminology --to NEW.terminology -o OUT [--rows 3000]

A store is made with one decision a row: the row's string is a term of a live concept of the old release, drawn with the
seed (at most one a concept), and a reviewer has accepted that concept. `alphita mappings migrate` then says, without
applying it, what the new release changes. OUT/cases.md shows some changes of each reason, drawn with the seed, with
what the releases say of the concepts: that is what a person looks at. Nobody's decisions are in it.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from alphita import artefact
from alphita.errors import AlphitaError
from alphita.mappings.record import COLUMNS, Mapping
from alphita.terminology.store import Terminology, load_terminology
from decisions import Decided, fill

# Shown of each reason.
CASES = 2


def drawn(terminology: Terminology, count: int, seed: int) -> list[tuple[str, str, str]]:
    """Return (term, concept, its name) of `count` live concepts."""
    chance = random.Random(seed)
    live = np.flatnonzero(~np.asarray(terminology.retired)).tolist()
    found = [terminology.concept(row) for row in sorted(chance.sample(live, min(count, len(live))))]
    return [(chance.choice(one.terms).string, one.id, one.name) for one in found]


def decided(number: int, term: str, concept: str, name: str) -> Decided:
    """Return a row whose string is a term of the concept that was accepted for it."""
    cells: dict[str, Any] = dict.fromkeys(COLUMNS)
    cells |= {
        "row": number, "mention": term, "rank": 1, "concept_id": concept, "concept_name": name, "matched_term": term,
        "method": "exact", "relation": "exact", "status": "unreviewed", "mapping_type": "maps_to",
    }  # fmt: skip
    return Decided(term, [Mapping(**cells)], concept)


def cases(changes: list[dict[str, str]], old: Terminology, new: Terminology, seed: int) -> str:
    """Return some changes of each reason as Markdown."""
    chance = random.Random(seed)
    lines = ["# Decisions that a new release changes", ""]
    for reason in sorted({one["reason"] for one in changes}):
        those = [one for one in changes if one["reason"] == reason]
        lines += [f"## {reason}: {len(those):,}", ""]
        for one in chance.sample(those, min(CASES, len(those))):
            lines += [
                f"- **{one['mention']}** was {one['old_concept']} {one['old_name']}: {one['fate']}"
                + (f" to {one['new_concept']} {one['new_name']}" if one["new_concept"] else "")
                + (f" ({one['detail']})" if one["detail"] else ""),
                f"  - old: {_told(old, one['old_concept'])}",
                f"  - new: {_told(new, one['old_concept'])}",
                *(f"  - {other}: {_told(new, other)}" for other in one["new_concept"].split(" | ") if other),
            ]
        lines.append("")
    return "\n".join(lines)


def _told(terminology: Terminology, curie: str) -> str:
    try:
        concept = terminology.concept(curie)
    except AlphitaError as error:
        return str(error)
    terms = "; ".join(dict.fromkeys(one.string for one in concept.terms))
    told = f"{concept.id} {concept.name}{' (retired)' if concept.retired else ''}; terms: {terms}"
    parents = ", ".join(terminology.concept(parent).name for parent in concept.parents)
    return f"{told}; under {parents}" if parents else told


def main(given: list[str] | None = None) -> None:
    """Make the store, ask what would change, and write counts and cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="old", type=Path, required=True)
    parser.add_argument("--to", dest="new", type=Path, required=True)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    old, new = load_terminology(arguments.old), load_terminology(arguments.new)
    arguments.output.mkdir(parents=True, exist_ok=True)
    reviews = arguments.output / "reviews.sqlite"
    rows = [decided(number, *one) for number, one in enumerate(drawn(old, arguments.rows, arguments.seed), 1)]
    fill(reviews, old.content_hash, rows)
    folder = arguments.output / "migration"
    words = ["mappings", "migrate", reviews, "--from", arguments.old, "--to", arguments.new, "-o", folder]
    subprocess.run([sys.executable, "-m", "alphita", *map(str, words)], check=True)
    with open(folder / "migration.csv", encoding="utf-8", newline="") as file:
        changes = list(csv.DictReader(file))
    found = {
        "rows": len(rows), "changed": len(changes), "fates": Counter(one["fate"] for one in changes),
        "reasons": Counter(one["reason"] for one in changes), "seed": arguments.seed,
        "releases": [
            {"sources": one.manifest["sources"], "concepts": one.manifest["counts"]["concepts"]}
            for one in (old, new)
        ],
    }  # fmt: skip
    with artefact.atomic_file(arguments.output / "counts.json", "w") as file:
        json.dump(found, file, indent=1)
    with artefact.atomic_file(arguments.output / "cases.md", "w") as file:
        file.write(cases(changes, old, new, arguments.seed))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
