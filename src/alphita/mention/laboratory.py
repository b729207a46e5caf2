"""Laboratory wording: an analyte's short form with a direction ("WBC high", "↓K+") or a value ("Na 118 mmol/L").

A value is compared with the given range, otherwise with the usual range of adults in its unit (for review,
`USUAL_RANGE`); without a unit it cannot be interpreted (`NO_UNIT`). Only analytes for which the index names at least
one direction are used; if it names most of them, the others have no name (`NO_NAME`).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import textio
from alphita.mention.assertion import IN_RANGE, NO_NAME, NO_UNIT, OTHER_UNIT, USUAL_RANGE
from alphita.mention.spelling import ABBREVIATION, Reading
from alphita.terminology.rules import lexicon
from alphita.terminology.rules.quantities import NUMBER, fraction
from alphita.terminology.text import clean

ORIGIN = "laboratory"
RAISED, LOWERED = 1, -1
# The table's words for each direction that occur in names.
WORDS = {way: lexicon.words("laboratory words", name) for way, name in ((RAISED, "raised"), (LOWERED, "lowered"))}
DIRECTIONS = {
    word: way
    for way, name in ((RAISED, "more"), (LOWERED, "less"))
    for word in (*lexicon.words("degree", f"{name}_amount"), *lexicon.words("laboratory words", name))
}
DEVIATIONS = "sd"
# If more than this share of the analytes have no name, the index may name them differently.
NAMED_SHARE = 0.5
# A value this many times beyond its range is far outside it.
FAR = 3
_NUMBER = rf"[+-]?(?:{NUMBER})"
_BOUND = rf"(?:(?P<least>{_NUMBER}) ?(?:-|–|to) ?(?P<most>{_NUMBER})|(?P<sign>[<>≤≥]=?) ?(?P<bound>{_NUMBER}))"
_VALUE = re.compile(
    rf"[=:<>]? ?(?P<value>{_NUMBER}) ?(?P<unit>[^()\[\]]*?) ?"
    rf"(?:[(\[](?:ref(?:erence)?|range|normal|nr|rr)?[.:]? ?(?:range:? ?)?{_BOUND} ?(?P<other>[^()\[\]]*)[)\]])?"
)
# The cancer antigens are not calcium.
_NO_VALUE = re.compile(r"ca ?-?(?:125|15|19|72)\b")


class Analyte(NamedTuple):
    """The data about one analyte."""

    names: tuple[str, ...]
    called: dict[int, list[str]]
    ranges: dict[str, tuple[Fraction, Fraction]]


class LaboratoryValue(NamedTuple):
    """A mention's statement about an analyte: names for it, and why it is not accepted ("" if it is)."""

    readings: tuple[Reading, ...]
    doubt: str


class Laboratory:
    """Reads mentions by the names of one index."""

    def __init__(
        self, rows: Callable[[Sequence[str]], NDArray[np.int64]], external: NDArray[np.bool_] | None = None
    ) -> None:
        """Keep the analytes that the index names.

        Args:
            external: (n,) whether the string of a row is not a name of the terminology itself.
        """
        self._rows = rows
        every = [name for analyte in analytes() for some in analyte.called.values() for name in some]
        there = {name: row for name, row in zip(every, rows(every).tolist(), strict=True) if row >= 0}
        last = {name for name, row in there.items() if external is not None and external[row]}
        every_analyte = [
            analyte._replace(
                called={
                    way: sorted((name for name in some if name in there), key=last.__contains__)
                    for way, some in analyte.called.items()
                }
            )
            for analyte in analytes()
        ]
        named = [analyte for analyte in every_analyte if any(analyte.called.values())]
        if len(every_analyte) - len(named) < NAMED_SHARE * len(every_analyte):
            named = [analyte for analyte in every_analyte if not any(analyte.called.values())] + named
        self._analytes = {name: analyte for analyte in named for name in analyte.names}
        names = "|".join(map(re.escape, sorted(self._analytes, key=len, reverse=True)))
        words = "|".join(map(re.escape, sorted(DIRECTIONS, key=len, reverse=True)))
        self._shape = names and re.compile(
            rf"(?:(?P<before>{words}) ?)?(?:(?:serum|plasma|blood) )?(?P<name>{names})(?: (?:levels?|count|conc))?"
            rf"(?: ?(?P<after>{words})| ?(?P<rest>[=:<>]? ?{_NUMBER}.*))?"
        )

    def __call__(self, mention: str) -> LaboratoryValue | None:
        """Return a cleaned mention's statement about an analyte; None if it is a name, or not laboratory wording."""
        shape = self._shape.fullmatch(mention) if self._shape else None
        if shape is None or self._rows([mention])[0] >= 0:
            return None
        analyte, rest = self._analytes[shape["name"]], shape["rest"] or ""
        # The laboratory's flag after a value: "(h)".
        flag = next((mark for mark in DIRECTIONS if mark[0] in "([" and rest.endswith(mark)), None)
        words = [word for word in (shape["before"], shape["after"], flag) if word]
        if not words:
            return _of_value(analyte, rest) if rest and not _NO_VALUE.match(mention) else None
        if not any(analyte.called.values()):
            return LaboratoryValue((), NO_NAME)
        direction = DIRECTIONS[words[0]]
        if len(words) > 1 or set(analyte.ranges) == {DEVIATIONS} or not analyte.called[direction]:
            return None
        # "Vitamin B12 deficiency" may be a name, where "b12 deficiency" is none.
        said = (mention.replace(shape["name"], name, 1) for name in analyte.names)
        own = next((name for name in said if self._rows([name])[0] >= 0), None)
        return _named(analyte, direction) if own is None else LaboratoryValue((_decided(own),), "")


@functools.cache
def analytes() -> tuple[Analyte, ...]:
    """Return the table, with all wordings of raised and lowered values."""
    table = textio.packaged(__package__, "laboratory.tsv")
    known = [tuple(dict.fromkeys(clean(name) for name in row["names"].split("|"))) for row in table]
    owner: dict[str, tuple[int, int]] = {}
    for number, names in enumerate(known):
        for made, name in _made(names, itertools.chain(*WORDS.values())):
            owner[made] = max(owner.get(made, (0, 0)), (len(name), number))
    made_of: dict[int, set[str]] = {}
    for made, (_, number) in owner.items():
        made_of.setdefault(number, set()).add(made)
    return tuple(
        _analyte(names, row, made_of.get(number, set()))
        for number, (names, row) in enumerate(zip(known, table, strict=True))
    )


def _made(names: Sequence[str], words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield possible names of raised or lowered values, each with the cleaned name that it is made from."""
    for name, form, word in itertools.product(names, lexicon.words("laboratory words", "form"), words):
        yield form.format(word=word, name=name), name


def _analyte(known: tuple[str, ...], row: Mapping[str, str], own: Container[str]) -> Analyte:
    called = {}
    # Short forms are not written out.
    long = [name for name in known if len(name) > 4 or name == known[0]]
    for direction, column in ((RAISED, "raised"), (LOWERED, "lowered")):
        written = (clean(name) for name in row[column].split("|") if name)
        called[direction] = [*written, *(made for made, _ in _made(long, WORDS[direction]) if made in own)]
    usual = {}
    for one in filter(None, row["ranges"].split("|")):
        unit, least, most = one.rsplit(" ", 2)
        usual[unit] = (Fraction(least), Fraction(most))
    return Analyte(known, called, usual)


def _of_value(analyte: Analyte, rest: str) -> LaboratoryValue | None:
    """Interpret a value by its range or unit; None if it is not a value of this analyte, but e.g. a drug's strength."""
    found = _VALUE.fullmatch(rest)
    value = _number(found["value"]) if found else None
    if found is None or value is None:
        return None
    unit = _unit(found["unit"] or found["other"] or "")
    if (bounds := _bounds(found)) is not None:
        return _compared(analyte, value, *bounds, OTHER_UNIT if _is_of_other_unit(analyte, value, unit, bounds) else "")
    if unit not in analyte.ranges:
        return None if unit else LaboratoryValue((), NO_UNIT)
    return _compared(analyte, value, *analyte.ranges[unit], "" if unit == DEVIATIONS else USUAL_RANGE)


def _is_of_other_unit(
    analyte: Analyte, value: Fraction, unit: str, bounds: tuple[Fraction | None, Fraction | None]
) -> bool:
    """Tell whether a value or its range would be usual in a unit other than the given one."""
    others = [span for name, span in analyte.ranges.items() if name != unit and span[0] > 0]
    if unit not in analyte.ranges or not others:
        return False
    least, most = bounds
    is_far = (least is not None and value * FAR < least) or (most is not None and value > most * FAR)
    if is_far and any(low <= value <= high for low, high in others):
        return True
    if least is None or most is None:
        return False
    overlaps = [low <= most and least <= high for low, high in (analyte.ranges[unit], *others)]
    return not overlaps[0] and any(overlaps)


def _compared(
    analyte: Analyte, value: Fraction, least: Fraction | None, most: Fraction | None, doubt: str
) -> LaboratoryValue:
    if least is not None and value < least:
        return _named(analyte, LOWERED, doubt)
    if most is not None and value > most:
        return _named(analyte, RAISED, doubt)
    return LaboratoryValue((), IN_RANGE)


def _named(analyte: Analyte, direction: int, doubt: str = "") -> LaboratoryValue:
    """Return the index's first name for a direction, as a decided reading: the mention determines the meaning."""
    names = analyte.called[direction][:1]
    return LaboratoryValue(tuple(map(_decided, names)), doubt if names else NO_NAME)


def _decided(name: str) -> Reading:
    return Reading(name, ABBREVIATION, True, 1.0, ORIGIN)


def _bounds(found: re.Match[str]) -> tuple[Fraction | None, Fraction | None] | None:
    least, most, bound = (_number(found[name] or "") for name in ("least", "most", "bound"))
    if bound is not None:
        return (None, bound) if found["sign"][0] in "<≤" else (bound, None)
    return (least, most) if least is not None and most is not None and least <= most else None


def _number(text: str) -> Fraction | None:
    size = fraction(text.lstrip("+-")) if text else None
    return None if size is None else -size if text.startswith("-") else size


def _unit(text: str) -> str:
    unit = text.strip(" .").replace("µ", "u").replace("μ", "u").replace("**", "^").replace("*", "^")
    unit = re.sub(r"^[x×] ?", "", unit)
    return lexicon.meanings("unit").get(unit, unit)
