"""Risk and coverage: exact limits, certified thresholds, the table, the curve."""

from __future__ import annotations

import json
from fractions import Fraction
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphita.calibrate import risk_coverage
from alphita.calibrate.risk_coverage import (
    Certificate,
    RiskCoverage,
    certify,
    clopper_pearson,
    curve,
    estimate,
    finite_tail,
    finite_upper_limit,
    least_without_error,
    most_wrong,
    risk_coverage_svg,
    tail,
    threshold_order,
    upper_limit,
)
from tests.reference import calibration as reference

SVG = "{http://www.w3.org/2000/svg}"
POPULATION = "strings made up for the test"


def drawn(n, seed):
    """Confidences, and answers that are right as often as the confidence says; many are sure, some are not."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(2, 0.15, n)
    return confidence, rng.random(n) < confidence


def certified(n, seed, *, error=0.01, **options):
    fit, cal = drawn(n, [seed, 0]), drawn(n, [seed, 1])
    return certify(*cal, error=error, order=threshold_order(*fit, error=error), **options)


# What the confidences of `drawn` are truly worth: the error among those at or above a threshold.
SURE = np.sort(np.random.default_rng(12345).beta(2, 0.15, 2_000_000))
MEAN_FROM = np.cumsum(1 - SURE[::-1])[::-1] / np.arange(len(SURE), 0, -1)


def true_error(threshold):
    return MEAN_FROM[np.searchsorted(SURE, threshold)]


class TestGuarantee:
    @pytest.mark.parametrize("error", [0.01, 0.05])
    def test_the_true_error_is_above_the_allowed_in_at_most_delta_of_the_runs(self, error):
        runs = [certified(1500, seed, error=error) for seed in range(400)]
        given_ = [run for run in runs if run.threshold is not None]
        broken = sum(true_error(run.threshold) > error for run in given_)
        # 33 or more of 400 would come by chance once in 300 times even at 5%.
        assert broken <= 32
        assert tail(32, 400, 0.05) > 0.996

    @pytest.mark.parametrize(("error", "n"), [(0.01, 3000), (0.05, 1000)])
    def test_it_is_not_vacuous(self, error, n):
        runs = [certified(n, seed, error=error) for seed in range(60)]
        # MEAN_FROM falls as the threshold grows.
        possible = np.searchsorted(MEAN_FROM[::-1], error) / len(SURE)
        shares = [run.accepted / run.n if run.threshold is not None else 0.0 for run in runs]
        assert sum(share > 0 for share in shares) >= 55
        assert np.mean(shares) > 0.7 * possible

    def test_it_is_near_delta_where_the_order_is_one_threshold_at_the_limit(self):
        rng = np.random.default_rng(0)
        passed = 0
        for _ in range(4000):
            right = rng.random(1000) >= 0.05
            passed += certify(np.ones(1000), right, error=0.05, order=np.array([0.5])).threshold is not None
        # The binomial test's own size at 1,000, 4.7% or so: not far below 5%, or it would waste what is allowed.
        size = tail(risk_coverage.most_wrong(1000, 0.05, 0.05), 1000, 0.05)
        assert passed / 4000 == pytest.approx(size, abs=4 * np.sqrt(size / 4000))
        assert 0.03 < size <= 0.05


@st.composite
def calibrations(draw):
    n = draw(st.integers(0, 60))
    confidence = draw(st.lists(st.integers(0, 10), min_size=n, max_size=n))
    right = draw(st.lists(st.sampled_from([True, True, True, False]), min_size=n, max_size=n))
    order = draw(st.lists(st.integers(1, 11), max_size=6, unique=True))
    return np.array(confidence, float) / 10, np.array(right, bool), np.array(order, float) / 10


class TestCertify:
    @settings(deadline=None)
    @given(calibrations(), st.sampled_from([Fraction(1, 10), Fraction(3, 10), Fraction(6, 10)]))
    def test_like_the_definition(self, case, error):
        confidence, right, order = case
        wanted = reference.certified(confidence.tolist(), right.tolist(), error, Fraction(1, 20), order.tolist())
        found = certify(confidence, right, error=float(error), order=order)
        shuffled = np.random.default_rng(0).permutation(len(right))
        assert certify(confidence[shuffled], right[shuffled], error=float(error), order=order) == found
        assert found.n == len(right)
        if wanted is None:
            assert (found.threshold, found.bound) == (None, None)
            assert found.reason
        else:
            assert (found.threshold, found.accepted, found.wrong) == wanted
            assert found.bound == upper_limit(found.wrong, found.accepted)
            assert found.bound <= float(error) + 1e-12
            assert found.reason is None

    def test_known_cases_and_reasons(self):
        order = np.array([0.5])
        found = certify(np.ones(299), np.ones(299, bool), error=0.01, order=order)
        assert (found.threshold, found.accepted, found.wrong, found.tested) == (0.5, 299, 0, 1)
        assert found.bound == pytest.approx(1 - 0.05 ** (1 / 299))
        found = certify(np.ones(298), np.ones(298, bool), error=0.01, order=order)
        assert found.threshold is None
        assert found.reason == "only 298 accepted at 0.5, 0 wrong; 299 without an error are needed"
        found = certify(np.ones(1000), np.arange(1000) >= 12, error=0.01, order=np.array([0.9, 0.1]))
        assert (found.threshold, found.tested, found.accepted, found.wrong) == (None, 1, 1000, 12)
        assert found.reason == "12 of 1,000 accepted at 0.9 are wrong; at most 4 may be"
        assert tail(4, 1000, 0.01) <= 0.05 < tail(5, 1000, 0.01)
        found = certify(np.zeros(3), np.ones(3, bool), order=threshold_order(np.zeros(3), np.ones(3, bool)))
        assert (found.threshold, found.tested) == (None, 0)
        assert found.reason == "no answer has a confidence above 0"

    def test_nothing_after_the_first_failure_counts(self):
        confidence = np.repeat([0.9, 0.8, 0.7], [400, 100, 5000])
        right = np.ones(5500, bool)
        right[400:440] = False
        for error, threshold, tested in ((0.01, 0.9, 2), (0.15, 0.7, 3)):
            found = certify(confidence, right, error=error, order=np.array([0.9, 0.8, 0.7]))
            assert (found.threshold, found.tested) == (threshold, tested)
        # 0.7 alone would have passed.
        assert certify(confidence, right, error=0.01, order=np.array([0.7])).threshold == 0.7

    @pytest.mark.parametrize(("error", "delta"), [(0, 0.05), (1, 0.05), (0.01, 0), (0.01, 0.5)])
    def test_refuses_what_is_no_share(self, error, delta):
        with pytest.raises(ValueError, match="must lie between"):
            certify(np.ones(3), np.ones(3, bool), error=error, delta=delta, order=np.ones(1))


class TestOrder:
    def test_falls_in_steps_of_a_hundredth_to_the_last(self):
        confidence, right = drawn(5000, 0)
        order = threshold_order(confidence, right, error=0.05)
        assert (np.diff(order) < 0).all()
        assert order[-1] == confidence.min()
        accepted = (confidence >= order[:, None]).sum(axis=1)
        assert (np.diff(accepted) <= 51).all()
        assert set(order) <= set(confidence)

    def test_begins_where_it_may_pass(self):
        # The 200 most confident cannot pass at 1%; the first 600 can; then errors begin.
        confidence = np.linspace(1, 0.5, 2000)
        right = np.arange(2000) < 900
        order = threshold_order(confidence, right, error=0.01)
        accepted = int((confidence >= order[0]).sum())
        assert 299 <= accepted <= 900
        found = certify(confidence, right, error=0.01, order=order)
        assert found.threshold is not None
        assert found.accepted == pytest.approx(900, abs=25)

    def test_begins_lower_for_fewer_data_to_test_on(self):
        confidence, right = drawn(8000, 1)
        for_many, for_few = (threshold_order(confidence, right, error=0.02, size=size)[0] for size in (8000, 800))
        # 8,000 have enough among their most confident tenth, 800 have not.
        assert (confidence >= for_few).mean() > (confidence >= for_many).mean()
        assert (confidence >= for_few).mean() * 800 >= 149

    def test_where_nothing_can_pass_it_begins_where_errors_are_fewest(self):
        confidence = np.linspace(1, 0.5, 100)
        right = np.arange(100) >= 20
        order = threshold_order(confidence, right, error=0.01)
        assert order[0] == confidence.min()

    def test_the_allowed_error_and_nothing_else_decides(self):
        confidence = np.repeat([0.9, 0.0], [400, 400])
        assert threshold_order(confidence, confidence > 0, error=0.01).tolist() == [0.9]  # 0 is never accepted
        confidence, right = drawn(3000, 2)
        strict, loose = (threshold_order(confidence, right, error=error) for error in (0.01, 0.1))
        assert len(strict) < len(loose)
        assert strict[-1] == loose[-1]


class TestTable:
    def made(self):
        fit, (confidence, right) = drawn(3000, 3), drawn(3000, 4)
        named = np.arange(3000) % 10 != 0
        nil = np.arange(3000) % 20 == 0
        nil[1] = True
        given_ = np.where(nil, 0.0, confidence)
        errors = (0.0001, 0.01, 0.05)
        certificates = {
            error: certify(given_, right, error=error, order=threshold_order(*fit, error=error)) for error in errors
        }
        made = risk_coverage.table(
            confidence, right, certificates=certificates, population=POPULATION, nil=nil, names_concept=named
        )
        return made, certificates, confidence, right, nil

    def test_shares(self):
        made, certificates, confidence, right, nil = self.made()
        assert [row.error for row in made.rows] == [0.0001, 0.01, 0.05]
        for row in made.rows:
            assert row.accepted + row.review + row.nil == pytest.approx(1)
            assert row.nil == nil.mean()
            certificate = certificates[row.error]
            assert (row.threshold, row.bound, row.reason) == (
                certificate.threshold,
                certificate.bound,
                certificate.reason,
            )
            if row.threshold is not None:
                accepted = (confidence >= row.threshold) & ~nil
                assert (row.accepted, row.wrong) == (accepted.mean(), (accepted & ~right).sum())
        assert made.rows[0].threshold is None
        assert (made.rows[0].accepted, made.rows[0].review) == (0, pytest.approx(1 - nil.mean()))
        assert 0 < made.rows[1].accepted < made.rows[2].accepted
        assert (made.n, made.level, made.population) == (3000, 0.95, POPULATION)
        assert (made.nil_lost, made.nil_found) == (1 / 2700, 0.5)

    def test_text(self):
        made, certificates, *_ = self.made()
        assert RiskCoverage.from_json(json.loads(json.dumps(made.to_json()))) == made
        lines = made.text().splitlines()
        assert lines[0] == f"Holds for: {POPULATION} (3,000 answers), with 95% probability"
        assert lines[1].split() == ["allowed", "threshold", "accepted", "review", "NIL", "errors", "bound"]
        assert "cannot certify: only" in lines[2]
        assert "29,956 without an error are needed" in lines[2]
        cells = lines[3].split()
        assert cells[0] == "1.0%"
        threshold, bound = float(cells[1]), float(cells[6].rstrip("%")) / 100
        assert threshold <= certificates[0.01].threshold < threshold + 1e-4
        assert bound - 1e-4 < certificates[0.01].bound <= bound + 1e-12
        assert len(lines) == 5

    @pytest.mark.parametrize(
        ("bound", "given", "said"),
        [
            (0.04701, 120, "certified: at most 4.8% of the NIL answers have a concept (3 of 120 here)"),
            (None, 120, "estimated, not certified: 3 of the 120 NIL answers have a concept"),
            (None, 0, "no answer is NIL: 9 of the 60 surest strings have a concept, and to certify it, none of 59 may"),
        ],
    )
    def test_the_error_of_nil_in_words(self, bound, given, said):
        found = Certificate(0.05, 0.05, 1000, bound and 0.9, 60, 9, bound, 1)
        text = risk_coverage.nil_text(found, given, min(given, 3))
        assert text.startswith(f"NIL at an allowed error of 5%: {said}")

    def test_allowed_errors_are_not_rounded_away(self):
        certificate = certify(np.ones(1000), np.ones(1000, bool), error=0.005, order=np.array([0.5]))
        made = risk_coverage.table(
            np.ones(1000), np.ones(1000, bool), certificates={0.005: certificate}, population=POPULATION
        )
        assert made.text().splitlines()[2].split() == ["0.5%", "0.5000", "100.0%", "0.0%", "0.0%", "0", "0.30%"]
        assert (made.nil_lost, made.nil_found) == (None, None)
        with pytest.raises(ValueError, match=r"the certificate for 0\.01 was made on other data"):
            risk_coverage.table(
                np.ones(1000),
                np.ones(1000, bool),
                certificates={0.01: Certificate(0.01, 0.05, 1000, 0.5, 900, 1, 0.006, 1)},
                population=POPULATION,
            )


answers = st.lists(st.tuples(st.integers(-10, 10), st.booleans()), min_size=1, max_size=60)


class TestCurve:
    @settings(deadline=None)
    @given(answers)
    def test_like_the_definition(self, data):
        score, right = np.array([float(s) for s, _ in data]), np.array([r for _, r in data])
        wanted = reference.risk_coverage(score.tolist(), right.tolist())
        found = curve(score, right)
        assert [tuple(point) for point in zip(*found, strict=True)] == [pytest.approx(point) for point in wanted]


class TestPlot:
    def test_shows_curve_and_certificates_where_they_are(self):
        confidence, right = drawn(2000, 6)
        certificates = {error: certified(2000, 7, error=error) for error in (0.0001, 0.02, 0.05)}
        drawing = ElementTree.fromstring(risk_coverage_svg(confidence, right, certificates=certificates))
        texts = [text.text for text in drawing.iter(f"{SVG}text")]
        assert {"Risk and coverage", "share accepted", "share of the accepted that is wrong", "measured"} <= set(texts)
        assert len(list(drawing.iter(f"{SVG}g"))) == 2
        path = drawing.find(f"{SVG}polyline").get("points").split()
        assert 300 <= len(path) <= risk_coverage.MAX_POINTS
        # The last point is the whole, at the right edge; its height is the error of all.
        (x, y), grid = map(float, path[-1].split(",")), [line.attrib for line in drawing.iter(f"{SVG}line")]
        across = [line for line in grid if line["y1"] == line["y2"]]
        assert x == float(across[0]["x2"])
        heights = sorted((float(line["y1"]) for line in across), reverse=True)
        ticks = [text.text for text in drawing.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
        top = float(ticks[-1].rstrip("%")) / 100
        assert (heights[0] - y) / (heights[0] - heights[-1]) * top == pytest.approx((~right).mean(), abs=1e-3)

    @settings(deadline=None)
    @given(answers)
    def test_anything_gives_a_plot_inside_its_frame(self, data):
        score, right = np.array([float(s) for s, _ in data]), np.array([r for _, r in data])
        drawing = ElementTree.fromstring(risk_coverage_svg(score, right))
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for point in drawing.find(f"{SVG}polyline").get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


def test_an_estimate_accepts_most_for_the_error():
    confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.0])
    right = np.array([True, True, False, True, True])
    # (0 + 1) / (2 + 2) is 0.25, (1 + 1) / (4 + 2) a third; what has no confidence is never accepted.
    assert estimate(confidence, right, error=0.25) == 0.8
    assert estimate(confidence, right, error=0.34) == 0.6
    assert estimate(confidence, right, error=0.1) is None
    assert estimate(np.zeros(3), np.ones(3, bool), error=0.9) is None


# Exact limits of a share of errors, against fractions.


@st.composite
def found(draw, most=120):
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n)), n


@settings(deadline=None)
@given(found(), st.integers(1, 99), st.sampled_from([0.025, 0.05, 0.2]))
def test_binomial_tail_and_limits(case, percent, delta):
    wrong, n = case
    wanted = float(reference.binomial_tail(wrong, n, Fraction(percent, 100)))
    assert tail(wrong, n, percent / 100) == pytest.approx(wanted, rel=1e-9, abs=1e-300)
    # At the upper limit the tail is delta.
    limit = upper_limit(wrong, n, delta)
    if wrong == n:
        assert limit == 1
    else:
        assert float(reference.binomial_tail(wrong, n, Fraction(limit))) == pytest.approx(delta, rel=1e-7)
    low, high = clopper_pearson(wrong, n)
    assert low <= wrong / n <= high == upper_limit(wrong, n, 0.025)
    assert (low, high) == pytest.approx(tuple(stats.binomtest(wrong, n).proportion_ci(0.95, method="exact")), abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 300), st.sampled_from([0.01, 0.05, 0.3, 0.9]), st.sampled_from([0.01, 0.05, 0.3]))
def test_the_most_errors_that_pass(n, error, delta):
    passing = [k for k in range(n + 1) if tail(k, n, error) <= delta]
    assert most_wrong(n, error, delta) == max(passing, default=-1)


@settings(deadline=None)
@given(found(60), st.data(), st.sampled_from([0.01, 0.05, 0.4]))
def test_limits_in_a_finite_population(case, data, delta):
    wrong, n = case
    population = data.draw(st.integers(n, 60))
    all_wrong = data.draw(st.integers(0, population))
    wanted = float(reference.hypergeometric_tail(wrong, n, all_wrong, population))
    assert finite_tail(wrong, n, all_wrong, population) == pytest.approx(wanted, abs=1e-12)
    # Where a tail is `delta` itself, either side of it is right in floats.
    low, high = (reference.finite_upper_limit(wrong, n, population, delta * (1 + side)) for side in (1e-9, -1e-9))
    assert low <= finite_upper_limit(wrong, n, population, delta) <= high


def test_known_values():
    # 3 of 20: the interval of the textbooks.
    assert clopper_pearson(3, 20) == pytest.approx((0.0321, 0.3789), abs=1e-4)
    assert (upper_limit(0, 0), tail(0, 0, 0.01), clopper_pearson(0, 0)) == (1.0, 1.0, (0.0, 1.0))
    for error, delta, needed in (
        *((0.01, 0.05, 299), (0.005, 0.05, 598), (0.02, 0.05, 149)),
        *((0.05, 0.05, 59), (0.1, 0.05, 29), (0.5, 0.25, 2)),
    ):
        assert least_without_error(error, delta) == needed
        assert tail(0, needed, error) <= delta < tail(0, needed - 1, error)
    # All drawn is all known, and few of very many is the binomial.
    assert finite_upper_limit(3, 50, 50) == 3
    for wrong, n, population in ((0, 299, 1_000_000), (7, 400, 10_000_000)):
        limit = finite_upper_limit(wrong, n, population) / population
        assert limit == pytest.approx(upper_limit(wrong, n), rel=1e-3)
    # Half of the file reviewed says more than as many of an endless one.
    assert finite_upper_limit(2, 100, 200) / 200 == 0.05 < upper_limit(2, 100)
