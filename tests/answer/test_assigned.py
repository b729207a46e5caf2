"""Headings of a classification: what is named there is answered by the code for what is known no further."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from alphita.answer.candidates import assigned_concepts
from alphita.answer.pipeline import Pipeline
from alphita.index.store import Index, build
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
}
ANSWERS = {"J18": "J18.9", "E10": "E10.9", "A00": "A00.90", "A00.9": "A00.90", "J09-J18": None}


def segment_of(codes: dict[str, tuple[str, str | None]], strings: list[str] | None = None) -> SimpleNamespace:
    place = {code: row for row, code in enumerate(codes)}
    above = [np.array([place[parent]] if parent else [], np.int32) for _, parent in codes.values()]
    names = [name for name, _ in codes.values()]
    return SimpleNamespace(
        parents=np.concatenate(above),
        parents_of=lambda row: above[row],
        strings=SimpleNamespace(array=pa.array(strings or [name.lower() for name in names], pa.large_string())),
        concepts=pa.table({"id": [f"ICD10CM:{code}" for code in codes], "name": names}),
    )


@pytest.mark.parametrize("backwards", [False, True])
def test_a_heading_leads_to_its_code_for_what_is_known_no_further(backwards):
    """To one of the same name first, through several levels; a range of codes leads to nothing."""
    codes = dict(reversed(CODES.items())) if backwards else CODES
    found = assigned_concepts(segment_of(codes))
    names = list(codes)
    assert {code: None if row < 0 else names[row] for code, row in zip(codes, found, strict=True)} == {
        code: ANSWERS.get(code, code) for code in codes
    }


def test_elsewhere_every_concept_is_its_own():
    assert assigned_concepts(segment_of(CODES, ["pain"] * 200)) is None
    flat = segment_of(CODES)
    flat.parents = None
    assert assigned_concepts(flat) is None


class Classification(SmallTerminology):
    """`CODES` with their headings."""

    def __init__(self) -> None:
        super().__init__([(f"ICD10CM:{code}", name, "exact") for code, (name, _) in CODES.items()])
        place = {code: row for row, code in enumerate(CODES)}
        self.parent_relations = [0]
        links = [(place[code], 0, place[parent]) for code, (_, parent) in CODES.items() if parent]
        self.triples = np.array(links, np.int32)

    def side_table(self, name: str) -> pa.Table:
        return pa.table({})


def test_the_candidates_are_the_codes_that_are_assigned(tmp_path):
    index: Index = build(Classification(), ENCODER, tmp_path / "x.index")
    pipeline = Pipeline(index, lambda: ENCODER, respell=True)
    ids = index.segment.concepts.column("id").to_pylist()
    mentions = {"pneumonia": "J18.9", "cholera": "A00.90", "type 1 diabetes mellitus": "E10.9"}
    questions, _ = pipeline.ask(list(mentions))
    table = pipeline.candidates(questions, featured=False).table
    for request, code in enumerate(mentions.values()):
        rows = slice(table.offsets[request], table.offsets[request + 1])
        found = [ids[concept].partition(":")[2] for concept in table.concept[rows].tolist()]
        assert len(found) == len(set(found))
        assert not set(found) & set(ANSWERS)
        nearest = found[int(np.argmax(table.cosine[rows] + 2 * (table.routes[rows] & 1)))]
        assert nearest == code
