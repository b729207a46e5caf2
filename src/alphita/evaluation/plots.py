"""Pictures of term vectors, as the papers draw them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.artefact import atomic_file
from alphita.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Twelve colours that the colour-blind can tell apart (most are Paul Tol's "muted"), each with a marker of its own.
COLOURS = (
    "#332288", "#D55E00", "#44AA99", "#AA4499", "#999933", "#0077BB",
    "#CC6677", "#117733", "#DDAA33", "#88CCEE", "#882255", "#555555",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "h")
MAX_NAME = 46


def choose_concepts(
    n_terms: NDArray[np.int64], *, number: int = 12, least: int = 6, seed: int = 0
) -> NDArray[np.int64]:
    """Choose the concepts of a picture: at random among the `10 * number` that have most terms.

    Args:
        n_terms: (n_concepts,) terms that each concept has.
        number: concepts wanted.
        least: terms a concept must have.
        seed: of the choice.

    Returns:
        At most `number` rows of concepts, in order.
    """
    counts = np.asarray(n_terms)
    most = np.argsort(-counts, kind="stable")[: 10 * number]
    eligible = most[counts[most] >= least]
    chosen = np.random.default_rng(seed).permutation(eligible)[:number]
    return np.sort(chosen).astype(np.int64)


def synonym_map(
    before: NDArray[np.float32],
    after: NDArray[np.float32],
    concept: NDArray[np.int64],
    names: Sequence[str],
    out: Path | str,
    *,
    titles: tuple[str, str] = ("Before training", "After training"),
    seed: int = 0,
) -> tuple[float, float]:
    """Draw the terms of some concepts before and after training: t-SNE of the cosines, one colour and marker a concept.

    Above each panel stands the silhouette coefficient of the vectors themselves (not of the drawing): near 1 where
    every term lies with its synonyms, below 0 where it lies nearer to another concept's.

    Args:
        before: (n, d) vectors of the terms.
        after: (n, e) vectors of the same terms.
        concept: (n,) which of the concepts each term names, 0 to len(names) - 1.
        names: the concepts' names, at most 12, for the legend.
        out: the PNG to write.
        titles: of the two panels.
        seed: of t-SNE.

    Returns:
        The silhouette coefficients before and after.

    Raises:
        MissingExtra: matplotlib, openTSNE or scikit-learn is not installed.
        ValueError: there are fewer than 2 concepts or more than 12, or too few terms.
    """
    concept = np.asarray(concept)
    if not 2 <= len(names) <= len(COLOURS) or len(concept) <= len(names) or len(np.unique(concept)) != len(names):
        raise ValueError(
            f"needs 2 to {len(COLOURS)} concepts, each with terms and some with several; got {len(names)} concepts and "
            f"{len(concept)} terms"
        )
    figures = require("matplotlib.figure", "plots")
    canvases = require("matplotlib.backends.backend_agg", "plots")
    figure = figures.Figure(figsize=(10, 5.7), dpi=160, facecolor="white")
    canvases.FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1, 2, left=0.02, right=0.98, top=0.93, bottom=0.22, wspace=0.04)
    scores = (_silhouette(before, concept), _silhouette(after, concept))
    for panel, (vectors, title, score) in enumerate(zip((before, after), titles, scores, strict=True)):
        axes = figure.add_subplot(grid[0, panel])
        handles = _scatter(axes, _tsne(vectors, seed), concept, len(names))
        axes.set_title(f"{title}   (silhouette {score:.2f})", fontsize=12)
    figure.legend(
        handles, [_shortened(name) for name in names], loc="upper center", bbox_to_anchor=(0.5, 0.205), ncols=3,
        borderaxespad=0, fontsize=9.5, frameon=False, handletextpad=0.3, columnspacing=1.6, labelspacing=0.55,
    )  # fmt: skip
    with atomic_file(out, "wb") as file:
        figure.savefig(file, format="png")
    return scores


def _tsne(vectors: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """Return (n, 2) places. Neighbours are exact: an approximate search would gain nothing at this size."""
    opentsne = require("openTSNE", "plots")
    # A concept has some ten terms here: a neighbourhood of that size shows whether they lie together.
    perplexity = min(12.0, (len(vectors) - 1) / 3)
    tsne = opentsne.TSNE(
        perplexity=perplexity, metric="cosine", neighbors="exact", initialization="pca", random_state=seed, n_jobs=1
    )
    return np.asarray(tsne.fit(np.asarray(vectors, np.float64)))


def _silhouette(vectors: NDArray[np.float32], concept: NDArray[np.int64]) -> float:
    metrics = require("sklearn.metrics", "plots")
    return float(metrics.silhouette_score(vectors, concept, metric="cosine"))


def _scatter(axes: Axes, places: NDArray[np.float64], concept: NDArray[np.int64], n_concepts: int) -> list[Any]:
    handles = []
    for number in range(n_concepts):
        own = places[concept == number]
        size = 62 if MARKERS[number] in "*PX" else 38
        handles.append(
            axes.scatter(
                own[:, 0], own[:, 1], s=size, c=COLOURS[number], marker=MARKERS[number], linewidths=0.4,
                edgecolors="white", alpha=0.85, zorder=3,
            )
        )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    # The axes of t-SNE have no unit; one scale for both keeps distances comparable within a panel.
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    for spine in axes.spines.values():
        spine.set_color("#BBBBBB")
    return handles


def _shortened(name: str) -> str:
    # matplotlib reads dollar signs as mathematics.
    name = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
    return name.replace("$", r"\$")
