"""The options of a job: each is on the command line, arrives, and is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from alphita.cli._from_spec import with_options
from alphita.errors import UsageError
from alphita.index.choice import Choice
from alphita.jobs.spec import OF_ONE_FILE, Concepts, Spec
from alphita.options import Cluster, from_values, options_of

SOURCES = Path(__file__).parents[2] / "src"
OPTIONS = {each.name: each for each in options_of(Spec)}


def keep(seen: list[Spec]) -> typer.Typer:
    """Return a command that only keeps what it is given."""
    app = typer.Typer()

    def command(spec: Spec) -> None:
        seen.append(spec)

    app.command()(with_options(command))
    return app


def test_what_is_typed_arrives() -> None:
    app = keep(seen := [])
    typed = ["in.csv", "--index", "hpo", "-o", "out.csv", "--top", "3", "--type", "a", "--type", "b", "--explain"]
    typed += [
        *("--names", "n.csv", "--no-borrow", "--workers", "2", "--error", "0.1", "--prefix"),
        "L=https://example.org/",
    ]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.output
    assert seen == [
        Spec(
            input="in.csv",
            to="hpo",
            output="out.csv",
            top=3,
            concepts=Concepts(types=("a", "b")),
            explain=True,
            given=Choice(borrow=False, names=("n.csv",)),
            cluster=Cluster(workers=2),
            error=0.1,
            prefixes=("L=https://example.org/",),
        )
    ]


def test_a_number_out_of_its_range_is_refused() -> None:
    app = keep(seen := [])
    result = CliRunner().invoke(app, ["in.csv", "--to", "hpo", "-o", "out.csv", "--error", "1.5"])
    assert (result.exit_code, seen) == (2, [])


@pytest.mark.parametrize("name", OF_ONE_FILE)
def test_what_is_of_one_file_does_not_go_with_an_engine(name: str) -> None:
    value = ("A=https://example.org/",) if name == "prefixes" else 7 if name == "audit" else "other"
    spec = from_values(Spec, {"input": "in", "to": "hpo", "output": "out", "engine": "processes", name: value})
    with pytest.raises(UsageError, match=re.escape(OPTIONS[name].flags[0])):
        spec.check_engine()


@pytest.mark.parametrize("name", ["workers", "address", "gpus_per_worker"])
def test_what_is_of_an_engine_does_not_go_without_one(name: str) -> None:
    spec = Spec(input="in", to="hpo", output="out", cluster=Cluster(**{name: 2}))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=OPTIONS[name].flags[0]):
        spec.check_engine()
