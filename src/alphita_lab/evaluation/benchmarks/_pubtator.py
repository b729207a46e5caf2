"""Corpora of mentions in PubTator's layout, and mentions of several concepts taken apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import _folds
from alphita_lab.evaluation.benchmarks._dictionary import Dictionary, bare
from alphita_lab.evaluation.scoring.linking import Queries

REMEDY = (
    "expected PubTator's layout: 123|t|title, 123|a|abstract, then lines of document, start, end, mention, type and "
    "ids with tabs between"
)
NO_ID = "-1"
# At the head of a corpus.
TITLE = re.compile(r"\s*\d+\|t\|")
_TEXT = re.compile(r"(\d+)\|([ta])\|")
_LINKS = re.compile(r"[|+]")
_AND = re.compile(r",?\s+(?:and/or|and|or)\s+")


@dataclass(frozen=True)
class Mention:
    """One annotation.

    Attributes:
        type: as the corpus calls it: "Disease", "SpecificDisease", ...
        ids: the concepts, bare; several for a mention of several, e.g. "breast and ovarian cancer".
        parts: the strings of the several concepts, where the corpus tells them.
    """

    text: str
    type: str
    ids: tuple[str, ...]
    parts: tuple[str, ...] = ()
    context: str = ""


@dataclass
class Corpus:
    """The mentions of a corpus; `notes` counts what was left out."""

    mentions: list[Mention] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Annotation:
    """One line below a document.

    Attributes:
        ids: see `Mention`; none where the annotators found no concept (-1).
    """

    start: int
    end: int
    text: str
    type: str
    ids: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass
class Document:
    """A document: its title and abstract with a space between, as offsets count them, and its annotations."""

    name: str
    again: bool
    text: str
    annotations: list[Annotation] = field(default_factory=list)


def documents(path: Path) -> list[Document]:
    """Read the documents of a corpus; lines of relations are skipped."""
    found: list[Document] = []
    known: set[str] = set()
    for number, line in textio.lines(path):
        text = _TEXT.match(line)
        if text and text[2] == "t":
            found.append(Document(text[1], text[1] in known, line[text.end() :]))
            known.add(text[1])
        elif text and found:
            found[-1].text += f" {line[text.end() :]}"
        if text:
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        start, end = (textio.whole_number(cell) for cell in [*cells, "", ""][1:3])
        if len(cells) == 4 and start is None:
            continue
        if len(cells) not in (6, 7) or start is None or end is None:
            raise InputError("is no annotation", file=path, line=number, value=line, remedy=REMEDY)
        above = found[-1].name if found else "none"
        if cells[0] != above:
            raise InputError(
                f"annotates the document {cells[0]}, but stands under {above}", file=path, line=number, remedy=REMEDY
            )
        if not cells[3]:
            raise InputError("has no mention", file=path, line=number, field="mention", value=line)
        ids = tuple(
            dict.fromkeys(
                concept_id for concept_id in map(bare, _LINKS.split(cells[5])) if concept_id not in ("", NO_ID)
            )
        )
        parts = tuple(part.strip() for part in cells[6].split("|")) if len(cells) == 7 else ()
        found[-1].annotations.append(Annotation(start, end, cells[3], cells[4], ids, parts))
    return found


def read(path: Path) -> Corpus:
    """Read the mentions of a corpus."""
    corpus = Corpus()
    for document in documents(path):
        for annotation in document.annotations:
            if document.again:
                corpus.notes["mentions left out, their document stands there twice"] += 1
            elif not annotation.ids:
                corpus.notes["mentions left out, without an id"] += 1
            else:
                corpus.mentions.append(
                    Mention(annotation.text, annotation.type, annotation.ids, annotation.parts, document.text.strip())
                )
    if not corpus.mentions:
        raise InputError("holds no mention", file=path, remedy=REMEDY)
    return corpus


def queries(mentions: Sequence[Mention], dictionary: Dictionary, trained: Iterable[str] | None) -> Queries:
    """Return the queries of mentions."""
    parts: list[tuple[str, ...]] = []
    gold: list[tuple[frozenset[str], ...]] = []
    composite: list[str | None] = []
    for mention in mentions:
        concepts = concepts_of(mention, dictionary)
        strings: tuple[str, ...] = (mention.text,)
        if len(concepts) > 1:
            given = mention.parts if len(mention.parts) == len(concepts) and all(mention.parts) else ()
            strings = given or split(mention.text, len(concepts)) or strings
        every = frozenset(concept for gold_id in mention.ids for concept in dictionary.find(gold_id))
        parts.append(strings)
        gold.append((every,) * len(strings))
        composite.append(None if len(concepts) == 1 else "whole" if len(strings) == 1 else "taken apart")
    columns: dict[str, Sequence[Any]] = {"type": [mention.type for mention in mentions], "composite": composite}
    seen = None if trained is None else _folds.seen(parts, trained)
    return Queries(parts, gold, columns, seen, [mention.context or None for mention in mentions])


def concepts_of(mention: Mention, dictionary: Dictionary) -> list[frozenset[str]]:
    """Return the distinct concepts that a mention's ids stand for; those of an ambiguous other id are one answer."""
    mesh = [gold_id for gold_id in mention.ids if not gold_id.isdigit()]
    return list(dict.fromkeys(map(dictionary.find, mesh or mention.ids)))


def names(mentions: Iterable[Mention], dictionary: Dictionary) -> tuple[list[tuple[str, str]], int]:
    """Return (concept, string) of mentions of one concept, and how many mentions of several were left out."""
    found: list[tuple[str, str]] = []
    several = 0
    for mention in mentions:
        concepts = concepts_of(mention, dictionary)
        if len(concepts) > 1:
            several += 1
        else:
            found += [(concept_id, mention.text) for concept_id in sorted(concepts[0])]
    return found, several


def split(mention: str, n: int) -> tuple[str, ...]:
    """Take a mention of n concepts apart; nothing if that cannot be told."""
    forms = (_of(mention), _one_head(mention), _slash(mention), tuple(mention.split()))
    return next((parts for parts in forms if len(parts) == n and all(parts)), ())


def _items(string: str) -> list[str]:
    """Return the items of "a, b and c"; "the" and "both" before an item are taken off."""
    items = (item.strip() for part in _AND.split(string) for item in part.split(","))
    return [re.sub(r"^(?:(?:both|the)\s+)+", "", item) for item in items if item]


def _of(mention: str) -> tuple[str, ...]:
    head, of, rest = mention.partition(" of ")
    return tuple(f"{head} of {item}" for item in _items(rest)) if of and _AND.search(rest) else ()


def _one_head(mention: str) -> tuple[str, ...]:
    """ "a, b and c head": the head is all but the first word after the last "and"."""
    *before, last = _AND.split(mention)
    word, _, head = last.removeprefix("the ").partition(" ")
    items = _items(", ".join(before))
    return tuple(f"{item} {head.strip()}" for item in (*items, word.rstrip(","))) if items and head.strip() else ()


def _slash(mention: str) -> tuple[str, ...]:
    words = mention.split()
    places = [place for place, word in enumerate(words) if "/" in word]
    if len(places) != 1 or words[places[0]] == "and/or":
        return ()
    place = places[0]
    return tuple(" ".join((*words[:place], part, *words[place + 1 :])) for part in words[place].split("/") if part)
