"""Batches of CODER's first version: triples whose ends show several names each, side by side, and corrupted tails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.training.terms.triples import Int32, Int64, draw_names

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology


@dataclass(frozen=True)
class NameGroupBatch:
    """k triples with names, row by row; a triple drawn once stands in as many rows as it shows names.

    Attributes:
        head, tail, corrupted: (k,) concept rows.
        relation: (k,) relation labels.
        head_term, tail_term, corrupted_term: (k,) the term that names each.
    """

    head: Int32
    relation: Int32
    tail: Int32
    corrupted: Int32
    head_term: Int32
    tail_term: Int32
    corrupted_term: Int32


class NameGroupSampler:
    """Draws batches of triples, each under min(names of head, names of tail, most) names of both ends.

    Row i of heads and tails is one such pair of names, and has a corrupted tail of its own: another concept, drawn
    uniformly of those with names, under one of its names. The last triple of a batch shows fewer names where more would
    make it too large. Triples are drawn at random with replacement: how many fit into a batch depends on their names,
    so that a walk through epochs could not be told from the batch's number alone.
    """

    def __init__(
        self,
        triples: Int32,
        term_offsets: Int64,
        *,
        rows: int,
        most: int,
        seed: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Prepare to sample.

        Args:
            triples: (n, 3) as `triples.usable_triples` gives them.
            term_offsets: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1].
            weights: (n_terms,) how much likelier than others of its concept a term is to come early.
        """
        if len(triples) == 0:
            raise InputError(
                "the terminology has no relation between two named, live concepts, so TransE has nothing to learn",
                remedy="import one with relations, or take the recipe sapbert, which needs synonyms only",
            )
        counts = np.diff(term_offsets)
        self._shown = np.minimum(np.minimum(counts[triples[:, 0]], counts[triples[:, 2]]), most).astype(np.int32)
        if int(self._shown.max()) < 2:
            raise InputError(
                "no triple has several names at both ends, so the MS loss has no positive pair",
                remedy="import the terminology with its synonyms, or hold fewer of them out",
            )
        self._triples, self._offsets = triples, term_offsets
        self._named = np.flatnonzero(counts > 0).astype(np.int32)
        self._rows, self._seed, self._weights = rows // 3, seed, weights

    def batch(self, number: int) -> NameGroupBatch:
        """Return batch `number` (from 0); the same number always gives the same batch."""
        rng = np.random.default_rng([self._seed, 3, number])
        # At most so many triples fit, one row each.
        drawn = rng.integers(0, len(self._triples), self._rows)
        before = np.cumsum(self._shown[drawn]) - self._shown[drawn]
        kept = drawn[before < self._rows]
        shown = np.minimum(self._shown[kept], self._rows - before[: len(kept)])
        head, relation, tail = (np.repeat(self._triples[kept, column], shown) for column in range(3))
        corrupted = self._corrupted(tail, rng)
        return NameGroupBatch(
            head,
            relation,
            tail,
            corrupted,
            head_term=draw_names(self._offsets, self._triples[kept, 0], shown, self._weights, rng),
            tail_term=draw_names(self._offsets, self._triples[kept, 2], shown, self._weights, rng),
            corrupted_term=draw_names(self._offsets, corrupted, np.ones_like(corrupted), self._weights, rng),
        )

    def _corrupted(self, tail: Int32, rng: np.random.Generator) -> Int32:
        """Return another concept for each tail, drawn uniformly."""
        own = np.searchsorted(self._named, tail)
        drawn = rng.integers(0, len(self._named) - 1, len(tail))
        return self._named[drawn + (drawn >= own)]


class SemanticTypes:
    """Which concept has which types.

    Attributes:
        names: the types, sorted; their places are their labels.
    """

    def __init__(self, terminology: Terminology) -> None:
        table = terminology.side_table("semantic_types")
        if len(table) == 0:
            raise InputError(
                "no concept has a semantic type, which semantic_type_weight needs",
                file=terminology.path,
                remedy="leave semantic_type_weight at 0, or import an ontology with --set semantic_type=ROOT, by which "
                "the branches below ROOT become types",
            )
        column = table.column("semantic_type").cast(pa.large_string()).combine_chunks().dictionary_encode()
        types: list[str] = column.dictionary.to_pylist()
        self.names = sorted(types)
        number = {name: place for place, name in enumerate(self.names)}
        labels = np.array([number[name] for name in types], np.int32)[column.indices.to_numpy()]
        # Sorted by concept, as all side tables are.
        concepts = table.column("concept").to_numpy()
        self._labels = labels
        self._offsets = np.searchsorted(concepts, np.arange(terminology.n_concepts + 1))

    def matrix(self, concepts: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return (n, T): whether each of n concepts has each type."""
        types = np.zeros((len(concepts), len(self.names)), bool)
        for row, concept in enumerate(concepts.tolist()):
            types[row, self._labels[self._offsets[concept] : self._offsets[concept + 1]]] = True
        return types
