from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import electra


def row(name: str, **figures: list[float]) -> dict[str, Any]:
    seeds = max((len(values) for values in figures.values()), default=0)
    by_seed = {key: dict(enumerate(values)) for key, values in figures.items()}
    return {"name": name, "title": name.upper(), "seeds": list(range(seeds)), "figures": by_seed}


def judged(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["claim"], one["measure"]): one for one in electra.claims(rows)}


def test_one_row_over_another_is_judged_seed_by_seed() -> None:
    found = judged(
        [
            row("base", easy_f1=[0.50, 0.60, 0.70], hard_f1=[0.3, 0.3, 0.3]),
            row("em", easy_f1=[0.52, 0.62, 0.74], hard_f1=[0.3, 0.2, 0.4]),
        ]
    )
    easy = found["EM over BASE", "QTRel-easy F1"]
    # Differences 2, 2, 4: mean 8 / 3, deviations 2/3, 2/3, 4/3, of which the squares sum to 24 / 9.
    assert easy["mean"] == pytest.approx(0.08 / 3)
    assert easy["sd"] == pytest.approx(0.01 * np.sqrt(24 / 9 / 2))
    assert (easy["n"], easy["verdict"], easy["paper"]) == (3, "holds", "table 5")
    assert found["EM over BASE", "QTRel-hard F1"]["verdict"] == "within the spread"
    assert len(found) == 2


def test_what_pap_adds_is_judged_by_the_difference_of_differences() -> None:
    em = row("em", easy_f1=[0.90, 0.80], hard_f1=[0.70, 0.60])
    found = judged([em, row("em_pap", easy_f1=[0.91, 0.83], hard_f1=[0.76, 0.70])])
    claim = "what PAP adds to EM: more to the hard part than to the easy one"
    # Hard +6 and +10, easy +1 and +3: 5 and 7.
    one = found[claim, "QTRel-hard F1"]
    assert one["mean"] == pytest.approx(0.06)
    assert one["sd"] == pytest.approx(0.01 * np.sqrt(2))
    assert one["verdict"] == "holds"
    # The other way round it does not hold; seeds of which a part is missing do not count.
    found = judged([em, row("em_pap", easy_f1=[0.99, 0.88], hard_f1=[0.71, 0.61])])
    assert found[claim, "QTRel-hard F1"]["verdict"] == "does not hold"
    found = judged([em, row("em_pap", easy_f1=[0.99], hard_f1=[0.71, 0.61])])
    assert (found[claim, "QTRel-hard F1"]["n"], found[claim, "QTRel-hard F1"]["verdict"]) == (1, "one seed")
    assert found["EM_PAP over EM", "QTRel-hard F1"]["n"] == 2


def test_rho_matters_more_than_gamma_where_its_figures_spread_more() -> None:
    rhos = {"rho_1": [0.60, 0.61], "rho_10": [0.69, 0.70], "rho_15": [0.66, 0.55]}
    gammas = {"gamma_2": [0.70, 0.71], "gamma_6": [0.72, 0.70], "gamma_8": [0.71, 0.72]}
    rows = [row("em_pap", hard_f1=[0.70, 0.72])]
    rows += [row(name, hard_f1=values) for name, values in (rhos | gammas).items()]
    one = judged(rows)["greatest less least, by ρ over by γ", "QTRel-hard F1"]
    # By rho 70 - 60 and 72 - 55, by gamma 72 - 70 and 72 - 70.
    assert one["mean"] == pytest.approx((0.08 + 0.15) / 2)
    assert one["verdict"] == "holds"
    assert "greatest less least, by ρ over by γ" not in {claim for claim, _ in judged(rows[:-1])}


def test_figures_stand_where_the_reports_have_them() -> None:
    trained = {"figures": {"dev_replaced_auc": 0.8, "dev_attribute_acc1": 0.4, "loss": 9.0}, "batch": 16, "steps": 500}
    ranked = {
        ("attribute_ranking", "accuracy@1", "all"): 0.5,
        ("attribute_ranking", "accuracy@1", "shares_a_word=no"): 0.25,
        ("attribute_ranking", "accuracy@1", "value frequency alone"): 0.125,
        ("attribute_ranking", "MRR", "value frequency alone"): 0.375,
        ("other", "MRR", "all"): 0.9,
    }
    runs = {"f1": [0.5, 0.7], "accuracy": [0.6, 0.7]}
    routes = {"titles": {"recall@10": 0.1, "mrr": 0.2, "queries": 7}}
    found = electra.figures_in(
        trained, ranked, {"fine_tuned": {"QTRel-hard": runs}, "search": {"known": {"QTRel-easy": routes}}}
    )
    assert found == pytest.approx(
        {
            "sequences": 8000,
            "auc": 0.8,
            "attribute_dev": 0.4,
            "ranking_1": 0.5,
            "ranking_apart": 0.25,
            "frequency_ranking_1": 0.125,
            "frequency_ranking_mrr": 0.375,
            "hard_f1": 0.6,
            "hard_best": 0.7,
            "hard_accuracy": 0.65,
            "known|QTRel-easy|titles|recall@10": 0.1,
            "known|QTRel-easy|titles|mrr": 0.2,
        }
    )
    assert set(electra.figures_in(trained, {}, {})) == {"sequences", "auc", "attribute_dev"}


def test_the_numbers_to_match_stand_in_the_papers_script() -> None:
    from alphita_lab.evaluation.benchmarks import load_benchmark

    text = (Path(__file__).parents[2] / "runs" / "electra_em_pap_paper.sh").read_text(encoding="utf-8")
    # The mean and the best of five runs, as the paper prints them: "87.06/87.43".
    figures: dict[tuple[str, str], list[str]] = {}
    for name in ("answer_ranking", "classification", "ner", "retrieval", "sentence_pair"):
        for row in load_benchmark(name).PUBLISHED:
            value = row.value / (1 - row.value) if name == "retrieval" else 100 * row.value
            figures.setdefault((row.system, row.subset.partition(",")[0]), []).append(f"{value:.2f}")
    printed = ["/".join(both) for both in figures.values() if len(both) == 2]
    assert len(printed) == 3 * 4 + 3 * 8
    assert [one for one in printed if one not in text] == []
