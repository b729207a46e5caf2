"""Drugs as they are ordered, read as ingredients, strengths, form and brand, and the product that a terminology has.

RxNorm, and OMOP with it, names a product by its parts: "amoxicillin 875 MG / clavulanate 125 MG Oral Tablet
[Augmentin]". The names of one index are read so; an order such as "Augmentin 875 mg" then leads to the product that
agrees with all that it says, else to one with the ingredients and the form ("amoxicillin / clavulanate Oral Tablet"),
else to the ingredient. What has no product keeps its other readings.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphita.index.store import Index
from alphita.mention.spelling import ABBREVIATION, BROADER, OF_BRAND, ORDERED, Reading
from alphita.terminology.rules import lexicon, quantities
from alphita.terminology.rules.lexicon import Lexicon, joined, read
from alphita.terminology.rules.quantities import NAMES, NUMBER, fraction, in_base_unit
from alphita.terminology.text import clean_many

# A terminology with fewer names of products than this is no list of products.
MIN_PRODUCTS = 50
# Letters of a word that may stand for a longer one: "amox/clav", "metoprolol succ".
MIN_PREFIX = 4
# Products that an order leads to, the best first.
MAX_PRODUCTS = 3
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
_BRAND = re.compile(r" ?\[([^\[\]]+)\]$")
_QUANTITY = re.compile(rf"^(?:{NUMBER}) (?:hr|ml|mg|g|actuat|unt) (?=\D)")
_COMPONENT = re.compile(rf"(?P<name>.+?) (?P<amount>(?:{NUMBER}) {_UNIT}(?:/{_UNIT})?)(?: (?P<form>.+))?")
# A name of a product, roughly: all others are not looked at one by one.
_PRODUCT = r"^.+ \d[\d.,]* (?:mg|mcg|g|ml|unt|meq|%|iu|ui)\b"
_EDGES = " ,;:.-()"
# "Per" of laboratory values, never of strengths.
_MEASURED = ("dl", "l")
_WORD = re.compile(r"[^\W\d_]+")
_FREQUENCY = re.compile(r"(?<!\S)(?:\d-\d-\d(?:-\d)?|x ?\d+|#\s?\d+|q ?\d+ ?h?)(?!\S)")
_BETWEEN = re.compile(r"\s*(?:/|\+|-|\band\b|\bwith\b|\bmit\b|\be\b|\bet\b|\by\b)\s*")


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
def _forms() -> Forms:
    return Forms()


def parsed(name: str, forms: frozenset[str] = frozenset()) -> Product | None:
    """Read a cleaned name by its parts; `forms` are those of names without a strength. None: it names no product."""
    brand = _BRAND.search(name)
    *components, last = _QUANTITY.sub("", name[: brand.start()] if brand else name).split(" / ")
    ingredients, strengths = [], []
    for component in components:
        found = _COMPONENT.fullmatch(component)
        ingredients.append(found["name"] if found else component)
        strengths += [_strength(found["amount"])] if found else []
    found = _COMPONENT.fullmatch(last)
    if found is not None:
        form = found["form"] or ""
        ingredients.append(found["name"])
        strengths.append(_strength(found["amount"]))
    else:
        form = next((last[at + 1 :] for at in _spaces(last) if last[at + 1 :] in forms), "")
        if not form:
            return None
        ingredients.append(last[: -len(form) - 1])
    if strengths and len(strengths) != len(ingredients):
        return None
    known = tuple(strength for strength in strengths if strength is not None)
    return Product(name, tuple(ingredients), known, _forms().of(form)[0], brand[1] if brand else "")


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
    form, name = _forms().of(rest)
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


class Products:
    """The products of one index, and what orders lead to."""

    def __init__(self, index: Index) -> None:
        self._index = index
        strings = index.strings.array
        own = strings.filter(pc.match_substring_regex(strings, _PRODUCT)).to_pylist()
        products = [product for name in own if (product := parsed(name)) is not None]
        self.is_list = len(products) >= MIN_PRODUCTS
        self._by_ingredients: dict[frozenset[str], list[Product]] = {}
        self._by_brand: dict[str, set[frozenset[str]]] = {}
        self._ingredients: dict[str, None] = {}
        if not self.is_list:
            return
        forms = frozenset(_form_words(own))
        ends = re.compile(rf" (?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})(?: \[[^\[\]]+\])?$")
        with_form = pc.match_substring_regex(strings, ends.pattern)
        for name in strings.filter(pc.and_not(with_form, pc.match_substring_regex(strings, _PRODUCT))).to_pylist():
            if (product := parsed(name, forms)) is not None:
                products.append(product)
        self._names = frozenset(product.name for product in products)
        for product in products:
            key = frozenset(product.ingredients)
            self._by_ingredients.setdefault(key, []).append(product)
            if product.brand:
                self._by_brand.setdefault(product.brand, set()).add(key)
        self._ingredients = dict.fromkeys(name for key in self._by_ingredients for name in key)
        self._types = self._usual_types(products)
        self._stems = {name.partition(" ")[0] for name in self._ingredients}
        self._words: dict[str, list[str]] = {}
        for name in self._ingredients:
            for word in _WORD.findall(name):
                self._words.setdefault(word[:MIN_PREFIX], []).append(name)

    def is_product(self, name: str) -> bool:
        """Tell whether a cleaned name is that of a product."""
        return name in self._names

    def is_brand(self, mention: str) -> bool:
        """Tell whether a cleaned mention is a brand, which may be a name of its own without being an answer."""
        return mention in self._by_brand

    def readings(self, mentions: Iterable[str]) -> tuple[Reading, ...]:
        """Return the products that one of some cleaned readings of a mention leads to, the best first.

        It is the first that leads to a product that says all that it does, else the first that leads to any.
        """
        every = [readings for mention in mentions if (readings := self._readings(self._order(mention)))]
        return next((readings for readings in every if readings[0].decided), every[0] if every else ())

    def _order(self, mention: str) -> Order:
        """Read a mention as an order; "Toprol XL" is a brand, not an extended form of one, and "Epi-Pen" is EpiPen."""
        first, second, *rest = (*mention.split(), "", "")
        brand = next((name for name in (first + second, f"{first} {second}") if second and name in self._by_brand), "")
        if not brand:
            return order_of(mention)
        order = order_of(" ".join(rest))
        return order._replace(name=f"{brand} {order.name}".strip())

    def _readings(self, order: Order) -> tuple[Reading, ...]:
        found = self._found(order)
        is_only, is_brand = sum(found.values()) == 1, not (order.strengths or order.form)
        less = OF_BRAND if is_brand else BROADER
        return tuple(
            Reading(name, ABBREVIATION, whole and is_only, 1 / (1 + place), ORDERED if whole else less)
            for place, (name, whole) in enumerate(found.items())
        )

    def _found(self, order: Order) -> dict[str, bool]:
        """Return the names that an order leads to, the best first, and whether each says all that it does."""
        if not order.name:
            return {}
        found = self._resolved(order.name)
        if not (order.strengths or order.form):
            return next((self._of_brand(key, brand) for key, brand in found if brand), {})
        for ingredients, brand in found:
            if names := self._of(order, ingredients, brand):
                return names
        return {order.name: False} if not found and self._is_drug(order.name) else {}

    def _of_brand(self, key: frozenset[str], brand: str) -> dict[str, bool]:
        """Return what a brand alone means: its form, if it has only one, else its ingredients."""
        own = [one for one in self._by_ingredients[key] if one.brand == brand and not one.strengths]
        forms = [one.name for one in sorted(own, key=lambda one: _forms().rank(one.form))]
        broader = [" / ".join(sorted(key)), *(forms if len(key) > 1 else [])]
        return dict.fromkeys(forms if len(forms) == 1 else broader, len(forms) == 1)

    def _of(self, order: Order, ingredients: frozenset[str], brand: str) -> dict[str, bool]:
        """Return the names of the products that agree with an order, or of what is broader."""
        scored = []
        for product in self._by_ingredients.get(ingredients, ()):
            agreement = _forms().agreement(order.form, product.form)
            if product.brand not in ("", brand) or agreement is None:
                continue
            if product.strengths and not agree(order.strengths, product.strengths):
                continue
            said = bool(order.strengths) == bool(product.strengths)
            unsaid = (product.form & ~order.form).bit_count()
            closeness = (not said, -agreement, product.form == 0, product.brand != brand)
            scored.append((closeness, _forms().rank(product.form), unsaid, len(product.name), product.name))
        names = {}
        for closeness, *_, name in sorted(scored)[:MAX_PRODUCTS]:
            lacks_strength, _, lacks_form, lacks_brand = closeness
            is_broader = lacks_strength or (lacks_form and order.form) or lacks_brand
            names[name] = closeness == min(scored)[0] and not is_broader
        return names or (dict.fromkeys(ingredients, False) if len(ingredients) == 1 else {})

    @functools.lru_cache(maxsize=lexicon.REMEMBERED)  # noqa: B019 - as long as the index
    def _resolved(self, name: str) -> tuple[tuple[frozenset[str], str], ...]:
        """Return the ingredients that a name may stand for, each with the brand, if it is one."""
        words = name.split()
        for parts in ([part for part in (part.strip(_EDGES) for part in _BETWEEN.split(name)) if part], words):
            if len(parts) > 1 and (key := self._key(parts)) is not None:
                return ((key, ""),)
        for end in range(len(words), 0, -1):
            some = " ".join(words[:end]).strip(_EDGES)
            if some in self._by_brand:
                keys = sorted(self._by_brand[some], key=lambda key: (len(key), sorted(key)))
                return tuple((key, some) for key in keys)
            if (key := self._key([some])) is not None:
                return ((key, ""),)
        return ()

    def _key(self, names: Sequence[str]) -> frozenset[str] | None:
        found = [self._ingredient(name) for name in names]
        key = frozenset(name for name in found if name is not None)
        return key if names and None not in found and key in self._by_ingredients else None

    def _ingredient(self, name: str) -> str | None:
        """Return the ingredient of products that a name means: itself, a synonym of it, or its abbreviation."""
        if name in self._ingredients:
            return name
        for other in self._synonyms(name):
            if other in self._ingredients:
                return other
        for salt in lexicon.words("salt"):
            stem = name.removesuffix(salt.removesuffix("e")).removesuffix(salt)
            if stem != name and stem.isalpha() and stem in self._stems:
                name = f"{stem} {salt}"
        words = _WORD.findall(name)
        if not words or min(map(len, words)) < MIN_PREFIX:
            return None
        found = [
            other
            for other in dict.fromkeys(self._words.get(words[0][:MIN_PREFIX], ()))
            if all(any(whole.startswith(word) for whole in _WORD.findall(other)) for word in words)
        ]
        shortest = sorted(found, key=lambda other: (len(_WORD.findall(other)), len(other)))
        return shortest[0] if shortest else None

    def _synonyms(self, name: str) -> list[str]:
        """Return the preferred names of the concepts that the index calls so."""
        concepts = self._concepts([name])
        return clean_many(self._index.segment.concepts.column("name").take(concepts).to_pylist(), self._index.rules)

    def _concepts(self, names: Sequence[str]) -> pa.Array:
        segment, rows = self._index.segment, self._index.rows(names)
        spans = [segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]] for row in rows[rows >= 0]]
        return pa.array(np.unique(np.concatenate(spans)) if spans else [], pa.int64())

    def _types_of(self, concepts: pa.Array) -> list[str]:
        found = self._index.segment.concepts.column("semantic_types").take(concepts).to_pylist()
        return [name for some in found for name in some or ()]

    def _usual_types(self, products: Sequence[Product]) -> frozenset[str]:
        """Return the semantic types that most products have, such as OMOP's domain "Drug"."""
        names = [product.name for product in products[:: max(1, len(products) // 200)]]
        counts = Counter(self._types_of(self._concepts(names)))
        return frozenset(name for name, count in counts.items() if 2 * count > len(names))

    def _is_drug(self, name: str) -> bool:
        """Tell whether the index has a name, and of a concept of the products' types."""
        return not self._types.isdisjoint(self._types_of(self._concepts([name])))


def _form_words(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found = _COMPONENT.fullmatch(_QUANTITY.sub("", _BRAND.sub("", name)).rpartition(" / ")[2])
        if found is not None and found["form"]:
            yield found["form"]
