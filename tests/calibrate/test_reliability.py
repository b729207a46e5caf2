"""Figures of calibration, their intervals, and the reliability plot."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.calibrate.reliability import (
    BINS,
    auroc,
    brier,
    expected_calibration_error,
    figures,
    log_loss,
    maximum_calibration_error,
    reliability,
    reliability_svg,
)
from tests.reference import calibration as reference

SVG = "{http://www.w3.org/2000/svg}"


def drawn(n, *, seed=0, shift=0.0):
    """Confidences that crowd near 1, and answers that are right as often as they say, or `shift` less."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1, n)
    return confidence, rng.random(n) < confidence - shift


answers = st.lists(
    st.tuples(st.integers(0, 40).map(lambda number: number / 40), st.booleans()), min_size=1, max_size=60
)


def arrays(data):
    return np.array([c for c, _ in data]), np.array([r for _, r in data])


@pytest.mark.parametrize("equal", ["mass", "width"])
@given(data=answers, bins=st.integers(1, 20))
def test_calibration_errors_are_those_of_the_definition(equal, data, bins):
    c, r = arrays(data)
    wanted = reference.expected_calibration_error(c.tolist(), r.tolist(), bins, equal)
    assert expected_calibration_error(c, r, bins, equal=equal) == pytest.approx(wanted, abs=1e-12)
    wanted = reference.maximum_calibration_error(c.tolist(), r.tolist(), bins, equal)
    assert maximum_calibration_error(c, r, bins, equal=equal) == pytest.approx(wanted, abs=1e-12)
    order = np.random.default_rng(bins).permutation(len(c))
    wanted = expected_calibration_error(c, r, bins, equal=equal)
    assert expected_calibration_error(c[order], r[order], bins, equal=equal) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("equal", ["mass", "width"])
def test_perfect_confidences_have_almost_no_error(equal):
    c, r = drawn(300_000)
    assert expected_calibration_error(c, r, equal=equal) < 0.005
    assert expected_calibration_error(*drawn(300_000, shift=0.1), equal=equal) == pytest.approx(0.1, abs=0.01)


def test_equal_mass_bins_hold_equally_many():
    c, r = drawn(3000)
    table = reliability(c, r)
    assert [one.answers for one in table] == [200] * BINS
    assert all(before.greatest <= after.least for before, after in pairwise(table))
    assert sum(one.answers * one.right for one in table) == pytest.approx(r.sum())
    for one in table:
        own = (c >= one.least) & (c <= one.greatest)
        assert (own.sum(), c[own].mean(), r[own].mean()) == pytest.approx((one.answers, one.confidence, one.right))
        assert one.low < one.right < one.high
    c = np.repeat([0.2, 0.9], [10, 90])
    table = reliability(c, np.arange(100) % 2 == 0)
    assert [(row.least, row.greatest, row.answers) for row in table] == [(0.2, 0.2, 10), (0.9, 0.9, 90)]
    table = reliability(np.array([0.0, 0.49, 0.5, 1.0]), np.array([False, True, True, True]), 2, equal="width")
    assert [(row.least, row.greatest, row.right) for row in table] == [(0.0, 0.49, 0.5), (0.5, 1.0, 1.0)]


@given(answers)
def test_auroc_is_the_share_of_pairs(data):
    c, r = arrays(data)
    wanted = reference.auroc(c.tolist(), r.tolist())
    assert auroc(c, r) == pytest.approx(wanted, nan_ok=True)
    # Only the order counts; turned round, it is the rest to 1.
    assert auroc(np.exp(3 * c), r) == pytest.approx(wanted, nan_ok=True)
    assert auroc(-c, r) == pytest.approx(1 - wanted, nan_ok=True)


def test_like_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    c, r = drawn(2000, seed=4)
    c = c.round(2).clip(0.01, 0.99)
    assert auroc(c, r) == pytest.approx(metrics.roc_auc_score(r, c))
    assert brier(c, r) == pytest.approx(metrics.brier_score_loss(r, c))
    assert log_loss(c, r) == pytest.approx(metrics.log_loss(r, c))
    # That of a sure error is finite.
    assert log_loss(np.array([1.0, 0.0]), np.array([False, True])) == pytest.approx(-math.log(1e-15))
    assert log_loss(np.array([1.0, 0.0]), np.array([True, False])) == 0


class TestFigures:
    def test_all_with_intervals(self):
        c, r = drawn(2000, seed=5)
        found = json.loads(json.dumps(figures(c, r, resamples=200)))
        assert (found["n"], found["right"], found["bins"]) == (2000, pytest.approx(r.mean()), 15)
        assert found["mean_confidence"] == pytest.approx(c.mean())
        values = {
            "expected_calibration_error": expected_calibration_error(c, r),
            "expected_calibration_error_equal_width": expected_calibration_error(c, r, equal="width"),
            "maximum_calibration_error": maximum_calibration_error(c, r),
            "brier": brier(c, r),
            "log_loss": log_loss(c, r),
            "auroc": auroc(c, r),
        }
        for name, value in values.items():
            assert found[name]["value"] == pytest.approx(value)
            assert found[name]["low"] < found[name]["high"]
        for name in ("brier", "log_loss", "auroc"):
            assert found[name]["low"] < values[name] < found[name]["high"]

    def test_the_interval_of_a_mean_is_the_normal_one(self):
        c, r = drawn(4000, seed=6)
        found = figures(c, r, resamples=2000)["brier"]
        error = ((c - r) ** 2).std() / math.sqrt(4000)
        ends = brier(c, r) - 1.96 * error, brier(c, r) + 1.96 * error
        assert (found["low"], found["high"]) == pytest.approx(ends, abs=0.15 * error)

    def test_the_seed_and_not_the_order_decides(self):
        c, r = drawn(300, seed=7)
        order = np.random.default_rng(0).permutation(300)
        first, second = figures(c, r, resamples=50), figures(c[order], r[order], resamples=50)
        for name in ("brier", "auroc", "expected_calibration_error"):
            assert first[name] == pytest.approx(second[name])
        assert figures(c, r, resamples=50, seed=1)["brier"]["low"] != first["brier"]["low"]

    def test_what_is_not_defined_is_none(self):
        found = figures(np.array([0.9, 0.8]), np.array([True, True]), resamples=20)
        assert found["auroc"] == {"value": None, "low": None, "high": None}
        assert found["brier"]["value"] == pytest.approx(0.025)
        with pytest.raises(ValueError, match="no answers"):
            figures(np.zeros(0), np.zeros(0, bool))


def test_the_plot_shows_every_bin_where_it_is():
    c, r = drawn(1500, seed=8)
    drawing = ElementTree.fromstring(reliability_svg(c, r))
    assert drawing.tag == f"{SVG}svg"
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {"Reliability", "confidence", "share right", "perfect", "0%", "100%"} <= set(texts)
    assert any("1,500 answers in 15 bins of equal mass" in text for text in texts)
    dots = [group.find(f"{SVG}circle") for group in drawing.iter(f"{SVG}g")]
    table = reliability(c, r)
    assert len(dots) == len(table)
    diagonal = drawing.find(f"{SVG}polyline").get("points")
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in diagonal.split())
    for dot, one in zip(dots, table, strict=True):
        assert (float(dot.get("cx")) - x0) / (x1 - x0) == pytest.approx(one.confidence, abs=1e-3)
        assert (float(dot.get("cy")) - y0) / (y1 - y0) == pytest.approx(one.right, abs=1e-3)
    assert "prefers-color-scheme:dark" in drawing.find(f"{SVG}style").text
