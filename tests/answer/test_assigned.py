"""Headings of a classification: what is named there is answered by the code for what is known no further."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alphita.answer.assigned import Assignment
from alphita.answer.pipeline import Pipeline
from alphita.index.lookup import EXACT
from alphita.index.store import build
from tests.answer.synthetic import VocabularyEncoder
from tests.doubles import SmallTerminology

ENCODER = VocabularyEncoder()
CODES = {
    "J09-J18": ("Pneumonia and influenza", None),
    "J18": ("Pneumonia, unspecified organism", "J09-J18"),
    "J18.0": ("Bronchopneumonia, unspecified organism", "J18"),
    "J18.9": ("Pneumonia, unspecified organism", "J18"),
    "E10": ("Type 1 diabetes mellitus", None),
    "E10.6": ("Type 1 diabetes mellitus with complications", "E10"),
    "E10.9": ("Type 1 diabetes mellitus without complications", "E10"),
    "A00": ("Cholera", None),
    "A00.9": ("Cholera, unspecified", "A00"),
    "A00.90": ("Cholera, unspecified", "A00.9"),
    "A01": ("Typhoid", None),
    "A01.0": ("Paratyphoid, unspecified", "A01"),
    "B02": ("Zoster [herpes zoster]", None),
    "B02.2": ("Zoster with other nervous system involvement", "B02"),
    "B02.9": ("Zoster without complications", "B02"),
    "S93": ("Sprain of ankle", None),
    "S93.1": ("Sprain of unspecified ligament of right ankle", "S93"),
    "S93.2": ("Sprain of unspecified ligament of left ankle", "S93"),
    "S93.9": ("Sprain of unspecified ligament of unspecified ankle", "S93"),
}
ANSWERS = {"J18": "J18.9", "E10": "E10.9", "A00": "A00.90", "A00.9": "A00.90", "J09-J18": None, "B02": "B02.9"}
ANSWERS |= {"S93": "S93.9"}
CODES |= {"S72.0": ("Fracture of neck of femur", None), "S72.1": ("Fracture of left neck of femur", None)}
CODES |= {"S72.2": ("Bilateral fracture of neck of femur", None)}
SIDED = {
    "fracture of neck of femur": "S72.0",
    "fracture of neck of femur, left": "S72.1",
    "fracture of neck of femur bilateral": "S72.2",
    "fracture of neck of femur, right": "S72.0",
    "ankle sprain": "S93.9",
    "ankle sprain, right": "S93.1",
    "left ankle sprain": "S93.2",
    "sprain of the ankles": "S93.9",
}


class Classification(SmallTerminology):
    """Codes with their headings."""

    parent_relations = (0,)

    def __init__(self, codes: dict[str, tuple[str, str | None]]) -> None:
        super().__init__([(f"ICD10CM:{code}", name, "exact") for code, (name, _) in codes.items()])
        place = {code: row for row, code in enumerate(codes)}
        links = [(place[code], 0, place[parent]) for code, (_, parent) in codes.items() if parent]
        self.triples = np.array(links, np.int32)

    def side_table(self, name: str) -> pa.Table:
        return pa.table({})


@pytest.mark.parametrize("backwards", [False, True])
def test_a_heading_leads_to_its_code_for_what_is_known_no_further(tmp_path, backwards):
    """To one of the same name first, through several levels; a range of codes leads to nothing."""
    codes = dict(reversed(CODES.items())) if backwards else CODES
    index = build(Classification(codes), ENCODER, tmp_path / "x.index")
    ids = [one.partition(":")[2] for one in index.segment.concepts.column("id").to_pylist()]
    found = Assignment(index.segment).concepts[0].tolist()
    assert dict(zip(ids, [None if row < 0 else ids[row] for row in found], strict=True)) == {
        code: ANSWERS.get(code, code) for code in codes
    }
    pipeline = Pipeline(index, lambda: ENCODER, respell=True)
    mentions = {"pneumonia": "J18.9", "cholera": "A00.90", "type 1 diabetes mellitus": "E10.9"}
    questions, _ = pipeline.ask(list(mentions))
    table = pipeline.candidates(questions, featured=False).table
    for request, code in enumerate(mentions.values()):
        rows = slice(table.offsets[request], table.offsets[request + 1])
        named = [ids[concept] for concept in table.concept[rows].tolist()]
        assert len(named) == len(set(named))
        assert not set(named) & set(ANSWERS)
        assert named[int(np.argmax(table.cosine[rows] + 2 * (table.routes[rows] & EXACT)))] == code


def test_elsewhere_every_concept_is_its_own(tmp_path):
    plain = {
        code: (name.partition(",")[0].partition(" with")[0].replace("unspecified ", ""), parent)
        for code, (name, parent) in CODES.items()
        if code not in ("S93.1", "S93.2", "S72.1", "S72.2")
    }
    names = Assignment(build(Classification(plain), ENCODER, tmp_path / "plain.index").segment).concepts
    assert names[0].tolist() == [-1, *range(1, len(plain))]
    flat = SmallTerminology([(f"ICD10CM:{code}", name, "exact") for code, (name, _) in CODES.items()])
    found = Assignment(build(flat, ENCODER, tmp_path / "flat.index").segment).concepts
    assert found[0].tolist() == [-1, *range(1, len(CODES))]


def test_a_code_with_a_dash_is_no_range_of_codes(tmp_path):
    """LOINC, NDC and ICD-10-CM in one download of OMOP: a classification beside them hides no test and no drug."""
    dashed = ["LOINC:2951-2", "LOINC:718-7", "LOINC:14-1", "NDC:0002-0800", "NDC:50090-0001"]
    ranges = ["ICD10CM:C7A-C7A", "ICD10CM:E08-E13", "ICD9CM:001-139", "ICD9CM:E800-E999", "ICD9CM:001-009.99"]
    codes = {f"x{place}": (f"name {place}", None) for place in range(len(dashed + ranges))}
    terminology = Classification({**CODES, **codes})
    terminology.concept_ids = pa.array([*terminology.concept_ids.to_pylist()[: len(CODES)], *dashed, *ranges])
    index = build(terminology, ENCODER, tmp_path / "x.index")
    found = dict(
        zip(index.segment.concepts.column("id").to_pylist(), Assignment(index.segment).concepts[0], strict=True)
    )
    assert [identifier for identifier in dashed if found[identifier] < 0] == []
    assert [identifier for identifier in ranges if found[identifier] >= 0] == []


def test_beside_a_classification_a_plain_name_of_another_vocabulary_is_its_own_answer(tmp_path):
    """SNOMED CT's "computed tomography of head" is no heading of "... without contrast"."""
    procedures = {
        "S1": ("Computed tomography of head", None),
        "S2": ("Computed tomography of head without contrast", "S1"),
    }
    terminology = Classification({**CODES, **procedures})
    own = terminology.concept_ids.to_pylist()[: len(CODES)]
    terminology.concept_ids = pa.array([*own, *(f"SNOMEDCT:{code}" for code in procedures)])
    index = build(terminology, ENCODER, tmp_path / "x.index")
    (named,) = index.concept_rows(["SNOMEDCT:S1"])
    assert Assignment(index.segment).concepts[0][named] == named
    reader = Pipeline(index, lambda: ENCODER, respell=True).reader
    assert reader.habits.plain["cholera"] == ("cholera, unspecified",)
    assert "computed tomography of head" not in reader.habits.plain


def test_where_a_side_is_said_the_code_of_that_side_answers_if_there_is_one(tmp_path):
    index = build(Classification(CODES), ENCODER, tmp_path / "x.index")
    ids = [one.partition(":")[2] for one in index.segment.concepts.column("id").to_pylist()]
    pipeline = Pipeline(index, lambda: ENCODER, respell=True)
    questions, _ = pipeline.ask([*SIDED, "bilateral ankle sprain"])
    table = pipeline.candidates(questions, featured=False).table
    for request, code in enumerate([*SIDED.values(), "S93.9"]):
        named = {ids[row] for row in table.concept[table.offsets[request] : table.offsets[request + 1]].tolist()}
        assert code in named
        without_side = {"S72": "S72.0", "S93": "S93.9"}[code[:3]]
        assert code == without_side or without_side not in named


def test_what_says_no_side_is_not_accepted_beside_a_concept_of_the_side_that_is_said(tmp_path):
    names = ["Hip replacement", "Total replacement of left hip joint", "Knee replacement"]
    terminology = SmallTerminology([(f"X:{row}", name, "exact") for row, name in enumerate(names)])
    pipeline = Pipeline(build(terminology, ENCODER, tmp_path / "x.index"), lambda: ENCODER, respell=True)
    vetoed = {}
    for mention in ("hip replacement, left", "hip replacement", "hip replacement, right", "knee replacement, left"):
        questions, _ = pipeline.ask([mention])
        found = pipeline.candidates(questions)
        rows = zip(found.table.concept.tolist(), found.features.vetoed.tolist(), strict=True)
        vetoed[mention] = sorted(names[row] for row, is_vetoed in rows if is_vetoed and row != 1)
    assert vetoed["hip replacement, left"] == ["Hip replacement"]
    assert "Knee replacement" not in vetoed["knee replacement, left"]
    assert vetoed["hip replacement"] == vetoed["hip replacement, right"] == []
