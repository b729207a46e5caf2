"""Concepts by id, and search as you type: ids and codes, what is equal, what begins so, what is alike by letters."""

from __future__ import annotations

import functools
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Query
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from alphita.answer.omop import OmopConcepts
from alphita.answer.records import DECIMALS
from alphita.errors import InputError
from alphita.index.segment import Segment
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.record import OmopConcept
from alphita.review.store import ReviewStore
from alphita.terminology import prefixes
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many


class Named(BaseModel):
    """A concept by its id and name."""

    id: str = Field(description="CURIE", examples=["HP:0012638"])
    name: str = Field(examples=["Abnormal nervous system physiology"])
    omop: OmopConcept | None = Field(None, description="its row in OMOP's table CONCEPT; null: it has none")


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
    children: list[Named] = Field([], description="the first 50 by name")
    n_children: int = Field(0, description="how many there are")
    maps_to: list[Named] = Field([], description="OMOP: the standard concepts of a non-standard one")
    types: list[str] = Field(description="semantic types")
    retired: bool = Field(description="no longer to be used")
    replaced_by: list[str] = Field(description="what to use instead of it, if it is retired")
    omop: OmopConcept | None = Field(None, description="its row in OMOP's table CONCEPT; null: it has none")


MAX_CHILDREN = 50


def named(index: Index, rows: Sequence[int]) -> list[Named]:
    """Return the concepts at some rows of an index by name."""
    table = index.segment.concepts.select(["id", "name"]).take(pa.array(rows, pa.int64()))
    ids, names = (column.to_pylist() for column in table.columns)
    every = zip(ids, names, OmopConcepts(index).of_rows(rows), strict=True)
    return [Named(id=id, name=name, omop=omop) for id, name, omop in every]


def find_concept(identifier: str, index: Index, terminology: Terminology | None) -> Concept | None:
    """Return the concept that an id or alias names, or None."""
    row = int(index.concept_rows([identifier])[0])
    if terminology is not None:
        try:
            found = _of_terminology(terminology.resolve(identifier), terminology)
        except InputError:
            return None
    elif row < 0:
        return None
    else:
        found = _of_index(prefixes.normalize(identifier), row, index)
    if row < 0 or found.retired:
        return found
    segment = index.segment
    children = sorted(named(index, segment.children_of(row).tolist()), key=lambda child: child.name)
    around = {"maps_to": named(index, segment.targets_of(row)), "omop": OmopConcepts(index).of_rows([row])[0]}
    return found.model_copy(update={"children": children[:MAX_CHILDREN], "n_children": len(children), **around})


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
    parents = [] if retired else named(index, segment.parents_of(row).tolist())
    return Concept(
        id=asked if retired else concept.id,
        name=synonyms[0].string if retired else concept.name,
        definition=None if retired else concept.definition,
        synonyms=synonyms,
        parents=parents,
        types=[] if retired else list(concept.semantic_types),
        retired=retired,
        replaced_by=[concept.id] if retired else [],
    )


# Strings looked at for one concept wanted: most strings name one concept, most concepts have few.
STRINGS_A_CONCEPT = 4
# Similar strings looked at, where filters leave few concepts.
MAX_STRINGS = 2_000
ALL = Concepts()
# Searches of projects with concepts of their own, and filters of searches, that are kept.
KEPT = 8
# A code has a digit, and no spaces.
_CODE = re.compile(r"(?=.*\d)[^\s:|]{1,50}")


class FoundConcept(Named):
    """A concept found by a search."""

    matched_term: str = Field(description="the term that was found", examples=["Epileptic seizure"])
    similarity: float | None = Field(description="0 to 1, by letters", examples=[0.71])
    maps_to: list[Named] = Field([], description="OMOP: the standard concepts of a non-standard one")


@dataclass(frozen=True)
class Narrowed:
    """Filters of one search, by OMOP's columns; an id or a code that is typed in full is found whatever they are.

    `standard` None: as the project has it.
    """

    standard: Annotated[bool | None, Query(description="only standard concepts (OMOP)")] = None
    domain: Annotated[str, Query(max_length=100, description="only this domain (OMOP)")] = ""
    vocabulary: Annotated[str, Query(max_length=100, description="only this vocabulary (OMOP)")] = ""
    concept_class: Annotated[str, Query(max_length=100, description="only this concept class (OMOP)")] = ""

    def passing(self, segment: Segment) -> Passing:
        """Return what passes."""
        wanted = {"standard": "S" if self.standard else "", **{name: getattr(self, name) for name in CHOICES}}
        wanted = {name: value for name, value in wanted.items() if value}
        table = segment.concepts
        concepts = np.full(len(table), set(wanted) <= set(table.column_names))
        for name in wanted if concepts.any() else ():
            concepts &= pc.fill_null(pc.equal(table.column(name), wanted[name]), False).to_numpy()
        terms = concepts[segment.term_concept]
        return Passing(concepts, np.logical_or.reduceat(terms, np.asarray(segment.offsets[:-1])), float(terms.mean()))


class Passing(NamedTuple):
    """What passes filters: concepts (n_concepts,), strings (n_strings,), and the share of the terms."""

    concepts: NDArray[np.bool_]
    strings: NDArray[np.bool_]
    share: float


EVERYTHING = Narrowed(standard=False)
# The columns of an index of OMOP vocabularies by which a search can be narrowed.
CHOICES = ("domain", "vocabulary", "concept_class")


def choices(index: Index) -> dict[str, list[str]] | None:
    """Return the values of each of the columns of `Narrowed`; None: no OMOP vocabularies."""
    table = index.segment.concepts
    if not {*CHOICES} <= {*table.column_names}:
        return None
    return {name: sorted(pc.unique(table.column(name)).drop_null().cast(pa.string()).to_pylist()) for name in CHOICES}


class Finder:
    """Searches one index."""

    def __init__(self, index: Index, concepts: Concepts = ALL) -> None:
        self.allowed = concepts.allowed(index)
        self.index, self._terms = self.allowed.searched()
        self._passing = functools.lru_cache(KEPT)(lambda narrowed: narrowed.passing(index.segment))
        self._omop, columns = OmopConcepts(index), index.segment.concepts
        sources = pc.unique(columns.column("source")).to_pylist() if "source" in columns.column_names else []
        self._prefixes = ["OMOP", *sorted({*filter(None, sources)} - {"OMOP"})]

    def clean(self, typed: str) -> str:
        """Return what was typed, cleaned as the index's strings are."""
        return clean_many([typed], self.index.rules)[0]

    def needs_vector(self, typed: str) -> bool:
        """Tell whether the vector of what was typed should be given to `find`."""
        return self.index.ngrams is None and bool(self.clean(typed))

    def find(
        self, typed: str, top: int, vector: NDArray[np.float32] | None = None, narrowed: Narrowed = EVERYTHING
    ) -> list[FoundConcept]:
        """Return concepts: of this id or code, with a name that begins so, then similar ones; each best first.

        Standard concepts (OMOP) come before the others whose names fit as well.

        Args:
            vector: (dim,), of `typed`, for an index without letters.
        """
        names = self.index.segment.concepts.column("name")
        cleaned = self.clean(typed)
        found: dict[int, tuple[str, float | None]] = {row: (names[row].as_py(), 1.0) for row in self._identified(typed)}
        n_identified = len(found)
        passing = self._passing(narrowed)
        if cleaned and passing.share:
            most = min(round(STRINGS_A_CONCEPT * top / passing.share), MAX_STRINGS)
            for string, similarity in self._strings(cleaned, most, vector, passing.strings):
                if len(found) >= top:
                    break
                self._add(found, string, similarity, passing.concepts)
        rows = list(found)[:top]
        facts = dict(zip(rows, self._omop.of_rows(rows), strict=True))

        def place(row: int) -> tuple[bool, bool]:
            known = facts[row]
            is_standard = known is None or known.standard_concept == "S"
            return not self.clean(found[row][0]).startswith(cleaned), not is_standard

        ordered = rows[:n_identified] + sorted(rows[n_identified:], key=place)
        return [self._shown(row, *found[row], facts[row]) for row in ordered]

    def _shown(self, row: int, term: str, similarity: float | None, omop: OmopConcept | None) -> FoundConcept:
        segment = self.index.segment
        return FoundConcept(
            id=self.allowed.id(row),
            name=segment.concepts.column("name")[row].as_py(),
            omop=omop,
            matched_term=term,
            similarity=None if similarity is None else round(similarity, DECIMALS),
            maps_to=named(self.index, [one for one in segment.targets_of(row) if self._may_be(one)]),
        )

    def _may_be(self, row: int) -> bool:
        return self.allowed.concepts is None or bool(self.allowed.concepts[row])

    def _identified(self, typed: str) -> list[int]:
        """Return the concepts with an id, or with an OMOP concept id or a code in whatever vocabulary."""
        typed = typed.strip()
        if ":" in typed:
            rows = [self.allowed.row(typed)]
        elif _CODE.fullmatch(typed):
            spelt = dict.fromkeys((typed, typed.upper()))
            rows = self.index.concept_rows([f"{one}:{code}" for code in spelt for one in self._prefixes]).tolist()
        else:
            rows = []
        return [row for row in dict.fromkeys(rows) if row >= 0 and self._may_be(row)]

    def _add(
        self,
        found: dict[int, tuple[str, float | None]],
        string: int,
        similarity: float | None,
        passing: NDArray[np.bool_],
    ) -> None:
        """Add the concepts that a string names, the one it stands for best first."""
        segment = self.index.segment
        for term in range(int(segment.offsets[string]), int(segment.offsets[string + 1])):
            concept = int(segment.term_concept[term])
            if concept not in found and passing[concept] and (self._terms is None or self._terms[term]):
                found[concept] = segment.terms.column("string")[term].as_py(), similarity

    def _strings(
        self, cleaned: str, most: int, vector: NDArray[np.float32] | None, passing: NDArray[np.bool_]
    ) -> Iterator[tuple[int, float | None]]:
        """Give rows of the index's strings, best first, with their similarities; perhaps one twice."""
        index = self.index
        exact = int(index.rows([cleaned])[0])
        if exact >= 0:
            yield exact, 1.0
        rows = self._beginning(cleaned, most, passing)
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

    def _beginning(self, cleaned: str, most: int, passing: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the rows of the shortest strings that begin so, shortest first."""
        start = cleaned.encode("utf-8", "surrogatepass")
        strings = self.index.strings

        def beginning(row: int) -> bytes:
            return strings[row].encode("utf-8", "surrogatepass")[: len(start)]

        every = range(len(strings))
        first = bisect_left(every, start, key=beginning)
        # No UTF-8 text has the byte 0xff, so this comes right after all that begin so.
        last = bisect_left(every, start + b"\xff", lo=first, key=beginning)
        rows = first + np.flatnonzero(passing[first:last])
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
        """Return what searches for a project, non-standard concepts (OMOP) too; None: the whole index."""
        filters = {name: value for name, value in self._filters(project).items() if name != "standard_only"}
        return self._kept(json.dumps(filters, sort_keys=True)) if filters else self._whole

    def narrowed(self, project: str | None, given: Narrowed) -> Narrowed:
        """Return the filters of a search in a project, which says whether only standard concepts are wanted."""
        if given.standard is not None:
            return given
        return replace(given, standard=bool(self._filters(project).get("standard_only")))

    def _filters(self, project: str | None) -> dict[str, Any]:
        return self._store.project(project).filters if self._store is not None and project is not None else {}
