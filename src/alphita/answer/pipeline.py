"""From mentions to scored candidates, a batch at a time: what normalising and fitting have in common."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import DEPTH, EVERY_ROUTE, LETTERS, VECTORS, CandidatePairs, gather
from alphita.answer.features import SHORT_CAPITALS, Context, Features, Featurizer
from alphita.answer.hiding import Hidden, Hiding
from alphita.answer.meaning import Cosines, Definitions
from alphita.answer.table import MAX_CONCEPTS, CandidateTable, Requests, collect, requests_of
from alphita.index.encoding import Encoder
from alphita.index.store import Index
from alphita.mention.abbreviations.expanding import Abbreviations, Expansion
from alphita.mention.assertion import NOTHING, is_no_finding, without_tag
from alphita.mention.laboratory import Laboratory
from alphita.mention.name_style import ABBREVIATION, UNILATERAL, Habits, Reading, written_otherwise
from alphita.mention.spelling import Speller, shortened
from alphita.mention.words import common_words, english_words
from alphita.terminology.text import clean_many

_CAPITALS = re.compile(r"[A-Z][A-Z0-9&/-]*[A-Z0-9]")
# Strings that are looked up beyond the depth, at most, to stand in for those of a hidden concept.
MAX_SPARE = 64


class Questions(NamedTuple):
    """Distinct questions.

    Attributes:
        requests: for each question the numbers of its queries, its own string first.
        readings: for each question its other readings, in the order of its further queries.
        languages: for each question its mention's language, or None.
        short: for each question whether its mention is a few capitals.
        doubts: for each question why no answer to it is accepted, as a value tells; "" for nothing.
    """

    queries: list[str]
    requests: list[tuple[int, ...]]
    readings: list[tuple[Reading, ...]]
    languages: list[str | None]
    short: list[bool]
    doubts: list[str]

    def take(self, rows: Sequence[int]) -> Questions:
        """Return some of the questions; the queries stay."""
        chosen: list[Any] = [[part[row] for row in rows] for part in self[1:]]
        return Questions(self.queries, *chosen)


class Scored(NamedTuple):
    """The candidates of some questions.

    Attributes:
        features: theirs; None if they were not asked for.
    """

    queries: list[str]
    table: CandidateTable
    features: Features | None
    exhausted: bool
    routes: int


class Pipeline:
    """Finds the candidates of mentions in one index, and what is to be known of them."""

    def __init__(
        self,
        index: Index,
        encoder: Callable[[], Encoder],
        abbreviations: Abbreviations | None = None,
        *,
        respell: bool = False,
        definitions: Definitions | None = None,
        cosines: Cosines | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        """Look in an index.

        Args:
            allowed: (n_terms,) the terms that may speak for a concept.
        """
        self.index, self.encoder, self.abbreviations, self.respell = index, encoder, abbreviations, respell
        self.definitions, self.cosines, self.allowed = definitions, cosines, allowed
        self._featurizer: Featurizer | None = None
        self._speller: Speller | None = None
        self._laboratory: Laboratory | None = None
        # Several threads may ask at once; what is made at the first question is made once.
        self._making = threading.Lock()

    def ask(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
        hidden: Hidden | None = None,
    ) -> tuple[Questions, list[int]]:
        """Make mentions to distinct questions."""
        cleaned = self._untagged(clean_many(list(mentions), self.index.rules))
        read = self._read(mentions, cleaned, contexts, languages, hidden)
        doubts = self._read_laboratory(cleaned, read, hidden) | self._without_finding(cleaned)
        queries: dict[str, int] = {}
        known: dict[tuple[object, ...], int] = {}
        asked = Questions([], [], [], [], [], [])
        places = []
        for place, (string, readings) in enumerate(zip(cleaned, read, strict=True)):
            if not string:
                places.append(-1)
                continue
            language = languages[place] if languages is not None else None
            short = len(mentions[place]) <= SHORT_CAPITALS and _CAPITALS.fullmatch(mentions[place]) is not None
            key: tuple[object, ...] = (string, readings, language, short)
            number = known.get(key)
            if number is None:
                number = known[key] = len(asked.requests)
                further, used = [queries.setdefault(string, len(queries))], []
                for one in readings:
                    if (query := queries.setdefault(one.string, len(queries))) not in further:
                        further.append(query)
                        used.append(one)
                asked.requests.append(tuple(further))
                asked.readings.append(tuple(used))
                asked.languages.append(language)
                asked.short.append(short)
                asked.doubts.append(doubts.get(place, ""))
            places.append(number)
        return asked._replace(queries=list(queries)), places

    def _untagged(self, cleaned: Sequence[str]) -> list[str]:
        """Return cleaned strings without the tag of a kind, "seizure (disorder)", but for names that have it."""
        untagged = [without_tag(string) for string in cleaned]
        tagged = [place for place, string in enumerate(untagged) if string != cleaned[place]]
        if tagged:
            rows = self.index.rows([cleaned[place] for place in tagged])
            for place, row in zip(tagged, rows.tolist(), strict=True):
                if row >= 0:
                    untagged[place] = cleaned[place]
        return untagged

    def _read(
        self,
        mentions: Sequence[str],
        cleaned: Sequence[str],
        contexts: Sequence[str | None] | None,
        languages: Sequence[str | None] | None,
        hidden: Hidden | None,
    ) -> list[tuple[Reading, ...]]:
        """Return the other readings of each mention: expansions of abbreviations, then words put right."""
        read: list[tuple[Reading, ...]] = [()] * len(cleaned)
        if self.abbreviations is not None:
            for place, expansions in enumerate(self._expand(mentions, contexts, languages, hidden)):
                if expansions:
                    strings = clean_many([one.string for one in expansions], self.index.rules)
                    read[place] = tuple(
                        Reading(shortened(string) or string, ABBREVIATION, one.decided, one.share, one.source)
                        for string, one in zip(strings, expansions, strict=True)
                        if string
                    )
        if self.respell:
            with self._making:
                if self._speller is None:
                    self._speller = Speller(
                        self.index.strings.array, common_words(self.index.model_path), english_words()
                    )
            without = self._hiding.words(hidden) if hidden is not None else None
            for place, readings in enumerate(self._speller.readings(cleaned, without)):
                if readings:
                    read[place] += readings
            for place, reading in self._written_otherwise(cleaned, hidden, self._speller.habits):
                # With "unilateral ptosis" in the index, "left ptosis" is no ptosis of any side.
                other = reading.string.removeprefix(UNILATERAL)
                read[place] = (*(one for one in read[place] if one.string != other or one == reading), reading)
        return read

    def _written_otherwise(
        self, cleaned: Sequence[str], hidden: Hidden | None, habits: Habits
    ) -> list[tuple[int, Reading]]:
        """Return the readings of mentions that are strings of the index, but for how they are written, with places."""
        made = [
            (place, Reading(other, source))
            for place, string in enumerate(cleaned)
            for whole in dict.fromkeys((string, shortened(string)))
            for other, source in written_otherwise(whole, habits)
        ]
        return self._indexed(made, hidden)

    def _read_laboratory(
        self, cleaned: Sequence[str], read: list[tuple[Reading, ...]], hidden: Hidden | None
    ) -> dict[int, str]:
        """Put the names of what laboratory wordings mean in the place of their other readings; return their doubts."""
        if not self.respell:
            return {}
        with self._making:
            if self._laboratory is None:
                segment = self.index.segment
                borrowed = np.logical_and.reduceat(segment.borrowed, np.asarray(segment.offsets[:-1]))
                self._laboratory = Laboratory(self.index.rows, borrowed)
        said = {
            place: non_content_words
            for place, string in enumerate(cleaned)
            if (non_content_words := self._laboratory(string))
        }
        read_so = self._indexed(
            [(place, one) for place, non_content_words in said.items() for one in non_content_words.readings], hidden
        )
        for place in said:
            read[place] = tuple(reading for other, reading in read_so if other == place)
        return {place: non_content_words.doubt for place, non_content_words in said.items() if non_content_words.doubt}

    def _without_finding(self, cleaned: Sequence[str]) -> dict[int, str]:
        """Return the doubts of mentions that a list has where it has no finding, "n/a"; a term may be called so."""
        empty = [place for place, string in enumerate(cleaned) if self.respell and is_no_finding(string)]
        rows = self.index.rows([cleaned[place] for place in empty])
        return {place: NOTHING for place, row in zip(empty, rows, strict=True) if row < 0}

    def _indexed(self, made: list[tuple[int, Reading]], hidden: Hidden | None) -> list[tuple[int, Reading]]:
        """Return those readings of mentions, with their places, that are strings of the index and not hidden."""
        rows = self.index.rows([one.string for _, one in made])
        found = np.flatnonzero(rows >= 0)
        if hidden is not None and len(found):
            segment, places = self.index.segment, np.array([made[row][0] for row in found])
            concept = segment.term_concept[segment.offsets[rows[found]]]
            is_there = (rows[found] != hidden.strings[places]) & (concept != hidden.concepts[places])
            found = found[is_there]
        return [made[row] for row in found.tolist()]

    def _expand(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None,
        languages: Sequence[str | None] | None,
        hidden: Hidden | None,
    ) -> list[list[Expansion]]:
        assert self.abbreviations is not None
        expanded = self.abbreviations.expand_many(mentions, contexts, languages)
        if hidden is not None:
            # Few strings teach one, so few mentions are looked at again.
            for place, known in enumerate(self._hiding.abbreviations(self.abbreviations, hidden)):
                if known is not self.abbreviations:
                    context = contexts[place] if contexts is not None else None
                    language = languages[place] if languages is not None else None
                    expanded[place] = known.expand(mentions[place], context, language)
        return expanded

    @functools.cached_property
    def _hiding(self) -> Hiding:
        return Hiding(self.index)

    def candidates(
        self,
        asked: Questions,
        *,
        depth: int = DEPTH,
        routes: int = EVERY_ROUTE,
        most: int = MAX_CONCEPTS,
        featured: bool = True,
        exact_is_enough: bool = False,
        hidden: Hidden | None = None,
    ) -> Scored:
        """Find the candidates of each question, with their features if wanted; see `gather` and `collect`."""
        if hidden is not None:
            # Questions share no query: from each another string may be hidden.
            asked = _unshared(asked)
        used = sorted({query for queries in asked.requests for query in queries})
        number = {query: place for place, query in enumerate(used)}
        queries = [asked.queries[query] for query in used]
        requests = requests_of([[number[query] for query in one] for one in asked.requests])
        spare, without = 0, None
        if hidden is not None:
            spare, strings = _spare(self.index, hidden.concepts), self._hiding.strings(hidden)
            without = [strings[question] for question in _owner(requests).tolist()]
        pairs = gather(
            self.index,
            self.encoder,
            queries,
            depth=depth + spare,
            routes=routes,
            exact_is_enough=exact_is_enough,
            without=without,
        )
        if hidden is not None:
            pairs = _without_hidden(self.index, pairs, _owner(requests), hidden, depth)
        hidden_strings, hidden_concepts = hidden if hidden is not None else (None, None)
        table = collect(
            self.index.segment,
            pairs,
            requests,
            hidden_strings=hidden_strings,
            hidden_concepts=hidden_concepts,
            allowed=self.allowed,
            most=most,
        )
        features = None
        if featured:
            features = self._features(queries, table, self._context(asked, requests, pairs.vectors, hidden))
        return Scored(queries, table, features, pairs.exhausted, pairs.asked)

    def _context(
        self, asked: Questions, requests: Requests, vectors: NDArray[np.float32] | None, hidden: Hidden | None
    ) -> Context:
        readings = {
            (request, place): reading
            for request, some in enumerate(asked.readings)
            for place, reading in enumerate(some, 1)
        }
        own = requests.query[requests.offsets[:-1]]
        context = Context(asked.languages, readings, np.array(asked.short, bool), vectors, own, asked.doubts)
        if hidden is None:
            return context
        words = self._hiding.words(hidden)
        return context._replace(
            hidden_strings=hidden.strings, without=[words[question] for question in _owner(requests).tolist()]
        )

    def _features(self, queries: Sequence[str], table: CandidateTable, context: Context) -> Features:
        with self._making:
            if self._featurizer is None:
                self._featurizer = Featurizer(self.index, self.definitions, self.cosines)
        return self._featurizer(queries, table, context)


def _owner(requests: Requests) -> NDArray[np.int64]:
    """Return the request of each query, (q,), where none share one and they stand in the requests' order."""
    return np.repeat(np.arange(len(requests.offsets) - 1), np.diff(requests.offsets))


def _unshared(asked: Questions) -> Questions:
    """Return the questions with queries of their own."""
    numbers = iter(range(sum(map(len, asked.requests))))
    queries = [asked.queries[query] for one in asked.requests for query in one]
    return asked._replace(queries=queries, requests=[tuple(next(numbers) for _ in one) for one in asked.requests])


def _spare(index: Index, hidden_concepts: NDArray[np.int64]) -> int:
    """Return how many strings to look up beyond the depth: one for a hidden string, a hidden concept's terms."""
    if not (hidden_concepts >= 0).any():
        return 1
    terms = np.bincount(index.segment.term_concept, minlength=len(index.segment.concepts))
    return int(min(MAX_SPARE, 1 + terms[hidden_concepts[hidden_concepts >= 0]].max()))


def _without_hidden(
    index: Index, pairs: CandidatePairs, owner: NDArray[np.int64], hidden: Hidden, depth: int
) -> CandidatePairs:
    """Return the pairs that there would be without the hidden strings, `depth` at most of each query and route.

    Args:
        owner: (q,) the question of each query.
    """
    question = owner[pairs.query]
    kept = pairs.string != hidden.strings[question]
    if (hidden.concepts >= 0).any():
        segment = index.segment
        starts = np.asarray(segment.offsets[:-1])
        least, most = (bound.reduceat(segment.term_concept, starts) for bound in (np.minimum, np.maximum))
        concept = hidden.concepts[question]
        kept &= (least[pairs.string] != concept) | (most[pairs.string] != concept)
    query, string = pairs.query[kept], pairs.string[kept]
    cosine, letters = pairs.cosine[kept], pairs.letters[kept]
    routes = pairs.routes[kept]
    for route, similarity in ((LETTERS, letters), (VECTORS, cosine)):
        rows = np.flatnonzero(routes & route)
        rows = rows[np.lexsort((string[rows], -similarity[rows], query[rows]))]
        place = np.arange(len(rows)) - np.searchsorted(query[rows], query[rows])
        routes[rows[place >= depth]] &= ~np.uint8(route)
    found = np.flatnonzero(routes)
    return pairs._replace(
        query=query[found], string=string[found], routes=routes[found], cosine=cosine[found], letters=letters[found]
    )
