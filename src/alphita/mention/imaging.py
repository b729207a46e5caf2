"""Orders of imaging, read as modality, site, side, contrast and views: "MRI brain w/wo", "Rö Thorax p.a.".

The names of one index are read by the same words (axis `imaging` of the lexicon), so an order leads to the procedure
whose name says the same, however either is written. If none does, it leads to the procedure that says less, which is
broader. A string with a word that belongs to no part, such as "CT stone protocol", is not read.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from alphita.index.store import Index
from alphita.mention.spelling import ABBREVIATION, BROADER, ORDERED, Reading
from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import REMEMBERED, Lexicon, joined, read
from alphita.terminology.text import clean_many

AXIS = "imaging"
# An index with fewer names of imaging is not read.
MIN_NAMES = 20
# Procedures that an order leads to, the best first.
MAX_READINGS = 3
# What a procedure may leave open, the least important first.
OPEN = ("views", "contrast", "side", "purpose")


class Order(NamedTuple):
    """What an order or a name says, as bits of each part; 0: nothing.

    Attributes:
        modality: what takes the picture: CT, X-ray, ...
        technique: angiography, Doppler.
        purpose: screening, diagnostic, or at the bed.
        views: projections of an X-ray.
    """

    modality: int = 0
    technique: int = 0
    purpose: int = 0
    contrast: int = 0
    views: int = 0
    side: int = 0
    site: int = 0


class Parts(NamedTuple):
    """The words of the parts, the bits of each part, in the order of `Order`, and a pattern of the modalities."""

    lexicon: Lexicon
    masks: tuple[int, ...]
    bits: dict[str, int]
    modalities: str


@functools.cache
def _parts() -> Parts:
    groups = [names.split() for names in lexicon.words("values", AXIS)]
    bits = {name: 1 << place for place, name in enumerate(name for group in groups for name in group)}
    own = [(joined(bits[name] for name in row.value.split()), row.words) for row in lexicon.rows(AXIS)]
    with_contrast = {"both": bits["with"] | bits["without"]}
    own += [((bits | with_contrast)[row.value], row.words) for row in lexicon.rows("contrast")]
    # "Both knees" names a site too.
    sides = [(bits[row.value], row.words) for row in lexicon.rows("laterality") if row.value in bits]
    own += [(bit, tuple(word for word in words if " " not in word)) for bit, words in sides]
    masks = tuple(joined(bits[name] for name in group) for group in groups)
    modalities = Lexicon(row for row in own if row[0] & masks[0]).pattern()
    return Parts(Lexicon(own), masks, bits, modalities)


@functools.lru_cache(maxsize=REMEMBERED)
def parsed(string: str) -> Order | None:
    """Read a cleaned string by its parts; None if it is not of imaging, or has a word that belongs to no part."""
    known, masks, bits, _ = _parts()
    text = read(string)
    found = known.find_at(text)
    said = joined(one.value for _, one in found)
    if not said & masks[0] or sum(len(one.words.split()) for _, one in found) < len(text.words):
        return None
    order = Order(*(said & mask for mask in masks[: len(Order._fields)]))
    if order.technique == bits["doppler"] and order.modality & bits["us"]:
        order = order._replace(modality=bits["us"])
    # "Left and right" is both; two modalities, "PET/CT", are another examination.
    if order.side.bit_count() > 1:
        order = order._replace(side=bits["both"])
    return order if order.site and order.modality.bit_count() == 1 else None


class Imaging:
    """The imaging procedures of one index, and what orders lead to."""

    def __init__(self, index: Index) -> None:
        self._index = index
        strings = index.strings.array
        own = strings.filter(pc.match_substring_regex(strings, _parts().modalities)).to_pylist()
        self._names: dict[Order, list[str]] = {}
        for name in own:
            if (order := parsed(name)) is not None:
                self._names.setdefault(order, []).append(name)
        self.is_list = len(self._names) >= MIN_NAMES
        preferred = index.segment.concepts.column("name").to_pylist() if self.is_list else []
        self._preferred = frozenset(clean_many(preferred, index.rules))

    def readings(self, mentions: Iterable[str]) -> tuple[Reading, ...]:
        """Return the procedures that the first of some cleaned readings of a mention leads to, the best first."""
        order = next((order for mention in mentions if (order := parsed(mention)) is not None), None)
        if order is None:
            return ()
        for less, is_broader in _less(order):
            if names := self._one_each(self._names.get(less, ())):
                is_only = less == order and len(names) == 1
                return tuple(
                    Reading(name, ABBREVIATION, is_only, 1 / (1 + number), BROADER if is_broader else ORDERED)
                    for number, name in enumerate(names[:MAX_READINGS])
                )
        return ()

    def _one_each(self, names: Iterable[str]) -> list[str]:
        """Return one name of each concept: its own before a synonym, then the shortest."""
        segment = self._index.segment
        found: dict[tuple[int, ...], str] = {}
        ordered = sorted(names, key=lambda name: (name not in self._preferred, len(name), name))
        for name, row in zip(ordered, self._index.rows(ordered), strict=True):
            concepts = np.unique(segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]])
            found.setdefault(tuple(concepts.tolist()), name)
        return [*found.values()]


def _less(order: Order) -> Iterator[tuple[Order, bool]]:
    """Return what an order says, another way to say it, and less and less of it, each with whether it is broader."""
    yield order, False
    bits = _parts().bits
    if order.views == bits["two_views"]:
        # Of the chest from behind, of limbs from before.
        yield from ((order._replace(views=bits[view] | bits["lateral"]), False) for view in ("pa", "ap"))
    if order.site in (bits["brain"], bits["head"]):
        # Many order one and mean the other.
        yield order._replace(site=bits["brain"] ^ bits["head"] ^ order.site), False
    for size in range(1, len(OPEN) + 1):
        for gone in itertools.combinations(OPEN, size):
            yield order._replace(**dict.fromkeys(gone, 0)), True
