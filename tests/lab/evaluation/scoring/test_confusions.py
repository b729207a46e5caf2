from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita_lab.evaluation.scoring import confusions
from alphita_lab.evaluation.scoring.results import Metric, Result
from tests.reference import errors as reference

words = st.text("ab ", max_size=45).map(str.strip)
row = st.fixed_dictionaries(
    {
        "mention": words,
        "gold": st.sampled_from("XYZ"),
        "gold_name": st.sampled_from(["x", None]),
        "overlap": st.sampled_from([None, 0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 0.9, 1.0]),
        "predicted": st.sampled_from([[], ["X"], ["Y", "X"]]),
        "matched": st.sampled_from([["y"], ["x", "y"]]),
        "similarity": st.floats(-1, 1, width=32),
        "right@1": st.sampled_from([True, False, None]),
        "language": st.sampled_from(["it", "en", None]),
        "seen": st.booleans(),
    }
)
SCHEMA = {
    "mention": pl.String,
    "gold": pl.String,
    "gold_name": pl.String,
    "overlap": pl.Float64,
    "predicted": pl.List(pl.String),
    "matched": pl.List(pl.String),
    "similarity": pl.Float32,
    "right@1": pl.Boolean,
    "language": pl.String,
    "seen": pl.Boolean,
}


def linking(rows: list[dict]) -> Result:
    return Result(pl.DataFrame(rows, SCHEMA), (Metric("accuracy@1", ("right@1",)),), ("seen",))


def pairs(gold: list[float], ours: list[float | None]) -> Result:
    schema = {"left": pl.String, "right": pl.String, "gold": pl.Float64, "similarity": pl.Float64, "set": pl.Int64}
    texts = [f"left {place}" for place in range(len(gold))]
    rows = pl.DataFrame(
        {"left": texts, "right": texts, "gold": gold, "similarity": ours, "set": [0] * len(gold)}, schema
    )
    return Result(rows, (Metric("Spearman", ("gold", "similarity", "set"), lambda values: 0.0),))


@given(st.lists(row, max_size=40))
def test_linking_against_plain_counting(rows) -> None:
    found = confusions.analyse(linking(rows), "normalization")
    json.dumps(found, allow_nan=False)
    scored = [one for one in rows if one["right@1"] is not None]
    assert found["unscored"] == len(rows) - len(scored)
    by = {one["name"]: {group["value"]: group for group in one["groups"]} for one in found["by"]}
    expected = {
        "words in the mention": reference.groups_by_words(scored),
        "characters in the mention": reference.groups_by_characters(scored),
        "overlap with the nearest gold name": reference.groups_by_overlap(scored),
        "seen": reference.groups_by_column(scored, "seen"),
        "language": reference.groups_by_column(scored, "language"),
    }
    # One group alone tells nothing and is left out.
    assert set(by) == {name for name, groups in expected.items() if len(groups) > 1}
    for name, groups in by.items():
        assert {value: (one["n"], one["score"]) for value, one in groups.items()} == {
            value: (n, pytest.approx(score)) for value, (n, score) in expected[name].items()
        }
        for group in groups.values():
            if group["n"] > 1:
                assert 0 <= group["low"] <= group["score"] <= group["high"] <= 1
            else:
                assert group["low"] is None
    if scored:
        counts = reference.confusions(scored)
        told = {
            (one["gold"], one["gold_name"], one["predicted"], one["matched"]): one["count"]
            for one in found["confusions"]
        }
        assert told == dict(counts)
        assert [one["count"] for one in found["confusions"]] == sorted(counts.values(), reverse=True)
        assert sum(found["similarity"]["right"]) == sum(one["right@1"] for one in scored)
        assert sum(found["similarity"]["wrong"]) == sum(not one["right@1"] for one in scored)


def test_the_commonest_and_the_surest_wrong_answers() -> None:
    base = {
        "mention": "m",
        "gold": "A",
        "gold_name": "a",
        "overlap": 0.5,
        "predicted": ["B", "A"],
        "matched": ["b"],
        "similarity": 0.5,
        "right@1": False,
        "language": "en",
        "seen": False,
    }
    rows = [base | {"mention": f"m {place}"} for place in range(3)]
    rows += [base | {"predicted": ["C"], "matched": ["c"], "similarity": 0.9, "mention": "sure"}] * 2
    rows += [
        base | {"right@1": True, "similarity": 1.0},
        base | {"predicted": [], "matched": [], "similarity": math.nan},
    ]
    found = confusions.analyse(linking(rows), "normalization")
    json.dumps(found, allow_nan=False)
    assert found["confusions"][0] == {
        "gold": "A",
        "gold_name": "a",
        "predicted": "B",
        "matched": "b",
        "count": 3,
        "example": "m 0",
    }
    # A mention that stands twice is told once.
    assert [one["mention"] for one in found["examples"]] == ["sure", "m 0", "m 1", "m 2"]
    assert found["examples"][0]["similarity"] == pytest.approx(0.9)
    assert found["similarity"]["edges"][0] == 0
    assert found["similarity"]["edges"][-1] == 1


def test_intervals_are_those_of_the_bootstrap() -> None:
    from alphita_lab.evaluation.scoring.results import bootstrap_interval

    right = np.random.default_rng(0).random(400) < 0.3
    rows = pl.DataFrame({"right@1": right, "group": ["a", "b"] * 200})
    found = confusions.analyse(Result(rows, (Metric("accuracy", ("right@1",)),)), "relations")
    for group, own in zip(found["by"][0]["groups"], (right[::2], right[1::2]), strict=True):
        assert (group["low"], group["high"]) == pytest.approx(bootstrap_interval(own), abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5) | st.none()), max_size=30))
def test_pairs_against_plain_ranks(values) -> None:
    gold, ours = [float(one) for one, _ in values], [None if one is None else float(one) for _, one in values]
    found = confusions.analyse(pairs(gold, ours), "similarity")
    json.dumps(found, allow_nan=False)
    known = [(a, b) for a, b in zip(gold, ours, strict=True) if b is not None]
    assert found["unscored"] == len(values) - len(known)
    distances = sorted(reference.disagreement([a for a, _ in known], [b for _, b in known]), reverse=True)
    told = [abs(one["gold_rank"] - one["system_rank"]) for one in found["disagreements"]]
    assert told == pytest.approx(distances[: confusions.SHOWN] if len(known) > 1 else [])
    assert all(set(one) >= {"left", "right", "gold", "similarity"} for one in found["disagreements"])


def test_each_set_has_ranks_of_its_own() -> None:
    # Two scales; the second set is in perfect order, the first is not.
    found = pairs([1.0, 2.0, 3.0, 800.0, 1200.0, 1600.0], [0.9, 0.5, 0.6, 0.1, 0.2, 0.3])
    rows = found.rows.with_columns(set=pl.Series([0, 0, 0, 1, 1, 1]))
    told = confusions.analyse(Result(rows, found.metrics), "similarity")["disagreements"]
    shares = {one["left"]: (one["gold_rank"], one["system_rank"]) for one in told}
    assert shares["left 0"] == (0.25, 0.75)
    assert shares["left 5"] == (0.75, 0.75)


def test_classes_and_other_results() -> None:
    rows = pl.DataFrame(
        {
            "relation": ["is_a", "is_a", "part_of"],
            "predicted": ["part_of", "part_of", "part_of"],
            "right": [False, False, True],
        }
    )
    found = confusions.analyse(Result(rows, (Metric("accuracy", ("right",)),), ("relation",)), "relations")
    assert found["confusions"] == [{"gold": "is_a", "predicted": "part_of", "count": 2}]
    assert [group["score"] for group in found["by"][0]["groups"]] == [0, 1]
    # Numbers that are no rights and wrongs, e.g. a rank or MCSM.
    rows = pl.DataFrame({"mcsm": [1.0, 2.5, None, 3.0], "type": ["a", "b", "b", "b"]})
    found = confusions.analyse(Result(rows, (Metric("MCSM", ("mcsm",)),), ("type",)), "similarity")
    assert found["unscored"] == 1
    assert [(one["value"], one["n"], one["score"]) for one in found["by"][0]["groups"]] == [("a", 1, 1), ("b", 2, 2.75)]
    assert set(found) == {"metric", "unscored", "by"}
    # A metric of several columns has no score of one row.
    rows = pl.DataFrame({"tp": [1], "fp": [2]})
    assert confusions.analyse(Result(rows, (Metric("F1", ("tp", "fp"), lambda _: 0.0),)), "clustering") == {
        "metric": "F1"
    }


def test_the_first_metric_that_scores_rows_is_looked_at() -> None:
    rows = pl.DataFrame({"tp": [1, 2], "fp": [2, 1], "right": [True, False], "type": ["a", "b"]})
    metrics = (Metric("set F1", ("tp", "fp"), lambda _: 0.0), Metric("accuracy", ("right",)))
    found = confusions.analyse(Result(rows, metrics), "normalization")
    assert found["metric"] == "accuracy"
    assert [one["score"] for one in found["by"][0]["groups"]] == [1, 0]


def test_many_values_are_no_groups() -> None:
    rows = pl.DataFrame({"right": [True, False] * 40, "type": [str(place) for place in range(80)]})
    assert confusions.analyse(Result(rows, (Metric("accuracy", ("right",)),)), "relations")["by"] == []
