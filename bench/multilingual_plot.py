"""A picture of multilingual.py's table: for each language, accuracy@1 before and after.

    python bench/multilingual_plot.py table.json -o multilingual.png

Drawn are the languages with enough official translations, and English; a hollow dot is the first model of --before, a
full one the mean over the seeds of --after.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pictures
from alphita.errors import InputError
from alphita.evaluation.report.plots import COLOURS
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


def draw(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """Return the picture of a table's rows.

    Raises:
        InputError: nothing of them can be drawn.
    """
    lines = lines_of(rows)
    figure = pictures.canvas(7, 0.9 + 0.3 * len(lines))
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
    pictures.plain(axes)
    return figure


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return pictures.command(__doc__, "multilingual.py", draw, words)


if __name__ == "__main__":
    sys.exit(main())
