from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.terms.samplers import PairSampler

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
