"""What the ranker sees: numbers about each candidate, and about its mention as a whole.

Each group of features answers one question; explanations speak in groups. All are made for a whole batch at once from
the strings' cleaned forms, their tokens and the arrays of the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.answer.candidates import EXACT, LETTERS, MAX_ENCODED_CHARACTERS, VECTORS
from alphita.answer.meaning import Cosines, Definitions, Meaning
from alphita.answer.table import CandidateTable, languages_of, term_features
from alphita.answer.vetoes import Candidates, vetoes_of
from alphita.index import out_of_scope_names
from alphita.mention.name_style import ABBREVIATION, SHORTENED, SPELLING, UNSPECIFIED, Reading
from alphita.mention.words import Words
from alphita.terminology.rules import Profiler, Profiles

if TYPE_CHECKING:
    from alphita.index.store import Index

Float32 = NDArray[np.float32]


class Ranked(NamedTuple):
    """How many candidates of its request are above each, (c,), and the greatest and second value of each request."""

    rank: NDArray[np.int64]
    best: Float32
    second: Float32


def rank_by(table: CandidateTable, values: Float32) -> Ranked:
    """Rank the candidates of each request by their values, (c,), the greatest first."""
    n = len(table.offsets) - 1
    order = np.lexsort((-values, table.request))
    request, in_order = table.request[order], values[order]
    place = np.arange(len(order)) - table.offsets[request]
    best, second = np.zeros(n, np.float32), np.zeros(n, np.float32)
    best[request[place == 0]] = in_order[place == 0]
    second[request[place == 1]] = in_order[place == 1]
    # Equal ones have one rank: which row stands first is chance.
    new = (place == 0) | (np.diff(in_order, prepend=np.float32(np.nan)) != 0)
    rank = np.empty(len(values), np.int64)
    rank[order] = place[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    return Ranked(rank, best, second)


def greatest(table: CandidateTable, values: NDArray[Any]) -> Float32:
    """Return the greatest of each request's values, which are 0 or more; 0 for one without candidates."""
    found = np.zeros(len(table.offsets) - 1, np.float32)
    np.maximum.at(found, table.request, values)
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

    def compared(scorer: Any, one: Sequence[str], other: Sequence[str]) -> Float32:  # noqa: ANN401
        first, second = np.array(one, object)[left_rows], np.array(other, object)[right_rows]
        found: Float32 = process.cpdist(first, second, scorer=scorer, dtype=np.float32, workers=1)
        return found / np.float32(100)

    in_order = [[" ".join(sorted(text.split())) for text in texts] for texts in (left, right)]
    return (
        compared(fuzz.ratio, left, right),
        compared(fuzz.ratio, *in_order),
        compared(fuzz.partial_ratio, left, right),
    )


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
    "constraints": ("contradictions", "vetoes", "only_in_mention", "only_in_term", "agreements"),
    "reading": (
        "expanded",
        "expansion_decided",
        "expansion_share",
        "respelt",
        "shortened",
        "unspecified",
        "mention_is_short_capitals",
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
)
# Short forms: this many capitals at most.
SHORT_CAPITALS = 6
CLOSE = 0.05
NO_ROWS = np.zeros(0, np.int64)
_AT_TOP = ("edit_ratio", "words_of_mention_in_term", "words_of_term_in_mention", "vetoes")


class Strings(NamedTuple):
    """What is known of some cleaned strings, beside their letters and vectors."""

    texts: Sequence[str]
    words: Words
    profiles: Profiles


class Context(NamedTuple):
    """What is known of the requests beside their strings.

    Attributes:
        language: (n,) each request's language (BCP-47), or None.
        readings: the other readings, by request and number of the reading (from 1).
        short: (n,) bool, whether the mention is a few capitals.
        vectors: (q, dim) of length 1, of the queries; None where there are none.
        own: (n,) the query that is each request's own string; None: the query of its number.
        doubts: (n,) see `Questions`; empty: there are none.
        hidden_strings: (n,) a string of each request that is taken as not there; -1 for none.
        without: for each query, in how many strings that are taken as not there each word stands; None: in none.
    """

    language: Sequence[str | None]
    readings: Mapping[tuple[int, int], Reading]
    short: NDArray[np.bool_]
    vectors: Float32 | None = None
    own: NDArray[np.int64] | None = None
    doubts: Sequence[str] = ()
    hidden_strings: NDArray[np.int64] | None = None
    without: Sequence[Mapping[str, int]] | None = None


class Features(NamedTuple):
    """The features of a table of candidates.

    Attributes:
        candidates: (c, len(NAMES)) float32.
        mentions: (n, len(MENTION_NAMES)) float32.
        vetoed: (c,) bool: the candidate contradicts the mention in what must not be overlooked, or is one of several
            concepts that the mention names.
        doubts: (n,) why no answer to the mention is accepted unseen, of those candidates that are vetoed; "": nothing.
    """

    candidates: Float32
    mentions: Float32
    vetoed: NDArray[np.bool_]
    doubts: Sequence[str]


class Featurizer:
    """Makes features of candidates of one index; keeps what is known of the index's strings."""

    def __init__(self, index: Index, definitions: Definitions | None = None, cosines: Cosines | None = None) -> None:
        self.cosines = cosines
        self.meaning = Meaning(index, definitions, cosines)
        self.segment = index.segment
        self.profiler = Profiler()
        self._terms = term_features(index.segment)
        self.languages = languages_of(index.segment)
        self._vocabulary = Words.vocabulary(index.strings.array)
        # What the index's own strings say, filled in as they come up.
        n = len(index.strings)
        self._codes = np.zeros((n, len(self.profiler.rules)), np.int64)
        self._speaks, self._read = np.zeros(n, np.uint16), np.zeros(n, bool)

    def __call__(self, queries: Sequence[str], table: CandidateTable, context: Context) -> Features:
        """Return the features of the candidates in `table`."""
        if self.cosines is not None:
            table = table._replace(cosine=self.cosines(table.cosine), best_cosine=self.cosines(table.best_cosine))
        distinct, place = np.unique(table.string, return_inverse=True)
        texts = self.segment.strings.array.take(pa.array(distinct)).to_pylist()
        found = Strings(texts, self._vocabulary.words(texts), self._profiles(distinct, texts))
        profiles = self.profiler.profile([query[:MAX_ENCODED_CHARACTERS] for query in queries])
        asked = Strings(queries, self._vocabulary.words(queries, context.without), profiles)
        own = context.own if context.own is not None else np.arange(len(table.offsets) - 1)
        ranked = {"cosine": rank_by(table, table.best_cosine), "letters": rank_by(table, table.best_letters)}
        columns = _of_candidates(self, asked, found, place, table, context, ranked)
        mention = _of_mentions(self, asked, own, table, columns, ranked)
        vetoed = columns["vetoes"].astype(bool)
        equal = columns["equal"].astype(bool)
        request = table.request
        same = columns["same_words"].astype(bool)
        doubts = vetoes_of(
            [asked.texts[row][:MAX_ENCODED_CHARACTERS] for row in own.tolist()],
            context.readings,
            context.doubts,
            _denies(self, asked, own),
            Candidates(request, table.query == own[request], equal, same, place, texts, table.term, table.concept),
            self,
        )
        vetoed |= doubts.vetoed
        candidates = np.stack([columns[name].astype(np.float32) for name in NAMES], axis=1)
        mentions = np.stack([mention[name].astype(np.float32) for name in MENTION_NAMES], axis=1)
        return Features(candidates, mentions, vetoed, doubts.reason)

    def rows(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each cleaned string, -1 where the index lacks it."""
        return self.segment.strings.rows(strings)

    def concepts(self, string: str) -> NDArray[np.integer]:
        """Return the concepts that a cleaned string names."""
        row, segment = int(self.rows([string])[0]), self.segment
        return segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]] if row >= 0 else NO_ROWS

    def first_name(self, concept: int) -> str:
        """Return the preferred name of a concept."""
        name: str | None = self.segment.concepts.column("name")[concept].as_py()
        return name or ""

    def is_short_form(self, term: int) -> bool:
        """Tell whether a term is written as a short form, in capitals."""
        written = self.segment.terms.column("string")[term].as_py()
        return len(written) <= SHORT_CAPITALS and sum(sign.isupper() for sign in written) > 1

    def _profiles(self, rows: NDArray[np.int64], texts: Sequence[str]) -> Profiles:
        """Return what some of the index's strings say."""
        new = np.flatnonzero(~self._read[rows])
        if len(new):
            made = self.profiler.profile([texts[place] for place in new.tolist()])
            self._codes[rows[new]], self._speaks[rows[new]] = made.codes, made.speaks
            self._read[rows[new]] = True
        return Profiles(self.profiler.rules, self._codes[rows], self._speaks[rows])


def _of_candidates(
    kept: Featurizer,
    asked: Strings,
    found: Strings,
    place: NDArray[np.int64],
    table: CandidateTable,
    context: Context,
    ranked: dict[str, Ranked],
) -> Columns:
    """Return the features `NAMES`, (c,) each; `found` has the table's distinct strings, `place` says which is whose."""
    columns: Columns = {}
    columns["cosine"], columns["best_cosine"] = table.cosine, table.best_cosine
    columns["letters"], columns["best_letters"] = table.letters, table.best_letters
    for name, values in (("cosine", table.best_cosine), ("letters", table.best_letters)):
        rank, best, second = ranked[name]
        columns[f"{name}_rank"] = 1.0 / (1.0 + rank)
        columns[f"{name}_behind_best"] = best[table.request] - values
        columns[f"{name}_ahead_of_next"] = np.where(rank == 0, values - second[table.request], 0.0)
    columns |= kept.meaning.features(table, context.vectors, context.hidden_strings)
    for name in ("middle", "definition"):
        one = np.asarray(columns[name], np.float32)
        columns[f"{name}_behind_best"] = rank_by(table, one).best[table.request] - one
    edit, in_order, partial = ratios(asked.texts, table.query, found.texts, place)
    columns |= {"edit_ratio": edit, "sorted_ratio": in_order, "partial_ratio": partial}
    overlap = asked.words.overlap(table.query, found.words, place)
    columns |= {
        "words_of_mention_in_term": overlap.of_left,
        "words_of_term_in_mention": overlap.of_right,
        "same_words": overlap.same,
        "first_word": overlap.first,
        "last_word": overlap.last,
    }
    lengths = np.array([len(text) for text in asked.texts], np.float32)[table.query]
    other = np.array([len(text) for text in found.texts], np.float32)[place]
    columns["length_ratio"] = np.minimum(lengths, other) / np.maximum(np.maximum(lengths, other), 1)
    columns["equal"] = (table.routes & EXACT) > 0
    columns["found_by_both"] = (table.routes & (LETTERS | VECTORS)) == (LETTERS | VECTORS)
    columns["strings_found"] = np.log1p(table.strings)
    for name, flags in kept._terms.items():
        columns[name] = flags[table.term]
    columns["homonyms"] = np.log1p(table.homonyms - kept.segment.mapped_homonyms(table.string, table.concept))
    given = kept.languages.given(context.language)[table.request]
    same = kept.languages.of_term[table.term] == given
    columns["language_given_and_same"], columns["language_given_and_other"] = (given >= 0) & same, (given >= 0) & ~same
    compared = kept.profiler.compare(asked.profiles, table.query, found.profiles, place)
    columns |= {
        "contradictions": np.bitwise_count(compared.contradicts),
        "vetoes": (compared.contradicts & kept.profiler.veto_mask) > 0,
        "only_in_mention": np.bitwise_count(compared.mention_only),
        "only_in_term": np.bitwise_count(compared.term_only),
        "agreements": np.bitwise_count(compared.agrees),
    }
    columns |= _of_readings(table, context.readings)
    columns["mention_is_short_capitals"] = context.short[table.request]
    return columns


def _of_mentions(
    kept: Featurizer,
    asked: Strings,
    own: NDArray[np.int64],
    table: CandidateTable,
    columns: Columns,
    ranked: dict[str, Ranked],
) -> Columns:
    """Return the features `MENTION_NAMES`, (n,) each; `columns` are the candidates'."""
    n = len(own)
    cosine, letters = ranked["cosine"], ranked["letters"]
    top = tops(table, table.best_cosine + table.best_letters)
    has = np.diff(table.offsets) > 0
    at_top = {name: np.zeros(n, np.float32) for name in _AT_TOP}
    if len(table.request):
        at_top = {name: np.where(has, columns[name].astype(np.float32)[top], np.float32(0)) for name in _AT_TOP}
    close = np.bincount(table.request, cosine.best[table.request] - table.best_cosine < CLOSE, minlength=n)
    same_top = np.bincount(table.request, (cosine.rank == 0) & (letters.rank == 0), minlength=n) > 0
    said = [asked.texts[row] for row in own.tolist()]
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
        "characters": np.log1p(np.array([len(text) for text in asked.texts], np.float32))[own],
        "words": np.log1p(asked.words.counts)[own],
        "known_words": asked.words.known[own],
        "candidates_close": np.log1p(close),
        "expanded_mention": np.bincount(table.request, columns["expanded"], minlength=n) > 0,
        "known_expansion": greatest(table, np.where(columns["equal"], columns["expansion_share"], 0.0)),
        "named_elsewhere": out_of_scope_names.hits(said, kept.segment.elsewhere),
        "words_elsewhere": out_of_scope_names.shares(said, kept.segment.elsewhere),
    }


def _denies(kept: Featurizer, asked: Strings, own: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which mentions, (n,), have a word of denial."""
    bit = np.uint16(1 << kept.profiler.rules.index("negation"))
    denies: NDArray[np.bool_] = (asked.profiles.speaks[own] & bit) > 0
    return denies


def _of_readings(table: CandidateTable, readings: Mapping[tuple[int, int], Reading]) -> dict[str, Float32]:
    """Return, of each candidate, by which reading of the mention it was found, (c,) each."""
    names = {ABBREVIATION: "expanded", SPELLING: "respelt", SHORTENED: "shortened", UNSPECIFIED: "unspecified"}
    every = (*names.values(), "expansion_decided", "expansion_share")
    found = {name: np.zeros(len(table.request), np.float32) for name in every}
    for row in np.flatnonzero(table.expansion > 0).tolist():
        reading = readings[int(table.request[row]), int(table.expansion[row])]
        found[names[reading.source]][row] = True
        found["expansion_decided"][row] = reading.decided
        found["expansion_share"][row] = reading.share if reading.source == ABBREVIATION else 0.0
    return found
