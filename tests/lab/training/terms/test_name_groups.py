from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.terms.samplers import NameGroupBatch, NameGroupSampler, usable_triples

ARRAYS = tuple(NameGroupBatch.__dataclass_fields__)


def graph(seed: int, n_concepts: int = 30, n_triples: int = 60, most: int = 12) -> tuple[np.ndarray, np.ndarray]:
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
    triples, offsets = graph(seed)
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
