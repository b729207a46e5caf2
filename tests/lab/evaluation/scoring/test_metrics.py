from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita_lab.evaluation.scoring.results import accuracy_at_k, bootstrap_interval, score
from tests.reference import metrics as reference

ids = st.sampled_from(["A:1", "A:2", "A:3", "A:4"])
rankings_of = st.lists(st.one_of(ids, st.none()), max_size=4)
gold_of = st.one_of(st.none(), ids, st.sets(ids, min_size=1), st.lists(ids, min_size=1))


def test_accuracy_by_hand() -> None:
    rankings = [["A:1", "A:2"], ["A:2", "A:1"], [], [None, "A:1"], [None], ["A:3"]]
    gold = ["A:1", "A:1", None, None, "A:1", {"A:9", "A:3"}]
    assert accuracy_at_k(rankings, gold, 1).tolist() == [True, False, True, True, False, True]
    assert accuracy_at_k(rankings, gold, 2).tolist() == [True, True, True, True, False, True]
    # NIL in second place is no answer "none".
    assert not accuracy_at_k([["A:1", None]], [None], 5)[0]


@given(st.lists(st.tuples(rankings_of, gold_of), min_size=1, max_size=8), st.integers(1, 5))
def test_accuracy_equals_the_reference(pairs, k) -> None:
    rankings, gold = [ranking for ranking, _ in pairs], [answer for _, answer in pairs]
    right = accuracy_at_k(rankings, gold, k)
    assert right.mean() == reference.accuracy(rankings, gold, k)
    assert (right <= accuracy_at_k(rankings, gold, k + 1)).all()


def test_wrong_use_is_named() -> None:
    with pytest.raises(ValueError, match="1 rankings for 2 gold answers"):
        accuracy_at_k([["A:1"]], ["A:1", "A:2"], 1)
    with pytest.raises(ValueError, match="k must be 1 or more, not 0"):
        accuracy_at_k([["A:1"]], ["A:1"], 0)
    with pytest.raises(ValueError, match="query 1 has no gold concept; NIL is None"):
        accuracy_at_k([["A:1"], []], ["A:1", []], 1)
    with pytest.raises(ValueError, match=r"not an array of shape \(0,\)"):
        bootstrap_interval([])


@pytest.mark.parametrize(("n", "rights"), [(40, 26), (300, 183), (300, 3), (25, 0)])
def test_interval_of_rights_and_wrongs_is_the_binomial_one(n, rights) -> None:
    low, high = bootstrap_interval(np.arange(n) < rights)
    assert low == pytest.approx(reference.binomial_quantile(n, rights / n, 0.025), abs=1.01 / n)
    assert high == pytest.approx(reference.binomial_quantile(n, rights / n, 0.975), abs=1.01 / n)
    assert low <= rights / n <= high


def test_interval_is_seeded_and_narrows() -> None:
    values = np.random.default_rng(0).normal(size=400)
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)
    low, high = bootstrap_interval(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.05)


def test_score_has_one_shape() -> None:
    figures = score([["A:1", "A:2"], ["A:2", "A:1"]], ["A:1", "A:1"], ks=(1, 3))
    assert figures["n"] == 2
    assert figures["acc1"] == 0.5
    assert figures["acc3"] == 1.0
    assert figures["acc1_interval"] == [0.0, 1.0]
    assert figures["acc3_interval"] == [1.0, 1.0]
