from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import alphita
from alphita import artefact
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import store, text
from alphita.terminology.describe import describe
from alphita.terminology.loaders import obo, table
from alphita.terminology.model import Tables
from alphita.terminology.reading import added, rows_of, tables_of
from tests.terminology.conftest import FIXTURES, check_held

# concept, string, scope, preferred, and what else it is
TERMS = """
T:a|Alpha|exact|1|    T:c|Gamma-ray|related||    T:c|gamma ray|exact||abbreviation    T:c|Gamma|exact|1|
T:b|Bee|exact|1|    T:b|GAMMA|broad||    T:b|old bee|exact||obsolete    T:b|bee|exact||
T:b|abeille|exact||machine    T:b|Biene|exact||candidate    T:d|gone|exact|1|
"""


def tables(**changes: object) -> Tables:
    """Four concepts in no order; b and c are each other's parent, d is retired."""
    source = pl.lit("T").alias("source")
    terms = [line.strip().split("|") for line in re.split("    |\n", TERMS.strip())]
    edges = [("T:b", "is_a", "T:a"), ("T:c", "is_a", "T:b"), ("T:b", "is_a", "T:c"), *[("T:c", "treats", "T:a")] * 2]
    concepts = pl.DataFrame({"id": ["T:c", "T:a", "T:d", "T:b"], "retired": [False, False, True, False]})
    more = pl.col("more")
    content: dict[str, object] = {
        "concepts": concepts.with_columns(source),
        "terms": pl.DataFrame(terms, schema=["concept", "string", "scope", "preferred", "more"], orient="row").select(
            *("concept", "string", "scope"),
            source,
            preferred=pl.col("preferred") == "1",
            status=pl.when(more.is_in(["machine", "candidate"])).then(more).otherwise(pl.lit("official")),
            type=pl.when(more.is_in(["abbreviation", "obsolete"])).then(more),
            language=pl.when(pl.col("string") == "Biene").then(pl.lit("de")).otherwise(pl.lit("en")),
        ),
        "relations": pl.DataFrame(edges, schema=["head", "relation", "tail"], orient="row").with_columns(source),
        "aliases": pl.DataFrame({"concept": ["T:a"], "alias": ["T:z"], "source": ["T"]}),
    }
    return Tables(**{**content, **changes})  # type: ignore[arg-type]


@pytest.fixture
def terminology(tmp_path):
    store.save(tables(), tmp_path / "t.terminology")
    return alphita.load_terminology(tmp_path / "t.terminology")


def test_terms_are_grouped_and_preferred_first(terminology):
    assert terminology.concept_ids.to_pylist() == ["T:a", "T:b", "T:c", "T:d"]
    assert (terminology.n_concepts, terminology.n_terms, terminology.n_relations) == (4, 11, 4)
    assert terminology.concept_terms.tolist() == [0, 1, 7, 10, 11]
    strings = terminology.terms["string"].to_pylist()
    assert (strings[1], strings[6:10]) == ("Bee", ["GAMMA", "Gamma", "gamma ray", "Gamma-ray"])
    for column in ("term_concept", "concept_terms", "triples", "retired"):
        assert isinstance(getattr(terminology, column), np.memmap)
    assert (terminology.term_concept.dtype, terminology.concept_terms.dtype) == (np.int32, np.int64)
    assert pa.types.is_dictionary(terminology.terms.schema.field("scope").type)


def test_keys_are_equal_exactly_when_cleaned_strings_are(terminology):
    cleaned = text.clean_many(terminology.terms["string"].to_pylist())
    for one, key in zip(cleaned, terminology.term_key, strict=True):
        for other, other_key in zip(cleaned, terminology.term_key, strict=True):
            assert (one == other) == (key == other_key)
            assert (one < other) == (key < other_key)
    for string in cleaned:
        key = terminology.find_key(string)
        assert key is not None
        assert {cleaned[row] for row in terminology.terms_of_key(key)} == {string}
    assert terminology.find_key("zzz") is None
    assert terminology.find_key("") is None


def test_search(terminology):
    assert terminology.search(" gamma. ") == [1, 2]
    assert terminology.search("gamma", exact_only=True) == [2]
    assert terminology.search("Gamma Ray") == [2]
    assert terminology.search("none") == []


def test_training_terms(terminology):
    rows, offsets = terminology.training_terms()
    strings = terminology.terms["string"].take(rows).to_pylist()
    assert offsets.tolist() == [0, 1, 3, 5, 5]
    assert strings == ["Alpha", "Bee", "Biene", "Gamma", "gamma ray"]
    assert rows.dtype == np.int32
    rows, offsets = terminology.training_terms(exclude={"gamma", "not there"}, languages={"en"})
    assert terminology.terms["string"].take(rows).to_pylist() == ["Alpha", "Bee", "gamma ray"]
    assert offsets.tolist() == [0, 1, 2, 3, 3]


def test_a_cycle_is_walked_once(terminology):
    assert terminology.parents(1).tolist() == terminology.ancestors(1).tolist() == [0, 2]
    assert terminology.ancestors(2).tolist() == [0, 1]
    assert terminology.descendants(0).tolist() == [1, 2]
    assert terminology.ancestors(0).tolist() == []


def test_resolve(terminology):
    assert [terminology.resolve(f"T:{name}") for name in "abcdz"] == [0, 1, 2, 3, 0]
    with pytest.raises(InputError, match=r"value 'T:bb'\); did you mean 'T:b'\?"):
        terminology.resolve("T:bb")
    assert terminology.concept("T:z").id == "T:a"
    assert terminology.concept(3).retired
    with pytest.raises(InputError, match="0 to 3"):
        terminology.concept(4)


def test_rows_that_there_are_not_are_refused(tmp_path):
    given = tables()
    given.relations = pl.DataFrame({"head": [0, 9], "relation": ["r", "r"], "tail": [-1, 1], "source": ["T", "T"]})
    rejects = Rejects(None)
    store.save(given, tmp_path / "dangling.terminology", rejects=rejects)
    assert rejects.count == 2
    assert store.load_terminology(tmp_path / "dangling.terminology").n_relations == 0


def test_rows_that_lead_nowhere_are_refused_and_counted(tmp_path):
    given = tables()
    ends = {"head": ["T:a", "T:x"], "relation": "is_a", "tail": "T:b"}
    given.relations = pl.DataFrame({**ends, "source": "T", "file": "f.csv", "line": [7, 8]})
    given.concepts = pl.concat([given.concepts, given.concepts[:1]])
    given.terms = given.terms.with_columns(
        scope=pl.when(pl.col("string") == "Bee").then(pl.lit("nearly")).otherwise("scope"),
        string=pl.when(pl.col("string") == "Biene").then(pl.lit("x" * 100_000)).otherwise("string"),
    )
    with Rejects(tmp_path / "r.csv") as rejects:
        store.save(given, tmp_path / "t.terminology", rejects=rejects)
    assert rejects.count == 4
    report = (tmp_path / "r.csv").read_text()
    assert "f.csv,8,head,T:x,no concept has this id" in report
    assert "this id was defined before" in report
    assert "nearly" in report
    assert store.load_terminology(tmp_path / "t.terminology").manifest["rejected_on_saving"] == 4
    with pytest.raises(InputError, match=r"defined before"):
        store.save(given, tmp_path / "s.terminology", rejects=Rejects(None, strict=True))
    assert not (tmp_path / "s.terminology").exists()
    assert list(tmp_path.glob(".*")) == []


def test_a_concept_without_terms_shows_its_id(tmp_path):
    given = tables()
    given.terms = given.terms.filter(pl.col("concept") != "T:b")
    store.save(given, tmp_path / "t.terminology")
    concept = store.load_terminology(tmp_path / "t.terminology").concept("T:b")
    assert (concept.name, concept.terms) == ("T:b", [])


def test_saving_twice_gives_the_same_and_never_overwrites(tmp_path, terminology):
    target = tmp_path / "t.terminology"
    with pytest.raises(UsageError, match="already exists"):
        store.save(tables(), target)
    given = tables()
    (target / "notes.txt").write_text("mine", encoding="utf-8")
    store.save(given, target, force=True)
    store.save(given, tmp_path / "u.terminology")
    assert store.load_terminology(target).content_hash == terminology.content_hash
    assert store.load_terminology(tmp_path / "u.terminology").content_hash == terminology.content_hash
    assert (tmp_path / "t.terminology.old-1").is_dir()
    assert artefact.verify(target, "terminology")["counts"]["relations"] == 4


def test_nothing_to_save(tmp_path):
    for changes, problem in (
        ({"concepts": tables().concepts[:0]}, "no concept"),
        ({"terms": tables().terms[:0]}, "no term"),
    ):
        with pytest.raises(InputError, match=problem):
            store.save(tables(**changes), tmp_path / "t.terminology")
        assert list(tmp_path.iterdir()) == []


def test_damaged_and_foreign_folders(tmp_path, terminology):
    with pytest.raises(InputError, match="no such terminology"):
        alphita.load_terminology(tmp_path / "none")
    (terminology.path / "term_key.npy").write_bytes(b"short")
    with pytest.raises(InputError, match=r"term_key\.npy has 5 bytes"):
        alphita.load_terminology(terminology.path)


def test_damage_of_the_right_size_never_gives_a_traceback(tmp_path, terminology):
    for name in ("terms.arrow", "concepts.arrow", "labels.json", "triples.npy", "concept_terms.npy"):
        file = terminology.path / name
        content = file.read_bytes()
        file.write_bytes(b"\xff" * len(content))
        with pytest.raises(AlphitaError, match="damaged"):
            alphita.load_terminology(terminology.path)
        file.write_bytes(content)
    alphita.load_terminology(terminology.path)


def test_other_cleaning_rules_are_noticed(terminology):
    manifest = terminology.path / "manifest.json"
    facts = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(facts | {"cleaning_version": 0}))
    with pytest.raises(InputError, match="import it again"):
        alphita.load_terminology(terminology.path)


def in_pieces(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame[:1], frame[1:2], frame[2:]], rechunk=False)


def with_strings_under_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    strings = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.col(name).fill_null("beneath")).alias(name) for name in strings
    )


def sliced(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame[:1], frame, frame[:1]], rechunk=True).slice(1, len(frame))


def as_categories(frame: pl.DataFrame) -> pl.DataFrame:
    few = [name for name in frame.columns if name in ("source", "language", "scope", "type", "status", "relation")]
    return frame.with_columns(pl.col(few).cast(pl.Categorical))


def with_rows_for_ids(frame: pl.DataFrame) -> pl.DataFrame:
    place = {"T:c": 0, "T:a": 1, "T:d": 2, "T:b": 3}
    references = [name for name in ("concept", "head", "tail") if name in frame.columns]
    return frame.with_columns(pl.col(references).replace_strict(place, return_dtype=pl.Int64))


@pytest.mark.parametrize("change", [in_pieces, with_strings_under_nulls, sliced, as_categories, with_rows_for_ids])
def test_equal_content_has_one_hash_whatever_way_it_came(tmp_path, change):
    """Arrow leaves bytes open that mean nothing: under nulls, at the ends of bitmaps, beyond slices."""
    columns = {"concept": ["T:a", "T:b", "T:c"], "text": ["first", "second", "third"], "reference": [None, "one", None]}
    definitions = pl.DataFrame({**columns, "language": "en", "source": "T"})
    content = tables(definitions=definitions)
    store.save(content, tmp_path / "plain")
    changed = {name: change(getattr(content, name)) for name in ("concepts", "terms", "relations", "definitions")}
    store.save(dataclasses.replace(content, **changed), tmp_path / "changed")
    plain, other = (artefact.verify(tmp_path / name, "terminology") for name in ("plain", "changed"))
    assert other["files"] == plain["files"]
    assert other["content_hash"] == plain["content_hash"]


@pytest.mark.parametrize("module", ["alphita.terminology.store", "alphita.index.store", "alphita.answer.normalizer"])
def test_what_opens_and_answers_imports_no_heavy_library(module):
    code = f"import sys, {module}; print(sorted({{'polars', 'torch', 'sklearn', 'tokenizers'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- read back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [["small.obo"], ["terms.csv", "relations.tsv"], []])
def test_read_back_and_saved_again_it_is_the_same(load, write, tmp_path, files):
    paths = [FIXTURES / file for file in files] or [write("t.csv", "id,term\nX:1,One\n")]
    terminology, _ = load(obo if files == ["small.obo"] else table, *paths)
    store.save(tables_of(terminology), tmp_path / "again.terminology", rejects=Rejects(None, strict=True))
    again = store.load_terminology(tmp_path / "again.terminology")
    for key in ("counts", "sources", "dropped"):
        assert again.manifest[key] == terminology.manifest[key]
    assert again.manifest["files"] == terminology.manifest["files"]
    assert again.content_hash == terminology.content_hash


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
    more = store.load_terminology(tmp_path / "more.terminology")
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


# --- described -------------------------------------------------------------------------------------------------------


HOMONYMS = "id,term,scope\nX:1,Cold,\nX:2,Chill,\nX:2,COLD,related\nX:3,COPD,\nX:3,cold.,\nX:4,Gone,\nX:4,gone,\n"
DESCRIBED = {
    "ontology": (obo, "small.obo", {}),
    "branches": (obo, "small.obo", {"semantic_type": "XX:0000001"}),
    "table": (table, "terms.csv", {}),
    "homonyms": (table, HOMONYMS, {}),
}


@pytest.mark.parametrize("case", DESCRIBED)
def test_description(load, write, case):
    loader, file, options = DESCRIBED[case]
    terminology, _ = load(loader, FIXTURES / file if "\n" not in file else write("h.csv", file), **options)
    report = json.loads(json.dumps(describe(terminology).as_json()))
    assert report["content_hash"] == terminology.content_hash
    assert sum(report["terms_by_kind"].values()) == report["totals"]["terms of live concepts"]
    found = [f"{name}: {value}" for name, value in report.items() if name not in ("path", "content_hash", "sources")]
    check_held("descriptions", case, [*DESCRIBED], found)
