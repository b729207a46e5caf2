"""Prototypes and virtual batches: different synonyms first, all from the seed and the number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.training.mentions import sampler as mention_sampler
from alphita_lab.training.mentions.sampler import NONE, MentionSampler, hard_negatives, spread
from alphita_lab.training.terms import mining

# The form of each window, and its concept; concept 3 has one window, concept 4 none.
FORMS = [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 6, 6]
CONCEPTS = [0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 1, 1, 1, 2, 2]


def mentions(forms=FORMS, concepts=CONCEPTS):
    return np.array(forms), np.array(concepts)


def windows_of(concept: int) -> list[int]:
    return [window for window, own in enumerate(CONCEPTS) if own == concept]


def test_prototypes_are_of_different_synonyms_where_there_are_some():
    for seed in range(20):
        sampler = MentionSampler(*mentions(), seed=seed, prototypes_a_concept=3)
        by_concept = {
            concept: sampler.prototypes[sampler.prototype_concepts == concept].tolist() for concept in range(5)
        }
        assert [len(found) for found in by_concept.values()] == [3, 3, 2, 0, 0]
        assert all(set(found) <= set(windows_of(concept)) for concept, found in by_concept.items())
        assert sorted(FORMS[window] for window in by_concept[0]) == [0, 1, 2]
        assert Counter(FORMS[window] for window in by_concept[1]).most_common(1)[0][1] == 2


def test_positives_use_other_synonyms_first():
    sampler = MentionSampler(*mentions(), seed=0, positives=6)
    seen = set()
    for number in range(50):
        batch = sampler[number]
        assert len(batch.prototypes) == 4
        for prototype, concept, found in zip(batch.prototypes, batch.concepts, batch.positives, strict=True):
            others = [window for window in windows_of(concept) if window != prototype]
            assert len(found) == len(set(found.tolist())) == min(6, len(others))
            assert set(found.tolist()) <= set(others)
            same = [FORMS[window] == FORMS[prototype] for window in found]
            assert same == sorted(same)
            different = sum(FORMS[window] != FORMS[prototype] for window in others)
            assert same.count(False) == min(6, different)
            seen.add((int(prototype), tuple(found.tolist())))
    assert len(seen) > 60


def test_prototypes_of_some_steps_are_those_of_their_batches():
    sampler = MentionSampler(*mentions(), seed=4, batch=2)
    for first, end in ((0, 1), (2, 3 * sampler.steps_an_epoch), (1, 3)):
        batches = [sampler[number].prototypes.tolist() for number in range(first, end)]
        assert sampler.drawn(first, end).tolist() == sorted({one for batch in batches for one in batch})


def test_an_epoch_draws_every_prototype_once():
    sampler = MentionSampler(*mentions(), seed=1, batch=2)
    assert (len(sampler.prototypes), sampler.steps_an_epoch) == (8, 4)
    for epoch in range(3):
        drawn = np.concatenate([sampler[4 * epoch + step].prototypes for step in range(4)])
        assert sorted(drawn.tolist()) == sorted(sampler.prototypes.tolist())
    assert sampler[0].prototypes.tolist() != sampler[4].prototypes.tolist()


def test_fewer_prototypes_than_a_step_takes():
    sampler = MentionSampler(*mentions([0, 0], [0, 0]), seed=0, batch=4)
    assert sampler.steps_an_epoch == 1
    assert sorted(sampler[3].prototypes.tolist()) == [0, 1]
    assert [len(found) for found in sampler[3].positives] == [1, 1]


@given(st.lists(st.integers(0, 4), max_size=20), st.integers(0, 100))
def test_every_form_has_its_turn(forms, seed):
    windows = np.arange(len(forms))
    order = spread(windows, np.array(forms, np.int64), np.random.default_rng(seed))
    assert sorted(order.tolist()) == windows.tolist()
    counts: Counter[int] = Counter()
    turns = []
    for window in order.tolist():
        turns.append(counts[forms[window]])
        counts[forms[window]] += 1
    assert turns == sorted(turns)


def by_loops(table: np.ndarray, concepts: np.ndarray, prototype: int, wanted: int) -> list[int]:
    """The rows of other concepts by cosine, in float64; equals by number; NONE where there are no more."""
    unit = [row / np.sqrt(row @ row) for row in table.astype(float)]
    others = [row for row in range(len(table)) if concepts[row] != concepts[prototype]]
    near = sorted(others, key=lambda row: (-float(unit[prototype] @ unit[row]), row))[:wanted]
    return near + [NONE] * (wanted - len(near))


def searched(table, concepts, prototypes, wanted, folder) -> np.ndarray:
    index = hard_negatives(concepts, wanted, folder, exact_up_to=10_000)
    index.refresh(0, np.asarray(prototypes), lambda rows: table[rows].astype(np.float32))
    return index.of(np.asarray(prototypes))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), kinds=st.integers(1, 9), wanted=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_negatives_are_the_nearest_of_other_concepts(tmp_path_factory, n, kinds, wanted, seed) -> None:
    """Of concepts of unlike sizes, one of which may be all there is; in small blocks of rows and of prototypes."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 8)) * rng.uniform(0.1, 50, (n, 1))
    concepts = rng.integers(0, kinds, n) ** 2
    prototypes = rng.permutation(n)[: rng.integers(1, n + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining, "ROWS_AT_ONCE", 7)
        patch.setattr(mention_sampler, "FOUND_AT_ONCE", 60)
        found = searched(table, concepts, prototypes, wanted, tmp_path_factory.mktemp("mined"))
    assert found.dtype == np.int32
    assert found.tolist() == [by_loops(table, concepts, prototype, wanted) for prototype in prototypes.tolist()]


def test_mentions_of_the_own_concept_do_not_crowd_others_out(tmp_path: Path) -> None:
    """All of the forty of a prototype's concept are nearer to it than any other row."""
    rng = np.random.default_rng(0)
    centres = np.eye(8)[[0] * 40 + [1, 2, 3]]
    concepts = np.array([0] * 40 + [1, 2, 3])
    table = centres + 0.01 * rng.normal(size=centres.shape)
    found = searched(table, concepts, [5], 3, tmp_path)
    assert sorted(found[0].tolist()) == [40, 41, 42]
