"""From nearest strings to concepts: each concept once, by its best term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from alphita.index.segment import Segment
from alphita.normalizer.candidates import Nearest
from alphita.normalizer.records import DECIMALS, Candidate


class Found(NamedTuple):
    """A candidate by rows: concept, term, cosine, and the other concepts of the term's string."""

    concept: int
    term: int
    similarity: float
    homonyms: tuple[int, ...]


def concepts_of(segment: Segment, near: Nearest, top_k: int) -> list[Found]:
    """Return the `top_k` best concepts of one mention, best first, each with its best term.

    A string of several concepts gives all of them, and takes no other's place: `top_k` counts concepts. Equal
    similarities (to 6 decimals) are ordered by the term's scope, exact first, then preferred terms first. An exact
    match stands above what merely has the same vector.

    Args:
        segment: where the rows of `near` point.
        near: nearest strings, most similar first.
        top_k: concepts wanted; fewer come only if `near` names fewer.
    """
    offsets, term_concept = segment.offsets, segment.term_concept
    seen: dict[int, Found] = {}
    last = None
    for row, cosine in zip(near.rows, near.similarity, strict=True):
        similarity = round(min(max(cosine, -1.0), 1.0), DECIMALS)
        # Strings as similar as the last one may still come before it by scope.
        if len(seen) >= top_k and similarity != last:
            break
        last = similarity
        start, end = int(offsets[row]), int(offsets[row + 1])
        named = list(dict.fromkeys(term_concept[start:end].tolist()))
        for term in range(start, end):
            concept = int(term_concept[term])
            if concept not in seen:
                seen[concept] = Found(concept, term, similarity, tuple(c for c in named if c != concept))
    best = list(seen.values())
    if len(best) > 1:
        exact_row = near.rows[0] if near.exact else -1
        best.sort(key=lambda found: _key(segment, found, exact_row))
    return best[:top_k]


def _key(segment: Segment, found: Found, exact_row: int) -> tuple[bool, float, int]:
    is_exact = exact_row >= 0 and segment.offsets[exact_row] <= found.term < segment.offsets[exact_row + 1]
    return not is_exact, -found.similarity, int(segment.standing[found.term])


def candidates_of(segment: Segment, found: Sequence[Sequence[Found]]) -> list[tuple[Candidate, ...]]:
    """Fetch what is shown of each candidate, for a whole batch at once."""
    flat = [one for answers in found for one in answers]
    terms = segment.terms.take(pa.array([one.term for one in flat], pa.int64()))
    concepts = segment.concepts.take(pa.array([one.concept for one in flat], pa.int64()))
    empty: list[Any] = [None] * len(flat)
    shown: dict[str, list[Any]] = {
        name: terms.column(name).to_pylist() if name in terms.column_names else empty
        for name in ("string", "scope", "language", "source", "code")
    }
    ids, names = concepts.column("id").to_pylist(), concepts.column("name").to_pylist()
    all_ids = segment.concepts.column("id")
    made = [
        Candidate(
            ids[i], names[i], shown["string"][i], one.similarity, shown["scope"][i], shown["language"][i],
            shown["source"][i], shown["code"][i], tuple(all_ids[c].as_py() for c in one.homonyms),
        )
        for i, one in enumerate(flat)
    ]  # fmt: skip
    ends = iter(made)
    return [tuple(next(ends) for _ in answers) for answers in found]
