"""From mentions to candidates with features, a batch at a time, for answering and for fitting."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.answer.assigned import Assignment, sides_of
from alphita.answer.candidates import MAX_CONCEPTS, CandidateTable, collect, requests_of
from alphita.answer.features import Asked, Cosines, Definitions, Features, Featurizer
from alphita.index.encoding import Encoder
from alphita.index.lookup import WHOLE, How, View
from alphita.index.store import Index
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.laboratory_tests import NO_TEST
from alphita.mention.reader import Mention, MentionReader
from alphita.mention.spelling import ORDERED, Reading

# What a candidate's score loses by each axis in conflict, by each more usual test of the component, and as no test.
CONFLICT, LESS_USUAL, OTHER_KIND = 5.0, 5.0, 20.0


class Questions(NamedTuple):
    """Distinct questions.

    Attributes:
        queries: the strings to look up.
        requests: for each question, the numbers of its queries, its own string first.
        mentions: for each question, its mention, with the readings that are its other queries.
    """

    queries: list[str]
    requests: list[tuple[int, ...]]
    mentions: list[Mention]

    def take(self, rows: Sequence[int]) -> Questions:
        """Return some of the questions, with the same queries."""
        chosen: list[Any] = [[part[row] for row in rows] for part in self[1:]]
        return Questions(self.queries, *chosen)

    def reading(self, request: int, number: int) -> Reading | None:
        """Return the reading of a question for one of its queries; None: its own text."""
        mention = self.mentions[request]
        return mention.readings[number - 1] if number else mention.order

    def compact(self, shared: bool) -> Questions:
        """Return the questions with only the queries that they use, shared or separate."""
        if shared:
            used = sorted({query for request in self.requests for query in request})
            numbers = {query: number for number, query in enumerate(used)}
            requests = [tuple(numbers[query] for query in request) for request in self.requests]
        else:
            used = [query for request in self.requests for query in request]
            following = iter(range(len(used)))
            requests = [tuple(next(following) for _ in request) for request in self.requests]
        return self._replace(queries=[self.queries[query] for query in used], requests=requests)


class Scored(NamedTuple):
    """The candidates of some questions, with their features if requested.

    Attributes:
        exhausted: whether a deeper search finds nothing more.
        routes: the routes that were searched.
        penalty: (c,) what the score of each candidate loses, as it is a test less usual than another, or in conflict.
        conflicts: for a row of the table, the axes of a laboratory test that disagree with the mention, in words.
    """

    queries: list[str]
    table: CandidateTable
    features: Features | None
    exhausted: bool
    routes: int
    penalty: NDArray[np.float64]
    conflicts: Mapping[int, tuple[str, ...]]


class Pipeline:
    """Finds the candidates of mentions in one index, with their features."""

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
        assignment: Assignment | None = None,
    ) -> None:
        """Prepare for an index.

        Args:
            allowed: (n_terms,) the terms that may speak for a concept.
            assignment: which concept is the answer where each is named.
        """
        self.assignment = assignment or Assignment(index.segment)
        self.index, self.encoder, self.allowed = index, encoder, allowed
        self.definitions, self.cosines = definitions, cosines
        self.reader = MentionReader(index, abbreviations, respell=respell)
        # Several threads may search at once; caches are filled only once, at the first question.
        self._making = threading.Lock()

    def narrowed(self, index: Index, allowed: NDArray[np.bool_] | None, assignment: Assignment) -> Pipeline:
        """Return a pipeline that finds less: in an index that is `Restricted`, by the terms of `allowed`."""
        with self._making:
            part = copy.copy(self)
            # What it computes depends on the whole index, and takes much memory.
            part._featurizer = self._featurizer
        part.index, part.allowed, part._making, part.assignment = index, allowed, threading.Lock(), assignment
        part.reader = self.reader.narrowed(index)
        return part

    def ask(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
        view: View = WHOLE,
    ) -> tuple[Questions, list[int]]:
        """Read mentions into distinct questions; return these, and the question of each mention (-1: it is empty)."""
        return questions_of(self.read(mentions, contexts, languages, view))

    def read(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
        view: View = WHOLE,
    ) -> list[Mention]:
        """Read mentions; an order that names one product or procedure is read as its name, if this can be an answer."""
        return [self._as_ordered(mention) for mention in self.reader.read(mentions, contexts, languages, view)]

    def _as_ordered(self, mention: Mention) -> Mention:
        first = mention.readings[0] if mention.readings else None
        if first is None or not first.decided or first.origin != ORDERED:
            return mention
        segment, row = self.index.segment, int(self.index.rows([first.string])[0])
        terms = slice(segment.offsets[row], segment.offsets[row + 1])
        if row < 0 or (self.allowed is not None and not self.allowed[terms].any()):
            return mention
        return replace(mention, string=first.string, readings=(), order=first)

    def candidates(
        self,
        questions: Questions,
        how: How | None = None,
        *,
        most: int = MAX_CONCEPTS,
        featured: bool = True,
        view: View = WHOLE,
    ) -> Scored:
        """Find the candidates of each question, at most `most`, with their features if requested.

        Args:
            how: depth and routes of the search; for described matches see `featured`.
            view: the part of the index that is visible for each question.
        """
        # If strings are hidden, different ones may be hidden for each question, so questions share no queries.
        questions = questions.compact(shared=view.strings is None)
        requests = requests_of(questions.requests)
        own = requests.query[requests.offsets[:-1]]
        owner = np.repeat(np.arange(len(own)), np.diff(requests.offsets)).tolist()
        how = (how or How())._replace(described=own.tolist() if featured else ())
        found = view.lookup(self.index, self.encoder, questions.queries, owner, how)
        table = collect(
            self.index.segment,
            found,
            requests,
            hidden_concepts=view.concepts,
            allowed=self.allowed,
            assigned=self.assigned,
            sides=None if self.assigned is None else sides_of(questions.mentions),
            most=most,
        )
        penalty, conflicts = self._tested(questions, table)
        features = None
        if featured:
            with self._making:
                featurizer = self._featurizer
            features = featurizer(Asked(questions.queries, own, questions.mentions, found, view, owner), table)
            features.vetoed[[*conflicts]] = True
        return Scored(questions.queries, table, features, found.exhausted, found.routes, penalty, conflicts)

    def _tested(
        self, questions: Questions, table: CandidateTable
    ) -> tuple[NDArray[np.float64], dict[int, tuple[str, ...]]]:
        """Return `Scored.penalty` and `Scored.conflicts`, by what mentions say about laboratory tests."""
        lost: NDArray[np.float64] = np.zeros(len(table.request))
        conflicts: dict[int, tuple[str, ...]] = {}
        if all(mention.measurement is None for mention in questions.mentions):
            return lost, conflicts
        for row, request in enumerate(table.request.tolist()):
            if (said := questions.mentions[request].measurement) is None:
                continue
            axes = self.reader.tests.axes(concept := int(table.concept[row]))
            found = said.conflicts(axes) if axes is not None else (NO_TEST,) if said.is_given else ()
            is_other = axes is None and (said.is_given or (bool(said.usual) and self.reader.tests.is_part(concept)))
            lost[row] = OTHER_KIND if is_other else CONFLICT * len(found) + LESS_USUAL * said.place(concept)
            if found:
                conflicts[row] = found
        return lost, conflicts

    @property
    def assigned(self) -> NDArray[np.int64] | None:
        """See `Assignment.concepts`."""
        return self.assignment.concepts

    @functools.cached_property
    def _featurizer(self) -> Featurizer:
        return Featurizer(
            self.index, self.definitions, self.cosines, None if self.assigned is None else self.assigned[0]
        )


def questions_of(mentions: Iterable[Mention]) -> tuple[Questions, list[int]]:
    """Return the distinct questions of some mentions, and the question of each (-1: it is empty)."""
    queries: dict[str, int] = {}
    known: dict[tuple[object, ...], int] = {}
    questions = Questions([], [], [])
    places = []
    for mention in mentions:
        if not mention.string:
            places.append(-1)
            continue
        key = (mention.string, mention.readings, mention.language, mention.is_short, mention.measurement, mention.order)
        number = known.setdefault(key, len(known))
        if number == len(questions.requests):
            request = {queries.setdefault(mention.string, len(queries)): None}
            readings = []
            for reading in mention.readings:
                query = queries.setdefault(reading.string, len(queries))
                if query not in request:
                    request[query] = None
                    readings.append(reading)
            questions.requests.append(tuple(request))
            is_whole = len(readings) == len(mention.readings)
            questions.mentions.append(mention if is_whole else replace(mention, readings=tuple(readings)))
        places.append(number)
    return questions._replace(queries=list(queries)), places
