"""Texts -> mentions with their concepts and their context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from alphita.annotating.finding import Hit, Level, Names
from alphita.annotating.overlaps import Candidate, settle
from alphita.annotating.spans import Annotated, Annotation, Document, Place
from alphita.annotating.tokens import Sentence, sentences_of
from alphita.annotating.windows import Windows, is_short_form
from alphita.errors import UsageError
from alphita.normalizer.abbreviations.schwartz_hearst import find_pairs
from alphita.normalizer.answering.normalizer import Normalizer
from alphita.normalizer.answering.records import Result
from alphita.normalizer.answering.records import EXACT

# Answers kept for windows that come again.
MOST_KEPT = 200_000


@dataclass(frozen=True)
class Settings:
    """What is found, and what is kept of it.

    Attributes:
        exact: names of the terminology alone, without the encoder: quick, and without confidence.
        precision: keep mentions of at least this confidence, 0 to 1, names and all: by calibration, at least this share
            of what is kept is then right; None: the thresholds below.
        name_confidence: of what is a name but for order and inflection, the least confidence.
        phrase_confidence: of other phrases.
        context_rules: a file of rules in place of those that come with Alphita; None: these.
    """

    exact: bool = False
    precision: float | None = None
    name_confidence: float = 0.3
    phrase_confidence: float = 0.75
    context_rules: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: one is no probability, or a precision is asked of what has no confidence.
        """
        for name in ("precision", "name_confidence", "phrase_confidence"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"{name} must be between 0 and 1, not {value}")
        if self.exact and self.precision is not None:
            raise UsageError("exact mentions have no confidence, so no precision can be chosen; leave out one of the two")


class _Asked(NamedTuple):
    """A span to be judged, and how closely it is a name; None: it is none."""

    pieces: tuple[Place, ...]
    asked: str
    hit: Hit | None


class Annotator:
    """Finds concepts in texts, with one normalizer."""

    def __init__(self, normalizer: Normalizer, settings: Settings | None = None) -> None:
        """Read the names of the normalizer's index."""
        self.normalizer, self.settings = normalizer, settings or Settings()
        self.names = Names(normalizer.index)
        self._windows = Windows(normalizer.index, self.names.knows)
        self._known: dict[str, Result | None] = {}

    def candidates(self, texts: Sequence[str]) -> list[list[list[Candidate]]]:
        asked = [self._ask(text) for text in texts]
        self._judge([one.asked for some in asked for sentence in some for one in sentence if one.hit is None],
                    [one.asked for some in asked for sentence in some for one in sentence if one.hit is not None])
        return [[[c for one in sentence if (c := self._candidate(one))] for sentence in some] for some in asked]

    def _ask(self, text):
        pairs = {p.short: p.long for p in find_pairs(text)}
        out = []
        for s in sentences_of(text):
            hits = self.names.find(text, s)
            seen = {h.pieces for h in hits}
            some = [_Asked(h.pieces, h.asked, h) for h in hits]
            for w in self._windows.of(text, s):
                if (w.place,) not in seen:
                    some.append(_Asked((w.place,), pairs.get(w.asked, w.asked), None))
            out.append(some)
        return out

    def _judge(self, phrases, names):
        new = [a for a in dict.fromkeys(phrases) if a not in self._known]
        near = self._windows.near(new)
        self._known.update({a: None for a, n in zip(new, near) if not n})
        new = [a for a, n in zip(new, near) if n] + [a for a in dict.fromkeys(names) if a not in self._known]
        for a, r in zip(new, self.normalizer.normalize(new)):
            self._known[a] = r

    def _candidate(self, one):
        r = self._known.get(one.asked)
        if r is None or r.concept_id is None:
            return None
        level = one.hit.level if one.hit else None
        return Candidate(one.pieces, one.asked, r.concept_id, r.concept_name, r.matched_term, r.confidence, r.decision, ["exact","inflected","roots"][level] if level is not None else r.method, r.decision == "accept" or level == Level.SAME)
