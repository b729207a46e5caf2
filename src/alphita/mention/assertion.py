"""Reads a mention by itself: is it an identifier, or a finding that is denied, only possible or past?"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.mention import cues
from alphita.mention.cues import values
from alphita.terminology import prefixes
from alphita.terminology.rules import lexicon
from alphita.terminology.text import clean

# Each with a label, like the contradictions of the rules.
POSSIBLE, FAMILY = "certainty: the mention is only possible", "family: the mention is of the family"
DENIED, SEVERAL = "negation: the mention denies it", "several: the mention names several"
WELL = "negation: the mention says that it is as it should be"
NO_UNIT = "value: neither unit nor range stands with it"
IN_RANGE, NO_NAME = "value: it is in its range", "value: there is no name for it here"
OTHER_UNIT = "value: its number is usual in another unit"
USUAL_RANGE = "value: compared with the usual range of adults"
NOTHING = "nothing: the mention is no finding's name"
# With these, the mention names no finding that could be mapped.
SAYS_NOTHING = (NO_UNIT, IN_RANGE, NO_NAME, NOTHING)
OVER = "time: the mention says that it is over"
AMBIGUOUS = "ambiguous: the short form stands for other things too"
TOP = "root: the concept is the one above all others, and says nothing"
ONE_SIDE = "side: the mention has one, and another concept is that of one side"
STATUS_APART = "status: only one of the two is past or of the family"
SHARED_CODE = "ambiguous: the code is that of several concepts"
TOO_LONG = "length: only the first 4,096 characters of the mention are read"
BARE_CODE = "code: it may be a code, or the name of something else"
# Of ICD-10 and its like: "E11.9", "E11", "E08-E13".
_BARE_CODE = re.compile(r"[A-Z]\d[0-9A-Z](?:\.?[0-9A-Z]{1,4}|-[A-Z]\d[0-9A-Z])?")
_IDENTIFIER = re.compile(
    r"(?:https?://\S+|(?:[A-Za-z][A-Za-z0-9._-]*:|[A-Za-z][A-Za-z0-9.]*_)[A-Za-z0-9._-]*\d[A-Za-z0-9._-]*)"
)
# The semantic tags that SNOMED CT and other lists write after a name.
_TAG = re.compile(rf"(?<=\S) ?\((?:{lexicon.pattern('tag')})\)$")
_DOUBTS = {"possible": POSSIBLE, "family": FAMILY}
_DOUBTS_OF_VALUES = {"negated": DENIED, "possible": POSSIBLE, "historical": OVER}
_DOUBTS_BEHIND = _DOUBTS | {"negated": DENIED, "hypothetical": POSSIBLE}
_WELL = re.compile(rf"(?<![^\W_])(?:{lexicon.pattern('well')})(?![^\W_])")
# Before the value of a form.
_SEPARATORS = frozenset(":=：([")
_SIGNS = r"[☐□✗✘❌∅]|\[\s*\]|\s[-–—−]+$|\(\s*[-–—−]+\s*\)$|\s[-–—−]+\s*$"


def bare_code(mention: str) -> str | None:
    """Return a mention that is written as a code without its prefix, "E11.9" or "E119"; None for any other."""
    return code if _BARE_CODE.fullmatch(code := mention.strip()) else None


def identifier_of(mention: str) -> str | None:
    """Return the CURIE of a mention such as "HP:0001250", "HP_0001250" or its IRI; None if it is not an identifier."""
    mention = mention.strip()
    if not _IDENTIFIER.fullmatch(mention):
        return None
    if "://" not in mention and ":" not in mention:
        mention = mention.replace("_", ":", 1)
    return prefixes.normalize(mention)


def is_no_finding(cleaned: str) -> bool:
    """Tell whether a cleaned string is a placeholder such as "n/a" or "(none)"."""
    return cleaned.strip("().-") in lexicon.word_set("nothing")


def without_tag(cleaned: str) -> str:
    """Return a cleaned string without its semantic tag: "seizure (disorder)" becomes "seizure"."""
    return _TAG.sub("", cleaned)


def doubt_of(mention: str) -> str | None:
    """Return why a mention does not affirm a finding, e.g. `POSSIBLE` or `DENIED`; None if it does."""
    if doubt := _DOUBTS.get(cues.beginning(mention) or ""):
        return doubt
    mention = mention.strip()
    value = None if _SEPARATORS.isdisjoint(mention) else _value().search(mention)
    if value and (doubt := _DOUBTS_OF_VALUES.get(values.assertion_of(value["colon"] or value["bracket"]))):
        return doubt
    if doubt := next((doubt for doubt, mark in _marks() if mark.search(mention)), None):
        return doubt
    return _DOUBTS_BEHIND.get(cues.ending(mention) or "")


@functools.cache
def _value() -> re.Pattern[str]:
    """Return a pattern of the value of a form that ends a mention: "Seizures: no", "seizures (no)"."""
    behind = values.table().behind.pattern
    return re.compile(
        rf"(?<=\w)\s*(?:[:=：]\s*(?P<colon>{behind})|[(\[]\s*(?P<bracket>{behind})\s*\.?[)\]])\.?$", re.IGNORECASE
    )


@functools.cache
def _marks() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return patterns of the words before or after findings that are absent, not known yet, or past."""
    ends = lexicon.pattern("ends", "denied")
    patterns = (
        (POSSIBLE, rf"^(?:{lexicon.pattern('begins', 'possible')})\s|\?\)?$"),
        (POSSIBLE, r"^(?:\(\?\)|\(?(?:±|\+/-)\)?)\s"),
        (DENIED, rf"^(?:{lexicon.pattern('begins', 'denied')})\s|^\(\s*[-–—−]+\s*\)|^[-–—−]+\s*ve\b"),
        (DENIED, rf"{_SIGNS}|\s(?:{ends})\.?$|\(\s*(?:{ends})\.?\s*\)$"),
        (POSSIBLE, rf"\b(?:{lexicon.pattern('ends', 'possible')})\)?$"),
        (OVER, rf"\b(?:{lexicon.pattern('ends', 'over')})\)?$"),
    )
    return tuple((doubt, re.compile(pattern, re.IGNORECASE)) for doubt, pattern in patterns)


# Separators of names: signs, and words for "and", "or" and "with", except ambiguous ones and letters ("hepatitis E").
_JOINS = re.compile(rf"\bw/|[,;/+&、，；]|\b(?:{lexicon.pattern('joins')})\b")
# A plural of at least this length is a name where its singular is: "seizures", "tics".
PLURAL_LETTERS = 4


def parts_of(mention: str) -> list[str]:
    """Return the parts of a cleaned mention between separators; the mention itself if it has none."""
    return [part for piece in _JOINS.split(mention) if (part := clean(piece))]


def names_in(mention: str, rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> list[str]:
    """Return the names in a mention, as written; only the mention itself if it is a single name."""
    pieces = [piece.strip() for piece in re.split(_JOINS.pattern, mention, flags=re.IGNORECASE) if clean(piece)]
    if len(pieces) < 2 or rows([clean(mention)])[0] >= 0:
        return [mention]
    for least, parts in _shared(pieces):
        if _are_names(_rows([clean(part) for part in parts], rows), least):
            return parts
    return [mention]


def _rows(parts: Sequence[str], rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the row of each part of a mention, or of its singular; -1 where neither is a name."""
    known = rows(parts)
    unknown = np.flatnonzero(known < 0).tolist()
    plural = [at for at in unknown if parts[at].endswith("s") and len(parts[at]) >= PLURAL_LETTERS]
    if plural:
        known = known.copy()
        known[plural] = rows([parts[at][:-1] for at in plural])
    return known


def _are_names(known: NDArray[np.int64], least: int) -> bool:
    """Tell whether at least so many parts are names, and not all the same one."""
    return int((known >= 0).sum()) >= least and len(set(known[known >= 0].tolist())) > 1


def _shared(pieces: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the ways to complete some pieces, each with how many of them must be names."""
    yield 2, list(pieces)
    first, last = pieces[0].split(), pieces[-1].split()
    for start in range(1, len(last)):
        yield len(pieces), [*(f"{piece} {' '.join(last[start:])}" for piece in pieces[:-1]), pieces[-1]]
    for end in range(len(first) - 1, 0, -1):
        yield len(pieces), [pieces[0], *(f"{' '.join(first[:end])} {piece}" for piece in pieces[1:])]


def names_that_are_absent(mentions: Sequence[str], rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> set[int]:
    """Return which cleaned mentions are a name followed by a word for absent; "thumbs absent" is a finding."""
    parted = ((row, *mention.rpartition(" ")) for row, mention in enumerate(mentions))
    parts = {row: name for row, name, _, last in parted if name and last in cues.ABSENCE}
    known = rows(list(parts.values())) if parts else ()
    return {row for row, found in zip(parts, known, strict=True) if found >= 0}


def is_well(cleaned: str) -> bool:
    """Tell whether a cleaned string states a normal result."""
    return _WELL.search(cleaned) is not None


def name_several(mentions: Sequence[str], rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Tell which cleaned mentions, (n,), contain two or more names of the index, whatever else is between them."""
    joined = ((row, parts_of(mention)) for row, mention in enumerate(mentions) if _JOINS.search(mention))
    parts = {row: some for row, some in joined if len(some) > 1}
    ways = [(number, least, way) for number, some in parts.items() for least, way in _shared(some)]
    known = _rows([part for _, _, way in ways for part in way], rows) if ways else np.empty(0, np.int64)
    found, start = np.zeros(len(mentions), bool), 0
    for number, least, way in ways:
        found[number] |= _are_names(known[start : start + len(way)], least)
        start += len(way)
    return found
