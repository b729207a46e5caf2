"""Files of mappings as rows of a review, and what is said of a project's mapping set."""

from __future__ import annotations

import json
import math
from csv import DictReader
from dataclasses import replace

import pytest

from alphita.errors import Rejects
from alphita.mappings.formats import Header, csv, fhir_r4, fhir_r5, sssom
from alphita.review import files
from alphita.review.records import Project
from tests.mappings import sample
from tests.mappings.sample import mapping


def project(source="LAB", name="toes"):
    return Project(name, source, "", "", "", "", "")


def read(path, **options):
    return list(files.read(path, csv, "toes", Rejects(strict=True), **options))


def written(path, *lines):
    return sample.write(csv, Header(), lines, path / "in.csv")


def test_rows_alike_become_one(tmp_path):
    path = written(
        tmp_path,
        # The lines of a row may stand apart.
        mapping("toe", "HP:2", mention_code="1", rank=2),
        mapping("toe", mention_code="2", row=2),
        mapping("toe", mention_code="1", frequency=3),
        mapping("toe", mention_code="1", row=3, frequency=None),
        mapping("Toe", None, mention_code="1", row=4, frequency=0),
    )
    found = read(path)
    assert [(one.number, one.code, one.mention, one.frequency) for one in found] == [
        (1, "1", "toe", 4),
        (2, "2", "toe", 1),
        (4, "1", "Toe", 0),
    ]
    assert [candidate.concept_id for candidate in found[0].candidates] == ["HP:0000001", "HP:2"]


def test_the_groups_of_a_concept_map_are_one_row(tmp_path):
    groups = [
        {"target": system, "element": [{"code": "A", "display": "toe", "target": targets}]}
        for system, targets in (
            ("http://snomed.info/sct", [{"equivalence": "unmatched"}]),
            ("http://hl7.org/fhir/sid/icd-10-cm", [{"code": "I21.9", "equivalence": "equivalent"}]),
            ("http://snomed.info/sct", [{"code": "22298006", "equivalence": "wider"}]),
        )
    ]
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"resourceType": "ConceptMap", "group": groups}))
    (row,) = files.read(path, fhir_r4, "toes", Rejects(strict=True))
    assert [candidate.concept_id for candidate in row.candidates] == ["ICD10CM:I21.9", "SNOMEDCT:22298006", None]


def test_one_code_of_two_vocabularies_is_two_rows(tmp_path):
    path = tmp_path / "in.sssom.tsv"
    lines = [f"{subject}\tx\tskos:closeMatch\tHP:1\tsemapv:LexicalMatching\n" for subject in ("MINE:1", "YOURS:1")]
    path.write_text("subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification\n" + "".join(lines))
    rows = list(files.read(path, sssom, "toes", Rejects(strict=True)))
    assert [row.code for row in rows] == ["1", "YOURS:1"]
    assert [row.candidates[0].extras for row in rows] == [{"predicate_id": "skos:closeMatch"}] * 2


@pytest.mark.parametrize(
    ("field", "cells", "value"),
    [
        ("frequency", {"frequency": -1}, "-1"),
        ("row", {"row": -4}, "-4"),
        ("confidence", {"confidence": 1.5}, "1.5"),
        ("confidence", {"confidence": math.nan}, "nan"),
        ("concept_id", {"concept_id": "no curie", "status": "approved"}, "no curie"),
        ("reviewed_at", {"reviewed_at": "yesterday", "status": "flagged"}, "yesterday"),
    ],
)
def test_an_unsound_row_is_set_aside(tmp_path, field, cells, value):
    class Given:
        @staticmethod
        def read(path, header, rejects):
            yield mapping("toe", row=1)
            yield replace(mapping("bad", "HP:2", row=2, rank=2), **cells)
            yield mapping("bad", "HP:1", row=cells.get("row", 2))
            yield mapping("foot", row=3)

    path = tmp_path / "in.csv"
    path.write_text("anything")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        found = list(files.read(path, Given, "toes", rejects))
    # The row's other mapping is no answer by itself.
    assert [one.mention for one in found] == ["toe", "foot"]
    with open(tmp_path / "rejects.csv", newline="") as file:
        (told,) = DictReader(file)
    assert (told["file"], told["line"], told["field"], told["value"]) == (
        str(path),
        str(cells.get("row", 2)),
        field,
        value,
    )


def test_a_row_without_its_answer_is_set_aside(tmp_path):
    """Else its second candidate would stand for it."""
    path = tmp_path / "in.csv"
    path.write_text(
        "row,mention_code,mention,rank,concept_id,confidence\n"
        "1,A,fits,1,HP:0001250,1.7\n1,A,fits,2,HP:0002315,0.05\n2,B,fever,1,HP:0001945,0.9\n"
    )
    rejects = Rejects(tmp_path / "rejects.csv")
    with rejects:
        found = list(files.read(path, csv, "toes", rejects))
    assert [(one.code, [candidate.concept_id for candidate in one.candidates]) for one in found] == [
        ("B", ["HP:0001945"])
    ]
    with open(tmp_path / "rejects.csv", newline="") as file:
        assert [(row["line"], row["field"]) for row in DictReader(file)] == [("2", "confidence"), ("1", "rank")]


def test_a_row_without_anything_is_set_aside(tmp_path):
    path = written(tmp_path, mapping(""), mapping("", mention_code="7", row=2))
    rejects = Rejects()
    assert [one.code for one in files.read(path, csv, "toes", rejects)] == ["7"]
    assert rejects.count == 1


def test_context(tmp_path):
    path = written(tmp_path, mapping("toe", mention_code="1", row=2))
    cells = {"code": "1", "text": "toe", "ward": "B", "age": ""}
    assert read(path, context={1: cells | {"ward": "A"}, 2: cells})[0].context == {"ward": "B"}


def test_what_a_project_says_of_itself():
    said = files.header_of(project(), Header(), fhir_r5, ["MINE:1", "HP:1", "plain"])
    assert (said.set_id, said.source_vocabulary, said.source_system) == (
        "urn:alphita:review:toes",
        "LAB",
        "urn:alphita:source:LAB",
    )
    assert said.prefixes["MINE"] == "urn:alphita:terminology:MINE"
    assert "HP" not in said.prefixes
    assert said.licence == ""
    said = files.header_of(project(), Header(), sssom, ["MINE:1"])
    assert said.prefixes == {"LAB": "urn:alphita:source:LAB:", "MINE": "urn:alphita:terminology:MINE:"}
    assert said.licence == "https://w3id.org/sssom/license/unspecified"
    for source, vocabulary, system in (
        ("ICD10CM", "ICD10CM", "http://hl7.org/fhir/sid/icd-10-cm"),
        ("Lab 2", "", "urn:alphita:source:Lab%202"),
        ("urn:oid:1.2", "", "urn:oid:1.2"),
    ):
        said = files.header_of(project(source), Header(), fhir_r5)
        assert (said.source_vocabulary, said.source_system, said.prefixes) == (vocabulary, system, {})
    # What is given goes before.
    own = {"source_vocabulary": "OWN", "source_system": "https://example.org/own/", "licence": "https://example.org/l"}
    given = Header(set_id="https://example.org/1", prefixes={"MINE": "https://example.org/mine/"}, **own)
    said = files.header_of(project(), given, sssom, ["MINE:1"])
    assert said.set_id == given.set_id
    assert {name: getattr(said, name) for name in own} == own
    assert said.prefixes == {"MINE": "https://example.org/mine/", "OWN": "https://example.org/own/"}
