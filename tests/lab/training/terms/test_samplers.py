from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.training.terms.samplers import (
    NameGroupBatch,
    NameGroupSampler,
    PairSampler,
    SemanticTypes,
    TripleSampler,
    between_pairs,
    draw_names,
    relation_labels,
    usable_triples,
)


def graph(seed: int, n_concepts: int = 20, n_triples: int = 40):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, n_concepts)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    triples = np.stack(
        [rng.integers(0, n_concepts, n_triples), rng.integers(0, 3, n_triples), rng.integers(0, n_concepts, n_triples)],
        1,
    ).astype(np.int32)
    return usable_triples(triples, offsets, 3, inverse=True), offsets


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), m=st.sampled_from([1, 2, 4, 8]), number=st.integers(0, 200))
def test_batch_holds_each_triple_m_times_with_names_of_its_own_concepts(seed: int, m: int, number: int) -> None:
    triples, offsets = graph(seed)
    batch = TripleSampler(triples, offsets, k=16, m=m, seed=seed).batch(number)
    known = {tuple(triple) for triple in triples.tolist()}
    stands = Counter(zip(batch.head.tolist(), batch.relation.tolist(), batch.tail.tolist(), strict=True))
    assert set(stands) <= known
    assert sum(stands.values()) == 16
    assert all(count % m == 0 for count in stands.values())
    for concepts, terms in ((batch.head, batch.head_term), (batch.tail, batch.tail_term)):
        for start in range(0, 16, m):
            concept = concepts[start]
            own = set(range(offsets[concept], offsets[concept + 1]))
            shown = Counter(terms[start : start + m].tolist())
            assert set(shown) <= own
            # Different names where they exist; else every name before any again.
            assert len(shown) == min(m, len(own))
            assert max(shown.values()) - min(shown.values()) <= 1


def test_usable_triples_drops_loops_repeats_and_unnamed_ends() -> None:
    offsets = np.array([0, 1, 1, 3, 4], np.int64)  # concept 1 has no name
    triples = np.array([[0, 0, 2], [0, 0, 2], [2, 1, 2], [0, 0, 1], [3, 1, 0]], np.int32)
    kept = usable_triples(triples, offsets, 2, inverse=False)
    assert kept.tolist() == [[0, 0, 2], [3, 1, 0]]
    both = usable_triples(triples, offsets, 2, inverse=True)
    assert both.tolist() == [[0, 0, 2], [3, 1, 0], [2, 2, 0], [0, 3, 3]]
    assert usable_triples(triples, offsets, 2, inverse=True, least_head_names=2).tolist() == [[2, 2, 0]]
    assert relation_labels(["is_a", "part_of"], inverse=True)[both[2, 1]] == "inverse of is_a"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), inverse=st.booleans())
def test_no_triple_between_a_held_out_pair_is_left(seed: int, inverse: bool) -> None:
    rng = np.random.default_rng(seed)
    triples = np.stack([rng.integers(0, 8, 40), rng.integers(0, 3, 40), rng.integers(0, 8, 40)], 1).astype(np.int32)
    offsets = np.arange(9, dtype=np.int64)
    held_out = rng.integers(0, 8, (5, 2)).astype(np.int32)
    kept = usable_triples(triples, offsets, 3, inverse=inverse, held_out=held_out)
    pairs = {frozenset(pair) for pair in held_out.tolist()}
    expected = {
        (head, relation, tail)
        for head, relation, tail in triples.tolist()
        if head != tail and frozenset((head, tail)) not in pairs
    }
    if inverse:
        expected |= {(tail, relation + 3, head) for head, relation, tail in expected}
    assert {tuple(row) for row in kept.tolist()} == expected
    none = np.empty((0, 2), np.int32)
    whole = usable_triples(triples, offsets, 3, inverse=inverse)
    assert np.array_equal(usable_triples(triples, offsets, 3, inverse=inverse, held_out=none), whole)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_between_pairs_equals_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Numbers near the largest that int32 holds, of which a product of two would not fit.
    concepts = np.iinfo(np.int32).max - rng.integers(0, 6, 60).astype(np.int32)
    triples = np.stack([concepts[:40], rng.integers(0, 3, 40).astype(np.int32), concepts[20:]], 1)
    pairs = rng.choice(concepts, (int(rng.integers(0, 5)), 2))
    expected = [any({h, t} == {a, b} for a, b in pairs.tolist()) for h, _, t in triples.tolist()]
    assert between_pairs(triples, pairs).tolist() == expected
    assert np.array_equal(between_pairs(triples[:, ::-1], pairs[:, ::-1]), between_pairs(triples, pairs))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 10_000))
def test_a_name_comes_as_often_as_its_weight_says_give_or_take_one(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 7, 8)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    weights = rng.choice([1e-300, 0.5, 1.0, 3.0, 1e300], offsets[-1])
    concepts = rng.integers(0, 8, data.draw(st.integers(1, 12))).astype(np.int32)
    wanted = rng.integers(1, 20, len(concepts))
    drawn = draw_names(offsets, concepts, wanted, weights, rng)
    assert len(drawn) == wanted.sum()
    for concept, n, own in zip(concepts, wanted, np.split(drawn, np.cumsum(wanted)[:-1]), strict=True):
        start, stop = offsets[concept], offsets[concept + 1]
        assert ((own >= start) & (own < stop)).all()
        share = n * weights[start:stop] / weights[start:stop].sum()
        assert (np.abs(np.bincount(own - start, minlength=stop - start) - share) < 1 + 1e-9).all()


def test_names_of_ends_are_paired_by_chance_whatever_their_weights() -> None:
    """Else a head's heavier names would always stand with the same names of the tail."""
    triples, offsets = np.array([[0, 0, 1]], np.int32), np.array([0, 2, 4], np.int64)
    sampler = TripleSampler(triples, offsets, k=8, m=8, seed=0, weights=np.array([1.0, 3.0, 1.0, 3.0]))
    pairs = np.zeros((2, 2))
    for number in range(500):
        batch = sampler.batch(number)
        np.add.at(pairs, (batch.head_term, batch.tail_term - 2), 1 / (500 * 8))
    np.testing.assert_allclose(pairs, np.outer([0.25, 0.75], [0.25, 0.75]), atol=0.02)


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(InputError, match="nothing to train on"):
        TripleSampler(np.empty((0, 3), np.int32), np.array([0, 2]), k=4, m=2, seed=0)


ARRAYS = tuple(NameGroupBatch.__dataclass_fields__)


def named_graph(seed: int, n_concepts: int = 30, n_triples: int = 60, most: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Triples of three relations, and 0 to `most` - 1 names a concept."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, most, n_concepts))]).astype(np.int64)
    ends = rng.integers(0, n_concepts, (n_triples, 2))
    triples = np.stack([ends[:, 0], rng.integers(0, 3, n_triples), ends[:, 1]], 1).astype(np.int32)
    return usable_triples(triples, offsets, 3, inverse=True), offsets


def groups(batch: NameGroupBatch, shown: dict[tuple[int, ...], int]) -> list[tuple[tuple[int, ...], slice]]:
    """The triples drawn, one after the other, and their rows: a triple drawn twice in a row makes two groups."""
    found, start = [], 0
    while start < len(batch.head):
        triple = (int(batch.head[start]), int(batch.relation[start]), int(batch.tail[start]))
        stop = min(start + shown[triple], len(batch.head))  # the last one may be cut
        found.append((triple, slice(start, stop)))
        start = stop
    return found


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    number=st.integers(0, 200),
    most=st.sampled_from([2, 3, 8]),
    rows=st.sampled_from([24, 50, 256]),
)
def test_each_triple_shows_as_many_names_as_both_ends_have(seed: int, number: int, most: int, rows: int) -> None:
    triples, offsets = named_graph(seed)
    counts = np.diff(offsets)
    batch = NameGroupSampler(triples, offsets, rows=rows, most=most, seed=seed).batch(number)
    k = len(batch.head)
    assert all(len(getattr(batch, name)) == k for name in ARRAYS)
    shown = {(h, r, t): min(counts[h], counts[t], most) for h, r, t in triples.tolist()}
    found = groups(batch, shown)
    assert found[-1][1].stop == k == rows // 3
    for (head, relation, tail), place in found:
        assert set(zip(batch.head[place], batch.relation[place], batch.tail[place], strict=True)) == {
            (head, relation, tail)
        }
        for concept, terms in ((head, batch.head_term[place]), (tail, batch.tail_term[place])):
            assert len(set(terms.tolist())) == len(terms)
            assert (offsets[concept] <= terms).all()
            assert (terms < offsets[concept + 1]).all()
    assert (offsets[batch.corrupted] <= batch.corrupted_term).all()
    assert (batch.corrupted_term < offsets[batch.corrupted + 1]).all()


def test_corrupted_tails_are_drawn_uniformly_from_the_named_concepts() -> None:
    # Concept 3 has no name; 5 to 9 stand in no triple and come as often as the others.
    counts = np.array([3, 2, 1, 0, 2, 1, 1, 4, 1, 1])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    triples = np.array([[0, 0, 1], [1, 1, 4], [4, 0, 0]], np.int32)
    sampler = NameGroupSampler(triples, offsets, rows=300, most=8, seed=1)
    concepts: Counter[int] = Counter()
    terms: Counter[int] = Counter()
    for number in range(40):
        batch = sampler.batch(number)
        assert (batch.corrupted != batch.tail).all()
        for row in np.flatnonzero(batch.tail == 1):
            concepts[int(batch.corrupted[row])] += 1
            if batch.corrupted[row] == 7:
                terms[int(batch.corrupted_term[row])] += 1
    assert set(concepts) == {0, 2, 4, 5, 6, 7, 8, 9}
    mean = sum(concepts.values()) / 8
    assert mean > 100
    assert all(abs(count - mean) < 5 * mean**0.5 for count in concepts.values())
    assert set(terms) == set(range(offsets[7], offsets[8]))


def test_what_cannot_train_is_an_error_with_a_remedy() -> None:
    several = np.array([0, 2, 4], np.int64)
    with pytest.raises(InputError, match="no relation between two named") as error:
        NameGroupSampler(np.empty((0, 3), np.int32), several, rows=24, most=8, seed=0)
    assert error.value.remedy
    with pytest.raises(InputError, match="no positive pair") as error:
        NameGroupSampler(np.array([[0, 0, 1]], np.int32), np.array([0, 5, 6]), rows=24, most=8, seed=0)
    assert error.value.remedy


COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(lambda counts: max(counts) > 1)


def offsets_of(counts: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def epoch(sampler: PairSampler, number: int = 0) -> list[tuple[int, int, int]]:
    """The pairs of one epoch, one a batch."""
    drawn = [sampler.batch(number * sampler.pairs + place) for place in range(sampler.pairs)]
    return [(int(concept[0]), int(first[0]), int(second[0])) for concept, first, second in drawn]


@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, most=st.integers(1, 40), seed=st.integers(0, 1000))
def test_an_epoch_shows_every_pair_once_or_so_many_of_a_concept(counts: list[int], most: int, seed: int) -> None:
    offsets = offsets_of(counts)
    sampler = PairSampler(offsets, pairs=1, most=most, seed=seed)
    drawn = epoch(sampler)
    assert len(set(drawn)) == len(drawn) == sampler.pairs
    own = {
        concept: set(itertools.combinations(range(offsets[concept], offsets[concept + 1]), 2))
        for concept in range(len(counts))
    }
    for concept, pairs in own.items():
        shown = {(first, second) for of, first, second in drawn if of == concept}
        assert shown <= pairs
        assert len(shown) == min(len(pairs), most)
    # The same choice in the next epoch, in another order.
    again = epoch(sampler, 1)
    assert set(again) == set(drawn)
    assert again != drawn or len(drawn) < 12


@settings(max_examples=40, deadline=None)
@given(counts=COUNTS, pairs=st.integers(1, 30), seed=st.integers(0, 1000))
def test_batches_are_the_epochs_end_to_end_and_follow_from_their_number(
    counts: list[int], pairs: int, seed: int
) -> None:
    offsets = offsets_of(counts)
    sampler, one = (PairSampler(offsets, pairs=size, most=5, seed=seed) for size in (pairs, 1))
    expected = [entry for number in range(3) for entry in epoch(one, number)]
    whole = 3 * sampler.pairs // pairs
    drawn = [entry for number in range(whole) for entry in zip(*sampler.batch(number), strict=True)]
    assert drawn == expected[: len(drawn)]
    # In any order of asking, and by another sampler.
    other = PairSampler(offsets, pairs=pairs, most=5, seed=seed)
    for number in (17, 3, 0):
        for a, b in zip(other.batch(number), sampler.batch(number), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_choice_of_a_large_concept_is_uniform() -> None:
    """Each of the 45 pairs of ten names is among the 9 chosen in a fifth of the runs."""
    chosen: Counter[tuple[int, int, int]] = Counter()
    runs = 600
    for seed in range(runs):
        chosen.update(epoch(PairSampler(np.array([0, 10]), pairs=1, most=9, seed=seed)))
    assert len(chosen) == 45
    mean, spread = runs / 5, (runs * 0.2 * 0.8) ** 0.5
    assert all(abs(count - mean) < 4.5 * spread for count in chosen.values())


@pytest.mark.parametrize("counts", [[1, 1, 1], [0], [0, 1]])
def test_a_terminology_without_synonyms_is_an_error_with_a_remedy(counts: list[int]) -> None:
    with pytest.raises(InputError, match="no concept has two names") as error:
        PairSampler(offsets_of(counts), pairs=2, most=50, seed=0)
    assert error.value.remedy


TYPED = [(0, "Sign"), (0, "Disease"), (2, "Sign"), (2, "Sign"), (5, "Plant"), (3, "Disease")]


def made(folder: Path, typed: list[tuple[int, str]]) -> Terminology:
    """Six concepts; a type named by two sources stands twice."""
    ids = [f"T:{row}" for row in range(6)]
    concepts = pl.DataFrame({"id": ids, "source": "T"})
    terms = pl.DataFrame({"concept": ids, "string": list("abcdef"), "language": "en", "preferred": True, "source": "T"})
    types = pl.DataFrame(
        [(ids[concept], name, f"source {place}") for place, (concept, name) in enumerate(typed)],
        schema={"concept": pl.String, "semantic_type": pl.String, "source": pl.String},
        orient="row",
    )
    save(Tables(concepts=concepts, terms=terms, semantic_types=types), folder)
    return load_terminology(folder)


@pytest.fixture(scope="module")
def types(tmp_path_factory) -> SemanticTypes:
    return SemanticTypes(made(tmp_path_factory.mktemp("data") / "typed", TYPED))


@settings(deadline=None)
@given(concepts=st.lists(st.integers(0, 5), max_size=12))
def test_rows_hold_the_types_of_their_concepts(types: SemanticTypes, concepts: list[int]) -> None:
    assert types.names == ["Disease", "Plant", "Sign"]
    matrix = types.matrix(np.array(concepts, np.int32))
    assert matrix.dtype == bool
    assert matrix.shape == (len(concepts), 3)
    for concept, row in zip(concepts, matrix, strict=True):
        assert {name for name, has in zip(types.names, row, strict=True) if has} == {
            name for holder, name in TYPED if holder == concept
        }


def test_a_terminology_without_types_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no concept has a semantic type") as error:
        SemanticTypes(made(tmp_path / "untyped", []))
    assert error.value.remedy
