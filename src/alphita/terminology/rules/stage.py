"""Stage, grade, class, type and the like: a kind and its number or letter, and severity.

"stage III" = "stage 3"; "type 1" and "type 1a" do not contradict each other, "type 1a" and "type 1b" do.
"""

from __future__ import annotations

import re

from alphita.terminology.rules import Found, Text
from alphita.terminology.rules._lexicon import Lexicon, nonzero, word_set
from alphita.terminology.rules._slots import Slots

DESCRIPTION = "stage, grade, class, type, TNM, severity"
VETO = True

_SLOTS = Slots(count=3, kind_bits=4, major_bits=8, minor_bits=8)
TYPE, STAGE, GRADE, CLASS, GROUP, FACTOR, PHASE, HEPATITIS, VITAMIN, INFLUENZA, SEVERITY, SCORE, T, N, M = range(1, 16)
_KINDS = {
    word: kind
    for kind, words in {
        TYPE: "type types typ typs tipo tipi tipos subtype typus",
        STAGE: "stage stages stadium stadien stadio stade stades estadio estadios estagio ckd",
        GRADE: "grade grades grado gradi grados grad grau degree degrees degre degres graad",
        CLASS: "class classes classe classi clase clases klasse nyha killip pugh",
        GROUP: "group groups gruppe gruppo grupo groupe",
        FACTOR: "factor fattore faktor facteur",
        PHASE: "phase fase",
        HEPATITIS: "hepatitis hepatite epatite",
        VITAMIN: "vitamin vitamina vitamine vit",
        INFLUENZA: "influenza",
        SCORE: "gleason ecog",
    }.items()
    for word in words.split()
}
_LETTERS = {TYPE: "abcdfgh", CLASS: "abcd", GROUP: "abcdg", HEPATITIS: "abcdeg", VITAMIN: "abcdehk", INFLUENZA: "abc"}
_SEVERITY = Lexicon(
    {
        1: {
            "en": "mild|mildly",
            "it": "lieve|lievi",
            "de": "leichtgradig*|leichte|leichter|leichtes|milde",
            "fr": "leger|legere|legers|legeres",
            "es": "leve|leves",
            "zh": "轻度|輕度",
        },
        2: {
            "en": "moderate|moderately",
            "it": "moderato|moderata|moderati",
            "de": "mittelschwer*|mittelgradig*|massig*",
            "fr": "modere|moderee|moderes|moderees",
            "es": "moderado|moderada|moderados|moderadas",
            "zh": "中度",
        },
        3: {
            "en": "severe|severely",
            "it": "grave|gravi|severo|severa",
            "de": "schwere|schwerer|schweres|schweren|schwergradig*",
            "fr": "severe|severes|grave",
            "es": "grave|severo|severa|severos",
            "zh": "重度",
        },
        4: {
            "en": "profound|profoundly",
            "it": "profondo|profonda",
            "fr": "profond|profonde",
            "es": "profundo|profunda",
        },
    }
)
LANGUAGES = tuple(sorted({*_SEVERITY.languages, "nl", "pt"}))

_ROMAN = {
    "i": 1,
    "ii": 2,
    "iii": 3,
    "iv": 4,
    "v": 5,
    "vi": 6,
    "vii": 7,
    "viii": 8,
    "ix": 9,
    "x": 10,
    "xi": 11,
    "xii": 12,
    "xiii": 13,
    "xiv": 14,
    "xv": 15,
}
_ORDINAL = {
    word: number
    for number, words in enumerate(
        (
            "first 1st primo primer primero premier ersten erster erste 1er",
            "second 2nd secondo segundo deuxieme zweiten zweiter zweite 2eme 2e",
            "third 3rd terzo tercer tercero troisieme dritten dritter dritte 3eme 3e",
            "fourth 4th quarto cuarto quatrieme vierten vierter vierte",
        ),
        start=1,
    )
    for word in words.split()
} | {str(number): number for number in range(1, 5)}
_SHORT = {"t1dm": (TYPE, 1), "t1d": (TYPE, 1), "dm1": (TYPE, 1), "t2dm": (TYPE, 2), "t2d": (TYPE, 2), "dm2": (TYPE, 2)}
_JOINS = word_set("and or to und oder bis et ou e o y a")
_VALUE = re.compile(r"(?:(?P<number>\d{1,2})|(?P<roman>[ivx]+?))(?P<minor>[a-d])?|(?P<letter>[a-k])(?P<after>\d{1,2})?")
_GLUED = re.compile(r"(type|typ|tipo|stage|grade|grad|class|nyha|ckd)(\d{1,2}[a-d]?)")
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
        joined = at + 1 < len(words) and re.search(rf"\b{words[at]} ?[-/,&] ?{words[at + 1]}\b", text.string)
        if joined:
            at += 1
        elif at + 2 < len(words) and words[at + 1] in _JOINS:
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
    letter = part["letter"]
    if letter is not None and letter not in _LETTERS.get(kind, ""):
        return None
    if letter is not None:
        return 100 + ord(letter), int(part["after"] or 0)
    major = int(part["number"]) if part["number"] else _ROMAN.get(part["roman"])
    if major is None or kind in (HEPATITIS, VITAMIN, INFLUENZA):
        return None
    return major, ord(part["minor"]) if part["minor"] else 0


def _tnm(text: Text) -> list[tuple[Found, range]]:
    found = _TNM.search(" ".join(text.words))
    if found is None:
        return []
    first = " ".join(text.words)[: found.start()].count(" ")
    places = range(first, first + found[0].count(" ") + 1)
    parts = ((T, found[1], found[2]), (N, found[3], found[4]), (M, found[5], found[6]))
    return [
        _found(text, places, kind, int(number), ord(letter) if letter else 0)
        for kind, number, letter in parts
        if number and number != "x"
    ]


code = _SLOTS.code
speaks = nonzero
contradict = _SLOTS.contradict
agree = _SLOTS.agree


def places(text: Text) -> set[int]:
    """Return the places of all words that this rule has read, so that others leave them."""
    return {place for _, found in find_at(text) for place in found}
