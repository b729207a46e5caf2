"""Concept vectors of a graph model trained by `alphita graph train`, with the model's own scores of triples.

They know ids and no strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.systems import refuse_unknown
from alphita_lab.graph.store import EntityVectors
from alphita_lab.graph.triples import TripleScorer, triples_hash

OPTIONS = ("name",)


class GraphVectorSystem:
    """Vectors of a graph model: of concepts for MCSM or relatedness, and scores of triples for link prediction."""

    def __init__(self, path: Path, *, name: str | None = None) -> None:
        self.path, self.name = path, name or path.name
        self.vectors = EntityVectors.load(path)
        self.dim = self.vectors.dim
        facts = self.vectors.facts
        self.facts: dict[str, Any] = {
            "kind": "graph_vectors",
            "file": path.name,
            "model": self.vectors.model,
            "dimension": self.dim,
            "terminology": facts.get("terminology_hash"),
            "split": facts.get("split_hash"),
            "figures": facts.get("figures", {}).get("test"),
        }

    def encode_concepts(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32; a row of NaN for a concept that has no vector."""
        rows = self.vectors.rows(ids)
        vectors = np.array(self.vectors.vectors[np.maximum(rows, 0)], np.float32).reshape(len(rows), self.dim)
        vectors[rows < 0] = np.nan
        return vectors

    def scorer(
        self, entities: Sequence[str], relations: Sequence[str], train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> TripleScorer:
        """Return what scores triples of these entities; the vectors must come from the same training triples."""
        if triples_hash(entities, relations, train) != self.vectors.facts.get("train_hash"):
            raise InputError(
                "these vectors were trained on other triples than the benchmark's training part",
                file=self.path,
                remedy="train and evaluate with one terminology, split, seed, rare, inverse, test and validation",
            )
        return self.vectors.scorer(entities, relations)


def load(argument: str, options: Mapping[str, str]) -> GraphVectorSystem:
    """Open vectors of a graph model."""
    refuse_unknown("graph_vectors", options, OPTIONS)
    if not argument:
        raise UsageError("graph_vectors needs what alphita graph train made: graph_vectors:X.vectors")
    return GraphVectorSystem(Path(argument), name=options.get("name"))
