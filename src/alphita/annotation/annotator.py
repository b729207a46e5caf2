"""Texts -> mentions with their concepts and their context; the one rule for spans that overlap."""

from __future__ import annotations

import copy
import csv
import functools
import importlib.resources
import re
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphita.annotation.confidence import of_found
from alphita.annotation.context import Rules, load_rules, modifiers_of
from alphita.annotation.finding import Finder, Hit, Windows, is_code, is_short_form
from alphita.annotation.names import Level, Names
from alphita.annotation.spans import Annotated, Annotation, Document, Lines, Place, lines_of
from alphita.annotation.tokens import QUALIFIERS, WORDS, Sentence, forms, root, sentences_of
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import ABBREVIATION, EXACT, NEAREST, Result
from alphita.errors import UsageError
from alphita.index.store import Index
from alphita.mappings.record import Decision
from alphita.mention.schwartz_hearst import find_pairs
from alphita.terminology.text import clean, clean_many


@dataclass(frozen=True)
class Settings:
    """What is found and kept; `precision` and the three `*_confidence` are least confidences, 0 to 1.

    `name`: a name but for order and inflection; `alike`: with an equivalent word, or of its roots; `phrase`: others.
    """

    exact: bool = False
    precision: float | None = None
    name_confidence: float = 0.5
    alike_confidence: float = 0.56
    phrase_confidence: float = 0.73
    context_rules: Path | None = None

    def __post_init__(self) -> None:
        for name in ("precision", "name_confidence", "alike_confidence", "phrase_confidence"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"{name} must be between 0 and 1, not {value}")
        if self.exact and self.precision is not None:
            raise UsageError("exact mentions have no confidence to choose by; leave out either exact or precision")


class _SpannedSentence(NamedTuple):
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

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        """The short forms of clinics of which the terminology has a meaning."""
        forms = self.normalizer.index.segment.short_forms
        return frozenset(forms.filter(forms.column("known")).column("short").to_pylist() if forms is not None else ())

    def _check(self) -> None:
        if self.settings.precision is not None and self.normalizer.calibration is None:
            raise UsageError("a precision is chosen by the confidence, and this index has none: alphita calibrate")

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        """Return the documents with their mentions, in order; their strings are asked together."""
        texts = [lines_of(document.text) for document in documents]
        sentences_of_texts = [sentences_of(lines.text) for lines in texts]
        if not self.settings.exact:
            sentences_of_texts = self._answers.spelt(texts, sentences_of_texts)
        asked = [
            self._spanned_sentences(lines.text, some) for lines, some in zip(texts, sentences_of_texts, strict=True)
        ]
        spans = [span for sentences in asked for sentence in sentences for span in sentence.spans]
        answers = iter(self._answers.look_up(spans) if self.settings.exact else self._answers.judge(spans))
        annotated = []
        for document, lines, sentences in zip(documents, texts, asked, strict=True):
            contexts = self.rules.read(lines.text, [sentence.sentence for sentence in sentences])
            annotations: list[Annotation] = []
            for place, sentence in enumerate(sentences):
                candidates = [answer for _ in sentence.spans if (answer := next(answers)) is not None]
                kept = [one for one in candidates if self._is_kept(one) and not contexts.parts(one.start, one.end)]
                standing = settle(kept)
                mentions = [piece for candidate in standing for piece in candidate.pieces]
                for candidate in standing:
                    start, end, pieces = candidate.start, candidate.end, candidate.pieces
                    said = contexts.of(place, pieces, mentions), modifiers_of(sentence.sentence, start, end)
                    if candidate.decision == "accept" and contexts.is_unclear(place, pieces, mentions):
                        candidate = candidate._replace(decision="review")
                    annotation = Annotation(start, end, lines.text[start:end], pieces, *candidate[2:8], *said)
                    annotations.append(lines.given_annotation(annotation))
            annotated.append(Annotated(document, tuple(annotations)))
        return annotated

    def _spanned_sentences(self, text: str, sentences: Sequence[Sentence]) -> list[_SpannedSentence]:
        """Return the sentences of a text, each with the spans to be asked."""
        # What the text defines, "congestive heart failure (CHF)", it means from there on and before.
        defined: dict[str, str | None] = {}
        if not self.settings.exact:
            defined = dict.fromkeys(_BRACKETED.findall(text)) | {pair.short: pair.long for pair in find_pairs(text)}
        asked_of = []
        for sentence in sentences:
            hits = sorted(self._finder.find(text, sentence, alike=not self.settings.exact), key=_start)
            halves = [Place(hit.pieces[0].start, hit.pieces[-1].end) for hit in hits if hit.is_half(hits)]
            spans = {}
            for hit in hits:
                meant = _meant(hit.asked, defined, self._known)
                if meant is None:
                    continue
                whole = next((text[slice(*place)] for place in halves if _is_within(hit.pieces, place)), None)
                spans[hit.pieces] = Span(hit.pieces, meant, hit if meant == hit.asked else None, whole=whole)
            if not self.settings.exact:
                for window in self._windows.of(text, sentence):
                    asked = _meant(text[window.start : window.end], defined, self._known)
                    if (window,) in spans or asked is None or is_code(asked):
                        continue
                    near = hits[bisect_left(hits, window.start, key=_start) : bisect_left(hits, window.end, key=_start)]
                    within = frozenset(hit.row for hit in near if _is_within(hit.pieces, window))
                    spans[(window,)] = Span((window,), asked, None, within)
            asked_of.append(_SpannedSentence(sentence, list(spans.values())))
        return asked_of

    def _is_kept(self, candidate: Candidate) -> bool:
        if candidate.confidence is None:
            # Without calibration only what is a name can be told to be right.
            return candidate.is_name
        settings = self.settings
        least = settings.alike_confidence if candidate.is_alike else settings.phrase_confidence
        least = settings.name_confidence if candidate.is_name else least
        return candidate.confidence >= (least if settings.precision is None else settings.precision)


def _meant(asked: str, defined: Mapping[str, str | None], known: Container[str]) -> str | None:
    """Return what a string means; None: a short form where others are defined, or in brackets ("dystrophy (DM)").

    One that is `known` to clinics is written without its meaning even where others are defined ("HTN").
    """
    if asked in defined or (any(defined.values()) and is_short_form(asked) and asked not in known):
        return defined.get(asked)
    return asked


# A short form in brackets, behind what may be its long form.
_BRACKETED = re.compile(r"(?<=\w )\(([A-Z][A-Za-z0-9-]{1,9})\)")


def _start(hit: Hit) -> int:
    return hit.pieces[0].start


def _is_within(pieces: Sequence[Place], place: Place) -> bool:
    return pieces != (place,) and place.holds(Place(pieces[0].start, pieces[-1].end))


# What a name may say beyond a phrase.
_GENERAL = frozenset(map(root, (*QUALIFIERS, "abnormality", "morphology", "morphological", "disorder", "disease")))
_SIDES = frozenset(map(root, WORDS["side"]))
_NORMAL = root("normal")
# Beginnings of words that say that what follows is absent; the longest first.
_DENIALS = ("non", "un", "an", "in", "a")
# Answers kept for strings that come again.
MAX_KEPT = 200_000
LEFT_OUT = "left_out.tsv"
# Strings that the normalizer is asked together: more take memory and are no quicker.
ASKED_AT_ONCE = 1_024


class Span(NamedTuple):
    """What is asked of a place; `hit` None: a phrase, in which the names `within` (rows of the index) stand.

    `whole`: the words around a hit, of which another part is no name; they are asked too.
    """

    pieces: tuple[Place, ...]
    asked: str
    hit: Hit | None
    within: frozenset[int] = frozenset()
    whole: str | None = None


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
        wanted = dict.fromkeys(span.asked for span in spans if self._is_asked(span))
        wanted |= dict.fromkeys(span.whole for span in spans if span.whole is not None)
        asked = [string for string in wanted if string not in known]
        for start in range(0, len(asked), ASKED_AT_ONCE):
            some = asked[start : start + ASKED_AT_ONCE]
            known.update(zip(some, self.normalizer.normalize(some), strict=True))
        found = [self._candidate(span, known[span.asked]) if self._is_asked(span) else None for span in spans]
        return [
            self._of_whole(span.whole, one) if one and span.whole else one
            for span, one in zip(spans, found, strict=True)
        ]

    def _of_whole(self, whole: str, candidate: Candidate) -> Candidate | None:
        """Return what a name is where it is but a part of what is said: the answer for all, or for review."""
        result = self._known[whole]
        if result.concept_id is None and len(candidate.pieces) > 1:
            return None
        if result.decision != "accept":
            return candidate._replace(decision="review", is_certain=False)
        return self._candidate(Span((Place(candidate.start, candidate.end),), whole, None), result)

    def spelt(self, texts: Sequence[Lines], sentences: Sequence[list[Sentence]]) -> list[list[Sentence]]:
        """Return sentences in which misspelt words have the forms of the index's words."""
        words = {token.form for some in sentences for sentence in some for token in sentence.tokens}
        right = self.normalizer.misspelt(words)
        if not right:
            return list(sentences)
        return [
            [sentence.spelt(lines.text, right) for sentence in some]
            for lines, some in zip(texts, sentences, strict=True)
        ]

    def _is_asked(self, span: Span) -> bool:
        """Tell whether a span is a name, or a phrase with letters of one that does not stand in it by itself."""
        if span.hit is not None:
            return True
        near = self._nearest[span.asked]
        return near is not None and near not in span.within

    def _candidate(self, span: Span, result: Result) -> Candidate | None:
        if result.concept_id is None or result.concept_id in self._left_out:
            return None
        asked, matched, hit = span.asked, str(result.matched_term), span.hit
        level = None if hit is None else hit.level
        by_abbreviation = result.method == ABBREVIATION
        is_of_hit = hit is not None and result.concept_id in self._concepts(hit.row)
        if (
            # "ie" and "ms" in small letters are words.
            (by_abbreviation and asked.islower() and " " not in asked)
            or (hit is None and not by_abbreviation and self._says_more(asked, matched))
            or (hit is None and self._is_strange(matched))
            or ((level is None or level >= Level.ROOTS) and _denies(asked, matched))
            or (level == Level.MISSPELT and (by_abbreviation or not is_of_hit))
        ):
            return None
        is_name = level is not None and level < Level.ROOTS
        return Candidate(
            span.pieces,
            asked,
            result.concept_id,
            str(result.concept_name),
            matched,
            of_found(result.confidence) if result.confidence is not None else None,
            result.decision,
            ABBREVIATION if by_abbreviation else EXACT if is_name else NEAREST,
            is_name,
            is_of_hit and (level == Level.ALIKE or " " in asked),
            result.decision == "accept" or level == Level.SAME,
        )

    def look_up(self, spans: Sequence[Span]) -> list[Candidate | None]:
        """Return the concept that each span is a name of, by the index alone, without confidence; others are None."""
        found: list[Candidate | None] = []
        for span in spans:
            hit, named = span.hit, None
            if hit is not None and hit.level < Level.ALIKE and (hit.level < Level.ROOTS or " " in span.asked):
                if hit.row not in self._named:
                    self._named[hit.row] = self._name(span, hit.row)
                named = self._named[hit.row]
            if named is not None and hit is not None:
                named = named._replace(pieces=span.pieces, asked=span.asked)
                named = named._replace(decision="review", method=NEAREST) if hit.level == Level.ROOTS else named
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

    def _says_more(self, asked: str, matched: str) -> bool:
        """Tell whether a name has all that a phrase says, and more: "low IQ" for "IQ"."""
        said, named = ({root(form) for form in forms(clean(one))} - {""} for one in (asked, matched))
        return said - _SIDES < named - _GENERAL

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


def _denies(asked: str, matched: str) -> bool:
    """Tell whether words say "normal", or deny with their beginning ("anicteric") what a name affirms."""
    named = {root(form) for form in forms(clean(matched))}
    for form in forms(clean(asked)):
        if root(form) in named:
            continue
        denied = next((form.removeprefix(one) for one in _DENIALS if form.startswith(one)), "")
        if root(form) == _NORMAL or (denied and root(denied) in named):
            return True
    return False


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


class Candidate(NamedTuple):
    """A span that may stand; `is_name`: it is a name but for order and inflection, `is_alike`: equivalent to one."""

    pieces: tuple[Place, ...]
    asked: str
    # From here to `method` as an `Annotation` has them.
    concept_id: str
    concept_name: str
    matched_term: str
    confidence: float | None
    decision: Decision | None
    method: str
    is_name: bool
    is_alike: bool
    is_certain: bool

    @property
    def start(self) -> int:
        return self.pieces[0].start

    @property
    def end(self) -> int:
        return self.pieces[-1].end

    @property
    def length(self) -> int:
        return sum(piece.size for piece in self.pieces)


def settle(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of one sentence that stand, by their place."""
    return [one for some in _touching(candidates) for one in _settled(some)]


def _touching(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Yield the candidates in groups, from left to right: what overlaps is in one group."""
    group: list[Candidate] = []
    end = 0
    for one in sorted(candidates, key=lambda one: one.start):
        if group and one.start >= end:
            yield group
            group = []
        end = max(end, one.end) if group else one.end
        group.append(one)
    if group:
        yield group


def _settled(candidates: Sequence[Candidate]) -> list[Candidate]:
    ordered = sorted(candidates, key=_rank)
    standing: list[Candidate] = []
    for one in ordered:
        if any(_excludes(other, one) for other in standing) or any(_gives_way(one, other) for other in ordered):
            continue
        standing.append(one)
    return sorted(standing, key=lambda one: (one.start, one.end, one.concept_id))


def _rank(one: Candidate) -> tuple[bool, int, float, int, str]:
    confidence = one.confidence if one.confidence is not None else 1.0
    return not one.is_certain, -one.length if one.is_certain else 0, -confidence, one.start, one.concept_id


def _excludes(standing: Candidate, one: Candidate) -> bool:
    if len(standing.pieces) > 1 or len(one.pieces) > 1:
        # Parts that share a head share its place.
        return _within(one.pieces, standing.pieces)
    if one.is_name and standing.is_name and one.is_certain and standing.is_certain and _cross(one, standing):
        # "Congenital contractures of the limbs": congenital contractures, and contractures of the limbs.
        return False
    return one.start < standing.end and standing.start < one.end


def _cross(one: Candidate, other: Candidate) -> bool:
    first, last = sorted((one, other), key=lambda candidate: candidate.start)
    return first.start < last.start < first.end < last.end


def _within(inner: Sequence[Place], outer: Sequence[Place]) -> bool:
    return all(any(other.holds(one) for other in outer) for one in inner)


def _gives_way(one: Candidate, other: Candidate) -> bool:
    """Tell whether a phrase cuts a name in two ("bilateral breast" cancer), or a part of it says as much."""
    if one.is_name:
        return False
    return (other.is_name and other.is_certain and len(other.pieces) == 1 and _cross(one, other)) or (
        other.concept_id == one.concept_id
        and other.length < one.length
        and _within(other.pieces, one.pieces)
        and (other.is_certain or not one.is_certain)
    )
