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
from alphita.terminology.splits import Split, assign, hold_out_concepts, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.training.terms.samplers import usable_triples

N = 400
NOTHING = Split([], [], [])


def saved(
    path: Path, ids: list[str], rows: list, columns: str = "concept string preferred scope", **more
) -> Terminology:
    """Save concepts, their terms (English by default) and further tables of the source T, and open them again."""
    source = pl.lit("T").alias("source")
    terms = pl.DataFrame(rows, schema=columns.split(), orient="row").with_columns(source)
    if "language" not in terms.columns:
        terms = terms.with_columns(language=pl.lit("en"))
    concepts = pl.DataFrame({"id": ids, "retired": more.pop("retired", [False] * len(ids))})
    tables = {name: frame.with_columns(source) for name, frame in more.items()}
    store.save(Tables(concepts.with_columns(source), terms, **tables), path)
    return store.load_terminology(path)


def relations(rows: list[tuple[str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")


def named(ids: list[str]) -> list:
    return [(one, f"name {one}", True, "exact") for one in ids]


@pytest.fixture(scope="module")
def terminology(tmp_path_factory):
    """N concepts of three names; every tenth has one name only, every seventh shares a synonym with its neighbour."""
    rows = []
    for number in range(N):
        concept, shared = f"T:{number:04}", number - number % 7 if number % 7 < 2 else number
        rows.append((concept, f"Name {number}", True, "exact"))
        if number % 10:
            names = ((f"Synonym-{shared}", "exact"), (f"Other {number}", "exact"), (f"broad {number}", "broad"))
            rows += [(concept, string, False, scope) for string, scope in names]
    return saved(tmp_path_factory.mktemp("split") / "t.terminology", [f"T:{n:04}" for n in range(N)], rows)


def test_one_synonym_of_about_the_fraction_of_concepts_which_is_not_left_in_training(terminology):
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    assert len(split) == len(split.strings) == len(split.concept_ids) == len(set(split.concept_ids))
    assert split.facts["concepts_with_several"] == 360
    dropped = split.facts["dropped_as_equal_to_a_kept_term"]
    assert dropped > 0
    assert 80 <= len(split) + dropped <= 140
    assert set(split.parts) == {"test"}
    for string, identifier in zip(split.strings, split.concept_ids, strict=True):
        (term,) = [term for term in terminology.concept(identifier).terms if term.string == string]
        assert (term.scope, term.preferred) == ("exact", False)
        assert len(terminology.search(string)) == 1
    before, (rows, _) = terminology.training_terms()[0], terminology.training_terms(exclude=split.cleaned)
    assert not set(clean_many(terminology.terms["string"].take(rows).to_pylist())) & split.cleaned
    assert len(before) - len(rows) == len(split)


@pytest.mark.parametrize("hold_out", [hold_out_synonyms, hold_out_concepts, partial(splits.with_triples, NOTHING)])
def test_the_seed_and_the_fraction_decide_and_nothing_else(terminology, tmp_path, hold_out):
    graph = random_graph(tmp_path / "g.terminology", 0)
    of = graph if isinstance(hold_out, partial) else terminology
    one, again, other = (hold_out(of, fraction=0.3, seed=seed) for seed in (5, 5, 6))
    assert one == again
    assert one.hash == again.hash != other.hash
    assert hold_out(of, fraction=0.0, seed=5).hash == NOTHING.hash
    # A larger fraction only adds.
    assert isinstance(hold_out, partial) or set(one.strings) < set(hold_out(of, fraction=0.6, seed=5).strings)
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 1"):
            hold_out(of, fraction=fraction, seed=1)


def test_assign_and_parts(terminology):
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
    # A calibration part leaves the test part as it is.
    plain = hold_out_synonyms(terminology, fraction=0.3, seed=4)
    both = hold_out_synonyms(terminology, fraction=0.3, calibration=0.4, seed=4)
    assert both.part("test").strings == plain.strings
    assert both.part("calibration")
    assert not set(both.part("calibration").concept_ids) & set(plain.concept_ids)
    with pytest.raises(UsageError, match=r"1\.1"):
        hold_out_synonyms(terminology, fraction=0.7, calibration=0.4, seed=4)


# --- held-out triples ------------------------------------------------------------------------------------------------


def random_graph(folder: Path, seed: int, *, renumbered: bool = False) -> Terminology:
    """A random graph of three relations, of which one has a single triple.

    Renumbered it has the same triples in another order, after concepts and a relation that come before all others.
    """
    rng, ids = np.random.default_rng(seed), [f"T:{number:04}" for number in range(60)]
    rows = [(ids[a], f"r{c}", ids[b]) for a, b, c in rng.integers(0, [60, 60, 2], (200, 3)).tolist()]
    rows = sorted({*rows, (ids[0], "only", ids[1]), (ids[2], "r0", ids[3]), (ids[3], "r1", ids[2])})
    if renumbered:
        ids = ["A:1", "A:2", *ids[::-1]]
        rows = [("A:1", "a", "A:2"), *(rows[row] for row in rng.permutation(len(rows)))]
    return saved(folder, ids, named(ids), relations=relations(rows))


@pytest.mark.parametrize("seed", range(4))
def test_held_out_triples_leave_every_concept_and_relation_one(tmp_path, seed):
    terminology = random_graph(tmp_path / "g.terminology", seed)
    split = splits.with_triples(NOTHING, terminology, fraction=0.3, seed=seed)
    assert 20 < split.facts["triples_held_out"] == len(split.triples) < 110
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
    offsets, out = terminology.training_terms()[1], split.triple_pairs(terminology)
    trained = usable_triples(terminology.triples, offsets, len(labels), inverse=True, held_out=out)
    assert not {frozenset((ids[h], ids[t])) for h, _, t in trained.tolist()} & pairs
    assert len(trained) == 2 * len(left)
    # The choice does not depend on rows.
    renumbered = random_graph(tmp_path / "r.terminology", seed, renumbered=True)
    assert renumbered.concept_ids[0] != terminology.concept_ids[0]
    assert splits.with_triples(NOTHING, renumbered, fraction=0.3, seed=seed).triples == split.triples


def test_triples_of_retired_or_unnamed_concepts_are_not_held_out(tmp_path):
    ids = [f"T:{number}" for number in range(8)]
    rows = [(a, "r", b) for a in ids for b in ids if a != b]
    retired = [identifier == "T:7" for identifier in ids]
    terminology = saved(tmp_path / "x", ids, named(ids[2:]), relations=relations(rows), retired=retired)
    split = splits.with_triples(NOTHING, terminology, fraction=1.0, seed=1)
    assert {end for head, _, tail in split.triples for end in (head, tail)} == set(ids[2:7])
    # Ten pairs of five concepts; what stays leaves each concept a triple.
    left = {frozenset(row[::2]) for row in rows} - {frozenset((head, tail)) for head, _, tail in split.triples}
    assert set(ids[2:7]) <= {end for pair in left if not pair & {"T:0", "T:1", "T:7"} for end in pair}
    kept = split.facts["pairs_kept_for_a_concept_or_relation_needs_them"]
    assert split.facts["pairs_held_out"] == len(split.triples) / 2 == 10 - kept


def test_merged_concepts_are_met_by_their_old_ids(tmp_path):
    split = splits.with_triples(NOTHING, random_graph(tmp_path / "old", 0), fraction=0.2, seed=1)
    head, _, tail = split.triples[0]
    ids = ["N:1", "N:2", "N:3"]
    aliases = pl.DataFrame({"concept": ["N:2", "N:1"], "alias": [head, tail]})
    # Turned round and under another name in the new terminology: still the held-out pair.
    rows = relations([("N:1", "new", "N:2"), ("N:2", "new", "N:1"), ("N:1", "new", "N:3")])
    new = saved(tmp_path / "new", ids, named(ids), aliases=aliases, relations=rows)
    first, second, third = map(new.resolve, ids)
    pairs = split.triple_pairs(new)
    # One row a triple that is there; the others can be counted.
    there = [triple for triple in split.triples if {triple[0], triple[2]} == {head, tail}]
    assert pairs.tolist()[0] == [second, first] == [new.resolve(head), new.resolve(tail)]
    assert len(pairs) == len(there) < len(split.triples)
    trained = usable_triples(new.triples, new.training_terms()[1], 1, inverse=True, held_out=pairs)
    assert sorted(map(tuple, trained.tolist())) == [(first, 0, third), (third, 1, first)]
    with pytest.raises(InputError, match="no held-out triple of this split"):
        Split([], [], [], triples=[("X:1", "r", "X:2")]).triple_pairs(new)


# --- saved -----------------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    terminology = random_graph(tmp_path / "g.terminology", 0)
    path = tmp_path / "s.split"
    alone = splits.with_triples(NOTHING, terminology, fraction=0.2, seed=1)
    assert (bool(alone), len(alone)) == (True, 0)
    strings = hold_out_concepts(terminology, fraction=0.3, seed=1)
    split = splits.with_triples(strings, terminology, fraction=0.2, seed=1)
    assert split.triples == alone.triples == split.part("test").triples
    split.save(path)
    loaded = Split.load(path)
    assert loaded == split
    assert loaded.hash == split.hash not in (NOTHING.hash, strings.hash)
    assert loaded.cleaned == split.cleaned == {clean(string) for string in split.strings}
    assert loaded.facts["terminology_hash"] == terminology.content_hash
    assert artefact.verify(path, "split")["held_out"] == len(split)
    with pytest.raises(UsageError, match="already exists"):
        split.save(path)
    split.save(path, force=True)
    for name, old, new in ((splits.FILE, "name", "NAME"), (splits.TRIPLES_FILE, "r0", "r1")):
        content = (path / name).read_text()
        (path / name).write_text(content.replace(old, new, 1))
        with pytest.raises(InputError, match="strings or triples are not those that were saved"):
            Split.load(path)
        (path / name).write_text("[" + content[1:-3] + "  ")
        with pytest.raises(InputError, match=r"damaged split|bytes"):
            Split.load(path)
        (path / name).write_text(content)
    with pytest.raises(InputError, match="no such split"):
        Split.load(tmp_path / "none.split")


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
    old, new = ({path.name for path in (tmp_path / f"{name}.split").iterdir()} for name in ("old", "new"))
    assert new == old
    assert Split.load(tmp_path / "new.split").hash == hashed


# --- whole concepts --------------------------------------------------------------------------------------------------

M = 300


def several(path: Path, numbers: list[int]) -> Terminology:
    """Concepts of names in two languages and of every scope and status; each tenth is retired, 7 and 8 share a name."""
    rows = [
        (f"T:{number:04}", string, language, scope, status)
        for number in numbers
        for string, language, scope, status in (
            (f"Name {number}", "en", "exact", "official"),
            (f"name-{number}.", "en", "exact", "official"),
            (f"Wide {number}", "en", "broad", "official"),
            (f"Nome {number}", "it", "exact", "machine"),
            ("Shared" if number in (7, 8) else f"Other {number}", "en", "exact", "official"),
        )
    ]
    ids, retired = [f"T:{number:04}" for number in numbers], [number % 10 == 0 for number in numbers]
    return saved(path, ids, rows, "concept string language scope status", retired=retired)


def test_all_names_of_about_the_fraction_of_live_concepts_and_nothing_of_it_is_left_in_training(tmp_path):
    terminology = several(tmp_path / "t.terminology", list(range(M)))
    split = hold_out_concepts(terminology, fraction=0.3, seed=1)
    held = set(split.concept_ids)
    assert 50 <= len(held) == split.facts["held_out_concepts"] <= 110
    assert split.facts["concepts"] == M - M // 10
    assert set(split.parts) == {"test"}
    pairs = set(zip(split.concept_ids, split.strings, strict=True))
    for identifier in held:
        assert not terminology.retired[terminology.resolve(identifier)]
        number = int(identifier.removeprefix("T:"))
        # "name-7." cleans to what "Name 7" does.
        assert {(identifier, f"{name} {number}") for name in ("Name", "Wide", "Nome")} <= pairs
    assert len(split) == 4 * len(held)
    rows, _ = terminology.training_terms(exclude=split.cleaned)
    kept = {terminology.concept_id(row) for row in np.unique(terminology.term_concept[rows]).tolist()}
    assert kept
    assert not kept & held
    # The choice follows from seed and id alone.
    fewer = several(tmp_path / "fewer.terminology", [*range(1, M, 2), 2])
    assert set(hold_out_concepts(fewer, fraction=0.3, seed=1).concept_ids) == held & set(fewer.concept_ids.to_pylist())
    # For some seed just one of the two concepts with a shared name is held out.
    losses = set()
    for seed in range(20):
        split = hold_out_concepts(terminology, fraction=0.5, seed=seed)
        both = {"T:0007", "T:0008"} & set(split.concept_ids)
        assert split.facts["other_concepts_that_lose_a_name"] == (len(both) == 1)
        assert split.facts["other_concepts_left_without_a_name"] == 0
        losses.add(len(both))
    assert losses == {0, 1, 2}


def test_a_concept_that_loses_its_last_name_is_counted(tmp_path):
    terminology = saved(tmp_path / "t", ["T:1", "T:2"], [(one, "Cold", True, "exact") for one in ("T:1", "T:2")])
    facts = (hold_out_concepts(terminology, fraction=0.5, seed=seed).facts for seed in range(30))
    lost = {(told["held_out_concepts"], told["other_concepts_left_without_a_name"]) for told in facts}
    assert lost == {(0, 0), (1, 1), (2, 0)}
    assert splits.names_of(terminology, ["T:2", "T:4321"]).tolist() == [1]
