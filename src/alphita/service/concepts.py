"""Concepts by id, and search as you type: what is equal, what begins so, then what is alike by letters."""

from __future__ import annotations

import functools
import json
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from alphita.answer.records import DECIMALS
from alphita.errors import InputError
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.review.store import ReviewStore
from alphita.terminology import prefixes
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many


class Named(BaseModel):
    """A concept by its id and name."""

    id: str = Field(description="CURIE", examples=["HP:0012638"])
    name: str = Field(examples=["Abnormal nervous system physiology"])


class Synonym(BaseModel):
    """A term of a concept."""

    string: str = Field(examples=["Epileptic seizure"])
    language: str | None = Field(examples=["en"])
    scope: str | None = Field(description="exact, broad, narrow or related", examples=["exact"])


class Concept(BaseModel):
    """A concept."""

    id: str = Field(description="CURIE", examples=["HP:0001250"])
    name: str = Field(description="the preferred term", examples=["Seizure"])
    definition: str | None
    synonyms: list[Synonym] = Field(description="all terms, the preferred one first")
    parents: list[Named]
    types: list[str] = Field(description="semantic types")
    retired: bool = Field(description="no longer to be used")
    replaced_by: list[str] = Field(description="what to use instead of it, if it is retired")


def find_concept(identifier: str, index: Index, terminology: Terminology | None) -> Concept | None:
    """Return the concept that an id or alias names, or None."""
    if terminology is not None:
        try:
            row = terminology.resolve(identifier)
        except InputError:
            return None
        return _of_terminology(row, terminology)
    row = int(index.concept_rows([identifier])[0])
    return None if row < 0 else _of_index(prefixes.normalize(identifier), row, index)


def _of_terminology(row: int, terminology: Terminology) -> Concept:
    found = terminology.concept(row)
    parents = [(parent, terminology.concept_names[terminology.resolve(parent)].as_py()) for parent in found.parents]
    return Concept(
        id=found.id,
        name=found.name,
        definition=found.definitions[0].text if found.definitions else None,
        synonyms=[Synonym(string=term.string, language=term.language, scope=term.scope) for term in found.terms],
        parents=[Named(id=parent, name=name) for parent, name in parents],
        types=found.semantic_types,
        retired=found.retired,
        replaced_by=found.replaced_by,
    )


def _of_index(asked: str, row: int, index: Index) -> Concept:
    segment = index.segment
    concept = index.concept(row)
    terms = segment.terms.take(np.flatnonzero((segment.term_concept == row) & ~segment.borrowed))
    former = terms.column("retired_concept") if "retired_concept" in terms.column_names else None
    retired = asked != concept.id and former is not None and bool(pc.any(pc.equal(former, asked)).as_py())
    if former is not None:
        terms = terms.filter(pc.equal(former, asked) if retired else pc.is_null(former))
    order = sorted(terms.to_pylist(), key=lambda term: (not term.get("preferred"), term["string"]))
    synonyms = [Synonym(string=one["string"], language=one.get("language"), scope=one.get("scope")) for one in order]
    parents = [] if retired else [index.concept(parent) for parent in segment.parents_of(row).tolist()]
    return Concept(
        id=asked if retired else concept.id,
        name=synonyms[0].string if retired else concept.name,
        definition=None if retired else concept.definition,
        synonyms=synonyms,
        parents=[Named(id=parent.id, name=parent.name) for parent in parents],
        types=[] if retired else list(concept.semantic_types),
        retired=retired,
        replaced_by=[concept.id] if retired else [],
    )


# Strings looked at for one concept wanted: most strings name one concept, most concepts have few.
STRINGS_A_CONCEPT = 4
ALL = Concepts()
# Searches of projects with concepts of their own that are kept.
KEPT = 8


class FoundConcept(BaseModel):
    """A concept found by a search."""

    id: str = Field(examples=["HP:0001250"])
    name: str = Field(examples=["Seizure"])
    matched_term: str = Field(description="the term that was found", examples=["Epileptic seizure"])
    similarity: float | None = Field(description="0 to 1, by letters", examples=[0.71])


class Finder:
    """Searches one index."""

    def __init__(self, index: Index, concepts: Concepts = ALL) -> None:
        self.allowed = concepts.allowed(index)
        self.index, self._terms = self.allowed.searched()

    def clean(self, typed: str) -> str:
        """Return what was typed, cleaned as the index's strings are."""
        return clean_many([typed], self.index.rules)[0]

    def needs_vector(self, typed: str) -> bool:
        """Tell whether the vector of what was typed should be given to `find`."""
        return self.index.ngrams is None and bool(self.clean(typed))

    def find(self, typed: str, top: int, vector: NDArray[np.float32] | None = None) -> list[FoundConcept]:
        """Return concepts, best first; `vector`, (dim,), is that of `typed`, for an index without letters."""
        found: dict[int, FoundConcept] = {}
        row = self.allowed.row(typed) if ":" in typed else -1
        if row >= 0:
            name = self.index.concept(row).name
            found[row] = FoundConcept(id=self.allowed.id(row), name=name, matched_term=name, similarity=1.0)
        cleaned = self.clean(typed)
        if cleaned:
            for string, similarity in self._strings(cleaned, STRINGS_A_CONCEPT * top, vector):
                if len(found) >= top:
                    break
                self._add(found, string, similarity)
        return list(found.values())[:top]

    def _add(self, found: dict[int, FoundConcept], string: int, similarity: float | None) -> None:
        """Add the concepts that a string names, the one it stands for best first."""
        segment = self.index.segment
        for term in range(int(segment.offsets[string]), int(segment.offsets[string + 1])):
            concept = int(segment.term_concept[term])
            if concept not in found and (self._terms is None or self._terms[term]):
                found[concept] = FoundConcept(
                    id=self.allowed.id(concept),
                    name=segment.concepts.column("name")[concept].as_py(),
                    matched_term=segment.terms.column("string")[term].as_py(),
                    similarity=None if similarity is None else round(similarity, DECIMALS),
                )

    def _strings(
        self, cleaned: str, most: int, vector: NDArray[np.float32] | None
    ) -> Iterator[tuple[int, float | None]]:
        """Give rows of the index's strings, best first, with their similarities; perhaps one twice."""
        index = self.index
        exact = int(index.rows([cleaned])[0])
        if exact >= 0:
            yield exact, 1.0
        rows = self._beginning(cleaned, most)
        if index.ngrams is None:
            yield from ((row, None) for row in rows.tolist())
            if vector is not None:
                similarity, near = index.search(vector[None], most)
                yield from zip(near[0].tolist(), similarity[0].tolist(), strict=True)
            return
        grams = index.ngrams.vectorize([cleaned])
        alike = index.ngrams.pairwise(grams, np.zeros(len(rows), np.int64), rows) if len(rows) else np.zeros(0)
        yield from zip(rows.tolist(), alike.tolist(), strict=True)
        similarity, near = index.ngrams.search(grams, min(most, len(index)))
        yield from (
            (row, value) for row, value in zip(near[0].tolist(), similarity[0].tolist(), strict=True) if row >= 0
        )

    def _beginning(self, cleaned: str, most: int) -> NDArray[np.int64]:
        """Return the rows of the shortest strings that begin so, shortest first."""
        start = cleaned.encode("utf-8", "surrogatepass")
        strings = self.index.strings

        def beginning(row: int) -> bytes:
            return strings[row].encode("utf-8", "surrogatepass")[: len(start)]

        every = range(len(strings))
        first = bisect_left(every, start, key=beginning)
        # No UTF-8 text has the byte 0xff, so this comes right after all that begin so.
        last = bisect_left(every, start + b"\xff", lo=first, key=beginning)
        rows = np.arange(first, last)
        if self._terms is not None:
            rows = rows[self.index.allowed[rows]]
        lengths = self._lengths[rows]
        if len(rows) > most:
            nearest = np.argpartition(lengths, most)[:most]
            rows, lengths = rows[nearest], lengths[nearest]
        return rows[np.lexsort((rows, lengths))]

    @functools.cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """(n_strings,) bytes of each string."""
        _, offsets, _ = self.index.strings.array.buffers()
        start = self.index.strings.array.offset
        ends = np.frombuffer(offsets, np.int64)[start : start + len(self.index) + 1]
        return np.diff(ends)


class Finders:
    """Searches one index, for a project of a review what may be answered there."""

    def __init__(self, index: Index, store: ReviewStore | None = None) -> None:
        self._store, self._whole = store, Finder(index)
        self._kept = functools.lru_cache(KEPT)(lambda told: Finder(index, Concepts.from_json(json.loads(told))))

    def of(self, project: str | None) -> Finder:
        """Return what searches for a project; None: the whole index."""
        filters = self._store.project(project).filters if self._store is not None and project is not None else {}
        return self._kept(json.dumps(filters, sort_keys=True)) if filters else self._whole
