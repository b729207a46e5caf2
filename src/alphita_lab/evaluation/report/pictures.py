"""The pictures of a report: a terminology's terms as the systems place them, by concept and by semantic type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import UsageError, require
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.report import plots
from alphita_lab.evaluation.report.page import Picture
from alphita_lab.evaluation.systems import VectorSystem

# Concepts drawn by type at most: t-SNE with exact neighbours grows with the square.
CONCEPTS = 1500


class Chosen(NamedTuple):
    """What is drawn of a terminology.

    Attributes:
        systems: those with vectors, by name.
        rows: the terms that train, concept by concept.
        offsets: (n_concepts + 1,) into them.
        concepts: whose terms are drawn.
    """

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
    concepts = plots.choose_concepts(np.diff(offsets), seed=seed, least=3)
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
    scores = plots.term_maps(vectors, label, names, path, seed=seed)
    told = "Terms of {} concepts, t-SNE by cosine; silhouette by concept: {}."
    yield Picture(path.read_bytes(), told.format(len(names), _told(scores)))
    live = np.flatnonzero(~np.asarray(terminology.retired))
    sample = np.sort(np.random.default_rng(seed).permutation(live)[: 4 * CONCEPTS]).tolist()
    types: list[str | None] = [next(iter(terminology.semantic_types_of(row)), None) for row in sample]
    if not any(types):
        types = plots.chapters(terminology, sample)
    if len({kind for kind in types if kind is not None}) < 2:
        return
    progress.say("pictures: concepts by type")
    strings = [str(terminology.concept_names[row].as_py()) for row in sample]
    vectors = {name: system.encode(clean_many(strings, system.rules)) for name, system in drawn.items()}
    path = folder / "by_type.png"
    scores = plots.type_maps(vectors, types, path, most=CONCEPTS // 12, seed=seed)
    yield Picture(
        path.read_bytes(), f"Concepts by semantic type, t-SNE by cosine; silhouette by type: {_told(scores)}."
    )


def _told(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
