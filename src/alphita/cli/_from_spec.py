"""Options of a command, from the fields of `alphita.normalizer.spec.Spec`: each is spelled there, once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from alphita.normalizer.spec import Spec

# Of a context's notes: the help is to show all.
ALL = "alphita.help_all"


def option(name: str) -> Any:  # noqa: ANN401 - of typer, which tells no type
    """Return what typer shows for a field."""
    shown = Spec.option(name)
    if shown.positional:
        return typer.Argument(metavar=shown.metavar, help=shown.help)
    return typer.Option(
        *Spec.flags(name),
        metavar=shown.metavar,
        help=shown.help,
        rich_help_panel=shown.panel,
        min=shown.least,
        max=shown.most,
    )


class Brief(TyperCommand):
    """A command whose --help shows the options that matter; those in panels are shown by --help-all."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, which typer keeps to itself
        """Write the help, without the panels unless all is asked for."""
        special: list[Any] = [each for each in self.params if getattr(each, "rich_help_panel", None)]
        for each in special:
            each.hidden = not ctx.meta.get(ALL, False)
        super().format_help(ctx, formatter)


def _show_all(ctx: typer.Context, asked: bool) -> None:
    if asked:
        ctx.meta[ALL] = True
        print(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show every option, and exit.")
]
Engine = Annotated[str | None, option("engine")]
Workers = Annotated[int | None, option("workers")]
Address = Annotated[str | None, option("address")]
GpusPerWorker = Annotated[float, option("gpus_per_worker")]
NoBorrow = Annotated[bool, option("no_borrow")]
Names = Annotated[list[Path] | None, option("names")]
Learn = Annotated[str, option("learn")]
ShippedModel = Annotated[str | None, option("model")]
Precision = Annotated[str, option("precision")]
Device = Annotated[str, option("device")]
Threads = Annotated[int | None, option("threads")]
AllowedError = Annotated[float | None, option("error")]


def with_options(command: Callable[[Spec], None]) -> Callable[..., None]:
    """Return a command whose options are the fields of `Spec`, all of them."""
    hints = get_type_hints(Spec)
    repeated = {name for name, hint in hints.items() if get_origin(hint) is tuple}
    parameters = []
    for each in fields(Spec):
        hint, default = hints[each.name], inspect.Parameter.empty if each.default is MISSING else each.default
        if each.name in repeated:
            hint, default = list[get_args(hint)[0]] | None, None  # type: ignore[misc]
        shown = Annotated[hint, option(each.name)]  # type: ignore[valid-type]
        parameters.append(
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)
        )

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters.append(inspect.Parameter("help_all", kind, default=False, annotation=HelpAll))

    @functools.wraps(command)
    def expanded(*, help_all: bool, **values: Any) -> None:  # noqa: ANN401 - shown by its callback
        for name in repeated:
            values[name] = tuple(values[name] or ())
        command(Spec(**values))

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
