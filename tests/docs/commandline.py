"""Whether words form a command of a typer application: its own parser reads them, and nothing is run."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import typer

from alphita.errors import AlphitaError

# Looks at the settings "key=value" of one command, named by its path and first argument; raises AlphitaError.
CheckSettings = Callable[[tuple[str, ...], list[str]], None]


def problems(root: Any, words: Iterable[str], check_settings: CheckSettings | None = None) -> list[str]:
    """Return what is wrong with the words that follow the program's name, or nothing.

    Args:
        root: the application's root command, of `typer.main.get_command`.
        words: the words after the program's name.
        check_settings: what looks at the values of `--set`.
    """
    command, context, path, left = root, None, ("alphita",), list(words)
    try:
        while True:
            # Help and the version are printed; a file of options need not be there.
            with contextlib.redirect_stdout(io.StringIO()), mock.patch("alphita.config.read_toml", return_value={}):
                context = command.make_context(path[-1], list(left), parent=context)
            if not hasattr(command, "list_commands"):
                break
            if not (words_left := [*context._protected_args, *context.args]):
                return [] if "--list" in left else [f"{' '.join(path)}: which command?"]
            name, command, left = command.resolve_command(context, words_left)
            path = (*path, name)
        if check_settings is not None and "--list" not in left:
            values = {flag: context.params[each.name] for each in command.params for flag in each.opts}
            given = [context.params[each.name] for each in command.params if each.param_type_name == "argument"][:1]
            first = given[0][:1] if given and isinstance(given[0], list | tuple) else given
            check_settings((*path[1:], *map(str, filter(None, first))), list(values.get("--set") or ()))
    except typer.Exit:
        return []
    except AlphitaError as error:
        return [str(error)]
    except Exception as error:
        # Of click, whose classes typer keeps to itself; `--list` answers by itself.
        if not hasattr(error, "format_message"):
            raise
        in_environment = getattr(getattr(error, "param", None), "envvar", None)
        return [] if "--list" in left or in_environment else [f"{' '.join(path)}: {error.format_message()}"]
    return []
