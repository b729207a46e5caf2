"""Labels of laboratory tests: the specimen and the unit decide; otherwise the usual test, for review."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alphita import textio
from alphita.answer.normalizer import Normalizer
from alphita.index import laboratory
from alphita.index.store import build
from alphita.mention.laboratory_tests import (
    OF_BLOOD,
    USUAL,
    WIDER,
    LabelReading,
    LaboratoryTests,
    Measurement,
    parted,
    with_measurement,
)
from alphita.terminology.laboratory import Axes, from_name
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import SmallTerminology

# Name -> its rank by LOINC.
TESTS = {
    "Creatinine [Moles/volume] in Serum or Plasma": 9,
    "Creatinine [Mass/volume] in Serum or Plasma": 1,
    "Creatinine [Mass/volume] in Blood": 90,
    "Creatinine [Mass/volume] in Urine": 5,
    "Creatinine [Mass/time] in 24 hour Urine": 20,
    "Leukocytes [#/volume] in Blood": 40,
    "Leukocytes [#/volume] in Blood by Automated count": 2,
    "Leukocytes [#/volume] in Cerebral spinal fluid": 60,
    "Leukocytes [Presence] in Urine": 70,
    "Plasma cells/100 leukocytes in Blood": 80,
    "Glowin.total [Mass/volume] in Body fluid": 81,
    "Lantern Ab [Presence] in Serum": 82,
    "Lantern Ab [Units/volume] in Serum": 83,
    "Wick time in Platelet poor plasma": 84,
}
DOUBTS = {"": "", "USUAL": USUAL, "OF_BLOOD": OF_BLOOD, "WIDER": WIDER}


def columns(tests):
    """Return the columns of concepts.arrow for tests by name and rank."""
    axes = [from_name(name) for name in tests]
    found = {field: pa.array([getattr(one, field) for one in axes]) for field in Axes._fields}
    return found | {"test_rank": pa.array(list(tests.values()), pa.int32())}


def concepts(tests):
    ids = pa.array([f"LOINC:{row}-0" for row in range(len(tests))])
    return pa.table({"id": ids, "name": pa.array(list(tests)), **columns(tests)})


@pytest.mark.parametrize("row", textio.packaged(__package__, "laboratory_labels.tsv"), ids=lambda row: row["label"])
def test_labels(row):
    """A label names a test and may be doubted; "conflict" where none agrees, no name where none is meant."""
    name = row["name"]
    measured = with_measurement(row["label"], row["specimen"], row["unit"])
    found = LaboratoryTests(concepts(TESTS)).read(*parted(measured))
    assert [list(TESTS)[place] for place in found.said.usual[:1]] == [name] * bool(name)
    if name:
        assert (found.readings[0].string, found.readings[0].decided) == (name.lower(), True)
        is_doubt = bool(found.said.conflicts(from_name(name))) if row["doubt"] == "conflict" else found.doubt
        assert is_doubt == DOUBTS.get(row["doubt"], True)


def test_without_ranks_no_method_comes_first_and_serum_before_blood():
    names = [f"Glowin [Mass/volume] in {rest}" for rest in ("Blood", "Serum or Plasma by Lamp", "Serum or Plasma")]
    said = LaboratoryTests(concepts(dict.fromkeys(names))).read("Glowin", "", "").said
    assert said.usual == (2, 0, 1)


def test_a_method_that_nobody_said_is_for_review_where_others_have_another():
    named = ["Wax [Mass/volume] in Serum by Estimated", "Wax [Mass/volume] in Serum by Immunoassay"]
    said = parted(with_measurement("Wax", "Serum", "mg/dL"))
    several, alone = (LaboratoryTests(concepts(dict.fromkeys(some))).read(*said) for some in (named, named[:1]))
    assert (several.doubt, alone.doubt) == (USUAL, "")


def test_among_other_concepts_a_label_alone_is_no_test():
    table = concepts(TESTS)
    others = {"id": [f"SNOMEDCT:{row}" for row in range(99)], "name": ["iron"] * 99}
    tests = LaboratoryTests(pa.concat_tables([table, pa.table(others)], promote_options="default"))
    assert tests.read("Creatinine", "", "") == LabelReading(Measurement())
    assert tests.read("Blood in stool", "", "") == LabelReading(Measurement())
    assert tests.read("Creatinine", "Serum", "").said.usual


def test_a_label_that_names_no_component_is_written_as_loinc_writes_names():
    found = LaboratoryTests(concepts(TESTS)).read("shiny antibodies", "Urine", "mg/dL")
    assert [reading.string for reading in found.readings] == ["shiny ab [mass/volume] in urine"]


@pytest.mark.parametrize(
    ("axes", "conflicts"),
    [
        ("Creatinine [Mass/volume] in Urine", ()),
        ("Creatinine [Mass/volume] in Urine sediment", ()),
        ("Creatinine [Moles/volume] in Urine", ("unit: of Mass/volume, not Moles/volume",)),
        ("Creatinine [Mass/volume] in Serum", ("specimen: Urine, not Serum",)),
        ("Creatinine [Mass/volume] in Specimen", ()),
        ("Creatinine [Brightness] in Lamp oil", ()),
    ],
)
def test_an_axis_that_both_tell_must_agree(axes, conflicts):
    assert LaboratoryTests(concepts(TESTS)).read("x", "Urine", "mg/dL").said.conflicts(from_name(axes)) == conflicts


@pytest.mark.parametrize(
    ("mention", "parts"),
    [
        ("Creatinine [Serum; umol/L]", ("Creatinine", "Serum", "umol/L")),
        ("Creatinine [mg/dL]", ("Creatinine", "", "mg/dL")),
        ("Creatinine [Mass/volume]", ("Creatinine [Mass/volume]", "", "")),
        ("seizure [disorder]", ("seizure [disorder]", "", "")),
        ("[Serum]", ("[Serum]", "", "")),
        ("", ("", "", "")),
    ],
)
def test_specimen_and_unit_stand_in_brackets(mention, parts):
    assert parted(mention) == parts


def test_what_is_no_specimen_or_unit_is_left_out():
    assert with_measurement("Creatinine", "Q", "#ERROR!") == "Creatinine"
    assert with_measurement(" ", "Serum", "mg/dL") == " "
    assert with_measurement("Creatinine", " Serum ", None) == "Creatinine [Serum]"


@pytest.fixture(scope="module")
def normalizer(tmp_path_factory):
    encoder, plain = VocabularyEncoder(), synthetic_terminology()
    terms = [
        (f"LOINC:LP{plain.concept_ids[int(concept)].as_py()}", string, "exact")
        for concept, string in zip(plain.term_concept, plain.terms.column("string").to_pylist(), strict=True)
    ]
    tests = [(f"LOINC:{row:02}-0", name, "exact") for row, name in enumerate(TESTS)]
    terminology = SmallTerminology([*terms, *tests, ("LOINC:LP1-0", "Creatinine", "exact")])
    ids = terminology.concept_ids.to_pylist()
    values = [(ids.index(id), field, value) for id, name, _ in tests for field, value in release(name).items()]
    table = pa.table(dict(zip(("concept", "name", "value"), map(list, zip(*values, strict=True)), strict=True)))
    terminology.side_table = lambda name: table if name == "properties" else pa.table({})
    terminology.n_concepts = len(ids)
    index = build(terminology, encoder, tmp_path_factory.mktemp("tests") / "x.index")
    return Normalizer(index, encoder=encoder, calibration=quick_fit(index, encoder), error=0.1)


def release(name):
    """Return the properties of a test in LOINC's release."""
    axes = from_name(name)
    stated = {"component": axes.component, "property": axes.property, "time_aspct": axes.time, "system": axes.system}
    return stated | {"scale_typ": axes.scale, "method_typ": axes.method, "common_test_rank": str(TESTS[name])}


def test_specimen_and_unit_decide_between_candidates(normalizer):
    mentions = [f"Creatinine{rest}" for rest in (" [Serum; umol/L]", " [Urine; mg/dL]", "", " [Stool]")]
    mentions += ["Plasma cells"]
    moles, urine, bare, stool, cells = normalizer.normalize(mentions, top_k=3, explain=True)
    names = list(TESTS)
    assert (moles.concept_name, moles.decision) == (names[0], "accept")
    assert "the test of this component" in str(moles.explanation)
    assert (urine.concept_name, urine.decision, urine.mention) == (names[3], "accept", "Creatinine [Urine; mg/dL]")
    assert (bare.concept_name, bare.decision) == (names[1], "review")
    assert bare.candidates[0].contradictions == (USUAL,)
    assert stool.decision == "review"
    assert stool.candidates[0].contradictions[0].startswith("specimen: Stool, not ")
    assert cells.concept_name == names[9]


def test_a_name_of_a_test_is_answered_by_it(normalizer):
    (found,) = normalizer.normalize(["Creatinine [Mass/volume] in Blood"])
    expected = ("Creatinine [Mass/volume] in Blood", "exact", "accept")
    assert (found.concept_name, found.method, found.decision) == expected


def test_omop_vocabularies_are_read_by_name_and_by_relation():
    axes = {
        "Glowin [Mass/volume] in Serum or Plasma": ("MCnc", "Ser/Plas"),
        "Mean glow [Entitic volume] by Automated count": ("EntVol", "Bld"),
    }
    terminology = SmallTerminology([(f"LOINC:{row}-0", name, "exact") for row, name in enumerate([*axes, "Bld"])])
    types = pa.table({"concept": [0, 1], "semantic_type": ["Lab Test"] * 2, "code": ["concept_class_id"] * 2})
    terminology.concept_sources = pa.array(["LOINC"] * 3)
    terminology.concept_names = pa.array(terminology.concept_names)
    terminology.relation_labels, terminology.triples = ["has_system"], np.array([[0, 0, 2], [1, 0, 2]], np.int32)
    found = laboratory.columns(terminology, np.arange(3), pa.table({}), types)
    known = list(zip(found["property"].to_pylist(), found["system"].to_pylist(), strict=True))
    assert known == [*axes.values(), (None, None)]
    assert found["test_rank"].to_pylist() == [None] * 3
