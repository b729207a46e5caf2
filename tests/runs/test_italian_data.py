from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import italian
from alphita.errors import InputError, UsageError
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from tests.tiny import tiny_terminology


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology", types=True)


def names(terminology: Terminology) -> dict[str, list[str]]:
    rows, offsets = terminology.training_terms()
    strings = terminology.terms["string"].take(rows).to_pylist()
    return {
        terminology.concept_id(row): strings[offsets[row] : offsets[row + 1]] for row in range(terminology.n_concepts)
    }


def cut(terminology: Terminology, out: Path, *, per_concept: float = 1.5, seed: int = 1, queries: int = 1000):
    tables, split = italian.scarce(terminology, per_concept, seed, queries)
    italian.save(tables, out, {}, terminology)
    return load_terminology(out), split


def test_a_scarce_terminology_has_so_few_names_and_all_concepts_and_triples(tiny: Terminology, tmp_path: Path) -> None:
    scarce, split = cut(tiny, tmp_path / "s.terminology")
    before, after = names(tiny), names(scarce)
    assert list(before) == list(after)
    # 32 concepts with 88 names: 48 are left, the one that a concept is called by among them.
    assert sum(map(len, before.values())) == 88
    assert sum(map(len, after.values())) == 48
    for concept, kept in after.items():
        assert kept[0] == before[concept][0]
        assert set(kept) <= set(before[concept])
    assert np.array_equal(scarce.triples, tiny.triples)
    assert scarce.relation_labels == tiny.relation_labels
    assert scarce.concept_names.to_pylist() == tiny.concept_names.to_pylist()
    assert len(scarce.side_table("semantic_types")) == len(tiny.side_table("semantic_types")) > 0
    # What is asked was cut away: one name a concept, and nothing that is still there.
    left = {name for some in after.values() for name in some}
    lost = {concept for concept in before if len(before[concept]) > len(after[concept])}
    assert set(split.concept_ids) == lost
    assert len(split) == len(lost)
    for string, concept in zip(split.strings, split.concept_ids, strict=True):
        assert string in set(before[concept]) - left
    assert set(split.parts) == {"test"}
    assert (split.facts["names_before"], split.facts["names_kept"]) == (88, 48)


def test_what_is_cut_follows_from_the_seed_alone(tiny: Terminology, tmp_path: Path) -> None:
    first, one = cut(tiny, tmp_path / "a.terminology")
    again, two = cut(tiny, tmp_path / "b.terminology")
    other, _ = cut(tiny, tmp_path / "c.terminology", seed=2)
    assert first.content_hash == again.content_hash
    assert one.hash == two.hash
    assert names(other) != names(first)
    _, few = cut(tiny, tmp_path / "d.terminology", queries=5)
    assert few.strings == one.strings[:5]


def test_cut_names_are_found_by_the_benchmark(tiny: Terminology, tmp_path: Path) -> None:
    scarce, split = cut(tiny, tmp_path / "s.terminology")
    split.save(tmp_path / "cut.split")
    module = load_benchmark("held_out_synonyms")
    loaded = module.load(Source(None, scarce, "held_out_synonyms", ""), module.Options(split=tmp_path / "cut.split"))
    assert [query for (query,) in loaded.queries.parts] == split.strings
    assert len(loaded.targets.names) == 48


def spoken(folder: Path) -> Terminology:
    rows = [
        # concept, string, language, scope, status
        ("T:1", "Heart pain", "en", "exact", "official"),
        ("T:1", "Dolore cardiaco", "it", "exact", "official"),
        ("T:2", "Skin pain", "en", "exact", "official"),
        ("T:2", "Dolore cutaneo", "it", "exact", "machine"),
        ("T:3", "Dolore osseo", "it", "exact", "official"),
        ("T:4", "Coma", "en", "exact", "official"),
        ("T:4", "Coma", "it", "exact", "official"),
        ("T:4", "Schlaf", "de", "exact", "official"),
        ("T:5", "Eye pain", "en", "exact", "official"),
        ("T:6", "Lung pain", "en", "related", "official"),
        ("T:7", "Bone ache", "en", "exact", "official"),
        ("T:7", "Male alle ossa", "it", "exact", "official"),
    ]
    columns = ("concept", "string", "language", "scope", "status")
    terms = pl.DataFrame(rows, schema=columns, orient="row").with_columns(source=pl.lit("T"))
    concepts = pl.DataFrame({"id": [f"T:{n}" for n in range(1, 8)]}).with_columns(source=pl.lit("T"))
    relations = pl.DataFrame({"head": ["T:1", "T:5"], "relation": "is_a", "tail": ["T:2", "T:1"], "source": "T"})
    store.save(Tables(concepts, terms, relations), folder)
    return load_terminology(folder)


def test_both_languages_of_the_concepts_of_one(tmp_path: Path) -> None:
    given = spoken(tmp_path / "all.terminology")
    made, split = italian.bilingual(given, "it", "en", 1.0, 3, tmp_path / "it.terminology")
    # Not T:5 and T:6, which have no Italian name; no German.
    assert made.concept_ids.to_pylist() == ["T:1", "T:2", "T:3", "T:4", "T:7"]
    assert set(made.terms["language"].to_pylist()) == {"it", "en"}
    # Not the machine's, nor "Coma", which is English too, nor that of T:3, which has no English name.
    assert dict(zip(split.strings, split.concept_ids, strict=True)) == {
        "Dolore cardiaco": "T:1",
        "Male alle ossa": "T:7",
    }
    assert split.facts["without_a_name_to_find"] == 1
    again, same = italian.bilingual(given, "it", "en", 1.0, 3, tmp_path / "it.terminology")
    assert (again.content_hash, same.hash) == (made.content_hash, split.hash)
    module = load_benchmark("held_out_translations")
    split.save(tmp_path / "it.split")
    options = module.Options(language="it", target_language="en", split=tmp_path / "it.split")
    loaded = module.load(Source(None, made, "held_out_translations", ""), options)
    assert sorted(query for (query,) in loaded.queries.parts) == ["Dolore cardiaco", "Male alle ossa"]
    with pytest.raises(UsageError, match="is held out"):
        italian.bilingual(given, "it", "en", 0.0, 3, tmp_path / "none.terminology")


def umls(folder: Path) -> Terminology:
    rows = [
        ("UMLS:C1", "cuore", "MDRITA"),
        ("UMLS:C1", "Cuore", "LNC-IT-IT"),
        ("UMLS:C2", "febbre", "MSHITA"),
        ("UMLS:C3", "polmonite", "ICPCITA"),
        ("UMLS:C4", "sodio", "LNC-IT-IT"),
        ("UMLS:C5", "medico", "MSHITA"),
        ("UMLS:C6", "tumore", "MSHITA"),
    ]
    terms = pl.DataFrame(rows, schema=("concept", "string", "source"), orient="row").with_columns(language=pl.lit("it"))
    concepts = pl.DataFrame({"id": [f"UMLS:C{n}" for n in range(1, 7)]}).with_columns(source=pl.lit("UMLS"))
    types = pl.DataFrame(
        [
            ("UMLS:C1", "Body Part, Organ, or Organ Component", "T023"),
            ("UMLS:C2", "Sign or Symptom", "T184"),
            ("UMLS:C3", "Disease or Syndrome", "T047"),
            ("UMLS:C4", "Inorganic Chemical", "T197"),
            ("UMLS:C5", "Professional or Occupational Group", "T097"),
            ("UMLS:C6", "Neoplastic Process", "T191"),
            ("UMLS:C6", "Pathologic Function", "T046"),
            ("UMLS:C6", "Age Group", "T100"),
        ],
        schema=("concept", "semantic_type", "code"),
        orient="row",
    ).with_columns(source=pl.lit("UMLS"))
    relations = pl.DataFrame(
        [("UMLS:C3", "finding_site_of", "UMLS:C1"), ("UMLS:C6", "isa", "UMLS:C3"), ("UMLS:C4", "isa", "UMLS:C3")],
        schema=("head", "relation", "tail"),
        orient="row",
    ).with_columns(source=pl.lit("SNOMEDCT_US"))
    store.save(Tables(concepts, terms, relations, semantic_types=types), folder)
    return load_terminology(folder)


def test_the_thirteen_groups(tmp_path: Path) -> None:
    sources = ["ICPCITA", "MDRITA", "MSHITA"]
    italian.save(
        italian.grouped(umls(tmp_path / "u.terminology"), sources), tmp_path / "g.terminology", {}, umls(tmp_path / "v")
    )
    made = load_terminology(tmp_path / "g.terminology")
    # Not the sodium, which none of the three names, nor the physician, who is of no group.
    assert made.concept_ids.to_pylist() == ["UMLS:C1", "UMLS:C2", "UMLS:C3", "UMLS:C6"]
    assert sorted(made.terms["string"].to_pylist()) == ["cuore", "febbre", "polmonite", "tumore"]
    types = made.side_table("semantic_types")
    found = sorted(zip(types["concept"].to_pylist(), types["semantic_type"].to_pylist(), strict=True))
    assert found == [
        (0, "Body Part, Organ, or Organ Component"),
        (1, "Sign or Symptom"),
        (2, "Pathologic Function"),
        (3, "Pathologic Function"),
    ]
    # Relations of whatever source.
    assert len(made.triples) == 2
    with pytest.raises(InputError, match="ICPCGER"):
        italian.grouped(umls(tmp_path / "w"), ["ICPCGER"])


def test_the_groups_do_not_overlap_and_are_thirteen() -> None:
    types = [tui for _, some in italian.GROUPS.values() for tui in some.split()]
    assert len(italian.GROUPS) == 13
    assert len(types) == len(set(types))
    assert all(len(tui) == 4 and tui[0] == "T" and tui[1:].isdigit() for tui in types)
