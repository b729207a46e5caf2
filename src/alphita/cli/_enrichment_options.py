"""Options of what an index is given beside its terminology: the same wherever one is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from alphita.index.choice import Choice

PANEL = "What an index is given beside its terminology"

NoBorrow = Annotated[
    bool,
    typer.Option(
        "--no-borrow",
        help="Leave out what other open vocabularies call the same concepts, and the clinic's short forms.",
        rich_help_panel=PANEL,
    ),
]
Names = Annotated[
    list[Path] | None,
    typer.Option(
        "--names",
        metavar="SOURCE",
        help="Names of your own: a table with an id and a name a row, or any terminology. A concept that has one of "
        "the names of an id gets the others too. May be given several times.",
        rich_help_panel=PANEL,
    ),
]
Learn = Annotated[
    str,
    typer.Option(
        help="How long is learned from the terminology's synonyms: no, seconds or minutes (a head on the encoder's "
        "vectors); for `alphita index` also full (the whole encoder first; it needs torch).",
        rich_help_panel=PANEL,
    ),
]
ShippedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="alphita-en, for English, or alphita-multi, for other languages too; by default what the languages of the "
        "terminology and of the strings call for. An X.index has its own.",
        rich_help_panel=PANEL,
    ),
]


def chosen(no_borrow: bool, names: list[Path] | None, learn: str, model: str | None = None) -> Choice:
    """Return what the options say."""
    from alphita.index.choice import Choice

    return Choice(not no_borrow, tuple(map(str, names or ())), learn, model)  # type: ignore[arg-type]
