"""The decision: probabilities of the three outcomes, and the two thresholds on them."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.answer.decision import ACCEPT, CLIP, NIL, NONE, OTHER, REVIEW, RIGHT, Thresholds, fit_outcomes
from tests.reference import calibration as reference

CENTRE, SPREAD = np.array([3.0, 0, -2]), np.array([1, 5, 0.1])


def simulated(n: int = 500, seed: int = 0):
    """Return evidence, outcomes drawn by a multinomial logistic model, and weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(CENTRE, SPREAD, (n, 3))
    score = (x - CENTRE) / SPREAD @ np.array([[1.5, 0, -1], [-0.7, 0.3, 0], [0.2, 0, 0.4]]) + [0.5, 0, -0.5]
    return x, (score + rng.gumbel(size=score.shape)).argmax(axis=1), rng.uniform(0.2, 3, n)


def standardised(x):
    return np.clip((x - x.mean(0)) / x.std(0), -CLIP, CLIP)


@pytest.mark.parametrize("l2", [0.1, 1.0, 30.0])
def test_like_scikit_learn(l2):
    linear = pytest.importorskip("sklearn.linear_model")
    x, y, weight = simulated()
    ours = fit_outcomes(x, y, weight, l2=l2)
    # The penalty on the bias is a thousandth: that on the weight of a constant of the root of 1,000.
    constant = np.sqrt(1000)
    z = np.column_stack([standardised(x), np.full(len(x), constant)])
    theirs = linear.LogisticRegression(C=1 / l2, fit_intercept=False, solver="newton-cg", tol=1e-12, max_iter=10_000)
    theirs.fit(z, y, sample_weight=weight)
    assert ours.weight == pytest.approx(theirs.coef_.T[:-1], abs=1e-5)
    assert ours.bias == pytest.approx(theirs.coef_.T[-1] * constant, abs=1e-5)
    assert ours(x) == pytest.approx(theirs.predict_proba(z), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_at_the_optimum_the_gradient_vanishes(seed):
    x, y, weight = simulated(60, seed)
    x[0, 1] = 1e3
    fitted = fit_outcomes(x, y, weight, l2=0.3)
    z = standardised(x).tolist()
    of_weight, of_bias = reference.outcome_loss_gradient(
        z, y.tolist(), weight.tolist(), fitted.weight.tolist(), fitted.bias.tolist(), 0.3
    )
    assert np.abs([*of_weight, of_bias]).max() < 1e-6
    moved = reference.outcome_loss_gradient(
        z, y.tolist(), weight.tolist(), (fitted.weight + 0.1).tolist(), fitted.bias.tolist(), 0.3
    )
    assert np.abs(moved[0]).max() > 1e-3


def test_weights_of_the_same_row_add_up():
    x, y, weight = simulated(200)
    share = np.random.default_rng(1).uniform(0, 1, 200)
    parts = fit_outcomes(np.vstack([x, x]), np.tile(y, 2), np.concatenate([weight * share, weight * (1 - share)]))
    whole = fit_outcomes(x, y, weight)
    assert parts(x) == pytest.approx(whole(x), abs=1e-7)
    assert np.abs(whole(x) - fit_outcomes(x, y)(x)).max() > 1e-2


def test_unusual_evidence_is_clipped():
    x, y, _ = simulated()
    fitted = fit_outcomes(x, y)
    off = np.array([[1, 0, 0]]) * fitted.scale
    assert fitted(fitted.mean + 1e6 * off) == pytest.approx(fitted(fitted.mean + CLIP * off))
    assert fitted(fitted.mean + 1e6 * off) != pytest.approx(fitted(fitted.mean + (CLIP - 1) * off), rel=1e-3)


def test_separable_constant_and_missing_outcomes_stay_finite():
    x = np.column_stack([np.linspace(-1, 1, 30), np.full(30, 7.1)])
    y = np.repeat([NONE, OTHER, RIGHT], 10)
    fitted = fit_outcomes(x, y, l2=1e-3)
    found = fitted(x)
    assert np.isfinite(found).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(30))
    assert (found.argmax(axis=1) == y).all()
    assert fitted.weight[1] == pytest.approx(np.zeros(3), abs=1e-12)
    without = fit_outcomes(x[:, :1], y, l2=1e-3)
    assert without(x[:, :1]) == pytest.approx(found, abs=1e-6)
    always = fit_outcomes(x, np.full(30, RIGHT))(x)
    assert ((always[:, RIGHT] > 0.9) & (always[:, RIGHT] < 1)).all()


def test_unit_and_origin_of_the_evidence_do_not_matter():
    x, y, _ = simulated()
    moved = x * [1000, -0.01, 3] + [5, 5, 1e4]
    assert fit_outcomes(moved, y)(moved) == pytest.approx(fit_outcomes(x, y)(x), abs=1e-7)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((0, 2)), np.zeros(0, int)),
        (np.zeros(3), np.zeros(3, int)),
        (np.zeros((3, 1)), np.zeros(2, int)),
        (np.zeros((3, 1)), np.zeros((3, 1), int)),
        (np.array([[np.nan]]), np.ones(1, int)),
        (np.array([[np.inf]]), np.ones(1, int)),
    ],
)
def test_refuses_what_does_not_fit(x, y):
    with pytest.raises(ValueError, match="need finite evidence"):
        fit_outcomes(x, y)


@pytest.mark.parametrize(
    ("confidence", "nil", "vetoed", "thresholds", "decision"),
    [
        (0.9, 0.05, False, (0.8, 0.8), ACCEPT),
        (0.8, 0.05, False, (0.8, 0.8), ACCEPT),
        (0.79, 0.05, False, (0.8, 0.8), REVIEW),
        # The other is likelier.
        (0.4, 0.5, False, (0.3, 0.8), REVIEW),
        (0.5, 0.4, False, (0.8, 0.3), REVIEW),
        (0.4, 0.5, False, (0.3, 0.3), NIL),
        (0.5, 0.4, False, (0.3, 0.3), ACCEPT),
        # A veto keeps from accepting, not from NIL, and makes no NIL.
        (0.9, 0.05, True, (0.0, 0.8), REVIEW),
        (0.9, 0.05, True, (0.0, 0.0), REVIEW),
        (0.1, 0.9, True, (0.5, 0.8), NIL),
        # Without a threshold nothing is decided.
        (1.0, 0.0, False, (None, 0.0), REVIEW),
        (0.0, 1.0, False, (0.0, None), REVIEW),
        (0.0, 0.0, False, (0.0, 0.0), REVIEW),
    ],
)
def test_decisions(confidence, nil, vetoed, thresholds, decision):
    figures = np.array([confidence, 0.5]), np.array([nil, 0.5]), np.array([vetoed, True])
    assert Thresholds(*thresholds).decide(*figures)[0] == decision
