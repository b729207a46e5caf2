from __future__ import annotations

import argparse
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from alphita import cli
from tests.docs.commandline import problems
from tests.runs.test_scripts import check_settings

RUNS = Path(__file__).parents[2] / "runs"
sys.path.append(str(Path(__file__).parents[2] / "bench"))
italian = importlib.import_module("italian")
tokens = importlib.import_module("tokens_per_word")
rows = importlib.import_module("italian_rows")
graphs = importlib.import_module("italian_graph")

# Writes down its words, quoted, and makes what -o or --output names.
FAKE = """#!/usr/bin/env bash
printf '%q ' "$(basename "$0")" "$@" >> "{log}"
echo >> "{log}"
while [ $# -gt 0 ]; do
    case "$1" in -o | --output) mkdir -p "$2" ;; esac
    shift
done
"""


class Script:
    """A script with programs that only write down how they are called."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path, self.log, programs = RUNS / name, folder / "log.txt", folder / "bin"
        programs.mkdir()
        for program in ("alphita", "python3"):
            (programs / program).write_text(FAKE.format(log=self.log))
            (programs / program).chmod(0o755)
        self.environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *words: str | Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        """Run it and return how it ended, and the words of each call."""
        self.log.unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", str(self.path), *map(str, words)],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return done, [shlex.split(line) for line in lines]


def benches(calls: list[list[str]]) -> list[argparse.Namespace]:
    """Return the options of each call of bench/italian.py; a wrong one is an error."""
    return [italian._parser().parse_args(call[2:]) for call in calls if Path(call[1]).name == "italian.py"]


def check_alphita(calls: list[list[str]]) -> None:
    root = typer.main.get_command(cli.app)
    for call in calls:
        if call[0] == "alphita":
            assert problems(root, call[1:], check_settings) == []


def named(given: argparse.Namespace) -> str:
    return str(given.action.__name__)


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    data = tmp_path / "my data"
    for name in (
        "open_graph/terms.tsv.gz",
        "open_graph/relations.tsv",
        "text/e3c/English.layer2.jsonl",
        "text/e3c/Italian.layer2.jsonl.gz",
        "text/e3c/Italian.layer3.jsonl.gz",
        "text/e3c/Spanish.layer2.jsonl",
        "benchmarks/relatedness/UMNSRS_relatedness.csv",
    ):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).touch()
    return data


def test_the_open_script_does_all_its_steps_and_goes_on(opened: Path, tmp_path: Path) -> None:
    script = Script("italian_open.sh", tmp_path)
    out = tmp_path / "out"
    done, calls = script.run(opened, out, SEEDS="0,5", STEPS="7", MARGIN="beta=40 eps=0.2", INJECTION="", THREADS="1")
    assert done.returncode == 0, done.stderr
    check_alphita(calls)
    made = benches(calls)
    assert [named(one) for one in made] == ["scarce", "graph", "run", "bilingual", "run"]
    scarce, graph, english, bilingual, italian_run = made
    (tables,) = [call for call in calls if Path(call[1]).name == "open_graph.py"]
    assert tables[2:4] == [str(opened / "open_graph/terms.tsv.gz"), str(opened / "open_graph/relations.tsv")]
    assert scarce.terminology == out / "en.terminology"
    assert graph.terminology == bilingual.terminology == out / "open.terminology"
    assert (english.terminology, english.cut, english.split) == (scarce.output, scarce.held_out, None)
    assert (italian_run.terminology, italian_run.split) == (bilingual.output, bilingual.held_out)
    assert english.corpus == [opened / "text/e3c/English.layer2.jsonl"]
    assert [path.name for path in italian_run.corpus] == ["Italian.layer2.jsonl.gz", "Italian.layer3.jsonl.gz"]
    for one in (english, italian_run):
        assert (one.seeds, one.steps, one.graphs, one.threads) == ("0,5", 7, graph.output, 1)
        assert (one.ext, one.margin, one.injection) == (["learning_rate=2e-4"], ["beta=40", "eps=0.2"], [])
    assert (english.language, italian_run.language, italian_run.target_language) == ("en", "it", "en")
    assert {"held_out_synonyms", "misspelt_names"} <= set(english.benchmarks.split(","))
    assert italian_run.benchmarks == "held_out_translations,misspelt_names"
    (last,) = [call for call in calls if Path(call[1]).name == "tokens_per_word.py"]
    assert last.count("--language") == 2
    trained = [call for call in calls if call[:2] == ["alphita", "train"]]
    assert [call[call.index("--output") + 1] for call in trained] == [str(out / "tokens/it"), str(out / "tokens/es")]

    # What alphita has made is not made again; the benches see to theirs themselves.
    done, calls = script.run(opened, out)
    assert done.returncode == 0, done.stderr
    assert not [call for call in calls if call[0] == "alphita"]
    assert [named(one) for one in benches(calls)] == ["scarce", "graph", "run", "bilingual", "run"]
    assert benches(calls)[2].margin == ["learning_rate=1e-4", "accumulation=2"]
    assert set(benches(calls)[1].models.split(",")) == set(graphs.MODELS)
    # Of all rows none is unknown to the bench.
    assert set(benches(calls)[4].rows.split(",")) <= set(rows.BY_NAME)


def test_the_open_script_makes_the_english_rows_of_a_part(opened: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done, calls = Script("italian_open.sh", tmp_path).run(opened, out, PART="HP:0000118")
    assert done.returncode == 0, done.stderr
    check_alphita(calls)
    (subset,) = [call for call in calls if call[:3] == ["alphita", "terminology", "subset"] and "HP:0000118" in call]
    scarce, graph, english, bilingual, _ = benches(calls)
    assert (subset[3], scarce.terminology) == (str(out / "en.terminology"), out / "en_HP_0000118.terminology")
    assert (english.terminology, english.cut) == (scarce.output, scarce.held_out)
    # All that the whole has in the same folder is apart from it, and the graph is whole.
    assert (scarce.output, scarce.held_out) == (out / "scarce_HP_0000118.terminology", out / "cut_HP_0000118.split")
    assert english.output == out / "english_HP_0000118"
    assert graph.terminology == bilingual.terminology == out / "open.terminology"


def test_the_papers_script_does_all_its_steps_and_goes_on(tmp_path: Path) -> None:
    script = Script("italian_umls.sh", tmp_path)
    meta, corpus, data, out = (tmp_path / name for name in ("META", "texts", "data", "out"))
    for folder in (meta, corpus, data):
        folder.mkdir()
    done, calls = script.run(meta, corpus, out)
    assert done.returncode == 2
    assert "no *.txt or *.jsonl" in done.stderr
    assert calls == []
    for name in ("a.txt", "b.jsonl.gz", "readme.md"):
        (corpus / name).touch()
    more: dict[str, Any] = {"TRANSLATIONS": "by hand.csv", "EXT": "steps=1000"}
    done, calls = script.run(meta, corpus, out, data, **more)
    assert done.returncode == 0, done.stderr
    check_alphita(calls)
    groups, graph, run = benches(calls)
    assert [named(one) for one in (groups, graph, run)] == ["groups", "graph", "run"]
    assert calls[0][:4] == ["alphita", "terminology", "import", "umls"]
    assert "languages=ITA" in calls[0]
    assert groups.sources == "ICPCITA,MDRITA,MSHITA"
    assert groups.output == graph.terminology == run.terminology
    assert [path.name for path in run.corpus] == ["a.txt", "b.jsonl.gz"]
    # The paper's own settings, all rows and both measures of table 3 to 5.
    assert (run.steps, run.margin, run.injection, run.ext) == (0, [], [], ["steps=1000"])
    assert run.rows.split(",") == list(rows.BY_NAME)
    assert run.benchmarks == "mcsm,clustering_pairs,relatedness"
    assert run.scoring == ["relatedness.translations=by hand.csv"]
    assert (run.data, graph.data, run.encoder) == (data, data, "dbmdz/bert-base-italian-uncased")

    done, calls = script.run(meta, corpus, out)
    assert done.returncode == 0, done.stderr
    assert not [call for call in calls if call[0] == "alphita"]
    assert benches(calls)[2].benchmarks == "mcsm,clustering_pairs"
