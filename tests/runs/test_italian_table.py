from __future__ import annotations

from typing import Any

import pytest

import italian


def row(name: str, *, seeded: bool = True, **figures: dict[int, float]) -> dict[str, Any]:
    seeds = sorted({seed for of_seed in figures.values() for seed in of_seed})
    return {"name": name, "title": name.upper(), "seeds": seeds, "seeded": seeded, "figures": figures}


def test_the_figures_of_a_report_are_put_into_columns() -> None:
    found = italian.figures_in(
        {
            ("mcsm", "MCSM", "mean of types"): 5.0,
            ("mcsm", "MCSM", "type=b"): 4.0,
            ("mcsm", "MCSM", "type=a"): 6.0,
            ("mcsm", "standard deviation", "type=a"): 1.0,
            ("clustering_pairs", "F1", "all"): 0.25,
            ("clustering_pairs", "theta", "all"): 0.9,
            ("clustering_pairs", "F1, tuned theta", "all"): 0.2,
            ("relatedness", "Spearman", "dataset=MiniMayoSRS physicians"): 0.4,
            ("relatedness", "Spearman", "dataset=MiniMayoSRS coders"): 0.6,
            ("relatedness", "Spearman", "dataset=UMNSRS relatedness"): 0.3,
            ("relatedness", "Pearson", "all"): 0.9,
            ("held_out_synonyms", "accuracy@1", "all"): 0.7,
        }
    )
    average = found.pop("average")
    assert found == {
        "mcsm": 5.0,
        "f1": 0.25,
        "theta": 0.9,
        "f1_tuned": 0.2,
        "mini_physicians": 0.4,
        "mini_coders": 0.6,
        "umnsrs": 0.3,
        "synonyms_1": 0.7,
        "MCSM type=a": 6.0,
        "MCSM type=b": 4.0,
    }
    # The sum of 1 / log2(i + 1) for i = 1..40 is 11.09; both raters of MiniMayoSRS count as one set.
    assert average == pytest.approx((5.0 / 11.09 + 0.25 + 0.5 + 0.3) / 4, abs=1e-4)
    both = {
        ("relatedness", "Spearman", f"dataset={name}"): value
        for name, value in (("MayoSRS", 0.1), ("MiniMayoSRS coders", 0.9))
    }
    assert italian.figures_in(both)["average"] == pytest.approx(0.1)
    assert italian.figures_in({}) == {}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        # Differences 1, 2, 3: mean 2, standard deviation 1.
        ({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0}, "holds"),
        ({0: 1.0, 1: 2.0, 2: 3.0}, {0: 2.0, 1: 4.0, 2: 6.0}, "does not hold"),
        # Differences 1, -1, 1.5: mean 0.5, standard deviation 1.32.
        ({0: 2.0, 1: 2.0, 2: 2.5}, {0: 1.0, 1: 3.0, 2: 1.0}, "within the spread"),
        # The same difference each time has no spread; none at all is no ordering.
        ({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0}, "holds"),
        ({0: 2.0, 1: 3.0}, {0: 2.0, 1: 3.0}, "within the spread"),
        # Only seed 1 in common.
        ({0: 9.0, 1: 3.0}, {1: 2.0, 2: 5.0}, "one seed"),
    ],
)
def test_verdicts_by_hand(first: dict[int, float], second: dict[int, float], said: str) -> None:
    assert italian.verdict(first, second)["verdict"] == said


def test_the_numbers_of_a_verdict() -> None:
    found = italian.verdict({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0})
    assert (found["n"], found["mean"], found["sd"]) == (3, 2.0, 1.0)
    assert italian.verdict({0: 3.0}, {0: 2.5}) == {"n": 1, "mean": 0.5, "sd": None, "verdict": "one seed"}
    assert italian.verdict({0: 1.0}, {1: 1.0}) is None


def test_orderings_of_rows_that_are_there() -> None:
    rows = [
        row("base", seeded=False, mcsm={0: 4.6}, f1={0: 0.10}),
        row("ext", mcsm={0: 4.5, 1: 4.4}, f1={0: 0.05, 1: 0.16}),
        row("v1", mcsm={0: 5.3, 1: 5.2}, mayo={0: 0.36, 1: 0.37}),
        row("v3", mcsm={0: 5.6, 1: 5.4}, mayo={0: 0.30, 1: 0.39}),
    ]
    found = {(one["first"], one["second"], one["column"]): one for one in italian.orderings(rows)}
    assert {key: one["verdict"] for key, one in found.items()} == {
        ("V3", "V1", "mcsm"): "holds",
        ("V1", "V3", "mayo"): "within the spread",
        ("BASE", "EXT", "mcsm"): "holds",
        ("BASE", "EXT", "f1"): "within the spread",
        ("V3", "EXT", "mcsm"): "holds",
    }
    # 0.3 and 0.2; the base stands beside each seed.
    assert found["V3", "V1", "mcsm"]["mean"] == pytest.approx(0.25)
    assert found["V3", "V1", "mcsm"]["sd"] == pytest.approx(0.0707, abs=1e-4)
    assert found["BASE", "EXT", "mcsm"]["mean"] == pytest.approx(0.15)
    assert found["BASE", "EXT", "mcsm"]["n"] == 2
    assert found["V3", "V1", "mcsm"]["paper"] == "table 3"


def test_the_tables_are_those_of_the_numbers() -> None:
    rows = [
        row("base", seeded=False, mcsm={0: 4.5}, **{"MCSM type=Finding": {0: 6.0}}),
        row("v1", mcsm={0: 5.0, 1: 5.5, 2: 6.0}, f1={0: 0.125, 1: 0.25, 2: 0.375}, **{"MCSM type=Finding": {0: 6.5}}),
        row("v3", mcsm={0: 6.0, 1: 6.0, 2: 8.0}, f1={0: 0.5}),
    ]
    graphs = [
        row(
            "complex",
            **{
                "hits@1": {0: 0.0714},
                "MR": {0: 1918.4},
                "MRR": {0: 0.16},
                "MCSM": {0: 9.96},
                "UMNSRS relatedness": {0: 0.449},
            },
        )
    ]
    text = italian.markdown(rows, graphs, italian.orderings(rows))
    lines = text.splitlines()
    assert "| row | n | MCSM | clustering F1 |" in lines
    assert "| BASE | 1 | 4.50 | – |" in lines
    assert "| V1 | 3 | 5.50 ± 0.50 | 25.0 ± 12.5 |" in lines
    assert "| V3 | 3 | 6.67 ± 1.15 | 50.0 |" in lines
    assert "| type | BASE | V1 | V3 |" in lines
    assert "| Finding | 6.00 | 6.50 | – |" in lines
    assert "| mean of the types | 4.50 | 5.50 ± 0.50 | 6.67 ± 1.15 |" in lines
    assert "| row | n | hits@1 | MR | MRR | MCSM | UMNSRS relatedness |" in lines
    assert "| COMPLEX | 1 | 0.071 | 1918 | 0.160 | 9.96 | 0.45 |" in lines
    # 1, 0.5 and 2: 1.17, standard deviation 0.76.
    assert "| V3 over V1 | MCSM | +1.17 ± 0.76 | 3 | holds | table 3 |" in lines
    assert "| V3 over V1 | clustering F1 | +37.5 | 1 | one seed | table 3 |" in lines
    less = italian.markdown(rows[2:], [], [])
    assert "## Graph models" not in less
    assert "## MCSM by type" not in less
