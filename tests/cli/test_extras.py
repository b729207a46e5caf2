"""Every command where an extra is not installed: it does its work, or says what to install and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from alphita import cli
from alphita.errors import EXTRAS
from tests.cli.command import alphita
from tests.tiny import tiny_model, tiny_terminology

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures" / "terminology"
CALLS = [line.split("\t") for line in HERE.joinpath("extras.tsv").read_text("utf-8").splitlines()[1:]]
WORDS = "mention,code\nheart pain,1\nheadache,2\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    rows = [("id", "term"), ("T:1", "toe ache"), ("T:1", "sore toe"), ("T:2", "headache"), ("T:2", "head pain")]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(folder / "concepts.xlsx")
    (folder / "concepts.csv").write_text("".join(f"{one},{other}\n" for one, other in rows))
    (folder / "words.csv").write_text(WORDS)
    (folder / "text.txt").write_text("pain of the heart again\nswelling of the eye\n" * 40)
    pq.write_table(pa.table({"mention": ["sore toe"]}), folder / "words.parquet")
    shutil.copy(FIXTURES / "small.obo", folder)
    shutil.copy(FIXTURES / "products" / "products.csv", folder)
    tiny_model(folder / "model")
    tiny_terminology(folder / "X.terminology")
    assert alphita("terminology", "import", "table", folder / "concepts.csv", "-o", folder / "Y.terminology") == 0
    assert alphita("terminology", "import", "products", folder / "products.csv", "-o", folder / "P.terminology") == 0
    build = ("--model", "alphita-en", "-o", folder / "products.search")
    assert alphita("search", "build", "-t", folder / "P.terminology", *build) == 0
    assert alphita("index", folder / "Y.terminology", "--learn", "no", "-o", folder / "Y.index") == 0
    answers = ("--to", folder / "Y.index", "-o", folder / "answers.csv", "--code-column", "code")
    assert alphita("normalize", folder / "words.csv", *answers) == 0
    return folder


def test_every_command_is_called() -> None:
    def leaves(command: object, words: tuple[str, ...]) -> set[tuple[str, ...]]:
        names = command.list_commands(None) if hasattr(command, "list_commands") else ()
        # Recipes and graph models are choices.
        if not names or words in (("train",), ("graph", "train")):
            return {words}
        return {leaf for name in names for leaf in leaves(command.get_command(None, name), (*words, name))}

    called = [call.split() for _, call in CALLS]
    every = leaves(typer.main.get_command(cli.app), ())
    assert [words for words in every if not any(tuple(call[: len(words)]) == words for call in called)] == []


def outcomes(extras: set[str], calls: list[str], folder: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """Return what comes of calls where extras are not installed."""
    there = tmp_path / "there"
    shutil.copytree(folder, there)
    (tmp_path / "calls").write_text("\n".join(calls))
    packages = ",".join(package for package, its in EXTRAS.items() if its in extras)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ALPHITA_QUIET": "1"}
    command = [sys.executable, str(HERE / "without.py"), packages, str(tmp_path / "calls")]
    done = subprocess.run(command, cwd=there, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_with_no_extra_the_others_work(folder: Path, tmp_path: Path) -> None:
    calls = [call for needs, call in CALLS if not needs]
    found = outcomes(set(EXTRAS.values()), calls, folder, tmp_path)
    # Two names are too few to calibrate on.
    assert [one for one in found if one["code"] != int(one["call"].startswith("calibrate"))] == []


@pytest.mark.parametrize("extra", sorted(set(EXTRAS.values()) - {"spacy"}))
def test_without_an_extra(extra: str, folder: Path, tmp_path: Path) -> None:
    for found in outcomes({extra}, [call for needs, call in CALLS if needs == extra], folder, tmp_path):
        assert (found["code"], found["left"]) == (1, []), found
        assert f"pip install 'alphita[{extra}]'" in found["said"], found
