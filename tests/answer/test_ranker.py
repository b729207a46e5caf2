"""The ranker: its loss against a naive loop, its gradients against differences, and what it learns."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer import ranker
from alphita.answer.ranker import Ranker, about, softmax
from alphita.calibrate import ranker_training
from alphita.calibrate.ranker_training import Training, loss, nil_loss
from tests.reference.ranking import cross_entropy, listwise_loss


def problem(seed: int, n: int = 12, d: int = 5, e: int = 3) -> tuple[Training, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 6, n)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    c = int(offsets[-1])
    data = Training(
        random.normal(size=(c, d)).astype(np.float32),
        random.normal(size=(n, e)).astype(np.float32),
        offsets,
        random.random(c) < 0.3,
        random.random(n) < 0.3,
        random.random(n) + 0.1,
    )
    return data, random.normal(0, 3, c), random.normal(0, 3, n)


def lists(values: np.ndarray, offsets: np.ndarray) -> list[list[float]]:
    return [values[start:end].tolist() for start, end in itertools.pairwise(offsets)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_the_losses_are_the_naive_loops(seed):
    data, score, odds = problem(seed)
    expected = listwise_loss(lists(score, data.offsets), lists(data.right, data.offsets), data.weight.tolist())
    assert loss(score, data)[0] == pytest.approx(expected, abs=1e-10)
    expected = cross_entropy(odds.tolist(), data.nil.tolist(), data.weight.tolist())
    assert nil_loss(odds, data.nil, data.weight)[0] == pytest.approx(expected, abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_gradients_are_the_differences(seed):
    data, score, odds = problem(seed, n=6)
    losses = [(score, lambda x: loss(x, data)), (odds, lambda x: nil_loss(x, data.nil, data.weight))]
    step = 1e-5
    for values, function in losses:
        gradient = function(values)[1]
        for place in range(len(values)):
            up, down = values.copy(), values.copy()
            up[place] += step
            down[place] -= step
            slope = (function(up)[0] - function(down)[0]) / (2 * step)
            assert gradient[place] == pytest.approx(slope, abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_several_networks_at_once_are_each_by_itself(seed):
    data, score, odds = problem(seed)
    scores, many = np.stack([score, -score, 0.1 * score]), np.stack([odds, 2 - odds])
    for found, alone in (
        (loss(scores, data), [loss(one, data) for one in scores]),
        (nil_loss(many, data.nil, data.weight), [nil_loss(one, data.nil, data.weight) for one in many]),
    ):
        for part, expected in zip(found, zip(*alone, strict=True), strict=True):
            np.testing.assert_allclose(part, np.stack(expected), atol=1e-12)


def test_the_gradients_of_the_weights_are_the_differences():
    data, _, _ = problem(3)
    random = np.random.default_rng(0)
    mean, scale, weights = ranker_training._drawn(data.candidates, random, 3)
    weights = {name: values.astype(np.float64) for name, values in weights.items()}
    some = np.array([0, 2, 3, 7, 9])
    rows, by_output = ranker_training._ranking_gradients(data)(some)
    kept = Training(
        data.candidates[rows],
        data.mentions[some],
        np.concatenate([[0], np.cumsum(np.diff(data.offsets)[some])]),
        data.right[rows],
        data.nil[some],
        data.weight[some],
    )
    assert rows.tolist() == [row for one in some for row in range(data.offsets[one], data.offsets[one + 1])]
    gradients = ranker_training.back(weights, ranker.standardised(data.candidates, mean, scale)[rows], by_output)

    def value(changed):
        networks = [
            ranker.Network(mean, scale, *(changed[name][number] for name in ranker_training._LEARNED))
            for number in range(3)
        ]
        return sum(loss(network(kept.candidates), kept)[0] for network in networks)

    for name, gradient in gradients.items():
        assert gradient.shape == weights[name].shape
        for place in random.choice(gradient.size, min(20, gradient.size), replace=False):
            up, down = ({key: array.copy() for key, array in weights.items()} for _ in range(2))
            up[name].flat[place] += 1e-5
            down[name].flat[place] -= 1e-5
            assert gradient.flat[place] == pytest.approx((value(up) - value(down)) / 2e-5, abs=1e-6)


def test_single_precision_is_near_enough_to_learn_by():
    data, score, odds = problem(11, n=200)
    for exact, single in (
        (loss(score, data), loss(score.astype(np.float32), data)),
        (nil_loss(odds, data.nil, data.weight), nil_loss(odds.astype(np.float32), data.nil, data.weight)),
    ):
        assert single[1].dtype == np.float32
        np.testing.assert_allclose(single[0], exact[0], rtol=1e-5)
        np.testing.assert_allclose(single[1], exact[1], atol=1e-7)


def test_hopeless_and_certain_scores_stay_finite():
    data, score, odds = problem(4)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for function in (
            lambda: loss(np.float32(1e4) * score.astype(np.float32), data),
            lambda: nil_loss(np.float32(1e4) * odds.astype(np.float32), data.nil, data.weight),
        ):
            value, gradient = function()
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()


def test_the_mean_of_members_is_that_of_each_one_s_outputs(monkeypatch):
    monkeypatch.setattr(ranker, "ROWS_AT_ONCE", 7)
    data, _, _ = problem(6, n=20)
    members = ranker_training.train(data, epochs=1, members=3).candidates
    shifted = dataclasses.replace(members[0], mean=members[0].mean + 1)
    for some in (members, (*members, shifted)):
        expected = []
        for one in some:
            inputs = np.clip((data.candidates - one.mean) / one.scale, -ranker.CLIP, ranker.CLIP)
            expected.append(np.maximum(inputs @ one.weight + one.bias, 0) @ one.out + one.out_bias[0])
        np.testing.assert_allclose(ranker.mean_of_members(some, data.candidates), np.mean(expected, axis=0), atol=1e-12)


def test_equal_candidates_score_the_same_wherever_they_stand():
    data = contextual(3, n=300)
    fitted = ranker_training.train(data, epochs=2)
    many = np.tile(data.candidates[:5], (1000, 1))
    scores = fitted.score(many).reshape(1000, 5)
    assert np.ptp(np.round(scores, ranker.DIGITS), axis=0).tolist() == [0.0] * 5
    alone = [fitted.score(row[None])[0] for row in many[:5]]
    np.testing.assert_array_equal(np.round(alone, ranker.DIGITS), np.round(scores[0], ranker.DIGITS))


def test_learning_on_from_a_ranker_keeps_what_it_knows():
    """A few mentions of another kind are learned, and the first kind is still answered; from nothing it is not."""
    before, few, test = contextual(3, n=600), contextual(5, n=12), contextual(4, n=400)
    start = ranker_training.train(before, epochs=20, members=2)
    own = ranker_training.train(few, epochs=20, members=2)
    on_top = ranker_training.train(few, start=start)
    assert len(on_top.candidates) == 2
    assert not np.array_equal(on_top.candidates[0].weight, start.candidates[0].weight)

    def right(one):
        score = one.score(test.candidates)
        owner = np.repeat(np.arange(len(test.nil)), np.diff(test.offsets))
        best = np.lexsort((-score, owner))[test.offsets[:-1]]
        return test.right[best][~test.nil].mean()

    assert right(on_top) > right(own) + 0.05
    assert right(on_top) > right(start) - 0.03


def test_a_feature_that_was_the_same_everywhere_gets_the_new_data_s_scale():
    data, _, _ = problem(8, n=60)
    constant = data.candidates.copy()
    constant[:, 0] = 7
    start = ranker_training.train(data._replace(candidates=constant), epochs=2)
    fitted = ranker_training.train(data, start=start).candidates[0]
    assert fitted.mean[0] == pytest.approx(data.candidates[:, 0].mean(), abs=1e-5)
    assert fitted.mean[1] == start.candidates[0].mean[1]
    assert fitted.weight[0].any()
    assert not start.candidates[0].weight[0].any()


@pytest.mark.parametrize("n", [1, 3, 40])
def test_few_mentions_none_of_which_teaches_anything_make_a_ranker(n):
    data, _, _ = problem(8, n=n)
    nothing = data._replace(right=np.zeros(len(data.right), bool))
    found = ranker_training.train(nothing, epochs=2)(data.candidates, data.mentions, data.offsets)
    assert np.isfinite(found.probability).all()
    assert np.isfinite(found.nil).all()


def test_probabilities_add_up_and_nothing_found_is_nil():
    data, score, _ = problem(5)
    owner = np.repeat(np.arange(len(data.nil)), np.diff(data.offsets))
    filled = np.diff(data.offsets) > 0
    assert np.bincount(owner, softmax(1e3 * score, data.offsets), minlength=len(data.nil)) == pytest.approx(
        filled * 1.0
    )
    trained = ranker_training.train(data, epochs=1, members=2)
    found = trained(data.candidates, data.mentions, data.offsets)
    seen = about(found.score, data.candidates, data.mentions, data.offsets)
    odds = ranker.mean_of_members(trained.mentions, seen)[filled]
    assert found.nil[filled] == pytest.approx(1 / (1 + np.exp(-odds)))
    whole = np.bincount(owner, found.probability, minlength=len(data.nil)) + found.nil
    assert whole == pytest.approx(np.ones(len(data.nil)))
    assert found.nil[~filled].tolist() == [1.0] * int((~filled).sum())
    assert len(found.nil[~filled])


def test_what_nil_is_told_by():
    offsets = np.array([0, 3, 3, 4])
    candidates = np.array([[1.0], [2.0], [3.0], [9.0]], np.float32)
    mentions = np.array([[0.1], [0.2], [0.3]], np.float32)
    found = about(np.array([0.5, 2.5, 1.0, -4.0]), candidates, mentions, offsets)
    np.testing.assert_allclose(found, [[0.1, 2.0, 1.5], [0.2, 0.0, 0.0], [0.3, 9.0, 0.0]], rtol=1e-6)


def contextual(seed: int, n: int = 1500) -> Training:
    """Mentions whose kind says which of two features points at the right candidate; a fifth have none."""
    random = np.random.default_rng(seed)
    candidates, mentions, right, nil = [], [], [], []
    for _ in range(n):
        kind, none = random.random() < 0.5, random.random() < 0.2
        values = random.random((4, 2))
        best = int(values[:, int(kind)].argmax())
        for place, row in enumerate(values):
            candidates.append([*row, float(kind)])
            right.append(place == best and not none)
        nil.append(none)
        mentions.append([float(none) + random.normal(0, 0.2), float(kind)])
    return Training(
        np.array(candidates, np.float32),
        np.array(mentions, np.float32),
        np.arange(0, 4 * n + 1, 4),
        np.array(right),
        np.array(nil),
        np.ones(n),
    )


def test_it_learns_when_to_trust_which_feature_and_when_nothing_fits():
    data, test = contextual(0), contextual(1)
    found = ranker_training.train(data, seed=0, epochs=60)(test.candidates, test.mentions, test.offsets)
    best = found.score.reshape(-1, 4).argmax(1) + np.arange(0, 4 * len(test.nil), 4)
    assert test.right[best][~test.nil].mean() > 0.9
    assert ((found.nil > 0.5) == test.nil).mean() > 0.95


def test_the_same_seed_gives_the_same_ranker_and_it_survives_saving():
    data = contextual(2, n=200)
    one, other = ranker_training.train(data, seed=4, epochs=3), ranker_training.train(data, seed=4, epochs=3)
    again = Ranker.from_arrays(one.to_arrays())
    for name, values in one.to_arrays().items():
        np.testing.assert_array_equal(values, other.to_arrays()[name])
        np.testing.assert_array_equal(values, again.to_arrays()[name])
