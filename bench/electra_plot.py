"""Pictures of the pre-training: loss and replaced-token AUC over what was seen; figures by rho (figure 2) and gamma.

Lines are means over the seeds. In the curves the band is from the least seed to the greatest; in the figures by rho and
gamma the bars are standard deviations (n - 1).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pictures
from alphita.evaluation.report.plots import COLOURS, MARKERS
from electra_rows import BY_NAME, LOG, PRETRAINING
from electra_table import EASY_F1, HARD_F1

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Key of log.jsonl -> title of its panel.
CURVES = {
    "dev_discriminator_loss": "discriminator's loss", "dev_replaced_auc": "replaced-token AUC",
    "dev_generator_loss": "generator's loss", "dev_attribute_acc1": "PAP: value among 100, @1",
}  # fmt: skip
CURVED = ("base", "em", "em_pap", "base_128", "em_128")
# Column -> title of its panel, and what it is printed times.
PANELS = {
    EASY_F1: ("QTRel-easy, F1", 100), HARD_F1: ("QTRel-hard, F1", 100), "ranking_1": ("value among 100, @1, %", 100),
    "auc": ("replaced-token AUC", 1),
}  # fmt: skip
RHO = ("em", "rho_1", "em_pap", "rho_10", "rho_15", "rho_50")
GAMMA = ("gamma_2", "em_pap", "gamma_6", "gamma_8")
Curve = tuple[list[float], list[list[float]]]
Point = tuple[float, list[float]]


def curves(out: Path) -> dict[str, dict[str, Curve]]:
    """Return panel -> row -> where it was scored, in thousands of sequences seen, and there the figures of all seeds.

    Of seeds that were scored elsewhere (an unfinished one, say) only the places that all have are taken.
    """
    found: dict[str, dict[str, dict[float, list[float]]]] = {}
    seeds: dict[str, int] = {}
    for name in CURVED:
        for file in sorted(out.glob(f"{name}/*/{LOG}")):
            batch = json.loads((file.parent / PRETRAINING).read_text(encoding="utf-8"))["batch"]
            seeds[name] = seeds.get(name, 0) + 1
            for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
                for key in CURVES:
                    if key in line:
                        places = found.setdefault(key, {}).setdefault(name, {})
                        places.setdefault(line["step"] * batch / 1000, []).append(line[key])
    curves: dict[str, dict[str, Curve]] = {}
    for key in CURVES:
        for name, places in found.get(key, {}).items():
            shared = sorted(place for place, values in places.items() if len(values) == seeds[name])
            if shared:
                curves.setdefault(key, {})[name] = (shared, [places[place] for place in shared])
    return curves


def points(rows: Sequence[Mapping[str, Any]], names: Sequence[str], by: str) -> dict[str, list[Point]]:
    """Return panel -> (rho or gamma, figures of all seeds) of each of these rows that has some; three at least.

    Args:
        rows: of table.json.
        names: which of them.
        by: "rho" in percent, or "gamma".
    """
    by_name = {row["name"]: row for row in rows}
    found: dict[str, list[Point]] = {}
    for key in PANELS:
        for name in names:
            values = list(by_name.get(name, {"figures": {}})["figures"].get(key, {}).values())
            if values:
                place = 100 * by_name[name]["rho"] if by == "rho" else by_name[name]["gamma"]
                found.setdefault(key, []).append((place, values))
    # A line through two of them would tell nothing of its form.
    return {key: values for key, values in found.items() if len(values) > 2}


def draw(rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """Draw what there are figures of, and return the pictures.

    Args:
        rows: of table.json.
        out: what `run` made.
    """
    drawn = []
    if found := curves(out):
        draw_curves(found, out / "pretraining.png")
        drawn.append(out / "pretraining.png")
    for by, names, label in (("rho", RHO, "ρ, % of the steps (0: no PAP)"), ("gamma", GAMMA, "γ")):
        if by_value := points(rows, names, by):
            draw_points(by_value, label, out / f"{by}.png")
            drawn.append(out / f"{by}.png")
    return drawn


def draw_curves(found: Mapping[str, Mapping[str, Curve]], out: Path) -> None:
    """Draw a panel for each key of CURVES that was logged."""
    with _picture(len(found), out) as panels:
        for key, axes in zip(found, panels, strict=True):
            for name, (places, values) in found[key].items():
                number = CURVED.index(name)
                axes.plot(places, [np.mean(some) for some in values], color=COLOURS[number], label=BY_NAME[name].title)
                least, most = ([limit(some) for some in values] for limit in (min, max))
                axes.fill_between(places, least, most, color=COLOURS[number], alpha=0.15, linewidth=0)
            axes.set_title(CURVES[key], fontsize=11)
            axes.set_xlabel("thousand sequences seen")
        panels[0].legend(fontsize=8, frameon=False)


def draw_points(found: Mapping[str, Sequence[Point]], label: str, out: Path) -> None:
    """Draw a panel for each key of PANELS, over rho or gamma."""
    with _picture(len(found), out) as panels:
        for number, (key, axes) in enumerate(zip(found, panels, strict=True)):
            title, scale = PANELS[key]
            means = [scale * float(np.mean(values)) for _, values in found[key]]
            spreads = [scale * float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for _, values in found[key]]
            places = [place for place, _ in found[key]]
            axes.errorbar(places, means, yerr=spreads, color=COLOURS[number], marker=MARKERS[number], capsize=3)
            if min(places) == 0:
                # Shares lie close to each other near 0, and one may lie far off.
                axes.set_xscale("symlog", linthresh=1, linscale=0.5)
                axes.minorticks_off()
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_title(title, fontsize=11)
            axes.set_xlabel(label)


@contextlib.contextmanager
def _picture(number: int, out: Path) -> Iterator[list[Axes]]:
    """Give so many panels to draw on, and write the picture afterwards, whole or not at all."""
    across = min(2, number)
    down = -(-number // across)
    figure = pictures.canvas(4.8 * across, 3.4 * down)
    panels = [figure.add_subplot(down, across, place + 1) for place in range(number)]
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        pictures.plain(axes)
    yield panels
    pictures.save(figure, out)
