from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import electra
import qtrel
import study
from alphita import config
from alphita_lab.recipes.electra_em_pap import Config
from tests.runs.commands import CALLS, in_process
from tests.search.conftest import products_of

DRUGS = ("alvexin", "borvatel", "cendril", "dormaxol", "elvanor", "fostrin", "gelmadon", "hestrazol")
SYMPTOMS = ("cough", "fever", "back pain", "dry skin", "itching eye", "sore throat", "cold hands", "ringing ears")
FORMS = ("tablet", "syrup", "cream")
# Of few steps and rows that are scored in a moment.
SIZES = {"vocabulary": 160, "max_length": 32, "dev_sequences": 8, "dev_attributes": 12, "evaluate_every": 10}
SMALL = [*(f"{name}={value}" for name, value in SIZES.items()), "precision=fp32", "attribute_batch=8"]
QUICK = ["runs=2", "epochs=1"]


pytestmark = pytest.mark.usefixtures("commands_in_process")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with products: eight drugs of eight makers in three forms, and notes about them."""
    folder = tmp_path_factory.mktemp("made")
    table = []
    for number, (drug, form, maker) in enumerate(itertools.product(DRUGS, FORMS, range(8))):
        title = f"{drug} {form} {maker}"
        place = number // 24
        table.append((title, "indication", "|".join(SYMPTOMS[(place + step) % 8] for step in (0, 1, 3))))
        table.append((title, "form", form))
    products_of(table, folder / "p.terminology")
    lines = [
        f"day {day}: the {form} of {drug} against {symptom} was taken again"
        for day, (drug, symptom, form) in enumerate(itertools.product(DRUGS, SYMPTOMS, FORMS))
    ]
    (folder / "notes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def words(made: Path, out: Path, *more: str) -> list[str]:
    options = [
        word for option, items in (("--set", SMALL), ("--qtrel", QUICK)) for item in items for word in (option, item)
    ]
    sizes = ["--steps", "10", "--layers", "2", "--hidden", "32", "--heads", "2", "--most", "24", "--threads", "1"]
    paths = ["-t", str(made / "p.terminology"), "--corpus", str(made / "notes.txt"), "-o", str(out)]
    return ["run", *paths, *sizes, *options, *more]


@pytest.fixture(scope="module")
def finished(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `run` makes of two rows with two seeds, and then of one with one."""
    out = tmp_path_factory.mktemp("out") / "electra"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "caller", in_process)
        CALLS.clear()
        assert electra.main(words(made, out, "--rows", "em,em_pap", "--seeds", "0,1")) == 0
        further = words(made, out, "--rows", "base", "--qtrel-rows", "", "--seeds", "1")
        assert electra.main(further) == 0
    (out / "calls.json").write_text(json.dumps(CALLS))
    return out


def test_the_table_says_what_holds(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert electra.main(["table", str(finished)]) == 0
    shown = capsys.readouterr().out
    assert "| ELECTRA+EM+PAP | 2 |" in shown
    assert "| value frequency alone | 1 |" in shown
    assert "| ELECTRA+EM+PAP: predicted | 2 |" in shown
    assert "| ELECTRA+EM+PAP over ELECTRA+EM | QTRel-hard F1 |" in shown
    assert "more to the hard part than to the easy one" in shown
    table = json.loads((finished / "table.json").read_text())
    assert {one["n"] for one in table["claims"]} == {2}
    assert not any("over ELECTRA," in one["claim"] for one in table["claims"])
    hard, easy = (table["rows"][2]["figures"][key] for key in ("hard_f1", "easy_f1"))
    em_hard, em_easy = (table["rows"][1]["figures"][key] for key in ("hard_f1", "easy_f1"))
    (judged,) = [one for one in table["claims"] if one["claim"].startswith("what PAP adds to ELECTRA+EM:")]
    assert judged["mean"] == pytest.approx(
        np.mean([hard[seed] - em_hard[seed] - (easy[seed] - em_easy[seed]) for seed in "01"])
    )


def test_cases_lie_side_by_side(made: Path, finished: Path) -> None:
    given = ["cases", str(finished), "-t", str(made / "p.terminology"), "--seed", "1", "--threads", "1"]
    assert electra.main([*given, "--titles", "4"]) == 0
    written = json.loads((finished / "cases.json").read_text())
    assert written["models"] == ["base", "em_pap"]
    assert 0 < len(written["cases"]) <= 8
    tested = [tuple(line.split("\t")) for line in (finished / "qtrel" / "QTRel-hard.test.tsv").read_text().splitlines()]
    for one in written["cases"]:
        assert (one["query"], one["title"], one["label"]) in tested
        assert len(one["scores"]) == 2
        assert all(0 < score < 1 for score in one["scores"])
    shown = (finished / "cases.md").read_text()
    assert "| ELECTRA | ELECTRA+EM+PAP | label | title |" in shown
    # By name: a title that the test part does not have beside the query.
    named = [*given, "--query", "fever", "--title", "alvexin tablet 0", "--title", "dormaxol cream 3"]
    assert electra.main([*named, "--models", "em"]) == 0
    found = json.loads((finished / "cases.json").read_text())["cases"]
    assert [(one["title"], one["label"]) for one in found] == [("alvexin tablet 0", "1"), ("dormaxol cream 3", "0")]


def test_as_many_titles_have_the_value_as_have_not(tmp_path: Path) -> None:
    lines = [("fever", f"t{number}", str(int(number < 5))) for number in range(7)]
    lines += [("cough", "t1", "0"), ("cough", "t2", "1")]
    (tmp_path / "QTRel-hard.test.tsv").write_text(
        "query\ttitle\tlabel\n" + "".join("\t".join(line) + "\n" for line in lines)
    )
    titles = {f"t{number}": f"t{number}" for number in range(7)}
    table = qtrel.Table(titles, {}, {}, {"fever": {f"t{number}" for number in range(5)}, "cough": {"t2"}}, {})
    for most, expected in ((4, ["t0", "t1", "t5", "t6"]), (6, ["t0", "t1", "t2", "t3", "t5", "t6"]), (1, ["t0"])):
        found = electra.pairs_of(tmp_path, table, ["fever"], [], most)
        assert [one.title for one in found] == expected
        assert [one.label for one in found] == [str(int(one.title < "t5")) for one in found]
    assert {one.query for one in electra.pairs_of(tmp_path, table, [], [], 2)} == {"fever", "cough"}


def plan(made: Path, **more: Any) -> Any:
    return electra.Plan(made / "p.terminology", (made / "notes.txt",), made / "out", **more)


@pytest.mark.parametrize("row", electra.ROWS, ids=lambda row: row.name)
def test_every_row_has_settings_that_the_recipe_takes(made: Path, row: Any) -> None:
    def resolved(**more: Any) -> Config:
        given = plan(made, **more).training(row, 7)
        return config.resolve(Config, sets=[f"{key}={value}" for key, value in given.items()])

    # The paper's.
    paper = resolved()
    large = row.name.endswith("_128")
    assert (paper.batch, paper.steps) == ((128, 420_000) if large else (16, 3_400_000))
    assert (paper.entities, paper.segmenter) == ((False, "none") if row.name.startswith("base") else (True, "words"))
    known = {
        "base": 0,
        "em": 0,
        "base_128": 0,
        "em_128": 0,
        "rho_1": 0.01,
        "rho_10": 0.1,
        "rho_15": 0.15,
        "rho_50": 0.5,
    }
    assert paper.rho == row.rho == known.get(row.name, 0.05)
    assert paper.gamma == (float(row.name[-1]) if row.name.startswith("gamma") else 4.0)
    assert bool(paper.dev_attributes) == bool(paper.rho)
    # Fewer steps, as many sequences; further settings, but for what makes the row.
    short = resolved(
        steps=800,
        settings=("batch=32", "rho=0.5", "entities=true", "learning_rate=1e-3"),
        attributes=("form", "indication"),
        languages=("en",),
    )
    assert short.batch * short.steps == 800 * 32
    assert (short.warmup_steps, short.evaluate_every) == (short.steps // 10, short.steps // 20)
    assert (short.learning_rate, short.rho) == (1e-3, row.rho)
    assert short.entities == (not row.name.startswith("base"))
    assert (short.attributes, short.languages) == ("form,indication", "en")


def test_pairs_are_no_longer_than_the_encoder_reads(made: Path) -> None:
    assert plan(made).fine_tuning() == ["max_length=128"]
    assert plan(made, settings=("max_length=64",), tuning=("runs=1",)).fine_tuning() == ["max_length=64", "runs=1"]
    assert plan(made, settings=("max_length=512",)).fine_tuning() == ["max_length=128"]


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
    half = 4.302653 * 0.01 * np.sqrt(24 / 9 / 2) / np.sqrt(3)
    assert (easy["low"], easy["high"]) == pytest.approx((0.08 / 3 - half, 0.08 / 3 + half))
    assert (easy["n"], easy["verdict"], easy["paper"]) == (3, study.OPEN, "table 5")
    assert found["EM over BASE", "QTRel-hard F1"]["verdict"] == study.OPEN
    assert len(found) == 2


def test_what_pap_adds_is_judged_by_the_difference_of_differences() -> None:
    em = row("em", easy_f1=[0.90, 0.80], hard_f1=[0.70, 0.60])
    found = judged([em, row("em_pap", easy_f1=[0.91, 0.83], hard_f1=[0.760, 0.682])])
    claim = "what PAP adds to EM: more to the hard part than to the easy one"
    # Hard +6 and +8.2, easy +1 and +3: 5 and 5.2.
    one = found[claim, "QTRel-hard F1"]
    assert one["mean"] == pytest.approx(0.051)
    assert one["verdict"] == study.HOLDS
    # The other way round it does not hold; seeds of which a part is missing do not count.
    found = judged([em, row("em_pap", easy_f1=[0.99, 0.89], hard_f1=[0.71, 0.61])])
    assert found[claim, "QTRel-hard F1"]["verdict"] == study.FAILS
    found = judged([em, row("em_pap", easy_f1=[0.99], hard_f1=[0.71, 0.61])])
    assert (found[claim, "QTRel-hard F1"]["n"], found[claim, "QTRel-hard F1"]["verdict"]) == (1, study.OPEN)
    assert found["EM_PAP over EM", "QTRel-hard F1"]["n"] == 2


def test_rho_matters_more_than_gamma_where_its_figures_spread_more() -> None:
    rhos = {"rho_1": [0.60, 0.61], "rho_10": [0.69, 0.70], "rho_15": [0.66, 0.55]}
    gammas = {"gamma_2": [0.70, 0.71], "gamma_6": [0.72, 0.70], "gamma_8": [0.71, 0.72]}
    rows = [row("em_pap", hard_f1=[0.70, 0.72])]
    rows += [row(name, hard_f1=values) for name, values in (rhos | gammas).items()]
    one = judged(rows)["greatest less least, by ρ over by γ", "QTRel-hard F1"]
    # By rho 70 - 60 and 72 - 55, by gamma 72 - 70 and 72 - 70.
    assert one["mean"] == pytest.approx((0.08 + 0.15) / 2)
    assert one["verdict"] == study.OPEN
    assert "greatest less least, by ρ over by γ" not in {claim for claim, _ in judged(rows[:-1])}
