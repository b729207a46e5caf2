"""Stage, grade, class, type and the like: a kind and its number or letter, and severity.

"stage III" = "stage 3"; "type 1" and "type 1a" do not contradict each other, "type 1a" and "type 1b" do.
"""

from __future__ import annotations

import re

from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import Found, Lexicon, Text
from alphita.terminology.rules.quantities import Slots
from alphita.terminology.rules.sets import nonzero

VETO = True

_SLOTS = Slots(count=3, kind_bits=4, major_bits=8, minor_bits=8)
_NUMBERS = {name: number for number, name in enumerate(lexicon.words("values", "stage"), 1)}
TYPE, STAGE, GRADE, CLASS, GROUP, _, _, HEPATITIS, VITAMIN, INFLUENZA, SEVERITY, _, T, N, M = _NUMBERS.values()
_KINDS = {word: _NUMBERS[kind] for word, kind in lexicon.meanings("stage").items()}
_LETTERS = {TYPE: "abcdfgh", CLASS: "abcd", GROUP: "abcdg", HEPATITIS: "abcdeg", VITAMIN: "abcdehk", INFLUENZA: "abc"}
_SEVERITY = Lexicon.of("severity", {"mild": 1, "moderate": 2, "severe": 3, "profound": 4})
_ROMAN = {roman: number for number, roman in enumerate(lexicon.words("stage words", "roman"), 1)}
_ORDINAL = {word: int(number) for word, number in lexicon.meanings("ordinal").items()}
_ORDINAL |= {str(number): number for number in range(1, 5)}
_SHORT = {"t1dm": (TYPE, 1), "t1d": (TYPE, 1), "dm1": (TYPE, 1), "t2dm": (TYPE, 2), "t2d": (TYPE, 2), "dm2": (TYPE, 2)}
_VALUE = re.compile(r"(?:(?P<number>\d{1,2})|(?P<roman>[ivx]+?))(?P<minor>[a-d])?|(?P<letter>[a-k])(?P<after>\d{1,2})?")
_GLUED = re.compile(rf"({lexicon.pattern('stage words', 'glued')})(\d{{1,2}}[a-d]?)")
_TNM = re.compile(r"\b[cpyr]{0,2}t([0-4x])([a-d])? ?n([0-3x])([a-c])?(?: ?m([01x])([a-c])?)?\b")
_TNM_WORD = re.compile(r"[cpyr]{0,2}t[0-4x][a-d]?(?:n[0-3x].*)?")
_CHINESE = re.compile(r"(?P<value>\d{1,2}[a-c]?|[ivx]{1,4}[a-c]?|[一二三四五])(?P<kind>型|期|级|級|度)")
_CHINESE_KINDS = {"型": TYPE, "期": STAGE, "级": GRADE, "級": GRADE, "度": GRADE}


def concerns(word: str) -> bool:
    """Tell whether the word names a kind, a severity or a stage by itself."""
    if word in _KINDS or _SEVERITY.concerns(word):
        return True
    if not word.isascii():
        return _CHINESE.search(word) is not None
    return not word.isalpha() and (word in _SHORT or bool(_GLUED.fullmatch(word) or _TNM_WORD.fullmatch(word)))


def find(text: Text) -> list[Found]:
    """Return the values named, with the words that name them."""
    return [found for found, _ in find_at(text)]


def find_at(text: Text) -> list[tuple[Found, range]]:
    """Return the values named and the places of their words."""
    made: list[tuple[Found, range]] = []
    for place, word in enumerate(text.words):
        kind = _KINDS.get(word)
        if kind is not None:
            made += _named(text, place, kind)
        elif word in _SHORT:
            made.append(_found(text, range(place, place + 1), *_SHORT[word]))
        elif glued := _GLUED.fullmatch(word):
            value = _value(glued[2], TYPE)
            if value is not None:
                made.append(_found(text, range(place, place + 1), _KINDS[glued[1]], *value))
        elif not word.isascii():
            for part in _CHINESE.finditer(word):
                number = "一二三四五".find(part["value"]) + 1
                value = (number, 0) if number else _value(part["value"], TYPE)
                if value is not None:
                    slot = _SLOTS.value(_CHINESE_KINDS[part["kind"]], *value)
                    made.append((Found(slot, part[0]), range(place, place + 1)))
    for place, severity in _SEVERITY.find_at(text):
        made.append((Found(_SLOTS.value(SEVERITY, severity.value), severity.words), range(place, place + 1)))
    return made + _tnm(text)


def _found(text: Text, places: range, kind: int, major: int, minor: int = 0) -> tuple[Found, range]:
    return Found(_SLOTS.value(kind, major, minor), " ".join(text.shown[places.start : places.stop])), places


def _named(text: Text, place: int, kind: int) -> list[tuple[Found, range]]:
    """Read the values of a kind: after it ("types 1 and 2"), or an ordinal before it ("second degree")."""
    words, made = text.words, []
    at = place + 1
    while at < len(words) and (value := _value(words[at], kind)) is not None:
        if kind == VITAMIN and not value[1] and words[at + 1 : at + 2] and words[at + 1].isdecimal():
            return [_found(text, range(place, at + 2), kind, value[0], int(words[at + 1]))]
        made.append(_found(text, range(place, at + 1), kind, *value))
        if at + 1 < len(words) and re.search(rf"\b{words[at]} ?[-/,&] ?{words[at + 1]}\b", text.string):
            at += 1
        elif at + 2 < len(words) and words[at + 1] in lexicon.word_set("stage words", "joins"):
            at += 2
        else:
            break
    if not made and kind == GRADE and place and words[place - 1] in _ORDINAL:
        made.append(_found(text, range(place - 1, place + 1), kind, _ORDINAL[words[place - 1]]))
    return made


def _value(word: str, kind: int) -> tuple[int, int] | None:
    """Read "3", "iii", "3a", "b", "b12" as major and minor; None if the word is no value of that kind."""
    part = _VALUE.fullmatch(word)
    if part is None:
        return None
    if letter := part["letter"]:
        return (100 + ord(letter), int(part["after"] or 0)) if letter in _LETTERS.get(kind, "") else None
    major = int(part["number"]) if part["number"] else _ROMAN.get(part["roman"])
    if major is None or kind in (HEPATITIS, VITAMIN, INFLUENZA):
        return None
    return major, ord(part["minor"]) if part["minor"] else 0


def _tnm(text: Text) -> list[tuple[Found, range]]:
    string = " ".join(text.words)
    if (found := _TNM.search(string)) is None:
        return []
    first = string[: found.start()].count(" ")
    places = range(first, first + found[0].count(" ") + 1)
    parts = ((T, found[1], found[2]), (N, found[3], found[4]), (M, found[5], found[6]))
    return [
        _found(text, places, kind, int(number), ord(letter) if letter else 0)
        for kind, number, letter in parts
        if number and number != "x"
    ]


code, speaks, contradict, agree = _SLOTS.code, nonzero, _SLOTS.contradict, _SLOTS.agree


def places(text: Text) -> set[int]:
    """Return the places of all words that this rule has read, so that others leave them."""
    return {place for _, found in find_at(text) for place in found}
