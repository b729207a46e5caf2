"""What the spans of texts mean: asked of the normalizer, each distinct string once, or, exactly, of the index alone."""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from alphita.annotation.finding import Hit
from alphita.annotation.names import Level, Names
from alphita.annotation.overlaps import Candidate
from alphita.annotation.spans import Place
from alphita.annotation.windows import Windows
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import ABBREVIATION, EXACT, NEAREST, Result
from alphita.index.store import Index
from alphita.mappings.record import Decision
from alphita.terminology.text import clean_many

# Answers kept for strings that come again.
MAX_KEPT = 200_000
LEFT_OUT = "left_out.tsv"
# Strings that the normalizer is asked together: more take memory and are no quicker.
ASKED_AT_ONCE = 1_024


class Span(NamedTuple):
    """What is asked for a place.

    Attributes:
        asked: the string to look up: the words themselves, or what the text defines them to stand for.
        hit: the name that it is; None: it is a phrase.
        within: the names that stand in a phrase, as rows of the index.
    """

    pieces: tuple[Place, ...]
    asked: str
    hit: Hit | None
    within: frozenset[int] = frozenset()


class Answers:
    """Answers spans with one normalizer; what was answered is remembered."""

    def __init__(self, normalizer: Normalizer, names: Names, windows: Windows) -> None:
        self.normalizer, self._names, self._windows = normalizer, names, windows
        self._left_out = frozenset() if normalizer.filters is not None else left_out(normalizer.index)
        # Both are replaced when the first is full.
        self._known: dict[str, Result] = {}
        self._nearest: dict[str, int | None] = {}
        # By the row of the string.
        self._named: dict[int, Candidate | None] = {}
        self._concepts_of: dict[int, frozenset[str]] = {}

    def judge(self, spans: Sequence[Span]) -> list[Candidate | None]:
        """Return what each span means, by candidates of the normalizer; None: nothing, or what is left out."""
        if len(self._known) > MAX_KEPT:
            self._known, self._nearest = {}, {}
        known, nearest = self._known, self._nearest
        phrases = [span.asked for span in spans if span.hit is None and span.asked not in nearest]
        new = list(dict.fromkeys(phrases))
        nearest.update(zip(new, self._windows.nearest(new), strict=True))
        asked = list(dict.fromkeys(span.asked for span in spans if span.asked not in known and self._is_asked(span)))
        for start in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[start : start + ASKED_AT_ONCE]
            known.update(zip(some, self.normalizer.normalize(some), strict=True))
        return [self._candidate(span, known[span.asked]) if self._is_asked(span) else None for span in spans]

    def _is_asked(self, span: Span) -> bool:
        """Tell whether a span is a name, or a phrase with letters of one that does not stand in it by itself."""
        if span.hit is not None:
            return True
        near = self._nearest[span.asked]
        return near is not None and near not in span.within

    def _candidate(self, span: Span, result: Result) -> Candidate | None:
        if result.concept_id is None or result.concept_id in self._left_out:
            return None
        by_abbreviation = result.method == ABBREVIATION
        if by_abbreviation and span.asked.islower() and " " not in span.asked:
            # "ie" and "ms" in small letters are words.
            return None
        if span.hit is None and self._is_strange(str(result.matched_term)):
            return None
        is_name = span.hit is not None and span.hit.level < Level.ROOTS
        is_alike = (
            span.hit is not None
            and (span.hit.level == Level.ALIKE or " " in span.asked)
            and result.concept_id in self._concepts(span.hit.row)
        )
        return Candidate(
            span.pieces,
            span.asked,
            result.concept_id,
            str(result.concept_name),
            str(result.matched_term),
            result.confidence,
            result.decision,
            ABBREVIATION if by_abbreviation else EXACT if is_name else NEAREST,
            is_name,
            is_alike,
            result.decision == "accept" or (span.hit is not None and span.hit.level == Level.SAME),
        )

    def look_up(self, spans: Sequence[Span]) -> list[Candidate | None]:
        """Return the concept that each span is a name of, by the index alone, without confidence; others are None."""
        found: list[Candidate | None] = []
        for one in spans:
            hit = one.hit
            if hit is None or hit.level == Level.ALIKE or (hit.level == Level.ROOTS and " " not in one.asked):
                found.append(None)
                continue
            if hit.row not in self._named:
                self._named[hit.row] = self._name(one, hit.row)
            named = self._named[hit.row]
            if named is not None:
                named = named._replace(pieces=one.pieces, asked=one.asked)
                if hit.level == Level.ROOTS:
                    named = named._replace(decision="review", method=NEAREST)
            found.append(named)
        return found

    def _name(self, span: Span, string: int) -> Candidate | None:
        """Return what the string of a row names, in the place of a span."""
        index = self.normalizer.index
        segment = index.segment
        terms = list(range(int(segment.offsets[string]), int(segment.offsets[string + 1])))
        if self.normalizer.filters is not None:
            terms = [term for term in terms if self._allowed[int(segment.term_concept[term])]]
        if not terms:
            return None
        term = terms[0]
        row = int(segment.term_concept[term])
        concept = index.concept(row)
        if concept.id in self._left_out:
            return None
        is_alone = len({int(segment.term_concept[other]) for other in terms}) == 1 and not segment.borrowed[term]
        decision: Decision = "accept" if is_alone else "review"
        written = segment.terms.column("string")[term].as_py()
        return Candidate(
            span.pieces, span.asked, concept.id, concept.name, written, None, decision, EXACT, True, True, is_alone
        )

    def _is_strange(self, matched: str) -> bool:
        """Tell whether an answer rests on a name that is not looked for."""
        row = int(self.normalizer.index.rows(clean_many([matched], self.normalizer.index.rules))[0])
        return row in self._names.strange

    def _concepts(self, string: int) -> frozenset[str]:
        """Return the concepts that the string of a row names."""
        if string not in self._concepts_of:
            segment = self.normalizer.index.segment
            rows = segment.term_concept[int(segment.offsets[string]) : int(segment.offsets[string + 1])].tolist()
            self._concepts_of[string] = frozenset(self.normalizer.index.concept(row).id for row in rows)
        return self._concepts_of[string]

    @property
    def _allowed(self) -> np.ndarray:
        filters = self.normalizer.filters
        assert filters is not None
        return filters.concepts(self.normalizer.index.segment)


def left_out(index: Index) -> frozenset[str]:
    """Return the concepts that name no finding by themselves ("left", "severe"): those of `left_out.tsv`."""
    table = importlib.resources.files(__package__).joinpath(LEFT_OUT).read_text(encoding="utf-8")
    found: set[str] = set()
    for record in csv.DictReader(table.splitlines(), delimiter="\t"):
        row = int(index.concept_rows([record["concept"]])[0])
        if row >= 0:
            below = index.segment.descendants(row).tolist() if record["below"] == "yes" else []
            for one in [row, *below]:
                concept = index.concept(one)
                if record["words"] == "any" or " " not in concept.name:
                    found.add(concept.id)
    return frozenset(found)
