from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer

from alphita.errors import UsageError
from tests.docs.blocks import Block, blocks, commands
from tests.docs.commandline import problems


def fake_application() -> typer.Typer:
    app = typer.Typer()

    @app.callback()
    def top(version: Annotated[bool, typer.Option("--version", is_eager=True)] = False) -> None: ...

    @app.command()
    def normalize(
        input_: Annotated[str, typer.Argument()],
        index: Annotated[Path, typer.Option()],
        output: Annotated[str, typer.Option("--output", "-o")],
        top: int = 1,
        resume: Annotated[bool, typer.Option("--resume/--anew")] = False,
    ) -> None: ...

    @app.command()
    def quickstart() -> None: ...

    terminology = typer.Typer()

    @terminology.command("import")
    def import_(
        loader: str, paths: list[str], settings: Annotated[list[str] | None, typer.Option("--set")] = None
    ) -> None: ...

    @terminology.command()
    def describe(path: str, other: str = "") -> None: ...

    app.add_typer(terminology, name="terminology")
    train = typer.Typer()

    @train.callback(invoke_without_command=True)
    def listing(shown: Annotated[bool, typer.Option("--list")] = False) -> None: ...

    @train.command()
    def coder(
        out: Annotated[str, typer.Option("-o")], set_: Annotated[list[str] | None, typer.Option("--set")] = None
    ): ...

    app.add_typer(train, name="train")
    return app


ROOT = typer.main.get_command(fake_application())


@pytest.mark.parametrize(
    "line",
    [
        *("quickstart", "--version", "--help", "normalize in.csv --index X.index -o out.csv"),
        "normalize - --index=X.index -oout.csv --top 3 --resume",
        *("normalize --index X --output - --anew -- -odd-name.csv", "normalize --help"),
        *("terminology import obo a.obo b.obo --set a=1 --set b=2", "terminology describe X", "train --list"),
        "train coder -o m --set steps=3",
    ],
)
def test_right_commands_pass(line):
    assert problems(ROOT, line.split()) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "alphita: which of ['normalize', 'quickstart', 'terminology', 'train']?"),
        ("normalise x", "alphita: unknown command 'normalise'; choose from ['normalize', 'quickstart', "),
        ("terminology", "alphita terminology: which of ['describe', 'import']?"),
        ("terminology merge a b", "alphita terminology: unknown command 'merge'; choose from ['describe', 'import']"),
        ("quickstart --fast", "alphita quickstart: unknown option '--fast'; choose from ['--help']"),
        ("--verbose quickstart", "alphita: unknown option '--verbose'; choose from ["),
        ("normalize x --index X -o", "alphita normalize: option '-o' needs a value"),
        ("normalize x -o y", "alphita normalize: option '--index' is required"),
        ("normalize --index X -o y", "alphita normalize: takes 1 to 1 arguments, not []"),
        ("normalize a b --index X -o y", "alphita normalize: takes 1 to 1 arguments, not ['a', 'b']"),
        ("terminology import obo", "alphita terminology import: takes 2 to inf arguments, not ['obo']"),
        ("train -o m", "alphita train: unknown option '-o'; choose from ['--help', '--list']"),
    ],
)
def test_wrong_commands_are_told(line, problem):
    (found,) = problems(ROOT, line.split())
    assert found.startswith(problem)


def test_settings_are_looked_at_with_the_path_and_first_argument_of_their_command():
    seen = []

    def check(path: tuple[str, ...], settings: list[str]) -> None:
        seen.append((path, settings))
        raise UsageError("unknown option 'a'")

    words = ["terminology", "import", "obo", "a.obo", "--set", "a=1", "--set=b=2"]
    assert problems(ROOT, words, check) == ["alphita terminology import: unknown option 'a'"]
    problems(ROOT, ["train", "coder", "-o", "m", "--set", "k=1"], check)
    problems(ROOT, ["train", "coder", "-o", "m"], check)
    assert seen == [
        (("terminology", "import", "obo"), ["a=1", "b=2"]),
        (("train", "coder"), ["k=1"]),
        (("train", "coder"), []),
    ]


def test_blocks_know_their_place_language_and_whether_they_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```sh\nmake test\n\nls\n```\ntext\n<!-- not run: needs UMLS -->\n\n```sh\nalphita x\n```\n"
        "```python\nx\n```\n"
    )
    assert blocks(page) == [
        Block("page.md", 4, "sh", "make test\n\nls"),
        Block("page.md", 12, "sh", "alphita x", "needs UMLS"),
        Block("page.md", 15, "python", "x"),
    ]
    page.write_text("```sh\nmake\n")
    with pytest.raises(ValueError, match=r"page\.md:1: the block is not closed"):
        blocks(page)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("# a comment", []),
        ("make test  # all of it", [(0, ["make", "test"])]),
        ("a b\n\nc 'd e'", [(0, ["a", "b"]), (2, ["c", "d e"])]),
        ("a \\\n  --b \\\n  c\nd", [(0, ["a", "--b", "c"]), (3, ["d"])]),
        (
            'echo "x | y" | alphita normalize - && ls; pwd',
            [(0, ["echo", "x | y"]), (0, ["alphita", "normalize", "-"]), (0, ["ls"]), (0, ["pwd"])],
        ),
        ("X=1 Y=2 a k=v > out.csv 2> err.txt --z", [(0, ["a", "k=v", "--z"])]),
        ("a --top 2 < in.csv 2>&1", [(0, ["a", "--top", "2"])]),
        ("X=1", []),
    ],
)
def test_shell_lines_are_divided_into_commands(text, found):
    assert commands(text) == found


@pytest.mark.parametrize("text", ["a 'b", "cat <<EOF\nx\nEOF"])
def test_shell_that_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match=r"No closing quotation|a here-document is not understood"):
        commands(text)
