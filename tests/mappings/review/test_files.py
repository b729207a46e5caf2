"""Files of mappings as rows of a review, and what is said of a project's mapping set."""

from __future__ import annotations

import pytest

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, csv, fhir_r5, sssom
from alphita.mappings.review import files
from alphita.mappings.review.records import Project
from tests.mappings import sample
from tests.mappings.sample import mapping


def project(source="LAB", name="toes"):
    return Project(name, source, "", "", "", "", "")


def read(path, **options):
    return files.read(path, csv, "toes", Rejects(strict=True), **options)


def written(path, *lines):
    return sample.write(csv, Header(), lines, path / "in.csv")


def test_rows_alike_become_one(tmp_path):
    path = written(
        tmp_path, mapping("toe", mention_code="1", frequency=3), mapping("toe", "HP:2", mention_code="1", rank=2),
        mapping("toe", mention_code="2", row=2), mapping("toe", mention_code="1", row=3, frequency=None),
        mapping("Toe", None, mention_code="1", row=4, frequency=0),
    )  # fmt: skip
    found = read(path)
    assert [(one.number, one.code, one.mention, one.frequency) for one in found] == [
        (1, "1", "toe", 4), (2, "2", "toe", 1), (4, "1", "Toe", 0)
    ]  # fmt: skip
    assert [one.concept_id for one in found[0].candidates] == ["HP:0000001", "HP:2"]


def test_candidates_come_by_rank(tmp_path):
    path = written(tmp_path, mapping("toe", "HP:2", rank=2), mapping("toe", "HP:1", rank=1))
    assert [one.concept_id for one in read(path)[0].candidates] == ["HP:1", "HP:2"]


def test_a_row_without_anything_is_set_aside(tmp_path):
    path = written(tmp_path, mapping(""), mapping("", mention_code="7", row=2))
    rejects = Rejects()
    assert [one.code for one in files.read(path, csv, "toes", rejects)] == ["7"]
    assert rejects.count == 1


@pytest.mark.parametrize(("name", "between"), [("in.txt", ","), ("in.tsv", "\t")])
def test_context(tmp_path, name, between):
    path = written(tmp_path, mapping("toe", mention_code="1", row=2))
    (tmp_path / name).write_text(
        "\ufeff" + "\n".join(between.join(row) for row in (["code", "text", "ward", "age"], ["0", "x", "A", "1"],
                                                           ["1", "toe", "B", ""])), encoding="utf-8",
    )  # fmt: skip
    assert read(path, context=tmp_path / name)[0].context == {"ward": "B"}


def test_context_of_another_file(tmp_path):
    path = written(tmp_path, mapping("toe", row=2))
    (tmp_path / "in.txt").write_text("text\ntoe\n")
    with pytest.raises(InputError, match="it has 1 rows, but the mappings speak of row 2"):
        read(path, context=tmp_path / "in.txt")
    (tmp_path / "in.txt").write_bytes(b"text\n\xff\n")
    with pytest.raises(InputError, match="cannot read it"):
        read(path, context=tmp_path / "in.txt")


def test_what_a_project_says_of_itself():
    said = files.header_of(project(), Header(), fhir_r5, ["MINE:1", "HP:1", "plain"])
    assert (said.set_id, said.source_vocabulary, said.source_system) == (
        "urn:alphita:review:toes", "LAB", "urn:alphita:source:LAB"
    )  # fmt: skip
    assert said.prefixes["MINE"] == "urn:alphita:terminology:MINE"
    assert "HP" not in said.prefixes
    assert said.licence == ""
    said = files.header_of(project(), Header(), sssom, ["MINE:1"])
    assert said.prefixes == {"LAB": "urn:alphita:source:LAB:", "MINE": "urn:alphita:terminology:MINE:"}
    assert said.licence == "https://w3id.org/sssom/license/unspecified"


def test_what_is_given_goes_before():
    given = Header(
        set_id="https://example.org/1", source_vocabulary="OWN", source_system="https://example.org/own/",
        licence="https://example.org/l", prefixes={"MINE": "https://example.org/mine/"},
    )  # fmt: skip
    said = files.header_of(project(), given, sssom, ["MINE:1"])
    assert (said.set_id, said.source_vocabulary, said.licence) == (given.set_id, "OWN", given.licence)
    assert said.prefixes == {"MINE": "https://example.org/mine/", "OWN": "https://example.org/own/"}


@pytest.mark.parametrize(
    ("source", "vocabulary", "system"),
    [("ICD10CM", "ICD10CM", "http://hl7.org/fhir/sid/icd-10-cm"), ("Lab 2", "", "urn:alphita:source:Lab%202"),
     ("urn:oid:1.2", "", "urn:oid:1.2")],
)  # fmt: skip
def test_sources(source, vocabulary, system):
    said = files.header_of(project(source), Header(), fhir_r5)
    assert (said.source_vocabulary, said.source_system, said.prefixes) == (vocabulary, system, {})
