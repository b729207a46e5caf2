"""Labels of laboratory tests: the specimen and the unit decide; otherwise the usual test, for review."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

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
CASES = [
    ("Creatinine", "Serum", "umol/L", "Creatinine [Moles/volume] in Serum or Plasma", ""),
    ("Creatinine", "Serum", "mg/dL", "Creatinine [Mass/volume] in Serum or Plasma", ""),
    ("CREAT", "serum", "µmol/l", "Creatinine [Moles/volume] in Serum or Plasma", ""),
    ("Kreatinin", "Harn", "mg/dl", "Creatinine [Mass/volume] in Urine", ""),
    ("Creatinine, Urine", "", "mg/dL", "Creatinine [Mass/volume] in Urine", ""),
    ("24 hr Creatinine", "Urine", "", "Creatinine [Mass/time] in 24 hour Urine", ""),
    ("Creatinine", "Urine", "g/24h", "Creatinine [Mass/time] in 24 hour Urine", ""),
    ("Creatinine, Whole Blood", "Blood", "mg/dL", "Creatinine [Mass/volume] in Blood", ""),
    ("Creatinine", "Blood", "mg/dL", "Creatinine [Mass/volume] in Serum or Plasma", OF_BLOOD),
    ("Creatinine", "", "", "Creatinine [Mass/volume] in Serum or Plasma", USUAL),
    ("White Blood Cells", "", "", "Leukocytes [#/volume] in Blood by Automated count", USUAL),
    ("WBC", "CSF", "/uL", "Leukocytes [#/volume] in Cerebral spinal fluid", ""),
    ("Leukocytes, manual", "Blood", "K/uL", "Leukocytes [#/volume] in Blood by Automated count", USUAL),
    ("Plasma cells", "Blood", "%", "Plasma cells/100 leukocytes in Blood", ""),
    ("Total glowin", "Pleural", "mg/dL", "Glowin.total [Mass/volume] in Body fluid", WIDER),
    ("Lantern Antibody", "Blood", "N/A", "Lantern Ab [Presence] in Serum", ""),
    ("Lantern Antibody", "Blood", "IU/mL", "Lantern Ab [Units/volume] in Serum", ""),
    ("wick time", "", "", "Wick time in Platelet poor plasma", ""),
    ("Creatinine", "Stool", "mg/dL", "Creatinine [Mass/volume] in Serum or Plasma", None),
    ("Creatinine", "Serum", "sec", "Creatinine [Mass/volume] in Serum or Plasma", None),
    ("Lantern", "", "", None, ""),
]


def columns(tests):
    """Return the columns of concepts.arrow for tests by name and rank."""
    axes = [from_name(name) for name in tests]
    found = {field: pa.array([getattr(one, field) for one in axes]) for field in Axes._fields}
    return found | {"test_rank": pa.array(list(tests.values()), pa.int32())}


def concepts(tests):
    ids = pa.array([f"LOINC:{row}-0" for row in range(len(tests))])
    return pa.table({"id": ids, "name": pa.array(list(tests)), **columns(tests)})


@pytest.mark.parametrize(("label", "specimen", "unit", "name", "doubt"), CASES)
def test_labels(label, specimen, unit, name, doubt):
    found = LaboratoryTests(concepts(TESTS)).read(*parted(with_measurement(label, specimen, unit)))
    if name is None:
        assert not found.said.usual
    else:
        assert list(TESTS)[found.said.usual[0]] == name
        assert (found.readings[0].string, found.readings[0].decided) == (name.lower(), True)
        if doubt is None:
            assert found.said.conflicts(from_name(name))
        else:
            assert found.doubt == doubt


def test_without_ranks_no_method_comes_first_and_serum_before_blood():
    names = [
        "Glowin [Mass/volume] in Blood",
        "Glowin [Mass/volume] in Serum or Plasma by Lamp",
        "Glowin [Mass/volume] in Serum or Plasma",
    ]
    said = LaboratoryTests(concepts(dict.fromkeys(names))).read("Glowin", "", "").said
    assert said.usual == (2, 0, 1)


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
    mentions = [
        "Creatinine [Serum; umol/L]",
        "Creatinine [Urine; mg/dL]",
        "Creatinine",
        "Creatinine [Stool]",
        "Plasma cells",
    ]
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
    assert (found.concept_name, found.method, found.decision) == (
        "Creatinine [Mass/volume] in Blood",
        "exact",
        "accept",
    )


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
    assert list(zip(found["property"].to_pylist(), found["system"].to_pylist(), strict=True)) == [
        *axes.values(),
        (None, None),
    ]
    assert found["test_rank"].to_pylist() == [None] * 3
