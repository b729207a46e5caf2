from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita.terminology import splits, store
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, assign, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.training.terms.samplers import usable_triples

N = 400


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
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
    terms = terms.with_columns(language=pl.lit("en"), source=pl.lit("T"))
    concepts = pl.DataFrame({"id": [f"T:{n:04}" for n in range(N)]}).with_columns(source=pl.lit("T"))
    path = tmp_path_factory.mktemp("split") / "t.terminology"
    store.save(Tables(concepts, terms), path)
    return store.load_terminology(path)


def test_one_synonym_of_about_the_fraction_of_concepts(terminology: Terminology) -> None:
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


def test_no_held_out_string_is_left_in_training(terminology: Terminology) -> None:
    split = hold_out_synonyms(terminology, fraction=0.5, seed=2)
    rows, _ = terminology.training_terms(exclude=split.cleaned)
    kept = set(clean_many(terminology.terms["string"].take(rows).to_pylist()))
    assert not kept & split.cleaned
    before, _ = terminology.training_terms()
    assert len(before) - len(rows) == len(split)
    for string in split.strings:
        assert len(terminology.search(string)) == 1


def test_the_seed_decides_and_nothing_else(terminology: Terminology) -> None:
    one, again = (hold_out_synonyms(terminology, fraction=0.3, seed=5) for _ in range(2))
    assert one == again
    assert one.hash == again.hash
    other = hold_out_synonyms(terminology, fraction=0.3, seed=6)
    assert other.hash != one.hash
    # A larger fraction only adds.
    assert set(one.strings) < set(hold_out_synonyms(terminology, fraction=0.6, seed=5).strings)


def test_fractions_at_the_ends(terminology: Terminology) -> None:
    assert len(hold_out_synonyms(terminology, fraction=0.0, seed=1)) == 0
    assert len(set(hold_out_synonyms(terminology, fraction=1.0, seed=1).concept_ids)) > 300
    for fraction in (-0.1, 1.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            hold_out_synonyms(terminology, fraction=fraction, seed=1)


def test_assign(terminology: Terminology) -> None:
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


def test_save_and_load(terminology: Terminology, tmp_path: Path) -> None:
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


def test_a_changed_split_is_noticed(terminology: Terminology, tmp_path: Path) -> None:
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

    Args:
        folder: where it is written.
        seed: of the graph.
        renumbered: the same triples in another order, after concepts and a relation that come before all others.
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
    terms = pl.DataFrame({"concept": ids, "string": [f"name {one}" for one in ids]})
    tables = Tables(
        pl.DataFrame({"id": ids}).with_columns(source=pl.lit("T")),
        terms.with_columns(language=pl.lit("en"), source=pl.lit("T"), preferred=pl.lit(True)),
        relations=relations.with_columns(source=pl.lit("T")),
    )
    store.save(tables, folder)
    return store.load_terminology(folder)


NOTHING = Split([], [], [])


@pytest.mark.parametrize("seed", range(4))
def test_held_out_triples_leave_every_concept_and_relation_one(tmp_path: Path, seed: int) -> None:
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


def test_the_choice_of_triples_follows_from_seed_and_ids(tmp_path: Path) -> None:
    terminology = graph(tmp_path / "g.terminology", 0)
    first, again, other = (
        splits.with_triples(NOTHING, terminology, fraction=0.2, seed=seed).triples for seed in (1, 1, 2)
    )
    assert first == again != other
    assert splits.with_triples(NOTHING, terminology, fraction=0.0, seed=1).triples == []
    with pytest.raises(UsageError, match="between 0 and 1"):
        splits.with_triples(NOTHING, terminology, fraction=1.5, seed=1)


def test_the_choice_of_triples_does_not_depend_on_rows(tmp_path: Path) -> None:
    one, other = (graph(tmp_path / f"{again}.terminology", 0, renumbered=again) for again in (False, True))
    assert one.concept_ids[0] != other.concept_ids[0]
    splits_ = [splits.with_triples(NOTHING, terminology, fraction=0.3, seed=1) for terminology in (one, other)]
    assert splits_[0].triples
    assert splits_[0].triples == splits_[1].triples
    assert splits_[0].hash == splits_[1].hash


def test_triples_of_retired_or_unnamed_concepts_are_not_held_out(tmp_path: Path) -> None:
    ids = [f"T:{number}" for number in range(8)]
    rows = [(a, "r", b) for a in ids for b in ids if a != b]
    terms = pl.DataFrame({"concept": ids[2:], "string": [f"name {one}" for one in ids[2:]]})
    tables = Tables(
        pl.DataFrame({"id": ids, "retired": [one == "T:7" for one in ids]}).with_columns(source=pl.lit("T")),
        terms.with_columns(language=pl.lit("en"), source=pl.lit("T"), preferred=pl.lit(True)),
        relations=pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").with_columns(
            source=pl.lit("T")
        ),
    )
    store.save(tables, tmp_path / "x.terminology")
    split = splits.with_triples(NOTHING, store.load_terminology(tmp_path / "x.terminology"), fraction=1.0, seed=1)
    assert {end for head, _, tail in split.triples for end in (head, tail)} == set(ids[2:7])
    # Ten pairs of five concepts; what stays leaves each concept a triple.
    left = {frozenset(row[::2]) for row in rows} - {frozenset((head, tail)) for head, _, tail in split.triples}
    assert set(ids[2:7]) <= {end for pair in left if not pair & {"T:0", "T:1", "T:7"} for end in pair}
    kept = split.facts["pairs_kept_for_a_concept_or_relation_needs_them"]
    assert split.facts["pairs_held_out"] == len(split.triples) / 2 == 10 - kept


def test_triples_are_saved_with_the_strings(tmp_path: Path) -> None:
    terminology = graph(tmp_path / "g.terminology", 0)
    split = splits.with_triples(hold_out_synonyms(terminology, seed=1), terminology, fraction=0.2, seed=1)
    split.save(tmp_path / "x.split")
    loaded = Split.load(tmp_path / "x.split")
    assert loaded.triples == split.triples
    assert loaded.hash == split.hash != NOTHING.hash
    assert loaded.part("test").triples == split.triples
    file = tmp_path / "x.split" / "held_out_triples.json"
    file.write_text(file.read_text().replace("r0", "r1", 1))
    with pytest.raises(InputError, match="strings or triples"):
        Split.load(tmp_path / "x.split")


def test_a_split_that_holds_out_triples_alone_is_one_all_the_same(tmp_path: Path) -> None:
    split = splits.with_triples(NOTHING, graph(tmp_path / "g.terminology", 0), fraction=0.2, seed=1)
    assert len(split) == 0
    assert split.triples
    assert split


def test_a_split_without_triples_has_the_hash_it_always_had() -> None:
    split = Split(["a", "b"], ["T:1", "T:2"], ["test", "calibration"])
    assert split.hash == artefact.hash_json([["a", "b"], ["T:1", "T:2"], ["test", "calibration"]])


def test_a_split_saved_before_there_were_triples_still_loads(tmp_path: Path) -> None:
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


def test_merged_concepts_are_met_by_their_old_ids(tmp_path: Path) -> None:
    old = graph(tmp_path / "old.terminology", 0)
    split = splits.with_triples(NOTHING, old, fraction=0.2, seed=1)
    head, _, tail = split.triples[0]
    concepts = pl.DataFrame({"id": ["N:1", "N:2", "N:3"]}).with_columns(source=pl.lit("N"))
    terms = pl.DataFrame({"concept": ["N:1", "N:2", "N:3"], "string": ["one", "two", "three"]})
    aliases = pl.DataFrame({"concept": ["N:2", "N:1"], "alias": [head, tail]}).with_columns(source=pl.lit("N"))
    # Turned round and under another name in the new terminology: still the held-out pair.
    rows = [("N:1", "new", "N:2"), ("N:2", "new", "N:1"), ("N:1", "new", "N:3")]
    relations = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")
    tables = Tables(
        concepts,
        terms.with_columns(language=pl.lit("en"), source=pl.lit("N")),
        aliases=aliases,
        relations=relations.with_columns(source=pl.lit("N")),
    )
    store.save(tables, tmp_path / "new.terminology")
    new = store.load_terminology(tmp_path / "new.terminology")
    row = {identifier: place for place, identifier in enumerate(new.concept_ids.to_pylist())}
    pairs = split.triple_pairs(new)
    assert pairs.tolist()[0] == [row["N:2"], row["N:1"]]
    # One row a triple that is there; the others can be counted.
    there = [one for one in split.triples if {one[0], one[2]} == {head, tail}]
    assert len(pairs) == len(there) < len(split.triples)
    assert pairs[0].tolist() == [new.resolve(head), new.resolve(tail)]
    _, offsets = new.training_terms()
    trained = usable_triples(new.triples, offsets, 1, inverse=True, held_out=pairs)
    assert sorted(map(tuple, trained.tolist())) == [(row["N:1"], 0, row["N:3"]), (row["N:3"], 1, row["N:1"])]
    other = Split([], [], [], triples=[("X:1", "r", "X:2")])
    with pytest.raises(InputError, match="no held-out triple of this split"):
        other.triple_pairs(new)


def test_a_calibration_part_leaves_the_test_part_as_it_is(terminology: Terminology) -> None:
    plain = hold_out_synonyms(terminology, fraction=0.3, seed=4)
    both = hold_out_synonyms(terminology, fraction=0.3, calibration=0.4, seed=4)
    assert both.part("test").strings == plain.strings
    calibration = both.part("calibration")
    assert len(calibration)
    assert not set(calibration.concept_ids) & set(plain.concept_ids)
    with pytest.raises(UsageError, match=r"1\.1"):
        hold_out_synonyms(terminology, fraction=0.7, calibration=0.4, seed=4)
