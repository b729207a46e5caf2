from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import table
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
TERMS, RELATIONS = FIXTURES / "terms.csv", FIXTURES / "relations.tsv"


@pytest.fixture
def small_table(load: Load) -> Terminology:
    terminology, rejects = load(table, TERMS, RELATIONS)
    assert rejects == []
    return terminology


def test_all_columns_are_read(small_table: Terminology) -> None:
    headache = small_table.concept("LOCAL:1")
    assert headache.name == "Headache"
    found = [(term.string, term.language, term.scope, term.type, term.status) for term in headache.terms]
    assert found == [
        ("Headache", "en", "exact", None, "official"),
        ("Cephalgia", "en", "exact", None, "official"),
        ('mal di "testa"', "it", "exact", "layperson", "machine"),
    ]
    assert [term.preferred for term in headache.terms] == [True, False, False]
    assert {(term.source, term.code) for term in headache.terms} == {("LOCAL", "1")}
    assert [definition.text for definition in headache.definitions] == ["Pain, in the head"]
    assert headache.semantic_types == ["Sign or Symptom"]
    assert [target for _, target in headache.xrefs] == ["MESH:D006261", "UMLS:C0018681"]
    assert small_table.concept("LOCAL:2").parents == ["LOCAL:1"]
    assert small_table.concept("LOCAL:2").terms[1].status == "candidate"
    old = small_table.concept("LOCAL:3")
    assert (old.retired, old.replaced_by) == (True, ["LOCAL:1"])


def test_relations(small_table: Terminology) -> None:
    found = [
        (small_table.concept_id(head), small_table.relation_labels[label], small_table.concept_id(tail))
        for head, label, tail in small_table.triples.tolist()
    ]
    assert sorted(found) == [
        ("LOCAL:1", "related_to", "LOCAL:2"), ("LOCAL:2", "has_finding", "LOCAL:1"), ("LOCAL:2", "is_a", "LOCAL:1"),
    ]  # fmt: skip
    assert small_table.manifest["dropped"] == {"column 'note' of terms.csv": 1, "repeated rows": 1}


def test_parquet_gzip_and_other_delimiters_give_the_same(load: Load, small_table: Terminology, write: Write) -> None:
    frame = pl.read_csv(TERMS, infer_schema=False)
    parquet = write("t.parquet", b"")
    frame.write_parquet(parquet)
    for path in (
        parquet,
        write("t.csv.gz", gzip.compress(TERMS.read_bytes())),
        write("semicolons.csv", frame.write_csv(separator=";")),
        write("crlf.csv", b"\xef\xbb\xbf" + TERMS.read_bytes().replace(b"\n", b"\r\n")),
    ):
        assert load(table, path, RELATIONS)[0].content_hash == small_table.content_hash, path


def test_other_column_names_and_bare_codes(load: Load, write: Write) -> None:
    path = write("x.tsv", "Code\tLabel\tGroup\n7\tSeven\tOdd\n8\tEight\tEven\n8\tAcht\tEven\n")
    terminology, rejects = load(
        table, path, id_column="Code", term_column="Label", semantic_type_column="Group", prefix="NUM", language="de"
    )
    assert rejects == []
    concept = terminology.concept("NUM:8")
    assert [term.string for term in concept.terms] == ["Eight", "Acht"]
    assert (concept.semantic_types, concept.terms[0].language) == (["Even"], "de")
    with pytest.raises(UsageError, match="prefix=LOCAL"):
        load(table, path, id_column="Code", term_column="Label")


def test_a_preferred_column_decides(load: Load, write: Write) -> None:
    path = write("x.csv", "id,term,preferred\nX:1,One,no\nX:1,Uno,TRUE\n")
    assert load(table, path)[0].concept("X:1").name == "Uno"


def test_quotes_can_be_switched_off(load: Load, write: Write) -> None:
    path = write("x.tsv", 'id\tterm\nX:1\t"One\nX:2\tT"wo"\n')
    terminology, _ = load(table, path, quote="")
    assert terminology.concept_names.to_pylist() == ['"One', 'T"wo"']


@pytest.mark.parametrize("options", [{}, {"definition_column": "gloss"}, {"term_column": "string"}])
def test_a_missing_column_is_an_error_that_lists_the_columns(write: Write, options: dict[str, str]) -> None:
    header = "id,term,x" if options.get("definition_column") else "id,label,x"
    path = write("x.csv", header + "\nX:1,One,1\n")
    with pytest.raises(UsageError) as raised:
        table.load([path], table.Options(**options), Rejects(None))
    assert repr(header.split(",")) in str(raised.value)
    assert repr(next(iter(options.values()), "term")) in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("row", "line", "problem"),
    [
        ("X:2,Two", 3, "2 cells, but the header has 3"),
        ("X:2,Two,en,more", 3, "4 cells"),
        (",Two,en", 3, "empty id"),
        ("X:2,,en", 3, "empty term"),
        ("X 2:1,Two,en", 3, "not an id"),
        ("two,Two,en", 3, "without prefix"),
        ("X:2,T\0wo,en", 3, "NUL"),
        ("X:2," + "x" * 100_000 + ",en", 3, "100,000 characters"),
        # Python's csv module has one cell limit a process; above it the row cannot be told at all.
        ("X:2," + "x" * 200_000 + ",en", 3, "not a row|200,000 characters"),
        ('X:2,"Two"2,en', 3, "not a row"),
        ('"X:2","Two\nlines\nno end,en', 3, "cells|not a row"),
    ],
)
def test_bad_rows_are_set_aside_with_their_line(load: Load, write: Write, row: str, line: int, problem: str) -> None:
    tail = "" if "no end" in row else "X:9,Nine,en\n"
    path = write("bad.csv", f"id,term,language\nX:1,One,en\n{row}\n{tail}")
    terminology, rejects = load(table, path)
    assert len(rejects) == 1
    assert rejects[0][0] == str(path)
    assert int(rejects[0][1]) == line
    assert re.search(problem, rejects[0][4])
    assert terminology.concept_names.to_pylist() == ["One", "Nine"] if tail else ["One"]


def test_lines_are_right_after_cells_of_several_lines(load: Load, write: Write) -> None:
    path = write("x.csv", 'id,term\nX:1,"One\ntwo"\n\nX:2,\n')
    terminology, [reject] = load(table, path)
    assert reject[1] == "5"
    assert terminology.concept("X:1").name == "One\ntwo"


def test_unknown_scope_and_status(load: Load, write: Write) -> None:
    path = write("x.csv", "id,term,scope,status\nX:1,One,,\nX:1,Eins,nearly,\nX:1,Uno,exact,perhaps\n")
    terminology, rejects = load(table, path)
    assert [row[1:4] for row in rejects] == [["3", "scope", "nearly"], ["4", "status", "perhaps"]]
    assert len(terminology.concept("X:1").terms) == 1


def test_dangling_relation_ends_are_counted(load: Load, write: Write) -> None:
    relations = write("r.csv", "head,tail\nLOCAL:1,LOCAL:2\nLOCAL:1,LOCAL:404\nLOCAL:405,LOCAL:1\n")
    terminology, rejects = load(table, TERMS, relations)
    assert [(row[0], row[1], row[3]) for row in rejects] == [
        (str(relations), "4", "LOCAL:405"), (str(relations), "3", "LOCAL:404"),
    ]  # fmt: skip
    assert terminology.n_relations == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"only one column\nx\n", "no ','"),
        (b"id,term\n", "no usable row"),
        ("id,term\nX:1,One\n".encode("utf-16"), "UTF-16"),
        (b"PAR1 and nothing more", "not a readable Parquet"),
        (b"\x1f\x8bnonsense", "cut short"),
        (b'"id,term\nX:1,One', "no header"),
    ],
)
def test_a_file_that_is_no_table_is_an_error(write: Write, content: bytes, problem: str) -> None:
    path = write("bad.csv", content)
    with pytest.raises(InputError, match=problem) as raised:
        table.load([path], table.Options(), Rejects(None))
    assert str(path) in str(raised.value)


def test_wrong_encoding(load: Load, write: Write) -> None:
    path = write("x.csv", "id,term\nX:1,One\nX:2,Ménière\n".encode("latin-1"))
    terminology, [reject] = load(table, path)
    assert (terminology.n_concepts, reject[1]) == (1, "3")
    assert load(table, path, encoding="latin-1")[0].concept("X:2").name == "Ménière"
