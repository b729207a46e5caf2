"""Rankings of an index's concepts for queries."""

from __future__ import annotations

from collections.abc import Sequence

from alphita.normalizer.answering.normalizer import Normalizer


def ranking_of(normalizer: Normalizer, queries: Sequence[str], k: int) -> list[list[str | None]]:
    """Return the ids of the `k` best concepts of each query, NIL or not: what is NIL is another question."""
    results = normalizer.normalize(queries, top_k=k)
    return [[candidate.concept_id for candidate in result.candidates] for result in results]
