"""Texts -> mentions with their concepts and their context."""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from alphita.annotation.answers import Answers, Span
from alphita.annotation.context import Rules, load_rules, modifiers_of
from alphita.annotation.finding import Finder, Hit, is_code
from alphita.annotation.line_ends import lines_of
from alphita.annotation.names import Names
from alphita.annotation.overlaps import Candidate, settle
from alphita.annotation.spans import Annotated, Annotation, Document, Place
from alphita.annotation.tokens import Sentence, sentences_of
from alphita.annotation.windows import Windows, is_short_form
from alphita.answer.normalizer import Normalizer
from alphita.errors import UsageError
from alphita.mention.schwartz_hearst import find_pairs


@dataclass(frozen=True)
class Settings:
    """What is found, and what is kept of it.

    Attributes:
        precision: keep mentions of at least this confidence, 0 to 1: as far as the confidence holds for such texts, at
            least this share of what is kept is right; None: the two thresholds below.
        name_confidence: the least confidence of what is a name, but for order and inflection.
        alike_confidence: of what would be a name if a word stood for another, or has no more in common with one than
            roots, if the normalizer answers the same concept.
        context_rules: a file of rules in place of those that come with Alphita; None: these.
    """

    exact: bool = False
    precision: float | None = None
    name_confidence: float = 0.3
    alike_confidence: float = 0.3
    phrase_confidence: float = 0.8
    context_rules: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("precision", "name_confidence", "alike_confidence", "phrase_confidence"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"{name} must be between 0 and 1, not {value}")
        if self.exact and self.precision is not None:
            raise UsageError("exact mentions have no confidence to choose by; leave out either exact or precision")


class _Asked(NamedTuple):
    """A sentence and the spans that are asked for it."""

    sentence: Sentence
    spans: list[Span]


class Annotator:
    """Finds concepts in texts, with one normalizer."""

    def __init__(self, normalizer: Normalizer, settings: Settings | None = None) -> None:
        self.normalizer, self.settings = normalizer, settings or Settings()
        self._check()
        self.rules: Rules = load_rules(self.settings.context_rules)
        names = Names(normalizer.index)
        self._finder = Finder(names)
        self._windows = Windows(normalizer.index, names.knows)
        self._answers = Answers(normalizer, names, self._windows)

    def keeping(self, settings: Settings) -> Annotator:
        """Return an annotator of other settings with the same names and the same memory of answers.

        Raises:
            InputError: a rule of context is wrong.
            UsageError: a precision is asked, and the index has no confidence.
        """
        other = copy.copy(self)
        other.settings = settings
        other._check()
        if settings.context_rules != self.settings.context_rules:
            other.rules = load_rules(settings.context_rules)
        return other

    def _check(self) -> None:
        if self.settings.precision is not None and self.normalizer.calibration is None:
            raise UsageError("a precision is chosen by the confidence, and this index has none: alphita calibrate")

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Return the documents with their mentions, in order; their strings are asked together."""
        texts = [lines_of(document.text) for document in documents]
        asked = [self._asked(lines.text) for lines in texts]
        spans = [span for sentences in asked for sentence in sentences for span in sentence.spans]
        answers = iter(self._answers.look_up(spans) if self.settings.exact else self._answers.judge(spans))
        annotated = []
        for document, lines, sentences in zip(documents, texts, asked, strict=True):
            contexts = self.rules.read(lines.text, [sentence.sentence for sentence in sentences])
            annotations: list[Annotation] = []
            for place, sentence in enumerate(sentences):
                candidates = [answer for _ in sentence.spans if (answer := next(answers)) is not None]
                standing = settle([candidate for candidate in candidates if self._is_kept(candidate)])
                mentions = [piece for candidate in standing for piece in candidate.pieces]
                for candidate in standing:
                    annotation = Annotation(
                        candidate.start,
                        candidate.end,
                        lines.text[candidate.start : candidate.end],
                        candidate.pieces,
                        candidate.concept_id,
                        candidate.concept_name,
                        candidate.matched_term,
                        candidate.confidence,
                        candidate.decision,
                        candidate.method,
                        contexts.of(place, candidate.pieces, mentions),
                        modifiers_of(sentence.sentence, candidate.start, candidate.end),
                    )
                    annotations.append(lines.given_annotation(annotation))
            annotated.append(Annotated(document, tuple(annotations)))
        return annotated

    def _asked(self, text: str) -> list[_Asked]:
        """Return the sentences of a text, each with the spans to be asked."""
        # What the text defines, "congestive heart failure (CHF)", it means from there on and before.
        defined = {pair.short: pair.long for pair in find_pairs(text)} if not self.settings.exact else {}
        asked_of = []
        for sentence in sentences_of(text):
            hits = sorted(self._finder.find(text, sentence, alike=not self.settings.exact), key=_start)
            spans = {hit.pieces: Span(hit.pieces, hit.asked, hit) for hit in hits}
            if not self.settings.exact:
                for window in self._windows.of(text, sentence):
                    from_here = bisect_left(hits, window.place.start, key=_start)
                    to_there = bisect_left(hits, window.place.end, key=_start)
                    within = [hit for hit in hits[from_here:to_there] if _is_within(hit.pieces, window.place)]
                    if (window.place,) in spans or (window.is_joined and within):
                        # "Curved fingers and severe scoliosis" is two things, one of which has a name.
                        continue
                    asked = window.asked
                    if asked in defined and is_short_form(asked):
                        asked = defined[asked]
                    elif is_code(asked):
                        continue
                    names = frozenset(hit.row for hit in within)
                    spans[(window.place,)] = Span((window.place,), asked, None, names)
            asked_of.append(_Asked(sentence, list(spans.values())))
        return asked_of

    def _is_kept(self, candidate: Candidate) -> bool:
        if candidate.confidence is None:
            # Without calibration only what is a name can be told to be right.
            return candidate.is_name
        if self.settings.precision is not None:
            return candidate.confidence >= self.settings.precision
        if candidate.is_name:
            return candidate.confidence >= self.settings.name_confidence
        return candidate.confidence >= (
            self.settings.alike_confidence if candidate.is_alike else self.settings.phrase_confidence
        )


def _start(hit: Hit) -> int:
    return hit.pieces[0].start


def _is_within(pieces: Sequence[Place], place: Place) -> bool:
    return pieces != (place,) and place.start <= pieces[0].start and pieces[-1].end <= place.end
