"""What is found in a text: a span, its concept, and what the text says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
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
        """Its characters."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Document:
    """One text to annotate.

    Attributes:
        id: its name: the file's, the row's, or what the id field holds.
        text: as it was given; all places count its characters.
        source: the file that it is from.
        line: the line that it begins at in that file.
    """

    id: str
    text: str
    source: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Context:
    """What the text says of a mention, and by which words.

    Attributes:
        category: one of `CATEGORIES`.
        start: first character of the cue.
        end: the character behind its last.
        cue: these words.
    """

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
        end: the character behind its last.
        mention: text[start:end].
        pieces: the parts that make the mention, where words between them do not belong to it; one part otherwise.
        concept_id: CURIE.
        concept_name: its preferred term.
        matched_term: the term that the mention equals or is nearest to.
        confidence: probability that the concept is right, 0 to 1; None where nothing judged it (`exact`).
        decision: "accept" or "review".
        method: "exact" (a name, but for order, inflection and case), "abbreviation" or "nearest".
        context: what the text says of it; empty: it is affirmed.
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
        """The categories of its context, in the order of `CATEGORIES`; `AFFIRMED` alone where there is none."""
        found = {one.category for one in self.context}
        return tuple(one for one in CATEGORIES if one in found) or (AFFIRMED,)


@dataclass(frozen=True, slots=True)
class Annotated:
    """A document with its mentions, by their place."""

    document: Document
    annotations: tuple[Annotation, ...] = field(default=())
