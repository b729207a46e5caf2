"""Every answer of the default path to the strings that come with the project: the concept, the decision, how sure.

Vectors differ in their last digits from processor to processor, and so may an answer in a thousand: a hash that fails
on another machine says less than the lines that `ALPHITA_KEEP_GOLDENS` keeps for `diff`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import alphita
from tests.goldens.golden import Goldens

ROOT = Path(__file__).parents[2]
# Each file with its delimiter and the column of its strings.
FILES = {
    "bench/attack.tsv": ("\t", "mention"),
    "bench/adversarial.tsv": ("\t", "mention"),
    "examples/messy_terms.csv": (",", "mention"),
    "examples/local_codes.csv": (",", "description"),
}
GOLDENS = Goldens("answers", list(FILES))


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
    lines = [f"{one.mention}\t{one.concept_id}\t{one.decision}\t{one.confidence or 0:.2f}" for one in results]
    GOLDENS.check(name, "\n".join(lines))


@pytest.mark.slow
def test_every_file_has_its_golden():
    GOLDENS.check_complete()
