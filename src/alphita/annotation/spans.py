"""Annotations of a text: a span, its concept, and its assertion."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from alphita.mappings.record import Decision
from alphita.mention.cues import CATEGORIES, Category

AFFIRMED = "affirmed"


class Place(NamedTuple):
    """A part of a text: text[start:end], counted in characters (code points)."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def holds(self, other: Place) -> bool:
        """Tell whether another part is inside it."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Document:
    """One text: its id, the text as given, the file that it is from and the line where it begins."""

    id: str
    text: str
    source: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Context:
    """What the text says of a mention: the category, and the words that say so, text[start:end]."""

    category: Category
    start: int
    end: int
    cue: str


@dataclass(frozen=True, slots=True)
class Modifier:
    """A word beside a mention that says which side or how severe: "left", "severe"; places as in `Context`."""

    kind: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Annotation:
    """A mention in a text.

    Attributes:
        start: first character of the whole span.
        end: one past its last character.
        mention: text[start:end].
        pieces: the parts of the mention, if there are other words between them; otherwise a single part.
        concept_id: CURIE.
        concept_name: its preferred term.
        matched_term: the term that equals the mention or is nearest to it.
        confidence: probability that the concept is right, 0 to 1; None with `exact`.
        decision: "accept" or "review".
        method: "exact" (a name, apart from word order, inflection and case), "abbreviation" or "nearest".
        context: the cues that determine its assertion; empty if it is affirmed.
        modifiers: side and severity.
    """

    start: int
    end: int
    mention: str
    pieces: tuple[Place, ...]
    concept_id: str
    concept_name: str
    matched_term: str
    confidence: float | None
    decision: Decision | None
    method: str
    context: tuple[Context, ...] = ()
    modifiers: tuple[Modifier, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """The categories of its context, in the order of `CATEGORIES`; only `AFFIRMED` if there are none."""
        found = {context.category for context in self.context}
        return tuple(one for one in CATEGORIES if one in found) or (AFFIRMED,)


@dataclass(frozen=True, slots=True)
class Annotated:
    """A document with its mentions, by their place."""

    document: Document
    annotations: tuple[Annotation, ...] = field(default=())


_OTHER = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")
_LINE_END = re.compile("\r{0,2}\n\x0c?|[\r\x0b\x0c\x85\u2028\u2029]")


class Lines(NamedTuple):
    """A text as given and with line feeds; `longer`: places in `text` of line ends that are longer in `given`."""

    given: str
    text: str
    longer: list[int]

    def given_place(self, start: int, end: int) -> Place:
        """Return where a part of `text` stands in `given`."""
        return Place(start + bisect_left(self.longer, start), end + bisect_left(self.longer, end))

    def given_annotation(self, found: Annotation) -> Annotation:
        """Return an annotation of `text` as one of `given`."""
        if self.text is self.given:
            return found
        start, end = self.given_place(found.start, found.end)
        context = [(one, self.given_place(one.start, one.end)) for one in found.context]
        modifiers = [(modifier, self.given_place(modifier.start, modifier.end)) for modifier in found.modifiers]
        return replace(
            found,
            start=start,
            end=end,
            mention=self.given[start:end],
            pieces=tuple(self.given_place(*piece) for piece in found.pieces),
            context=tuple(replace(one, **place._asdict(), cue=self.given[slice(*place)]) for one, place in context),
            modifiers=tuple(replace(one, **place._asdict()) for one, place in modifiers),
        )


def lines_of(given: str) -> Lines:
    """Return a text with line feeds."""
    if not _OTHER.search(given):
        return Lines(given, given, [])
    longer: list[int] = []
    for end in _LINE_END.finditer(given):
        longer += [end.start() - len(longer)] * (len(end[0]) - 1)
    return Lines(given, _LINE_END.sub("\n", given), longer)
