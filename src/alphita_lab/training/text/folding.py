"""Texts and terms folded alike, each folded character with its place in the text as written.

Folding does what `terminology.text.clean` does; and ß is ss, ς is σ; in Turkish and Azerbaijani I is ı, elsewhere İ
is i; "strip" takes accents off Latin letters. Folding is by table; what changes length is looked at one by one.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from alphita.terminology import text as rules

Accents = Literal["keep", "strip"]
DOTLESS = ("tr", "az")
# In folded texts: between two texts, and around words (see `marked`). No folded text holds them itself.
BREAK, BEGIN, END = "\x01", "\x02", "\x03"
# Stands between texts that are joined to be folded together; in a text it would be a space.
JOINT = "\x00"
ALNUM, DECIMAL, WORD, OPEN = 1, 2, 4, 8
# Written without spaces: no boundary is asked for beside such a letter.
_UNSPACED = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
)
# Particles follow a Korean word without a space: it has a beginning, but no end.
_HANGUL = "HANGUL"
# Above these planes there are no letters.
_LETTERS_END = 0x32400
_SUPERSCRIPTS, _FRACTIONS = "[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]", "[¼½¾⅐-⅞↉]"
_SPACE, _HYPHEN = ord(" "), ord("-")


@dataclass(frozen=True)
class Folded:
    """A folded text of n characters."""

    codes: NDArray[np.uint32]  # (n,) uint32 code points
    starts: NDArray[np.int64]  # (n,) where in the text as written each begins
    ends: NDArray[np.int64]  # (n,) and where it ends; several may come from one character, and one from several
    # (n,) uint8 of ALNUM, DECIMAL, WORD (part of a word that has a beginning), OPEN (of one without an end).
    flags: NDArray[np.uint8]

    def __str__(self) -> str:
        return self.codes.astype("<u4").tobytes().decode("utf-32-le")


class Fold:
    """How texts of one language are folded."""

    def __init__(self, language: str | None = None, accents: Accents = "keep") -> None:
        dotless = language is not None and language.split("-")[0] in DOTLESS
        self._one, self._table, self._odd, self._special = _tables(dotless, accents == "strip")

    def __call__(self, text: str) -> Folded:
        """Fold a text; JOINT in it becomes BREAK, and nothing is joined over it."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        starts = np.arange(len(codes))
        ends = starts + 1
        if not text.isascii():
            spans = [(*match.span(), self._piece(match)) for match in self._found(text, codes)]
            if spans:
                codes, starts, ends = _replaced(codes, spans)
        codes = self._table[codes]
        flags = character_flags()[codes]
        _hyphens_to_spaces(codes, flags)
        kept = np.ones(len(codes), bool)
        kept[1:] = (codes[1:] != _SPACE) | (codes[:-1] != _SPACE)
        if not kept.all():
            codes, starts, ends, flags = codes[kept], starts[kept], ends[kept], flags[kept]
        return Folded(codes, starts, ends, flags)

    def keys(self, strings: Sequence[str]) -> list[str]:
        """Return the folded form of each string as it is searched: without white space and punctuation at its ends."""
        if not strings:
            return []
        joined = JOINT.join(string.replace(JOINT, " ") for string in strings)
        return [rules.ends(key) for key in str(self(joined)).split(BREAK)]

    def _found(self, text: str, codes: NDArray[np.uint32]) -> Iterator[re.Match[str]]:
        """Yield what becomes more or fewer characters; only beside odd ones is it looked for."""
        odd = np.flatnonzero(self._odd[codes])
        starts = odd[np.diff(odd, prepend=-2) > 1].tolist()
        ends = odd[np.diff(odd, append=len(codes) + 1) > 1].tolist()
        for start, end in zip(starts, ends, strict=True):
            yield from self._special.finditer(text, max(0, start - 1), end + 1)

    def _piece(self, found: re.Match[str]) -> str:
        if found["number"]:
            # "10⁹" is not "109", nor "1½" "11/2".
            return "".join(map(self._one, rules.numbers("0" + rules.ignorable(found[0]))[1:]))
        return self._one(found[0])


def as_folded(text: str) -> Folded:
    """Return what is a folded text already, BREAK in it included."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    places = np.arange(len(codes))
    return Folded(codes, places, places + 1, character_flags()[codes])


def marked(folded: Folded) -> tuple[str, NDArray[np.int64]]:
    """Return a folded text with BEGIN before each word and END behind it, and the place of each character in it."""
    word, open_ = (folded.flags & WORD) > 0, (folded.flags & OPEN) > 0
    kind = word.astype(np.int8) + open_
    edge = np.ones(len(kind) + 1, bool)
    edge[1:-1] = kind[1:] != kind[:-1]
    begins, ends = word & edge[:-1], word & ~open_ & edge[1:]
    places = np.cumsum(1 + begins + ends) - 1 - ends
    codes = np.empty(len(kind) + int(begins.sum() + ends.sum()), np.uint32)
    codes[places] = folded.codes
    codes[places[begins] - 1] = ord(BEGIN)
    codes[places[ends] + 1] = ord(END)
    return codes.astype("<u4").tobytes().decode("utf-32-le"), places


@functools.cache
def character_flags() -> NDArray[np.uint8]:
    """Return the flags of every code point, of folded and of written texts."""
    flags = np.zeros(sys.maxunicode + 1, np.uint8)
    for code in range(_LETTERS_END):
        sign = chr(code)
        alnum, mark = sign.isalnum(), unicodedata.category(sign).startswith("M")
        if alnum or mark:
            name = unicodedata.name(sign, "")
            flags[code] = (
                ALNUM * alnum
                | DECIMAL * sign.isdecimal()
                | WORD * (not name.startswith(_UNSPACED))
                | OPEN * name.startswith(_HANGUL)
            )
    return flags


class _One:
    """Folds one character, or one base with its combining marks, out of its context."""

    def __init__(self, dotless: bool, strip: bool) -> None:
        self.dotless, self.strip = dotless, strip

    def __call__(self, piece: str) -> str:
        piece = rules.nfkc(rules.control(rules.ignorable(piece)))
        piece = rules.dashes(rules.quotes(piece)).replace("_", " ")
        if self.dotless:
            piece = piece.replace("I", "ı")
        # The dotted capital becomes an i with a second dot.
        piece = rules.lowercase(piece).replace("i\u0307", "i").replace("ς", "σ").replace("ß", "ss")
        if self.strip:
            piece = _bare(piece)
        return "".join(" " if sign.isspace() else sign for sign in piece)


def _bare(text: str) -> str:
    kept: list[str] = []
    latin = False
    for sign in unicodedata.normalize("NFD", text):
        if unicodedata.category(sign) != "Mn":
            latin = sign.isascii() and sign.isalpha()
        elif latin:
            continue
        kept.append(sign)
    return unicodedata.normalize("NFC", "".join(kept))


@functools.cache
def _tables(dotless: bool, strip: bool) -> tuple[_One, NDArray[np.uint32], NDArray[np.bool_], re.Pattern[str]]:
    """Return the fold of one piece, that of characters that stay one, which are odd, and what finds all pieces."""
    one = _One(dotless, strip)
    table = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    ignored: list[str] = []
    longer: list[str] = []
    second: list[str] = []
    for code in itertools.chain(range(_LETTERS_END), range(0xE0000, 0xE1000)):
        sign = chr(code)
        folded = one(sign)
        if len(folded) == 1:
            table[code] = ord(folded)
        else:
            (longer if folded else ignored).append(sign)
        if unicodedata.combining(sign):
            second.append(sign)
        parts = unicodedata.decomposition(sign).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            second.append(chr(int(parts[1], 16)))
    table[ord(JOINT)] = ord(BREAK)
    # Vowels and final consonants of Korean syllables taken apart join those before them.
    second += map(chr, itertools.chain(range(0x1161, 0x1176), range(0x11A8, 0x11C3)))
    nothing, joins = _class(ignored), _class(second)
    # A base may be what its marks follow only after signs that print nothing.
    base = f"(?:(?!{nothing}|{JOINT}).)"
    number = f"(?<=[0-9]){nothing}*(?:{_SUPERSCRIPTS}(?:{nothing}*{_SUPERSCRIPTS})*|{_FRACTIONS})"
    pattern = f"(?P<number>{number})|{base}(?:{nothing}*{joins})+|{nothing}+|{_class(longer)}"
    odd = np.zeros(len(table), bool)
    odd[[ord(sign) for sign in (*ignored, *longer, *second, *_SUPERSCRIPTS[1:-1])]] = True
    return one, table, odd, re.compile(pattern, re.DOTALL)


def _class(signs: Iterable[str]) -> str:
    """Return a regular expression for any of the characters."""
    codes = sorted(set(map(ord, signs)))
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"


def _replaced(
    codes: NDArray[np.uint32], spans: list[tuple[int, int, str]]
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the characters with some spans replaced, and where each character begins and ends before that."""
    parts, starts, ends = [], [], []
    done = 0
    for start, end, text in spans:
        parts += [codes[done:start], np.array([ord(sign) for sign in text], np.uint32)]
        starts += [np.arange(done, start), np.full(len(text), start)]
        ends += [np.arange(done + 1, start + 1), np.full(len(text), end)]
        done = end
    parts.append(codes[done:])
    starts.append(np.arange(done, len(codes)))
    ends.append(np.arange(done + 1, len(codes) + 1))
    return np.concatenate(parts), np.concatenate(starts), np.concatenate(ends)


def _hyphens_to_spaces(codes: NDArray[np.uint32], flags: NDArray[np.uint8]) -> None:
    """Turn hyphens between word characters into spaces, in place; "10-20", "Rh-" and "-5" stay."""
    hyphens = np.flatnonzero(codes[1:-1] == _HYPHEN) + 1
    before, after = flags[hyphens - 1], flags[hyphens + 1]
    inside = (before & after & ALNUM).astype(bool) & ~(before & after & DECIMAL).astype(bool)
    codes[hyphens[inside]] = _SPACE
