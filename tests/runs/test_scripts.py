"""Every command of Alphita that a script in runs/ gives is one that exists, with options and settings that it takes."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from alphita import cli, config, registry
from alphita.errors import UsageError
from alphita_lab.evaluation.benchmarks import load_benchmark
from tests.docs.blocks import commands
from tests.docs.commandline import problems

RUNS = Path(__file__).parents[2] / "runs"
SCRIPTS = sorted(RUNS.rglob("*.sh"))
ABLATION, GPU_SPEED = RUNS / "coder_ablation_umls.sh", RUNS / "gpu" / "speed.sh"
CODERS = [path for path in SCRIPTS if path.match("coder*_umls.sh") and path != ABLATION]
# What starts the program; `launch` is either `alphita` or torchrun with it, and `learn` adds encoder and output.
PROGRAMS = ("$alphita", "${launch[@]}", "learn")
CHOICES = {
    ("train",): ("alphita_lab.recipes", "Config"),
    ("terminology", "import"): ("alphita.terminology.loaders", "Options"),
}
ASSIGNED = re.compile(r"^(\w+)=(?:\$\{\w+:-([^}]*)\}|([\w./-]+))$", re.MULTILINE)


def given(text: str) -> list[tuple[int, list[str]]]:
    """Return the words after the program of each command of Alphita's, with its 0-based line.

    A variable with a plain value or default is replaced by it; the words of an array are left out, for they are not
    known here.
    """
    values = {name: default or plain for name, default, plain in ASSIGNED.findall(text)}
    found = []
    for line, words in commands(text):
        start = next((place for place, word in enumerate(words) if word in PROGRAMS), None)
        if start is None or words[0].endswith("=") or words[start + 1 :] in ([], [")"]):
            continue
        kept = [word for word in words[start + 1 :] if not re.match(r"\$\{(\w+\[)?@", word)]
        if not kept or kept[0].startswith("-"):
            continue  # what `learn` runs is said where it is called
        if words[start] == "learn":
            kept += ["--encoder", "$encoder", "--output", "$model"]
        found.append((line, [re.sub(r"\$\{?(\w+)\}?", lambda one: values.get(one[1]) or one[0], w) for w in kept]))
    return found


def check_settings(path: tuple[str, ...], settings: list[str]) -> None:
    """Raise UsageError for a setting that the recipe, format or benchmark does not take; unknown values pass."""
    if any("$" in part for part in path):
        return
    if path[0] == "evaluate":
        for item in settings:
            benchmark, dot, own = item.partition("=")[0].partition(".")
            known = load_benchmark(benchmark if dot else path[1]).Options
            config.resolve(known, sets=_known([f"{own if dot else benchmark}={item.partition('=')[2]}"], known))
    elif path[:-1] in CHOICES:
        package, name = CHOICES[path[:-1]]
        known = getattr(registry.load(package, path[-1]), name)
        config.resolve(known, sets=_known(settings, known))


def _known(settings: list[str], known: type[config.Config]) -> list[str]:
    """Return the settings whose value is known; the others must be settings at least."""
    for item in settings:
        if (key := item.partition("=")[0]) not in known.model_fields:
            raise UsageError(registry.unknown("option", key, known.model_fields))
    return [item for item in settings if "$" not in item]


def wrong(text: str) -> list[str]:
    root = typer.main.get_command(cli.app)
    return [f"{line + 1}: {one}" for line, words in given(text) for one in problems(root, words, check_settings)]


@pytest.mark.parametrize("script", [*SCRIPTS, RUNS / "_umls.bash"], ids=lambda path: path.name)
def test_every_command_of_a_script_exists(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    # Not one of them is overlooked: each stands once among those found.
    starts = re.findall(r'^(?!\s*#).*(?:\$alphita|"\$\{launch\[@\]\}"|^learn) (?!in\b)(\w+)', text, re.MULTILINE)
    assert [words[0] for _, words in given(text)] == starts
    # What only calls other scripts has none of its own.
    assert bool(starts) == (script not in (ABLATION, GPU_SPEED))
    assert wrong(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "$alphita terminology imports obo x -o y",
        'if ! $alphita terminology import obo "$x" --outputs y; then exit; fi',
        "$alphita terminology import obo x -o y --set semantic_typ=1",
        '"${launch[@]}" train codr -t x -o y',
        '"${launch[@]}" train coder -t x -o y --set step="$steps"',
        'steps=many\n"${launch[@]}" train coder -t x -o y --set steps="$steps"',
        "$alphita evaluate mcsm mantra -o x --set mcsm.candidate=types",
        "$alphita evaluate relation_classification -o x --set fine_tun=true",
        '$alphita evaluate mcsm "${systems[@]:0:2}" --outputs x',
    ],
)
def test_wrong_commands_are_found(line: str) -> None:
    assert len(wrong(line)) == 1


def python_calls(text: str) -> list[list[str]]:
    """Return the words of each call of a Python file, its name first, except calls that take words of an array."""
    values = {name: default or plain for name, default, plain in ASSIGNED.findall(text)}
    found = []
    for line, words in commands(text):
        start = next(
            (place for place, word in enumerate(words) if word.startswith("$here/") and word.endswith(".py")), None
        )
        into_array = re.match(r"\s*\w+=\(", text.splitlines()[line])
        if start is None or into_array or any("@" in word for word in words):
            continue
        given = [
            re.sub(r"\$\{?(\w+)[^}]*\}?", lambda one: values.get(one[1]) or "1", word) for word in words[start + 1 :]
        ]
        found.append([Path(words[start]).stem, *given])
    return found


PYTHON_CALLS = [(path.name, call) for path in SCRIPTS for call in python_calls(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("script", "call"), PYTHON_CALLS, ids=lambda one: one if isinstance(one, str) else one[0])
def test_a_python_file_takes_what_it_is_called_with(script: str, call: list[str], monkeypatch) -> None:
    class Parsed(Exception):
        pass

    def parse(parser: argparse.ArgumentParser, *given: Any, **more: Any) -> None:
        read(parser, *given, **more)
        raise Parsed

    read = argparse.ArgumentParser.parse_args
    for folder in (RUNS, RUNS / "gpu", RUNS.parent / "bench"):
        monkeypatch.syspath_prepend(folder)
    module = importlib.import_module(call[0])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    with pytest.raises(Parsed):
        module.main(call[1:])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_shell_and_say_how_they_are_called(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n#")
    assert "\nset -euo pipefail\n" in text
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"usage: runs/{script.relative_to(RUNS)}" in done.stderr
    assert f"#   runs/{script.relative_to(RUNS)} " in text


FAKE = """#!/bin/sh
echo "alphita $*" >> "{log}"
while [ $# -gt 0 ]; do
    case "$1" in -o | --output) mkdir -p "$2" ;; esac
    shift
done
"""


def programs(folder: Path) -> tuple[dict[str, str], Path]:
    """Make an `alphita` and a `torchrun` that write down how they are called, and make the folder of `-o`."""
    folder.mkdir()
    log = folder / "log.txt"
    for name in ("alphita", "torchrun"):
        (folder / name).write_text(FAKE.format(log=log).replace("alphita $*", f"{name} $*"))
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}, log


def release(meta: Path) -> None:
    """Make a folder with the names of a release's files."""
    meta.mkdir()
    for name in ("MRCONSO", "MRREL", "MRSTY", "MRDEF"):
        (meta / f"{name}.RRF").touch()


@pytest.mark.parametrize("script", CODERS, ids=lambda path: path.name)
def test_a_papers_script_does_all_its_steps_and_goes_on(script: Path, tmp_path: Path) -> None:
    environment, log = programs(tmp_path / "bin")
    every = "all" in script.name
    recipe = "coder_transe" if "transe" in script.name else "coder"
    meta, data = tmp_path / "META", tmp_path / "data"
    release(meta)
    (meta / "MRCONSO.RRF").write_text("C0004604|ITA|P|L1|PF|S1|Y|A1||||MDRITA|PT|1|Mal di schiena|0|N||\n" * 2)
    for benchmark in ("cadec", "psytar", "mantra", "relation_classification"):
        (data / benchmark).mkdir(parents=True)
    words = ["bash", str(script), str(meta), str(tmp_path / "out"), str(data)]
    subprocess.run(
        words, env=environment | {"SETTINGS": "mu=0 seed=3", "BASELINES": "x/base"}, check=True, capture_output=True
    )
    calls = log.read_text().splitlines()
    assert [re.match(r"alphita (\w+ [\w-]+)", call)[1] for call in calls] == [  # type: ignore[index]
        "terminology import",
        "terminology import",
        "evaluate --check",
        f"train {recipe}",
        "evaluate mcsm",
        "evaluate mcsm",
        "evaluate cadec",
        "evaluate psytar",
        *(["evaluate mantra"] if every else []),
        "evaluate relation_classification",
        "terminology import",
        "evaluate case_table",
        "terminology import",
        "evaluate synonym_similarity",
    ]
    cases = (tmp_path / "out" / "cases.txt").read_text().splitlines()
    assert cases == (["Mal di schiena"] if every else ["pufferfish poisoning", "angina"])
    assert ("languages=ENG" in calls[0]) == (not every)
    assert "languages=ENG --set sources=SNOMEDCT_US" in calls[1]
    assert calls[2] == "alphita evaluate --check --model x/base,pooling=cls,name=base cls"
    assert calls[3].endswith("--set mu=0 --set seed=3")
    assert "--model x/base,pooling=cls,name=base cls --model x/base,pooling=mean,name=base mean" in calls[4]
    (classified,) = [call for call in calls if "evaluate relation_classification" in call]
    assert "pooling=mean" not in classified
    # The papers rank MANTRA against the English names of three sources.
    for call in calls:
        if "evaluate mantra" in call:
            assert "--set mantra.sources=SNOMEDCT,MESH,MEDDRA --set mantra.languages=en" in call
    root = typer.main.get_command(cli.app)
    for call in calls:
        assert problems(root, call.split()[1:], check_settings) == []

    # What is there is not made again; several GPUs are torchrun's; a benchmark without a folder is left out, and told.
    log.unlink()
    (tmp_path / "out" / "model").rmdir()
    shutil.rmtree(data / "psytar")
    done = subprocess.run(
        words, env=environment | {"GPUS": "4", "BASELINES": ""}, check=True, capture_output=True, text=True
    )
    calls = log.read_text().splitlines()
    assert calls[0].startswith(f"torchrun --nproc-per-node=4 -m alphita train {recipe} ")
    assert " --resume " in calls[0]
    assert not any("import" in call for call in calls)
    assert not any("evaluate psytar" in call for call in calls)
    assert "left out: psytar" in done.stderr


def test_the_ablation_makes_a_run_of_each_row_and_a_paper_shares_its_terminologies(tmp_path: Path) -> None:
    environment, log = programs(tmp_path / "bin")
    meta, out = tmp_path / "META", tmp_path / "out"
    release(meta)
    given = environment | {"SETTINGS": "seed=3", "BASELINES": "", "STEPS": "7"}
    subprocess.run(["bash", str(ABLATION), str(meta), str(out)], env=given, check=True, capture_output=True)
    calls = log.read_text().splitlines()
    trained = {
        Path(words[words.index("--output") + 1]).parent.name: call
        for call in calls
        if (words := call.split())[1] == "train"
    }
    assert {name: call.partition("inverse_relations=false ")[2] for name, call in trained.items()} == {
        "coder": "--set seed=3",
        "coder_without": "--set mu=0 --set seed=3",
        "coder_transe_similarity": "--set relation_similarity=transe --set seed=3",
        "ms_rel_sty": "--set semantic_type_weight=0.1 --set seed=3",
        "ms_rel": "--set seed=3",
        "ms_sty": "--set semantic_type_weight=0.1 --set mu=0 --set seed=3",
        "ms": "--set mu=0 --set seed=3",
    }
    imported = [call.split()[-1] for call in calls if " terminology import " in call]
    of_paper = ["umls_eng", "snomed", "icd9cm", "icd10cm"]
    assert imported == [
        f"{out}/{paper}/{name}.terminology" for paper in ("coder_eng", "coder_transe_eng") for name in of_paper
    ]

    log.unlink()
    subprocess.run(
        ["bash", str(ABLATION), str(meta), str(tmp_path / "few")],
        env=given | {"ROWS": "ms coder"},
        check=True,
        capture_output=True,
    )
    assert sum(" train " in call for call in log.read_text().splitlines()) == 2
