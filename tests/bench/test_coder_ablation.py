from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from alphita import artefact, config, registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.evaluation.benchmarks import Source, load_benchmark
from alphita.terminology import splits, store
from alphita.terminology.loaders import obo
from tests.tiny import SITES, tiny_model, tiny_terminology

PROGRAM = Path(__file__).parents[2] / "bench" / "coder_ablation.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coder_ablation", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coder_ablation"] = module
    spec.loader.exec_module(module)
    return module


ablation = load()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a model, and a terminology with semantic types and its split."""
    folder = tmp_path_factory.mktemp("made")
    tiny_model(folder / "encoder")
    tiny_terminology(folder / "plain.terminology")
    text = (folder / "plain.obo").read_text()
    for site in SITES:
        disorder = f'synonym: "{site} disorder" EXACT []'
        text = text.replace(disorder, f"{disorder}\nis_a: T:0000100")
    (folder / "t.obo").write_text(f"{text}\n[Term]\nid: T:0000100\nname: disorder\n")
    with Rejects() as rejects:
        tables = obo.load([folder / "t.obo"], obo.Options(semantic_type="T:0000100"), rejects)
        store.save(tables, folder / "t.terminology")
    splits.hold_out_synonyms(store.load_terminology(folder / "t.terminology"), fraction=0.5, seed=1).save(
        folder / "t.split"
    )
    return folder


SMALL = ["--set", "k=16", "--set", "m=4", "--set", "precision=fp32", "--benchmarks", "mcsm"]


def command(made: Path, out: Path, *more: str, rows: str = "base,ms", steps: int = 2) -> list[str]:
    return [
        sys.executable, str(PROGRAM), "run", "--terminology", str(made / "t.terminology"),
        "--split", str(made / "t.split"), "--output", str(out), "--encoder", str(made / "encoder"),
        "--rows", rows, "--steps", str(steps), *SMALL, *more,
    ]  # fmt: skip


def finish(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_row_and_the_encoder_are_trained_scored_and_told_and_not_done_again(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = finish(command(made, out, "--seeds", "0"))
    assert done.returncode == 0, done.stderr
    table = json.loads((out / "table.json").read_text())
    assert [(row["name"], row["seeds"]) for row in table["rows"]] == [("base", [0]), ("ms", [0])]
    ms = table["rows"][1]
    assert set(ms["figures"]) == {"mcsm_mean", "mcsm_cls"}
    assert ms["training"]["steps"]["values"] == [2]
    assert ms["training"]["rows_per_step"]["mean"] == pytest.approx(32)
    assert 0 < ms["training"]["seconds"]["mean"] < 60
    assert table["rows"][0]["training"] == {}
    # Every figure is the one of its report, looked up here by hand.
    entry = json.loads((out / "ms" / "0" / "mcsm" / "report.json").read_text())["benchmarks"][0]
    by_name = {one["name"]: one["figures"] for one in entry["systems"]}
    (value,) = [f["value"] for f in by_name["cls"] if (f["metric"], f["subset"]) == ("MCSM", "mean of types")]
    assert ms["figures"]["mcsm_cls"]["values"] == [value]
    assert ms["figures"]["mcsm_mean"]["values"] != [value]
    cell = json.loads((out / "ms" / "0" / "cell.json").read_text())
    assert cell["training"]["config"]["mu"] == 0
    assert cell["training"]["config"]["warmup_steps"] == 0
    assert cell["provenance"]["seed"] == 0
    common = cell["provenance"]["config"]["common"]
    assert common["split"] == artefact.open_manifest(made / "t.split", "split")["content_hash"]
    assert not list(out.glob("*/*/model"))
    assert "| MS | 1 |" in (out / "table.md").read_text()

    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/*/report.json")}
    again = finish(command(made, out, "--seeds", "0"))
    assert again.returncode == 0
    assert again.stderr.count("done before") == 2
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/*/*/report.json")} == before

    # A damaged report is made again, and the model under it, which was not kept.
    (out / "ms" / "0" / "mcsm" / "report.json").write_text("{}")
    shutil.copytree(out, tmp_path / "partial")
    partial = finish([sys.executable, str(PROGRAM), "table", str(tmp_path / "partial")])
    assert "| the encoder as it comes | 1 |" in partial.stdout
    assert "| MS |" not in partial.stdout
    mended = finish(command(made, out, "--seeds", "0"))
    assert mended.returncode == 0
    assert mended.stderr.count("done before") == 1
    remade = json.loads((out / "table.json").read_text())["rows"][1]["figures"]
    assert remade == ms["figures"]

    other = finish(command(made, out, "--seeds", "0", steps=3))
    assert other.returncode == 2
    assert "other values of steps than" in other.stderr


@pytest.mark.slow
def test_a_failed_row_is_told_and_the_others_go_on(made: Path, tmp_path: Path) -> None:
    # rank is a setting of the recipe coder, and sapbert has none of it.
    words = command(
        made,
        tmp_path / "out",
        "--seeds",
        "0",
        "--set",
        "rank=2",
        "--benchmarks",
        "held_out_synonyms,mcsm",
        rows="sapbert,rel_diagonal",
    )
    done = finish(words)
    assert done.returncode == 1
    assert "failed: sapbert/0" in done.stderr
    assert "rank" in done.stderr
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [row["name"] for row in table["rows"]] == ["rel_diagonal"]
    figures = table["rows"][0]["figures"]
    assert set(figures) == {"synonyms_1", "synonyms_3", "mcsm_mean", "mcsm_cls"}
    assert figures["synonyms_1"]["mean"] <= figures["synonyms_3"]["mean"]


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_to_the_same_model(made: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = ("--seeds", "0", "--keep-models", "--set", "checkpoint_every=10", "--jobs", "1")
    steps = 150
    running = subprocess.Popen(
        command(made, out, *words, rows="ms", steps=steps), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    work = out / "ms" / "0" / "model.training"
    try:
        deadline = time.monotonic() + 120
        while not list(work.glob("*checkpoint*")) and not list(work.rglob("*.safetensors")):
            assert running.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        running.send_signal(signal.SIGTERM)
        status = running.wait(timeout=60)
    assert status == 128 + signal.SIGTERM
    assert not (out / "ms" / "0" / "cell.json").exists()
    assert work.exists()
    # The training was ended too: nothing holds the lock, and the next run goes on.
    assert finish(command(made, out, *words, rows="ms", steps=steps)).returncode == 0
    assert finish(command(made, whole, *words, rows="ms", steps=steps)).returncode == 0
    both = [json.loads((folder / "ms" / "0" / "cell.json").read_text()) for folder in (out, whole)]
    assert both[0]["figures"] == both[1]["figures"]
    weights = [(folder / "ms" / "0" / "model" / "model.safetensors").read_bytes() for folder in (out, whole)]
    assert weights[0] == weights[1]


def test_seeds_are_the_outer_loop_and_the_encoder_is_scored_once(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, int]] = []

    def make_cell(plan: Any, common: Any, row: Any, seed: int, children: Any) -> str:
        order.append((row.name, seed))
        if (row.name, seed) == ("cls", 3):
            raise InputError("no such thing")
        return "done"

    monkeypatch.setattr(ablation, "make_cell", make_cell)
    plan = ablation.Plan(made / "t.terminology", made / "t.split", tmp_path, benchmarks=("mcsm",))
    failed = ablation.run(plan, ablation.choose_rows("cls,base,ms"), [3, 1], jobs=1)
    assert order == [("base", 3), ("ms", 3), ("cls", 3), ("ms", 1), ("cls", 1)]
    assert list(failed) == ["cls/3"]
    assert "no such thing" in failed["cls/3"]


def test_what_was_begun_otherwise_is_refused(made: Path, tmp_path: Path) -> None:
    plan = ablation.Plan(made / "t.terminology", made / "t.split", tmp_path, steps=2)
    row = ablation.choose_rows("ms")[0]
    folder = tmp_path / "ms" / "0"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"row": "ms", "training": ["steps=3"]}))
    with pytest.raises(UsageError, match="begun with other settings"):
        ablation.make_cell(plan, plan.common(), row, 0, ablation.Children())


def test_one_cell_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    with ablation._locked(tmp_path) as held:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=(held,))
    # What holds it now is the child alone, as after a kill of the runner.
    try:
        with pytest.raises(ablation.AlphitaError, match="another process"), ablation._locked(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()
    with ablation._locked(tmp_path):
        pass


def cell(value: float, *, common: Any = None, seconds: float = 60.0) -> dict[str, Any]:
    common = common or {
        "terminology": "a", "split": "b", "encoder": "minilm", "steps": 10, "m": 2, "learning_rate": 4e-4,
        "settings": [], "evaluations": {"synonyms": {"benchmarks": [], "settings": []}},
    }  # fmt: skip
    return {
        "figures": {"synonyms_1": value, "mcsm_mean": 10 * value},
        "training": {"steps": 10, "rows_per_step": 256.0, "seconds": seconds},
        "provenance": {
            "commit": "c", "config": {"common": common}, "machine": {"processor": "p", "cores": 2}, "command": [],
            "data": {"reports": {}}, "seed": 0,
        },
    }  # fmt: skip


def test_the_tables_arithmetic_is_numpys() -> None:
    values, seconds = [0.5, 0.625, 0.75], [60.0, 90.0, 180.0]
    cells = {
        "base": {0: cell(0.25) | {"training": {}}},
        "ms": {seed: cell(value, seconds=s) for seed, (value, s) in enumerate(zip(values, seconds, strict=True))},
    }
    del cells["ms"][2]["figures"]["mcsm_mean"]
    base, ms = ablation.table_of(cells)
    assert ms["figures"]["synonyms_1"] == {
        "n": 3, "mean": np.mean(values), "sd": np.std(values, ddof=1), "values": values,
    }  # fmt: skip
    assert ms["figures"]["mcsm_mean"]["mean"] == np.mean([5.0, 6.25])
    assert ms["training"]["seconds"]["sd"] == np.std(seconds, ddof=1)
    assert base["figures"]["synonyms_1"] == {"n": 1, "mean": 0.25, "sd": None, "values": [0.25]}
    lines = ablation.markdown([base, ms], cells).splitlines()
    assert "| the encoder as it comes | 1 | 25.0 | 2.50 | – | – | – |" in lines
    # 12.5 percent points and 0.88 between the seeds, 62.4 s between their times.
    assert "| MS | 3 | 62.5 ± 12.5 | 5.62 ± 0.88 (n=2) | 10 | 256 | 1.8 ± 1.0 |" in lines


def test_rows_made_otherwise_do_not_stand_in_one_table(tmp_path: Path) -> None:
    first = cell(0.5)
    other = cell(0.5, common=first["provenance"]["config"]["common"] | {"steps": 20})
    for name, one in (("ms", first), ("sapbert", other)):
        finished(tmp_path, name, 0, one)
    with pytest.raises(InputError, match="other values of steps"):
        ablation.read_cells(tmp_path)


def finished(out: Path, name: str, seed: int, one: dict[str, Any]) -> None:
    (out / name / str(seed)).mkdir(parents=True)
    (out / name / str(seed) / "cell.json").write_text(json.dumps(one))


def test_the_cells_of_an_earlier_table_stand_beside_and_are_not_done_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ablation.Plan(made / "t.terminology", made / "t.split", tmp_path / "new", benchmarks=("mcsm",))
    for name, seed, value in (("base", 0, 0.25), ("ms", 0, 0.5), ("ms", 1, 0.75)):
        finished(tmp_path / "old", name, seed, cell(value, common=plan.common()))
    rows = ablation.write_table(tmp_path / "old")
    earlier = tmp_path / "old" / "table.json"

    finished(tmp_path / "new", "ms", 2, cell(1.0, common=plan.common()))
    finished(tmp_path / "new", "cls", 0, cell(0.125, common=plan.common()))
    both = ablation.write_table(tmp_path / "new", earlier)
    assert both[0] == rows[0]
    assert both[1]["seeds"] == [0, 1, 2]
    assert both[1]["figures"]["synonyms_1"]["values"] == [0.5, 0.75, 1.0]
    assert both[1]["training"]["seconds"]["n"] == 3
    assert [row["name"] for row in both] == ["base", "ms", "cls"]
    # And that table is an earlier one for the next.
    assert ablation.write_table(tmp_path / "next", tmp_path / "new" / "table.json") == both

    asked: list[tuple[str, int]] = []

    def make_cell(plan: Any, common: Any, row: Any, seed: int, children: Any) -> str:
        asked.append((row.name, seed))
        return "done"

    monkeypatch.setattr(ablation, "make_cell", make_cell)
    ablation.run(replace(plan, earlier=earlier), ablation.choose_rows("base,ms,cls"), [0, 2], jobs=1)
    assert asked == [("cls", 0), ("ms", 2), ("cls", 2)]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"cells": {"ms": {"x": {}}}}', '{"cells": {"nothing": {}}}'])
def test_a_file_that_is_no_earlier_table_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError, match=r"t\.json.*(no table|no such row)"):
        ablation.write_table(tmp_path, tmp_path / "t.json")
    with pytest.raises(InputError, match=r"none\.json.*no table"):
        ablation.write_table(tmp_path, tmp_path / "none.json")


def test_an_earlier_table_made_otherwise_is_refused(tmp_path: Path) -> None:
    first = cell(0.5)
    finished(tmp_path / "old", "ms", 0, cell(0.5, common=first["provenance"]["config"]["common"] | {"split": "x"}))
    ablation.write_table(tmp_path / "old")
    finished(tmp_path / "new", "sapbert", 0, first)
    with pytest.raises(InputError, match="other values of split"):
        ablation.write_table(tmp_path / "new", tmp_path / "old" / "table.json")


def test_the_seconds_of_a_log_are_those_of_its_steps(made: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    with artefact.create(model, "model") as draft:
        lines = [
            {"step": 10, "steps_per_second": 2.0, "rows_per_second": 512.0},
            {"step": 10, "dev_accuracy": 0.5},
            {"step": 14, "steps_per_second": 0.5, "rows_per_second": 100.0},
        ]
        (draft.path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (draft.path / "training.json").write_text(json.dumps({"config": {}, "encoder": "e"}))
    facts = ablation.training_facts(model)
    assert facts["steps"] == 14
    assert facts["seconds"] == pytest.approx(10 / 2 + 4 / 0.5)
    assert facts["rows_per_step"] == pytest.approx((10 * 256 + 4 * 200) / 14)


def test_relations_are_sampled_evenly_and_read_as_ddbrc(tmp_path: Path) -> None:
    lines = ["format-version: 1.2", "ontology: r", ""]
    for number in range(1, 61):
        lines += ["[Term]", f"id: R:{number:07d}", f"name: thing {number}"]
        if number > 1:
            lines.append(f"is_a: R:{number // 2:07d}")
        if number > 30:
            lines.append(f"relationship: part_of R:{number - 29:07d}")
        lines.append("")
    (tmp_path / "r.obo").write_text("\n".join(lines))
    with Rejects() as rejects:
        store.save(obo.load([tmp_path / "r.obo"], obo.Options(), rejects), tmp_path / "r.terminology")
    terminology = store.load_terminology(tmp_path / "r.terminology")
    split = splits.with_triples(splits.Split([], [], []), terminology, fraction=0.3, seed=0)
    folder = tmp_path / "data"

    def written(most: int) -> dict[str, list[tuple[str, str, str]]]:
        ablation.write_relations(terminology, split, folder, most=most, least=5)
        return {
            part: [
                (*ends.split("\t"), relation)
                for ends, relation in zip(
                    (folder / f"x_{part}.txt").read_text().splitlines(),
                    (folder / f"y_{part}.txt").read_text().splitlines(), strict=True,
                )
            ]
            for part in ("train", "test")
        }  # fmt: skip

    few = written(10)
    assert sorted(relation for _, _, relation in few["train"]) == ["is_a"] * 8 + ["part_of"] * 8
    assert sorted(relation for _, _, relation in few["test"]) == ["is_a"] * 2 + ["part_of"] * 2
    every = written(1000)
    # Of 59 and 30, without two pairs of concepts that both relations hold between: 57 and 28, 58 and 29.
    assert len({*every["train"], *every["test"]}) == len(every["train"]) + len(every["test"]) == 57 + 28
    assert not {head for part in every.values() for head, _, _ in part} & {"R:0000057", "R:0000058"}
    held_out = {(head, tail, relation) for head, relation, tail in split.triples}
    assert len(held_out) > 4
    assert {one for one in held_out if one[0] not in ("R:0000057", "R:0000058")} == set(every["test"])
    assert set(few["train"]) <= set(every["train"])
    module = load_benchmark("relation_classification")
    data = module.load(Source(folder, terminology, "relation_classification", ""), module.Options())
    assert data.relations == ["is_a", "part_of"]
    assert (len(data.train), len(data.test)) == (len(every["train"]), len(every["test"]))
    assert all(term.startswith("thing ") for term in data.terms)


@pytest.mark.parametrize("row", ablation.ROWS, ids=lambda row: row.name)
def test_every_row_has_settings_that_its_recipe_takes(made: Path, row: Any) -> None:
    if row.recipe is None:
        return
    plan = ablation.Plan(made / "t.terminology", made / "t.split", made, steps=40)
    settings = config.resolve(registry.load("alphita.recipes", row.recipe).Config, sets=plan.training(row, 7))
    assert (settings.seed, settings.steps, settings.warmup_steps, settings.accumulation) == (7, 40, 4, 1)
    assert settings.learning_rate == ablation.Plan.learning_rate
    assert settings.dropout == 0
    assert settings.pooling == ("cls" if row.name == "cls" else "mean")
    if row.name == "transe_like":
        constants = (settings.alpha_rel, settings.beta_rel, settings.lam_rel, settings.eps_rel, settings.mu)
        assert constants == (0.2, 5, -20.8, 0.1, 0.1)


def test_every_evaluation_has_settings_that_its_benchmarks_take() -> None:
    columns = {(one.evaluation, one.benchmark) for one in ablation.COLUMNS}
    for evaluation in ablation.EVALUATIONS:
        for name in evaluation.benchmarks:
            assert (evaluation.name, name) in columns
            own = [item.partition(".")[2] for item in evaluation.settings if item.startswith(f"{name}.")]
            config.resolve(load_benchmark(name).Options, sets=own)
    assert len({row.name for row in ablation.ROWS}) == len(ablation.ROWS)
    assert len({column.name for column in ablation.COLUMNS}) == len(ablation.COLUMNS)


def test_wrong_words_are_told(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--terminology", str(made / "t.terminology"), "--split", str(made / "t.split"), "--output", str(tmp_path)]
    for more, said in (
        (["--rows", "rel_diag"], "rel_diagonal"), (["--benchmarks", "psytar"], "--data"), (["--seeds", "a"], "'a'"),
        (["--benchmarks", "mscm"], "mcsm"), (["--set", "k"], "key=value"), (["--jobs", "0"], "--jobs"),
    ):  # fmt: skip
        assert ablation.main(["run", *words, *more]) == 2
        assert said in capsys.readouterr().err
    assert ablation.main(["table", str(tmp_path / "nothing")]) == 2
    assert ablation.main(["table", str(tmp_path)]) == 0
    assert "No row is finished yet." in capsys.readouterr().out
