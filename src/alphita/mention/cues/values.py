"""Values of forms: the words and signs behind an item that say whether it is present, from `values.tsv`.

`place` says where a value counts: `behind` a separator such as a colon; `bare`: behind a space too; `weak`: behind a
space only beside others, as words for absent, which names may hold; `follows`: words that may follow a value.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from alphita import textio
from alphita.terminology.text import strip_accents

PRESENT = "present"
FILE = "values.tsv"


class Values(NamedTuple):
    """The values.

    Attributes:
        assertions: the assertion, "present" or a category of cues, by value, in small letters without accents.
        behind: matches a value behind a separator, and what ends it.
        bare: matches a value behind a space.
        follows: matches the first word of an explanation.
        weak: values that count behind a space only beside others.
    """

    assertions: dict[str, str]
    behind: re.Pattern[str]
    bare: re.Pattern[str]
    follows: re.Pattern[str]
    weak: frozenset[str]


@functools.cache
def table() -> Values:
    """Return the values."""
    assertions: dict[str, str] = {}
    by_place: dict[str, list[str]] = {}
    for row in textio.packaged(__package__, FILE):
        words = row["value"].split("|")
        by_place.setdefault(row["place"], []).extend(words)
        assertions.update((key(word), row["category"]) for word in words)
    bare = by_place["bare"] + by_place["weak"]
    return Values(
        assertions,
        re.compile(_any(bare + by_place["behind"]), re.IGNORECASE),
        re.compile(_any(bare), re.IGNORECASE),
        re.compile(rf"\s++{_any(by_place['follows'])}", re.IGNORECASE),
        frozenset(map(key, by_place["weak"])),
    )


def assertion_of(value: str) -> str:
    """Return "present" or the category of a value that a pattern matched."""
    return table().assertions[key(value)]


def key(value: str) -> str:
    """Return a value as it is looked up."""
    return strip_accents(" ".join(value.split())).lower()


def _any(values: Iterable[str]) -> str:
    """Return a pattern of the longest value, its accents written, as signs of their own, or left out."""
    written = {"".join(map(_sign, value)) for value in values}
    return f"(?:{'|'.join(sorted(written, key=lambda one: (-len(one), one)))})(?![\\w+/])"


def _sign(sign: str) -> str:
    decomposed = unicodedata.normalize("NFD", sign)
    if len(decomposed) > 1:
        return f"(?:{sign}|{decomposed}?)"
    return r"\s++" if sign == " " else re.escape(sign)
