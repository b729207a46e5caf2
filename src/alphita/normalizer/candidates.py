"""From cleaned mentions to the nearest strings of the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.index.store import Encoder, Index

# An encoder cuts at some hundred tokens anyway; a cell of megabytes need not reach its tokenizer.
MAX_ENCODED_CHARACTERS = 4096
# So many strings are looked at first for one concept wanted: most strings name one concept, most concepts have few.
STRINGS_PER_CONCEPT = 4
FIRST_DEPTH = 8


class Nearest(NamedTuple):
    """The nearest strings of one mention, most similar first.

    Attributes:
        rows: rows of the index's strings.
        similarity: cosines, -1 to 1.
        exact: the first string equals the cleaned mention.
    """

    rows: list[int]
    similarity: list[float]
    exact: bool


def find(index: Index, encoder: Callable[[], Encoder], cleaned: Sequence[str], top_k: int) -> list[Nearest]:
    """Find for each cleaned mention as many nearest strings as it takes to name `top_k` concepts.

    A mention that equals an indexed string is not encoded: the string has its vector already.

    Args:
        index: where to look.
        encoder: gives the encoder; called only if some mention needs it.
        cleaned: distinct cleaned mentions, none empty.
        top_k: concepts wanted for each, 1 or more.

    Returns:
        One entry per mention, in order.
    """
    found: list[Nearest | None] = [None] * len(cleaned)
    exact = index.rows(cleaned)
    if top_k == 1:
        # The equal string names the answer; nothing else is asked for.
        for place in np.flatnonzero(exact >= 0).tolist():
            found[place] = Nearest([int(exact[place])], [1.0], True)
    waiting = np.array([place for place, entry in enumerate(found) if entry is None], dtype=np.int64)
    if len(waiting):
        queries = _vectors(index, encoder, cleaned, exact, waiting)
        depth = max(FIRST_DEPTH, STRINGS_PER_CONCEPT * top_k)
        _search(index, queries, waiting, exact, top_k, depth, found)
    return [entry for entry in found if entry is not None]


def _search(
    index: Index,
    queries: NDArray[np.float32],
    waiting: NDArray[np.int64],
    exact: NDArray[np.int64],
    top_k: int,
    depth: int,
    found: list[Nearest | None],
) -> None:
    """Fill `found`, looking deeper for those whose strings name fewer than `top_k` concepts."""
    while len(waiting):
        similarity, rows = index.search(queries, depth)
        short = np.zeros(len(waiting), dtype=bool)
        lists = zip(waiting.tolist(), rows.tolist(), similarity.tolist(), strict=True)
        for number, (place, row_list, similarity_list) in enumerate(lists):
            entry = _exact_first(int(exact[place]), row_list, similarity_list)
            found[place] = entry
            short[number] = not _covers(index, entry.rows, top_k)
        if depth >= len(index):
            return
        waiting, queries, depth = waiting[short], queries[short], depth * 4


def _vectors(
    index: Index,
    encoder: Callable[[], Encoder],
    cleaned: Sequence[str],
    exact: NDArray[np.int64],
    waiting: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Return (len(waiting), dim) float32: the stored vector where the string is indexed, else the encoder's."""
    vectors = np.empty((len(waiting), index.dim), dtype=np.float32)
    known = exact[waiting] >= 0
    vectors[known] = index.vectors[exact[waiting[known]]]
    new = [_encodable(cleaned[place]) for place in waiting[~known].tolist()]
    if new:
        vectors[~known] = encoder().encode(new)
    return vectors


def _encodable(string: str) -> str:
    # A lone surrogate is no character; tokenizers refuse it.
    return string[:MAX_ENCODED_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _exact_first(row: int, rows: list[int], similarity: list[float]) -> Nearest:
    """Put the equal string first: another may have the very same vector, e.g. one that differs in an accent."""
    if row < 0:
        return Nearest(rows, similarity, False)
    others = [(r, s) for r, s in zip(rows, similarity, strict=True) if r != row]
    return Nearest([row, *(r for r, _ in others)], [1.0, *(s for _, s in others)], True)


def _covers(index: Index, rows: list[int], top_k: int) -> bool:
    concepts: set[int] = set()
    offsets, term_concept = index.segment.offsets, index.segment.term_concept
    for row in rows:
        concepts.update(term_concept[offsets[row] : offsets[row + 1]].tolist())
        if len(concepts) >= top_k:
            return True
    return False
