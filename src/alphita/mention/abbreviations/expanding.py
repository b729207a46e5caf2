"""What the abbreviations of a mention stand for.

What is known comes from four sources, kept apart and named in each result:

terminology  terms of type `abbreviation`: see `taught`.
input        definitions in the texts being normalised ("congestive heart failure (CHF)"). Those in the mention itself
             or in its own context silence every other meaning of the short form.
list         the user's own file (see `abbreviation_list`).
clinic       the list of general clinical short forms that an index keeps, and those among borrowed names. What is a
             name of the terminology goes before what is not, and what is meant oftener before what is rarer. One of a
             language is looked up for mentions of that language, and where a mention's language is not given, if the
             terminology speaks it.

Upper and lower case: see `short_forms`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from alphita.errors import InputError, UsageError
from alphita.mention.abbreviations import abbreviation_list
from alphita.mention.abbreviations.abbreviation_list import inside
from alphita.mention.abbreviations.from_terms import TeachingTerms
from alphita.mention.abbreviations.schwartz_hearst import find_pairs
from alphita.mention.abbreviations.short_forms import (
    COMMON,
    TOKEN,
    ClinicalAbbreviations,
    Meaning,
    ShortForms,
    is_shouted,
    written,
)
from alphita.terminology.languages import primary
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.index.store import Index

Source = Literal["terminology", "input", "list", "clinic"]
# Expansions of one mention.
MOST = 8
# Short forms that are written out in one mention: whoever has more of them gave a whole text.
MAX_SPANS = 64
_FORMAT = 1


class Expansion(NamedTuple):
    """One thing that a mention may mean.

    Attributes:
        short: the abbreviation, as its source writes it; several are joined by "; ".
        long: what it was taken to stand for; several are joined by "; ".
        source: "terminology", "input", "list" or "clinic"; several are joined by "; ".
        decided: whether the mention's own text or its context singled this one out.
        share: how often that is meant where the short forms stand, 0 to 1.
    """

    string: str
    short: str
    long: str
    source: str
    decided: bool = False
    share: float = 1.0


class _Choice(NamedTuple):
    """One meaning of a short form where it stands in a mention."""

    meaning: Meaning
    source: Source
    decided: bool


class _Span(NamedTuple):
    """Where a short form stands in a mention, what it may mean there, and the cleaned words around it."""

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
        """Return the abbreviations that an index's terms teach; only terms of exact scope do."""
        return cls(TeachingTerms(index).taught.meanings(), clinic=ClinicalAbbreviations.of_index(index))

    def without(self, lost: Iterable[Meaning], gained: Iterable[Meaning] = ()) -> Abbreviations:
        """Return these abbreviations less what the terminology teaches no more, and with what it would teach then."""
        other = Abbreviations(clinic=self.clinic)
        other._sources = {**self._sources, "terminology": self._sources["terminology"].changed(lost, gained)}
        return other

    def with_list(self, path: Path | str) -> Abbreviations:
        """Return these abbreviations and those of a user's list; a list taken in before is replaced."""
        other = Abbreviations((), abbreviation_list.read(Path(path)), self.clinic)
        other._sources["terminology"] = self._sources["terminology"]
        for meaning in self._sources["input"].meanings():
            other._sources["input"].add(meaning)
        return other

    def with_clinic(self, clinic: ClinicalAbbreviations) -> Abbreviations:
        """Return these abbreviations with the clinic's short forms that an index keeps."""
        other = Abbreviations(clinic=clinic)
        other._sources = self._sources
        return other

    def learn(self, texts: Iterable[str]) -> None:
        """Take in the definitions that stand in some texts, such as all mentions and contexts of a file."""
        for text in texts:
            for pair in find_pairs(text):
                self._sources["input"].add(Meaning(pair.short, pair.long))

    def learn_counted(self, definitions: Iterable[tuple[str, str, int]]) -> None:
        """Take in definitions that were found before: short form, long form, and how often; in the order found."""
        for short, long, times in definitions:
            self._sources["input"].add(Meaning(short, long), times)

    def expand(self, mention: str, context: str | None = None, language: str | None = None) -> list[Expansion]:
        """Return what one mention may mean; see `expand_many`."""
        return self.expand_many([mention], [context], [language])[0]

    def expand_many(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
    ) -> list[list[Expansion]]:
        """Return the expansions of each mention, likeliest first, at most 8; none where it has no abbreviation."""
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
        """Return what the terminology and the list teach, as plain JSON; nothing of the input, which may be private."""
        kept: dict[str, Any] = {"format": _FORMAT}
        for name in ("terminology", "list"):
            meanings = self._sources[name].meanings()
            kept[name] = [[meaning.short, meaning.long, list(meaning.names), meaning.language] for meaning in meanings]
        return kept

    @classmethod
    def from_json(cls, kept: Any) -> Abbreviations:  # noqa: ANN401
        """Make what `to_json` gave into abbreviations again."""
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
        choices = self._choices(stripped, shouted, whole, words, language)
        spans = [_Span(0, len(stripped), choices, " ")] if choices else []
        if not spans:
            for hit in inside(stripped, [*whole, *self._sources.values(), *self.clinic.of_language(language)]):
                rest = f" {clean(stripped[: hit.start])} {clean(stripped[hit.end :])} "
                said = (words or set()) | _words(rest)
                if choices := self._choices(stripped[hit.start : hit.end], shouted, whole, said, language):
                    spans.append(_Span(hit.start, hit.end, choices, rest))
                    if len(spans) == MAX_SPANS:
                        break
        if spans:
            for chosen in itertools.islice(itertools.product(*(span.choices for span in spans)), 2 * MOST):
                found.append(_written_out(stripped, spans, chosen))
        return _distinct(found, text)[:MOST]

    def _choices(
        self, string: str, shouted: bool, own: Sequence[ShortForms], words: set[str] | None, language: str | None
    ) -> list[_Choice]:
        """Return the meanings of one short form, likeliest first; `shouted` is told of the mention it stands in."""
        for source in own:
            if meanings := source.of(string, shouted=shouted):
                return [_Choice(meaning, "input", len(meanings) == 1) for meaning in meanings]
        choices: dict[str, _Choice] = {}
        for name, source in self._sources.items():
            for meaning in source.of(string, shouted=shouted):
                if _speaks(meaning.language, language):
                    choices.setdefault(clean(meaning.long), _Choice(meaning, name, False))
        if not any(one.source == "list" for one in choices.values()):
            for meaning in self.clinic.of(string, language, shouted=shouted):
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
    """Replace the definitions in a mention by their long forms; add to `forms` and to `found` what they say."""
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
    """Return the words of a text that carry meaning."""
    return {word for word in TOKEN.findall(clean(text)) if len(word) > 2 and word not in COMMON}


def _speaks(language: str | None, wanted: str | None) -> bool:
    if language is None or wanted is None:
        return True
    return primary(language) == primary(wanted)
