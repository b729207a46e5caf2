"""Exact limits of a share of errors, against fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphita.calibrate.limits import (
    clopper_pearson,
    finite_tail,
    finite_upper_limit,
    least_without_error,
    most_wrong,
    tail,
    upper_limit,
)
from tests.reference import calibration as reference


@st.composite
def found(draw, most=120):
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n)), n


@settings(deadline=None)
@given(found(), st.integers(1, 99))
def test_the_binomial_tail(case, percent):
    wrong, n = case
    wanted = reference.binomial_tail(wrong, n, Fraction(percent, 100))
    assert tail(wrong, n, percent / 100) == pytest.approx(float(wanted), rel=1e-9, abs=1e-300)


@settings(deadline=None)
@given(found(), st.sampled_from([0.025, 0.05, 0.2]))
def test_at_the_upper_limit_the_tail_is_delta(case, delta):
    wrong, n = case
    limit = upper_limit(wrong, n, delta)
    if wrong == n:
        assert limit == 1
    else:
        assert float(reference.binomial_tail(wrong, n, Fraction(limit))) == pytest.approx(delta, rel=1e-7)


@settings(deadline=None)
@given(found())
def test_the_interval_holds_the_share_and_is_the_mirror_of_the_others(case):
    count, n = case
    low, high = clopper_pearson(count, n)
    assert low <= count / n <= high
    assert clopper_pearson(n - count, n) == pytest.approx((1 - high, 1 - low))
    assert high == upper_limit(count, n, 0.025)
    assert (low, high) == pytest.approx(tuple(stats.binomtest(count, n).proportion_ci(0.95, method="exact")), abs=1e-9)


def test_known_values():
    # 3 of 20: the interval of the textbooks.
    assert clopper_pearson(3, 20) == pytest.approx((0.0321, 0.3789), abs=1e-4)
    assert upper_limit(0, 0) == 1.0
    assert tail(0, 0, 0.01) == 1.0
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("error", "delta", "needed"),
    [(0.01, 0.05, 299), (0.005, 0.05, 598), (0.02, 0.05, 149), (0.05, 0.05, 59), (0.1, 0.05, 29), (0.5, 0.25, 2)],
)
def test_how_many_without_an_error(error, delta, needed):
    assert least_without_error(error, delta) == needed
    assert tail(0, needed, error) <= delta < tail(0, needed - 1, error)


@settings(deadline=None)
@given(st.integers(0, 300), st.sampled_from([0.01, 0.05, 0.3, 0.9]), st.sampled_from([0.01, 0.05, 0.3]))
def test_the_most_errors_that_pass(n, error, delta):
    passing = [k for k in range(n + 1) if tail(k, n, error) <= delta]
    assert most_wrong(n, error, delta) == max(passing, default=-1)


@st.composite
def finite(draw):
    population = draw(st.integers(1, 60))
    n = draw(st.integers(1, population))
    return draw(st.integers(0, n)), n, population


@settings(deadline=None)
@given(finite(), st.data())
def test_the_hypergeometric_tail(case, data):
    wrong, n, population = case
    all_wrong = data.draw(st.integers(0, population))
    wanted = float(reference.hypergeometric_tail(wrong, n, all_wrong, population))
    assert finite_tail(wrong, n, all_wrong, population) == pytest.approx(wanted, abs=1e-12)


@settings(deadline=None)
@given(finite(), st.sampled_from([0.01, 0.05, 0.4]))
def test_the_limit_in_a_finite_population(case, delta):
    wrong, n, population = case
    # Where a tail is `delta` itself, either side of it is right in floats.
    low, high = (reference.finite_upper_limit(wrong, n, population, delta * (1 + side)) for side in (1e-9, -1e-9))
    assert low <= finite_upper_limit(wrong, n, population, delta) <= high


def test_all_drawn_is_all_known_and_few_of_very_many_is_the_binomial():
    assert finite_upper_limit(3, 50, 50) == 3
    assert finite_upper_limit(0, 299, 1_000_000) / 1_000_000 == pytest.approx(upper_limit(0, 299), rel=1e-3)
    assert finite_upper_limit(7, 400, 10_000_000) / 10_000_000 == pytest.approx(upper_limit(7, 400), rel=1e-3)
    # Half of the file reviewed says more than as many of an endless one.
    assert finite_upper_limit(2, 100, 200) / 200 == 0.05 < upper_limit(2, 100)
