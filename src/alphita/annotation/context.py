"""What a text says of its mentions: that they are negated, possible, of the family, historical or hypothetical.

Source: H. Harkema, J. N. Dowling, T. Thornblade, W. W. Chapman: ConText: an algorithm for determining negation,
experiencer, and temporal status from clinical reports. J Biomed Inform 42 (2009): cues with a direction and a reach,
phrases that end a reach, and phrases that only look like a cue. The rules, `mention.cues`, are our own: at each place
the longest phrase counts, a cue within the mention says nothing of it, and the rules of all languages apply.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from alphita.annotation.forms import Item, items_of
from alphita.annotation.spans import Context, Modifier, Place
from alphita.annotation.tokens import CONJUNCTIONS, Sentence
from alphita.mention import cues as table
from alphita.mention.cues import AHEAD, CATEGORIES, CLAUSE, END, SECTION, UNCLEAR, Category, Rule, Word
from alphita.mention.cues.values import PRESENT
from alphita.terminology.languages import likelihoods
from alphita.terminology.rules.lexicon import bare

_SIGNS = frozenset("?;:()-+.,")
# Signs, which do not count, that a reach has for each of its words.
MAX_SIGNS = 8
_HEADING = re.compile(r"[ \t]*(?:[^\W\d_][^\n:]{0,40}:|[A-ZÄÖÜÀÉÈ][A-ZÄÖÜÀÉÈ /&-]{2,40}[ \t]*(?:\n|\Z))")
_BLANK = re.compile(r"\n[ \t]*\n")
# Behind a cue that ends its line, or has some words and a colon behind it: up to the first sign of the next line.
_BELOW = re.compile(r"(?:(?:[ \t]++[^\W\d_]++){0,6}[ \t]*+(:)|)[ \t]*+\n[ \t]*+(?=\S)")
_BULLETS = re.compile(r"(?>(?:[ \t]*+(?:[-–—*•·]|\d{1,3}[.)])[ \t]++[^\n]++(?:\n|\Z))+)")
# Characters by which a text's language is told.
LOOKED_AT = 2_000
_OR = frozenset({"or", "nor", "oder", "noch", "ou", "ni", "o", "u", "ne"})
_JOINS = frozenset(
    {"and", "or", "nor", "und", "oder", "sowie", "noch", "et", "ou", "ni", "y", "e", "o", "u", "ed", "ne"}
)
_BEFORE_CLAUSE = frozenset({",", ";", ":", "(", ".", "but", "and", "aber", "und", "mais", "et", "pero", "y", "ma", "e"})
_PLURAL = frozenset(
    {"were", "are", "have", "werden", "wurden", "sind", "waren", "fehlen", "liegen", "lagen", "finden", "fanden"}
    | {"traten", "ergaben", "sont", "etaient", "ont", "son", "estan", "han", "sono", "hanno", "all", "none", "these"}
    | {"them", "those", "davon", "escluse", "negate", "assenti", "risolte"}
)
COMMA, SEMICOLON, COLON, STOP, BACK = ",", ";", ":", ".", "back"
NEGATED, POSSIBLE, FAMILY, HISTORICAL = "negated", "possible", "family", "historical"
_REACHING = (*CATEGORIES, UNCLEAR)


_Match = tuple[int, int, list[Rule]]


class _Cue(NamedTuple):
    """A cue where it stands: its context, and the characters that it reaches, from `low` to `high`.

    `unless`: one that counts only if no mention begins from there to the cue.
    """

    context: Context
    low: int
    high: int
    unless: int | None = None


class _Among(NamedTuple):
    """The cues of a sentence that count among its mentions, and the beginnings of those that negate one."""

    cues: list[_Cue]
    negating: frozenset[int]


class Contexts:
    """The cues of one text, sentence by sentence, and the items of its forms."""

    def __init__(self, cues: Sequence[Sequence[_Cue]], items: Sequence[Item], text: str) -> None:
        self._cues, self._items, self._text = cues, items, text
        self._values = sorted(item.value for item in items)
        self._last: tuple[int, Sequence[Place], _Among] | None = None

    def of(self, sentence: int, pieces: Sequence[Place], mentions: Sequence[Place] = ()) -> tuple[Context, ...]:
        """Return what is said of a mention: each category once, by the nearest cue that reaches its last part."""
        start, end = pieces[0].start, pieces[-1].end
        item = self._item(start, end)
        found: dict[Category, tuple[int, Context]] = {}
        for one in self._reaching(sentence, pieces, mentions, item):
            distance = max(start - one.end, one.start - end, 0)
            if one.category != UNCLEAR and (one.category not in found or distance < found[one.category][0]):
                found[one.category] = (distance, one)
        if item is not None and item.assertion != PRESENT:
            # What the value says counts for more than what the item asks: "History of seizures: no".
            value = Context(item.assertion, *item.value, self._text[slice(*item.value)])  # type: ignore[arg-type]
            found = {name: one for name, one in found.items() if name == FAMILY}
            found[value.category] = (0, value)
        return tuple(found[category][1] for category in CATEGORIES if category in found)

    def is_unclear(self, sentence: int, pieces: Sequence[Place], mentions: Sequence[Place]) -> bool:
        """Tell whether a negation stands beside a mention of which, as of any other, it says nothing by the rules."""
        item = self._item(pieces[0].start, pieces[-1].end)
        return item is None and any(
            one.category == UNCLEAR
            and (one.end <= pieces[0].start or one.start not in self._among(sentence, mentions).negating)
            for one in self._reaching(sentence, pieces, mentions, item)
        )

    def _among(self, sentence: int, mentions: Sequence[Place]) -> _Among:
        """Return what the mentions of a sentence leave of its cues; the mentions are the same for each of them."""
        if self._last is None or self._last[0] != sentence or self._last[1] is not mentions:
            cues = self._cues[sentence]
            free = [cue for cue in cues if not any(_is_taken(cue, place) for place in mentions)]
            denials = (cue for cue in cues if cue.context.category == NEGATED)
            of = (one.context.start for one in denials if any(one.low <= place.start < one.high for place in mentions))
            self._last = sentence, mentions, _Among(free, frozenset(of))
        return self._last[2]

    def _reaching(
        self, sentence: int, pieces: Sequence[Place], mentions: Sequence[Place], item: Item | None
    ) -> Iterator[Context]:
        """Yield the cues that reach a mention, those of its item if it is one of a form."""
        for cue in self._among(sentence, mentions).cues:
            one = cue.context
            if cue.low > pieces[-1].start or cue.high <= pieces[0].start or (item and not _is_of_item(one, item)):
                continue
            reaches = any(cue.low <= piece.start < cue.high for piece in pieces)
            if reaches and not any(one.start < piece.end and piece.start < one.end for piece in pieces):
                yield one

    def parts(self, start: int, end: int) -> bool:
        """Tell whether a value of a form stands inside a place, which is then no single mention."""
        place = bisect_right(self._values, start, key=_start)
        return place < len(self._values) and self._values[place].end < end

    def _item(self, start: int, end: int) -> Item | None:
        """Return the item of a form that a mention is within."""
        place = bisect_right(self._items, start, key=lambda item: item.start) - 1
        return self._items[place] if place >= 0 and end <= self._items[place].end else None


def _is_taken(cue: _Cue, mention: Place) -> bool:
    """Tell whether a cue does not count for a mention before it, or because it is a part of a larger one."""
    one = cue.context
    if cue.unless is not None and cue.unless <= mention.start < one.start:
        return True
    return mention.start <= one.start and one.end <= mention.end and len(one.cue) < mention.size


def _is_of_item(cue: Context, item: Item) -> bool:
    """Tell whether a cue counts for an item with a value: one inside it, or of the section that it is in."""
    if item.start <= cue.start < item.end:
        # A question has its answer in the value.
        return cue.cue not in ("?", "¿")
    return cue.end <= item.start and cue.category in (FAMILY, HISTORICAL)


class Rules:
    """The rules of context, as one list."""

    def __init__(self, rules: Iterable[tuple[str, table.Phrase, Rule]]) -> None:
        self._rules: dict[tuple[str, ...], dict[str, list[Rule]]] = {}
        self._longest: dict[str, int] = {}
        for language, words, rule in rules:
            some = self._rules.setdefault(words, {}).setdefault(language, [])
            if rule not in some:
                some.append(rule)
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    def read(self, text: str, sentences: Sequence[Sentence]) -> Contexts:
        """Return the cues of a text, for each of its sentences."""
        items = items_of(text)
        values = sorted(item.value for item in items)
        found: list[list[_Cue]] = []
        # What goes on behind its sentence: sections to the next heading, lists to where they end.
        sections: list[Context] = []
        lists: list[_Cue] = []
        before = 0
        # Asked for where a phrase is of several languages.
        language = functools.cache(lambda: language_of(text))
        for sentence in sentences:
            gap = text[before : sentence.start]
            at_line = before == 0 or "\n" in gap
            is_heading = (at_line or sections) and _HEADING.match(text, sentence.start) is not None
            if is_heading and (place := bisect_right(items, sentence.end, key=_start)):
                # "Seizures: yes" is an item.
                is_heading = items[place - 1].value.end <= sentence.start
            if is_heading or (_BLANK.search(gap) and found and not _is_alone(found[-1], sentences[len(found) - 1])):
                sections = []
            lists = [cue for cue in lists if cue.high > sentence.start]
            first = bisect_right(values, sentence.start, key=_end)
            said = _said(text, sentence)
            matches = [
                match
                for match in self._matches(said, language)
                if not _is_within(said[match[0]], values[first : bisect_left(values, sentence.end, key=_start)])
            ]
            cues = list(_cues(text, said, matches, values)) if matches else []
            going_on = [*sections, *(cue.context for cue in lists)]
            if going_on:
                # "Family history: asthma. The patient has fever."
                stops = {rule.direction: said[place].start for place, _, rules in reversed(matches) for rule in rules}
                cues += [_Cue(one, sentence.start, stops.get(one.category, sentence.end)) for one in going_on]
                sections = [one for one in sections if one.category not in stops]
            found.append(cues)
            for context, high in _going_on(text, said, matches, at_line=at_line):
                if high is None:
                    sections.append(context)
                else:
                    lists.append(_Cue(context, context.end, high))
            before = sentence.end
        return Contexts(found, items, text)

    def _matches(self, said: Sequence[Word], language: Callable[[], str]) -> Iterator[_Match]:
        """Yield the phrases of a sentence from left to right, the longest at each place: first word, end, rules."""
        place = 0
        while place < len(said):
            size = min(self._longest.get(said[place].word, 0), len(said) - place)
            while size:
                rules = self._rules.get(tuple(one.word for one in said[place : place + size]))
                if rules is not None:
                    own = rules.get(language()) if len(rules) > 1 else None
                    yield place, place + size, own or next(iter(rules.values()))
                    break
                size -= 1
            place += max(size, 1)


class _Ends:
    """Where reaches end in a sentence, by their category: words from which, and words up to which, nothing counts."""

    def __init__(self, ends: Iterable[tuple[int, int, str]], size: int) -> None:
        self._size = size
        self._starts: dict[str, list[int]] = {}
        self._stops: dict[str, list[int]] = {}
        for start, stop, of in ends:
            for category in (of,) if of else _REACHING:
                self._starts.setdefault(category, []).append(start)
                self._stops.setdefault(category, []).append(stop)
        for places in (*self._starts.values(), *self._stops.values()):
            places.sort()

    def ahead(self, place: int, category: str) -> int:
        """Return the first word, from `place` on, that a reach ahead does not include."""
        starts = self._starts.get(category, [])
        first = bisect_left(starts, place)
        return starts[first] if first < len(starts) else self._size

    def back(self, place: int, category: str) -> int:
        """Return the first word that a reach back from `place` includes."""
        stops = self._stops.get(category, [])
        last = bisect_right(stops, place) - 1
        return stops[last] if last >= 0 else 0


def _cues(text: str, said: Sequence[Word], matches: Sequence[_Match], values: Sequence[Place]) -> Iterator[_Cue]:
    """Yield the cues of a sentence."""
    again = _repeated(said, matches)
    ends = [*_ends(text, said, matches, values), *((place, place, NEGATED) for place in again)]
    semicolons = [(place, place + 1, "") for place, one in enumerate(said) if one.word == SEMICOLON]
    in_sentence, in_list = _Ends([*ends, *semicolons], len(said)), _Ends(ends, len(said))
    clause = _clause(said, matches)
    for place, end, rules in matches:
        # "Denies the following: fever; cough."
        is_list = COLON in {one.word for one in said[end - 1 : end + 3]}
        # "Tosse, esclusa polmonite"; "polmonite esclusa, tosse".
        excluded = ""
        is_both = {AHEAD, BACK} <= {rule.direction for rule in rules if rule.category == NEGATED}
        if is_both:
            is_first = place == 0 or said[place - 1].word in _BEFORE_CLAUSE
            excluded = BACK if is_first else AHEAD if said[end].word in (COMMA, STOP) else ""
        for rule in rules:
            if rule.category not in _REACHING or (rule.category == NEGATED and rule.direction == excluded):
                continue
            context = _context(text, said, place, end, rule)
            if rule[:2] == (NEGATED, BACK) and not is_both:
                # "She was never noted to have hypotonia."
                ahead = _reaches(said, place, end, Rule(NEGATED, AHEAD, None), in_sentence, clause)
                yield from (_Cue(context, *reach, said[in_sentence.back(place, NEGATED)].start) for reach in ahead)
            for low, high in _reaches(said, place, end, rule, in_list if is_list else in_sentence, clause):
                if place in again and rule[:2] == (NEGATED, AHEAD):
                    own = _own_item(said, end, high)
                    yield _Cue(context, low, own)
                    yield _Cue(replace(context, category=UNCLEAR), own, high)  # type: ignore[arg-type]
                elif rule[:2] == (NEGATED, BACK) and not _is_plural(said[place:end]):
                    own = _own_clause(said, place, low)
                    yield _Cue(context, own, high)
                    yield _Cue(replace(context, category=UNCLEAR), low, own)  # type: ignore[arg-type]
                else:
                    yield _Cue(context, low, high)


def _ends(
    text: str, said: Sequence[Word], matches: Sequence[_Match], values: Sequence[Place]
) -> Iterator[tuple[int, int, str]]:
    """Yield where reaches end, from a word to the one behind the last, and whose: "" for all."""
    for place, end, rules in matches:
        yield from ((place, end, rule.direction) for rule in rules if rule.category == END)
        if _is_negation(rules) and place and said[place - 1].word == COMMA:
            # "Suspected pneumonia, no effusion."
            yield from ((place, place, category) for category in (POSSIBLE, HISTORICAL))
    yield from ((place, place + 1, "") for place, one in enumerate(said) if _is_within(one, values))
    negations = [place for place, _, rules in matches if _is_negation(rules)]
    yield from ((place, place, NEGATED) for place in _line_starts(text, said, negations))


def _repeated(said: Sequence[Word], matches: Sequence[_Match]) -> set[int]:
    """Return where negations come again behind a comma: "no fever, no rash"."""
    negations = [place for place, _, rules in matches if _is_negation(rules)]
    return {place for place in negations[1:] if COMMA in {one.word for one in said[max(place - 2, 0) : place]}}


def _is_negation(rules: Iterable[Rule]) -> bool:
    return any(rule[:2] == (NEGATED, AHEAD) for rule in rules)


def _line_starts(text: str, said: Sequence[Word], negations: Sequence[int]) -> list[int]:
    """Return where lines start if two or more start with a negation: a list without signs."""
    starts = [place for place in range(1, len(said)) if "\n" in text[said[place - 1].end : said[place].start]]
    return starts if len({0, *starts} & set(negations)) > 1 else []


def _own_item(said: Sequence[Word], start: int, high: int) -> int:
    """Return where the item of a repeated negation ends: at its comma, unless "or" follows."""
    comma = high
    for place in range(start, len(said)):
        if said[place].start >= high:
            break
        if said[place].word in _OR:
            return high
        if said[place].word == COMMA:
            comma = min(comma, said[place].start)
    return comma


def _own_clause(said: Sequence[Word], place: int, low: int) -> int:
    """Return where what a cue behind its finding says begins: behind the comma, "rash, fever denied"; not in a list."""
    for before in range(place - 1, -1, -1):
        if said[before].start < low or said[before].word in _JOINS:
            break
        if said[before].word == COMMA:
            return said[before].end
    return low


def _is_plural(cue: Sequence[Word]) -> bool:
    """Tell whether a cue has a verb or participle of several things: "were not seen", "ausentes"."""
    return any(one.word in _PLURAL for one in cue) or cue[-1].word.endswith(("s", "i"))


def _context(text: str, said: Sequence[Word], place: int, end: int, rule: Rule) -> Context:
    start, stop = said[place].start, said[end - 1].end
    return Context(rule.category, start, stop, text[start:stop])  # type: ignore[arg-type]


def _going_on(
    text: str, said: Sequence[Word], matches: Sequence[_Match], *, at_line: bool
) -> Iterator[tuple[Context, int | None]]:
    """Yield the cues that a sentence ends with, or is a heading of, and where what they reach below it ends.

    None: at the next heading or empty line. What stands behind a heading on its line is all that it is of.
    """
    for place, end, rules in matches:
        for rule in rules:
            if rule.direction == SECTION:
                follows = said[end].word if end < len(said) else STOP
                if place == 0 and at_line and follows in (":", STOP):
                    line = text.find("\n", said[end - 1].end)
                    line = line if line >= 0 else len(text)
                    is_alone = follows == STOP or not text[said[end].end : line].strip()
                    yield _context(text, said, place, end, rule), None if is_alone else line
            elif rule.category in CATEGORIES and rule.direction == AHEAD and rule.reach is None:
                below = _BELOW.match(text, said[end - 1].end)
                if below is None:
                    continue
                context = _context(text, said, place, end, rule)
                bullets = _BULLETS.match(text, below.end())
                if bullets is not None:
                    yield context, bullets.end()
                elif below[1]:
                    yield context, None
                elif end > 1:
                    # A wrapped line, which the next sentence goes on with; a word alone is none.
                    yield context, below.end() + 1


def _is_within(word: Word, places: Sequence[Place]) -> bool:
    place = bisect_right(places, word.start, key=_start) - 1
    return place >= 0 and word.start < places[place].end


def _start(place: Place | Item) -> int:
    return place.start


def _end(place: Place) -> int:
    return place.end


def _reaches(
    said: Sequence[Word], place: int, end: int, rule: Rule, ends: _Ends, clause: int | None
) -> Iterator[tuple[int, int]]:
    """Yield what a cue reaches, as first character and the one behind the last."""
    if rule.direction != BACK:
        last = ends.ahead(end, rule.category)
        if clause is not None and place < clause:
            last = min(last, clause)
        last = _within(said, range(end, last), rule.reach)
        if last > end:
            yield said[end].start, said[last - 1].end
    if rule.direction in (BACK, "both"):
        first = ends.back(place, rule.category)
        if clause is not None and place > clause:
            first = max(first, clause)
        first = _within(said, range(place - 1, first - 1, -1), rule.reach) + 1
        if first < place:
            yield said[first].start, said[place - 1].end


def _within(said: Sequence[Word], places: range, reach: int | None) -> int:
    """Return where a reach of so many words ends: the place behind its last word, in the direction of `places`."""
    if reach is None:
        return places.stop
    words, near = 0, places[: MAX_SIGNS * (reach + 1)]
    for place in near:
        words += said[place].word not in _SIGNS
        if words > reach:
            return place
    return near.stop


def _clause(said: Sequence[Word], matches: Sequence[_Match]) -> int | None:
    """Return where the first clause of a sentence ends, if it begins with a word that makes it one."""
    if matches and matches[0][0] == 0 and any(rule.category == CLAUSE for rule in matches[0][2]):
        return next((place for place, one in enumerate(said) if one.word == COMMA), None)
    return None


def _is_alone(cues: Sequence[_Cue], sentence: Sentence) -> bool:
    """Tell whether a sentence is nothing but a cue: a heading, which a blank line may follow."""
    return any(cue.context.start <= sentence.start and cue.context.end >= sentence.end for cue in cues)


def _said(text: str, sentence: Sentence) -> list[Word]:
    """Return words and signs of a sentence, a sign before its first word included, and a full stop at its end."""
    start, end = sentence.start, sentence.end
    while start > 0 and text[start - 1] in "?¿(+-":
        start -= 1
    before = start
    while before > 0 and text[before - 1] == " ":
        before -= 1
    if before > 0 and text[before - 1] == "?" and (before == 1 or not text[before - 2].isalnum()):
        # "? asthma", not "Fever? No".
        start = before - 1
    while end < len(text) and text[end] in " ?(-:+)":
        end += 1
    found = table.words(text[start:end], start)
    # The last sign of the sentence before is none of this one.
    return found if found and found[-1].word == STOP else [*found, Word(end, end, STOP)]


def load_rules(path: Path | None = None) -> Rules:
    """Return the rules of a file, or those that come with Alphita, all languages together."""
    return Rules(table.read(path))


def language_of(text: str) -> str:
    """Return in which of `languages.CLINICAL` a text is most likely to be, by its first characters."""
    return next(iter(likelihoods(text[:LOOKED_AT])))


_WORDS = {
    "laterality": {
        "left": "left left-sided lt sinistra sinistro links linke linker linkes linken gauche izquierda izquierdo",
        "right": (
            "right right-sided rt destra destro rechts rechte rechter rechtes rechten droite droit derecha derecho"
        ),
        "bilateral": "bilateral bilaterally both bilaterale bilaterali beidseits beidseitig beidseitige bilaterales",
        "unilateral": "unilateral unilaterally monolaterale einseitig einseitige unilaterale",
    },
    "severity": {
        "mild": "mild slight minor lieve lievi leicht leichte leichter leichtes leger legere leve leves",
        "moderate": "moderate moderately moderata moderato massig massige mäßig moderee modere moderada moderado",
        "severe": (
            "severe severely marked profound grave gravi schwer schwere schwerer schweres severa severo severes"
        ),
    },
}
_VALUES = {
    word: (kind, value) for kind, values in _WORDS.items() for value, words in values.items() for word in words.split()
}
SEVERITY = "severity"
# Words before the mention, and behind it, that are looked at.
BEFORE, BEHIND = 3, 4


def modifiers_of(sentence: Sentence, start: int, end: int) -> tuple[Modifier, ...]:
    """Return the side and the severity of a mention, each once, the nearest: none beyond a comma or a break."""
    tokens = sentence.tokens
    first = bisect_right(tokens, start, key=lambda token: token.end)
    last = bisect_left(tokens, end, key=lambda token: token.start) - 1
    if first > last:
        return ()
    low = first
    while low > max(0, first - BEFORE) and not tokens[low].joins and tokens[low - 1].form not in CONJUNCTIONS:
        low -= 1
    high = last
    while high < min(len(tokens) - 1, last + BEHIND) and not tokens[high + 1].joins:
        if tokens[high + 1].form in CONJUNCTIONS:
            break
        high += 1
    near = sorted(range(low, high + 1), key=lambda place: max(first - place, place - last, 0))
    found: dict[str, Modifier] = {}
    for place in near:
        known = _VALUES.get(bare(tokens[place].form))
        # "Scoliosis, severe" is one thing, "scoliosis with severe pain" another.
        is_behind = place > last and known is not None and known[0] == SEVERITY
        if known is not None and known[0] not in found and not is_behind:
            found[known[0]] = Modifier(*known, tokens[place].start, tokens[place].end)
    return tuple(found.values())
