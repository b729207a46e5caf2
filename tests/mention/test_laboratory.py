"""Laboratory wording: what a direction, a range, a unit or none of them says of an analyte (laboratory.tsv)."""

from __future__ import annotations

import numpy as np
import pytest

from alphita import textio
from alphita.mention import assertion
from alphita.mention.assertion import IN_RANGE, NO_NAME, NO_UNIT, NOTHING, OTHER_UNIT, USUAL_RANGE
from alphita.mention.laboratory import DIRECTIONS, Laboratory, analytes
from alphita.terminology.text import clean
from tests.mention.conftest import NAMES


def rows(strings):
    return np.array([NAMES.index(name) if name in NAMES else -1 for name in strings], np.int64)


@pytest.mark.parametrize(
    ("mention", "name", "doubt"), [tuple(row.values()) for row in textio.packaged(__package__, "laboratory.tsv")]
)
def test_wordings(mention, name, doubt):
    """A direction or a value is a name, and may be doubted; "none" where it is no laboratory wording of this index."""
    found = Laboratory(rows)(clean(mention))
    if name == "none":
        assert found is None
    else:
        assert ("|".join(reading.string for reading in found.readings), found.doubt) == (
            name,
            getattr(assertion, doubt, ""),
        )


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
        assert result.explanation.numbers().startswith(f"NIL: {why}")


@pytest.mark.parametrize("mention", ["n/a", "N/A", "(none)", "Positive", "not known", "unauffällig", "niente", "néant"])
def test_what_a_list_has_where_there_is_no_finding_is_nil(normalizer, mention):
    (found,) = normalizer.normalize([mention], explain=True)
    assert (found.concept_id, found.decision) == (None, "nil")
    assert found.explanation.numbers().startswith(f"NIL: {NOTHING}") == (mention != "néant")


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


def test_a_name_of_the_terminology_goes_before_an_external_one():
    names = ["elevated blood urea nitrogen", "increased blood urea nitrogen"]
    known = lambda strings: np.array([names.index(one) if one in names else -1 for one in strings], np.int64)  # noqa: E731
    for external, first in ((None, 0), (np.array([True, False]), 1), (np.array([False, True]), 0)):
        found = Laboratory(known, external)("urea raised")
        assert found is not None
        assert found.readings[0].string == names[first]


def test_a_deficiency_that_is_a_name_is_no_low_value():
    names = ["vitamin b12 deficiency", "decreased circulating vitamin b12 concentration"]
    for known, first in ((names, names[0]), (names[1:], names[1])):
        rows = lambda strings, known=known: np.array([known.index(s) if s in known else -1 for s in strings], np.int64)  # noqa: E731
        found = Laboratory(rows)("b12 deficiency")
        assert found is not None
        assert (found.readings[0].string, found.doubt) == (first, "")
