"""Definitions of abbreviations in running text: "congestive heart failure (CHF)" and "CHF (congestive heart failure)".

A. S. Schwartz, M. A. Hearst: A simple algorithm for identifying abbreviation definitions in biomedical text. Pacific
Symposium on Biocomputing 8 (2003), 451-462.

A short form A has 2 to 10 characters in at most two words, a letter, and begins with a letter or digit. Its long form
is next to the bracket (or inside it) in the same sentence and has at most min(|A| + 5, 2|A|) words. Every letter and
digit of A is searched for in it from right to left; the first must begin a word. The shortest such text is taken.

In addition to the paper: if the first letters of the last |A| words are A, these words are the long form ("hereditary
hemochromatosis (HH)", not "hemochromatosis"); square and full-width brackets; nested ones; accents do not matter;
"CHFs" may match the letters of "CHF"; a long form that begins after a hyphen begins there ("non-Hodgkin lymphoma
(HL)" defines "Hodgkin lymphoma").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

CHARACTERS = (2, 10)
WORDS = 2
# A bracket with more characters is ignored, and a long form has at most this many characters per word.
MAX_IN_BRACKETS = 400
CHARACTERS_A_WORD = 30

_BRACKETS = re.compile(r"[()\[\]（）]")
_OPENING = {")": "(", "]": "[", "）": "（"}
_SENTENCE_END = re.compile(r"[;:!?]\s|(?<=\w\w\w)\.\s|(?>\r\n?|\n)[^\S\r\n]*[\r\n]")
_PIECE_END = re.compile(r"[;,=]|:\s")
_PLURAL = re.compile(r"(?=.{3})(.*[A-Z0-9])s")
_WORD = re.compile(r"[^\s-]+")
_BLANK_WORD = re.compile(r"\S+")
_QUOTES = " \t\r\n\"'“”‘’«»"
_LETTERS = {"œ": "o", "æ": "a", "ø": "o", "ł": "l", "đ": "d"}


class Pair(NamedTuple):
    """A definition."""

    short: str
    long: str
    start: int
    end: int


def find_pairs(text: str) -> list[Pair]:
    """Return the definitions in a text, in the order in which their brackets are closed; time is linear in its
    length."""
    if ")" not in text and "]" not in text and "）" not in text:
        return []
    folded = _fold(text)
    found = []
    for before, opening, closing in _groups(text):
        pair = _short_inside(text, folded, before, opening, closing)
        pair = pair or _short_before(text, folded, before, opening, closing)
        if pair is not None:
            found.append(pair)
    return found


def stands_for(short: str, long: str) -> bool:
    """Whether the letters of a short form occur in `long` in order, the first one at its beginning."""
    return _start(_letters(_fold(short)), _fold(long), 0, len(long)) == 0


def is_short_form(text: str) -> bool:
    """Whether a text meets the paper's conditions on a short form."""
    return (
        CHARACTERS[0] <= len(text) <= CHARACTERS[1]
        and text[0].isalnum()
        and len(text.split()) <= WORDS
        and any(sign.isalpha() for sign in text)
    )


def singular(short: str) -> str | None:
    """Return "CHF" for "CHFs"; None if it is not a plural of capitals or digits."""
    found = _PLURAL.fullmatch(short)
    return found[1] if found else None


def _groups(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield for each pair of brackets (where the text before it begins, its opening, its closing)."""
    stack: list[int] = []
    waiting = dict.fromkeys("([（", 0)
    for match in _BRACKETS.finditer(text):
        sign, place = match[0], match.start()
        if sign in waiting:
            stack.append(place)
            waiting[sign] += 1
            continue
        wanted = _OPENING[sign]
        if not waiting[wanted]:
            continue
        while True:
            opening = stack.pop()
            waiting[text[opening]] -= 1
            if text[opening] == wanted:
                break
        if place - opening <= MAX_IN_BRACKETS:
            # Inside brackets, the long form is also inside them.
            yield (stack[-1] + 1 if stack else 0), opening, place


def _short_inside(text: str, folded: str, before: int, opening: int, closing: int) -> Pair | None:
    """Read "long form (SF)"."""
    inside = text[opening + 1 : closing]
    for piece in dict.fromkeys((inside, _PIECE_END.split(inside, maxsplit=1)[0])):
        short = piece.strip(_QUOTES)
        if not is_short_form(short):
            continue
        first = max(before, opening - CHARACTERS_A_WORD * _most_words(short))
        for end in _SENTENCE_END.finditer(text, first, opening):
            first = end.end()
        words = [word.start() for word in _BLANK_WORD.finditer(text, first, opening)]
        if not words:
            return None
        start = _match(short, text, folded, words[-_most_words(short) :][0], opening)
        if start is not None:
            return Pair(short, text[start:opening].rstrip(_QUOTES), start, closing + 1)
    return None


def _short_before(text: str, folded: str, before: int, opening: int, closing: int) -> Pair | None:
    """Read "SF (long form)"."""
    end = opening
    while end > before and text[end - 1] in _QUOTES:
        end -= 1
    start = max(before, end - CHARACTERS[1] - 1)
    words = [word.start() for word in _BLANK_WORD.finditer(text, start, end)]
    # A word that began earlier is too long to be a short form.
    words = [word for word in words if word == before or text[word - 1].isspace()]
    piece = _PIECE_END.search(text, opening + 1, closing)
    ends = dict.fromkeys((piece.start() if piece else closing, closing))
    for first in reversed(words[-WORDS:]):
        short = text[first:end].lstrip(_QUOTES)
        if not is_short_form(short):
            continue
        for last in ends:
            begin = _match(short, text, folded, opening + 1, last)
            if begin is not None:
                return Pair(short, text[begin:last].strip(_QUOTES), end - len(short), closing + 1)
    return None


def _match(short: str, text: str, folded: str, low: int, high: int) -> int | None:
    """Return where the long form of `short` begins in text[low:high], or None."""
    one = singular(short)
    for form in (short, one) if one else (short,):
        letters = _letters(_fold(form))
        start = _initials(letters, folded, low, high)
        start = _start(letters, folded, low, high) if start is None else start
        if start is not None:
            break
    else:
        return None
    long = text[start:high].strip()
    fits = (
        len(long) > len(short)
        and len(_WORD.findall(long)) <= _most_words(short)
        and all(long.count(closing) == long.count(opening) for closing, opening in _OPENING.items())
        and not re.search(rf"(?<!\w){re.escape(_fold(one or short))}(?!\w)", _fold(long))
    )
    return start if fits else None


def _initials(letters: str, folded: str, low: int, high: int) -> int | None:
    """Return where the last words of folded[low:high] begin, if their first letters are exactly `letters`."""
    words = list(_WORD.finditer(folded, low, high))[-len(letters) :]
    return words[0].start() if letters and "".join(word[0][0] for word in words) == letters else None


def _start(letters: str, folded: str, low: int, high: int) -> int | None:
    """Search the letters from right to left in folded[low:high]; return the place of the first, which begins a word."""
    if not letters:
        return None
    place = high
    for letter in letters[:0:-1]:
        place = folded.rfind(letter, low, place)
        if place < 0:
            return None
    while True:
        place = folded.rfind(letters[0], low, place)
        if place < 0:
            return None
        if place == 0 or not (folded[place - 1].isalnum() or folded[place - 1] in "'’"):
            return place


def _most_words(short: str) -> int:
    size = len(_letters(short))
    return min(size + 5, 2 * size)


def _letters(text: str) -> str:
    return "".join(sign for sign in text if sign.isalnum())


def _fold(text: str) -> str:
    """Return lower case without accents, with the same number of characters."""
    return text.lower() if text.isascii() else text.translate({ord(sign): _folded(sign) for sign in set(text)})


def _folded(sign: str) -> str:
    # A separate accent belongs to the word before it: replace it by a letter that no short form has.
    if unicodedata.combining(sign):
        return "ʰ"
    lower = unicodedata.normalize("NFKD", sign.lower())[0]
    return _LETTERS.get(lower, lower)
