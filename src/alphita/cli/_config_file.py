"""`--config FILE.toml`: a command's options from a file, by the names that they have on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _read(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the file's values as the options' defaults, so that the command line wins over them."""
    if path is None or ctx.resilient_parsing:
        return path
    from alphita.config import read_toml
    from alphita.errors import InputError
    from alphita.registry import unknown

    options: dict[str, Any] = {}
    for parameter in ctx.command.params:
        if parameter.param_type_name == "option" and not parameter.is_eager:
            options |= dict.fromkeys((flag.lstrip("-") for flag in parameter.opts if flag[:2] == "--"), parameter.name)
    values = {}
    for key, value in read_toml(path).items():
        if key not in options:
            raise InputError(unknown("option", key, options), file=path, field=key)
        values[options[key]] = value
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", is_eager=True, callback=_read, help="TOML file with these options, such as port = 8080."),
]
