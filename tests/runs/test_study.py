"""The one rule by which the papers' claims are judged."""

from __future__ import annotations

import json

import numpy as np
import pytest

import claims
import study
from alphita.errors import InputError

T2 = 4.302653  # Student's 97.5 % quantile for two degrees of freedom


def right(*seeds: list[int]) -> study.Float:
    """Return the items of an accuracy, one list of right and wrong a seed."""
    return np.array([[[one, 1.0] for one in seed] for seed in seeds])


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ([0.020, 0.021, 0.022], study.HOLDS),
        ([-0.020, -0.021, -0.022], study.FAILS),
        # Above 0 for certain, but by less than a point.
        ([0.005, 0.005, 0.006], study.FAILS),
        ([0.010, 0.020, 0.030], study.OPEN),
        ([0.5], study.OPEN),
    ],
)
def test_a_claim_is_judged_by_seeds_and_a_point(differences: list[float], said: str) -> None:
    first = dict(enumerate(differences))
    assert study.verdict(first, dict.fromkeys(first, 0.0))["verdict"] == said


def test_the_interval_of_figures_is_students() -> None:
    one = study.verdict({0: 0.5, 1: 0.6, 2: 0.7, 3: 9.0}, {0: 0.4, 1: 0.4, 2: 0.4})
    half = T2 * 0.1 / np.sqrt(3)
    assert (one["n"], one["mean"]) == (3, pytest.approx(0.2))
    assert (one["low"], one["high"]) == pytest.approx((0.2 - half, 0.2 + half))
    assert study.verdict({0: 1.0}, {1: 1.0}) is None


def test_items_and_seeds_are_both_in_the_interval() -> None:
    rng = np.random.default_rng(0)
    n, items = 3, 400
    # Alike but for the luck of each item in each seed, of standard error sqrt(2 p (1 - p) / (n items)). It is in the
    # spread of the seeds and in that of the items, and counts up to twice: the interval errs on the wide side.
    half = 1.96 * np.sqrt(0.5 / items / n)
    wide = []
    for _ in range(20):
        first, second = (right(*(rng.random((n, items)) < 0.5).astype(int).tolist()) for _ in range(2))
        one = study.judge(first, second)
        wide.append((one["high"] - one["low"]) / 2 / half)
    assert 1.2 < np.mean(wide) < 2
    assert one["verdict"] == study.OPEN
    # The same items each seed, and no luck in them: only the seeds are left, as in `verdict`.
    shares = [200, 220, 240]
    first = np.array([[[share / items, 1.0]] * items for share in shares])
    second = np.array([[[0.4, 1.0]] * items] * 3)
    one = study.judge(first, second)
    other = study.verdict({seed: share / items for seed, share in enumerate(shares)}, dict.fromkeys(range(3), 0.4))
    assert one == pytest.approx(other)


def test_items_are_paired_and_figures_are_ratios_of_sums() -> None:
    # The first is right on twenty more of each seed's items: paired, that is certain.
    base = [1] * 150 + [0] * 50
    better = [1] * 170 + [0] * 30
    assert study.judge(right(base, base, base), right(base, base, base))["verdict"] == study.FAILS
    paired = study.judge(right(better, better, better), right(base, base, base))
    shuffled = [*better[100:], *better[:100]]
    assert paired["mean"] == pytest.approx(0.1)
    unpaired = study.judge(right(shuffled, shuffled, shuffled), right(base, base, base))
    assert unpaired["high"] - unpaired["low"] > 1.5 * (paired["high"] - paired["low"])
    # 2 tp over 2 tp + fp + fn of two terms: (2 + 4) / (4 + 4).
    counted = np.array([[[2.0, 4.0], [4.0, 4.0]]])
    assert study.judge(counted, np.array([[[0.0, 1.0], [0.0, 1.0]]]))["mean"] == pytest.approx(0.75)
    with pytest.raises(ValueError, match="other seeds or items"):
        study.judge(counted, counted[:, :1])


def test_a_claim_is_read_from_its_figures_and_a_missing_row_is_an_error(tmp_path) -> None:
    rows = [
        {"name": "base", "title": "B", "seeds": [0], "figures": {"mcsm": {"0": 5.0}}},
        {"name": "a", "title": "A", "seeds": [0, 1], "figures": {"mcsm": {"values": [5.05, 5.06]}}},
    ]
    (tmp_path / "f.json").write_text(json.dumps({"rows": rows}))
    lines = [["claim", "where", "kind", "first", "second", "measure", "column", "range", "file", "note"]]
    lines += [
        ["up", "t", "over", "a", "base", "M", "mcsm", "11.09", "f", ""],
        ["same", "t", *["alike", "a", "base", "M", "mcsm"]],
    ]
    lines[2] += ["11.09", "f", "untrained"]
    (tmp_path / claims.CLAIMS).write_text("".join("\t".join(line) + "\n" for line in lines))
    up, same = claims.of_folder(tmp_path).splitlines()[2:]
    # 0.055 of 11.09 is half a point.
    assert up == "| up | t | [M](f.json) | 5.05 | 5.00 | +0.5 [-0.1, +1.1] | 2 | cannot be told |"
    assert "cannot be told; one of them has learnt nothing yet" in same
    (tmp_path / claims.CLAIMS).write_text(
        "".join("\t".join(line) + "\n" for line in [*lines, ["x", "t", "over", "no", *lines[1][4:]]])
    )
    with pytest.raises(InputError, match="has no such figures"):
        claims.of_folder(tmp_path)
