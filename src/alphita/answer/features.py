"""The ranker's features: numbers about each candidate, and about its mention as a whole.

Each group of features answers one question; explanations refer to groups. All features are computed for a whole batch
at once, from the cleaned strings, their words and vectors, and the arrays of the candidates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.answer.candidates import CandidateTable, languages_of, term_features
from alphita.answer.vetoes import CLINIC, Names, vetoes_of
from alphita.index import out_of_scope_names
from alphita.index.lookup import EXACT, LETTERS, MAX_ENCODED_CHARACTERS, VECTORS, Lookup, View
from alphita.index.neighbours import full, products, unit
from alphita.mention.axes import status_of
from alphita.mention.reader import Mention
from alphita.mention.spelling import ABBREVIATION, SHORTENED, SPELLING, UNSPECIFIED
from alphita.mention.words import Vocabulary, WordComparison, english_words
from alphita.terminology.rules import IndexedProfiles

if TYPE_CHECKING:
    from alphita.index.encoding import Encoder
    from alphita.index.segment import Segment
    from alphita.index.store import Index

Float32 = NDArray[np.float32]


class Ranked(NamedTuple):
    """How many candidates of its request are above each, (c,), and the greatest and second value of each request."""

    rank: NDArray[np.int64]
    best: Float32
    second: Float32


def rank_by(table: CandidateTable, values: Float32) -> Ranked:
    """Rank the candidates of each request by their values, (c,), highest first."""
    n = len(table.offsets) - 1
    order = np.lexsort((-values, table.request))
    request, in_order = table.request[order], values[order]
    place = np.arange(len(order)) - table.offsets[request]
    best, second = np.zeros(n, np.float32), np.zeros(n, np.float32)
    best[request[place == 0]] = in_order[place == 0]
    second[request[place == 1]] = in_order[place == 1]
    # Ties share a rank, because the order of their rows is arbitrary.
    new = (place == 0) | (np.diff(in_order, prepend=np.float32(np.nan)) != 0)
    rank = np.empty(len(values), np.int64)
    rank[order] = place[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    return Ranked(rank, best, second)


def greatest(table: CandidateTable, values: NDArray[Any]) -> Float32:
    """Return the greatest of each request's values, (n,); 0 for one without candidates."""
    found = np.zeros(len(table.offsets) - 1, np.float32)
    filled = table.offsets[:-1] < table.offsets[1:]
    found[filled] = np.maximum.reduceat(values, table.offsets[:-1][filled]) if len(values) else 0
    return found


def tops(table: CandidateTable, values: Float32) -> NDArray[np.int64]:
    """Return the row of each request's greatest value; 0 for one without candidates."""
    top = np.zeros(len(table.offsets) - 1, np.int64)
    order = np.lexsort((values, table.request))
    top[table.request[order]] = order
    return top


def ratios(
    left: Sequence[str], left_rows: NDArray[np.int64], right: Sequence[str], right_rows: NDArray[np.int64]
) -> tuple[Float32, Float32, Float32]:
    """Return the Indel ratio of the strings, of their sorted words, and of the shorter in the longer; 0 to 1."""
    from rapidfuzz import fuzz, process

    def compared(scorer: Any) -> Float32:  # noqa: ANN401
        found: Float32 = process.cpdist(first, second, scorer=scorer, dtype=np.float32, workers=1)
        return found / np.float32(100)

    first, second = np.array(left, object)[left_rows], np.array(right, object)[right_rows]
    return compared(fuzz.ratio), compared(fuzz.token_sort_ratio), compared(fuzz.partial_ratio)


Columns = dict[str, NDArray[Any]]

GROUPS: dict[str, tuple[str, ...]] = {
    "meaning": (
        "cosine",
        "best_cosine",
        "cosine_behind_best",
        "cosine_ahead_of_next",
        "cosine_rank",
        "middle",
        "middle_behind_best",
        "preferred_cosine",
        "preferred_cosine_behind_best",
    ),
    "definition": ("definition", "definition_behind_best", "has_definition"),
    "graph": ("parents", "children"),
    "letters": (
        "letters",
        "best_letters",
        "letters_behind_best",
        "letters_ahead_of_next",
        "letters_rank",
        "edit_ratio",
        "sorted_ratio",
        "partial_ratio",
    ),
    "words": (
        "words_of_mention_in_term",
        "words_of_term_in_mention",
        "same_words",
        "first_word",
        "last_word",
        "length_ratio",
    ),
    "exactness": ("equal", "found_by_both", "strings_found"),
    "term": (
        "preferred",
        "scope_narrow",
        "scope_broad",
        "scope_related",
        "abbreviation_term",
        "layperson_term",
        "not_official",
        "retired_term",
        "borrowed_term",
        "homonyms",
        "language_given_and_same",
        "language_given_and_other",
    ),
    "constraints": (
        "contradictions",
        "vetoes",
        "only_in_mention",
        "only_in_term",
        "agreements",
        "status_apart",
        "status_agrees",
    ),
    "reading": (
        "expanded",
        "expansion_decided",
        "expansion_share",
        "respelt",
        "shortened",
        "unspecified",
        "mention_is_short_capitals",
        "meant",
        "meant_otherwise",
    ),
}
NAMES: tuple[str, ...] = tuple(name for group in GROUPS.values() for name in group)
MENTION_NAMES: tuple[str, ...] = (
    "top_cosine",
    "second_cosine",
    "top_letters",
    "second_letters",
    "top_edit_ratio",
    "top_words_of_mention",
    "top_words_of_term",
    "equal_to_a_term",
    "same_top",
    "characters",
    "words",
    "known_words",
    "candidates_close",
    "vetoed_top",
    "expanded_mention",
    "known_expansion",
    "named_elsewhere",
    "words_elsewhere",
    "other_words",
)
# Shorter words are not examined: too many are short forms.
LETTERS_OF_WORD = 4
# Candidates whose similarity is at most this much lower count as close to the best one.
CLOSE = 0.05
_AT_TOP = ("edit_ratio", "words_of_mention_in_term", "words_of_term_in_mention", "vetoes")


class Asked(NamedTuple):
    """The queries and mentions of n requests whose candidates were looked up.

    Attributes:
        queries: the strings that were looked up.
        own: (n,) the query with each request's own string.
        mentions: of each request, with the readings that were looked up, in the order of its further queries.
        found: the matches of the queries; those of each request's own string are described.
        view: of the index.
        owner: the request of each query; needed by a view that hides something.
    """

    queries: Sequence[str]
    own: NDArray[np.int64]
    mentions: Sequence[Mention]
    found: Lookup
    view: View
    owner: Sequence[int]


class Features(NamedTuple):
    """The features of a table of candidates.

    Attributes:
        candidates: (c, len(NAMES)) float32.
        mentions: (n, len(MENTION_NAMES)) float32.
        vetoed: (c,) bool: the candidate contradicts the mention in an important respect, or is one of several concepts
            that the mention names.
        vetoes: (n,) why vetoed candidates of the mention are not accepted without review; "" if there is no reason.
    """

    candidates: Float32
    mentions: Float32
    vetoed: NDArray[np.bool_]
    vetoes: Sequence[str]


class Featurizer:
    """Computes features of candidates of one index; caches data about the index's strings."""

    def __init__(
        self,
        index: Index,
        definitions: Definitions | None = None,
        cosines: Cosines | None = None,
        assigned: NDArray[np.int64] | None = None,
    ) -> None:
        self.cosines = cosines
        self.meaning = Meaning(index, definitions, cosines)
        self.segment = index.segment
        self._terms = term_features(index.segment)
        self.languages = languages_of(index.segment)
        self._vocabulary = Vocabulary(index.segment.word_counts, len(index))
        self._profiles = IndexedProfiles(len(index.strings))
        self._names = Names(index.segment, assigned)

    def __call__(self, asked: Asked, table: CandidateTable) -> Features:
        """Return the features of the candidates in `table`."""
        if self.cosines is not None:
            table = table._replace(cosine=self.cosines(table.cosine), best_cosine=self.cosines(table.best_cosine))
        distinct, place = np.unique(table.string, return_inverse=True)
        texts = self.segment.strings.array.take(pa.array(distinct)).to_pylist()
        hidden = asked.view.words(asked.owner)
        words = self._vocabulary.compare(asked.queries, table.query, texts, place, hidden, distinct)
        ranked = {"cosine": rank_by(table, table.best_cosine), "letters": rank_by(table, table.best_letters)}
        columns = self._of_candidates(asked, table, ranked, texts, place, words)
        cut = [query[:MAX_ENCODED_CHARACTERS] for query in asked.queries]
        compared = self._profiles.compare(cut, table.query, distinct, texts, place)
        columns |= {
            "contradictions": np.bitwise_count(compared.contradicts),
            "vetoes": (compared.contradicts & self._profiles.profiler.veto_mask) > 0,
            "only_in_mention": np.bitwise_count(compared.mention_only),
            "only_in_term": np.bitwise_count(compared.term_only),
            "agreements": np.bitwise_count(compared.agrees),
        }
        said = np.array([mention.status for mention in asked.mentions], np.int64)[table.request]
        named = self._profiles.codes("status", distinct)[place]
        # A name of the past agrees with a mention of it, even where the terminology does not tell it apart.
        written = np.array([status_of(cut[query]) for query in asked.own.tolist()], np.int64)[table.request]
        agrees = (said | written) & named > 0
        columns |= {"status_apart": ~agrees & (said | named > 0), "status_agrees": agrees}
        columns |= _meant(asked.mentions, table, self._names)
        mention = _of_mentions(asked, table, columns, ranked, words) | {"other_words": self._other_words(asked)}
        vetoed, vetoes = vetoes_of(
            asked.mentions,
            table,
            np.array(texts, object)[place],
            is_own=table.query == asked.own[table.request],
            is_equal=columns["equal"].astype(bool),
            has_same_words=columns["same_words"].astype(bool),
            names=self._names,
        )
        return Features(
            _joined(columns, NAMES),
            _joined(mention, MENTION_NAMES),
            columns["vetoes"].astype(bool) | vetoed | columns["status_apart"],
            vetoes,
        )

    def _other_words(self, asked: Asked) -> Float32:
        """Return the share of each mention's words that the index lacks, but English or other vocabularies have, (n,).

        Such a word is no misspelling.
        """
        lacking = self._vocabulary.lacking([asked.queries[query] for query in asked.own.tolist()], LETTERS_OF_WORD)
        request = np.repeat(np.arange(len(lacking)), [len(words) for words in lacking])
        words = [word for some in lacking for word in some]
        known = out_of_scope_names.hits([out_of_scope_names.MARK + word for word in words], self.segment.elsewhere)
        english = english_words() if words else frozenset()
        known |= np.fromiter((word in english for word in words), bool, len(words))
        counts = np.array([max(1, len(mention.string.split())) for mention in asked.mentions])
        return (np.bincount(request, known, minlength=len(lacking)) / counts).astype(np.float32)

    def _of_candidates(
        self,
        asked: Asked,
        table: CandidateTable,
        ranked: Mapping[str, Ranked],
        texts: Sequence[str],
        place: NDArray[np.int64],
        words: WordComparison,
    ) -> Columns:
        """Return the features of candidates except those of rules, (c,) each.

        Args:
            texts: the table's distinct strings.
            place: (c,) the position of each candidate's string.
        """
        columns: Columns = {}
        columns["cosine"], columns["best_cosine"] = table.cosine, table.best_cosine
        columns["letters"], columns["best_letters"] = table.letters, table.best_letters
        for name, values in (("cosine", table.best_cosine), ("letters", table.best_letters)):
            rank, best, second = ranked[name]
            columns[f"{name}_rank"] = 1.0 / (1.0 + rank)
            columns[f"{name}_behind_best"] = best[table.request] - values
            columns[f"{name}_ahead_of_next"] = np.where(rank == 0, values - second[table.request], 0.0)
        columns |= self.meaning.features(table, asked.found.vectors, asked.view.strings)
        for name in ("middle", "preferred_cosine", "definition"):
            one = np.asarray(columns[name], np.float32)
            columns[f"{name}_behind_best"] = greatest(table, one)[table.request] - one
        edit, in_order, partial = ratios(asked.queries, table.query, texts, place)
        columns |= {"edit_ratio": edit, "sorted_ratio": in_order, "partial_ratio": partial}
        columns |= {
            "words_of_mention_in_term": words.of_left,
            "words_of_term_in_mention": words.of_right,
            "same_words": words.same,
            "first_word": words.first,
            "last_word": words.last,
        }
        lengths = np.array([len(query) for query in asked.queries], np.float32)[table.query]
        other = np.array([len(text) for text in texts], np.float32)[place]
        columns["length_ratio"] = np.minimum(lengths, other) / np.maximum(np.maximum(lengths, other), 1)
        columns["equal"] = (table.routes & EXACT) > 0
        columns["found_by_both"] = (table.routes & (LETTERS | VECTORS)) == (LETTERS | VECTORS)
        columns["strings_found"] = np.log1p(table.strings)
        for name, flags in self._terms.items():
            columns[name] = flags[table.term]
        columns["homonyms"] = np.log1p(table.homonyms - self.segment.mapped_homonyms(table.string, table.concept))
        given = self.languages.given([mention.language for mention in asked.mentions])[table.request]
        same = self.languages.of_term[table.term] == given
        columns["language_given_and_same"], columns["language_given_and_other"] = (
            (given >= 0) & same,
            (given >= 0) & ~same,
        )
        columns |= _of_readings(table, asked.mentions)
        is_short = np.array([mention.is_short for mention in asked.mentions], bool)
        columns["mention_is_short_capitals"] = is_short[table.request]
        return columns


def _joined(columns: Columns, names: Sequence[str]) -> Float32:
    """Return some columns (n,) side by side, (n, len(names))."""
    joined = np.empty((len(columns[names[0]]), len(names)), np.float32)
    for place, name in enumerate(names):
        joined[:, place] = columns[name]
    return joined


def _of_mentions(
    asked: Asked, table: CandidateTable, columns: Columns, ranked: Mapping[str, Ranked], words: WordComparison
) -> Columns:
    """Return the features `MENTION_NAMES`, (n,) each; `columns` are the candidates'."""
    own, n = asked.own, len(asked.own)
    cosine, letters = ranked["cosine"], ranked["letters"]
    top = tops(table, table.best_cosine + table.best_letters)
    has = np.diff(table.offsets) > 0
    at_top = {name: np.zeros(n, np.float32) for name in _AT_TOP}
    if len(table.request):
        at_top = {name: np.where(has, columns[name].astype(np.float32)[top], np.float32(0)) for name in _AT_TOP}
    close = np.bincount(table.request, cosine.best[table.request] - table.best_cosine < CLOSE, minlength=n)
    same_top = np.bincount(table.request, (cosine.rank == 0) & (letters.rank == 0), minlength=n) > 0
    return {
        "top_cosine": cosine.best,
        "second_cosine": cosine.second,
        "top_letters": letters.best,
        "second_letters": letters.second,
        "top_edit_ratio": at_top["edit_ratio"],
        "top_words_of_mention": at_top["words_of_mention_in_term"],
        "top_words_of_term": at_top["words_of_term_in_mention"],
        "vetoed_top": at_top["vetoes"],
        "equal_to_a_term": np.bincount(table.request, columns["equal"], minlength=n) > 0,
        "same_top": same_top,
        "characters": np.log1p(np.array([len(query) for query in asked.queries], np.float32))[own],
        "words": np.log1p(words.counts)[own],
        "known_words": words.known[own],
        "candidates_close": np.log1p(close),
        "expanded_mention": np.bincount(table.request, columns["expanded"], minlength=n) > 0,
        "known_expansion": greatest(table, np.where(columns["equal"], columns["expansion_share"], 0.0)),
        "named_elsewhere": asked.found.out_of_scope,
        "words_elsewhere": asked.found.out_of_scope_share,
    }


def _meant(mentions: Sequence[Mention], table: CandidateTable, names: Names) -> dict[str, Float32]:
    """Return how often the short forms of a mention mean each candidate, and something else, (c,) each.

    They mean a candidate that the long form names, or by which it was found.
    """
    meant, otherwise = np.zeros(len(table.request), np.float32), np.zeros(len(table.request), np.float32)
    for request, mention in enumerate(mentions):
        rows = slice(int(table.offsets[request]), int(table.offsets[request + 1]))
        for number, reading in enumerate(mention.readings, 1):
            if reading.source == ABBREVIATION and reading.origin == CLINIC:
                own = np.isin(table.concept[rows], names.concepts(reading.string)) | (table.expansion[rows] == number)
                meant[rows] += np.where(own, np.float32(reading.share), np.float32(0))
                otherwise[rows] += np.where(own, np.float32(0), np.float32(reading.share))
    return {"meant": meant, "meant_otherwise": otherwise}


def _of_readings(table: CandidateTable, mentions: Sequence[Mention]) -> dict[str, Float32]:
    """Return the reading by which each candidate was found, (c,) each."""
    names = {ABBREVIATION: "expanded", SPELLING: "respelt", SHORTENED: "shortened", UNSPECIFIED: "unspecified"}
    every = (*names.values(), "expansion_decided", "expansion_share")
    found = {name: np.zeros(len(table.request), np.float32) for name in every}
    for row in np.flatnonzero(table.expansion > 0).tolist():
        reading = mentions[int(table.request[row])].readings[int(table.expansion[row]) - 1]
        found[names[reading.source]][row] = True
        found["expansion_decided"][row] = reading.decided
        found["expansion_share"][row] = reading.share if reading.source == ABBREVIATION else 0.0
    return found


# Definitions are long; their first words contain the essential part.
DEFINITION_CHARACTERS = 60
# Sharpness of the softmax over the candidates' cosines, for the evidence from parents and children.
SHARPNESS = 10.0
# Two blocks of this many vectors fit into the processor's cache.
ROWS_AT_ONCE = 1_024
# The vectors of a concept are added up for each batch apart, unless it asks for one of so many concepts.
SUMMED_APART = 8
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
    """Converts cosines of one encoder to those of another by their quantiles.

    Attributes:
        own: (k,) increasing cosines of the index's encoder.
        lender: (k,) cosines of the encoder of the transferred ranker, at the same quantiles.
    """

    own: NDArray[np.float64]
    lender: NDArray[np.float64]

    def __call__(self, values: Float32) -> Float32:
        """Convert cosines of the index's encoder to those of the other."""
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
    """Compares mentions with whole concepts."""

    def __init__(self, index: Index, definitions: Definitions | None, cosines: Cosines | None = None) -> None:
        self.index, self.definitions, self.cosines = index, definitions, cosines
        self._sums: tuple[Float32, Float32] | None = None

    def features(
        self, table: CandidateTable, vectors: Float32 | None, hidden_strings: NDArray[np.int64] | None
    ) -> dict[str, NDArray[np.generic]]:
        """Return the features of each candidate, (c,) each.

        Args:
            vectors: (q, dim) of length 1, of the queries.
            hidden_strings: (n,) the hidden string of each request.
        """
        c = len(table.concept)
        names = ("middle", "preferred_cosine", "definition", "has_definition", "parents", "children")
        found: dict[str, NDArray[np.generic]] = {name: np.zeros(c, np.float32) for name in names}
        if vectors is None or not c:
            return found
        middles = self._middles(table, vectors, hidden_strings)
        firsts = products(vectors, table.query, self.index.vectors, self._first_strings[table.concept])
        found["middle"], found["preferred_cosine"] = (
            values if self.cosines is None else self.cosines(values) for values in (middles, firsts)
        )
        if self.definitions is not None:
            row = self.definitions.row[table.concept]
            held = np.flatnonzero(row >= 0)
            one = np.zeros(c, np.float32)
            one[held] = products(vectors, table.query[held], self.definitions.vectors, row[held])
            found["definition"], found["has_definition"] = one, row >= 0
        found["parents"], found["children"] = neighbours_share(self.index.segment, table)
        return found

    @functools.cached_property
    def _first_strings(self) -> NDArray[np.int64]:
        """The string of each concept's preferred name, (n_concepts,); where it has none, of another name."""
        segment = self.index.segment
        string = np.repeat(np.arange(len(self.index)), np.diff(segment.offsets))
        order = np.argsort(segment.standing, kind="stable")[::-1]
        found = np.zeros(len(segment.concepts), np.int64)
        found[segment.term_concept[order]] = string[order]
        return found

    @functools.cached_property
    def _strings(self) -> Strings:
        return strings_of(self.index)

    def _middles(self, table: CandidateTable, vectors: Float32, hidden_strings: NDArray[np.int64] | None) -> Float32:
        """Return the cosine between the query and the mean of the concept's vectors, without a hidden string, (c,)."""
        concepts, place = np.unique(table.concept, return_inverse=True)
        if self._sums is None and SUMMED_APART * len(concepts) > len(self.index.segment.concepts):
            summed = sums_of(self.index, self._strings)
            self._sums = summed, np.linalg.norm(summed, axis=1)
        if self._sums is not None:
            place, (every, lengths) = table.concept, self._sums
        else:
            every = sums_of(self.index, self._strings, concepts)
            lengths = np.linalg.norm(every, axis=1)
        found = np.zeros(len(table.concept), np.float32)
        for start in range(0, len(found), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            sums, length = every[place[part]], lengths[place[part]]
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


class Strings(NamedTuple):
    """The distinct strings of each concept, concept by concept, and where those of each begin, (n_concepts + 1,)."""

    row: NDArray[np.int64]
    starts: NDArray[np.int64]


def strings_of(index: Index) -> Strings:
    """Return the distinct strings of each concept of an index."""
    segment = index.segment
    string = np.repeat(np.arange(len(index)), np.diff(segment.offsets))
    keys = np.unique(np.asarray(segment.term_concept, np.int64) * len(index) + string)
    concept, string = np.divmod(keys, len(index))
    return Strings(string, np.searchsorted(concept, np.arange(len(segment.concepts) + 1)))


def sums_of(index: Index, strings: Strings | None = None, only: NDArray[np.int64] | None = None) -> Float32:
    """Return the sum of the vectors of each concept's distinct strings, (n_concepts, dim).

    Args:
        strings: those of each concept; found if they are not given.
        only: (m,) rows of concepts; then (m, dim).
    """
    string, starts = strings or strings_of(index)
    n = len(starts) - 1
    if only is not None:
        counts, n = starts[only + 1] - starts[only], len(only)
        ends = np.cumsum(counts)
        string = string[np.arange(counts.sum()) + np.repeat(starts[only] - (ends - counts), counts)]
        starts = np.concatenate([[0], ends])
    sums = np.zeros((n, index.dim), np.float32)
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
    """Return the share of the mention's candidates, weighted by cosine, that are each one's parents and children."""
    n, top = len(table.offsets) - 1, greatest(table, table.best_cosine)
    if segment.parents is None or segment.parent_offsets is None:
        return np.zeros(len(table.concept), np.float32), np.zeros(len(table.concept), np.float32)
    weight = np.exp(SHARPNESS * (table.best_cosine - top[table.request]))
    weight /= np.bincount(table.request, weight, minlength=n)[table.request]
    starts = segment.parent_offsets[table.concept]
    counts = segment.parent_offsets[table.concept + 1] - starts
    ends = np.cumsum(counts)
    place = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    child = np.repeat(np.arange(len(counts)), counts)
    # A candidate's parent is found among the mention's candidates with one sorted key.
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
