"""Short forms, their meanings, and how they are matched in a mention; the user's list of short forms.

A short form matches as it is written, and in another case too ("chf"), unless it is written with capitals and its lower
case is a common word, a unit or a single letter: "all" is not ALL. In a text of ordinary words entirely in capitals,
such a short form does not match at all: "PAIN IN ALL LIMBS". "CHFs" matches CHF.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from alphita import progress, textio
from alphita.errors import InputError
from alphita.mention.schwartz_hearst import singular
from alphita.terminology.languages import ENGLISH, over_english, primary
from alphita.terminology.rules import lexicon
from alphita.terminology.text import DEFAULT_RULES, clean

if TYPE_CHECKING:
    from alphita.index.store import Index

TOKEN = re.compile(r"[^\W_]+\+*")
# Longer short forms match only as whole mentions.
MAX_TOKENS = 3
ORDINARY_LETTERS = 5
_CASED_RULES = tuple(rule for rule in DEFAULT_RULES if rule != "lowercase")

# English; units; articles and prepositions of German, French, Spanish, Italian, Portuguese and Dutch.
COMMON = frozenset(lexicon.meanings("common word"))


class Meaning(NamedTuple):
    """One meaning of a short form.

    Attributes:
        names: other names of the same concept, which help to recognise it by its context.
        language: of the long form (BCP-47), or None for any.
        share: how often the short form has this meaning, 0 to 1; 1 if unknown.
    """

    short: str
    long: str
    names: tuple[str, ...] = ()
    language: str | None = None
    share: float = 1.0


NOTHING: Mapping[str, Meaning] = {}


class ShortForms:
    """The short forms of one source, each with its meanings, most likely first."""

    def __init__(self) -> None:
        self._meanings: dict[str, dict[str, Meaning]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self.first_tokens: set[str] = set()

    def add(self, meaning: Meaning, times: int = 1) -> None:
        """Add a meaning with its count; counts of equal meanings (after cleaning) are added."""
        key, long = written(meaning.short).lower(), clean(meaning.long)
        found = TOKEN.findall(key)
        if not found or not long:
            return
        self._meanings.setdefault(key, {}).setdefault(long, meaning)
        self._counts[key, long] = self._counts.get((key, long), 0) + times
        # Also "chfs", and "chf" if the plural was defined.
        self.first_tokens.update((found[0], found[0] + "s"))
        if singular(meaning.short) is not None:
            self.first_tokens.add(found[0].removesuffix("s"))

    def changed(self, lost: Iterable[Meaning], gained: Iterable[Meaning]) -> ShortForms:
        """Return a copy with the counts of `lost` reduced by one, and with the meanings gained."""
        other = ShortForms()
        other._meanings, other._counts = dict(self._meanings), dict(self._counts)
        other.first_tokens = set(self.first_tokens)
        for meaning in lost:
            key, long = written(meaning.short).lower(), clean(meaning.long)
            if (key, long) not in other._counts:
                continue
            other._counts[key, long] -= 1
            if not other._counts[key, long]:
                del other._counts[key, long]
                other._meanings[key] = {one: known for one, known in other._meanings[key].items() if one != long}
        for meaning in gained:
            key = written(meaning.short).lower()
            other._meanings[key] = dict(other._meanings.get(key, {}))
            other.add(meaning)
        return other

    def meanings(self) -> Iterator[Meaning]:
        """Yield all meanings, grouped by short form."""
        for known in self._meanings.values():
            yield from known.values()

    def of(self, string: str, *, shouted: bool = False) -> list[Meaning]:
        """Return the meanings of a string, most frequent first, ties in the order in which they were added."""
        key, last = string.lower(), string[-1:]
        if key not in self._meanings and last != "s" and not last.isupper():
            return []
        found = [
            (self._counts[key, long], meaning)
            for long, meaning in self._meanings.get(key, NOTHING).items()
            if _matches(written(meaning.short), string, shouted)
        ]
        other = singular(string) if last == "s" else string + "s" if last.isupper() else None
        if not found and other is not None:
            key = other.lower()
            found = [
                (self._counts[key, long], meaning)
                for long, meaning in self._meanings.get(key, NOTHING).items()
                if written(meaning.short) == other
            ]
        return [meaning for _, meaning in sorted(found, key=lambda one: -one[0])] if found else []


def written(string: str) -> str:
    """Return a string cleaned, but with its case preserved."""
    return clean(string, _CASED_RULES)


def is_shouted(text: str) -> bool:
    """Whether a text is entirely in capitals and contains two ordinary words: common or long ones."""
    if not text.isupper():
        return False
    return sum(len(token) >= ORDINARY_LETTERS or token in COMMON for token in TOKEN.findall(text.lower())) > 1


def _matches(short: str, string: str, shouted: bool) -> bool:
    is_common = (string.lower() in COMMON or len(string) == 1) and short != short.lower()
    return (short == string and not shouted) if is_common else True


# The language code of short forms that apply to every language: those of external names.
ANY = ""
# Maximum meanings of one short form that are looked up.
MOST = 4
# Shares are counted in multiples of 1 / this; meanings that the terminology has precede all others.
PARTS = 1_000


# By this log-likelihood a mention must be likelier in another language than in English.
PROBABLY = 6.0


class OfLanguages(NamedTuple):
    """The short forms for one mention: those of its languages, and those of others, read in capitals only: "HTA"."""

    own: list[ShortForms]
    others: list[ShortForms]

    def of(self, string: str, *, shouted: bool = False) -> list[Meaning]:
        """Return the meanings of a string, most likely first, at most `MOST`; see `ShortForms.of`."""
        found = [one for forms in self.own for one in forms.of(string, shouted=shouted)]
        if not found and sum(sign.isupper() for sign in string) > 1:
            found = [one for forms in self.others for one in forms.of(string, shouted=shouted)]
        return found[:MOST]


class ClinicalAbbreviations:
    """Short forms by language."""

    def __init__(self, forms: Mapping[str, ShortForms] | None = None, spoken: frozenset[str] = frozenset()) -> None:
        self._forms, self._spoken = dict(forms or {}), spoken | {ANY}

    @classmethod
    def of_index(cls, index: Index) -> ClinicalAbbreviations:
        """Return the short forms stored in an index, if there are any."""
        table = index.segment.short_forms
        if table is None:
            return cls()
        forms: dict[str, ShortForms] = {}
        for row in table.to_pylist():
            of = forms.setdefault(primary(row["language"] or ANY), ShortForms())
            times = max(1, round(PARTS * row["share"])) + PARTS * bool(row["known"])
            of.add(Meaning(row["short"], row["long"], share=row["share"]), times)
        return cls(forms, _spoken(index))

    def __iter__(self) -> Iterator[ShortForms]:
        """Yield the short forms of each language."""
        return iter(self._forms.values())

    def for_mention(self, text: str, language: str | None) -> OfLanguages:
        """Return the short forms in the language of a mention (BCP-47).

        If it is not given, it is the likeliest by the mention's words, then the terminology's.
        """
        if language is not None:
            wanted = [ANY, primary(language)]
            return OfLanguages([self._forms[tag] for tag in wanted if tag in self._forms], [])
        tags = sorted(self._spoken & self._forms.keys())
        foreign = sorted(self._forms.keys() - self._spoken)
        tokens = TOKEN.findall(text.lower()) if foreign else []
        if any(not self._forms[tag].first_tokens.isdisjoint(tokens) for tag in foreign):
            guessed, over = over_english(text)
            if over > PROBABLY and guessed in foreign:
                tags.insert(0, guessed)
                foreign.remove(guessed)
        return OfLanguages([self._forms[tag] for tag in tags], [self._forms[tag] for tag in foreign])


def _spoken(index: Index) -> frozenset[str]:
    terms = index.segment.terms
    if "language" not in terms.column_names:
        return frozenset([ENGLISH])
    own = terms.column("language").filter(pa.array(~index.segment.borrowed))
    # If a terminology does not state its language, English is assumed.
    found = {primary(one) for one in own.unique().to_pylist() if one} - {"und"}
    return frozenset(found or [ENGLISH])


COLUMNS = ("short", "long")
# Maximum meanings of one short form after expansion, and maximum length of each.
MAX_MEANINGS = 8
MAX_CHARACTERS = 1_000


# Signs with which a short form can end.
SIGNS = "/+-."


class Found(NamedTuple):
    """A short form inside a text: its position and its meanings."""

    start: int
    end: int
    meanings: list[Meaning]


class _Row(NamedTuple):
    """A row of a user's list."""

    path: Path
    line: int
    meaning: Meaning

    def error(self, problem: str, field: str, value: str, remedy: str) -> InputError:
        return InputError(problem, file=self.path, line=self.line, field=field, value=value, remedy=remedy)


def read_list(path: Path) -> list[Meaning]:
    """Read a list; short forms inside long forms are expanded, the innermost first."""
    rows = list(_rows(path))
    forms = ShortForms()
    by_short: dict[str, list[_Row]] = {}
    for row in rows:
        forms.add(row.meaning)
        by_short.setdefault(written(row.meaning.short), []).append(row)
    held = {id(row): [*inside(written(row.meaning.long), [forms])] for row in rows}
    needs = {
        short: [written(meaning.short) for row in some for found in held[id(row)] for meaning in found.meanings]
        for short, some in by_short.items()
    }
    longs: dict[str, list[str]] = {}
    for short in _innermost_first(by_short, needs):
        texts = [text for row in by_short[short] for text in _replaced(row, held[id(row)], longs)]
        longs[short] = list(dict.fromkeys(texts))[:MAX_MEANINGS]
    return [row.meaning._replace(long=text) for row in rows for text in _replaced(row, held[id(row)], longs)]


def inside(text: str, forms: Sequence[ShortForms]) -> Iterator[Found]:
    """Yield the short forms in a text, left to right, not overlapping, longer ones first."""
    tokens = list(TOKEN.finditer(text))
    shouted = is_shouted(text)
    place = 0
    while place < len(tokens):
        first = tokens[place][0].lower()
        possible = [source for source in forms if first in source.first_tokens]
        if not possible:
            place += 1
            continue
        start = tokens[place].start()
        for count in range(min(MAX_TOKENS, len(tokens) - place), 0, -1):
            end = tokens[place + count - 1].end()
            meanings = _meanings(text[start:end], possible, shouted)
            if not meanings and text[end : end + 1] in SIGNS and text[end : end + 1]:
                # "w/" and "K+" end in a sign.
                meanings, end = _meanings(text[start : end + 1], possible, shouted), end + 1
            if meanings:
                yield Found(start, end, meanings)
                break
        place += count if meanings else 1


def _meanings(string: str, forms: Sequence[ShortForms], shouted: bool) -> list[Meaning]:
    return [meaning for source in forms for meaning in source.of(string, shouted=shouted)]


def _rows(path: Path) -> Iterator[_Row]:
    remedy = "begin the file with: short,long; put a cell that holds the delimiter in quotes"
    how = textio.Reading(tell=progress.say)
    for line, cells in textio.columns(path, COLUMNS, optional=("language",), remedy=remedy, how=how):
        short, long = (" ".join(cell.split()) for cell in cells[:2])
        row = _Row(path, line, Meaning(short, long, (), cells[2] or None))
        for name, cell in zip(COLUMNS, (short, long), strict=True):
            if not TOKEN.search(clean(cell)):
                raise row.error(
                    "no letter or digit" if cell else "an empty cell", name, cell, "fill it in or delete the row"
                )
        if clean(short) == clean(long):
            problem = "a short form that stands for itself"
            raise row.error(problem, "long", long, "give the long form or delete the row")
        yield row


def _replaced(row: _Row, found: list[Found], longs: dict[str, list[str]]) -> list[str]:
    if not found:
        return [row.meaning.long]
    text = written(row.meaning.long)
    pieces: list[list[str]] = []
    place = 0
    for start, end, meanings in found:
        choices = [long for meaning in meanings for long in longs[written(meaning.short)]]
        pieces += [[text[place:start]], list(dict.fromkeys(choices))]
        place = end
    pieces.append([text[place:]])
    texts = ["".join(choice) for choice in itertools.islice(itertools.product(*pieces), MAX_MEANINGS)]
    if max(map(len, texts)) > MAX_CHARACTERS:
        problem = f"its expansion has more than {MAX_CHARACTERS} characters"
        raise row.error(problem, "short", row.meaning.short, "write out the long form")
    return texts


def _innermost_first(by_short: dict[str, list[_Row]], needs: dict[str, list[str]]) -> Iterator[str]:
    """Yield each short form after the short forms that its long forms contain."""
    done: set[str] = set()
    for first in by_short:
        trail: dict[str, Iterator[str]] = {} if first in done else {first: iter(needs[first])}
        while trail:
            short = next(reversed(trail))
            following = next((need for need in trail[short] if need not in done), None)
            if following is None:
                del trail[short]
                done.add(short)
                yield short
            elif following in trail:
                names = list(trail)
                circle = " -> ".join([*names[names.index(following) :], following])
                problem = "short forms that stand for one another in a circle"
                raise by_short[following][0].error(problem, "long", circle, "write out one of the long forms")
            else:
                trail[following] = iter(needs[following])
