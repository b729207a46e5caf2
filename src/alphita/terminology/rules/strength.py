"""Strengths and concentrations: a quantity in another, compared in one unit (500 mg/5 ml = 100 mg/ml).

Strengths of one dimension are compared: mass in volume, units in volume, mass in time, mass a dose, ...
"""

from __future__ import annotations

import re
from fractions import Fraction

from alphita.terminology.rules import lexicon, quantities
from alphita.terminology.rules.lexicon import Found, Text
from alphita.terminology.rules.quantities import NAMES, NUMBER, Slots, fraction, hashed, in_base_unit
from alphita.terminology.rules.sets import nonzero

VETO = True

_SLOTS = Slots(count=2, kind_bits=5, major_bits=22, minor_bits=4)
_OF = (quantities.MASS, quantities.UNITS, quantities.AMOUNT, quantities.VOLUME)
_IN = (quantities.VOLUME, quantities.MASS, quantities.CLOCK, quantities.CALENDAR, quantities.DOSE)
_RATIO = re.compile(
    rf"""(?<![\w.,])(?P<digits>{NUMBER})\s?(?P<unit>{NAMES})
         \s?(?:/|\b(?:{lexicon.pattern("quantity words", "per")})\b)\s?
         (?>(?P<in_digits>{NUMBER})?)\s?(?P<in_unit>{NAMES})(?!\w)""",
    re.VERBOSE,
)
# Kinds beyond those of the ratios, by the number of amounts.
_COMBINATION = {2: len(_OF) * len(_IN) + 1, 3: len(_OF) * len(_IN) + 2}
_AMOUNTS = re.compile(
    rf"""(?<![\w.,/<>=≤≥~±+-])(?:{NUMBER})(?:\s?(?:{NAMES}))?
         (?:\s?/\s?(?:{NUMBER})(?:\s?(?:{NAMES})(?!\w))?){{1,2}}
         (?!\w|[.,]\d|\s?[-/^*×]\s?\d|\s?/|\s?(?:mm\s?hg|cm\s?h2o)\b)""",
    re.VERBOSE,
)
_AMOUNT = re.compile(rf"(?P<digits>{NUMBER})(?:\s?(?P<unit>{NAMES})(?!\w))?")
_NAME = re.compile(r"[^\W\d_]{3}")
# Pairs of numbers in their strings are other things than strengths.
_OTHER_PAIRS = lexicon.word_set("strength", "other pair")


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
        if of not in _OF or within not in _IN or (of == within == quantities.MASS and part["in_digits"]):
            continue
        kind = 1 + _OF.index(of) * len(_IN) + _IN.index(within)
        found.append(Found(_SLOTS.value(kind, hashed(Fraction(number, divisor))), part[0]))
    if _OTHER_PAIRS.isdisjoint(text.words):
        for part in _AMOUNTS.finditer(text.string):
            if amounts := _combination(part[0], after_name=bool(_NAME.search(text.string, 0, part.start()))):
                found.append(Found(_combination_value(*amounts), part[0]))
    return found


def _combination_value(amounts: list[Fraction], unit_is_known: bool) -> int:
    """Return the slot of a combination: its amounts up to thousands, and, where the unit is known, how many of
    these."""
    thousands = 0
    while max(amounts) >= 1000 ** (thousands + 1):
        thousands += 1
    while 0 < max(amounts) < Fraction(1000) ** thousands:
        thousands -= 1
    scaled = sorted(amount / Fraction(1000) ** thousands for amount in amounts)
    return _SLOTS.value(_COMBINATION[len(amounts)], hashed(*scaled), 1 + thousands % 15 if unit_is_known else 0)


def _combination(string: str, *, after_name: bool) -> tuple[list[Fraction], bool] | None:
    """Return the amounts of a combination's ingredients, in milligrams where it says so, and whether it does."""
    parts = [(fraction(part["digits"]), part["unit"]) for part in _AMOUNT.finditer(string)]
    numbers = [number for number, _ in parts if number is not None]
    units = [unit for _, unit in parts]
    if len(numbers) < len(parts):
        return None
    if not any(units):
        return (numbers, False) if after_name and not _is_date_or_fraction(numbers) else None
    # A unit at the end is that of all of them.
    if units[-1] is None or not (all(units) or not any(units[:-1])):
        return None
    measures = [quantities.UNITS_OF_MEASURE[unit or units[-1]] for unit in units]
    dimensions, factors = zip(*measures, strict=True)
    if len(set(dimensions)) > 1 or dimensions[0] not in (quantities.MASS, quantities.UNITS, quantities.PERCENT):
        return None
    # Milligrams in a gram are a concentration.
    if any(later > factors[0] for later in factors[1:]):
        return None
    return [number * factor for number, factor in zip(numbers, factors, strict=True)], dimensions[0] == quantities.MASS


def _is_date_or_fraction(numbers: list[Fraction]) -> bool:
    if any(number.denominator > 1 for number in numbers):
        return False
    first, second = numbers[:2]
    if len(numbers) > 2:
        return max(first, second) <= 31
    return first < second < 10 or (first <= 12 and 1900 <= second < 2100)


code, speaks, contradict, agree = _SLOTS.code, nonzero, _SLOTS.contradict, _SLOTS.agree
