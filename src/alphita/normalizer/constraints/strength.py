"""Strengths and concentrations: a quantity in another, compared in one unit (500 mg/5 ml = 100 mg/ml).

Strengths of one dimension are compared: mass in volume, units in volume, mass in time, mass a dose, ... A plain
quantity ("500 mg") is read by rule `number`, as is a percentage: 1 % is 10 mg/ml in a solution and 10 mg/g in a
cream. Two masses after one another ("875 mg/125 mg") are two ingredients, and are not judged. More than two
different strengths are not either.
"""

from __future__ import annotations

import re
from fractions import Fraction

from alphita.normalizer.constraints import Found, Text
from alphita.normalizer.constraints._lexicon import nonzero
from alphita.normalizer.constraints._quantities import (
    AMOUNT,
    CALENDAR,
    CLOCK,
    DOSE,
    MASS,
    NAMES,
    NUMBER,
    UNITS,
    VOLUME,
    fraction,
    hashed,
    in_base_unit,
)  # fmt: skip
from alphita.normalizer.constraints._slots import Slots

DESCRIPTION = "drug strengths and concentrations: 500 mg/5 ml = 100 mg/ml"
LANGUAGES = ("de", "en", "es", "fr", "it")
VETO = True

_SLOTS = Slots(count=2, kind_bits=5, major_bits=26)
_OF = (MASS, UNITS, AMOUNT, VOLUME)
_IN = (VOLUME, MASS, CLOCK, CALENDAR, DOSE)
_RATIO = re.compile(
    rf"""(?<![\w.,])(?P<digits>{NUMBER})\s?(?P<unit>{NAMES})
         \s?(?:/|\bper\b|\bpro\b|\bje\b|\bpar\b|\bpor\b)\s?
         (?P<in_digits>{NUMBER})?+\s?(?P<in_unit>{NAMES})(?!\w)""",
    re.VERBOSE,
)


def concerns(word: str) -> bool:
    """Tell whether the word holds a digit."""
    return not word.isalpha()


def find(text: Text) -> list[Found]:
    """Return the strengths, each as its two dimensions and a hash of its value."""
    found = []
    for part in _RATIO.finditer(text.string):
        number, divisor = fraction(part["digits"]), fraction(part["in_digits"] or "1")
        if number is None or not divisor:
            continue
        (of, number), (within, divisor) = in_base_unit(number, part["unit"]), in_base_unit(divisor, part["in_unit"])
        if of not in _OF or within not in _IN or (of == within == MASS and part["in_digits"]):
            continue
        kind = 1 + _OF.index(of) * len(_IN) + _IN.index(within)
        found.append(Found(_SLOTS.value(kind, hashed(Fraction(number, divisor))), part[0]))
    return found


code = _SLOTS.code
speaks = nonzero
contradict = _SLOTS.contradict
agree = _SLOTS.agree
