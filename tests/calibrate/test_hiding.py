"""What is hidden takes along what only it knows: as in an index that was built without it."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.calibrate.hiding import Hidden
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.terminology.text import clean
from tests.doubles import HashEncoder, SmallTerminology

ROWS = [
    ("T:1", "Myocardial infarction", "exact", None),
    ("T:1", "Heart attack", "exact", None),
    ("T:1", "MI", "exact", "abbreviation"),
    ("T:2", "Mitral insufficiency", "exact", None),
    ("T:2", "Insufficient mitral valve", "exact", None),
    ("T:2", "MI of the heart", "exact", "abbreviation"),
    ("T:3", "Reflux of the gullet", "exact", None),
    ("T:3", "Gullet back flow disease", "exact", None),
    ("T:3", "GBFD", "exact", "abbreviation"),
    ("T:4", "Low red blood cell count", "exact", None),
    ("T:4", "Low RBC count", "exact", "abbreviation"),
    ("T:4", "Few red cells", "exact", None),
    ("T:5", "High red blood cell count", "exact", None),
    ("T:5", "High RBC count", "exact", "abbreviation"),
    ("T:6", "Loss of red blood cell", "exact", None),
    ("T:6", "Heart attack", "exact", None),
]
# A preferred name stays the concept's name when it is hidden, so only the others are taken out of the index compared.
FURTHER = sorted(
    {string for _, string, *_ in ROWS}
    - {next(string for other, string, *_ in ROWS if other == concept) for concept, *_ in ROWS}
)
MENTIONS = ["MI", "old MI", "GBFD", "RBC", "normal RBC count", "Low RBC count", "MI and GBFD", "heart attack"]


def indexed(rows, path) -> Index:
    return build(SmallTerminology([row[:3] for row in rows], types=[row[3] for row in rows]), HashEncoder(), path)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return indexed(ROWS, tmp_path_factory.mktemp("hiding") / "x.index")


def expansions(known: Abbreviations) -> list[set[tuple[str, str]]]:
    return [{(one.string, one.long) for one in known.expand(mention)} for mention in MENTIONS]


@pytest.mark.parametrize(
    ("string", "concept"), [*((string, "") for string in FURTHER), *(("", f"T:{place}") for place in range(1, 7))]
)
def test_abbreviations_are_those_of_an_index_without_the_string_or_concept(index, tmp_path, string, concept):
    less = indexed([row for row in ROWS if row[1] != string and row[0] != concept], tmp_path / "less.index")
    known = Abbreviations.of_index(index)
    rows, concepts = index.rows([clean(string)]), index.segment.concept_rows([concept])
    (found,) = Hidden(index, rows, concepts).variants(known)
    assert expansions(found) == expansions(Abbreviations.of_index(less))
    assert expansions(known) == expansions(Abbreviations.of_index(index))  # it stays as it was


def test_what_hides_nothing_of_them_leaves_the_abbreviations_alone(index):
    known = Abbreviations.of_index(index)
    plain = Hidden(index, index.rows(["few red cells", "loss of red blood cell", "mi"]), np.array([-1, -1, -1]))
    assert [found is known for found in plain.variants(known)] == [True, True, False]


def test_words_of_what_is_hidden(index):
    hidden = Hidden(index, np.array([-1, *index.rows(["low rbc count"]), -1]), np.array([-1, -1, 5]))
    nothing, string, concept = hidden.words(range(3))
    assert nothing == {}
    assert string == {"low": 1, "rbc": 1, "count": 1}
    # "heart attack" names another concept too, so it stays.
    assert index.segment.concepts.column("id")[5].as_py() == "T:6"
    assert concept == {"loss": 1, "of": 1, "red": 1, "blood": 1, "cell": 1}
