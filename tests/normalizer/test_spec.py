"""The options of a job: each is on the command line, arrives, and is used."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from alphita.cli._from_spec import with_options
from alphita.errors import UsageError
from alphita.normalizer.spec import OF_AN_ENGINE, OF_ONE_FILE, Spec

SOURCES = Path(__file__).parents[2] / "src" / "alphita"
NAMES = [each.name for each in fields(Spec)]


@pytest.fixture
def asked() -> tuple[typer.Typer, list[Spec]]:
    app, seen = typer.Typer(), []
    app.command()(with_options(lambda spec: seen.append(spec)))
    return app, seen


def test_what_is_typed_arrives(asked: tuple[typer.Typer, list[Spec]]) -> None:
    app, seen = asked
    typed = ["in.csv", "--index", "hpo", "-o", "out.csv", "--top", "3", "--type", "a", "--type", "b", "--explain"]
    typed += ["--names", "n.csv", "--error", "0.1", "--prefix", "L=https://example.org/"]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.output
    assert seen == [
        Spec(
            input="in.csv",
            to="hpo",
            output="out.csv",
            top=3,
            types=("a", "b"),
            explain=True,
            names=(Path("n.csv"),),
            error=0.1,
            prefixes=("L=https://example.org/",),
        )
    ]


def test_a_number_out_of_its_range_is_refused(asked: tuple[typer.Typer, list[Spec]]) -> None:
    app, seen = asked
    result = CliRunner().invoke(app, ["in.csv", "--to", "hpo", "-o", "out.csv", "--error", "1.5"])
    assert (result.exit_code, seen) == (2, [])


def test_no_two_options_are_typed_alike() -> None:
    flags = [flag for name in NAMES for flag in Spec.flags(name)]
    assert sorted(flags) == sorted(set(flags))


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_used(name: str) -> None:
    code = (SOURCES / "normalizer/spec.py").read_text() + (SOURCES / "cli/normalize.py").read_text()
    assert re.search(rf"\b(self|spec)\.{name}\b|\"{name}\"", code.split("def option(", 1)[1] + repr(OF_AN_ENGINE))


@pytest.mark.parametrize("name", OF_ONE_FILE)
def test_what_is_of_one_file_does_not_go_with_an_engine(name: str) -> None:
    value = ("A=https://example.org/",) if name == "prefixes" else 7 if name == "audit" else "other"
    spec = Spec(input="in", to="hpo", output="out", engine="processes", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=re.escape(spec.flags(name)[0])):
        spec.check_engine()


@pytest.mark.parametrize("name", OF_AN_ENGINE)
def test_what_is_of_an_engine_does_not_go_without_one(name: str) -> None:
    spec = Spec(input="in", to="hpo", output="out", **{name: 2})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=spec.flags(name)[0]):
        spec.check_engine()
