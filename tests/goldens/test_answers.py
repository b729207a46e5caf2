"""Every answer of the default path to the strings that come with the project: the concept, the decision, how sure.

`answers/` holds a line for each string, in the order of its file. Concepts and decisions must be equal. The last digits
of vectors vary with the processor and its threads, and confidence with them by up to `TOLERANCE`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import alphita

ROOT = Path(__file__).parents[2]
# Each file with its delimiter and the column of its strings.
FILES = {
    "bench/attack.tsv": ("\t", "mention"),
    "bench/adversarial.tsv": ("\t", "mention"),
    "examples/messy_terms.csv": (",", "mention"),
    "examples/local_codes.csv": (",", "description"),
}
TOLERANCE = 0.03


@pytest.fixture(scope="module")
def normalizer() -> alphita.Normalizer:
    return alphita.load("hpo")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_answers_are_those_of_before(name, normalizer):
    delimiter, column = FILES[name]
    with open(ROOT / name, encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        mentions = [row[column] for row in csv.DictReader(file, delimiter=delimiter, quoting=quoting)]
    results = normalizer.normalize(mentions)
    with open(Path(__file__).parent / "answers" / f"{Path(name).stem}.tsv", encoding="utf-8", newline="") as file:
        golden = list(csv.DictReader(file, delimiter="\t"))
    assert len(results) == len(golden) > 0
    differing = [
        f"{result.mention}: {result.concept_id} {result.decision} {result.confidence}, was {was}"
        for result, was in zip(results, golden, strict=True)
        if (result.concept_id or "", result.decision) != (was["concept_id"], was["decision"])
        or abs((result.confidence or 0) - float(was["confidence"])) > TOLERANCE
    ]
    assert differing == []
