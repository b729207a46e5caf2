from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
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


LICENSED_TERMS = """id	lang	term	type	status	source
DOID:1	en	one	pref	OFFICIAL	DOID2026
DOID:1	en	the first	syn	OFFICIAL	DOID2026
DOID:1	it	uno	pref	OFFICIAL	DOID2026
SYMP:1	en	odd	pref	OFFICIAL	SYMP
DC:1	en	share-alike	pref	OFFICIAL	DrugCentral
I9:1	en	without a licence	pref	OFFICIAL	ICD9CM_IT
"""
LICENSED_RELATIONS = """head	relation	tail	source
DOID:1	is_a	SYMP:1	DOID2026
DC:1	is_a	DOID:1	DrugCentral
"""
LICENSED_DEFINITIONS = """id	lang	definition	source
DOID:1	en	What it is.	DOID2026
DOID:1	it	Che cosa sia.	DOID2026
DC:1	en	What a drug is.	DrugCentral
"""


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    for name, text in (
        ("terms", LICENSED_TERMS),
        ("relations", LICENSED_RELATIONS),
        ("definitions", LICENSED_DEFINITIONS),
    ):
        (tmp_path / f"{name}.tsv").write_text(text)
    return [str(tmp_path / f"{name}.tsv") for name in ("terms", "relations", "definitions")]


def read(path: Path) -> list[dict[str, str]]:
    return pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False).fill_null("").to_dicts()


def test_only_english_rows_of_sources_that_may_be_given_on_are_taken(tables, tmp_path):
    out = tmp_path / "out"
    assert open_vocabularies.main(["knowledge", *tables, "-o", str(out)]) == 0
    assert [row["term"] for row in read(out / "terms.tsv")] == ["one", "the first", "odd"]
    assert [row["head"] for row in read(out / "relations.tsv")] == ["DOID:1"]
    assert [row["definition"] for row in read(out / "definitions.tsv")] == ["What it is."]


def test_each_source_is_said_with_its_version_its_licence_and_its_rows(tables, tmp_path, capsys):
    out = tmp_path / "out"
    assert open_vocabularies.main(["knowledge", *tables, "-o", str(out)]) == 0
    doid, symp, index, phrases = read(out / "sources.tsv")
    columns = ["source", "name", "version", "licence", "terms", "relations", "definitions"]
    assert list(doid) == columns
    assert [*doid.values()] == ["DOID2026", "DOID", "2026", "CC0-1.0", "2", "1", "1"]
    assert [*symp.values()] == ["SYMP", "SYMP", "", "CC0-1.0", "1", "0", "0"]
    assert (index["name"], index["version"]) == ("ICD-10-CM, alphabetical index", "2025")
    assert "public domain" in index["licence"]
    assert int(index["terms"]) == len(read(out / "index.terms.tsv")) > 40_000
    assert (phrases["source"], phrases["name"], phrases["licence"]) == ("Alphita", "everyday phrases", "Apache-2.0")
    assert int(phrases["terms"]) == len(read(out / "lay.terms.tsv"))
    said = capsys.readouterr().err
    assert "DOID2026 (DOID, 2026, CC0-1.0): 2 terms, 1 relations, 1 definitions" in said
    assert "DrugCentral" not in said


def test_a_phrase_is_a_name_of_the_concept_that_its_standard_name_names():
    names = [
        ("DOID:1", "Palpitations", "syn"),
        ("MESH:1", "Palpitations", "pref"),
        ("HP:1", "palpitations", "pref"),
        ("HP:2", "Dyspnea", "pref"),
        ("HP:2", "out of breath", "syn"),
        ("HP:3", "Fever", "syn_broad"),
    ]
    terms = pl.DataFrame(names, ["id", "term", "type"], orient="row")
    phrases = [
        ("alphita:1", "Palpitations"),
        ("alphita:1", "butterflies in the chest"),
        ("alphita:2", "Dyspnea"),
        ("alphita:2", "Out of breath"),
        ("alphita:3", "Fever"),
        ("alphita:3", "burning up"),
    ]
    found = open_vocabularies._lay_names(
        pl.DataFrame(phrases, ["id", "name"], orient="row").with_columns(language=pl.lit("en")), terms
    )
    # The preferred name goes first, and of these HPO's; what is a name already is left out; a broad name names nothing.
    assert found.rows() == [("HP:1", "butterflies in the chest", "en")]
