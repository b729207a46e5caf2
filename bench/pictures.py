"""What the programs that draw pictures share: the canvas, how it is saved, and the command line of a table's."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, require


def canvas(width: float, height: float) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """Return an empty white figure of so many inches."""
    figures = require("matplotlib.figure", "plots")
    canvases = require("matplotlib.backends.backend_agg", "plots")
    figure = figures.Figure(figsize=(width, height), dpi=160, facecolor="white", layout="tight")
    canvases.FigureCanvasAgg(figure)
    return figure


def plain(axes: Any) -> None:  # noqa: ANN401 - matplotlib's Axes
    """Take the frame off axes, but for the lines that carry their ticks."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def save(figure: Any, out: Path) -> None:  # noqa: ANN401
    """Write a figure as PNG, whole or not at all."""
    with atomic_file(out, "wb") as file:
        figure.savefig(file, format="png")


def command(
    about: str | None, made_by: str, draw: Callable[[Sequence[Mapping[str, Any]]], Any], words: Sequence[str] | None
) -> int:
    """Draw the rows of a table.json into a PNG file, whole or not at all, and return the exit status.

    Args:
        about: the program's docstring.
        made_by: what makes such tables, for messages.
        draw: rows -> figure; an `AlphitaError` says that there is nothing to draw.
        words: the command line; that of the process by default.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("table", type=Path, help="table.json")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the picture, .png")
    given = parser.parse_args(words)
    try:
        save(draw(json.loads(given.table.read_text(encoding="utf-8"))["rows"]), given.output)
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {given.table} is no table of {made_by}: {error}", file=sys.stderr)
        return 2
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
