"""Every answer of the default path to the strings that come with the project: the concept, the decision, how sure.

.ci/wheel compares two of the files at each run. Two processors differ in one decision of a hundred: the head is trained
on vectors that they round differently. To see what a commit changes, run this with ALPHITA_KEEP_GOLDENS=FOLDER on both
commits and one machine, and `diff -r`.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

import alphita
from tests.goldens.golden import KEEP

ROOT = Path(__file__).parents[2]
# Each file with its delimiter and the column of its strings.
FILES = {
    "bench/attack.tsv": ("\t", "mention"),
    "bench/adversarial.tsv": ("\t", "mention"),
    "bench/development/hpo.tsv": ("\t", "string"),
    "examples/messy_terms.csv": (",", "mention"),
    "examples/local_codes.csv": (",", "description"),
}
# Share of decisions that may differ, and the mean difference of confidences.
MAX_DIFFERING, MAX_MEAN = 0.02, 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_answers_are_those_of_before(name):
    delimiter, column = FILES[name]
    with open(ROOT / name, encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        mentions = [row[column] for row in csv.DictReader(file, delimiter=delimiter, quoting=quoting)]
    results = alphita.load("hpo").normalize(mentions)
    golden = Path(__file__).parent / "answers" / f"{Path(name).stem}.tsv"
    if kept := os.environ.get(KEEP):
        path = Path(kept, "answers", golden.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{result.concept_id or ''}\t{result.decision}\t{result.confidence or 0:.2f}\n" for result in results]
        path.write_text("concept_id\tdecision\tconfidence\n" + "".join(lines), encoding="utf-8")
    with open(golden, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    differing = [
        f"{result.mention}: {result.concept_id} {result.decision} {result.confidence}, was {row}"
        for result, row in zip(results, rows, strict=True)
        if (result.concept_id or "", result.decision) != (row["concept_id"], row["decision"])
    ]
    assert len(differing) <= MAX_DIFFERING * len(rows), "\n".join(differing)
    pairs = zip(results, rows, strict=True)
    assert sum(abs((result.confidence or 0) - float(row["confidence"])) for result, row in pairs) < MAX_MEAN * len(rows)
