"""Options of a command, from the fields of `alphita.normalizer.spec.Spec`: each is spelled there, once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from alphita.normalizer.spec import Spec

if TYPE_CHECKING:
    from alphita.index.choice import Choice


def option(name: str, *, help: str | None = None) -> Any:  # noqa: ANN401 - of typer, which tells no type
    """Return what typer shows for a field; `help` instead of the field's own."""
    shown = Spec.option(name)
    if shown.positional:
        return typer.Argument(metavar=shown.metavar, help=help or shown.help)
    flags = shown.flags or ("--" + name.replace("_", "-"),)
    return typer.Option(
        *flags,
        metavar=shown.metavar,
        help=help or shown.help,
        rich_help_panel=shown.panel,
        min=shown.least,
        max=shown.most,
    )


Engine = Annotated[str | None, option("engine")]
Workers = Annotated[int | None, option("workers")]
Address = Annotated[str | None, option("address")]
GpusPerWorker = Annotated[float, option("gpus_per_worker")]
NoBorrow = Annotated[bool, option("no_borrow")]
Names = Annotated[list[Path] | None, option("names")]
Learn = Annotated[str, option("learn")]
ShippedModel = Annotated[str | None, option("model")]


def chosen(no_borrow: bool, names: list[Path] | None, learn: str, model: str | None = None) -> Choice:
    """Return what the options say that an index is given beside its terminology."""
    from alphita.index.choice import Choice

    return Choice(not no_borrow, tuple(map(str, names or ())), learn, model)  # type: ignore[arg-type]


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

    @functools.wraps(command)
    def expanded(**values: Any) -> None:  # noqa: ANN401
        for name in repeated:
            values[name] = tuple(values[name] or ())
        command(Spec(**values))

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
