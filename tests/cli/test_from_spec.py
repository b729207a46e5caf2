"""Commands that are made of a dataclass: what is typed arrives, every option is used, and the help is brief."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from alphita import cli
from alphita.answer.normalizer import NAMES
from alphita.cli._from_spec import Brief, with_options
from alphita.errors import UsageError
from alphita.jobs.reading import COLUMN_OPTIONS
from alphita.jobs.spec import OF_ONE_FILE, Spec
from alphita.options import check, from_values, group, option, options_of
from tests.docs.commandline import problems

ROOT = typer.main.get_command(cli.app)


def commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands with their paths; of recipes and graph models, which are alike, one each."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = command.context_class(command)
    names = command.list_commands(context)
    for name in names[:1] if path[-1:] == ("train",) else names:
        yield from commands(command.get_command(context, name), (*path, name))


COMMANDS = {" ".join(path): command for path, command in commands()}
LONG = [name for name, command in COMMANDS.items() if len(command.params) > 13]
SPECS: dict[str, type] = {
    name: hint
    for name, command in COMMANDS.items()
    for hint in get_type_hints(inspect.unwrap(command.callback)).values()
    if is_dataclass(hint)
}


@dataclass(frozen=True, kw_only=True)
class Kitchen:
    heat: Literal["low", "high"] = option("low", help="How hot.")
    pans: tuple[str, ...] = option(("small",), "--pan", help="A pan; repeatable.")
    lids: bool = option(True, "--no-lids", panel="Pans", help="Without lids.")
    minutes: float = option(1.0, least=0.5, most=60, panel="Pans", help="How long.")
    salted: bool = option(True, help="With salt.")
    cook: str = "anyone"


@dataclass(frozen=True, kw_only=True)
class Meal:
    guests: tuple[Path, ...] = option(..., positional=True, metavar="GUEST", help="Who comes.")
    kitchen: Kitchen = group(Kitchen, without=("salted",))
    evening: Kitchen = group(Kitchen, without=("heat", "pans", "lids", "minutes"), panel="Evening")
    at: tuple[int, int] | None = option(None, metavar="H M", help="When.")


@pytest.fixture
def served() -> tuple[typer.Typer, list[Meal]]:
    app, seen = typer.Typer(), []

    def serve(meal: Meal) -> None:
        """Serve it."""
        seen.append(meal)

    app.command(cls=Brief)(with_options(serve))
    return app, seen


@pytest.mark.parametrize(
    ("typed", "meal"),
    [
        ("ann", Meal(guests=(Path("ann"),))),
        (
            "ann bob --heat high --pan big --pan flat --no-lids --minutes 2 --at 19 30",
            Meal(
                guests=(Path("ann"), Path("bob")),
                kitchen=Kitchen(heat="high", pans=("big", "flat"), lids=False, minutes=2.0),
                at=(19, 30),
            ),
        ),
        ("ann --no-salted", Meal(guests=(Path("ann"),), evening=Kitchen(salted=False))),
    ],
)
def test_what_is_typed_arrives(served: tuple[typer.Typer, list[Meal]], typed: str, meal: Meal) -> None:
    app, seen = served
    result = CliRunner().invoke(app, typed.split())
    assert (result.exit_code, seen) == (0, [meal]), result.output


@pytest.mark.parametrize("typed", ["", "ann --minutes 0.4", "ann --minutes 61", "ann --cook bob", "ann --lids"])
def test_what_does_not_fit_is_refused(served: tuple[typer.Typer, list[Meal]], typed: str) -> None:
    app, seen = served
    assert (CliRunner().invoke(app, typed.split()).exit_code, seen) == (2, [])


def test_python_is_held_to_the_same_values() -> None:
    check(Kitchen())
    with pytest.raises(UsageError, match=r"unknown value of heat 'hihg'; did you mean 'high'\?"):
        check(Kitchen(heat="hihg"))  # type: ignore[arg-type]
    for minutes in (0.4, 61.0):
        with pytest.raises(UsageError, match=rf"minutes {minutes} is not at least 0\.5 and at most 60"):
            check(Kitchen(minutes=minutes))


def test_panels_are_shown_when_all_is_asked_for(served: tuple[typer.Typer, list[Meal]]) -> None:
    brief, whole = (CliRunner().invoke(served[0], [word]).output for word in ("--help", "--help-all"))
    assert "--heat" in brief
    assert "--no-lids" not in brief
    assert "Evening" in whole
    assert "--no-lids" in whole


@pytest.mark.parametrize("name", SPECS)
def test_no_two_options_are_typed_alike(name: str) -> None:
    flags = [flag for each in options_of(SPECS[name]) for text in each.flags for flag in text.split("/")]
    assert sorted(flags) == sorted(set(flags))


@pytest.mark.parametrize("name", SPECS)
def test_every_option_is_used(name: str) -> None:
    of, command = SPECS[name], inspect.unwrap(COMMANDS[name].callback)
    code = "\n".join(Path(inspect.getfile(each)).read_text(encoding="utf-8") for each in (of, command))
    # `Spec` takes these by their names.
    by_name = (*NAMES, *COLUMN_OPTIONS, "encoding", "delimiter", "sheet") if "NormalizerOptions(**" in code else ()
    unused = [each.name for each in fields(of) if not re.search(rf"\b(spec|self)\.{each.name}\b", code)]
    assert [option for option in unused if option not in by_name] == []


@pytest.mark.parametrize("name", LONG)
def test_the_help_of_many_options_begins_with_an_example_and_is_brief(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Brief)
    _, example, *_ = command.help.split("\n\n")
    assert example.startswith(f"alphita {name} ")
    assert problems(ROOT, example.split()[1:]) == []
    assert sum(each.rich_help_panel is None for each in command.params if each.name != "help_all") <= 15
    assert "help_all" in [each.name for each in command.params]


@pytest.mark.parametrize("name", OF_ONE_FILE)
def test_what_is_of_one_file_does_not_go_with_an_engine(name: str) -> None:
    value = ("A=https://example.org/",) if name == "prefixes" else 7 if name == "audit" else "other"
    spec = from_values(Spec, {"input": "in", "to": "hpo", "output": "out", "engine": "processes", name: value})
    flag = next(each for each in options_of(Spec) if each.name == name).flags[0]
    with pytest.raises(UsageError, match=re.escape(f"{flag} ")):
        spec.check_engine()
