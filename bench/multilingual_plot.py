"""A picture of multilingual.py's table: for each language, accuracy@1 before and after.

    python bench/multilingual_plot.py table.json -o multilingual.png

Drawn are the languages with enough official translations, and English; a hollow dot is the first model of --before, a
full one the mean over the seeds of --after.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, require
from alphita.evaluation.plots import COLOURS
from multilingual import LEAST


def lines_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """Return the label of each line and its figures before and after, in percent; what was trained comes first.

    Raises:
        InputError: nothing was scored after training.
    """
    shown = [row for row in rows if row["official"] is None or row["official"] >= LEAST]
    if not shown or not all(row["after"] for row in shown):
        raise InputError("the table has no model after training that can be drawn")
    found = []
    for row in sorted(shown, key=lambda row: (not row["trained"], row["official"] is None)):
        kind = "" if row["trained"] or row["official"] is None else ", not trained"
        after = sum(row["after"]) / len(row["after"])
        found.append((f"{row['group']}{kind} ({row['queries']:,})", 100 * row["before"][0], 100 * after))
    return found


def draw(lines: Sequence[tuple[str, float, float]], out: Path) -> None:
    """Draw what `lines_of` returned, whole or not at all."""
    figures = require("matplotlib.figure", "plots")
    canvases = require("matplotlib.backends.backend_agg", "plots")
    figure = figures.Figure(figsize=(7, 0.9 + 0.3 * len(lines)), dpi=160, facecolor="white", layout="tight")
    canvases.FigureCanvasAgg(figure)
    axes = figure.add_subplot(1, 1, 1)
    for place, (_, before, after) in enumerate(lines):
        axes.plot([before, after], [place, place], color=COLOURS[0], linewidth=2, alpha=0.5)
    places = range(len(lines))
    axes.plot([line[1] for line in lines], places, "o", color=COLOURS[0], markerfacecolor="white", label="before")
    axes.plot([line[2] for line in lines], places, "o", color=COLOURS[0], label="after")
    axes.set_yticks(places, [line[0] for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("accuracy@1, %")
    axes.grid(axis="x", alpha=0.25, linewidth=0.6)
    axes.legend(loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    with atomic_file(out, "wb") as file:
        figure.savefig(file, format="png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path, help="table.json")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the picture, .png")
    given = parser.parse_args(arguments)
    try:
        draw(lines_of(json.loads(given.table.read_text(encoding="utf-8"))["rows"]), given.output)
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {given.table} is no table of multilingual.py: {error}", file=sys.stderr)
        return 2
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
