"""What a concept means beside its nearest term: the middle of its strings, its definition, its neighbours in the graph.

A mention may be nearer to one term of a wrong concept than to any of the right one, and yet nearer to the right one as
a whole. All three are compared with the vector of the mention, or of the reading of it that found the candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.answer.table import CandidateTable
from alphita.index.encoding import Encoder
from alphita.index.neighbours import full, unit
from alphita.index.segment import Segment
from alphita.index.store import Index

Float32 = NDArray[np.float32]
# Definitions are long; what they define stands in their first words.
DEFINITION_CHARACTERS = 60
# How sharply the candidates' cosines are told apart when their parents and children are asked what speaks for them.
SHARPNESS = 10.0
# Two blocks of so many vectors stay in a processor's cache.
ROWS_AT_ONCE = 1_024
MIN_LENGTH = 1e-12


class Definitions(NamedTuple):
    """Vectors of concepts' definitions.

    Attributes:
        row: (n_concepts,) int64 the row of each concept's definition in `vectors`; -1 for one without.
        vectors: (m, dim) float16 of length 1.
    """

    row: NDArray[np.int64]
    vectors: NDArray[np.float16]


class Cosines(NamedTuple):
    """Cosines of one encoder as those of another: what the one gives to as large a share of the pairs as the other.

    Attributes:
        own: (k,) increasing cosines of the index's encoder.
        lender: (k,) of the encoder whose ranker reads them, at the same quantiles.
    """

    own: NDArray[np.float64]
    lender: NDArray[np.float64]

    def __call__(self, values: Float32) -> Float32:
        """Return cosines of the index's encoder as the lender's."""
        return np.interp(values, self.own, self.lender).astype(np.float32)


def encode_definitions(index: Index, encoder: Callable[[], Encoder]) -> Definitions:
    """Encode the definitions of an index's concepts."""
    table = index.segment.concepts
    n = len(table)
    texts = table.column("definition").to_pylist() if "definition" in table.column_names else [None] * n
    held = [row for row, text in enumerate(texts) if text]
    row = np.full(len(texts), -1, np.int64)
    row[held] = np.arange(len(held))
    if not held:
        return Definitions(row, np.zeros((0, index.dim), np.float16))
    vectors = unit(encoder().encode([str(texts[one])[:DEFINITION_CHARACTERS] for one in held]))
    return Definitions(row, vectors.astype(np.float16))


class Meaning:
    """Compares mentions with concepts as wholes."""

    def __init__(self, index: Index, definitions: Definitions | None, cosines: Cosines | None = None) -> None:
        self.index, self.definitions, self.cosines = index, definitions, cosines
        self._sums: tuple[Float32, Float32] | None = None

    def features(
        self, table: CandidateTable, vectors: Float32 | None, hidden_strings: NDArray[np.int64] | None
    ) -> dict[str, NDArray[np.generic]]:
        """Return the features of each candidate, (c,) each.

        Args:
            vectors: (q, dim) of length 1, of the queries.
            hidden_strings: (n,) a string of each request that is taken as not there.
        """
        c = len(table.concept)
        names = ("middle", "definition", "has_definition", "parents", "children")
        found: dict[str, NDArray[np.generic]] = {name: np.zeros(c, np.float32) for name in names}
        if vectors is None or not c:
            return found
        middles = self._middles(table, vectors, hidden_strings)
        found["middle"] = middles if self.cosines is None else self.cosines(middles)
        if self.definitions is not None:
            row = self.definitions.row[table.concept]
            held = np.flatnonzero(row >= 0)
            one = np.zeros(c, np.float32)
            for start in range(0, len(held), ROWS_AT_ONCE):
                part = held[start : start + ROWS_AT_ONCE]
                meant = self.definitions.vectors[row[part]].astype(np.float32)
                one[part] = np.einsum("ij,ij->i", vectors[table.query[part]], meant)
            found["definition"], found["has_definition"] = one, row >= 0
        found["parents"], found["children"] = neighbours_share(self.index.segment, table)
        return found

    def _middles(self, table: CandidateTable, vectors: Float32, hidden_strings: NDArray[np.int64] | None) -> Float32:
        """Return the cosine of query and the mean of the concept's vectors, a hidden string left out, (c,)."""
        if self._sums is None:
            summed = sums_of(self.index)
            self._sums = summed, np.linalg.norm(summed, axis=1)
        every, lengths = self._sums
        found = np.zeros(len(table.concept), np.float32)
        for start in range(0, len(found), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            sums, length = every[table.concept[part]], lengths[table.concept[part]]
            if hidden_strings is not None:
                hidden = hidden_strings[table.request[part]]
                own = np.flatnonzero(hidden >= 0)
                of_concept = [self._has(int(hidden[row]), int(table.concept[start + row])) for row in own.tolist()]
                own = own[of_concept]
                sums[own] -= self.index.vectors[hidden[own]]
                length[own] = np.linalg.norm(sums[own], axis=1)
            product = np.einsum("ij,ij->i", vectors[table.query[part]], sums)
            found[part] = product / np.maximum(length, MIN_LENGTH)
        return found

    def _has(self, string: int, concept: int) -> bool:
        segment = self.index.segment
        start, end = int(segment.offsets[string]), int(segment.offsets[string + 1])
        return concept in segment.term_concept[start:end]


def sums_of(index: Index) -> Float32:
    """Return the sum of the vectors of each concept's distinct strings, (n_concepts, dim)."""
    segment = index.segment
    n = len(segment.concepts)
    string = np.repeat(np.arange(len(index)), np.diff(segment.offsets))
    pairs = np.unique(np.asarray(segment.term_concept, np.int64) * len(index) + string)
    concept, string = np.divmod(pairs, len(index))
    sums = np.zeros((n, index.dim), np.float32)
    starts = np.searchsorted(concept, np.arange(n + 1))
    for first in range(0, n, ROWS_AT_ONCE):
        last = min(n, first + ROWS_AT_ONCE)
        rows = slice(int(starts[first]), int(starts[last]))
        if rows.start == rows.stop:
            continue
        filled = np.flatnonzero(np.diff(starts[first : last + 1]))
        summed = np.add.reduceat(full(index.vectors[string[rows]]), starts[first:last][filled] - rows.start, axis=0)
        sums[first + filled] = summed
    return sums


def neighbours_share(segment: Segment, table: CandidateTable) -> tuple[Float32, Float32]:
    """Return what share of its mention's candidates, weighted by cosine, are each one's parents, and its children."""
    n = len(table.offsets) - 1
    top = np.full(n, -1.0, np.float32)
    np.maximum.at(top, table.request, table.best_cosine)
    if segment.parents is None or segment.parent_offsets is None:
        return np.zeros(len(table.concept), np.float32), np.zeros(len(table.concept), np.float32)
    weight = np.exp(SHARPNESS * (table.best_cosine - top[table.request]))
    weight /= np.bincount(table.request, weight, minlength=n)[table.request]
    starts, counts = segment.parent_offsets[table.concept], np.diff(segment.parent_offsets)[table.concept]
    ends = np.cumsum(counts)
    place = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    child = np.repeat(np.arange(len(counts)), counts)
    # A candidate's parent is found among the mention's candidates by one sorted key.
    concepts = len(segment.concepts)
    key = table.request * concepts + table.concept
    order = np.argsort(key)
    wanted = table.request[child] * concepts + segment.parents[place]
    found = np.searchsorted(key[order], wanted).clip(max=len(order) - 1)
    there = key[order][found] == wanted
    parent, child = order[found[there]], child[there]
    c = len(table.concept)
    of_parents = np.bincount(child, weight[parent], minlength=c).astype(np.float32)
    of_children = np.bincount(parent, weight[child], minlength=c).astype(np.float32)
    return of_parents, of_children
