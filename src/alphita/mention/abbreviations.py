"""Expansion of abbreviations in a mention.

There are four sources: abbreviated terms of the terminology, definitions in the input (a definition in the mention or
its context excludes all other meanings), the user's list, and the clinical short forms stored in the index. Meanings
that the terminology has a name for come first, then the more frequent ones.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.mention.schwartz_hearst import find_pairs, is_short_form, stands_for
from alphita.mention.short_forms import (
    COMMON,
    TOKEN,
    ClinicalAbbreviations,
    Meaning,
    OfLanguages,
    ShortForms,
    inside,
    is_shouted,
    read_list,
    written,
)
from alphita.terminology.languages import primary
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.index.store import Index

ABBREVIATION = "abbreviation"
# Further names of a concept do not help to disambiguate a short form by its context.
MAX_NAMES = 12


class TermAbbreviations(NamedTuple):
    """Abbreviations of some terms: those that name a concept, and parts of terms with their counts."""

    whole: list[Meaning]
    parts: Counter[Meaning]

    def meanings(self) -> list[Meaning]:
        """Return all distinct abbreviations: those that name a concept first, then parts by number of terms."""
        return [*self.whole, *(part for part, _ in self.parts.most_common())]


class AbbreviationTerms:
    """The exact terms of concepts that have a term of type `abbreviation`, and the short forms derived from them.

    A term that differs from another exact term of its concept in only one part yields that part: "Abnormal RBC
    count" and "Abnormal red blood cell count". Otherwise a short term ("MI") is expanded to the first exact term that
    contains its letters ("Myocardial infarction"), or to the preferred name.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        terms, concept = index.segment.terms, index.segment.term_concept
        order, self._short = np.zeros(0, np.int64), np.zeros(0, bool)
        if "type" in terms.column_names:
            exact = _equal(terms, "scope", "exact") & ~index.segment.borrowed
            if "retired_concept" in terms.column_names:
                exact &= pc.is_null(terms.column("retired_concept")).to_numpy()
            short = exact & _equal(terms, "type", ABBREVIATION)
            order = np.flatnonzero(exact & np.isin(concept, np.unique(concept[short])))
            order = order[np.lexsort((order, index.segment.standing[order], concept[order]))]
            self._short = short[order]
        # Of the terms, concept by concept.
        self.term, self.concept = order, concept[order]
        self._strings = terms.column("string").take(order).to_pylist()
        languages = terms.column("language").take(order).to_pylist() if "language" in terms.column_names else None
        self._languages = languages or [None] * len(order)

    @functools.cached_property
    def abbreviations(self) -> TermAbbreviations:
        """All of them."""
        found = TermAbbreviations([], Counter())
        ends = np.flatnonzero(np.diff(self.concept, append=-1)) + 1
        for start, end in itertools.pairwise([0, *ends.tolist()]):
            self._collect(range(start, end), found)
        return found

    def without(self, concept: int, hidden: Collection[int]) -> tuple[list[Meaning], list[Meaning]]:
        """Return the abbreviations lost and gained if some terms of a concept are hidden."""
        rows = range(*np.searchsorted(self.concept, [concept, concept + 1]).tolist())
        left = [row for row in rows if int(self.term[row]) not in hidden]
        before, after = TermAbbreviations([], Counter()), TermAbbreviations([], Counter())
        if len(left) < len(rows):
            self._collect(rows, before)
            self._collect(left, after)
        changes = {part: after.parts[part] - times for part, times in before.parts.items()}
        lost = [one for one in before.whole if one not in after.whole]
        lost += [part for part, change in changes.items() if self.abbreviations.parts[part] + change <= 0]
        return lost, [one for one in after.whole if one not in before.whole]

    def _collect(self, rows: Sequence[int], found: TermAbbreviations) -> None:
        """Add the abbreviations of some terms of one concept."""
        shorts = [row for row in rows if self._short[row]]
        longs = list(dict.fromkeys(self._strings[row] for row in rows if not self._short[row]))
        for row in shorts:
            parts = dict.fromkeys(part for long in longs if (part := _part(self._strings[row], long)) is not None)
            found.parts.update(list(parts))
            # For a longer term only the part is stored: the whole term is found as a term anyway.
            if not parts and is_short_form(self._strings[row]):
                preferred = self.index.segment.concepts.column("name")[int(self.concept[row])].as_py()
                meaning = _of_concept(self._strings[row], longs, preferred, self._languages[row])
                found.whole.extend([meaning] if meaning is not None else [])


def _equal(terms: pa.Table, name: str, value: str) -> NDArray[np.bool_]:
    return np.array(pc.fill_null(pc.equal(terms.column(name), value), False).to_numpy(), bool)


def _of_concept(short: str, longs: Sequence[str], preferred: str, language: str | None) -> Meaning | None:
    long = next((long for long in longs if len(long) > len(short) and stands_for(short, long)), preferred)
    if clean(long) == clean(short):
        return None
    others = tuple(name for name in longs if name != long)[:MAX_NAMES]
    return Meaning(short, long, others, language)


def _part(short: str, long: str) -> Meaning | None:
    """Return the one part in which two terms differ, if it is an abbreviation there."""
    left, right = short.split(), long.split()
    most = min(len(left), len(right))
    head = 0
    while head < most and left[head].lower() == right[head].lower():
        head += 1
    tail = 0
    while tail < most - head and left[-1 - tail].lower() == right[-1 - tail].lower():
        tail += 1
    if head + tail == 0 or len(left) - head - tail != 1 or len(right) - head - tail < 1:
        return None
    part, whole = left[head], " ".join(right[head : len(right) - tail])
    capitals = sum(sign.isupper() or sign.isdigit() for sign in part)
    # "Low" can begin a term; "Hb" inside a term is not an ordinary word.
    is_short = is_short_form(part) and (capitals > 1 or (capitals == 1 and len(part) <= 3 and head > 0))
    return Meaning(part, whole) if is_short and len(whole) > len(part) and stands_for(part, whole) else None


Source = Literal["terminology", "input", "list", "clinic"]
# Expansions of one mention.
MOST = 8
# Maximum short forms looked at in one mention: a string with more is a whole text.
MAX_SPANS = 64
_FORMAT = 1


class Expansion(NamedTuple):
    """One reading of a mention, with one or more short forms expanded; "; " joins them, and their sources.

    Attributes:
        decided: whether the mention or its context determines this meaning.
        share: how often the short forms have this meaning, 0 to 1.
    """

    string: str
    short: str
    long: str
    source: str
    decided: bool = False
    share: float = 1.0


class _Choice(NamedTuple):
    """One meaning of a short form at its position in a mention."""

    meaning: Meaning
    source: Source
    decided: bool


class _Span(NamedTuple):
    """A short form's position in a mention, its possible meanings, and the cleaned words around it."""

    start: int
    end: int
    choices: list[_Choice]
    rest: str


class Abbreviations:
    """All abbreviations that a normaliser knows."""

    def __init__(
        self,
        terminology: Iterable[Meaning] = (),
        listed: Iterable[Meaning] = (),
        clinic: ClinicalAbbreviations | None = None,
    ) -> None:
        self.clinic = clinic or ClinicalAbbreviations()
        self._sources: dict[Source, ShortForms] = {
            "list": ShortForms(),
            "input": ShortForms(),
            "terminology": ShortForms(),
        }
        for source, meanings in (("terminology", terminology), ("list", listed)):
            for meaning in meanings:
                self._sources[source].add(meaning)  # type: ignore[index]

    @classmethod
    def of_index(cls, index: Index) -> Abbreviations:
        """Return the abbreviations of an index's exact terms."""
        return cls(AbbreviationTerms(index).abbreviations.meanings(), clinic=ClinicalAbbreviations.of_index(index))

    def without(self, lost: Iterable[Meaning], gained: Iterable[Meaning] = ()) -> Abbreviations:
        """Return these abbreviations without those that the terminology loses, and with those that it gains."""
        other = Abbreviations(clinic=self.clinic)
        other._sources = {**self._sources, "terminology": self._sources["terminology"].changed(lost, gained)}
        return other

    def with_list(self, path: Path | str) -> Abbreviations:
        """Return these abbreviations and those of a user's list, which replaces an earlier list."""
        other = Abbreviations((), read_list(Path(path)), self.clinic)
        other._sources["terminology"] = self._sources["terminology"]
        for meaning in self._sources["input"].meanings():
            other._sources["input"].add(meaning)
        return other

    def with_clinic(self, clinic: ClinicalAbbreviations) -> Abbreviations:
        """Return these abbreviations with the clinical short forms stored in an index."""
        other = Abbreviations(clinic=clinic)
        other._sources = self._sources
        return other

    def learn(self, texts: Iterable[str]) -> None:
        """Learn the definitions in some texts, such as all mentions and contexts of a file."""
        for text in texts:
            for pair in find_pairs(text):
                self._sources["input"].add(Meaning(pair.short, pair.long))

    def learn_counted(self, definitions: Iterable[tuple[str, str, int]]) -> None:
        """Learn definitions that were already extracted: short form, long form and count, in the order found."""
        for short, long, times in definitions:
            self._sources["input"].add(Meaning(short, long), times)

    def expand(self, mention: str, context: str | None = None, language: str | None = None) -> list[Expansion]:
        """Return the expansions of one mention; see `expand_many`."""
        return self.expand_many([mention], [context], [language])[0]

    def expand_many(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
    ) -> list[list[Expansion]]:
        """Return the expansions of each mention, most likely first, at most 8; none if it has no abbreviation."""
        for name, values in (("contexts", contexts), ("languages", languages)):
            if values is not None and len(values) != len(mentions):
                raise UsageError(f"{len(mentions)} mentions, but {len(values)} {name}")
        known = [source.first_tokens for source in (*self._sources.values(), *self.clinic) if source.first_tokens]
        read: dict[str, ShortForms] = {}
        tokens_of = TOKEN.findall
        expansions: list[list[Expansion]] = []
        for place, mention in enumerate(mentions):
            text = mention if mention.isascii() else written(mention)
            context = contexts[place] if contexts is not None else None
            own = None
            if context is not None:
                own = read.get(context)
                if own is None:
                    own = read[context] = _defined(context)
            tokens = tokens_of(text.lower())
            if (
                all(some.isdisjoint(tokens) for some in known)
                and (own is None or own.first_tokens.isdisjoint(tokens))
                and not ("(" in text or "[" in text)
            ):
                expansions.append([])
                continue
            language = languages[place] if languages is not None else None
            expansions.append(self._expand(written(mention), own, context, language))
        return expansions

    def to_json(self) -> dict[str, Any]:
        """Return those of the terminology and the list as plain JSON, but not those of the input, which may be
        private."""
        kept: dict[str, Any] = {"format": _FORMAT}
        for name in ("terminology", "list"):
            meanings = self._sources[name].meanings()
            kept[name] = [[meaning.short, meaning.long, list(meaning.names), meaning.language] for meaning in meanings]
        return kept

    @classmethod
    def from_json(cls, kept: Any) -> Abbreviations:  # noqa: ANN401
        """Restore abbreviations from the output of `to_json`."""
        try:
            if kept["format"] != _FORMAT:
                raise ValueError(f"format {kept['format']}, this alphita reads {_FORMAT}")
            parts = [
                [
                    Meaning(str(short), str(long), tuple(map(str, names)), language)
                    for short, long, names, language in kept[name]
                ]
                for name in ("terminology", "list")
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"damaged abbreviations: {error}", remedy="calibrate again") from None
        return cls(parts[0], parts[1])

    def _expand(self, text: str, own: ShortForms | None, context: str | None, language: str | None) -> list[Expansion]:
        found: list[Expansion] = []
        in_mention = ShortForms()
        stripped = _without_definitions(text, in_mention, found)
        words = None if context is None else _words(context)
        whole = [source for source in (in_mention, own) if source is not None]
        shouted = is_shouted(stripped)
        clinic = self.clinic.for_mention(stripped, language)
        choices = self._choices(stripped, shouted, whole, words, language, clinic)
        spans = [_Span(0, len(stripped), choices, " ")] if choices else []
        if not spans:
            hits = inside(stripped, [*whole, *self._sources.values(), *clinic.own, *clinic.others])
            for hit in itertools.islice(hits, MAX_SPANS):
                rest = f" {clean(stripped[: hit.start])} {clean(stripped[hit.end :])} "
                words_around, short = (words or set()) | _words(rest), stripped[hit.start : hit.end]
                if choices := self._choices(short, shouted, whole, words_around, language, clinic):
                    spans.append(_Span(hit.start, hit.end, choices, rest))
        if spans:
            for chosen in itertools.islice(itertools.product(*(span.choices for span in spans)), 2 * MOST):
                found.append(_written_out(stripped, spans, chosen))
        return _distinct(found, text)[:MOST]

    def _choices(
        self,
        string: str,
        shouted: bool,
        own: Sequence[ShortForms],
        words: set[str] | None,
        language: str | None,
        clinic: OfLanguages,
    ) -> list[_Choice]:
        """Return the meanings of a short form, most likely first; `shouted` describes the mention that contains it."""
        for source in own:
            if meanings := source.of(string, shouted=shouted):
                return [_Choice(meaning, "input", len(meanings) == 1) for meaning in meanings]
        choices: dict[str, _Choice] = {}
        for name, source in self._sources.items():
            for meaning in source.of(string, shouted=shouted):
                if _speaks(meaning.language, language):
                    choices.setdefault(clean(meaning.long), _Choice(meaning, name, False))
        if not any(one.source == "list" for one in choices.values()):
            for meaning in clinic.of(string, shouted=shouted):
                choices.setdefault(clean(meaning.long), _Choice(meaning, "clinic", False))
        if not words or not choices:
            return list(choices.values())
        scores = {
            one: len(words & _words(" ".join((one.meaning.long, *one.meaning.names)))) for one in choices.values()
        }
        best, *others = sorted(scores, key=lambda one: -scores[one])
        is_decided = scores[best] > max((scores[one] for one in others), default=0)
        return [best._replace(decided=is_decided), *others]


def _without_definitions(text: str, forms: ShortForms, found: list[Expansion]) -> str:
    """Replace the definitions in a mention by their long forms; add them to `forms` and `found`."""
    pieces, place, pairs = [], 0, []
    for pair in sorted(find_pairs(text), key=lambda pair: (pair.start, -pair.end)):
        if pair.start < place:
            continue
        forms.add(Meaning(pair.short, pair.long))
        pairs.append(pair)
        pieces += [text[place : pair.start], pair.long]
        place = pair.end
    stripped = written("".join((*pieces, text[place:])))
    if pairs:
        joined = "; ".join(pair.short for pair in pairs), "; ".join(pair.long for pair in pairs)
        found.append(Expansion(stripped, *joined, "input", True))
        found.extend(Expansion(pair.long, pair.short, pair.long, "input", True) for pair in pairs)
    return stripped


def _written_out(text: str, spans: Sequence[_Span], chosen: tuple[_Choice, ...]) -> Expansion:
    pieces, place = [], 0
    for span, choice in zip(spans, chosen, strict=True):
        is_said = f" {clean(choice.meaning.long)} " in span.rest
        # "w/sob" is "with sob".
        gap = " " if text[span.end - 1 : span.end] == "/" else ""
        pieces += [text[place : span.start], "" if is_said else choice.meaning.long + gap]
        place = span.end
    string = " ".join("".join((*pieces, text[place:])).split())
    parts = zip(*((one.meaning.short, one.meaning.long, one.source) for one in chosen), strict=True)
    short, long, source = ("; ".join(dict.fromkeys(part)) for part in parts)
    open_ones = [one for one, span in zip(chosen, spans, strict=True) if len(span.choices) > 1]
    decided = all(one.decided for one in open_ones) and any(one.decided for one in chosen)
    share = math.prod(one.meaning.share for one in chosen)
    return Expansion(string, short, long, source, decided, share)


def _distinct(found: Iterable[Expansion], text: str) -> list[Expansion]:
    seen = {clean(text), ""}
    kept = []
    for one in found:
        if (string := clean(one.string)) not in seen:
            seen.add(string)
            kept.append(one)
    return kept


def _defined(text: str) -> ShortForms:
    forms = ShortForms()
    for pair in find_pairs(text):
        forms.add(Meaning(pair.short, pair.long))
    return forms


def _words(text: str) -> set[str]:
    """Return the content words of a text."""
    return {word for word in TOKEN.findall(clean(text)) if len(word) > 2 and word not in COMMON}


def _speaks(language: str | None, wanted: str | None) -> bool:
    if language is None or wanted is None:
        return True
    return primary(language) == primary(wanted)
