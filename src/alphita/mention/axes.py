"""What a string says beyond the name of a thing, and which of it a terminology tells apart.

"Metoprolol 50 mg tab" names an ingredient for a list of ingredients and a product for a list of products; "history of
stroke" is a stroke for HPO and a code of its own for ICD-10-CM. So names of the terminology are read as mentions are:
where it has both a thing and its history, it tells history apart, and a mention must agree; where it does not, the
words are left out.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.terminology.rules import lexicon, sets
from alphita.terminology.rules.lexicon import Lexicon, Text, read
from alphita.terminology.rules.quantities import NAMES, NUMBER

PAST, FAMILY = 1, 2
# Number of a terminology's strings that are examined; the share of them that tells an axis apart.
SAMPLED, SHARE = 20_000, 0.01
# With this many names of one side of a thing, its sides are distinguished.
OFTEN = 4
# Of the names that are past or a relative's, at least this many, and this share, are those of things that have a name.
LEAST_STATUS, PAIRED = 5, 0.05
_UNSPECIFIED = re.compile(
    r"^unspecified |[,;]? \(?(?:unspecified(?: \w+)?|unspec|nos|\w+ not specified|not otherwise specified)\.?\)?$"
)
# What a classification adds to the name of a thing of which no more is known.
_RESIDUAL = re.compile(rf"{_UNSPECIFIED.pattern}|,? without .+$")
_AMOUNT = re.compile(
    rf"(?<![\w.,])(?:(?:{NUMBER})\s?-\s?)?(?:{NUMBER})\s?-?(?:{NAMES}|meq|units?)(?:\s?/\s?(?:(?:{NUMBER})\s?)?(?:{NAMES}))?(?!\w)|"
    rf"(?<![\w.,])(?:{NUMBER})(?:/(?:{NUMBER}))+(?:\s?(?:{NAMES}))?(?!\w)|(?<!\w)(?:x|q)\s?\d+\s?(?:h|d|hrs?|days?)?(?!\w)|#\s?\d+"
)
_BARE_NUMBER = re.compile(rf"(?<!\S)(?:{NUMBER})(?!\S)")
# No number of a type or of a chromosome.
_LARGE_NUMBER = re.compile(r"(?<!\S)(?:[4-9]\d|[1-9]\d{2,3})$")
_WORD, _DIGIT = re.compile(r"[^\W_]+"), re.compile(r"\d")
_PRODUCT_AXES = ("dose_form", "route", "frequency", "release")


class Habits(NamedTuple):
    """What a terminology tells apart from the plain name of a thing.

    Attributes:
        residual: whether it tells "unspecified" apart, as classifications do.
        sided: the things whose left and right it tells apart, such as "ventricle"; None: all, as in classifications.
        products: whether it tells strengths, forms and routes apart, as lists of products do.
        status: its own words before a thing that is past (`PAST`) or a relative's (`FAMILY`), where it tells it apart.
        plain: the names of the things of which no more is known, by their plain names: "pneumonia" -> "pneumonia,
            unspecified organism".
    """

    residual: bool = False
    sided: frozenset[str] | None = frozenset()
    products: bool = False
    status: Mapping[int, str] = MappingProxyType({})
    plain: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def as_json(self) -> str:
        """Return them as JSON."""
        sided = None if self.sided is None else sorted(self.sided)
        return json.dumps([self.residual, sided, self.products, list(self.status.items()), dict(self.plain)])

    @classmethod
    def of_json(cls, text: str) -> Habits:
        """Return those that `as_json` wrote."""
        residual, sided, products, status, plain = json.loads(text)
        names = {name: tuple(others) for name, others in plain.items()}
        return cls(residual, None if sided is None else frozenset(sided), products, dict(status), names)

    def without_side(self, string: str, known: Container[str] | None = None) -> str | None:
        """Return a cleaned string without its side, left or right."""
        found = sets.sided(string) if self.sided is not None else None
        if found is None or found.of in (self.sided or ()) or (known is not None and found.of not in known):
            return None
        return found.whole

    def tells(self, status: int) -> bool:
        """Tell whether a string with this status (`status_of`) names another thing than without it."""
        return bool(status) and any(status & one for one in self.status)


def habits_of(
    strings: pa.LargeStringArray,
    rows: Callable[[Sequence[str]], NDArray[np.int64]],
    classified: NDArray[np.bool_] | None = None,
) -> Habits:
    """Return what a terminology tells apart.

    Args:
        strings: (n,) cleaned.
        rows: finds strings; -1: not there.
        classified: (n,) the names of classifications; all by default.
    """
    some = _sampled(strings)
    least = SHARE * len(some)
    assigned = strings if classified is None else strings.filter(pa.array(classified))
    residual = has_residual(assigned)
    products = (pc.sum(pc.match_substring_regex(some, r"\d ?(mg|mcg|ml|g|%|unt|iu)\b")).as_py() or 0) > least
    sided = [name for name in _matching(some, sets.SIDE_PATTERN) if sets.side(name) in (sets.LEFT, sets.RIGHT)]
    things: frozenset[str] | None = None
    if len(sided) <= least:
        of = Counter(found.of for name in _matching(strings, sets.SIDE_PATTERN) if (found := sets.sided(name)))
        things = frozenset(word for word, count in of.items() if count >= OFTEN)
    return Habits(residual, things, products, _status_told(strings, rows), _plain(assigned) if residual else {})


def classified(ids: pa.ChunkedArray, names: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Tell which concepts are of a classification; OMOP has ICD-10-CM beside SNOMED CT, whose plain names are answers.

    Args:
        ids: (n,) CURIEs.
        names: (n,) preferred names.
    """
    of = pc.list_element(pc.split_pattern(ids, ":", max_splits=1), 0).combine_chunks().dictionary_encode()
    lower = pc.utf8_lower(names)
    own = [pc.equal(of.indices, number) for number in range(len(of.dictionary))]
    residual = np.array([has_residual(lower.filter(one)) for one in own], bool)
    return residual[of.indices.to_numpy()]


def has_residual(strings: pa.LargeStringArray) -> bool:
    """Tell whether a vocabulary tells "unspecified" apart from the plain name, as classifications do."""
    some = _sampled(strings)
    found = pc.sum(pc.match_substring_regex(some, r"\b(unspecified|nos)\b")).as_py() or 0
    return bool(found > SHARE * len(some))


def _sampled(strings: pa.LargeStringArray) -> pa.LargeStringArray:
    return strings.take(pa.array(np.linspace(0, max(0, len(strings) - 1), min(len(strings), SAMPLED)).astype(np.int64)))


def _matching(strings: pa.LargeStringArray, pattern: str) -> list[str]:
    matched: list[str] = strings.filter(pc.match_substring_regex(strings, pattern)).to_pylist()
    return matched


def _status_told(strings: pa.LargeStringArray, rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> Mapping[int, str]:
    """Return the words before things that are past or a relative's, where the plain things have names too."""
    told = {}
    names = with_status(strings).values()
    for status in (PAST, FAMILY):
        some = [name for name in names if name.status == status]
        named = (rows([name.thing for name in some]) >= 0).sum() if len(some) >= LEAST_STATUS else 0
        if named >= max(2, PAIRED * len(some)):
            told[status] = Counter(name.words for name in some).most_common(1)[0][0]
    return told


class WithStatus(NamedTuple):
    """The words of status at the beginning of a string, their value, and the thing that has this status."""

    words: str
    status: int
    thing: str


def with_status(strings: pa.LargeStringArray) -> dict[str, WithStatus]:
    """Return those of some cleaned strings that begin with a status, parted."""
    parted = ((name, _parted(name)) for name in _matching(strings, _STATUS_PATTERN))
    return {name: found for name, found in parted if found is not None}


_STATUS_PATTERN = sets.STATUS.pattern()


def _parted(string: str) -> WithStatus | None:
    text = read(string)
    place, (value, words) = (sets.STATUS.find_at(text) or [(1, lexicon.Found(0, ""))])[0]
    if place or not value:
        return None
    *_, last = itertools.islice(_WORD.finditer(text.string), len(words.split()))
    thing = text.string[last.end() :].strip(" .,:'’")
    return WithStatus(text.string[: last.end()], value, thing) if thing else None


@functools.lru_cache(maxsize=lexicon.REMEMBERED)
def status_of(string: str) -> int:
    """Return whether a string is of what is past (`PAST`), a relative's (`FAMILY`), or neither, 0."""
    values = sets.STATUS.values(string)
    return FAMILY if FAMILY in values else PAST if values else 0


@functools.lru_cache(maxsize=lexicon.REMEMBERED)
def without_status(string: str) -> str:
    """Return a cleaned string without the words that say that it is past or a relative's."""
    return _without(string, sets.STATUS.find_at)


def without_product(string: str) -> str:
    """Return a cleaned string without strength, form, route and frequency: "metoprolol" of "metoprolol 50 mg tab"."""
    left = _AMOUNT.sub(" ", string) if _DIGIT.search(string) else string
    return _without(left, _product_lexicon().find_at) if left != string or _names_form(string) else string


def without_dose(string: str) -> str:
    """Return the same without a strength that has no unit, too: "furosemide 40 po bid", "metformin 850"."""
    if not _DIGIT.search(string):
        return string
    is_ordered = bool(_product_lexicon().find_at(read(string)))
    left = (_BARE_NUMBER if is_ordered else _LARGE_NUMBER).sub(" ", _AMOUNT.sub(" ", string))
    return _without(left, _product_lexicon().find_at) if left != string else string


def without_salt(string: str) -> str:
    """Return a cleaned string without the words for a salt, except where it begins with one."""
    first, _, rest = string.partition(" ")
    return f"{first} {_without(rest, _salt_lexicon().find_at)}".strip() if rest else string


def _without(string: str, find_at: Callable[[Text], list[tuple[int, lexicon.Found]]]) -> str:
    text = read(string)
    gone = {place + step for place, found in find_at(text) for step in range(len(found.words.split()))}
    words = [word for place, word in enumerate(text.shown) if place not in gone] if gone else string.split()
    return " ".join(words)


def _names_form(string: str) -> bool:
    return bool(sets.DOSE_FORM.values(string))


@functools.cache
def _product_lexicon() -> Lexicon:
    return Lexicon((1, row.words) for axis in _PRODUCT_AXES for row in lexicon.rows(axis) if row.value != "silent")


@functools.cache
def _salt_lexicon() -> Lexicon:
    return Lexicon((1, row.words) for row in lexicon.rows("salt"))


def _plain(strings: pa.LargeStringArray) -> Mapping[str, tuple[str, ...]]:
    """Return the names that say that no more is known, by their plain names."""
    found: dict[str, list[str]] = {}
    for name in _matching(strings, r"unspecified|not specified|\bnos$|\bwithout\b"):
        plain = without_residual(name)
        if plain and plain != name:
            found.setdefault(plain, []).append(name)
    return {plain: tuple(names) for plain, names in found.items()}


def without_residual(string: str) -> str:
    """Return a cleaned name without what says that no more is known: "unspecified", "without complications"."""
    return _RESIDUAL.sub("", string).strip(" ,")


def without_unspecified(string: str) -> str:
    """Return a cleaned string without "unspecified" or NOS at its beginning or end."""
    return _UNSPECIFIED.sub("", string)
