"""Pictures of term vectors, as the papers draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.artefact import atomic_file
from alphita.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from alphita.terminology.store import Terminology

# Twelve colours that the colour-blind can tell apart (most are Paul Tol's "muted"), each with a marker of its own.
COLOURS = (
    "#332288",
    "#D55E00",
    "#44AA99",
    "#AA4499",
    "#999933",
    "#0077BB",
    "#CC6677",
    "#117733",
    "#DDAA33",
    "#88CCEE",
    "#882255",
    "#555555",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "h")
# Letters of a name in a legend of three columns, by the panels across: more would run over the figure's edges.
MAX_NAME = {2: 38, 3: 58}


def choose_concepts(
    n_terms: NDArray[np.int64], *, number: int = 12, least: int = 6, seed: int = 0
) -> NDArray[np.int64]:
    """Choose the concepts of a picture: at random among the `10 * number` that have most terms.

    Args:
        n_terms: (n_concepts,) terms that each concept has.
    """
    counts = np.asarray(n_terms)
    most = np.argsort(-counts, kind="stable")[: 10 * number]
    eligible = most[counts[most] >= least]
    chosen = np.random.default_rng(seed).permutation(eligible)[:number]
    return np.sort(chosen).astype(np.int64)


def chapters(terminology: Terminology, rows: Sequence[int]) -> list[str | None]:
    """Return the name of the topmost ancestor of each concept, to stand for a semantic type where there is none."""
    names: list[str | None] = []
    for row in rows:
        tops = [int(top) for top in terminology.ancestors(row) if not len(terminology.parents(int(top)))]
        names.append(terminology.concept_names[min(tops)].as_py() if tops else None)
    return names


def synonym_map(
    before: NDArray[np.float32],
    after: NDArray[np.float32],
    concept: NDArray[np.int64],
    names: Sequence[str],
    out: Path | str,
) -> tuple[float, float]:
    """Draw the terms of some concepts before and after training: t-SNE of the cosines, one colour and marker a concept.

    Args:
        before: (n, d) vectors of the terms.
        after: (n, e) vectors of the same terms.
        concept: (n,) which of the concepts each term names, 0 to len(names) - 1.
    """
    concept = np.asarray(concept)
    _check_labels(concept, names)
    # A concept has some ten terms here: a neighbourhood of that size shows whether they lie together.
    scores = _maps([("Before training", before), ("After training", after)], concept, names, out, perplexity=12, seed=0)
    return scores[0], scores[1]


def term_maps(
    encoders: Mapping[str, NDArray[np.float32]],
    concept: NDArray[np.int64],
    names: Sequence[str],
    out: Path | str,
    *,
    seed: int = 0,
) -> dict[str, float]:
    """Draw the terms of some concepts as several encoders place them, one colour and marker a concept.

    Args:
        concept: (n,) which of the concepts each term names, 0 to len(names) - 1.
    """
    concept = np.asarray(concept)
    _check_labels(concept, names)
    _check_encoders(encoders, len(concept))
    scores = _maps([*encoders.items()], concept, names, out, perplexity=12, seed=seed)
    return dict(zip(encoders, scores, strict=True))


def type_maps(
    encoders: Mapping[str, NDArray[np.float32]],
    types: Sequence[str | None],
    out: Path | str,
    *,
    number: int = len(COLOURS),
    most: int = 150,
    seed: int = 0,
) -> dict[str, float]:
    """Draw concepts as several encoders place them, one colour and marker a semantic type.

    Args:
        types: (n,) the concepts' types.
    """
    if not 2 <= number <= len(COLOURS):
        raise ValueError(f"number must be 2 to {len(COLOURS)}, not {number}")
    _check_encoders(encoders, len(types))
    known = np.logical_and.reduce([np.isfinite(vectors).all(axis=1) for vectors in encoders.values()])
    rows: dict[str, list[int]] = {}
    for row in np.flatnonzero(known).tolist():
        kind = types[row]
        if kind is not None:
            rows.setdefault(kind, []).append(row)
    names = sorted(rows, key=lambda kind: (-len(rows[kind]), kind))[:number]
    rng = np.random.default_rng(seed)
    samples = [np.sort(rng.permutation(rows[kind])[:most]) for kind in names]
    chosen = np.concatenate(samples) if samples else np.empty(0, np.int64)
    label = np.repeat(np.arange(len(names)), [len(sample) for sample in samples])
    _check_labels(label, names)
    panels = [(name, vectors[chosen]) for name, vectors in encoders.items()]
    scores = _maps(panels, label, names, out, perplexity=30, seed=seed, scale=0.3)
    return dict(zip(encoders, scores, strict=True))


def _check_labels(label: NDArray[np.int64], names: Sequence[str]) -> None:
    if not 2 <= len(names) <= len(COLOURS) or len(label) <= len(names) or len(np.unique(label)) != len(names):
        raise ValueError(
            f"needs 2 to {len(COLOURS)} concepts, each with terms and some with several; got {len(names)} concepts and "
            f"{len(label)} terms"
        )


def _check_encoders(encoders: Mapping[str, NDArray[np.float32]], n: int) -> None:
    if len(encoders) < 2:
        raise ValueError(f"needs 2 encoders or more, not {len(encoders)}")
    for name, vectors in encoders.items():
        if len(vectors) != n:
            raise ValueError(f"encoder {name!r} has {len(vectors)} vectors for {n} labels")


def _maps(
    panels: Sequence[tuple[str, NDArray[np.float32]]],
    label: NDArray[np.int64],
    names: Sequence[str],
    out: Path | str,
    *,
    perplexity: float,
    seed: int,
    scale: float = 1,
) -> list[float]:
    """Draw a panel for each set of vectors, two or three in a line, and the legend below; return the silhouettes."""
    figures = require("matplotlib.figure", "plots")
    canvases = require("matplotlib.backends.backend_agg", "plots")
    across = 2 if len(panels) in (2, 4) else 3
    down = -(-len(panels) // across)
    # Inches: a panel with its title, and the room below for the legend.
    height = 4.446 * down + 1.254
    figure = figures.Figure(figsize=(5 * across, height), dpi=160, facecolor="white")
    canvases.FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        down, across, left=0.02, right=0.98, top=1 - 0.399 / height, bottom=1.254 / height, wspace=0.04, hspace=0.12
    )
    scores = []
    for place, (title, vectors) in enumerate(panels):
        axes = figure.add_subplot(grid[place // across, place % across])
        scores.append(_silhouette(vectors, label))
        handles = _scatter(axes, _tsne(vectors, perplexity, seed), label, len(names), scale)
        axes.set_title(f"{_shortened(title, MAX_NAME[2])}   (silhouette {scores[-1]:.2f})", fontsize=12)
    shown = [_shortened(name, MAX_NAME[across]) for name in names]
    figure.legend(
        handles,
        shown,
        loc="upper center",
        bbox_to_anchor=(0.5, 1.1685 / height),
        ncols=3,
        borderaxespad=0,
        fontsize=9.5,
        frameon=False,
        handletextpad=0.3,
        columnspacing=1.6,
        labelspacing=0.55,
        markerscale=scale**-0.5,
    )
    with atomic_file(out, "wb") as file:
        figure.savefig(file, format="png")
    return scores


def _tsne(vectors: NDArray[np.float32], perplexity: float, seed: int) -> NDArray[np.float64]:
    """Return (n, 2) places. Neighbours are exact: an approximate search would gain nothing at this size."""
    opentsne = require("openTSNE", "plots")
    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    tsne = opentsne.TSNE(
        perplexity=perplexity, metric="cosine", neighbors="exact", initialization="pca", random_state=seed, n_jobs=1
    )
    return np.asarray(tsne.fit(np.asarray(vectors, np.float64)))


def _silhouette(vectors: NDArray[np.float32], concept: NDArray[np.int64]) -> float:
    metrics = require("sklearn.metrics", "plots")
    return float(metrics.silhouette_score(vectors, concept, metric="cosine"))


def _scatter(
    axes: Axes, places: NDArray[np.float64], label: NDArray[np.int64], n_labels: int, scale: float
) -> list[Any]:
    handles = []
    for number in range(n_labels):
        own = places[label == number]
        size = scale * (62 if MARKERS[number] in "*PX" else 38)
        handles.append(
            axes.scatter(
                own[:, 0],
                own[:, 1],
                s=size,
                c=COLOURS[number],
                marker=MARKERS[number],
                linewidths=0.4,
                edgecolors="white",
                alpha=0.85,
                zorder=3,
            )
        )
    axes.set_xticks([])
    axes.set_yticks([])
    # The axes of t-SNE have no unit; one scale for both keeps distances comparable within a panel.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    for spine in axes.spines.values():
        spine.set_color("#BBBBBB")
    return handles


def _shortened(name: str, most: int) -> str:
    # matplotlib reads dollar signs as mathematics.
    name = name if len(name) <= most else name[: most - 1] + "…"
    return name.replace("$", r"\$")
