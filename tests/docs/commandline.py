"""Whether words form a command of a typer application: its commands, options, settings and number of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from alphita.errors import AlphitaError

# Looks at the settings "key=value" of one command, named by its path and first argument; raises AlphitaError.
CheckSettings = Callable[[tuple[str, ...], list[str]], None]


def problems(root: Any, words: Iterable[str], check_settings: CheckSettings | None = None) -> list[str]:
    """Return what is wrong with the words that follow the program's name.

    Args:
        root: the application's root command, of `typer.main.get_command`.
        words: the words after the program's name.
        check_settings: what looks at the values of `--set`.
    """
    left, command, path = list(words), root, ()
    while True:
        options, arguments, wrong = _split(command, left)
        where = " ".join(("alphita", *path))
        if wrong:
            return [f"{where}: {text}" for text in wrong]
        # `--help`, `--version` and `--list` answer by themselves.
        if any(_answers_alone(parameter) for parameter, _ in options):
            return []
        if not hasattr(command, "list_commands"):
            break
        if not arguments:
            return [f"{where}: which of {_commands(command)}?"]
        try:
            below = command.get_command(_context(command), arguments[0])
        except AlphitaError as error:
            return [str(error)]
        if below is None:
            return [f"{where}: unknown command {arguments[0]!r}; choose from {_commands(command)}"]
        command, path, left = below, (*path, arguments[0]), arguments[1:]
    found = _missing(command, options, arguments)
    settings = [value for parameter, value in options if "--set" in parameter.opts]
    if check_settings is not None:
        try:
            check_settings((*path, *arguments[:1]), settings)
        except AlphitaError as error:
            found.append(str(error))
    return [f"{where}: {text}" for text in found]


def _split(command: Any, words: list[str]) -> tuple[list[tuple[Any, str]], list[str], list[str]]:
    """Return the options with their values, the arguments, and what is wrong."""
    known = {
        name: parameter for parameter in _parameters(command) for name in (*parameter.opts, *parameter.secondary_opts)
    }
    options: list[tuple[Any, str]] = []
    arguments: list[str] = []
    wrong: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return options, arguments + left, wrong
        if not word.startswith("-") or word == "-":
            if hasattr(command, "list_commands"):
                return options, [word, *left], wrong
            arguments.append(word)
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        parameter = known.get(name)
        if parameter is None:
            wrong.append(f"unknown option {name!r}; choose from {sorted(known)}")
        elif parameter.is_flag or parameter.count:
            options.append((parameter, ""))
        elif equals or left:
            options.append((parameter, value if equals else left.pop(0)))
        else:
            wrong.append(f"option {name!r} needs a value")
    return options, arguments, wrong


def _parameters(command: Any) -> list[Any]:
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    shown = command.get_help_option(_context(command))
    return [*options, shown] if shown is not None else options


def _answers_alone(parameter: Any) -> bool:
    return parameter.is_eager or set(parameter.opts) & {"--list", "--help"}


def _missing(command: Any, options: list[tuple[Any, str]], arguments: list[str]) -> list[str]:
    given = {parameter.name for parameter, _ in options}
    found = [
        f"option {parameter.opts[0]!r} is required"
        for parameter in _parameters(command)
        if parameter.required and parameter.name not in given and not parameter.envvar
    ]
    wanted = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    least = sum(parameter.required for parameter in wanted)
    most = float("inf") if any(parameter.nargs == -1 for parameter in wanted) else len(wanted)
    if not least <= len(arguments) <= most:
        found.append(f"takes {least} to {most} arguments, not {arguments}")
    return found


def _commands(command: Any) -> list[str]:
    return sorted(command.list_commands(_context(command)))


def _context(command: Any) -> Any:
    return command.context_class(command)
