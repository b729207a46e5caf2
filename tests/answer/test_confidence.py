"""Calibrators: logistic and isotonic regression, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from alphita.answer.calibration_store import (
    COMMON,
    MIN_OF_EACH,
    Isotonic,
    Logistic,
    fit_calibrator,
    fit_calibrators,
    fit_isotonic,
    fit_logistic,
)
from tests.reference import calibration as reference


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def simulated(n, *, seed=0, weights=(1.5, -0.7, 0.3), bias=0.4):
    rng = np.random.default_rng(seed)
    x = rng.normal([3, 0, -2], [1, 5, 0.1], (n, 3))
    p = sigmoid((x - [3, 0, -2]) / [1, 5, 0.1] @ np.array(weights) + bias)
    return x, rng.random(n) < p, p


class TestLogistic:
    @pytest.mark.parametrize("l2", [0.0, 1.0, 30.0])
    def test_like_scikit_learn(self, l2):
        linear = pytest.importorskip("sklearn.linear_model")
        x, y, _ = simulated(500)
        ours = fit_logistic(x, y, l2=l2)
        z = (x - x.mean(0)) / x.std(0)
        theirs = linear.LogisticRegression(C=1 / l2 if l2 else np.inf, tol=1e-10, max_iter=10_000).fit(z, y)
        assert ours.weight == pytest.approx(theirs.coef_[0], abs=1e-5)
        assert ours.bias == pytest.approx(theirs.intercept_, abs=1e-5)
        assert ours.apply(x) == pytest.approx(theirs.predict_proba(z)[:, 1], abs=1e-5)

    def test_separable_data_stay_finite_and_inside(self):
        x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        y = np.array([False, False, True, True])
        for l2 in (0.0, 1.0):
            fitted = fit_logistic(x, y, l2=l2)
            confidence = fitted.apply(np.vstack([x, [[-1e9], [1e9]]]))
            assert np.isfinite(fitted.weight).all()
            assert ((confidence > 0) & (confidence < 1)).all()
            assert (confidence[2:4] > 0.5).all()
            assert (confidence[:2] < 0.5).all()
        assert fit_logistic(x, y, l2=1.0).weight[0] < fit_logistic(x, y, l2=0.1).weight[0]

    def test_all_right_gives_laplaces_rule(self):
        x = np.arange(8.0).reshape(-1, 1)
        assert fit_logistic(x, np.ones(8, bool)).apply(x) == pytest.approx(np.full(8, 9 / 10))
        assert fit_logistic(x, np.zeros(8, bool)).apply(x) == pytest.approx(np.full(8, 1 / 10))

    def test_a_constant_feature_teaches_nothing(self):
        x, y, _ = simulated(300)
        for l2 in (0.0, 1.0):
            with_constant = fit_logistic(np.column_stack([x, np.full(300, 7.1)]), y, l2=l2)
            assert with_constant.weight[:3] == pytest.approx(fit_logistic(x, y, l2=l2).weight, abs=1e-6)
            assert with_constant.weight[3] == pytest.approx(0, abs=1e-12)

    def test_unit_and_origin_of_a_feature_do_not_matter(self):
        x, y, _ = simulated(300)
        moved = x * [1000, -0.01, 3] + [5, 5, 1e4]
        assert fit_logistic(moved, y).apply(moved) == pytest.approx(fit_logistic(x, y).apply(x), abs=1e-7)

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            (np.zeros((0, 2)), np.zeros(0, bool)),
            (np.zeros(3), np.zeros(3, bool)),
            (np.zeros((3, 1)), np.zeros(2, bool)),
            (np.array([[np.nan]]), np.ones(1, bool)),
        ],
    )
    def test_refuses_what_does_not_fit(self, x, y):
        with pytest.raises(ValueError, match="need finite features"):
            fit_logistic(x, y)


scores = st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=1, max_size=40)


def with_two_more(data):
    """The data with a right answer at the least score and a wrong one at the greatest."""
    s = [float(score) for score, _ in data]
    return [*s, min(s), max(s)], [*(float(right) for _, right in data), 1.0, 0.0]


class TestIsotonic:
    @given(scores)
    def test_blocks_are_those_of_the_definition(self, data):
        s, y = with_two_more(data)
        places = sorted(set(s))
        weights = [float(s.count(place)) for place in places]
        means = [sum(b for a, b in zip(s, y, strict=True) if a == place) / s.count(place) for place in places]
        wanted = reference.isotonic(means, weights)
        fitted = fit_isotonic(np.array([float(a) for a, _ in data]), np.array([b for _, b in data]))
        starts = [i for i in range(len(places)) if not i or wanted[i] > wanted[i - 1] + 1e-12]
        assert fitted.values == pytest.approx([wanted[i] for i in starts])
        own = [float(a) for a, _ in data]
        ends = [*starts[1:], len(places)]
        knots = [[a for a in own if places[i] <= a <= places[end - 1]] for i, end in zip(starts, ends, strict=True)]
        assert fitted.knots == pytest.approx([sum(block) / len(block) for block in knots], abs=1e-9)

    @given(scores, st.lists(st.floats(-50, 50), min_size=2, max_size=20))
    def test_rises_and_stays_inside(self, data, asked):
        fitted = fit_isotonic(np.array([float(a) for a, _ in data]), np.array([b for _, b in data]))
        confidence = fitted.apply(np.sort(asked))
        assert (np.diff(confidence) >= -1e-12).all()
        n = len(data)
        assert confidence.min() >= 1 / (n + 2) - 1e-12
        assert confidence.max() <= (n + 1) / (n + 2) + 1e-12
        assert (np.diff(fitted.knots) > 0).all()
        assert (np.diff(fitted.values) > 0).all()

    def test_a_run_of_rights_at_the_top_says_no_more_than_its_length(self):
        y = np.array([False] * 10 + [True] * 9)
        fitted = fit_isotonic(np.arange(19.0), y)
        assert fitted.apply(np.array([-5.0, 100.0])) == pytest.approx([1 / 11, 9 / 10])

    def test_one_score_gives_laplaces_rule(self):
        fitted = fit_isotonic(np.full(6, 0.5), np.array([True] * 5 + [False]))
        assert fitted.apply(np.array([0.0, 0.5, 1.0])) == pytest.approx(np.full(3, 6 / 8))

    def test_between_knots_it_is_straight(self):
        fitted = Isotonic(np.array([0.0, 1.0]), np.array([0.2, 0.6]))
        assert fitted.apply(np.array([-1.0, 0.25, 2.0])) == pytest.approx([0.2, 0.3, 0.6])

    def test_refuses_what_does_not_fit(self):
        with pytest.raises(ValueError, match="need finite scores"):
            fit_isotonic(np.zeros(0), np.zeros(0, bool))
        with pytest.raises(ValueError, match="need finite scores"):
            fit_isotonic(np.array([np.inf]), np.ones(1, bool))


def stepped(n, seed):
    """One feature whose share right goes up in a step, which no logistic can follow."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    return x, rng.random(n) < np.where(x[:, 0] > 1, 0.95, np.where(x[:, 0] > -1, 0.5, 0.45))


class TestChoice:
    def test_isotonic_where_it_is_clearly_better(self):
        x, y = stepped(6000, 0)
        assert isinstance(fit_calibrator(x, y), Isotonic)

    @pytest.mark.parametrize("seed", range(5))
    def test_logistic_where_it_is_true_or_data_are_few(self, seed):
        x, y, _ = simulated(2000, seed=seed)
        assert isinstance(fit_calibrator(x, y), Logistic)
        x, y, _ = simulated(3, seed=seed)
        assert isinstance(fit_calibrator(x, y), Logistic)

    def test_the_isotonic_takes_features(self):
        x, y = stepped(6000, 1)
        fitted = fit_calibrator(x, y)
        # The 95% above 1, far from what one logistic curve would say at 1.2.
        assert fitted.apply(np.array([[1.3], [3.0], [0.0]])) == pytest.approx([0.95, 0.95, 0.5], abs=0.06)

    def test_a_group_has_its_own_only_where_data_suffice(self):
        x, y, _ = simulated(3000, seed=2)
        groups = np.array(["de"] * 1200 + ["it"] * 100 + [""] * 1700)
        y[:1200] = ~y[:1200]
        fitted = fit_calibrators(x, y, [group or None for group in groups])
        assert set(fitted) == {COMMON, "de"}
        alone = fit_calibrator(x[:1200], y[:1200])
        assert fitted["de"].apply(x) == pytest.approx(alone.apply(x))
        assert fitted[COMMON].apply(x) == pytest.approx(fit_calibrator(x, y).apply(x))

    @pytest.mark.parametrize(("wrong", "own"), [(MIN_OF_EACH, True), (MIN_OF_EACH - 1, False)])
    def test_the_rarer_outcome_decides(self, wrong, own):
        rng = np.random.default_rng(0)
        y = np.array([False] * wrong + [True] * 1000)
        fitted = fit_calibrators(rng.normal(size=(len(y), 2)), y, ["fr"] * len(y))
        assert ("fr" in fitted) is own


@pytest.mark.parametrize("kind", ["logistic", "isotonic", "isotonic on a logistic"])
def test_saved_as_plain_arrays(kind):
    x, y = stepped(500, 2)
    logistic = fit_logistic(x, y)
    curve = fit_isotonic(x[:, 0], y)
    fitted, given_ = {
        "logistic": (logistic, x),
        "isotonic": (curve, x[:, 0]),
        "isotonic on a logistic": (Isotonic(curve.knots, curve.values, logistic), x),
    }[kind]
    arrays = load(save(fitted.to_arrays()))
    assert all(values.dtype == np.float64 and values.ndim == 1 for values in arrays.values())
    assert (type(fitted).from_arrays(arrays).apply(given_) == fitted.apply(given_)).all()
