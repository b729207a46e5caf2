"""Filters: the concepts that can be answers, and an index that is searched only for these."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.answer import assigned
from alphita.answer.assigned import Assignment
from alphita.errors import UsageError
from alphita.index.lookup import Restricted
from alphita.index.segment import Segment
from alphita.index.store import Index
from alphita.registry import unknown
from alphita.terminology.languages import among
from alphita.terminology.prefixes import canonical


class Targets:
    """The codes that an index's concepts have in one code system.

    A concept's code is its id, if that belongs to the code system, otherwise the codes of its terms, those of exact
    terms first.
    """

    def __init__(self, segment: Segment, target: str) -> None:
        self.target = canonical(target)
        prefix = f"{self.target}:"
        ids = segment.concepts.column("id").to_pylist()
        codes: dict[int, dict[str, None]] = {
            row: {one: None} for row, one in enumerate(ids) if canonical(one.partition(":")[0]) == self.target
        }
        systems = {one.partition(":")[0] for one in ids[:100_000]}
        terms = segment.terms
        if {"source", "code"} <= set(terms.column_names):
            source = terms.column("source").cast(pa.string())
            spellings = {one: canonical(one) for one in pc.unique(source).drop_null().to_pylist()}
            systems |= set(spellings.values())
            own = [spelling for spelling, system in spellings.items() if system == self.target]
            kept = pc.and_(pc.is_in(source, value_set=pa.array(own, pa.string())), terms.column("code").is_valid())
            if "retired_concept" in terms.column_names:
                # Its code is that of the retired concept.
                kept = pc.and_(kept, terms.column("retired_concept").is_null())
            rows = np.flatnonzero(pc.fill_null(kept, False).to_numpy(zero_copy_only=False))
            found = terms.column("code").take(pa.array(rows)).to_pylist()
            standing = segment.standing[rows].tolist()
            for _, code, row in sorted(zip(standing, found, segment.term_concept[rows].tolist(), strict=True)):
                if row in codes and canonical(ids[row].partition(":")[0]) == self.target:
                    continue
                codes.setdefault(row, {})[prefix + str(code).removeprefix(prefix)] = None
        if not codes:
            raise UsageError(unknown("target", target, sorted(systems)))
        self._codes = {row: "|".join(some) for row, some in codes.items()}

    @property
    def concepts(self) -> NDArray[np.int64]:
        """Rows of the concepts that have a code there, sorted."""
        return np.array(sorted(self._codes), np.int64)

    def ids(self, concepts: NDArray[Any]) -> list[str]:
        """Return the codes of some concepts that have one, each as CURIEs joined by `|`."""
        return [self._codes[int(row)] for row in concepts]

    def row(self, code: str) -> int:
        """Return the first concept to which `ids` gives this code, alone or with others; -1: none."""
        return self._rows.get(code, -1)

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for row, codes in self._codes.items():
            for code in (codes, *codes.split("|")):
                rows.setdefault(code, row)
        return rows


# Number of concepts with which an unknown one is compared.
MAX_COMPARED = 100_000


@dataclass(frozen=True)
class Filters:
    """The concepts that can be answers: any of the values of one kind, and all kinds.

    Attributes:
        types: semantic types, domains and concept classes of OMOP vocabularies, or kinds: term or part in LOINC, term
            types in RxNorm, levels in ICD-10-CM.
        sources: prefixes of the concepts' own terminologies.
        languages: BCP-47; a concept must have a term in one of them, and only such terms match.
        under: CURIEs; these concepts and those below them.
        standard_only: only standard concepts (OMOP).
        domain: a type or domain that they must have besides; of several, joined by `|`, one.
        billable: only codes that can be billed; a heading is answered by its unspecified code, or by the codes below
            it, for review.
    """

    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    standard_only: bool = False
    domain: str | None = None
    billable: bool = False

    @property
    def empty(self) -> bool:
        """Whether all concepts can be answers."""
        return self == Filters()

    def asks_for_ranges(self, segment: Segment) -> bool:
        """Tell whether a type is chosen that only ranges of codes have, such as E08-E13."""
        ranges = assigned.ranges_of(segment) if self.types else None
        return ranges is not None and any(ranges[_of_types(segment, [one])].all() for one in self.types)

    def concepts(self, segment: Segment) -> NDArray[np.bool_]:
        """Return which concepts of an index can be answers, (n_concepts,)."""
        allowed = np.ones(len(segment.concepts), bool)
        if self.types:
            allowed &= _of_types(segment, self.types)
        if self.domain:
            allowed &= _of_types(segment, self.domain.split("|"))
        if self.sources:
            wanted = {canonical(one).lower() for one in self.sources}
            column = [canonical(one or "") for one in _column(segment, "source", "--source")]
            _check("source", [canonical(one) for one in self.sources], column)
            allowed &= np.array([one.lower() in wanted for one in column], bool)
        if self.languages:
            allowed &= np.isin(np.arange(len(allowed)), segment.term_concept[self._terms(segment)])
        if self.under:
            allowed &= _under(segment, self.under)
        if self.standard_only:
            allowed &= np.array([one == "S" for one in _column(segment, "standard", "--standard-only")], bool)
        if self.billable:
            if (codes := assigned.billable(segment)) is None:
                raise UsageError(
                    "this index tells neither which codes can be billed nor which are below others; --billable cannot "
                    "be used with it"
                )
            allowed &= codes
        if not allowed.any():
            raise UsageError("no concept of this index passes all filters together")
        return allowed

    def _terms(self, segment: Segment) -> NDArray[np.bool_]:
        column = segment.terms.column("language").cast(pa.string())
        known = [one for one in pc.unique(column).to_pylist() if one]
        for one in self.languages:
            if not among(known, [one]):
                raise UsageError(unknown("language", one, {*known, *(tag.split("-")[0] for tag in known)}))
        tags = pa.array(among(known, self.languages), pa.string())
        return np.asarray(pc.is_in(column, value_set=tags).to_numpy(zero_copy_only=False), bool)

    def terms(self, segment: Segment, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which terms can match, (n_terms,): those of allowed concepts, in an allowed language."""
        terms: NDArray[np.bool_] = allowed[segment.term_concept]
        return terms & self._terms(segment) if self.languages else terms

    def strings(self, segment: Segment, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which strings can match, (n_strings,): those with a term that can."""
        return np.asarray(np.logical_or.reduceat(self.terms(segment, allowed), np.asarray(segment.offsets[:-1])))


class Allowed:
    """The concepts of an index that can be answers."""

    def __init__(self, index: Index, filters: Filters | None, targets: Targets | None) -> None:
        self._index, self._filters, self._targets = index, filters or Filters(), targets
        # (n_concepts,); None: all.
        self.concepts = allowed_concepts(index, filters, targets)

    def searched(self, *, headings: bool = False) -> tuple[Any, NDArray[np.bool_] | None]:
        """Return an index that finds only these, and which of its terms can match, (n_terms,); None: all.

        Args:
            headings: find those above them, too, if only codes that can be billed are answers.
        """
        if self.concepts is None:
            return self._index, None
        segment, concepts = self._index.segment, self.concepts
        if headings and self._filters.billable:
            whole = allowed_concepts(self._index, replace(self._filters, billable=False), self._targets)
            concepts = segment.ancestors(concepts) & (True if whole is None else whole) | concepts
        strings = self._filters.strings(segment, concepts)
        return Restricted(self._index, strings), self._filters.terms(segment, concepts)

    def assignment(self) -> Assignment:
        """Return which of these is the answer where each concept is named."""
        segment = self._index.segment
        is_billed, ranges = self._filters.billable, self._filters.asks_for_ranges(segment)
        return Assignment(segment, self.concepts, billable=is_billed, ranges=ranges)

    def row(self, identifier: str) -> int:
        """Return the row of the concept with an id, or a code in the target; -1 if it cannot be an answer."""
        row = -1 if self._targets is None else self._targets.row(identifier)
        row = row if row >= 0 else int(self._index.concept_rows([identifier])[0])
        return row if row >= 0 and (self.concepts is None or self.concepts[row]) else -1

    def id(self, row: int) -> str:
        """Return the id of a concept in answers."""
        if self._targets is not None:
            return self._targets.ids(np.array([row]))[0]
        return str(self._index.segment.concepts.column("id")[row].as_py())


def allowed_concepts(index: Index, filters: Filters | None, targets: Targets | None) -> NDArray[np.bool_] | None:
    """Return which concepts can be answers, (n_concepts,): by the filters, and with a code in the target; None: all."""
    if (filters is None or filters.empty) and targets is None:
        return None
    allowed = np.ones(len(index.segment.concepts), bool) if filters is None else filters.concepts(index.segment)
    if targets is not None:
        allowed &= np.isin(np.arange(len(allowed)), targets.concepts)
        if not allowed.any():
            raise UsageError(f"no concept that passes the filters has a code in {targets.target}")
    return allowed


def _of_types(segment: Segment, types: Sequence[str]) -> NDArray[np.bool_]:
    if not (known := types_of(segment)):
        raise UsageError("this index's concepts have no semantic types; --type cannot be used with it")
    _check("semantic type", types, known)
    lower = {one.lower() for one in types}
    wanted = pa.array([one for one in known if one.lower() in lower])
    allowed = np.zeros(len(segment.concepts), bool)
    for values, rows in _types(segment):
        allowed[rows[pc.is_in(values, value_set=wanted).to_numpy(zero_copy_only=False)]] = True
    return allowed


def types_of(segment: Segment, allowed: NDArray[np.bool_] | None = None) -> list[str]:
    """Return the semantic types and domains of an index's concepts, of the `allowed` ones, (n_concepts,), or of all."""
    found: set[str] = set()
    for values, rows in _types(segment):
        some = values if allowed is None else values.filter(pa.array(allowed[rows]))
        found.update(filter(None, pc.unique(some).to_pylist()))
    return sorted(found)


def _types(segment: Segment) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Yield types and the rows of the concepts that have them, a column at a time."""
    for name in ("semantic_types", "domain", "concept_class", "kind"):
        if name in segment.concepts.column_names:
            column = segment.concepts.column(name).combine_chunks()
            is_list = pa.types.is_list(column.type)
            rows = pc.list_parent_indices(column).to_numpy() if is_list else np.arange(len(column))
            yield (column.flatten() if is_list else column).cast(pa.string()), rows


def _under(segment: Segment, curies: Sequence[str]) -> NDArray[np.bool_]:
    allowed = np.zeros(len(segment.concepts), bool)
    for curie, row in zip(curies, segment.concept_rows(list(curies)).tolist(), strict=True):
        if row < 0:
            ids = segment.concepts.column("id").slice(0, MAX_COMPARED).to_pylist()
            near = difflib.get_close_matches(curie, ids, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UsageError(f"this index has no concept {curie!r}{hint}")
        allowed[row] = True
        allowed[segment.descendants(row)] = True
    return allowed


def _column(segment: Segment, name: str, option: str) -> list[Any]:
    if name not in segment.concepts.column_names:
        raise UsageError(f"this index does not tell its concepts' {name}; {option} cannot be used with it")
    return list(segment.concepts.column(name).to_pylist())


def _check(what: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    spelt = {one.lower() for one in known}
    for one in wanted:
        if one.lower() not in spelt:
            raise UsageError(unknown(what, one, {one for one in known if one}))
