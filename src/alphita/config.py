"""Configs: flat, frozen, validated; unknown keys are refused.

`--set` wins over `--config FILE.toml`, which wins over the defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import pydantic

from alphita import textio
from alphita.errors import InputError, UsageError, shorten
from alphita.registry import unknown


class Config(pydantic.BaseModel):
    """Base of every config: frozen and flat; each field's description gives its meaning, unit and source."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Setting:
    """One key of a config, as shown by `--help`."""

    name: str
    type: str
    default: str
    description: str


def options(cls: type[Config]) -> list[Setting]:
    """Return the keys of a config class in the order of their definition, its own before those of its base."""
    own = list(cls.__annotations__)
    return [
        Setting(
            name,
            # A class by its name; a Literal or union as it is written, for its members are the choices.
            field.annotation.__name__ if isinstance(field.annotation, type) else _written(field.annotation),
            "required" if field.is_required() else _written(field.get_default(call_default_factory=True)),
            field.description or "",
        )
        for name, field in sorted(
            cls.model_fields.items(), key=lambda item: own.index(item[0]) if item[0] in own else len(own)
        )
    ]


def resolve(
    cls: type[C], *, file: Path | None = None, sets: Iterable[str] = (), base: Mapping[str, Any] | None = None
) -> C:
    """Return the config that the sources agree on: `sets` over `file` over `base` over the class's defaults."""
    sets, given = list(sets), read_toml(file) if file is not None else {}
    for item in sets:
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item!r} is not of the form key=value")
        # A value of nothing but white space is meant: a tab that separates columns, say.
        given[key.strip()] = value.strip() or value
    values = dict(base or {}) | {key: _none_if_said(cls, key, value) for key, value in given.items()}
    of_file = given.keys() - {item.partition("=")[0].strip() for item in sets}
    for key in values:
        if key not in cls.model_fields:
            problem = unknown("option", key, cls.model_fields)
            raise at_key(file, key, problem) if file and key in of_file else UsageError(problem)
    try:
        return cls(**values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            # A rule over several keys: pydantic's input is all of them.
            raise UsageError(f"options: {problem}") from None
        if file and first["loc"][0] in of_file:
            raise at_key(file, str(first["loc"][0]), problem, first["input"]) from None
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"option {key!r}: {problem} (value {shorten(repr(first['input']))})") from None


def _none_if_said(cls: type[Config], key: str, value: object) -> object:
    """Return None for the word "none" where the field is optional and has no such choice of its own."""
    if not isinstance(value, str) or value.lower() != "none" or key not in cls.model_fields:
        return value
    choices = get_args(cls.model_fields[key].annotation)
    return None if NoneType in choices and not any("none" in get_args(choice) for choice in choices) else value


def _written(value: object) -> str:
    return "none" if value is None else str(value).replace("typing.", "")


def read_toml(file: Path) -> dict[str, Any]:
    """Return the keys of a TOML file."""
    text = textio.read_text(file)
    try:
        return tomllib.loads(text)
    # Numbers of thousands of digits and arrays in thousands of arrays are errors of Python's own.
    except (ValueError, RecursionError) as error:
        reason, _, place = str(error).removesuffix(")").partition(" (at ")
        line = re.match(r"line (\d+), column \d+$", place)
        number = int(line[1]) if line else text.count("\n") + 1 if place else None
        raise InputError(f"not valid TOML: {reason}", file=file, line=number) from None


def at_key(file: Path, key: str, problem: str, value: object = None) -> InputError:
    """Return the error for a top-level key of a TOML file, with its line."""
    return InputError(problem, file=file, line=_line_of(textio.read_text(file), key), field=key, value=value)


def _line_of(text: str, key: str) -> int | None:
    name = rf"(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')"
    for found in re.finditer(rf"^[ \t]*(?:\[+[ \t]*)?{name}[ \t]*[=.\]]", text, re.MULTILINE):
        try:
            tomllib.loads(text[: found.start()])
        except ValueError:  # within a string of several lines
            continue
        return text.count("\n", 0, found.start()) + 1
    return None
