from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.terms.samplers import (
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
