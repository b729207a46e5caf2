"""Rules whose values are sets of possibilities, one bit each: "unilateral" leaves {left, right} open.

Two values exclude each other if they have no bit in common. The words of each rule are in `lexicon.tsv`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import REMEMBERED, Codes, Flags, Found, Lexicon, Text, joined, read


def narrowest(values: Sequence[int]) -> int:
    """Join the values, leaving out those that contain another one: "unilateral, left" is left."""
    if len(values) == 1:
        return values[0]
    distinct = {*values}
    return joined(one for one in distinct if not any(other != one and other & one == other for other in distinct))


def nonzero(codes: Codes) -> Flags:
    """Tell which codes say anything."""
    return codes != 0


def shared(left: Codes, right: Codes) -> Flags:
    """Tell which pairs leave something open in common."""
    return np.asarray(left & right != 0)


def disjoint(left: Codes, right: Codes) -> Flags:
    """Tell which pairs both say something and leave nothing open in common."""
    return np.asarray((left != 0) & (right != 0) & (left & right == 0))


class SetRule:
    """A `Rule` whose codes are sets of bits.

    Attributes:
        axes: bits that are compared together; two codes contradict each other if they do on one axis.
    """

    def __init__(
        self,
        axis: str,
        *,
        veto: bool = True,
        code: Callable[[Sequence[int]], int] = narrowest,
        is_meant: Callable[[Text, int, Found], bool] | None = None,
    ) -> None:
        """Read the lexicon of an axis; `is_meant` tells whether a phrase that was found at a place is meant."""
        compared = lexicon.words("values", axis)
        bits = {name: 1 << bit for bit, name in enumerate(" ".join(compared).split())}
        self.axes = tuple(joined(bits[one] for one in names.split()) for names in compared if " " in names) or (-1,)
        for row in lexicon.rows("part"):
            of, name = row.value.split()
            if of == axis:
                bits[name] = joined(bits[one] for one in row.words)
        self.VETO, self.code, self._is_meant = veto, code, is_meant
        self._lexicon = Lexicon.of(axis, bits)
        # Remembered, for the same words come again.
        self.values = functools.lru_cache(REMEMBERED)(self._values)
        self.concerns, self.pattern = self._lexicon.concerns, self._lexicon.pattern
        self.speaks, self.agree = nonzero, shared

    def find(self, text: Text) -> list[Found]:
        """Return the values that a string names."""
        return [found for _, found in self.find_at(text)]

    def find_at(self, text: Text) -> list[tuple[int, Found]]:
        """Return the values that a string names, each with the place of its first word."""
        is_meant, found_at = self._is_meant, self._lexicon.find_at(text)
        return found_at if is_meant is None else [found for found in found_at if is_meant(text, *found)]

    def _values(self, string: str) -> tuple[int, ...]:
        """Return the values that a string names; see `values`."""
        return tuple(found.value for found in self.find(read(string)))

    def contradict(self, left: Codes, right: Codes) -> Flags:
        """Tell which pairs of codes exclude each other on an axis."""
        return np.asarray(np.logical_or.reduce([disjoint(left & axis, right & axis) for axis in self.axes]))


AGE_GROUP = SetRule("age_group")
# A region contains its parts, so "hand" and "finger" do not exclude each other, "hand" and "foot" do. The pulmonary
# valve and artery are the heart's as well as the lung's.
BODY_SITE = SetRule("body_site", veto=False)
# "With and without" excludes each alone, as "bilateral" does each side: these are three procedures.
CONTRAST = SetRule("contrast")
# "Recurrent" and "intermittent" exclude none. Not read: "akut" and the like inside compounds; "stable" ("stable
# angina"); "idiopathic"; kinds of teeth, "primary" or "permanent".
COURSE = SetRule("course")
# What is administered. "Solution" leaves open whether it is for injection, drops, a spray, to drink or to inhale.
DOSE_FORM = SetRule("dose_form")
# "Male" is "badly" and "ache" in Italian, so it is passed over before Italian prepositions; "men" before a number is a
# tumour syndrome; Spanish "niño" and German "Junge" may be of either sex and are not read.
SEX = SetRule("sex")
# Opposite ends by which names are distinguished, and the same without the first: "with" says little in a mention.
OPPOSITE = SetRule("opposite")
OPPOSITE_END = SetRule("opposite", code=lambda values: narrowest(values) & ~OPPOSITE.axes[0])
# "Unspecified" (NOS) and "other" (NEC), each of which leaves itself open. "Other" counts before a name only where it
# stands first or before "specified", for "due to other causes" is no class of its own.
_AT_START = 4
RESIDUAL = SetRule(
    "residual",
    code=lambda values: joined(values) & ~_AT_START,
    is_meant=lambda text, place, found: not (found.value & _AT_START and place),
)


def _is_route(text: Text, place: int, found: Found) -> bool:
    """Tell whether a phrase is a route: short ones only where a drug is spoken of."""
    if found.words not in lexicon.word_set("route words", "short") or (place == 0 and found.words == "iv"):
        return True
    return _names_drug(text.string)


@functools.lru_cache(maxsize=REMEMBERED)
def _names_drug(cleaned: str) -> bool:
    words = read(cleaned).words
    return any(not word.isalpha() for word in words) or not lexicon.word_set("route words", "drug").isdisjoint(words)


# "Parenteral" leaves every injected route open, "topical" those of skin, eye, ear and nose.
ROUTE = SetRule("route", is_meant=_is_route)
# The two ends of what can be more or less: "high" and "low" of an amount, "thick" and "thin" of a thickness.
DEGREE = SetRule("degree")
_FAMILY = 2


def _is_status(text: Text, place: int, found: Found) -> bool:
    """Tell whether a status is that of the whole, not of what follows alone: "gout s/p surgery"."""
    if place + len(found.words.split()) == len(text.words):
        return True
    return place <= 2 and (found.value == _FAMILY or lexicon.word_set("idle").issuperset(text.shown[:place]))


# What is over, or a relative's; only at the beginning or the end: "history of stroke", "stroke, history of".
STATUS = SetRule("status", is_meant=_is_status)

LEFT, RIGHT, BOTH = 1, 2, 4


def _sides(values: Sequence[int]) -> int:
    """Join the sides named; left with right leaves both sides open too."""
    return narrowest(values) | (BOTH if LEFT in values and RIGHT in values else 0)


# "Unilateral" leaves left and right open. "Bilateral" excludes each side alone, as codings do: a finding of both sides
# is another concept than one of the left.
LATERALITY = SetRule("laterality", code=_sides)
SIDE_PATTERN = LATERALITY.pattern()


class Sided(NamedTuple):
    """A string that names one side, left or right.

    Attributes:
        of: the word behind the side, or before it where it is the last; "" for none.
    """

    whole: str
    of: str


@functools.lru_cache(maxsize=REMEMBERED)
def sided(string: str) -> Sided | None:
    """Take the side from a cleaned string, left or right; None: it names none, or both."""
    if side(string) not in (LEFT, RIGHT):
        return None
    words = string.split()
    sides = [side(word) for word in words]
    first = next((place for place, value in enumerate(sides) if value), None)
    # "The right side of the chest" is a place, as is the left upper quadrant.
    if first is None or words[first + 1 : first + 3] == ["side", "of"] or "quadrant" in words:
        return None
    left = [
        place
        for place, word in enumerate(words)
        if not sides[place] and not (place and sides[place - 1] and word.strip(",.") in lexicon.word_set("sided"))
    ]
    of = next((place for place in left if place > first), left[-1] if left else None)
    whole = " ".join(words[place] for place in left).strip(" ,-")
    return Sided(whole, "" if of is None else words[of].strip(",."))


def side(string: str) -> int:
    """Return the sides that a string names, as bits; 0: none."""
    return _sides(LATERALITY.values(string))
