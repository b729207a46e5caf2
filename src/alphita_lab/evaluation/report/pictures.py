"""The pictures of a report: terms and concepts as systems place them, by t-SNE, as the papers draw them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.artefact import atomic_file
from alphita.errors import UsageError, require
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.report.page import Picture
from alphita_lab.evaluation.systems import VectorSystem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Twelve colours that the colour-blind can tell apart (most are Paul Tol's "muted"), each with a marker of its own.
COLOURS = (
    "#332288", "#D55E00", "#44AA99", "#AA4499", "#999933", "#0077BB",
    "#CC6677", "#117733", "#DDAA33", "#88CCEE", "#882255", "#555555",
)  # fmt: skip
MARKERS = "os^DvPX<*>ph"
# Letters of a name in a legend of three columns, by the panels across: more would run over the figure's edges.
MAX_NAME = {2: 38, 3: 58}
# Concepts drawn by type at most: t-SNE with exact neighbours grows with the square.
CONCEPTS = 1500

Vectors = NDArray[np.float32]


def choose_concepts(
    n_terms: NDArray[np.int64], *, number: int = 12, least: int = 6, seed: int = 0
) -> NDArray[np.int64]:
    """Choose the concepts of a picture: at random among the `10 * number` with most terms (n_concepts,)."""
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


def term_maps(
    encoders: Mapping[str, Vectors], concept: NDArray[np.int64], names: Sequence[str], out: Path | str, *, seed: int = 0
) -> dict[str, float]:
    """Draw the terms of some concepts as several encoders place them, one colour and marker a concept.

    Args:
        concept: (n,) which of the concepts each term names, 0 to len(names) - 1.
    """
    _check_encoders(encoders, len(concept))
    # A concept has some ten terms here: a neighbourhood of that size shows whether they lie together.
    return _maps(encoders, np.asarray(concept), names, out, perplexity=12, seed=seed)


def type_maps(
    encoders: Mapping[str, Vectors], types: Sequence[str | None], out: Path | str, *, most: int = 150, seed: int = 0
) -> dict[str, float]:
    """Draw concepts as several encoders place them, one colour and marker for each of the commonest semantic types."""
    _check_encoders(encoders, len(types))
    known = np.logical_and.reduce([np.isfinite(vectors).all(axis=1) for vectors in encoders.values()])
    rows: dict[str, list[int]] = {}
    for row in np.flatnonzero(known).tolist():
        kind = types[row]
        if kind is not None:
            rows.setdefault(kind, []).append(row)
    names = sorted(rows, key=lambda kind: (-len(rows[kind]), kind))[: len(COLOURS)]
    rng = np.random.default_rng(seed)
    samples = [np.sort(rng.permutation(rows[kind])[:most]) for kind in names]
    chosen = np.concatenate([np.empty(0, np.int64), *samples])
    label = np.repeat(np.arange(len(names)), [len(sample) for sample in samples])
    panels = {name: vectors[chosen] for name, vectors in encoders.items()}
    return _maps(panels, label, names, out, perplexity=30, seed=seed, scale=0.3)


def _check_encoders(encoders: Mapping[str, Vectors], n: int) -> None:
    if len(encoders) < 2:
        raise ValueError(f"needs 2 encoders or more, not {len(encoders)}")
    for name, vectors in encoders.items():
        if len(vectors) != n:
            raise ValueError(f"encoder {name!r} has {len(vectors)} vectors for {n} labels")


def _maps(
    panels: Mapping[str, Vectors],
    label: NDArray[np.int64],
    names: Sequence[str],
    out: Path | str,
    *,
    perplexity: float,
    seed: int,
    scale: float = 1,
) -> dict[str, float]:
    """Draw a panel for each set of vectors, two or three in a line, and the legend below; return the silhouettes."""
    if not 2 <= len(names) <= len(COLOURS) or len(label) <= len(names) or len(np.unique(label)) != len(names):
        raise ValueError(
            f"needs 2 to {len(COLOURS)} concepts, each with terms and some with several; got {len(names)} concepts and "
            f"{len(label)} terms"
        )
    metrics = require("sklearn.metrics", "plots")
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
    scores = {}
    for place, (title, vectors) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[place // across, place % across])
        scores[title] = float(metrics.silhouette_score(vectors, label, metric="cosine"))
        handles = _scatter(axes, _tsne(vectors, perplexity, seed), label, len(names), scale)
        axes.set_title(f"{_shortened(title, MAX_NAME[2])}   (silhouette {scores[title]:.2f})", fontsize=12)
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


def _tsne(vectors: Vectors, perplexity: float, seed: int) -> NDArray[np.float64]:
    """Return (n, 2) places. Neighbours are exact: an approximate search would gain nothing at this size."""
    opentsne = require("openTSNE", "plots")
    perplexity = min(perplexity, (len(vectors) - 1) / 3)
    tsne = opentsne.TSNE(
        perplexity=perplexity, metric="cosine", neighbors="exact", initialization="pca", random_state=seed, n_jobs=1
    )
    return np.asarray(tsne.fit(np.asarray(vectors, np.float64)))


def _scatter(
    axes: Axes, places: NDArray[np.float64], label: NDArray[np.int64], n_labels: int, scale: float
) -> list[Any]:
    handles = []
    for number in range(n_labels):
        points = places[label == number]
        size = scale * (62 if MARKERS[number] in "*PX" else 38)
        handles.append(
            axes.scatter(
                points[:, 0],
                points[:, 1],
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


class Chosen(NamedTuple):
    """What is drawn: the terms that train, concept by concept with offsets, and the chosen concepts."""

    systems: dict[str, VectorSystem]
    rows: NDArray[np.int32]
    offsets: NDArray[np.int64]
    concepts: NDArray[np.int64]


def choose(terminology: Terminology, systems: Mapping[str, object], *, seed: int = 0) -> Chosen:
    """Choose what `draw` draws: said before the work what cannot be."""
    for module in ("matplotlib", "openTSNE", "sklearn"):
        require(module, "plots")
    drawn = {name: system for name, system in systems.items() if isinstance(system, VectorSystem)}
    if len(drawn) < 2:
        raise UsageError(f"pictures lay two systems with vectors side by side; {list(drawn) or 'none'} given")
    rows, offsets = terminology.training_terms()
    concepts = choose_concepts(np.diff(offsets), seed=seed, least=3)
    if len(concepts) < 2:
        raise UsageError("pictures need a terminology in which two concepts or more have three names each")
    return Chosen(drawn, rows, offsets, concepts)


def draw(terminology: Terminology, chosen: Chosen, folder: Path, *, seed: int = 0) -> Iterator[Picture]:
    """Yield the two figures of Yuan et al. 2022 (2: terms by concept, 3: concepts by semantic type) side by side."""
    drawn, rows, offsets, of = chosen
    progress.say("pictures: terms by concept")
    terms = np.concatenate([rows[offsets[concept] : offsets[concept + 1]] for concept in of])
    label = np.repeat(np.arange(len(of)), np.diff(offsets)[of])
    strings = terminology.terms.column("string").take(terms).to_pylist()
    concepts = [int(terminology.term_concept[rows[offsets[concept]]]) for concept in of]
    names = [str(terminology.concept_names[concept].as_py()) for concept in concepts]
    vectors = {name: system.encode(clean_many(strings, system.rules)) for name, system in drawn.items()}
    path = folder / "by_concept.png"
    scores = term_maps(vectors, label, names, path, seed=seed)
    caption = "Terms of {} concepts, t-SNE by cosine; silhouette by concept: {}."
    yield Picture(path.read_bytes(), caption.format(len(names), _told(scores)))
    live = np.flatnonzero(~np.asarray(terminology.retired))
    sample = np.sort(np.random.default_rng(seed).permutation(live)[: 4 * CONCEPTS]).tolist()
    types: list[str | None] = [next(iter(terminology.semantic_types_of(row)), None) for row in sample]
    if not any(types):
        types = chapters(terminology, sample)
    if len({kind for kind in types if kind is not None}) < 2:
        return
    progress.say("pictures: concepts by type")
    strings = [str(terminology.concept_names[row].as_py()) for row in sample]
    vectors = {name: system.encode(clean_many(strings, system.rules)) for name, system in drawn.items()}
    path = folder / "by_type.png"
    scores = type_maps(vectors, types, path, most=CONCEPTS // 12, seed=seed)
    yield Picture(
        path.read_bytes(), f"Concepts by semantic type, t-SNE by cosine; silhouette by type: {_told(scores)}."
    )


def _told(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
