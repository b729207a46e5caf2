"""What every benchmark reads of its files and how exact_match answers: on_fixtures.json has it, a row of a table each.

The cases are in on_fixtures.tsv. ALPHITA_UPDATE_GOLDENS=1 writes the answers anew: read the difference.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alphita import config
from alphita.errors import InputError
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.scoring.results import Result, figures_of
from alphita_lab.evaluation.systems import load_system

FOLDER = Path(__file__).parent
FILES = Path(__file__).parents[3] / "fixtures" / "benchmarks"
ANSWERS = FOLDER / "on_fixtures.json"


def table(name: str) -> list[dict[str, str]]:
    header, *lines = (line.split("\t") for line in (FOLDER / name).read_text(encoding="utf-8").splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


CASES = table("on_fixtures.tsv")
FINE_TUNED = ("ner", "sentence_pair", "classification", "answer_ranking", "retrieval")
SCORED = [case for case in CASES if case["benchmark"] not in FINE_TUNED]
# Columns that hold floats of the system, or repeat the row's number.
LEFT_OUT = ("query", "similarity", "overlap", "similarity_entailed", "similarity_contradicted", "pair", "set")


def name_of(case: dict[str, str]) -> str:
    return " ".join(filter(None, case.values()))


@pytest.fixture(scope="module")
def terminologies(umls: Terminology, hpo: Terminology, omop: Terminology) -> dict[str, Terminology | None]:
    return {"umls": umls, "hpo": hpo, "omop": omop, "": None}


def loaded(case: dict[str, str], terminologies: dict[str, Terminology | None], data: Path = FILES) -> tuple[Any, Any]:
    module = load_benchmark(case["benchmark"])
    options = config.resolve(module.Options, sets=case["settings"].split())
    source = Source(data, terminologies[case["terminology"]], case["benchmark"], module.INFO.where)
    return module.load(source, options), options


RESULTS: dict[tuple[str, str], Result] = {}


def scored(case: dict[str, str], terminologies: dict[str, Terminology | None], system: str = "exact_match") -> Result:
    if (name_of(case), system) not in RESULTS:
        data, options = loaded(case, terminologies)
        result = load_benchmark(case["benchmark"]).evaluate(data, load_system(system), options)
        RESULTS[name_of(case), system] = result
    return RESULTS[name_of(case), system]


def told(result: Result) -> dict[str, Any]:
    rows = result.rows.drop(LEFT_OUT, strict=False)
    figures = {f"{one.metric}, {one.subset}": one.value and round(one.value, 6) for one in figures_of(result)}
    return {
        "main metric": result.metrics[0].name,
        "subsets": list(result.subsets),
        "figures": figures,
        "notes": result.notes,
        "columns": rows.columns,
        "rows": [[round(cell, 6) if isinstance(cell, float) else cell for cell in row] for row in rows.rows()],
    }


def test_what_is_read_and_answered(terminologies, monkeypatch) -> None:
    monkeypatch.setattr("alphita_lab.evaluation.scoring.results.RESAMPLES", 2)
    found = {}
    for case in CASES:
        if case in SCORED:
            found[name_of(case)] = told(scored(case, terminologies))
        else:
            data, _ = loaded(case, terminologies)
            sizes = {one.name: [len(one.train), len(one.test)] for one in data.sets}
            found[name_of(case)] = {"train and test": sizes, "notes": data.notes}
    if os.environ.get("ALPHITA_UPDATE_GOLDENS"):
        text = json.dumps(found, ensure_ascii=False, indent=1)
        # The innermost lists, such as the rows, on one line each.
        text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda inner: "[" + " ".join(inner[1].split()) + "]", text)
        ANSWERS.write_text(text + "\n", encoding="utf-8")
    wanted = json.loads(ANSWERS.read_text(encoding="utf-8"))
    assert list(found) == list(wanted)
    for name, one in found.items():
        assert json.loads(json.dumps(one)) == wanted[name], name


@pytest.mark.parametrize("case", SCORED, ids=name_of)
def test_rows_are_the_same_for_every_system(case, terminologies) -> None:
    one, other = (scored(case, terminologies, system) for system in ("exact_match", "tfidf"))
    for column in ("mention", "gold", "left", "right", "premise", "dataset"):
        if one.rows.schema.get(column) == pl.String:
            assert one.rows[column].equals(other.rows[column])
    assert [metric.name for metric in one.metrics] == [metric.name for metric in other.metrics]


@pytest.mark.parametrize("name", sorted({case["benchmark"] for case in SCORED}))
def test_published_numbers_are_of_metrics_that_there_are(name, terminologies) -> None:
    module = load_benchmark(name)
    metrics: set[str] = set()
    for case in SCORED:
        if case["benchmark"] == name:
            result = scored(case, terminologies)
            metrics |= {metric.name for metric in result.metrics} | {figure.metric for figure in result.figures}
    assert {module.INFO.main_metric, *(one.metric for one in module.PUBLISHED)} <= metrics


def first_cases() -> list[dict[str, str]]:
    return list({case["benchmark"]: case for case in reversed(CASES)}.values())


@pytest.mark.parametrize("case", first_cases(), ids=name_of)
def test_gzipped_files_with_a_mark_of_byte_order(case, terminologies, tmp_path) -> None:
    name = case["benchmark"]
    # All, for ner reads the corpora of others too.
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    for path in [path for path in (tmp_path / name).rglob("*") if path.is_file() and path.suffix != ".gz"]:
        content = b"\xef\xbb\xbf" + path.read_bytes()
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
        path.unlink()
    # The data as text, for some hold arrays.
    plain, packed = (repr(loaded(case, terminologies, data)[0]).replace(".gz", "") for data in (FILES, tmp_path))
    assert packed == plain


@pytest.mark.parametrize("bad", table("bad_files.tsv"), ids=lambda bad: f"{bad['file']} {bad['message']}")
def test_a_file_of_another_layout_is_refused(bad, terminologies, tmp_path) -> None:
    """Change `old` to `new` in a file, all of it if `old` is empty; both with escapes of Python."""
    name = bad["benchmark"]
    shutil.copytree(FILES / name, tmp_path / name)
    path = tmp_path / name / bad["file"]
    old, new = (bad[key].encode("latin-1", "backslashreplace").decode("unicode_escape") for key in ("old", "new"))
    if old:
        before = path.read_text(encoding="utf-8")
        assert old in before
        new = before.replace(old, new)
    # A byte that is no UTF-8 is written as the surrogate that stands for it.
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new, encoding="utf-8", errors="surrogateescape", newline="")
    with pytest.raises(InputError, match=bad["message"]) as caught:
        loaded(bad, terminologies, tmp_path)
    assert caught.value.file is not None


@pytest.mark.parametrize("case", first_cases(), ids=name_of)
def test_empty_files_are_refused(case, terminologies, tmp_path) -> None:
    name = case["benchmark"]
    for path in [path for path in (FILES / name).rglob("*") if path.is_file()]:
        copy = tmp_path / name / path.relative_to(FILES / name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(gzip.compress(b"") if path.suffix == ".gz" else b"")
    with pytest.raises(InputError):
        loaded(case, terminologies, tmp_path)
