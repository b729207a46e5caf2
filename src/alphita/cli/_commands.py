"""Groups of commands that import only the one asked for: a file of this folder, or an entry point, is a command."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

from alphita import registry
from alphita.cli._from_spec import Brief

PACKAGE = "alphita.cli"


class Commands(TyperGroup):
    """A group with the commands of this folder's files and of entry points of "alphita.commands".

    A module's `app`, or its function of the command's name, is the command. A group "terminology" also has
    `terminology_merge.py` as `merge`.
    """

    prefix = ""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own context class is private
        return sorted({*super().list_commands(ctx), *self._files()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        if cmd_name not in self._files():
            return super().get_command(ctx, cmd_name)
        module = registry.load(PACKAGE, self.prefix + cmd_name)
        return _command(module, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Return the command that is meant; the names of all are known to the message for a mistyped one."""
        for name in self._files() if args and args[0] not in self.list_commands(ctx) else ():
            self.commands.setdefault(name, typer.core.TyperCommand(name))
        return super().resolve_command(ctx, args)

    def _files(self) -> set[str]:
        words = {name.removeprefix(self.prefix) for name in registry.names(PACKAGE) if name.startswith(self.prefix)}
        return {word for word in words if word and "_" not in word}


class TerminologyCommands(Commands):
    """The commands of `alphita terminology`."""

    prefix = "terminology_"


class MappingsCommands(Commands):
    """The commands of `alphita mappings`."""

    prefix = "mappings_"


def _command(module: ModuleType, name: str) -> Any:  # noqa: ANN401
    app = getattr(module, "app", None)
    if app is None:
        single = typer.Typer(add_completion=False)
        single.command(name, cls=Brief)(getattr(module, name))
        return typer.main.get_command(single)
    group = typer.main.get_group(app)
    group.name = name
    return group
