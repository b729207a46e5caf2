"""Every command that README.md and docs/ show exists and runs: the quick in `make test`, all in `make check-slow`."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

import alphita
from alphita import config, registry
from tests.docs import follow, given
from tests.docs.blocks import Block, blocks, commands
from tests.docs.commandline import problems
from tests.docs.follow import Reader
from tests.mappings import cdm

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
    ("train",): ("alphita_lab.recipes", "Config"),
    ("terminology", "import"): ("alphita.terminology.loaders", "Options"),
}
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
# One page of each kind of command; all the others run in `make check-slow`.
QUICK = re.compile(r"docs/(terminologies/(table|umls|merge)|troubleshooting)\.md")
# Each is a promise that nobody keeps for the reader: of about 170 blocks, no more than these.
MAX_NOT_RUN = 31


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
    if program.endswith("pip") and "install" in words:
        asked = re.findall(r"^(?:alphita|\.)\[(.+)]$", "\n".join(words), re.MULTILINE)
        return [f"no extra {extra!r}: {sorted(EXTRAS)}" for names in asked for extra in set(names.split(",")) - EXTRAS]
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
        ["pip", "install", "alphita[trian]"],
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


@pytest.mark.parametrize("block", [block for block in RUN if block.not_run], ids=str)
def test_what_is_not_run_has_a_true_reason(block):
    assert block.not_run in follow.NOT_RUN, f"{block}: run it, or give one of these reasons: {sorted(follow.NOT_RUN)}"
    assert re.search(follow.NOT_RUN[block.not_run], block.text), f"{block}: nothing in it {block.not_run}"


def test_few_blocks_are_not_run_and_none_hides_in_another_language():
    assert len([block for block in RUN if block.not_run]) <= MAX_NOT_RUN
    hidden = [
        str(block)
        for block in BLOCKS
        if block.language not in {"sh", "python"}
        and re.search(r"^(\$ )?(alphita|curl|pip|python3?) ", block.text, re.M)
    ]
    assert hidden == [], "a command stands in a block of language sh"


def test_what_readers_are_given_is_for_a_block_that_is_there():
    for page, words, _ in given.GIVEN:
        assert [block for block in RUN if block.file == f"docs/{page}" and words in block.text], (page, words)


@pytest.fixture(scope="module")
def readers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Reader]]:
    """A page's name -> who follows it; who followed another leaves."""
    at: dict[str, Reader] = {}

    def of(page: str) -> Reader:
        if page not in at:
            leave()
            folder, programs = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("programs")
            needed = any(follow.DATABASE.search(block.text) for block in RUN if block.file == page)
            at[page] = Reader(folder, programs, request.getfixturevalue("page_database") if needed else None)
        return at[page]

    def leave() -> None:
        for page in list(at):
            at.pop(page).leave()

    yield of
    leave()


@pytest.fixture(scope="module")
def page_database() -> Iterator[str]:
    """The address of a database with the CDM's table that the pages fill."""
    with cdm.database(["source_to_concept_map"]) as server:
        yield server.get_uri()


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=[] if QUICK.fullmatch(block.file) else [pytest.mark.slow]) for block in RUN],
    ids=str,
)
def test_the_pages_work_as_written(block: Block, readers):
    if block.not_run is not None:
        pytest.skip(f"not run: {block.not_run}")
    if follow.installs(block):
        pytest.skip("not run: it installs; `test_every_command_exists` has looked at its extras")
    if name := follow.lacking(block):
        pytest.skip(f"not run: {name} is not here")
    readers(block.file).follow(block)
