from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest

import chineseblue
from alphita_lab.evaluation.benchmarks import _finetuned, ner
from tests.runs.commands import alphita
from tests.search.conftest import products_of

TEXT = {
    "cEHRNER.train.txt": "患 O\n胃 B_疾病\n癌 I_疾病\n\n好 O\n",
    "cMedIC.train.txt": "1\t咳嗽吃什么药\n2\t好\n",
    "cMedQQ.train.txt": "1\t头痛怎么办\t头疼吃什么\n0\t咳嗽吃什么药\t发烧\n",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose sets have few texts; what is scored must not be read as text."""
    folder = tmp_path / "my data" / "benchmarks" / "chineseblue"
    folder.mkdir(parents=True)
    for name, lines in TEXT.items():
        (folder / name).write_text(lines, encoding="utf-8")
        (folder / name.replace("train", "dev")).write_text(
            lines.replace("头", "脚").replace("患", "医"), encoding="utf-8"
        )
    translations = folder.parents[1] / "ontologies" / "hpo_translations"
    translations.mkdir(parents=True)
    (translations / "hp-zh.babelon.tsv.gz").touch()
    return folder.parents[1]


def test_the_text_is_that_of_the_training_files_each_once_and_without_labels(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = data / "benchmarks" / "chineseblue", tmp_path / "out"
    packed = folder / "cMedIC.train.txt"
    with gzip.open(folder / "cMedIC.train.txt.gz", "wt", encoding="utf-8") as file:
        file.write(packed.read_text(encoding="utf-8"))
    packed.unlink()
    assert chineseblue.main(["text", str(folder), "-o", str(out)]) == 0
    texts = [json.loads(line)["text"] for line in (out / "text.jsonl").read_text(encoding="utf-8").splitlines()]
    assert texts == ["患胃癌", "好", "咳嗽吃什么药", "头痛怎么办", "头疼吃什么", "发烧"]
    assert "6 texts with 22 characters (cEHRNER 2, cMedIC 1, cMedQQ 3)" in capsys.readouterr().err

    # What is there is not made again, and a folder keeps to what it was begun with.
    assert chineseblue.main(["text", str(folder), "-o", str(out)]) == 0
    assert not capsys.readouterr().err
    for words in (["--set", "steps=7"], []):
        if not words:
            (folder / "cMedQQ.train.txt").write_text("1\t头痛\t头疼\n", encoding="utf-8")
        assert chineseblue.main(["text", str(folder), "-o", str(out), *words]) != 0
        assert "begun with other data or settings" in capsys.readouterr().err
    assert len((out / "text.jsonl").read_text(encoding="utf-8").splitlines()) == 6


def test_the_tasks_are_the_benchmarks_sets() -> None:
    sets = _finetuned.SETS | {"ner": ner.SETS}
    for benchmark, name, _ in chineseblue.TASKS:
        assert name in sets[benchmark]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script makes, very small: two rows with two seeds, scored on two of the tasks."""
    folder = tmp_path_factory.mktemp("blue")
    for part, length in (("train", 40), ("dev", 10)):
        pairs = [f"{number % 2}\t头痛{number}怎么办\t头疼{number}吃什么" for number in range(length)]
        (folder / f"cMedQQ.{part}.txt").write_text("\n".join(pairs) + "\n", encoding="utf-8")
        kinds = [f"{number % 2}\t{'咳嗽' if number % 2 else '发烧'}{number}吃什么药" for number in range(length)]
        (folder / f"cMedIC.{part}.txt").write_text("\n".join(kinds) + "\n", encoding="utf-8")
    out = folder / "out"
    assert chineseblue.main(["text", str(folder), "-o", str(out), "--set", "steps=3"]) == 0
    products_of([("头痛", "有", "咳嗽")], folder / "p.terminology")
    sizes = "layers=1 hidden=16 heads=2 vocabulary=120 max_length=32 batch=4 steps=3 rho=0 warmup_steps=0"
    small = [*f"{sizes} dev_sequences=4 evaluate_every=3".split(), f"corpus={out / 'text.jsonl'}"]
    sets = [word for item in small for word in ("--set", item)]
    for row, seed in itertools.product(chineseblue.ROWS, (0, 7)):
        model = out / row / str(seed)
        alphita("train", "electra_em_pap", "-t", folder / "p.terminology", "-o", model, "--set", f"seed={seed}", *sets)
        if (row, seed) != ("base", 7):
            given = ["--model", f"{model},name=model", "--data", folder, "-o", f"{model}.report"]
            quick = ["--set", "runs=2", "--set", "epochs=1", "--set", "learning_rate=1e-2"]
            alphita("evaluate", "classification", "sentence_pair", *given, *quick)
    return out


def test_the_table_has_what_is_scored_and_judges_the_claim(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chineseblue.main(["table", str(finished)]) == 0
    found = json.loads((finished / "table.json").read_text(encoding="utf-8"))
    base, em = found["rows"]
    assert ([row["name"] for row in (base, em)], base["seeds"], em["seeds"]) == (["base", "em"], [0], [0, 7])
    for row, seed in ((base, 0), (em, 0), (em, 7)):
        told = json.loads((finished / row["name"] / f"{seed}.report" / "report.json").read_text(encoding="utf-8"))
        figures = {
            (figure["metric"], figure["subset"]): figure["value"]
            for one in told["benchmarks"]
            for figure in one["systems"][0]["figures"]
        }
        for name in ("cMedQQ", "cMedIC"):
            assert row["figures"][name][str(seed)] == figures["F1", f"dataset={name}"]
            assert row["figures"][f"{name}_best"][str(seed)] == figures["F1", f"dataset={name}, maximum of runs"]
        assert row["figures"]["sequences"][str(seed)] == 12
        assert row["made"][str(seed)]["commit"] == told["provenance"]["commit"]
    assert found["provenance"]["config"]["settings"] == ["steps=3"]
    assert {one["measure"]: one["n"] for one in found["claims"]} == {"cMedQQ F1": 1, "cMedIC F1": 1}
    for one in found["claims"]:
        name = one["measure"].split()[0]
        assert one["mean"] == pytest.approx(em["figures"][name]["0"] - base["figures"][name]["0"])
    shown = capsys.readouterr().out
    assert "| ELECTRA+EM over ELECTRA | cMedQQ F1 |" in shown
    assert "cMedQQ F1 | maximum | cMedIC F1 | maximum |" in shown
