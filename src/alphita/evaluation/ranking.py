"""Rankings of an index's concepts for queries: by its encoder, or by character 3-grams over the same strings."""

from __future__ import annotations

from collections.abc import Sequence

from alphita.evaluation.systems.tfidf import TfidfSystem
from alphita.index.store import Index
from alphita.normalizer.candidates import Nearest
from alphita.normalizer.normalizer import Normalizer
from alphita.normalizer.ranking import concepts_of
from alphita.terminology.text import clean_many

# Strings looked at for one concept wanted; most strings name one concept, most concepts have few.
STRINGS_PER_CONCEPT = 20


def dense_ranking(normalizer: Normalizer, queries: Sequence[str], k: int) -> list[list[str | None]]:
    """Return the ids of the `k` best concepts of each query, whatever the normalizer's floor: it only decides NIL."""
    results = normalizer.normalize(queries, top_k=k)
    return [[candidate.concept_id for candidate in result.candidates] for result in results]


def tfidf_ranking(index: Index, queries: Sequence[str], k: int) -> list[list[str | None]]:
    """Return the ids of the `k` best concepts of each query by character 3-grams of the index's strings.

    Strings become concepts by the normalizer's own rule (best term each, exact scope before others), so that the two
    rankings differ in the similarity alone.
    """
    strings = [index.strings[row] for row in range(len(index))]
    cleaned = clean_many(list(queries), index.rules)
    similarity, rows = TfidfSystem().neighbours(cleaned, strings, STRINGS_PER_CONCEPT * k)
    ids = index.segment.concepts.column("id").to_pylist()
    rankings: list[list[str | None]] = []
    for row_list, similarity_list in zip(rows.tolist(), similarity.tolist(), strict=True):
        found = [(row, value) for row, value in zip(row_list, similarity_list, strict=True) if row >= 0]
        near = Nearest([row for row, _ in found], [value for _, value in found], exact=False)
        rankings.append([ids[one.concept] for one in concepts_of(index.segment, near, k)])
    return rankings
