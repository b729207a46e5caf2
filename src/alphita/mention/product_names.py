"""Names of drugs, and orders of them, read by their parts: ingredients, strengths, form, brand.

RxNorm, and OMOP with it, names a product by its parts: "amoxicillin 875 MG / clavulanate 125 MG Oral Tablet
[Augmentin]"; an order says some of them: "Augmentin 875 mg".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from alphita.terminology.rules import lexicon, quantities
from alphita.terminology.rules.lexicon import Lexicon, joined, read
from alphita.terminology.rules.quantities import NAMES, NUMBER, fraction, in_base_unit

PERCENT_IN_MG_ML = 10
# Strengths are equal if they differ by less than one part in this many.
ROUNDED = 200
_UNIT = rf"(?:{NAMES}|unt|meq|actuat)"
_AMOUNT = re.compile(
    rf"(?<![\w.,])(?P<number>{NUMBER})\s?-?(?P<unit>{_UNIT})?(?!\w)"
    rf"(?:\s?/\s?(?P<divisor>{NUMBER})?\s?(?P<per>{_UNIT})(?!\w))?"
)
_SEVERAL = re.compile(
    rf"(?<![\w.,/-])(?:{NUMBER})(?:\s?[-/]\s?(?:{NUMBER}))+(?:\s?(?P<unit>{_UNIT}))?(?!\w|\s?[-/]\s?\d)"
)
BRAND = re.compile(r" ?\[([^\[\]]+)\]$")
QUANTITY = re.compile(rf"^(?:{NUMBER}) (?:hr|ml|mg|g|actuat|unt) (?=\D)")
COMPONENT = re.compile(rf"(?P<name>.+?) (?P<amount>(?:{NUMBER}) {_UNIT}(?:/{_UNIT})?)(?: (?P<form>.+))?")
# "Per" of laboratory values, never of strengths.
_MEASURED = ("dl", "l")
_FREQUENCY = re.compile(r"(?<!\S)(?:\d-\d-\d(?:-\d)?|x ?\d+|#\s?\d+|q ?\d+ ?h?)(?!\S)")


class Strength(NamedTuple):
    """An amount in milligrams, units or the like, and in what it is ("", "ml", "hr", "dose"); unit "": not said."""

    value: Fraction
    unit: str
    within: str


class Product(NamedTuple):
    """A name read by its parts.

    Attributes:
        name: the cleaned name.
        strengths: one for each ingredient, or none.
        form: bits of `FORMS`.
        brand: "" for a generic.
    """

    name: str
    ingredients: tuple[str, ...]
    strengths: tuple[Strength, ...]
    form: int
    brand: str


class Forms:
    """Forms, routes and releases: bits, compared on each of the three axes."""

    def __init__(self) -> None:
        axes = [words.split() for words in lexicon.words("values", "product form")]
        bits = {name: 1 << place for place, name in enumerate(name for axis in axes for name in axis)}
        self.axes = tuple(joined(bits[name] for name in axis) for axis in axes)
        rows = [(joined(bits[name] for name in row.value.split()), row.words) for row in lexicon.rows("product form")]
        self._lexicon = Lexicon(rows)
        self._usual = [bits[name] for name in lexicon.words("usual form")]
        self._release = self.axes[2]

    def of(self, string: str) -> tuple[int, str]:
        """Return the bits of a cleaned string, and the string without the words that say them."""
        text = read(string)
        found = self._lexicon.find_at(text)
        gone = {place + step for place, one in found for step in range(len(one.words.split()))}
        ends = [match.span() for match in lexicon.WORD.finditer(text.string)]
        rest = list(text.string)
        for place in gone:
            rest[slice(*ends[place])] = " " * (ends[place][1] - ends[place][0])
        return joined(one.value for _, one in found), " ".join("".join(rest).split())

    def agreement(self, said: int, named: int) -> int | None:
        """Return on how many axes two forms agree; None if they exclude each other on one."""
        agreed = 0
        for axis in self.axes:
            if said & axis and named & axis:
                if not said & named & axis:
                    return None
                agreed += 1
            elif said & axis and axis == self._release:
                return None
        return agreed

    def rank(self, form: int) -> int:
        """Return how usual a form is, 0 first; what has no form follows."""
        return next((place for place, bit in enumerate(self._usual) if form & bit), len(self._usual))


@functools.cache
def forms() -> Forms:
    """Return the words of forms, read once."""
    return Forms()


def parsed(name: str, known: frozenset[str] = frozenset()) -> Product | None:
    """Read a cleaned name by its parts; None: it is no product's. `known` are the forms of names without a strength."""
    brand = BRAND.search(name)
    *components, last = QUANTITY.sub("", name[: brand.start()] if brand else name).split(" / ")
    ingredients, strengths = [], []
    for component in components:
        found = COMPONENT.fullmatch(component)
        ingredients.append(found["name"] if found else component)
        strengths += [_strength(found["amount"])] if found else []
    found = COMPONENT.fullmatch(last)
    if found is not None:
        form = found["form"] or ""
        ingredients.append(found["name"])
        strengths.append(_strength(found["amount"]))
    else:
        form = next((last[at + 1 :] for at in _spaces(last) if last[at + 1 :] in known), "")
        if not form:
            return None
        ingredients.append(last[: -len(form) - 1])
    if strengths and len(strengths) != len(ingredients):
        return None
    said = tuple(strength for strength in strengths if strength is not None)
    return Product(name, tuple(ingredients), said, forms().of(form)[0], brand[1] if brand else "")


def _spaces(string: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(" ", string))


def _strength(amount: str) -> Strength | None:
    found = _AMOUNT.fullmatch(amount)
    return None if found is None else _read(found["number"], found["unit"], found["divisor"], found["per"])


def _read(number: str, unit: str | None, divisor: str | None, per: str | None) -> Strength | None:
    value, whole = fraction(number), fraction(divisor or "1")
    if value is None or not whole:
        return None
    if unit == "%" and per is None:
        return Strength(value * PERCENT_IN_MG_ML, "mass", "volume")
    of, value = _in_base(value, unit)
    within, whole = _in_base(whole, per) if per else ("", whole)
    return Strength(value / whole, of, within)


@functools.cache
def _dimension_names() -> Mapping[int, str]:
    return {number: name for name, number in quantities.DIMENSIONS.items()}


def _in_base(value: Fraction, unit: str | None) -> tuple[str, Fraction]:
    if unit is None:
        return "", value
    if unit in ("unt", "meq", "actuat"):
        return {"unt": "units", "meq": "meq", "actuat": "dose"}[unit], value
    dimension, value = in_base_unit(value, unit)
    return _dimension_names()[dimension], value


class Order(NamedTuple):
    """What an order says: what is left of it without strengths and forms, its strengths, and bits of its form."""

    name: str
    strengths: tuple[Strength, ...]
    form: int


def order_of(mention: str) -> Order:
    """Read a cleaned mention as an order; what is measured in a litre of blood is none."""
    if any(match["per"] in _MEASURED for match in _AMOUNT.finditer(mention)):
        return Order("", (), 0)
    strengths: list[Strength] = []

    def several(match: re.Match[str]) -> str:
        unit = match["unit"]
        strengths.extend(one for number in re.findall(NUMBER, match[0]) if (one := _read(number, unit, None, None)))
        return " "

    def one(match: re.Match[str]) -> str:
        if (strength := _read(match["number"], match["unit"], match["divisor"], match["per"])) is not None:
            strengths.append(strength)
        return " "

    rest = _AMOUNT.sub(one, _SEVERAL.sub(several, _FREQUENCY.sub(" ", mention)))
    form, name = forms().of(rest)
    return Order(name, tuple(strengths), form)


def agree(said: Sequence[Strength], named: Sequence[Strength]) -> bool:
    """Tell whether the strengths of an order are those of a product: each, one of them, or all together."""
    if not said or not named:
        return False
    if len(said) == len(named):
        left = list(named)
        for strength in said:
            match = next((other for other in left if _same(strength, other)), None)
            if match is None:
                return False
            left.remove(match)
        return True
    if len(said) != 1:
        return False
    together = named[0]._replace(value=sum((other.value for other in named), Fraction(0)))
    return any(_same(said[0], other) for other in (*named, together))


def _same(said: Strength, named: Strength) -> bool:
    if said.unit == "":
        # A number alone is in the unit of the trade: milligrams, micrograms or units.
        return named.value in (said.value, said.value / 1000)
    is_within = said.within == named.within or (not said.within and named.within != "volume")
    # RxNorm has "0.83 MG/ML" for 2.5 mg in 3 ml.
    is_equal = abs(said.value - named.value) * ROUNDED <= named.value
    return said.unit == named.unit and is_equal and is_within
