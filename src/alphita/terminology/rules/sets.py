"""Rules whose values are sets of possibilities, one bit each: "unilateral" leaves {left, right} open.

Two values exclude each other if they have no bit in common. The words of each rule are in `lexicon.tsv`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from alphita.terminology.rules import lexicon
from alphita.terminology.rules.lexicon import REMEMBERED, Codes, Flags, Found, Lexicon, Text, read


def narrowest(values: Sequence[int]) -> int:
    """Join the values, leaving out those that contain another one: "unilateral, left" is left."""
    if len(values) == 1:
        return values[0]
    joined = 0
    for value in values:
        if not any(other != value and other & value == other for other in values):
            joined |= value
    return joined


def nonzero(codes: Codes) -> Flags:
    """Tell which codes say anything."""
    return codes != 0


def shared(left: Codes, right: Codes) -> Flags:
    """Tell which pairs leave something open in common."""
    return np.asarray(left & right != 0)


def disjoint(left: Codes, right: Codes) -> Flags:
    """Tell which pairs both say something and leave nothing open in common."""
    return np.asarray((left != 0) & (right != 0) & (left & right == 0))


def _union(bits: Mapping[str, int], names: str) -> int:
    return functools.reduce(int.__or__, (bits[name] for name in names.split()))


class SetRule:
    """A `Rule` whose codes are sets of bits.

    Attributes:
        axes: bits that are compared together; two codes contradict each other if they do on one axis.
    """

    def __init__(
        self,
        axis: str,
        values: str,
        *,
        groups: Mapping[str, str] | None = None,
        axes: Sequence[str] = (),
        veto: bool = True,
        code: Callable[[Sequence[int]], int] = narrowest,
        is_meant: Callable[[Text, int, Found], bool] | None = None,
    ) -> None:
        """Read the lexicon of an axis.

        Args:
            values: their names, in the order of the bits.
            groups: names for several values, or groups before.
            axes: the names of the values of each; one for all where not given.
            code: see `Rule`.
            is_meant: tells whether a phrase that was found at a place is meant.
        """
        bits = {name: 1 << bit for bit, name in enumerate(values.split())}
        for name, parts in (groups or {}).items():
            bits[name] = _union(bits, parts)
        self.VETO, self.bits, self.code = veto, bits, code
        self.axes = tuple(_union(bits, names) for names in axes) or (-1,)
        self._lexicon = Lexicon.of(axis, bits)
        self._is_meant = is_meant
        # Remembered, for the same words come again.
        self.values = functools.lru_cache(REMEMBERED)(self._values)
        self.concerns = self._lexicon.concerns
        self.pattern = self._lexicon.pattern
        self.speaks, self.agree = nonzero, shared

    def find(self, text: Text) -> list[Found]:
        """Return the values that a string names."""
        return [found for _, found in self.find_at(text)]

    def find_at(self, text: Text) -> list[tuple[int, Found]]:
        """Return the values that a string names, each with the place of its first word."""
        found_at = self._lexicon.find_at(text)
        if self._is_meant is None:
            return found_at
        return [(place, found) for place, found in found_at if self._is_meant(text, place, found)]

    def _values(self, string: str) -> tuple[int, ...]:
        """Return the values that a string names; see `values`."""
        return tuple(found.value for found in self.find(read(string)))

    def contradict(self, left: Codes, right: Codes) -> Flags:
        """Tell which pairs of codes exclude each other on an axis."""
        clash = disjoint(left & self.axes[0], right & self.axes[0])
        for axis in self.axes[1:]:
            clash |= disjoint(left & axis, right & axis)
        return clash


# Age groups: fetus, newborn (to 28 days), infant (to a year), child (to 10), adolescent, young adult, middle age, old
# age. "Infantile" is read as English: the child's in other languages.
AGE_GROUP = SetRule("age_group", "fetus newborn infant child adolescent young middle old")
# Regions and organs. A region contains its parts, so "hand" and "finger" do not exclude each other, "hand" and "foot"
# do. The pulmonary valve and artery are the heart's as well as the lung's.
BODY_SITE = SetRule(
    "body_site",
    "shoulder upper_arm elbow forearm wrist palm thumb finger hip thigh knee shin ankle sole hallux toe eyelid eye "
    "ear nose lip tongue tooth oral_cavity jaw chin cheek forehead scalp skull brain neck thyroid larynx pharynx "
    "heart lung breast rib esophagus stomach liver gallbladder pancreas spleen bowel rectum kidney adrenal bladder "
    "urethra ovary uterus vagina testis penis prostate spine pituitary",
    groups={
        "hand": "wrist palm thumb finger",
        "arm": "shoulder upper_arm elbow forearm hand",
        "foot": "ankle sole hallux toe",
        "leg": "hip thigh knee shin foot",
        "mouth": "lip tongue tooth oral_cavity jaw",
        "face": "eyelid eye ear nose mouth chin cheek forehead",
        "head": "face scalp skull brain pituitary",
        "chest": "heart lung breast rib esophagus",
        "pelvis": "rectum bladder urethra ovary uterus vagina prostate hip",
        "abdomen": "stomach liver gallbladder pancreas spleen bowel kidney adrenal pelvis",
        "genitals": "ovary uterus vagina testis penis prostate urethra",
    },
    veto=False,
)
# Course and origin: five pairs of opposites. "Recurrent" and "intermittent" exclude none. Not read: "akut" and the like
# inside compounds; "stable" ("stable angina"); "idiopathic"; kinds of teeth, "primary" or "permanent".
COURSE = SetRule(
    "course",
    "acute subacute chronic congenital acquired transient permanent progressive stationary primary secondary",
    axes=(
        "acute subacute chronic",
        "congenital acquired",
        "transient permanent",
        "progressive stationary",
        "primary secondary",
    ),
)
# What is administered. "Solution" leaves open whether it is for injection, drops, a spray, to drink or to inhale.
DOSE_FORM = SetRule(
    "dose_form",
    "tablet capsule lozenge drink syrup drops spray inhalation injection enema liquid powder granules cream ointment "
    "gel lotion paste foam patch suppository pessary implant shampoo",
    groups={"solution": "liquid drink syrup drops spray inhalation injection enema"},
)
# "Male" is "badly" and "ache" in Italian, so it is passed over before Italian prepositions; "men" before a number is a
# tumour syndrome; Spanish "niño" and German "Junge" may be of either sex and are not read.
SEX = SetRule("sex", "male female")
# Opposite ends by which names are distinguished.
ENDS = (
    *("with without", "upper lower", "benign malignant", "anterior posterior", "proximal distal", "medial lateral"),
    *("internal external", "central peripheral", "dominant recessive"),
)
OPPOSITE = SetRule("opposite", " ".join(ENDS), axes=ENDS)
# The same without the first: "with" says little in a mention.
OPPOSITE_END = SetRule(
    "opposite",
    " ".join(ENDS),
    axes=ENDS[1:],
    code=lambda values: narrowest(values) & ~OPPOSITE.axes[0] if values else 0,
)


def _residual_code(values: Sequence[int]) -> int:
    """Join the classes: each leaves itself open."""
    return functools.reduce(int.__or__, values, 0) & ~_AT_START


# "Unspecified" (NOS) and "other" (NEC). "Other" counts before a name only where it stands first or before "specified",
# for "due to other causes" is no class of its own.
_AT_START = 4
RESIDUAL = SetRule(
    "residual",
    "unspecified other first",
    code=_residual_code,
    is_meant=lambda text, place, found: not (found.value & _AT_START and place),
)


def _is_route(text: Text, place: int, found: Found) -> bool:
    """Tell whether a phrase is a route: short ones only where a drug is spoken of."""
    if found.words not in lexicon.word_set("route words", "short") or (place == 0 and found.words == "iv"):
        return True
    drug = lexicon.word_set("route words", "drug")
    return any(not word.isalpha() for word in text.words) or not drug.isdisjoint(text.words)


# "Parenteral" leaves every injected route open, "topical" those of skin, eye, ear and nose.
ROUTE = SetRule(
    "route",
    "oral sublingual rectal vaginal intravenous intramuscular subcutaneous intradermal intrathecal epidural "
    "intraarticular intraarterial inhaled nasal ophthalmic otic cutaneous transdermal intravitreal",
    groups={
        "injected": "intravenous intramuscular subcutaneous intradermal intrathecal epidural intraarticular "
        "intraarterial intravitreal"
    },
    is_meant=_is_route,
)

# The two ends of what can be more or less: "high" and "low" of an amount, "thick" and "thin" of a thickness.
_SCALES = ("amount", "strength", "thickness", "width", "speed", "time", "shade", "moisture", "tightness", "hardness")
_DEGREES = tuple(f"more_{scale} less_{scale}" for scale in (*_SCALES, "bound"))
DEGREE = SetRule("degree", " ".join(_DEGREES), axes=_DEGREES)
# What is over, or a relative's; only at the beginning or the end: "history of stroke", "stroke, history of".
STATUS = SetRule(
    "status",
    "past family",
    is_meant=lambda text, place, found: place <= 2 or place + len(found.words.split()) == len(text.words),
)

LEFT, RIGHT, BOTH = 1, 2, 4


def _sides(values: Sequence[int]) -> int:
    """Join the sides named; left with right leaves both sides open too."""
    joined = narrowest(values)
    return joined | BOTH if LEFT in values and RIGHT in values else joined


# "Unilateral" leaves left and right open. "Bilateral" excludes each side alone, as codings do: a finding of both sides
# is another concept than one of the left.
LATERALITY = SetRule("laterality", "left right both", code=_sides)
SIDE_PATTERN = LATERALITY.pattern()
# What may stand behind a side: "left sided".
_SIDED = frozenset(["side", "sided", "seite", "lato", "côté", "lado"])


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
        if not sides[place] and not (place and sides[place - 1] and word.strip(",.") in _SIDED)
    ]
    of = next((place for place in left if place > first), left[-1] if left else None)
    whole = " ".join(words[place] for place in left).strip(" ,-")
    return Sided(whole, "" if of is None else words[of].strip(",."))


def side(string: str) -> int:
    """Return the sides that a string names, as bits; 0: none."""
    return _sides(LATERALITY.values(string))
