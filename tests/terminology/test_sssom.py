from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError, Rejects
from alphita.terminology import sssom
from alphita.terminology.sssom import Mapping
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, cases, read_rejects

DEMO = FIXTURES / "sssom" / "demo.sssom.tsv"


def test_every_kind_of_row(tmp_path):
    with Rejects(tmp_path / "r.csv") as rejects:
        found = sssom.read(DEMO, rejects)
    exact = "skos:exactMatch"
    assert found.mappings == [
        Mapping("AA:1", exact, "MESH:D1", False, 0.9, "Cold"),
        Mapping("AA:2", "skos:broadMatch", "BB:7", False, 1.0, "Wart"),
        Mapping("AA:3", exact, "BB:3", True, 1.0, "Mole"),
        Mapping("MONDO:0000009", "skos:closeMatch", "UMLS:C0000001", False, 0.0, "Lump"),
        Mapping("AA:10", exact, "BB:10", False, 1.0, 'An "open" cut'),
        Mapping("AA:11", exact, "BB:11", False, 1.0, '5" nail'),
    ]
    assert found.dropped == {"mappings to no term": 1, "mappings of strings without an id": 1}
    assert [(row[1], row[2]) for row in read_rejects(tmp_path / "r.csv")] == [
        ("14", ""),
        ("15", "confidence"),
        ("16", "predicate_modifier"),
        ("17", "subject_id"),
        ("21", ""),
    ]
    assert found.name == "demo"
    assert (found.source["version"], found.source["licence"]) == ("2026-01-31", "https://example.org/licence")


def test_a_type_in_the_metadata_holds_for_every_row(write, tmp_path):
    head = "# subject_type: rdfs literal\nsubject_id\tsubject_label\tpredicate_id\tobject_id{}\n"
    row = "\tsore toe\tskos:exactMatch\tB:1{}\n"
    with Rejects(tmp_path / "r.csv", strict=True) as rejects:
        found = sssom.read(write("x.sssom.tsv", head.format("") + row.format("") * 2), rejects)
    assert (found.mappings, found.dropped) == ([], {"mappings of strings without an id": 2})
    # A column of that name says it row by row.
    rejects = Rejects(None)
    text = head.format("\tsubject_type") + row.format("\trdfs literal") + row.format("\t")
    sssom.read(write("y.sssom.tsv", text), rejects)
    assert rejects.count == 1


def test_a_row_that_is_no_text_is_set_aside(write, tmp_path):
    rows = b"A:1\tskos:exactMatch\tB:1\nA:\0002\tskos:exactMatch\tB:1\nA:3\tskos:exactMatch\tB:\xe9\n"
    with Rejects(tmp_path / "r.csv") as rejects:
        found = sssom.read(write("x.tsv", "\t".join(sssom.NEEDED).encode() + b"\n" + rows), rejects)
    assert [mapping.subject for mapping in found.mappings] == ["A:1"]
    assert [(row[1], row[2]) for row in read_rejects(tmp_path / "r.csv")] == [("3", "subject_id"), ("4", "object_id")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# only: metadata\n", "no line of column names"),
        (b"subject_id\tobject_id\nA:1\tB:1\n", ":1: has no column 'predicate_id'"),
        (b"subject_id\tpredicate_id\tobject_id\n", "no mapping"),
        (b"", "empty"),
        ("subject_id\tpredicate_id\tobject_id\n".encode("utf-16"), "no mapping"),
        (gzip.compress(DEMO.read_bytes())[:-9], "damaged"),
    ],
)
def test_files_that_are_none(write, content, said):
    with pytest.raises(InputError, match=said):
        sssom.read(write("x.sssom.tsv", content), Rejects(None))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_and_mutated_files_give_a_clear_error_or_mappings(data):
    noise = st.binary(max_size=60)
    content = data.draw(noise | fuzz.edited(DEMO.read_bytes(), 60, noise))
    with fuzz.folder_of({"x.tsv": content}) as folder:
        path = folder / "x.tsv"
        message, found = str(path), None
        try:
            found = sssom.read(path, Rejects(None))
        except AlphitaError as error:
            message = str(error)
        assert str(path) in message
        assert found is None or all(0 <= mapping.confidence <= 1 for mapping in found.mappings)


@pytest.mark.parametrize(("block", "line"), cases("sssom_no_yaml.tsv"))
def test_metadata_that_are_no_yaml_are_an_error(write, block, line):
    path = write("a.sssom.tsv", block + "subject_id\tpredicate_id\tobject_id\nA:1\tskos:exactMatch\tB:1\n")
    with pytest.raises(InputError, match=r"the metadata are not valid YAML: .*; each line of the block") as caught:
        sssom.read(path, Rejects())
    assert caught.value.line == int(line)


def test_metadata_that_are_yaml_are_read(write):
    block = """# curie_map:
#   A: "http://a.example/#"
# creator_id:
#   - orcid:1
# - orcid:2
## a remark
#
# mapping_set_description: >-
#   free text: [with
#   what "it holds
# other: [a,
#   b]
# mapping_set_title: a long
#   title
# mapping_set_version: '1''s'
# license: https://l.example # a remark
"""
    path = write("a.sssom.tsv", block + "subject_id\tpredicate_id\tobject_id\nA:1\tskos:exactMatch\tB:1\n")
    found = sssom.read(path, Rejects())
    assert found.source["version"] == "1''s"
    assert found.mappings == [Mapping("A:1", "skos:exactMatch", "B:1", False, 1.0, "")]
