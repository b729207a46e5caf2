from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.training.text.masked_language import NOT_MASKED, Masking, mask_by_span, mask_by_token

CLS, SEP, PAD, MASK = 2, 3, 0, 4
MASKING = Masking(mask_id=MASK, special_ids=(PAD, CLS, SEP), vocabulary=60)
WAYS = [mask_by_token, mask_by_span]


def sequence(length: int, padding: int = 0) -> np.ndarray:
    """One row: [CLS], ids from 5 on, [SEP] and padding."""
    return np.array([[CLS, *(5 + np.arange(length) % 50), SEP, *[PAD] * padding]], np.int64)


def no_spans() -> np.ndarray:
    return np.empty((0, 3), np.int64)


@st.composite
def batches(draw) -> tuple[np.ndarray, np.ndarray]:
    n, length = draw(st.integers(1, 4)), draw(st.integers(3, 30))
    ids = np.stack(
        [
            sequence(used - 2, length - used)[0]
            for used in draw(st.lists(st.integers(2, length), min_size=n, max_size=n))
        ]
    )
    spans = []
    for row in range(n):
        place = 0
        for gap, size in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=5)):
            if place + gap + size <= length:
                spans.append([row, place + gap, place + gap + size])
                place += gap + size
    return ids, np.array(spans, np.int64).reshape(-1, 3)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None)
@given(batch=batches(), seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.01, 0.15, 0.5, 1.0]))
def test_what_holds_of_every_batch(way, batch, seed, share) -> None:
    ids, spans = batch
    masking = Masking(mask_id=MASK, special_ids=(PAD, CLS, SEP), vocabulary=60, share=share)
    before = ids.copy()
    shown, labels = way(ids, spans, masking, np.random.default_rng(seed))
    assert (ids == before).all()
    guessed, special = labels != NOT_MASKED, np.isin(ids, MASKING.special_ids)
    # The labels are the truth, what is not guessed is shown, and no special token is touched or put in.
    assert (labels[guessed] == ids[guessed]).all()
    assert (shown[~guessed] == ids[~guessed]).all()
    assert not (guessed & special).any()
    assert not np.isin(shown[guessed], MASKING.special_ids).any()
    assert (shown[guessed] < 60).all()
    # At least one token a sequence that has any; at most what share asks for, and the entities these lie in.
    assert (guessed.any(1) == ~special.all(1)).all()
    if share == 1.0:
        assert (guessed == ~special).all()
    for row, start, end in spans:
        inside = ~special[row, start:end]
        assert len({*guessed[row, start:end][inside]}) <= 1
        if guessed[row, start:end].any():
            # One lot for the whole: all [MASK], or none.
            is_mask = shown[row, start:end][inside] == MASK
            assert is_mask.all() or not is_mask.any()
    again = way(ids, spans, masking, np.random.default_rng(seed))
    assert (again[0] == shown).all()
    assert (again[1] == labels).all()


def test_by_token_the_number_drawn_is_exact_and_entities_are_completed() -> None:
    ids = sequence(100)
    for seed in range(20):
        _, labels = mask_by_token(ids, no_spans(), MASKING, np.random.default_rng(seed))
        assert (labels != NOT_MASKED).sum() == 15
    # One entity over half of the tokens: drawn by nearly any 15 tokens, and then whole.
    half = np.array([[0, 1, 51]])
    counts = [
        (mask_by_token(ids, half, MASKING, np.random.default_rng(seed))[1] != NOT_MASKED)[0] for seed in range(20)
    ]
    assert all(count[1:51].all() for count in counts)
    assert 50 < np.mean([count.sum() for count in counts]) < 50 + 15


def test_by_token_an_entity_is_drawn_as_often_as_any_of_its_tokens() -> None:
    """Of 20 tokens 3 are drawn: an entity of 4 escapes with chance C(16, 3) / C(20, 3) = 0.491."""
    ids, spans = sequence(20), np.array([[0, 5, 9]])
    random = np.random.default_rng(0)
    hit = [mask_by_token(ids, spans, MASKING, random)[1][0, 5] != NOT_MASKED for _ in range(4000)]
    assert np.mean(hit) == pytest.approx(1 - 560 / 1140, abs=0.03)


@pytest.mark.parametrize("sizes", [(1,), (2, 3), (1, 4, 7)])
def test_by_span_15_percent_on_average_and_every_place_alike(sizes) -> None:
    place, spans, turn = 1, [], itertools.cycle(sizes)
    while place < 121:
        end = min(121, place + next(turn))
        spans.append([0, place, end])
        place = end
    ids, random = sequence(120), np.random.default_rng(1)
    guessed = np.stack([mask_by_span(ids, np.array(spans), MASKING, random)[1][0] != NOT_MASKED for _ in range(4000)])
    assert guessed.sum(1).mean() == pytest.approx(0.15 * 120, rel=0.01)
    rates = guessed[:, 1:121].mean(0)
    # The last tenth of the sequence is masked as often as the first.
    tenths = rates.reshape(10, 12).mean(1)
    np.testing.assert_allclose(tenths, 0.15, rtol=0.12)
    assert rates.min() > 0.11
    assert rates.max() < 0.19


@pytest.mark.parametrize(
    "sizes",
    [[1] * 40 + [2] * 15 + [3] * 8 + [6] * 3 + [8] * 2, [1] * 12 + [2] * 3 + [4] * 2 + [8], [1] * 6 + [2, 5]],
    ids=["110 tokens", "34 tokens", "13 tokens"],
)
def test_by_span_every_length_alike(sizes) -> None:
    random, reps = np.random.default_rng(5), 6000
    starts = 1 + np.cumsum([0, *sizes[:-1]])
    ends = starts + sizes
    rows = np.repeat(np.arange(reps), len(sizes))
    spans = np.column_stack([rows, np.tile(starts, reps), np.tile(ends, reps)])
    ids = np.repeat(sequence(sum(sizes)), reps, 0)
    guessed = mask_by_span(ids, spans, MASKING, random)[1] != NOT_MASKED
    by_length = {size: guessed[:, starts[np.array(sizes) == size]].mean() for size in sorted({*sizes})}
    assert by_length == pytest.approx(dict.fromkeys(by_length, 0.15), abs=0.015)
    # Of all spans alike: chi-squared with as many degrees of freedom as spans, but one, and six deviations at most.
    hits = guessed[:, starts].sum(0)
    spread = float(((hits - 0.15 * reps) ** 2 / (0.15 * 0.85 * reps)).sum())
    assert spread < len(sizes) - 1 + 6 * np.sqrt(2 * (len(sizes) - 1))


def test_by_span_something_is_drawn_of_few_spans() -> None:
    spans = np.array([[row, *span] for row in range(400) for span in ((1, 4), (4, 5))])
    guessed = mask_by_span(np.repeat(sequence(4), 400, 0), spans, MASKING, np.random.default_rng(0))[1] != NOT_MASKED
    # One of the two, and either as often.
    assert (guessed[:, 1] != guessed[:, 4]).all()
    assert guessed[:, 1].mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("way", WAYS)
def test_80_10_10(way) -> None:
    ids, random = np.repeat(sequence(200), 300, 0), np.random.default_rng(3)
    shown, labels = way(ids, no_spans(), MASKING, random)
    guessed = labels != NOT_MASKED
    n = guessed.sum()
    assert (shown[guessed] == MASK).sum() / n == pytest.approx(0.8, abs=0.03)
    kept = (shown[guessed] == labels[guessed]).sum() / n  # a random token may be the true one, 1 of 56
    assert kept == pytest.approx(0.1 + 0.1 / 56, abs=0.02)
    others = shown[guessed & (shown != MASK) & (shown != labels)]
    assert {*others.tolist()} == {1, *range(5, 60)}
    only = Masking(mask_id=MASK, special_ids=(PAD, CLS, SEP), vocabulary=60, masked=1.0, random=0.0)
    shown, labels = way(ids, no_spans(), only, random)
    assert (shown[labels != NOT_MASKED] == MASK).all()


@pytest.mark.parametrize("way", WAYS)
def test_nothing_to_mask(way) -> None:
    ids = np.array([[CLS, SEP, PAD]])
    shown, labels = way(ids, np.array([[0, 0, 3]]), MASKING, np.random.default_rng(0))
    assert (shown == ids).all()
    assert (labels == NOT_MASKED).all()
    shown, labels = way(np.empty((0, 5), np.int64), no_spans(), MASKING, np.random.default_rng(0))
    assert shown.shape == labels.shape == (0, 5)
