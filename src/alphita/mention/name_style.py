"""How a terminology writes its names, and what else a mention may be read as by that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphita.terminology.rules import laterality

# Whence a reading comes.
SPELLING, SHORTENED, UNSPECIFIED, ABBREVIATION = "spelling", "shortened", "unspecified", "abbreviation"
UNILATERAL = "unilateral "
_ROMAN = (
    "i",
    "ii",
    "iii",
    "iv",
    "v",
    "vi",
    "vii",
    "viii",
    "ix",
    "x",
    "xi",
    "xii",
    "xiii",
    "xiv",
    "xv",
    "xvi",
    "xvii",
    "xviii",
    "xix",
    "xx",
)
NUMERALS = {
    one: other for number, roman in enumerate(_ROMAN, 1) for one, other in ((str(number), roman), (roman, str(number)))
}
_NUMERAL = re.compile(r"(?<![^\W_])(\d{1,2}|[ivx]{1,5})(?=[a-e]?(?![^\W_]))")
# Of a terminology's strings so many are looked at; more than this share says "unspecified", or left or right, in one
# that tells these from the name alone.
SAMPLED, TOLD_SHARE = 20_000, 0.01
# Names of a side of one thing, from which its sides are told.
OFTEN = 4
_UNSPECIFIED = re.compile(r"^unspecified |[,;]? \(?(unspecified|unspec|nos|not otherwise specified)\.?\)?$")


class Reading(NamedTuple):
    """Another reading of a mention.

    Attributes:
        source: SPELLING, SHORTENED or UNSPECIFIED; ABBREVIATION for an expansion.
        share: of an expansion, how often that is meant, 0 to 1.
    """

    string: str
    source: str
    decided: bool = False
    share: float = 1.0
    origin: str = ""


class Habits(NamedTuple):
    """What a terminology tells from the name alone.

    Attributes:
        residual: it tells "unspecified" from the name, as classifications do.
        sided: of what it tells left from right, as "ventricle"; None: of anything, as classifications do.
    """

    residual: bool = False
    sided: frozenset[str] | None = frozenset()

    def without_side(self, string: str, known: Container[str] | None = None) -> str | None:
        """Return a cleaned string without its side, left or right."""
        found = laterality.sided(string) if self.sided is not None else None
        if found is None or found.of in (self.sided or ()) or (known is not None and found.of not in known):
            return None
        return found.whole


def habits_of(strings: pa.LargeStringArray) -> Habits:
    """Return the habits of a terminology's cleaned strings."""
    some = strings.take(pa.array(np.linspace(0, max(0, len(strings) - 1), min(len(strings), SAMPLED)).astype(np.int64)))
    unspecified = pc.sum(pc.match_substring_regex(some, r"\b(unspecified|nos)\b")).as_py() or 0
    residual = unspecified > TOLD_SHARE * len(some)
    told = [name for name in _with_sides(some) if laterality.side(name) in (laterality.LEFT, laterality.RIGHT)]
    if len(told) > TOLD_SHARE * len(some):
        return Habits(residual, None)
    of = Counter(found.of for name in _with_sides(strings) if (found := laterality.sided(name)))
    return Habits(residual, frozenset(word for word, count in of.items() if count >= OFTEN))


def _with_sides(strings: pa.LargeStringArray) -> list[str]:
    """Return the strings that may name a side."""
    named: list[str] = strings.filter(pc.match_substring_regex(strings, laterality.PATTERN)).to_pylist()
    return named


def written_otherwise(string: str, habits: Habits) -> list[tuple[str, str]]:
    """Return how terms may write a cleaned string, each with the source of the reading."""
    found = [
        (string[: one.start()] + NUMERALS[one[0]] + string[one.end() :], SPELLING)
        for one in _NUMERAL.finditer(string)
        if one[0] in NUMERALS
    ]
    name = without_unspecified(string) if habits.residual else ""
    if name not in (string, ""):
        forms = ("{}, unspecified", "unspecified {}", "{} nos", "{}, nos", "{}, not otherwise specified", "{}")
        found += [(other, UNSPECIFIED) for form in forms if (other := form.format(name)) != string]
    if (whole := habits.without_side(string)) is not None:
        found.append((UNILATERAL + whole, SHORTENED))
    return found


def without_unspecified(string: str) -> str:
    """Return a cleaned string without "unspecified" or NOS at its beginning or end."""
    return _UNSPECIFIED.sub("", string)
