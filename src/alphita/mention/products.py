"""Drugs as they are ordered, and the products that a terminology has for them.

The names of one index are read by their parts (`product_names`); an order such as "Augmentin 875 mg" leads to the
product that agrees with all that it says, else to one with the ingredients and the form ("amoxicillin / clavulanate
Oral Tablet"), else to the ingredient. What has no product keeps its other readings.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphita.index.store import Index
from alphita.mention.product_names import BRAND, COMPONENT, QUANTITY, Order, Product, agree, forms, order_of, parsed
from alphita.mention.spelling import ABBREVIATION, BROADER, OF_BRAND, ORDERED, Reading
from alphita.terminology.rules import lexicon
from alphita.terminology.text import clean_many

# A terminology with fewer names of products than this is no list of products.
MIN_PRODUCTS = 50
# Letters of a word that may stand for a longer one: "amox/clav", "metoprolol succ".
MIN_PREFIX = 4
# Products that an order leads to, the best first.
MAX_PRODUCTS = 3
# A name of a product, roughly: all others are not looked at one by one.
_PRODUCT = r"^.+ \d[\d.,]* (?:mg|mcg|g|ml|unt|meq|%|iu|ui)\b"
_EDGES = " ,;:.-()"
_WORD = re.compile(r"[^\W\d_]+")
_BETWEEN = re.compile(r"\s*(?:/|\+|-|\band\b|\bwith\b|\bmit\b|\be\b|\bet\b|\by\b)\s*")


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
        words = frozenset(_form_words(own))
        ends = re.compile(rf" (?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})(?: \[[^\[\]]+\])?$")
        with_form = pc.match_substring_regex(strings, ends.pattern)
        for name in strings.filter(pc.and_not(with_form, pc.match_substring_regex(strings, _PRODUCT))).to_pylist():
            if (product := parsed(name, words)) is not None:
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
        named = [one.name for one in sorted(own, key=lambda one: forms().rank(one.form))]
        broader = [" / ".join(sorted(key)), *(named if len(key) > 1 else [])]
        return dict.fromkeys(named if len(named) == 1 else broader, len(named) == 1)

    def _of(self, order: Order, ingredients: frozenset[str], brand: str) -> dict[str, bool]:
        """Return the names of the products that agree with an order, or of what is broader."""
        scored = []
        for product in self._by_ingredients.get(ingredients, ()):
            agreement = forms().agreement(order.form, product.form)
            if product.brand not in ("", brand) or agreement is None:
                continue
            if product.strengths and not agree(order.strengths, product.strengths):
                continue
            said = bool(order.strengths) == bool(product.strengths)
            unsaid = (product.form & ~order.form).bit_count()
            closeness = (not said, -agreement, product.form == 0, product.brand != brand)
            scored.append((closeness, forms().rank(product.form), unsaid, len(product.name), product.name))
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
        found = COMPONENT.fullmatch(QUANTITY.sub("", BRAND.sub("", name)).rpartition(" / ")[2])
        if found is not None and found["form"]:
            yield found["form"]
