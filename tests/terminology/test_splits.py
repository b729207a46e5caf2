from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita.terminology import splits, store
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, assign, hold_out_concepts, hold_out_synonyms, names_of
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.training.terms.samplers import usable_triples

N = 400


def saved(path: Path, concepts: pl.DataFrame, terms: pl.DataFrame, **more: pl.DataFrame) -> Terminology:
    """Save concepts and terms (English by default) of the source T, and open them again."""
    if "language" not in terms.columns:
        terms = terms.with_columns(language=pl.lit("en"))
    tables = {name: frame.with_columns(source=pl.lit("T")) for name, frame in more.items()}
    source = pl.lit("T").alias("source")
    store.save(Tables(concepts.with_columns(source), terms.with_columns(source), **tables), path)
    return store.load_terminology(path)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory):
    """N concepts of three names; every tenth has one name only, every seventh shares a synonym with its neighbour."""
    rows = []
    for number in range(N):
        rows.append((f"T:{number:04}", f"Name {number}", True, "exact"))
        if number % 10:
            shared = number - number % 7 if number % 7 < 2 else number
            rows.append((f"T:{number:04}", f"Synonym-{shared}", False, "exact"))
            rows.append((f"T:{number:04}", f"Other {number}", False, "exact"))
            rows.append((f"T:{number:04}", f"broad {number}", False, "broad"))
    terms = pl.DataFrame(rows, schema=["concept", "string", "preferred", "scope"], orient="row")
    concepts = pl.DataFrame({"id": [f"T:{n:04}" for n in range(N)]})
    return saved(tmp_path_factory.mktemp("split") / "t.terminology", concepts, terms)


def test_one_synonym_of_about_the_fraction_of_concepts(terminology):
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    assert len(split) == len(split.strings) == len(split.concept_ids)
    assert len(set(split.concept_ids)) == len(split)
    assert split.facts["concepts_with_several"] == 360
    dropped = split.facts["dropped_as_equal_to_a_kept_term"]
    assert dropped > 0
    assert 80 <= len(split) + dropped <= 140
    assert set(split.parts) == {"test"}
    for string, identifier in zip(split.strings, split.concept_ids, strict=True):
        terms = {term.string: term for term in terminology.concept(identifier).terms}
        assert terms[string].scope == "exact"
        assert not terms[string].preferred


def test_no_held_out_string_is_left_in_training(terminology):
    split = hold_out_synonyms(terminology, fraction=0.5, seed=2)
    rows, _ = terminology.training_terms(exclude=split.cleaned)
    kept = set(clean_many(terminology.terms["string"].take(rows).to_pylist()))
    assert not kept & split.cleaned
    before, _ = terminology.training_terms()
    assert len(before) - len(rows) == len(split)
    for string in split.strings:
        assert len(terminology.search(string)) == 1


def test_the_seed_decides_and_nothing_else(terminology):
    one, again = (hold_out_synonyms(terminology, fraction=0.3, seed=5) for _ in range(2))
    assert one == again
    assert one.hash == again.hash
    other = hold_out_synonyms(terminology, fraction=0.3, seed=6)
    assert other.hash != one.hash
    # A larger fraction only adds.
    assert set(one.strings) < set(hold_out_synonyms(terminology, fraction=0.6, seed=5).strings)


def test_fractions(terminology):
    assert len(hold_out_synonyms(terminology, fraction=0.0, seed=1)) == 0
    assert len(set(hold_out_synonyms(terminology, fraction=1.0, seed=1).concept_ids)) > 300
    assert len(hold_out_concepts(terminology, fraction=0, seed=0)) == 0
    for hold_out in (hold_out_synonyms, hold_out_concepts, partial(splits.with_triples, NOTHING)):
        for fraction in (-0.1, 1.1, float("nan")):
            with pytest.raises(UsageError, match="between 0 and 1"):
                hold_out(terminology, fraction=fraction, seed=1)


def test_assign(terminology):
    split = assign(terminology, train=0.6, calibration=0.3, test=0.1, seed=3)
    calibration, test = split.part("calibration"), split.part("test")
    assert len(calibration) + len(test) == len(split)
    assert 2 * len(test) < len(calibration)
    assert not calibration.cleaned & test.cleaned
    assert not any(string.startswith("Name") for string in split.strings)
    assert assign(terminology, train=0.6, calibration=0.3, test=0.1, seed=3) == split
    with pytest.raises(UsageError, match=r"add up to 1, not 0\.9"):
        assign(terminology, train=0.6, calibration=0.2, test=0.1, seed=3)
    with pytest.raises(UsageError, match="dev"):
        split.part("dev")


def test_save_and_load(terminology, tmp_path):
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    split.save(tmp_path / "s.split")
    loaded = Split.load(tmp_path / "s.split")
    assert loaded == split
    assert loaded.hash == split.hash
    assert loaded.cleaned == split.cleaned == {clean(string) for string in split.strings}
    assert loaded.facts["terminology_hash"] == terminology.content_hash
    assert artefact.verify(tmp_path / "s.split", "split")["held_out"] == len(split)
    with pytest.raises(UsageError, match="already exists"):
        split.save(tmp_path / "s.split")
    split.save(tmp_path / "s.split", force=True)


def test_a_changed_split_is_noticed(terminology, tmp_path):
    path = tmp_path / "s.split"
    hold_out_synonyms(terminology, fraction=0.3, seed=1).save(path)
    file = path / splits.FILE
    content = file.read_text()
    file.write_text(content.replace("Other", "OTHER", 1))
    with pytest.raises(InputError, match="not those that were saved"):
        Split.load(path)
    file.write_text("[" + content[1:-3] + "  ")
    with pytest.raises(InputError, match=r"damaged split|bytes"):
        Split.load(path)
    with pytest.raises(InputError, match="no such split"):
        Split.load(tmp_path / "none.split")


# --- held-out triples ------------------------------------------------------------------------------------------------


def graph(folder: Path, seed: int, *, renumbered: bool = False) -> Terminology:
    """A random graph of three relations, of which one has a single triple.

    Renumbered it has the same triples in another order, after concepts and a relation that come before all others.
    """
    concepts, triples = 60, 200
    rng = np.random.default_rng(seed)
    ids = [f"T:{number:04}" for number in range(concepts)]
    rows = [(ids[a], f"r{c}", ids[b]) for a, b, c in rng.integers(0, [concepts, concepts, 2], (triples, 3)).tolist()]
    rows += [(ids[0], "only", ids[1]), (ids[2], "r0", ids[3]), (ids[3], "r1", ids[2])]
    rows = sorted(set(rows))
    if renumbered:
        ids = ["A:1", "A:2", *ids[::-1]]
        rows = [("A:1", "a", "A:2"), *(rows[row] for row in rng.permutation(len(rows)))]
    relations = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    return saved(folder, pl.DataFrame({"id": ids}), named(ids), relations=relations)


def named(ids: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"concept": ids, "string": [f"name {number}" for number in ids], "preferred": True})


NOTHING = Split([], [], [])


@pytest.mark.parametrize("seed", range(4))
def test_held_out_triples_leave_every_concept_and_relation_one(tmp_path, seed):
    terminology = graph(tmp_path / "g.terminology", seed)
    split = splits.with_triples(NOTHING, terminology, fraction=0.3, seed=seed)
    assert 20 < len(split.triples) < 110
    assert split.facts["triples_held_out"] == len(split.triples)
    ids, labels = terminology.concept_ids.to_pylist(), terminology.relation_labels
    everything = {(ids[h], labels[r], ids[t]) for h, r, t in terminology.triples.tolist() if h != t}
    held_out = set(split.triples)
    assert held_out < everything
    left = everything - held_out
    assert {r for _, r, _ in left} == {r for _, r, _ in everything}
    assert {end for h, _, t in left for end in (h, t)} == {end for h, _, t in everything for end in (h, t)}
    # Both directions and all relations of a pair go together.
    pairs = {frozenset((h, t)) for h, _, t in held_out}
    assert not {triple for triple in left if frozenset((triple[0], triple[2])) in pairs}
    _, offsets = terminology.training_terms()
    trained = usable_triples(
        terminology.triples, offsets, len(labels), inverse=True, held_out=split.triple_pairs(terminology)
    )
    assert not {frozenset((ids[h], ids[t])) for h, _, t in trained.tolist()} & pairs
    assert len(trained) == 2 * len(left)


def test_the_choice_of_triples_follows_from_seed_and_ids_alone(tmp_path):
    terminology = graph(tmp_path / "g.terminology", 0)
    first, again, other = (
        splits.with_triples(NOTHING, terminology, fraction=0.2, seed=seed).triples for seed in (1, 1, 2)
    )
    assert first == again != other
    assert splits.with_triples(NOTHING, terminology, fraction=0.0, seed=1).triples == []
    # Nor on rows.
    renumbered = graph(tmp_path / "r.terminology", 0, renumbered=True)
    assert renumbered.concept_ids[0] != terminology.concept_ids[0]
    assert splits.with_triples(NOTHING, renumbered, fraction=0.2, seed=1).triples == first


def test_triples_of_retired_or_unnamed_concepts_are_not_held_out(tmp_path):
    ids = [f"T:{number}" for number in range(8)]
    rows = [(a, "r", b) for a in ids for b in ids if a != b]
    concepts = pl.DataFrame({"id": ids, "retired": [identifier == "T:7" for identifier in ids]})
    relations = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    terminology = saved(tmp_path / "x.terminology", concepts, named(ids[2:]), relations=relations)
    split = splits.with_triples(NOTHING, terminology, fraction=1.0, seed=1)
    assert {end for head, _, tail in split.triples for end in (head, tail)} == set(ids[2:7])
    # Ten pairs of five concepts; what stays leaves each concept a triple.
    left = {frozenset(row[::2]) for row in rows} - {frozenset((head, tail)) for head, _, tail in split.triples}
    assert set(ids[2:7]) <= {end for pair in left if not pair & {"T:0", "T:1", "T:7"} for end in pair}
    kept = split.facts["pairs_kept_for_a_concept_or_relation_needs_them"]
    assert split.facts["pairs_held_out"] == len(split.triples) / 2 == 10 - kept


def test_triples_are_saved_with_the_strings(tmp_path):
    terminology = graph(tmp_path / "g.terminology", 0)
    alone = splits.with_triples(NOTHING, terminology, fraction=0.2, seed=1)
    assert (bool(alone), len(alone)) == (True, 0)
    split = splits.with_triples(hold_out_synonyms(terminology, seed=1), terminology, fraction=0.2, seed=1)
    assert split.triples == alone.triples
    split.save(tmp_path / "x.split")
    loaded = Split.load(tmp_path / "x.split")
    assert loaded.triples == split.triples
    assert loaded.hash == split.hash != NOTHING.hash
    assert loaded.part("test").triples == split.triples
    file = tmp_path / "x.split" / "held_out_triples.json"
    file.write_text(file.read_text().replace("r0", "r1", 1))
    with pytest.raises(InputError, match="strings or triples"):
        Split.load(tmp_path / "x.split")


def test_a_split_saved_before_there_were_triples_still_loads(tmp_path):
    rows = [["a", "T:1", "test"], ["b", "T:2", "calibration"]]
    hashed = artefact.hash_json([["a", "b"], ["T:1", "T:2"], ["test", "calibration"]])
    with artefact.create(tmp_path / "old.split", splits.KIND) as draft:
        (draft.path / splits.FILE).write_text(json.dumps(rows))
        draft.fields.update({"split_hash": hashed, "held_out": 2, "facts": {"seed": 1}})
    split = Split.load(tmp_path / "old.split")
    assert (split.strings, split.concept_ids, split.triples) == (["a", "b"], ["T:1", "T:2"], [])
    assert split.hash == hashed
    # Saved again without triples it has the same files.
    split.save(tmp_path / "new.split")
    assert {path.name for path in (tmp_path / "new.split").iterdir()} == {
        path.name for path in (tmp_path / "old.split").iterdir()
    }
    assert Split.load(tmp_path / "new.split").hash == hashed


def test_merged_concepts_are_met_by_their_old_ids(tmp_path):
    old = graph(tmp_path / "old.terminology", 0)
    split = splits.with_triples(NOTHING, old, fraction=0.2, seed=1)
    head, _, tail = split.triples[0]
    ids = ["N:1", "N:2", "N:3"]
    aliases = pl.DataFrame({"concept": ["N:2", "N:1"], "alias": [head, tail]})
    # Turned round and under another name in the new terminology: still the held-out pair.
    rows = [("N:1", "new", "N:2"), ("N:2", "new", "N:1"), ("N:1", "new", "N:3")]
    relations = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    new = saved(
        tmp_path / "new.terminology", pl.DataFrame({"id": ids}), named(ids), aliases=aliases, relations=relations
    )
    row = {identifier: place for place, identifier in enumerate(new.concept_ids.to_pylist())}
    pairs = split.triple_pairs(new)
    assert pairs.tolist()[0] == [row["N:2"], row["N:1"]]
    # One row a triple that is there; the others can be counted.
    there = [triple for triple in split.triples if {triple[0], triple[2]} == {head, tail}]
    assert len(pairs) == len(there) < len(split.triples)
    assert pairs[0].tolist() == [new.resolve(head), new.resolve(tail)]
    _, offsets = new.training_terms()
    trained = usable_triples(new.triples, offsets, 1, inverse=True, held_out=pairs)
    assert sorted(map(tuple, trained.tolist())) == [(row["N:1"], 0, row["N:3"]), (row["N:3"], 1, row["N:1"])]
    other = Split([], [], [], triples=[("X:1", "r", "X:2")])
    with pytest.raises(InputError, match="no held-out triple of this split"):
        other.triple_pairs(new)


def test_a_calibration_part_leaves_the_test_part_as_it_is(terminology):
    plain = hold_out_synonyms(terminology, fraction=0.3, seed=4)
    both = hold_out_synonyms(terminology, fraction=0.3, calibration=0.4, seed=4)
    assert both.part("test").strings == plain.strings
    calibration = both.part("calibration")
    assert len(calibration)
    assert not set(calibration.concept_ids) & set(plain.concept_ids)
    with pytest.raises(UsageError, match=r"1\.1"):
        hold_out_synonyms(terminology, fraction=0.7, calibration=0.4, seed=4)


# --- whole concepts --------------------------------------------------------------------------------------------------

M = 300


def terminology_of(path: Path, numbers: list[int]) -> Terminology:
    """Concepts of names in two languages and of every scope and status; each tenth is retired, 7 and 8 share a name."""
    rows = []
    for number in numbers:
        identifier = f"T:{number:04}"
        rows += [
            (identifier, f"Name {number}", "en", "exact", "official"),
            (identifier, f"name-{number}.", "en", "exact", "official"),
            (identifier, f"Wide {number}", "en", "broad", "official"),
            (identifier, f"Nome {number}", "it", "exact", "machine"),
            (identifier, "Shared" if number in (7, 8) else f"Other {number}", "en", "exact", "official"),
        ]
    terms = pl.DataFrame(rows, schema=["concept", "string", "language", "scope", "status"], orient="row")
    concepts = pl.DataFrame({"id": [f"T:{number:04}" for number in numbers]})
    retired = pl.Series([number % 10 == 0 for number in numbers])
    aliases = pl.DataFrame({"concept": ["T:0001"], "alias": ["T:9999"]})
    return saved(path, concepts.with_columns(retired=retired), terms, aliases=aliases)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return terminology_of(tmp_path_factory.mktemp("concepts") / "t.terminology", list(range(M)))


def test_all_names_of_about_the_fraction_of_live_concepts(several):
    split = hold_out_concepts(several, fraction=0.3, seed=1)
    held = set(split.concept_ids)
    assert 50 <= len(held) <= 110
    assert split.facts["concepts"] == M - M // 10
    assert split.facts["held_out_concepts"] == len(held)
    assert set(split.parts) == {"test"}
    named = set(zip(split.concept_ids, split.strings, strict=True))
    for identifier in held:
        assert not several.retired[several.resolve(identifier)]
        number = int(identifier.removeprefix("T:"))
        # "name-7." cleans to what "Name 7" does.
        for name in (f"Name {number}", f"Wide {number}", f"Nome {number}"):
            assert (identifier, name) in named
    assert len(split) == 4 * len(held)


def test_nothing_of_it_is_left_in_training(several):
    split = hold_out_concepts(several, fraction=0.3, seed=1)
    rows, _ = several.training_terms(exclude=split.cleaned)
    kept = {several.concept_id(row) for row in np.unique(several.term_concept[rows]).tolist()}
    assert not kept & set(split.concept_ids)
    assert kept


def test_the_choice_follows_from_seed_and_id_alone(several, tmp_path):
    split = hold_out_concepts(several, fraction=0.3, seed=1)
    fewer = terminology_of(tmp_path / "fewer.terminology", [*range(1, M, 2), 2])
    held = set(hold_out_concepts(fewer, fraction=0.3, seed=1).concept_ids)
    assert held == set(split.concept_ids) & set(fewer.concept_ids.to_pylist())
    assert set(split.concept_ids) <= set(hold_out_concepts(several, fraction=0.5, seed=1).concept_ids)
    assert split.hash == hold_out_concepts(several, fraction=0.3, seed=1).hash
    assert split.hash != hold_out_concepts(several, fraction=0.3, seed=2).hash


def test_what_others_lose_is_counted(several):
    """For some seed just one of the two concepts with a shared name is held out."""
    losses = set()
    for seed in range(20):
        split = hold_out_concepts(several, fraction=0.5, seed=seed)
        both = {"T:0007", "T:0008"} & set(split.concept_ids)
        assert split.facts["other_concepts_that_lose_a_name"] == (len(both) == 1)
        assert split.facts["other_concepts_left_without_a_name"] == 0
        losses.add(len(both))
    assert losses == {0, 1, 2}


def test_a_concept_that_loses_its_last_name_is_counted(tmp_path):
    terms = pl.DataFrame({"concept": ["T:1", "T:2"], "string": ["Cold"] * 2})
    terminology = saved(tmp_path / "t.terminology", pl.DataFrame({"id": ["T:1", "T:2"]}), terms)
    found = {
        (split.facts["held_out_concepts"], split.facts["other_concepts_left_without_a_name"])
        for split in (hold_out_concepts(terminology, fraction=0.5, seed=seed) for seed in range(30))
    }
    assert found == {(0, 0), (1, 1), (2, 0)}


def test_names_of_some_concepts(several):
    rows = names_of(several, ["T:9999", "T:0003", "T:4321"])
    assert {several.concept_id(row) for row in several.term_concept[rows]} == {"T:0001", "T:0003"}
    assert len(rows) == 10
    assert len(names_of(several, [])) == 0
