"""Vectors of concepts and relations that a graph model learnt, as an artefact: only of concepts in training triples."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError
from alphita.terminology.reading import rows_of

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita_lab.graph.models import VectorScorer

KIND = "graph_vectors"
REMEDY = "make it again: alphita graph train MODEL -t X.terminology -o X.vectors"
Int = NDArray[np.int64]


@dataclass(frozen=True)
class EntityVectors:
    """What a graph model learnt."""

    ids: list[str]  # the n concepts' CURIEs, sorted
    vectors: NDArray[np.float32]  # (n, d) float32, parts end to end (ComplEx: real, imaginary)
    relations: list[str]
    relation_vectors: NDArray[np.float32]  # (m, d_relation) float32, likewise
    model: str
    facts: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None  # where it lies; None: not saved

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int:
        """Numbers of a concept's vector."""
        return int(self.vectors.shape[1])

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the artefact."""
        self._check(path)
        with artefact.create(path, KIND, force=force) as draft:
            np.save(draft.path / "vectors.npy", self.vectors, allow_pickle=False)
            np.save(draft.path / "relation_vectors.npy", self.relation_vectors, allow_pickle=False)
            names = {"entities": self.ids, "relations": self.relations}
            text = json.dumps(names, ensure_ascii=False, indent=0)
            (draft.path / "names.json").write_text(text + "\n", encoding="utf-8")
            draft.fields.update({"model": self.model, "dim": self.dim, "entities": len(self), "facts": self.facts})

    @classmethod
    def load(cls, path: Path | str) -> EntityVectors:
        """Open saved vectors."""
        path = Path(path)
        manifest = artefact.open_checked(path, KIND)
        try:
            names = textio.json_file(path / "names.json")
            opened = cls(
                list(names["entities"]),
                np.load(path / "vectors.npy", mmap_mode="r", allow_pickle=False),
                list(names["relations"]),
                np.load(path / "relation_vectors.npy", mmap_mode="r", allow_pickle=False),
                str(manifest["model"]),
                dict(manifest["facts"]),
                path,
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"damaged vectors: {error}", file=path, remedy=REMEDY) from None
        opened._check(path)
        return opened

    def _check(self, path: Path | str) -> None:
        wanted = (len(self.ids), len(self.relations))
        arrays = (self.vectors, self.relation_vectors)
        if any(array.ndim != 2 or array.dtype != np.float32 for array in arrays) or wanted != tuple(map(len, arrays)):
            raise InputError("damaged vectors: names and rows do not fit together", file=path, remedy=REMEDY)
        if self.ids != sorted(set(self.ids)):
            raise InputError("damaged vectors: ids are not sorted, or one stands twice", file=path, remedy=REMEDY)
        if not all(np.isfinite(array).all() for array in arrays):
            raise InputError(
                "a vector is not finite: the training diverged",
                file=path,
                remedy="train again with a smaller learning_rate",
            )

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {identifier: row for row, identifier in enumerate(self.ids)}

    def rows(self, ids: Iterable[str]) -> Int:
        """Return the row of each id, -1 where it has no vector; count these by `(rows < 0).sum()`."""
        return np.array([self._places.get(identifier, -1) for identifier in ids], np.int64)

    def rows_of_terminology(self, terminology: Terminology) -> tuple[Int, int]:
        """Return the row of each concept of a terminology, and how many live ones have none.

        Returns:
            (n_concepts,) rows, -1 where there is none, and the number of live concepts without a vector.
        """
        rows = np.full(terminology.n_concepts, -1, np.int64)
        placed = rows_of(terminology, self.ids)
        own = [terminology.concept_id(row) == identifier for identifier, row in placed.items()]
        # Those by their own id come last, so that they win over merged ones.
        for identifier, row in [item for _, item in sorted(zip(own, placed.items(), strict=True))]:
            rows[row] = self._places[identifier]
        if not placed:
            raise InputError(
                f"none of the {len(self):,} concepts of these vectors is in {terminology.path}",
                file=self.path,
                value=self.ids[0] if self.ids else None,
                remedy="train them on this terminology: alphita graph train",
            )
        return rows, int(((rows < 0) & ~terminology.retired).sum())

    def cosine(self, left: Sequence[int] | Int, right: Sequence[int] | Int) -> NDArray[np.float32]:
        """Return the cosine of each of (a,) rows with each of (b,) rows: (a, b); NaN where a row is -1."""
        return self._unit(left) @ self._unit(right).T

    def _unit(self, rows: Sequence[int] | Int) -> NDArray[np.float32]:
        places = np.asarray(rows, np.int64)
        taken = np.array(self.vectors[np.maximum(places, 0)], np.float32)
        taken /= np.maximum(np.linalg.norm(taken, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        taken[places < 0] = np.nan
        return taken

    def scorer(self, entities: Sequence[str], relations: Sequence[str]) -> VectorScorer:
        """Return a scorer of triples of these entities and relations, by their places in the two lists."""
        from alphita_lab.graph import models

        labels = {label: row for row, label in enumerate(self.relations)}
        taken = self.rows(entities)
        if (taken < 0).any():
            raise InputError(
                f"{int((taken < 0).sum()):,} of {len(entities):,} entities have no vector",
                file=self.path,
                value=entities[int((taken < 0).argmax())],
                remedy="train on the terminology that is asked about",
            )
        if unknown := [label for label in relations if label not in labels]:
            raise InputError("this relation has no vector", file=self.path, value=unknown[0], remedy=REMEDY)
        kept = np.array([labels[label] for label in relations], np.int64)
        return models.VectorScorer(models.load(self.model), self.vectors[taken], self.relation_vectors[kept])
