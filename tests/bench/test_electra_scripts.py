from __future__ import annotations

import argparse
import gzip
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.test_italian_scripts import Script, check_alphita, named

sys.path.append(str(Path(__file__).parents[2] / "bench"))
electra = importlib.import_module("electra")
rows = importlib.import_module("electra_rows")


def benches(calls: list[list[str]]) -> list[argparse.Namespace]:
    """Return the options of each call of bench/electra.py; a wrong one is an error."""
    return [electra._parser().parse_args(call[2:]) for call in calls if Path(call[1]).name == "electra.py"]


def models(out: Path, *names: str) -> None:
    for name in names:
        (out / name / "model").mkdir(parents=True)


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    data = tmp_path / "my data"
    for name in (
        "products/it_drug_products.tsv.gz",
        "ontologies/phenotype.hpoa",
        "text/e3c/English.layer2.jsonl",
        "text/e3c/Italian.layer2.jsonl.gz",
        "text/e3c/Italian.layer3.jsonl.gz",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text('{"text": "one"}\n' * 3)
    for layer, words in ((2, ["first", "second"]), (3, ["one"] * 3)):
        with gzip.open(data / f"text/e3c/Italian.layer{layer}.jsonl.gz", "wt") as file:
            file.writelines(f'{{"text": "{word}"}}\n' for word in words)
    return data


def test_the_open_script_does_all_its_steps_and_goes_on(opened: Path, tmp_path: Path) -> None:
    script, out = Script("electra_em_pap_open.sh", tmp_path), tmp_path / "out"
    models(out / "drugs", "base/0", "em_pap/0")
    done, calls = script.run(opened, out, TEXTS="4", THREADS="1", QTREL="runs=2 epochs=1")
    assert done.returncode == 0, done.stderr
    check_alphita(calls)
    made = benches(calls)
    assert [named(one) for one in made] == ["run", "cases", "run"]
    drugs, cases, diseases = made
    assert (drugs.terminology, diseases.terminology) == (out / "drugs.terminology", out / "diseases.terminology")
    assert [call[3] for call in calls if call[0] == "alphita"] == ["products", "obo", "hpoa"]
    (imported,) = [call for call in calls if "products" in call]
    assert imported[4] == str(opened / "products/it_drug_products.tsv.gz")
    assert (drugs.language, drugs.attribute) == (["it"], [])
    assert (diseases.language, diseases.attribute) == (["en"], ["has_phenotype", "has_onset", "has_inheritance"])
    for one in (drugs, diseases):
        assert (one.rows, one.seeds, one.steps, one.threads) == ("base,em,em_pap", "0", 1000, 1)
        assert (one.layers, one.hidden, one.heads) == (4, 128, 4)
        assert one.qtrel == ["runs=2", "epochs=1"]
        assert "max_length=64" in one.settings
        assert one.qtrel_rows is None
    # The first texts of a language, of all its files.
    assert [path.name for path in drugs.corpus] == ["italian.4.jsonl"]
    texts = drugs.corpus[0].read_text().splitlines()
    assert texts == ['{"text": "first"}', '{"text": "second"}', '{"text": "one"}', '{"text": "one"}']
    assert len(diseases.corpus[0].read_text().splitlines()) == 3
    assert (cases.out, cases.terminology, cases.seed, cases.models) == (
        out / "drugs",
        drugs.terminology,
        0,
        "base,em_pap",
    )
    # Without the models there are no cases.
    assert "left out: the cases, for there is no model of base" in done.stderr

    # From an encoder, which has its own sizes.
    done, calls = script.run(opened, tmp_path / "from", SETS="drugs", ROWS="start,em_pap", ENCODER="minilm")
    assert done.returncode == 0, done.stderr
    (one, *_) = benches(calls)
    assert (one.encoder, one.rows, one.layers, one.hidden, one.heads) == ("minilm", "start,em_pap", None, None, None)

    # What alphita has made is not made again; the benches see to theirs themselves. One set alone, with all texts.
    further: dict[str, Any] = {"SETS": "drugs", "TEXTS": "0", "SEEDS": "5,6", "TRAIN": "", "CASES_MODELS": "em,em_128"}
    models(out / "drugs", "em/5", "em_128/5")
    done, calls = script.run(opened, out, ROWS="em,em_128,rho_1", QTREL_ROWS="em", **further)
    assert done.returncode == 0, done.stderr
    assert not [call for call in calls if call[0] == "alphita"]
    run, cases = benches(calls)
    assert [path.name for path in run.corpus] == ["Italian.layer2.jsonl.gz", "Italian.layer3.jsonl.gz"]
    assert (run.rows, run.qtrel_rows, run.seeds, run.settings) == ("em,em_128,rho_1", "em", "5,6", [])
    assert set(run.rows.split(",")) <= set(rows.BY_NAME)
    assert (cases.models, cases.seed) == ("em,em_128", 5)
    done, calls = script.run(opened, out, QTREL_ROWS="", **further)
    assert done.returncode == 0, done.stderr
    assert (benches(calls)[0].rows, benches(calls)[0].qtrel_rows) == ("base,em,em_pap", "")


def test_the_papers_script_does_all_its_steps_and_goes_on(tmp_path: Path) -> None:
    script = Script("electra_em_pap_paper.sh", tmp_path)
    products, corpus, out = (tmp_path / name for name in ("my products.csv", "texts", "out"))
    done, calls = script.run(products, corpus, out)
    assert (done.returncode, calls) == (2, [])
    products.touch()
    corpus.mkdir()
    done, calls = script.run(products, corpus, out)
    assert (done.returncode, calls) == (2, [])
    assert "no *.txt or *.jsonl" in done.stderr
    for name in ("a.txt", "b.jsonl.gz", "readme.md"):
        (corpus / name).touch()
    done, calls = script.run(products, corpus, out, CHINESEBLUE=str(tmp_path / "no"))
    assert (done.returncode, calls) == (2, [])

    (tmp_path / "blue").mkdir()
    models(out / "rows", "base_128/0", "em_128/0", "em_pap/0")
    given: dict[str, Any] = {"CHINESEBLUE": str(tmp_path / "blue"), "ATTRIBUTES": "indication ingredient"}
    done, calls = script.run(products, corpus, out, IMPORT="separator=;", TRAIN="precision=bf16", **given)
    assert done.returncode == 0, done.stderr
    check_alphita(calls)
    run, cases = benches(calls)
    assert [named(one) for one in (run, cases)] == ["run", "cases"]
    imported, scored = (call for call in calls if call[0] == "alphita")
    assert imported[1:5] == ["terminology", "import", "products", str(products)]
    assert {"language=zh", "separator=;"} <= set(imported)
    assert [path.name for path in run.corpus] == ["a.txt", "b.jsonl.gz"]
    # The paper's own settings: nothing but what a Chinese text needs, and what was asked for.
    assert (run.steps, run.layers, run.hidden, run.heads, run.most) == (0, None, None, None, None)
    assert (run.settings, run.qtrel, run.language) == (["segmenter=jieba", "precision=bf16"], [], ["zh"])
    assert (run.rows, run.attribute) == ("base_128,em_128,em_pap", ["indication", "ingredient"])
    assert cases.models == "base_128,em_pap"
    assert scored[2:6] == ["ner", "sentence_pair", "answer_ranking", "retrieval"]
    assert [word.rpartition("=")[2] for word in scored if ",name=" in word] == ["base_128", "em_128", "em_pap"]

    done, calls = script.run(products, corpus, out, ROWS="rho_1,rho_10", **given)
    assert done.returncode == 0, done.stderr
    assert not [call for call in calls if call[0] == "alphita"]
    assert benches(calls)[0].rows == "rho_1,rho_10"


def test_the_numbers_to_match_stand_in_the_papers_script() -> None:
    from alphita.evaluation.benchmarks import _chineseblue

    text = (Path(__file__).parents[2] / "runs" / "electra_em_pap_paper.sh").read_text(encoding="utf-8")
    printed = " ".join(_chineseblue.TABLE_5.values()).split()
    for name in ("BERT-Base", "ELECTRA-Base", "ELECTRA+EM"):
        printed += _chineseblue.TABLE_4[name].split()
    assert len(printed) == 3 * 4 + 3 * 8
    assert [one for one in printed if one not in text] == []
