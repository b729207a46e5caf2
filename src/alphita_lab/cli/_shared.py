"""What several commands share."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from alphita.cli._from_spec import Brief
from alphita.options import Option

TEXT_FIELD = Option(help="Field of .jsonl with the text.")


class SettingsCommand(Brief):
    """A command of a registry's choice, with that choice's settings and citation below the help."""

    choice: ModuleType

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own context class is private
        """Write the help, and the choice's settings and citation below it."""
        from rich import box
        from rich.table import Table

        from alphita import config, printing

        super().format_help(ctx, formatter)
        table = Table("option", "default", "meaning", title="Settings, each by --set option=value", box=box.SIMPLE)
        for option in config.options(self.choice.Config):
            table.add_row(option.name, option.default, option.description)
        console = printing.console()
        console.print(table)
        console.print(self.choice.CITATION, markup=False, highlight=False, soft_wrap=True)


def plain(docstring: str, example: str) -> str:
    """Return a docstring's first two paragraphs, for help, with an example between them."""
    first, *rest = docstring.strip().split("\n\n")[:2]
    return "\n\n".join([first, example, *rest])
