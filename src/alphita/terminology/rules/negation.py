"""What a string denies: "no fever" against "fever". A term may deny something itself ("without complication")."""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Sequence

import numpy as np

from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import Codes, Flags, Found, Lexicon, Text, joined, read

VETO = True

_DENIES, _LACKS = 1 << 62, 1 << 61
_WORD_BITS = 61
_WORDS = (1 << _WORD_BITS) - 1
_AHEAD, _NEXT, _BACK, _ABSENT = 1, 2, 3, 4
_LEXICON = Lexicon.of("negation", {"ahead": _AHEAD, "next": _NEXT, "back": _BACK, "absent": _ABSENT})
_CHINESE = re.compile(rf"^(?:{lexicon.pattern('negation words', 'chinese')})(?=[\u3400-\u9fff])")
# Words that say nothing of what is denied, and those that the rules of course and side read; words that end a reach;
# words of a string that lacks something without denying, and so affirms nothing plainly; "absent or hypoplastic",
# "decreased to absent" deny nothing.
_PORTUGUESE, _EMPTY, _ENDS, _DEFICIENT, _EITHER = (
    lexicon.word_set("negation words", value) for value in ("portuguese", "empty", "ends", "deficient", "either")
)
_STARTS = _LEXICON.first_words()


def concerns(word: str) -> bool:
    """Tell that every word is of interest: what is not denied is affirmed."""
    return True


def find(text: Text) -> list[Found]:
    """Return what is denied, each reach with the words that deny it; where nothing is denied, what is affirmed."""
    if not text.string.isascii() and text.words and (chinese := _CHINESE.search(text.words[0])):
        rest = text.words[0][chinese.end() :]
        return [Found(_DENIES | _bits(rest), chinese[0] + rest)]
    if not _STARTS.isdisjoint(text.words) and (denied := _denied(text)):
        return denied
    return [Found(joined(map(_bits, text.words)) | (0 if _DEFICIENT.isdisjoint(text.words) else _LACKS), text.string)]


def begins_with_denial(text: Text) -> bool:
    """Tell whether a string begins by denying what follows: "no fever", but not "absence of fever", which is a name."""
    if not text.words or text.words[0] not in _STARTS:
        return False
    phrases = _phrases(text)
    return bool(phrases) and phrases[0][0] == 0 and phrases[0][2].value == _AHEAD


def is_denial(string: str) -> bool:
    """Tell whether a string begins by denying what follows, and something follows."""
    text = read(string)
    return begins_with_denial(text) and any(found.value & _DENIES for found in find(text))


def _phrases(text: Text) -> list[tuple[int, int, Found]]:
    """Return the words and phrases that deny, each with the places where it begins and ends."""
    words = text.words
    found = [(place, place + len(one.words.split()), one) for place, one in _LEXICON.find_at(text)]
    is_portuguese = not _PORTUGUESE.isdisjoint(words)
    return [
        (start, end, one)
        for start, end, one in found
        if one.words != "no" or not (is_portuguese or (end < len(words) and words[end].isdecimal()))
    ]


def _denied(text: Text) -> list[Found]:
    words = text.words
    found = _phrases(text)
    denied = []
    for order, (start, end, one) in enumerate(found):
        ahead = range(end, found[order + 1][0] if order + 1 < len(found) else len(words))
        back = range(start - 1, (found[order - 1][1] if order else 0) - 1, -1)
        if one.value == _ABSENT and (
            not _EITHER.isdisjoint(words[max(0, start - 1) : start] + words[end : end + 1])
            or "/" + one.words in text.string
            or one.words + "/" in text.string
        ):
            continue
        reach: list[int] = []
        if one.value != _BACK:
            reach = _reach(words, ahead, 1 if one.value == _NEXT else len(words))
        if one.value == _BACK or (one.value == _ABSENT and not reach):
            reach = _reach(words, back, len(words))
        if bits := joined(_bits(words[place]) for place in reach):
            shown = text.shown[min(start, *reach) : max(end, *(place + 1 for place in reach))]
            denied.append(Found(_DENIES | (_LACKS if one.value == _ABSENT else 0) | bits, " ".join(shown)))
    return denied


def _reach(words: Sequence[str], places: range, most: int) -> list[int]:
    """Return the places of at most `most` words that say something, up to a word that ends the reach."""
    reach: list[int] = []
    for place in places:
        if len(reach) == most or (reach and words[place] in _ENDS):
            break
        if _bits(words[place]):
            reach.append(place)
    return reach


@functools.lru_cache(maxsize=lexicon.REMEMBERED)
def _bits(word: str) -> int:
    """Return a word's three bits of 61 (fewer, if some fall together); 0 for words that say nothing."""
    if word in _EMPTY or word in _ENDS:
        return 0
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    hashed = zlib.crc32(word.encode("utf-8", "surrogatepass"))
    return 1 << hashed % _WORD_BITS | 1 << (hashed >> 10) % _WORD_BITS | 1 << (hashed >> 20) % _WORD_BITS


def code(values: Sequence[int]) -> int:
    """Join the words; a denial stays weak if every one of it is."""
    return joined(values) & (~_LACKS if any(value & _DENIES and not value & _LACKS for value in values) else -1)


def speaks(codes: Codes) -> Flags:
    """Tell which codes deny something."""
    return np.asarray(codes & _DENIES != 0)


def contradict(left: Codes, right: Codes) -> Flags:
    """Tell where exactly one side denies, and the other plainly affirms all of it (weak denials: and nothing more)."""
    denies_left, denies_right = speaks(left), speaks(right)
    denied, affirmed = np.where(denies_left, left, right), np.where(denies_left, right, left)
    words = denied & _WORDS
    clash = np.where(denied & _LACKS != 0, words == affirmed, words & ~affirmed == 0)
    return np.asarray((denies_left != denies_right) & (affirmed & _LACKS == 0) & clash)


def agree(left: Codes, right: Codes) -> Flags:
    """Tell where both deny the same, or one more than the other."""
    mine, other = left & _WORDS, right & _WORDS
    return np.asarray(speaks(left) & speaks(right) & ((mine & ~other == 0) | (other & ~mine == 0)))
