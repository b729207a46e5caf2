"""Pages of reference, from the code: the command line, what is public in Python, and what is served over HTTP."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import typer

import alphita
from alphita import registry

ROLES = {"Args:", "Attributes:", "Returns:", "Raises:"}


def cell(text: object) -> str:
    """Return text as a cell of a table."""
    return re.sub(r"\s+", " ", str(text)).replace("|", r"\|").strip()


def command_line() -> str:
    """Return every command with its arguments and options."""
    from alphita import cli

    root = typer.main.get_command(cli.app)
    return "\n\n".join(_command("alphita", root))


def _command(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command)
    below = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not below:
        yield _described(name, command, context)
    # Recipes and graph models differ by their settings alone: one of them stands for all.
    for each in below[:1] if name in {"alphita train", "alphita graph train"} else below:
        yield from _command(f"{name} {each}", command.get_command(context, each))


def _described(name: str, command: Any, context: Any) -> str:
    help_ = re.sub(r"[\b\f]", "", command.help or "").strip().split("\n\n")[0]
    lines = [f"## {name}", "", re.sub(r"\s+", " ", help_), ""]
    lines += ["| argument or option | default | |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name in {"help", "help_all"}:
            continue
        positional = parameter.param_type_name == "argument"
        words = [parameter.metavar or parameter.name.upper()] if positional else [*parameter.opts]
        words += [] if positional else parameter.secondary_opts
        default = "required" if parameter.required else _default(parameter)
        spelled = ", ".join(f"`{word}`" for word in words)
        lines.append(f"| {spelled} | {default} | {cell(getattr(parameter, 'help', '') or '')} |")
    return "\n".join(lines)


def _default(parameter: Any) -> str:
    default = parameter.default
    if default is None or default is False or default == () or callable(default) or default == "":
        return ""
    return f"`{cell(default)}`"


def python() -> str:
    """Return what is public in Python, and what it gives back, each with its docstring."""
    from alphita.annotation.spans import Annotation
    from alphita.answer.normalizer import NormalizerOptions
    from alphita.answer.records import Candidate, Result

    public = {name: getattr(alphita, name) for name in alphita.__all__}
    public |= {each.__name__: each for each in (NormalizerOptions, Result, Candidate, Annotation)}
    parts = [_public(name, value) for name, value in public.items()]
    return "\n\n".join([*parts, "## Objectives", _objectives()])


def _objectives() -> str:
    """Return every loss of `alphita_lab.objectives` with its module's equation."""
    parts = []
    for file in registry.names("alphita_lab.objectives"):
        module = importlib.import_module(f"alphita_lab.objectives.{file}")
        parts += [f"### alphita_lab.objectives.{file}", f"```text\n{(module.__doc__ or '').strip()}\n```"]
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                parts += [f"#### {file}.{name}", _signature(name, value), _docstring(value)]
    return "\n\n".join(part for part in parts if part)


def _public(name: str, value: Any) -> str:
    parts = [f"## {name}", _signature(name, value), _docstring(value)]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for method, function in vars(value).items():
            unwrapped = function.__func__ if isinstance(function, classmethod | staticmethod) else function
            if method.startswith("_") or not inspect.getdoc(unwrapped):
                continue
            if callable(unwrapped):
                parts += [f"### {name}.{method}", _signature(f"{name}.{method}", unwrapped), _docstring(unwrapped)]
            elif isinstance(unwrapped, property):
                parts += [f"### {name}.{method}", _docstring(unwrapped)]
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, value: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name not in {"self", "cls"}
    ]
    stated = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return f"```text\n{name}{_without_addresses(str(stated))}\n```"


def _without_addresses(text: str) -> str:
    return re.sub(r"<(\w+)[^<>]* at 0x[0-9a-f]+>", r"\1", text)


def _docstring(value: Any) -> str:
    """Return a docstring of Google's style as Markdown: its sections as lists, its examples as code."""
    lines: list[str] = []
    role = ""
    for paragraph in (inspect.getdoc(value) or "").split("\n\n"):
        rows = paragraph.splitlines()
        if rows and rows[0] in ROLES:
            role = rows[0]
            lines += ["", f"*{role.rstrip(':')}*", ""]
            rows = rows[1:]
        if rows and rows[0].lstrip().startswith(">>>"):
            lines += ["", "```text", *(row.removeprefix("    ") for row in rows), "```"]
        elif role and rows and rows[0].startswith(" "):
            lines += list(_entries(rows))
        else:
            lines += ["", *rows]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _entries(rows: list[str]) -> Iterator[str]:
    for row in rows:
        entry = re.match(r" {4}(\**\w+): (.*)", row)
        if entry:
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            yield f"  {row.strip()}" if row.startswith(" " * 8) else f"- {row.strip()}"


def rest(document: dict[str, Any]) -> str:
    """Return the paths of an OpenAPI document with their fields."""
    parts = []
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines = [f"## {method.upper()} {path}", "", cell(operation.get("description") or operation["summary"])]
            fields = [
                (each["name"], each["in"], each.get("required", False), each.get("description", ""))
                for each in operation.get("parameters", [])
            ]
            fields += _body(operation, schemas)
            if fields:
                lines += ["", "| field | in | |", "|---|---|---|"]
                lines += [
                    f"| `{name}`{', required' if required else ''} | {place} | {cell(told)} |"
                    for name, place, required, told in fields
                ]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _body(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        schema = schemas.get(name, {})
        for field, told in schema.get("properties", {}).items():
            yield field, "body", field in schema.get("required", []), told.get("description", "")
