"""Sentences of words, each with its place in the text: a word that cleaning makes several of gives several tokens."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from alphita import textio
from alphita.terminology.text import clean, plain_words

# Combining marks belong to the word that they follow, and what prints nothing to the word that it is inside.
_MARKS = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\ufe00-\ufe0f"
_UNSEEN = "\u00ad\u200c-\u200f\u2060\ufeff"
# Of kinds: "type A-1" is "type A1".
TYPE = re.compile(r"\b([A-Za-z])-(\d{1,2})\b")
# Nothing is given back, for which all that was taken would have to be kept: a word may be megabytes long.
# Atomic, for Python up to 3.11.4 matches too much by a possessive group.
_WORD = re.compile(rf"{TYPE.pattern}|[^\W_]++(?>(?:[{_MARKS}]++[^\W_]*+|[{_UNSEEN}]++[^\W_]++)*)")
# What ends a phrase: no name and no window goes across it.
_BREAK = re.compile(r"[.!?;:|•·…\t\x00\ud800-\udfff。！？；：]|\n\s*\n|--+|\s[-–—]\s|\[[ xX]?\]|[☐☑☒✓✔✗✘]")
# What ends a dictionary name's reach but not a sentence: brackets and commas.
_COMMA = re.compile(r"[,()\[\]{}\"“”„«»/、，&+*]")
WORDS: dict[str, frozenset[str]] = {}
for _row in textio.packaged(__package__, "words.tsv"):
    WORDS[_row["set"]] = WORDS.get(_row["set"], frozenset()) | frozenset(_row["words"].split())
CONJUNCTIONS, INSIDE, OUTSIDE = WORDS["conjunction"], WORDS["inside"], WORDS["outside"]
COMMON, QUALIFIERS = WORDS["common"], WORDS["qualifier"]
OTHERWISE = frozenset(tuple(pair.split("-")) for pair in WORDS["otherwise"])
MAX_FORMS = 32_768
# A longer run of words is cut, so that the work on a sentence stays small.
MAX_TOKENS = 400


class Token(NamedTuple):
    """A word; `joins` to the one before: "" (space, hyphen), "," (comma, bracket, slash) or "|" (a break).

    `is_misspelt`: its form is that of the word that is meant.
    """

    start: int
    end: int
    form: str
    joins: str
    is_misspelt: bool = False


class Sentence(NamedTuple):
    """A sentence: its place and its words."""

    start: int
    end: int
    tokens: list[Token]

    def spelt(self, text: str, right: Mapping[str, str]) -> Sentence:
        """Return it with the forms that misspelt words are to have; a capital inside a sentence is that of a name."""
        if not any(token.form in right for token in self.tokens):
            return self
        tokens = [
            token._replace(form=right[token.form], is_misspelt=True)
            if token.form in right and (token.joins == "|" or text[token.start].islower())
            else token
            for token in self.tokens
        ]
        return self._replace(tokens=tokens)


@functools.lru_cache(maxsize=MAX_FORMS)
def forms_of(word: str) -> tuple[str, ...]:
    """Return the words that cleaning makes of one word of a text."""
    if TYPE.fullmatch(word):
        return (TYPE.sub(r"\1\2", word).lower(),)
    return tuple(one[0] for one in _WORD.finditer(clean(word)))


def forms(cleaned: str) -> list[str]:
    """Return the words of a cleaned string, as `tokens_of` would cut it."""
    return [word[0] for word in _WORD.finditer(cleaned)]


def tokens_of(text: str) -> list[Token]:
    """Return the words of a text, from left to right."""
    found: list[Token] = []
    before = 0
    for word in _WORD.finditer(text):
        joins = _joint(text, before, word.start()) if found else "|"
        for form in forms_of(word[0]):
            found.append(Token(word.start(), word.end(), form, joins))
            joins = ""
        before = word.end()
    return found


def _joint(text: str, start: int, end: int) -> str:
    gap = text[start:end]
    if gap in (" ", "-"):
        return ""
    if "\n" in gap:
        # A wrapped line goes on in lower case or behind a comma; an item, a heading or a new sentence does not.
        lines = gap.split("\n")
        is_list = len(lines) == 2 and lines[0].strip() == "," and not lines[1].strip()
        is_wrapped = not any(map(str.strip, lines)) and text[end].islower() and text[start - 1].isalpha()
        if len(lines) > 2 or not (is_list or is_wrapped):
            return "|"
    if _BREAK.search(gap):
        # The point of a number ("1.5") or of initials.
        return "" if gap == "." else "|"
    return "," if _COMMA.search(gap) else ""


def sentences_of(text: str) -> list[Sentence]:
    """Return the sentences of a text."""
    found: list[Sentence] = []
    some: list[Token] = []
    for token in tokens_of(text):
        is_end = token.joins == "|" and some and _ends(text, some[-1], token)
        # Parts of one word stay together.
        if is_end or (len(some) >= MAX_TOKENS and token.start > some[-1].start):
            found.append(_sentence(some))
            some = []
        some.append(token)
    if some:
        found.append(_sentence(some))
    return found


def _sentence(tokens: list[Token]) -> Sentence:
    return Sentence(tokens[0].start, tokens[-1].end, tokens)


def _ends(text: str, before: Token, after: Token) -> bool:
    gap = text[before.end : after.start]
    if "\n" in gap or any(sign in gap for sign in "!?。！？•"):
        return True
    if "." not in gap:
        return False
    word = text[before.start : before.end].lower()
    is_initial = len(word) == 1 and word.isalpha()
    return not (word in WORDS["shortened"] or is_initial) and not text[after.start].islower()


@functools.lru_cache(maxsize=MAX_FORMS)
def singular(form: str) -> str:
    """Return a cleaned English word in the singular; "" for one that says nothing ("of", "the")."""
    return plain_words(form)[0] if form else ""


# The longest first.
_ENDINGS = tuple(sorted(WORDS["ending"], key=lambda ending: (-len(ending), ending)))
_SHORTEST_ROOT = 4
_IRREGULAR = dict(pair.split("=") for pair in WORDS["irregular"])
# Beginnings of words that terminologies and letters put for each other: "renal anomaly", "abnormality of the kidney".
ABNORMAL = "abnormal"
_ABNORMAL = (ABNORMAL, "anomal", "malform", "defect", "deform")


@functools.lru_cache(maxsize=MAX_FORMS)
def root(form: str) -> str:
    """Return what noun, adjective and verb of one meaning have in common: "hypoplastic" and "hypoplasia"."""
    word = singular(form)
    if len(word) < _SHORTEST_ROOT or not word.isalpha():
        return word
    word = _IRREGULAR.get(word, word)
    # "Pinnae" are pinnas, "naevi" nevi.
    word = word[:-1] if word.endswith("ae") else word
    word = word.replace("ae", "e").replace("oe", "e").replace("our", "or")
    word = word[:-1] + "us" if word.endswith("vi") else word
    word = re.sub("plastic$", "plasia", word)
    if word.startswith(_ABNORMAL):
        return ABNORMAL
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_ROOT:
            return word[: -len(ending)]
    return word


# Roots of words for any finding of something.
ABNORMALITIES = frozenset(map(root, WORDS["abnormality"]))
