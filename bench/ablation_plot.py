"""A picture of an ablation: a panel for each of some columns of its table, a dot for each seed of each row.

    python bench/ablation_plot.py table.json -o ablations.png

The bar through the dots is their mean; the dashed line is the encoder as it comes. table.json is of coder_ablation.py,
of biolord.py or of italian.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pictures
from alphita.errors import InputError
from alphita.evaluation.report.plots import COLOURS

# Column of the table -> title of its panel, and what it is printed times.
PANELS = {
    "synonyms_1": ("held-out synonyms @1, %", 100), "psytar_1": ("PsyTAR @1, %", 100),
    "ncbi_disease": ("NCBI disease @1, %", 100), "relations": ("relations, frozen, %", 100),
    "mcsm_mean": ("MCSM, mean", 1), "mcsm": ("MCSM", 1), "f1": ("clustering F1, %", 100),
    "umnsrs": ("UMNSRS relatedness", 1), "translations_1": ("held-out translations @1, %", 100),
    "misspelt": ("misspelt names @1, %", 100),
    "UMNSRS similarity": ("UMNSRS similarity", 1), "UMNSRS relatedness": ("UMNSRS relatedness", 1),
    "STS-B": ("STS-B", 1), "held-out synonyms @1": ("held-out synonyms @1, %", 1), "PsyTAR @1": ("PsyTAR @1, %", 1),
}  # fmt: skip
BASE = "the encoder as it comes"


def panels_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Return column -> title of the row -> the figures of its seeds, of the columns and rows that there are figures of.

    Raises:
        InputError: there are none.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for column, (_, scale) in PANELS.items():
        for row in rows:
            if column in row["figures"]:
                # italian.py keeps the seed of each figure.
                cell = row["figures"][column]
                values = [scale * value for value in cell.get("values", cell.values())]
                found.setdefault(column, {})[row["title"]] = values
    if not any(set(by_row) - {BASE} for by_row in found.values()):
        raise InputError("the table has no row yet that can be drawn")
    return found


def draw(rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """Return the picture of a table's rows.

    Raises:
        InputError: nothing of them can be drawn.
    """
    found = panels_of(rows)
    titles = list(dict.fromkeys(title for by_row in found.values() for title in by_row if title != BASE))
    figure = pictures.canvas(2.2 + 2.3 * len(found), 0.9 + 0.3 * len(titles))
    for number, (column, by_row) in enumerate(found.items()):
        axes = figure.add_subplot(1, len(found), number + 1)
        if BASE in by_row:
            axes.axvline(by_row[BASE][0], color="#888888", linestyle="--", linewidth=1)
        for place, title in enumerate(titles):
            values = by_row.get(title, [])
            if values:
                mean = sum(values) / len(values)
                axes.plot([mean, mean], [place - 0.28, place + 0.28], color=COLOURS[number], linewidth=2)
                axes.plot(values, [place] * len(values), "o", color=COLOURS[number], markersize=4, alpha=0.7)
        axes.set_ylim(len(titles) - 0.5, -0.5)
        axes.set_yticks(range(len(titles)), titles if number == 0 else [])
        axes.set_title(PANELS[column][0], fontsize=10)
        axes.grid(alpha=0.25, linewidth=0.6)
        pictures.plain(axes)
    return figure


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return pictures.command(__doc__, "coder_ablation.py, biolord.py or italian.py", draw, words)


if __name__ == "__main__":
    sys.exit(main())
