"""Laboratory wording: what a direction, a range, a unit or none of them says of an analyte."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import build
from alphita.mention.assertion import IN_RANGE, NO_NAME, NO_UNIT, NOTHING, OTHER_UNIT, USUAL_RANGE
from alphita.mention.laboratory import DIRECTIONS, Laboratory, analytes
from alphita.terminology.text import clean
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import SmallTerminology

NAMES = [
    "leukocytosis",
    "hyperkalemia",
    "hypokalemia",
    "elevated serum bicarbonate concentration",
    "increased liver function tests",
    "decreased hemoglobin concentration",
    "microcephaly",
    "hypercalcemia",
    "high potassium",
    "eosinophilia",
    "elevated circulating c reactive protein concentration",
    "decreased circulating vitamin b12 concentration",
]


def rows(strings):
    return np.array([NAMES.index(one) if one in NAMES else -1 for one in strings], np.int64)


def said(mention):
    found = Laboratory(rows)(clean(mention))
    return None if found is None else (*(reading.string for reading in found.readings), found.doubt)


@pytest.mark.parametrize(
    ("mention", "name"),
    [
        ("WBC high", "leukocytosis"),
        ("high WBC count", "leukocytosis"),
        ("↑ K+", "hyperkalemia"),
        ("K+ low", "hypokalemia"),
        ("serum potassium raised", "hyperkalemia"),
        ("Hb ↓", "decreased hemoglobin concentration"),
        ("LFTs raised", "increased liver function tests"),
        ("HCO3 up", "elevated serum bicarbonate concentration"),
        ("CRP +++", "elevated circulating c reactive protein concentration"),
        ("B12 low", "decreased circulating vitamin b12 concentration"),
        ("K 6.1 (H)", "hyperkalemia"),
        ("K+ 2.8 mmol/L (3.5-5.1)", "hypokalemia"),
        ("K+: 6.0 (3.5 – 5.1 mmol/L)", "hyperkalemia"),
        ("CRP 40 mg/L (<5)", "elevated circulating c reactive protein concentration"),
        ("WBC 21 x10^9/L [ref: 4-11]", "leukocytosis"),
        ("OFC -3 SD", "microcephaly"),
        ("head circumference -2.5 SDS", "microcephaly"),
    ],
)
def test_a_direction_is_a_name(mention, name):
    assert said(mention) == (name, "")


@pytest.mark.parametrize(
    ("mention", "expected"),
    [
        ("K 6.9 mmol/L", ("hyperkalemia", USUAL_RANGE)),
        ("Hb 7.2 g/dL", ("decreased hemoglobin concentration", USUAL_RANGE)),
        ("WBC 15 x 10*9/L", ("leukocytosis", USUAL_RANGE)),
        ("K+ 2.8", (NO_UNIT,)),
        ("platelets: 12", None),
        ("K 4.1 mmol/L", (IN_RANGE,)),
        ("K 2.8 mmol/L (2.5-5)", (IN_RANGE,)),
        ("OFC -1 SD", (IN_RANGE,)),
        ("WBC 0.5 10^9/L", (NO_NAME,)),
    ],
)
def test_a_value_is_read_by_what_stands_with_it(mention, expected):
    assert said(mention) == expected


@pytest.mark.parametrize(
    "mention",
    [
        # A name of the index, a strength, an antigen, a sample that is not blood, no direction for that analyte here.
        "high potassium",
        "potassium 500 mg",
        "vitamin B12 1 mg/ml",
        "CA 125 40",
        "CA 125",
        "urine potassium high",
        "eosinophils low",
        "low OFC",
        "high low K",
        "potassium",
        "K",
        "seizure",
        "",
        "K 1.2.3.4 mmol/L",
        "low back pain",
        "K 3 mmol/L (9-1)x",
    ],
)
def test_what_is_none_is_left_alone(mention):
    assert said(mention) is None


@pytest.mark.parametrize(
    ("mention", "doubt"),
    [
        ("albumin 22 g/dL (35-50)", OTHER_UNIT),
        ("albumin 22 g/L (35-50)", ""),
        ("glucose 100 mmol/L (3.9-5.5)", OTHER_UNIT),
        ("glucose 11 mmol/L (3.9-5.5)", ""),
        ("Hb 8 g/L (130-170)", OTHER_UNIT),
        ("Hb 8 g/dL (12-16)", ""),
        ("WBC 7000 x10^9/L (4-11)", OTHER_UNIT),
        ("bilirubin 15 mg/dL (0.1-1.2)", ""),
        ("T3 low", NO_NAME),
    ],
)
def test_a_number_that_is_usual_in_another_unit_is_for_review(mention, doubt):
    every = {name for each in analytes() if "t3" not in each.names for some in each.called.values() for name in some}
    laboratory = Laboratory(lambda strings: np.array([0 if one in every else -1 for one in strings]))
    assert laboratory(clean(mention)).doubt == doubt


@pytest.mark.parametrize(
    ("mention", "name"),
    [
        ("potassio basso", "hypokalemia"),
        ("Kalium erhöht", "hyperkalemia"),
        ("leucocytes élevés", "leukocytosis"),
        ("hemoglobina baja", "decreased hemoglobin concentration"),
    ],
)
def test_directions_in_other_languages(mention, name):
    assert said(mention) == (name, "")


def test_an_index_without_such_names_reads_nothing():
    drugs = Laboratory(lambda strings: np.full(len(strings), -1))
    assert [drugs(mention) for mention in ("potassium 2", "k high", "")] == [None, None, None]


def test_the_table():
    names = [name for each in analytes() for name in each.names]
    assert len(names) == len(set(names))
    assert not set(names) & set(DIRECTIONS)
    for each in analytes():
        assert any(each.called.values())
        assert all(least < most for least, most in each.ranges.values())


@pytest.fixture(scope="module")
def normalizer(tmp_path_factory):
    encoder = VocabularyEncoder()
    made = synthetic_terminology()
    terms = [
        (made.concept_ids[int(concept)].as_py(), string, "exact")
        for concept, string in zip(made.term_concept, made.terms.column("string").to_pylist(), strict=True)
    ]
    terms += [(f"L:{row:02}", name, "exact") for row, name in enumerate([*NAMES, "normal"])]
    index = build(SmallTerminology(terms), encoder, tmp_path_factory.mktemp("laboratory") / "x.index")
    return Normalizer(index, encoder=encoder, calibration=quick_fit(index, encoder), error=0.1)


def test_a_value_with_a_range_is_answered_and_one_without_is_not(normalizer):
    plain, usual, bare, inside = normalizer.normalize(
        ["K+ 2.8 mmol/L (3.5-5.1)", "K+ 2.8 mmol/L", "K+ 2.8", "K+ 4 mmol/L"], explain=True
    )
    assert (plain.concept_id, plain.decision, plain.method) == ("L:02", "accept", "abbreviation")
    assert "read as 'hypokalemia' (abbreviation, as laboratories say it)" in str(plain.explanation)
    assert (usual.concept_id, usual.decision) == ("L:02", "review")
    assert usual.candidates[0].contradictions == (USUAL_RANGE,)
    for result, why in ((bare, NO_UNIT), (inside, IN_RANGE)):
        assert (result.concept_id, result.decision, result.method) == (None, "nil", "nil")
        assert str(result.explanation).startswith(f"NIL: {why}")


@pytest.mark.parametrize("mention", ["n/a", "N/A", "(none)", "Positive", "not known", "unauffällig", "niente", "néant"])
def test_what_a_list_has_where_there_is_no_finding_is_nil(normalizer, mention):
    (found,) = normalizer.normalize([mention], explain=True)
    assert (found.concept_id, found.decision) == (None, "nil")
    assert str(found.explanation).startswith(f"NIL: {NOTHING}") == (mention != "néant")


def test_a_name_of_the_terminology_is_a_name_though_it_says_that_all_is_well(normalizer):
    assert normalizer.normalize(["Normal"])[0].concept_id == f"L:{len(NAMES)}"


def test_one_analyte_has_no_name_of_another():
    """What MCH may be called, with "concentration" behind it, is the name of MCHC."""
    short, long = "mean corpuscular hemoglobin", "mean corpuscular hemoglobin concentration"
    by_name = {each.names[0]: each for each in analytes()}
    for way in (1, -1):
        assert not set(by_name[short].called[way]) & set(by_name[long].called[way])
    assert "increased mean corpuscular hemoglobin level" in by_name[short].called[1]
    assert "increased mean corpuscular hemoglobin concentration" in by_name[long].called[1]


def test_a_name_of_the_terminology_goes_before_a_borrowed_one():
    names = ["elevated blood urea nitrogen", "increased blood urea nitrogen"]
    known = lambda strings: np.array([names.index(one) if one in names else -1 for one in strings], np.int64)  # noqa: E731
    for borrowed, first in ((None, 0), (np.array([True, False]), 1), (np.array([False, True]), 0)):
        found = Laboratory(known, borrowed)("urea raised")
        assert found is not None
        assert found.readings[0].string == names[first]
