from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import open_vocabularies
from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import table
from alphita.terminology.store import Terminology, load_terminology

TERMS = """id	lang	term	type	status	source
A:1	en	a "quoted" name	pref	OFFICIAL	S
A:1	it	un nome	syn	CANDIDATE/MT	S
A:2	en	wide	syn_broad	OFFICIAL	S
A:2	en	second	pref	CANDIDATE	S
B:2	en	the same	pref	OFFICIAL	S
B:3	en	odd	other	OFFICIAL	S
"""
RELATIONS = "head\trelation\ttail\tsource\nA:1\tis_a\tA:2\tS\nA:2\texact_match\tB:2\tS\n"
DEFINITIONS = """id	lang	definition	source
A:1	en	What it "is".	S
A:1	en	What it is by others.	R
A:2	it	senza un nome in questa lingua	S
B:9	en	of nothing	S
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with gzip.open(tmp_path / "terms.tsv.gz", "wt") as file:
        file.write(TERMS)
    (tmp_path / "relations.tsv").write_text(RELATIONS)
    (tmp_path / "definitions.tsv").write_text(DEFINITIONS)
    return tmp_path


def read_back(folder: Path, *names: str) -> Terminology:
    with Rejects() as rejects:
        store.save(table.load([folder / name for name in names], table.Options(quote=""), rejects), folder / "t")
        assert rejects.count == 0
    return load_terminology(folder / "t")


def test_tables_of_an_open_graph_are_read_by_the_loader(written: Path) -> None:
    counts = open_vocabularies.write_tables(written / "terms.tsv.gz", written / "relations.tsv", written / "out")
    assert counts == {"terms.tsv": 5, "relations.tsv": 2, "exact.sssom.tsv": 1, "terms left out": 1}
    read = read_back(written / "out", "terms.tsv", "relations.tsv")
    columns = ("string", "language", "scope", "status", "preferred")
    found = set(zip(*(read.terms[name].to_pylist() for name in columns), strict=True))
    assert found == {
        ('a "quoted" name', "en", "exact", "official", True),
        ("un nome", "it", "exact", "machine", False),
        ("wide", "en", "broad", "official", False),
        ("second", "en", "exact", "candidate", True),
        ("the same", "en", "exact", "official", True),
    }
    assert sorted(read.relation_labels) == ["exact_match", "is_a"]
    assert (written / "out" / "exact.sssom.tsv").read_text() == (
        "subject_id\tpredicate_id\tobject_id\nA:2\tskos:exactMatch\tB:2\n"
    )


def test_definitions_of_an_open_graph_add_no_term(written: Path) -> None:
    words = [str(written / name) for name in ("terms.tsv.gz", "relations.tsv", "definitions.tsv")]
    assert open_vocabularies.main(["graph", *words[:2], "--definitions", words[2], "-o", str(written / "out")]) == 0
    read = read_back(written / "out", "terms.tsv", "definitions.tsv", "relations.tsv")
    assert read.terms.num_rows == 5
    texts = read.side_table("definitions")
    assert texts["concept"].to_pylist() == [read.resolve("A:1")] * 2
    assert set(texts["text"].to_pylist()) == {'What it "is".', "What it is by others."}
