from __future__ import annotations

import math
import statistics

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphita_lab.evaluation.scoring import results
from alphita_lab.evaluation.scoring.results import (
    ALL,
    Figure,
    Metric,
    Result,
    compare,
    figures_of,
    mean,
    merge_notes,
    scored,
    statistic_with_interval,
)

RIGHT = Metric("accuracy@1", ("right@1",))


def correlation(values) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(values.T)[0, 1])


AGREEMENT = Metric("Pearson", ("gold", "score"), correlation)


def result_of(*right, metrics=(RIGHT,), **columns) -> Result:
    return Result(pl.DataFrame({"right@1": list(right), **columns}, strict=False), metrics)


def test_figures_of_all_rows_and_of_subsets() -> None:
    own = Figure("accuracy@1", "mean of folds", 0.5, 5)
    result = result_of(
        True, False, None, True, True, language=["it", "en", "it", None, "it"], covered=[True, True, True, True, False]
    )
    result.subsets, result.figures = ("language", "covered"), [own]
    figures = figures_of(result)
    assert [(one.subset, one.value, one.n) for one in figures] == [
        (ALL, 0.75, 4),
        ("language=en", 0.0, 1),
        ("language=it", 1.0, 2),
        ("covered=False", 1.0, 1),
        ("covered=True", pytest.approx(2 / 3), 3),
        ("mean of folds", 0.5, 5),
    ]
    assert figures[-1] is own
    assert figures[0].low <= 0.75 <= figures[0].high
    assert figures[1].low is figures[1].high is None
    assert (figures[2].low, figures[2].high) == (1.0, 1.0)
    assert figures == figures_of(result)


def test_a_subset_of_rows_without_an_answer_has_no_value() -> None:
    result = result_of(None, True, kind=["a", "b"])
    result.subsets = ("kind",)
    assert [(one.subset, one.value, one.n) for one in figures_of(result)] == [
        (ALL, 1.0, 1),
        ("kind=a", None, 0),
        ("kind=b", 1.0, 1),
    ]
    assert figures_of(result_of())[0] == Figure("accuracy@1", ALL, None, 0)


@settings(max_examples=40)
@given(st.lists(st.one_of(st.none(), st.just(math.nan), st.integers(0, 5)), max_size=12), st.data())
def test_rows_in_which_a_number_is_missing_are_left_out(left, data) -> None:
    right = data.draw(st.lists(st.sampled_from([None, math.nan, 1.5]), min_size=len(left), max_size=len(left)))
    frame = pl.DataFrame({"gold": left, "score": right}, {"gold": pl.Float64, "score": pl.Float64})
    there = [
        [float(one), other]
        for one, other in zip(left, right, strict=True)
        if one is not None and other is not None and one == one and other == other
    ]
    found = scored(AGREEMENT, frame)
    assert found.dtype == np.float64
    assert found.shape == (len(there), 2)
    assert found.tolist() == there


@settings(max_examples=30)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=30), st.integers(0, 3))
def test_the_interval_of_a_mean(values, seed) -> None:
    column = np.array(values)[:, None]
    value, interval = statistic_with_interval(mean, column, seed=seed)
    assert value == pytest.approx(statistics.fmean(values))
    assert min(values) - 1e-9 <= interval[0] <= interval[1] <= max(values) + 1e-9
    # The interval of a mean is about 1.96 standard errors to either side.
    error = statistics.pstdev(values) / math.sqrt(len(values))
    if len(values) > 20:
        assert interval[1] - interval[0] == pytest.approx(2 * 1.96 * error, rel=0.25, abs=1e-9)
    assert statistic_with_interval(mean, column, seed=seed) == (value, interval)


def test_the_interval_of_a_correlation() -> None:
    rng = np.random.default_rng(0)
    gold = rng.normal(size=400)
    values = np.stack([gold, 0.6 * gold + 0.8 * rng.normal(size=400)], axis=1)
    value, (low, high) = statistic_with_interval(correlation, values)
    assert value == pytest.approx(np.corrcoef(values.T)[0, 1])
    # Fisher's transformation gives the interval of two normal variables.
    middle, error = math.atanh(value), 1.96 / math.sqrt(397)
    assert low == pytest.approx(math.tanh(middle - error), abs=0.02)
    assert high == pytest.approx(math.tanh(middle + error), abs=0.02)
    there = stats.bootstrap(
        (values[:, 0], values[:, 1]),
        lambda x, y: np.corrcoef(x, y)[0, 1],
        paired=True,
        vectorized=False,
        n_resamples=1000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (low, high) == pytest.approx((there.low, there.high), abs=0.015)


def test_statistics_that_are_not_defined() -> None:
    assert statistic_with_interval(mean, np.empty((0, 1))) == (None, None)
    assert statistic_with_interval(mean, np.array([[3.0]])) == (3.0, None)
    constant = np.ones((5, 2))
    assert statistic_with_interval(correlation, constant) == (None, None)
    # Of two rows, half of the draws are one row twice, which has no correlation.
    value, interval = statistic_with_interval(correlation, np.array([[0.0, 0.0], [1.0, 1.0]]), seed=3)
    assert value == pytest.approx(1)
    assert interval is None or interval == pytest.approx((1, 1))


def test_large_results_are_resampled_less_often(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(results, "bootstrap_interval", lambda *_, resamples, seed: asked.append(resamples) or (0, 1))
    for n in (10, 4000, 10**6):
        statistic_with_interval(mean, np.zeros((n, 1)))
    assert asked == [10_000, 5000, 1000]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_compare_is_paired_and_turns_round(seed, n) -> None:
    rng = np.random.default_rng(seed)
    ours, theirs = (result_of(*(rng.random(n) < share).tolist()) for share in (0.7, 0.4))
    (one,) = compare(ours, theirs, seed=seed)
    (other,) = compare(theirs, ours, seed=seed)
    gap = ours.rows["right@1"].to_numpy().astype(float) - theirs.rows["right@1"].to_numpy().astype(float)
    assert one["difference"] == pytest.approx(gap.mean())
    assert one["n"] == n
    assert one["low"] <= one["difference"] + 1e-9
    assert one["high"] >= one["difference"] - 1e-9
    assert 2 / (results.RESAMPLES + 1) <= one["p"] <= 1
    assert (other["difference"], other["low"], other["high"]) == pytest.approx(
        (-one["difference"], -one["high"], -one["low"])
    )
    assert other["p"] == one["p"]
    # Drawn row by row: the spread is that of the differences, not of two systems by themselves.
    if n > 20:
        error = gap.std() / math.sqrt(n)
        assert one["high"] - one["low"] == pytest.approx(2 * 1.96 * error, rel=0.3, abs=0.05)


def test_one_row_tells_no_spread() -> None:
    (one,) = compare(result_of(True), result_of(False))
    assert one == {"metric": "accuracy@1", "difference": 1.0, "low": None, "high": None, "p": None, "n": 1}


def test_p_is_that_of_a_sign_test() -> None:
    # 12 wins and 4 losses: the draws' differences are above 0 about as often as the exact probability says.
    gap = [1] * 12 + [-1] * 4 + [0] * 14
    ours = result_of(*[one > 0 for one in gap])
    theirs = result_of(*[one < 0 for one in gap])
    error = np.std(gap) / math.sqrt(len(gap))
    normal = math.erfc(np.mean(gap) / error / math.sqrt(2))
    assert compare(ours, theirs)[0]["p"] == pytest.approx(normal, abs=0.03)
    same = compare(ours, ours)[0]
    assert (same["difference"], same["p"]) == (0.0, 1.0)


def test_rows_that_one_system_could_not_score_are_left_out_of_both() -> None:
    ours = result_of(1.0, None, 0.0, 1.0, math.nan)
    theirs = result_of(0.0, 1.0, None, 1.0, 1.0)
    (one,) = compare(ours, theirs)
    assert (one["difference"], one["n"]) == (0.5, 2)
    (none,) = compare(result_of(None, 1.0), result_of(1.0, None))
    assert none == {"metric": "accuracy@1", "difference": None, "low": None, "high": None, "p": None, "n": 0}


def test_compare_takes_the_metrics_that_both_have() -> None:
    both = result_of(True, False, True, gold=[1, 2, 3], score=[3, 1, 2], metrics=(AGREEMENT, RIGHT))
    one = result_of(True, True, True)
    assert [row["metric"] for row in compare(both, one)] == ["accuracy@1"]
    assert [row["metric"] for row in compare(both, both)] == ["Pearson", "accuracy@1"]
    constant = result_of(*[True] * 3, gold=[1, 2, 3], score=[1, 1, 1]).rows
    assert compare(both, Result(constant, (AGREEMENT,)))[0]["difference"] is None


def test_results_of_other_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="answered different queries: 2 and 3"):
        compare(result_of(True, False), result_of(True, False, True))
    with pytest.raises(ValueError, match="answered different queries: 'mention' differs"):
        compare(result_of(True, mention=["cold"]), result_of(True, mention=["fever"]))
    with pytest.raises(ValueError, match="'gold' differs"):
        compare(result_of(True, gold=["C:1"]), result_of(True, gold=[None]))
    assert compare(result_of(True, mention=["cold"], gold=[None]), result_of(True, mention=["cold"], gold=[None]))


def test_notes_of_parts_become_one() -> None:
    assert merge_notes() == {}
    one = {"queries": 3, "share": 0.5, "file": "a.txt", "cased": True, "limit": None}
    other = {"queries": 4, "share": 0.25, "file": "b.txt", "cased": True, "extra": 1}
    merged = merge_notes(one, other, {"file": "b.txt", "limit": 5, "cased": False})
    assert merged == {
        "queries": 7,
        "share": 0.75,
        "file": "a.txt; b.txt",
        "cased": "True; False",
        "limit": "None; 5",
        "extra": 1,
    }
    assert merge_notes({"limit": None}, {"limit": None}) == {"limit": None}
    assert merge_notes({"limit": 5}, {"limit": None}) == {"limit": "5; None"}
    assert one["queries"] == 3
