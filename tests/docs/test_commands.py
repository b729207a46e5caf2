"""Every command that README.md and docs/ show is one that exists; those that need nothing else also run (slow)."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

import alphita
from alphita import config, registry
from tests.docs.blocks import Block, blocks, commands
from tests.docs.commandline import problems

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks(page, ROOT)]
SHELL = [block for block in BLOCKS if block.language == "sh"]
PYTHON = [block for block in BLOCKS if block.language == "python"]
# In the order in which a reader follows them; Python after the commands that make what it opens.
RUN = [
    block
    for page in PAGES
    for language in (SHELL, PYTHON)
    for block in language
    if block.file == page.relative_to(ROOT).as_posix()
]
TARGETS = set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
# Where the choices of `--set` come from: a command's path -> the registry and its class of options.
CHOICES = {
    ("train",): ("alphita.recipes", "Config"),
    ("terminology", "import"): ("alphita.terminology.loaders", "Options"),
}
# `make` inside the blocks that run: what installs or tests is not done again in here, but its target must exist.
MAKE = """#!/bin/sh
case "$1" in
    quickstart) exec alphita quickstart ;;
    *) exec {make} -n "$@" ;;
esac
"""
SECONDS = 3600


def check_settings(path: tuple[str, ...], settings: list[str]) -> None:
    if path[:-1] in CHOICES:
        folder, options = CHOICES[path[:-1]]
        config.resolve(getattr(registry.load(folder, path[-1]), options), sets=settings)


def wrong(words: list[str]) -> list[str]:
    """Return what is wrong with one command; of other programs than `alphita` and `make` nothing is known."""
    program = words[0].removeprefix(".venv/bin/")
    if program == "alphita":
        from alphita import cli

        return problems(typer.main.get_command(cli.app), words[1:], check_settings)
    if program == "make":
        targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        return [
            f"the Makefile has no target {target!r}: {sorted(TARGETS)}" for target in targets if target not in TARGETS
        ]
    return []


def test_readme_shows_commands_and_python():
    assert any(words[0] == "make" for block in SHELL if block.file == README.name for _, words in commands(block.text))
    assert {block.language for block in RUN} == {"sh", "python"}
    assert {"install", "quickstart", "test", "check-slow", "bench"} <= TARGETS


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_every_command_exists(block):
    found = [
        f"{block.file}:{block.line + line}: {problem}"
        for line, words in commands(block.text)
        for problem in wrong(words)
    ]
    assert found == []


@pytest.mark.parametrize(
    "words",
    [
        ["alphita", "train", "codr", "--terminology", "t", "-o", "m"],
        ["alphita", "train", "coder", "--terminology", "t", "-o", "m", "--set", "stepz=1"],
        ["alphita", "train", "coder", "--terminology", "t", "-o", "m", "--set", "steps=many"],
        ["alphita", "train", "coder", "--terminologies", "t", "-o", "m"],
        ["alphita", "terminology", "import", "obolete", "a.obo", "-o", "X.terminology"],
        ["alphita", "terminology", "import", "obo", "a.obo", "-o", "X.terminology", "--set", "no_such_option=1"],
        [".venv/bin/alphita", "normalise", "a.csv"],
        ["make", "quickstrat"],
    ],
)
def test_commands_that_do_not_exist_are_found(words):
    assert len(wrong(words)) == 1


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_uses_public_names_only(block):
    tree = ast.parse(block.text, str(block))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "alphita"
    }
    assert used <= {*alphita.__all__, "__version__"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A page's name -> a copy of the repository of its own, as a fresh clone with the packages installed."""
    copies: dict[str, Path] = {}

    def of(page: str) -> Path:
        if page not in copies:
            copies[page] = cloned(tmp_path_factory.mktemp("clone"))
        return copies[page]

    yield of
    for folder in copies.values():
        # A server that a page starts and ends by its number, where the page failed in between.
        for started in folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(started.read_text()), signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


def cloned(folder: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def environment(folder: Path, programs: Path) -> dict[str, str]:
    make = programs / "make"
    make.write_text(MAKE.format(make=shutil.which("make")))
    make.chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
    # The installed package may be another copy; this one is meant.
    return os.environ | {"PATH": path, "PYTHONPATH": str(folder / "src")}


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN, ids=str)
def test_the_pages_work_as_written(block: Block, copy, tmp_path):
    if block.not_run is not None:
        pytest.skip(f"not run: {block.not_run}")
    folder = copy(block.file)
    program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        [*program, block.text],
        cwd=folder,
        env=environment(folder, tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout[-4000:]}"
