from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import coder
from alphita import config, registry
from alphita.errors import InputError, Rejects
from alphita.terminology import splits, store
from alphita.terminology.loaders import obo
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from tests.tables import loaded
from tests.tiny import SITES, tiny_model, tiny_terminology

pytestmark = pytest.mark.usefixtures("commands_in_process")


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


def words(made: Path, out: Path, *more: str, rows: str = "base,ms", steps: int = 2) -> list[str]:
    paths = {"terminology": made / "t.terminology", "split": made / "t.split", "output": out}
    given = {**paths, "encoder": made / "encoder", "rows": rows, "steps": steps}
    return ["run", *(word for name, value in given.items() for word in (f"--{name}", str(value))), *SMALL, *more]


def test_a_failed_row_is_told_and_the_others_go_on(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[tuple[str, int]] = []

    def make(plan: Any, row: Any, seed: int, alphita: Any) -> None:
        order.append((row.name, seed))
        if (row.name, seed) == ("cls", 3):
            raise InputError("no such thing")

    monkeypatch.setattr(coder, "make", make)
    assert coder.main(words(made, tmp_path, "--seeds", "3,1", rows="cls,base,ms")) == 1
    assert order == [("base", 3), ("ms", 3), ("cls", 3), ("ms", 1), ("cls", 1)]
    assert "these failed: cls/3" in capsys.readouterr().err


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
    terminology = loaded(obo, [tmp_path / "r.obo"], tmp_path / "r.terminology")
    split = splits.with_triples(splits.Split([], [], []), terminology, fraction=0.3, seed=0)
    folder = tmp_path / "data"

    def written(most: int) -> dict[str, list[tuple[str, str, str]]]:
        coder.write_relations(terminology, split, folder, most=most, least=5)
        return {
            part: [
                (*ends.split("\t"), relation)
                for ends, relation in zip(
                    (folder / f"x_{part}.txt").read_text().splitlines(),
                    (folder / f"y_{part}.txt").read_text().splitlines(),
                    strict=True,
                )
            ]
            for part in ("train", "test")
        }

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


@pytest.mark.parametrize("row", coder.ROWS, ids=lambda row: row.name)
def test_every_row_has_settings_that_its_recipe_takes(made: Path, row: Any) -> None:
    if row.recipe is None:
        return
    plan = coder.Plan(made / "t.terminology", made / "t.split", made, steps=40)
    settings = config.resolve(registry.load("alphita_lab.recipes", row.recipe).Config, sets=plan.training(row, 7))
    assert (settings.seed, settings.steps, settings.warmup_steps, settings.accumulation) == (7, 40, 4, 1)
    assert settings.learning_rate == coder.Plan.learning_rate
    assert settings.dropout == 0
    assert settings.pooling == ("cls" if row.name == "cls" else "mean")
    if row.name == "transe_like":
        constants = (settings.alpha_rel, settings.beta_rel, settings.lam_rel, settings.eps_rel, settings.mu)
        assert constants == (0.2, 5, -20.8, 0.1, 0.1)


def test_every_evaluation_has_settings_that_its_benchmarks_take() -> None:
    columns = {(one.evaluation, one.benchmark) for one in coder.COLUMNS}
    for evaluation in coder.EVALUATIONS:
        for name in evaluation.benchmarks:
            assert (evaluation.name, name) in columns
            own = [item.partition(".")[2] for item in evaluation.settings if item.startswith(f"{name}.")]
            config.resolve(load_benchmark(name).Options, sets=own)
    assert len({row.name for row in coder.ROWS}) == len(coder.ROWS)
    assert len({column.name for column in coder.COLUMNS}) == len(coder.COLUMNS)
