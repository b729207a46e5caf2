"""From strings to candidates: distinct concepts per mention, each with its best matching term; and plain rankings.

A request is one mention to map: its string and, if it is or contains an abbreviation, the expansions. Each of these is
a query; several requests may share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.index.choice import REVIEWED
from alphita.index.lookup import EVERY_ROUTE, EXACT, LETTERS, VECTORS, Lookup
from alphita.index.segment import SCOPES, STATUSES, Segment
from alphita.registry import unknown
from alphita.terminology.languages import primary

Float32 = NDArray[np.float32]
# Number of concepts that are kept per request, the most similar ones.
MAX_CONCEPTS = 24


class Requests(NamedTuple):
    """The queries of each request, its own string first.

    Attributes:
        query: (m,) int64 queries, request by request.
        offsets: (n + 1,) int64 the start of each request's queries.
    """

    query: NDArray[np.int64]
    offsets: NDArray[np.int64]


class CandidateTable(NamedTuple):
    """The candidates of n requests, request by request.

    Attributes:
        offsets: (n + 1,) int64: the candidates of request r are the rows offsets[r] up to offsets[r + 1].
        request: (c,) int64 the request of each candidate.
        concept: (c,) int64 rows of the index's concepts.
        term: (c,) int64 the row of the concept's best matching term.
        query: (c,) int64 the query for which it was found.
        expansion: (c,) int64 the number of that query within the request: 0 is its own string.
        string: (c,) int64 the row of the term's string.
        routes: (c,) uint8 the routes that found the term.
        cosine: (c,) float32 of query and string.
        letters: (c,) float32 n-gram similarity of query and string.
        best_cosine: (c,) float32 the highest among the concept's matching strings.
        best_letters: (c,) float32 likewise.
        strings: (c,) int64 the number of the concept's strings that were found.
        homonyms: (c,) int64 the number of other concepts with this string.
    """

    offsets: NDArray[np.int64]
    request: NDArray[np.int64]
    concept: NDArray[np.int64]
    term: NDArray[np.int64]
    query: NDArray[np.int64]
    expansion: NDArray[np.int64]
    string: NDArray[np.int64]
    routes: NDArray[np.uint8]
    cosine: NDArray[np.float32]
    letters: NDArray[np.float32]
    best_cosine: NDArray[np.float32]
    best_letters: NDArray[np.float32]
    strings: NDArray[np.int64]
    homonyms: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> CandidateTable:
        """Return the table of some candidates; `rows` must preserve the order of requests."""
        n = len(self.offsets) - 1
        offsets = np.searchsorted(self.request[rows], np.arange(n + 1))
        columns: list[Any] = [column[rows] for column in self[1:]]
        return CandidateTable(offsets, *columns)


def requests_of(queries: Sequence[Sequence[int]]) -> Requests:
    """Build requests from the query numbers of each, its own string first."""
    flat = [query for one in queries for query in one]
    return Requests(np.array(flat, np.int64), np.cumsum([0, *map(len, queries)]))


def collect(
    segment: Segment,
    pairs: Lookup,
    requests: Requests,
    *,
    hidden_concepts: NDArray[np.int64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    assigned: NDArray[np.int64] | None = None,
    sides: NDArray[np.int64] | None = None,
    most: int = MAX_CONCEPTS,
) -> CandidateTable:
    """Collect the candidates of each request, as distinct concepts.

    Args:
        hidden_concepts: (n,) the hidden concept of each request.
        allowed: (n_terms,) the terms that can match.
        assigned: (4, n_concepts) see `assigned.Assignment.concepts`.
        sides: (n,) the row of `assigned` for each request, see `assigned.SIDES`.
    """
    n = len(requests.offsets) - 1
    starts = np.searchsorted(pairs.query, requests.query)
    counts = np.searchsorted(pairs.query, requests.query, "right") - starts
    pair = _ranges(starts, counts)
    link = np.repeat(np.arange(len(requests.query)), counts)
    request = np.repeat(np.arange(n), np.diff(requests.offsets))[link]
    string = pairs.string[pair]
    named = segment.offsets[string + 1] - segment.offsets[string]
    term = _ranges(np.asarray(segment.offsets[string]), named)
    pair, link, request, string = (np.repeat(values, named) for values in (pair, link, request, string))
    concept = segment.term_concept[term].astype(np.int64)
    if assigned is not None:
        concept = assigned[0 if sides is None else sides[request], concept]
    if hidden_concepts is not None or allowed is not None or assigned is not None:
        kept = (concept >= 0) if allowed is None else allowed[term] & (concept >= 0)
        if hidden_concepts is not None:
            kept &= concept != hidden_concepts[request]
        pair, link, request, string, term, concept = (
            values[kept] for values in (pair, link, request, string, term, concept)
        )

    exact = pairs.found_by[pair] & EXACT
    fused = pairs.cosine[pair] + pairs.letters[pair]
    expansion = link - requests.offsets[request]
    order = np.lexsort((segment.standing[term], expansion, -fused, -exact.astype(np.int64), concept, request))
    columns: list[NDArray[Any]] = [pair, request, string, term, concept, expansion, fused, exact]
    pair, request, string, term, concept, expansion, fused, exact = (values[order] for values in columns)
    starts = np.flatnonzero(np.r_[True, (np.diff(request) != 0) | (np.diff(concept) != 0)]) if len(request) else request
    if len(starts) == 0:
        return _EMPTY._replace(offsets=np.zeros(n + 1, np.int64))
    cosine, letters = pairs.cosine[pair], pairs.letters[pair]
    best_cosine, best_letters = np.maximum.reduceat(cosine, starts), np.maximum.reduceat(letters, starts)
    strings = _distinct_strings(string, starts, len(segment.offsets))
    request = request[starts]
    table = CandidateTable(
        np.searchsorted(request, np.arange(n + 1)),
        request,
        concept[starts],
        term[starts],
        pairs.query[pair[starts]],
        expansion[starts],
        string[starts],
        pairs.found_by[pair[starts]],
        cosine[starts],
        letters[starts],
        best_cosine,
        best_letters,
        strings,
        _concepts_of_string(segment, string[starts]) - 1,
    )
    best = np.lexsort((segment.standing[table.term], -(fused[starts] + 2.0 * exact[starts]), request))
    place = np.arange(len(best)) - table.offsets[request[best]]
    return table.take(np.sort(best[place < most]))


def _distinct_strings(string: NDArray[np.int64], starts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the number of distinct strings from each start to the next; two readings may find the same string."""
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(string)))
    keys = np.sort(group * n + string)
    new = np.diff(keys, prepend=-1) != 0
    return np.bincount(keys[new] // n, minlength=len(starts))


def _concepts_of_string(segment: Segment, string: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of distinct concepts of each string, (s,)."""
    distinct, back = np.unique(string, return_inverse=True)
    counts = segment.offsets[distinct + 1] - segment.offsets[distinct]
    several = np.flatnonzero(counts > 1)
    for place in several.tolist():
        start, end = segment.offsets[distinct[place]], segment.offsets[distinct[place] + 1]
        counts[place] = len(set(segment.term_concept[start:end].tolist()))
    found: NDArray[np.int64] = counts[back].astype(np.int64)
    return found


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return starts[0] .. starts[0] + counts[0] - 1, then the next range, and so on, in one array."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


_NONE, _NUMBER = np.zeros(0, np.int64), np.zeros(0, np.float32)
_EMPTY = CandidateTable(*(_NONE,) * 7, np.zeros(0, np.uint8), _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NONE, _NONE)


def term_features(segment: Segment) -> dict[str, NDArray[np.bool_]]:
    """Return figures from the columns of the terms, (n_terms,) each."""
    terms = segment.terms
    n = len(terms)

    def text(name: str) -> pa.ChunkedArray | None:
        return terms.column(name).cast(pa.string()) if name in terms.column_names else None

    def equals(column: pa.ChunkedArray | None, value: str) -> NDArray[np.bool_]:
        if column is None:
            return np.zeros(n, bool)
        return np.asarray(pc.fill_null(pc.equal(column, value), False).to_numpy(zero_copy_only=False), bool)

    scope, kind, status = text("scope"), text("type"), text("status")
    return {
        "preferred": np.asarray(terms.column("preferred").to_numpy(zero_copy_only=False), bool),
        **{f"scope_{name}": equals(scope, name) for name in SCOPES[1:]},
        "abbreviation_term": equals(kind, "abbreviation"),
        "layperson_term": equals(kind, "layperson"),
        "not_official": ~equals(status, STATUSES[0]) if status is not None else np.zeros(n, bool),
        "retired_term": _given(text("retired_concept"), n),
        # What people confirmed is as good as the terminology's own name.
        "borrowed_term": segment.borrowed & ~equals(text("source"), REVIEWED),
    }


def _given(column: pa.ChunkedArray | None, n: int) -> NDArray[np.bool_]:
    if column is None:
        return np.zeros(n, bool)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)


class Languages(NamedTuple):
    """The languages of an index's terms.

    Attributes:
        of_term: (n_terms,) int16, a position in `names`; -1 if a term has no language.
    """

    names: dict[str, int]
    of_term: NDArray[np.int16]

    def given(self, languages: Sequence[str | None]) -> NDArray[np.int64]:
        """Return the position of each language, -1 for None; a language that no term has gets a new position."""
        other = len(self.names)
        return np.array([-1 if not name else self.names.get(primary(name), other) for name in languages], np.int64)


def languages_of(segment: Segment) -> Languages:
    """Return the languages of a segment's terms."""
    if "language" not in segment.terms.column_names:
        return Languages({}, np.full(len(segment.terms), -1, np.int16))
    column = segment.terms.column("language").cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    names: dict[str, int] = {}
    of_value = [names.setdefault(primary(value or ""), len(names)) for value in column.dictionary.to_pylist()]
    codes = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    lookup = np.array([*of_value, -1], np.int16)
    return Languages(names, lookup[codes])


class Ranking(NamedTuple):
    """A ranking of a mention's candidates, a choice of `alphita normalize --ranking`.

    Attributes:
        routes: the routes that it uses.
        similarity: (c,) of a table's candidates; it is shown, and compared with the floor below which the answer is
            NIL.
        learned: whether the calibration's ranker scores the candidates, with confidence and decisions.
    """

    routes: int
    similarity: Callable[[CandidateTable], Float32]
    learned: bool = False

    def score(self, table: CandidateTable) -> NDArray[np.float64]:
        """Return the score of each candidate, (c,), higher is better; equal strings are above all others."""
        return self.similarity(table).astype(np.float64) + EQUAL * ((table.routes & EXACT) > 0)


def ranking_of(name: str) -> Ranking:
    """Return the ranking with a name."""
    if name not in RANKINGS:
        raise UsageError(unknown("ranking", name, RANKINGS))
    return RANKINGS[name]


EQUAL = 10.0
RANKINGS: Mapping[str, Ranking] = {
    "exact": Ranking(EXACT, lambda table: np.ones(len(table.request), np.float32)),
    # Of the term for which the sum of both is greatest.
    "fusion": Ranking(EVERY_ROUTE, lambda table: (table.cosine + table.letters) / np.float32(2)),
    "learned": Ranking(EVERY_ROUTE, lambda table: table.cosine, learned=True),
    "letters": Ranking(EXACT | LETTERS, lambda table: table.letters),
    "vectors": Ranking(EXACT | VECTORS, lambda table: table.cosine),
}
