"""Numbers and units of measure as people write them, in exact fractions of one unit a dimension; and codes of them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import Codes, Flags

DIMENSIONS = {name: number for number, name in enumerate(lexicon.words("values", "quantity"), 1)}
PLAIN, MASS, VOLUME, UNITS, AMOUNT, CLOCK, CALENDAR, _, PERCENT, TEMPERATURE, _, DOSE = DIMENSIONS.values()
# Factor to milligram, millilitre, international unit, millimole, second, month, millimetre, per cent, °C, mmHg, dose.
# Months and years are no number of days, so days and years are not compared.
UNITS_OF_MEASURE: dict[str, tuple[int, Fraction]] = {}
for _row in lexicon.rows("unit of measure"):
    _dimension, _factor = _row.value.split()
    UNITS_OF_MEASURE |= dict.fromkeys(_row.words, (DIMENSIONS[_dimension], Fraction(_factor)))
NAMES = "|".join(re.escape(name) for name in sorted(UNITS_OF_MEASURE, key=lambda name: (-len(name), name)))
# (?>(...)*), not (...)*+: of groups Python up to 3.11.4 matches too much, the "5." of "5. mg" (python/cpython#106052).
NUMBER = r"\d++(?>(?:[.,]\d++)*)|[.,]\d++"
_ENGLISH_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_OTHER_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?:,\d+)?|(?:\.\d{3})+,\d+)")


def fraction(digits: str) -> Fraction | None:
    """Read a number exactly; None if it is none ("1.2.3")."""
    if _ENGLISH_THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    elif _OTHER_THOUSANDS.fullmatch(digits):
        digits = digits.replace(".", "")
    digits = digits.replace(",", ".")
    if digits.count(".") > 1 or len(digits) > 30:
        return None
    return Fraction(digits)


def in_base_unit(number: Fraction, unit: str) -> tuple[int, Fraction]:
    """Return the dimension of a unit and the number in that dimension's unit."""
    dimension, factor = UNITS_OF_MEASURE[unit]
    if dimension == TEMPERATURE and factor != 1:
        number -= 32
    return dimension, number * factor


def hashed(*numbers: Fraction) -> int:
    """Return 32 bits of one or more numbers, the same in every process."""
    return zlib.crc32(" ".join(map(str, numbers)).encode())


@dataclass(frozen=True)
class Slots:
    """A layout: `count` slots, each of kind, major and minor bits; together at most 63.

    Two values exclude each other if they are of one kind and differ in the major part, or in minor parts that both
    have (0 is none): "type 1" and "type 1a" do not. Two codes contradict each other if there is a kind of which both
    speak and of which no two values agree; or of which both have as many values, two or more, and not the same ones:
    two strengths are two ingredients, and half a combination is another drug.
    """

    count: int
    kind_bits: int
    major_bits: int
    minor_bits: int = 0

    def value(self, kind: int, major: int, minor: int = 0) -> int:
        """Make one slot; `kind` is 1 or more, major and minor are cut to their bits."""
        major &= (1 << self.major_bits) - 1
        return (kind << self.major_bits | major) << self.minor_bits | minor & (1 << self.minor_bits) - 1

    def code(self, values: Sequence[int]) -> int:
        """Join slots into a code; 0, which says nothing, if there are more different ones than fit."""
        distinct = sorted(set(values))
        if len(distinct) > self.count:
            return 0
        width = self.kind_bits + self.major_bits + self.minor_bits
        return sum(value << place * width for place, value in enumerate(distinct))

    def agree(self, left: Codes, right: Codes) -> Flags:
        """Tell which pairs of codes have values of one kind that do not exclude each other."""
        return np.asarray(self._agreements(left, right).any(axis=(0, 1)))

    def contradict(self, left: Codes, right: Codes) -> Flags:
        """Tell which pairs of codes exclude each other."""
        (kind, *_), (other, *_) = self._split(left), self._split(right)
        agreements = self._agreements(left, right)
        agreed, agreed_2 = agreements.any(axis=1), agreements.any(axis=0)
        # By each kind of the left: its slots on either side.
        here, there = kind[:, None] == kind, kind[:, None] == other
        number, number_2 = here.sum(axis=1), there.sum(axis=1)
        is_left_open = (here & ~agreed).any(axis=1) | (there & ~agreed_2).any(axis=1)
        are_others = (number == number_2) & (number > 1) & is_left_open
        clash = (kind != 0) & (number_2 > 0) & (~(here & agreed).any(axis=1) | are_others)
        return np.asarray(clash.any(axis=0))

    def _agreements(self, left: Codes, right: Codes) -> Flags:
        """Tell which slots of n pairs of codes are of one kind and do not exclude each other: (count, count, n)."""
        (kind, major, minor), (kind_2, major_2, minor_2) = self._split(left)[:, :, None], self._split(right)[:, None]
        minors = (minor == minor_2) | (minor == 0) | (minor_2 == 0)
        return np.asarray((kind == kind_2) & (kind != 0) & (major == major_2) & minors)

    def _split(self, codes: Codes) -> Codes:
        """Return kind, major and minor of each slot, (3, count, n)."""
        width = self.kind_bits + self.major_bits + self.minor_bits
        slot = codes >> np.arange(self.count)[:, None] * width & (1 << width) - 1
        major = slot >> self.minor_bits & (1 << self.major_bits) - 1
        return np.stack([slot >> self.minor_bits + self.major_bits, major, slot & (1 << self.minor_bits) - 1])
