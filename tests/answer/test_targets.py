"""Answers as codes of another code system."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.answer.filters import Filters, Targets
from alphita.answer.normalizer import Normalizer
from alphita.errors import UsageError
from alphita.index.store import Index, build
from tests.answer.rich import ROWS, RichTerminology
from tests.doubles import HashEncoder


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Index:
    rows = [
        *ROWS,
        ("MESH:D1", "Warmth", "exact", "en", "MSH", "D2"),  # its own id stands before its terms' codes
        ("AX:4", "Feverish", "exact", "en", "MSH", None),  # without a code
        ("AX:4", "Heat", "exact", "en", "ICD10CM", "ICD10CM:R50"),
        ("AX:5", "Ague of old", "exact", "en", "MSH", "D903"),  # the code of what is retired
    ]
    return build(RichTerminology(rows), HashEncoder(), tmp_path_factory.mktemp("targets") / "rich.index")


def codes(index: Index, target: str) -> dict[str, str]:
    targets = Targets(index.segment, target)
    ids = index.segment.concepts.column("id").take(targets.concepts).to_pylist()
    return dict(zip(ids, targets.ids(targets.concepts), strict=True))


@pytest.mark.parametrize("spelling", ["MESH", "MSH", "mesh"])
def test_codes_of_terms_and_own_ids_in_any_spelling(rich, spelling):
    assert codes(rich, spelling) == {"AX:1": "MESH:D900", "AX:2": "MESH:D901|MESH:D902", "MESH:D1": "MESH:D1"}


def test_codes_that_are_curies_already_stay(rich):
    assert codes(rich, "ICD10CM") == {"AX:4": "ICD10CM:R50"}


def test_own_system_is_the_ids(rich):
    assert codes(rich, "BX") == {one: one for one in ("BX:1", "BX:2", "BX:3")}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("MESHX", r"unknown target 'MESHX'; did you mean 'MESH'\? choose from \['AX', 'BX', 'ICD10CM', 'MESH'\]"),
        ("LOINC", r"unknown target 'LOINC'; .*choose from \['AX', 'BX', 'ICD10CM', 'MESH'\]"),
    ],
)
def test_an_unknown_system_offers_those_there_are(rich, target, message):
    with pytest.raises(UsageError, match=message):
        Normalizer(rich, target=target)


def test_a_system_known_elsewhere_without_a_code_here(index_path):
    assert codes(Index.open(index_path), "T")["T:2"] == "T:2"
    with pytest.raises(UsageError, match="choose from"):
        Targets(Index.open(index_path).segment, "SNOMEDCT")


class TestAnswers:
    def test_are_codes_joined_and_only_of_what_has_one(self, rich):
        normalizer = Normalizer(rich, encoder=HashEncoder(), target="MSH", floor=-1)
        found = normalizer.normalize(["Headache", "fever", "soreness"], top_k=5)
        assert [one.concept_id for one in found] == [found[0].concept_id, found[1].concept_id, "MESH:D900"]
        assert found[0].concept_id == "MESH:D901|MESH:D902"
        assert (found[0].concept_name, found[0].matched_term) == ("Ache of the head", "Headache")
        for one in found:
            ids = [candidate.concept_id for candidate in one.candidates]
            assert sorted(ids) == ["MESH:D1", "MESH:D900", "MESH:D901|MESH:D902"]
        assert found[1].method == "nearest"  # "Fever" is a name of what has no code there

    def test_are_the_same_whichever_term_matched(self, rich):
        normalizer = Normalizer(rich, encoder=HashEncoder(), target="MESH")
        assert {one.concept_id for one in normalizer.normalize(["Headache", "head pain", "Kopfschmerz"])} == {
            "MESH:D901|MESH:D902"
        }

    def test_with_filters(self, rich):
        normalizer = Normalizer(rich, encoder=HashEncoder(), target="MESH", filters=Filters(under=("AX:2",)), floor=-1)
        found = normalizer.normalize(["soreness"], top_k=5)[0]
        assert [one.concept_id for one in found.candidates] == ["MESH:D901|MESH:D902"]

    def test_a_concept_without_a_code_cannot_be_asked_for(self, rich):
        targets = Targets(rich.segment, "ICD10CM")
        without = np.array([rich.segment.concepts.column("id").to_pylist().index("AX:1")])
        with pytest.raises(KeyError):
            targets.ids(without)
