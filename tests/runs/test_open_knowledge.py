from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import open_vocabularies

TERMS = """id	lang	term	type	status	source
DOID:1	en	one	pref	OFFICIAL	DOID2026
DOID:1	en	the first	syn	OFFICIAL	DOID2026
DOID:1	it	uno	pref	OFFICIAL	DOID2026
SYMP:1	en	odd	pref	OFFICIAL	SYMP
DC:1	en	share-alike	pref	OFFICIAL	DrugCentral
I9:1	en	without a licence	pref	OFFICIAL	ICD9CM_IT
"""
RELATIONS = """head	relation	tail	source
DOID:1	is_a	SYMP:1	DOID2026
DC:1	is_a	DOID:1	DrugCentral
"""
DEFINITIONS = """id	lang	definition	source
DOID:1	en	What it is.	DOID2026
DOID:1	it	Che cosa sia.	DOID2026
DC:1	en	What a drug is.	DrugCentral
"""


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    for name, text in (("terms", TERMS), ("relations", RELATIONS), ("definitions", DEFINITIONS)):
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
    assert doid == {
        "source": "DOID2026",
        "name": "DOID",
        "version": "2026",
        "licence": "CC0-1.0",
        "terms": "2",
        "relations": "1",
        "definitions": "1",
    }
    assert symp == {
        "source": "SYMP",
        "name": "SYMP",
        "version": "",
        "licence": "CC0-1.0",
        "terms": "1",
        "relations": "0",
        "definitions": "0",
    }
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
