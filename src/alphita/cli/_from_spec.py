"""The command line of a dataclass of options: see `alphita.options`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from alphita.options import REMAKE, Running, SpelledOption, from_values, options_of

Options = TypeVar("Options")
# Of a context's notes: the help is to show all; which options of the command line were wrong.
ALL, WRONG = "alphita.help_all", "alphita.wrong"
SHOWN = inspect.Parameter.KEYWORD_ONLY


class Brief(TyperCommand):
    """A command whose --help shows the options that matter; those in panels are shown by --help-all."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, which typer keeps to itself
        """Write the help, without the panels unless all is asked for."""
        special: list[Any] = [parameter for parameter in self.params if getattr(parameter, "rich_help_panel", None)]
        for parameter in special:
            parameter.hidden = not ctx.meta.get(ALL, False)
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse the command line; with --check a wrong value is kept to be told with what else is wrong."""
        given = list(args)
        while True:
            try:
                return super().parse_args(ctx, list(given))
            except Exception as error:
                flags = getattr(getattr(error, "param", None), "opts", ())
                at = next((place for place, word in enumerate(given) if word.partition("=")[0] in flags), None)
                if at is None or "--check" not in given:
                    raise
                ctx.meta.setdefault(WRONG, []).append(error.format_message())  # type: ignore[attr-defined]
                del given[at : at + 1 + ("=" not in given[at])]


def _show_all(ctx: typer.Context, is_asked: bool) -> None:
    if is_asked:
        ctx.meta[ALL] = True
        print(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show every option, and exit.")
]


def with_options(command: Callable[[Options], None], **eager: Any) -> Callable[..., None]:  # noqa: ANN401
    """Return a command whose options are those of the dataclass that it takes, with --help-all if some have a panel."""
    (of,) = (hint for name, hint in get_type_hints(command).items() if name != "return")
    options = list(options_of(of))
    parameters = [_parameter(field_) for field_ in options]
    parameters += [inspect.Parameter(name, SHOWN, default=None, annotation=shown) for name, shown in eager.items()]
    if any(field_.option.panel for field_ in options):
        parameters.append(inspect.Parameter("help_all", SHOWN, default=False, annotation=HelpAll))

    @functools.wraps(command)
    def expanded(**values: Any) -> None:  # noqa: ANN401 - as they are typed
        for field_ in options:
            if _unsets(field_):
                values[field_.name] = not values.pop(_typed(field_), False)
            elif _repeats(field_) and (typed := values.pop(field_.name, None)):
                values[field_.name] = tuple(typed)
        spec = from_values(of, values)
        if wrong := values.get("config") if "config" in eager else None:
            if not getattr(spec, "check", False):
                raise wrong[0]
            unread = any(getattr(error, "field", "") is None for error in wrong)
            spec = replace(spec, wrong=tuple(map(str, wrong)), unread=unread)
        command(spec)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def option(of: type, name: str) -> Any:  # noqa: ANN401 - of typer, which tells no type
    """Return what typer shows for an option of a dataclass."""
    return _shown(next(field_ for field_ in options_of(of) if field_.name == name))


def _shown(field_: SpelledOption) -> Any:  # noqa: ANN401
    how = field_.option
    shown: dict[str, Any] = {"metavar": how.metavar, "help": how.help}
    if how.positional:
        return typer.Argument(**shown)
    shown |= {"rich_help_panel": how.panel, "min": how.least, "max": how.most, "envvar": how.envvar}
    return typer.Option(*field_.flags, **shown)


def _parameter(field_: SpelledOption) -> inspect.Parameter:
    hint, default = field_.hint, inspect.Parameter.empty if field_.default is MISSING else field_.default
    if _repeats(field_):
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
        if field_.default is not MISSING:
            hint, default = hint | None, None
    elif get_origin(hint) is Literal:
        hint = str  # which values there are, what it is for says, in one way everywhere
    elif _unsets(field_):
        default = False
    return inspect.Parameter(_typed(field_), SHOWN, default=default, annotation=Annotated[hint, _shown(field_)])


def _repeats(field_: SpelledOption) -> bool:
    return get_origin(field_.hint) is Sequence or (
        get_origin(field_.hint) is tuple and get_args(field_.hint)[1:] == (...,)
    )


def _unsets(field_: SpelledOption) -> bool:
    """Tell whether an option sets what is true by default to false, and nothing else."""
    return field_.default is True and len(field_.flags) == 1 and field_.flags[0].startswith("--no-")


def _typed(field_: SpelledOption) -> str:
    """Return the name of what is typed for an option."""
    return f"no_{field_.name}" if _unsets(field_) else field_.name


# Of commands that take few options, as parameters.
Precision = Annotated[str, option(Running, "precision")]
Device = Annotated[str, option(Running, "device")]
Threads = Annotated[int | None, option(Running, "threads")]
JSON = "Print JSON, one object per row, instead of text."
AsJson = Annotated[bool, typer.Option("--json", help=JSON)]
Force = Annotated[bool, typer.Option("--force", help=REMAKE.help)]


def _read(ctx: typer.Context, path: Path | None) -> list[Any]:
    """Take the file's values as the options' defaults, which the command line wins over; return what is wrong."""
    wrong: list[Any] = list(ctx.meta.get(WRONG, ()))
    if path is None or ctx.resilient_parsing:
        return wrong
    from alphita.config import at_key, read_toml
    from alphita.errors import InputError
    from alphita.registry import unknown

    options: dict[str, Any] = {}
    for parameter in ctx.command.params:
        if parameter.param_type_name == "option" and not parameter.is_eager:
            options |= dict.fromkeys((flag.lstrip("-") for flag in parameter.opts if flag[:2] == "--"), parameter)
    values = {}
    try:
        table = read_toml(path)
    except InputError as error:
        return [*wrong, error]
    for key, value in table.items():
        if key not in options:
            wrong.append(at_key(path, key, unknown("option", key, options)))
        elif (problem := _problem(ctx, options[key], value)) is not None:
            wrong.append(at_key(path, key, problem, value))
        else:
            values[options[key].name] = value
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return wrong


def _problem(ctx: typer.Context, option: Any, value: object) -> str | None:  # noqa: ANN401
    """Return why an option cannot have a value of a file; None if it can."""
    if isinstance(value, list) != option.multiple or isinstance(value, dict):
        return 'must be a list, as in ["…"]' if option.multiple else "must be one value"
    if isinstance(value, bool) != getattr(option, "is_flag", False):
        return "must be true or false" if option.is_flag else "must not be true or false"
    try:
        option.process_value(ctx, value)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return str(error.message)  # type: ignore[attr-defined]
    return None


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", is_eager=True, callback=_read, help="TOML file with these options, such as port = 8080."),
]
