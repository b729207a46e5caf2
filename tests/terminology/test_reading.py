"""A terminology read back into tables."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from alphita.errors import Rejects
from alphita.terminology import model, store
from alphita.terminology.loaders import obo, table
from alphita.terminology.model import added, rows_of, tables_of
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology.conftest import FIXTURES

NAMES = ("concepts", "terms", *(name for name in model.SCHEMAS if name not in ("concepts", "terms")))


def check_again(terminology: Terminology, tmp_path: Path) -> None:
    """Save it again and compare every array and column."""
    store.save(tables_of(terminology), tmp_path / "again.terminology", rejects=Rejects(None, strict=True))
    again = load_terminology(tmp_path / "again.terminology")
    for key in ("counts", "sources", "dropped"):
        assert again.manifest[key] == terminology.manifest[key]
    assert again.manifest["files"] == terminology.manifest["files"]
    assert again.content_hash == terminology.content_hash


def test_saved_again_it_is_the_same(small, tmp_path):
    check_again(small, tmp_path)


def test_so_is_one_with_semantic_types_and_several_languages(load, tmp_path):
    check_again(load(table, FIXTURES / "terms.csv", FIXTURES / "relations.tsv")[0], tmp_path)


def test_every_table_has_the_columns_of_the_model(small):
    tables = tables_of(small)
    for name in NAMES:
        frame = getattr(tables, name)
        assert set(frame.columns) == set(model.SCHEMAS[name]), name
        for column in set(model.REFERENCES) & set(frame.columns):
            assert frame.schema[column].is_integer()
    assert tables.concepts["id"].to_list() == small.concept_ids.to_pylist()
    assert tables.parent_relations == ("is_a",)


def test_rows_are_added(small, tmp_path):
    tables = tables_of(small)
    rows = rows_of(small, ["XX:0000003"])
    tables.terms = added(
        tables.terms,
        pl.DataFrame({"concept": [rows["XX:0000003"]], "string": ["Ohr"], "language": ["de"], "source": ["new"]}),
    )
    tables.relations = added(
        tables.relations,
        pl.DataFrame({"head": [rows["XX:0000003"]], "relation": ["new_label"], "tail": [0], "source": ["new"]}),
    )
    store.save(tables, tmp_path / "more.terminology", rejects=Rejects(None, strict=True))
    more = load_terminology(tmp_path / "more.terminology")
    assert (more.n_terms, more.n_relations) == (small.n_terms + 1, small.n_relations + 1)
    [term] = [term for term in more.concept("XX:0000003").terms if term.language == "de"]
    assert (term.string, term.scope, term.status, term.source, term.type) == ("Ohr", "exact", "official", "new", None)
    assert ("new_label", "XX:0000001") in more.concept("XX:0000003").relations
    assert added(tables.terms, tables.terms.clear()) is tables.terms


def test_rows_of_ids_and_alternative_ids(small):
    asked = ["XX:0000002", "XX:0000902", "XX:404", "", "XX:0000002", " XX:0000002"]
    wanted = small.resolve("XX:0000002")
    assert rows_of(small, asked) == {"XX:0000002": wanted, "XX:0000902": wanted, " XX:0000002": wanted}
    assert rows_of(small, []) == {}
    everything = small.concept_ids.to_pylist()
    assert list(rows_of(small, everything).values()) == list(range(small.n_concepts))


def test_without_relations_and_side_tables(load, tmp_path):
    path = tmp_path / "x.obo"
    path.write_text("format-version: 1.2\n\n[Term]\nid: X:1\nname: One\n")
    terminology, _ = load(obo, path)
    check_again(terminology, tmp_path)
