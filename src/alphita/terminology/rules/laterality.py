"""Sides: left, right, one side, both.

"unilateral" leaves left and right open. "bilateral" excludes each side alone, as codings do: a finding of both sides
is another concept than one of the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from alphita.terminology.rules import read
from alphita.terminology.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "side: left, right, one or both"
VETO = True

LEFT, RIGHT, BOTH = 1, 2, 4
_LEXICON = Lexicon(
    {
        LEFT: {
            "en": "left|leftsided|lefthand|leftward|lt",
            "it": "sinistro|sinistra|sinistri|sinistre",
            "de": "linke|linker|linkes|linken|linkem|links*",
            "fr": "gauche|gauches",
            "es": "izquierdo|izquierda|izquierdos|izquierdas",
            "pt": "esquerdo|esquerda|esquerdos|esquerdas",
            "nl": "linker|links*",
            "zh": "左",
        },
        RIGHT: {
            "en": "right|rightsided|righthand|rightward|rt",
            "it": "destro|destra|destri|destre",
            "de": "rechte|rechter|rechtes|rechten|rechtem|rechts*",
            "fr": "droit|droite|droits|droites",
            "es": "derecho|derecha|derechos|derechas",
            "pt": "direito|direita|direitos|direitas",
            "nl": "rechter|rechts*",
            "zh": "右",
        },
        BOTH: {
            "en": "bilateral*|both sides|both eyes|both ears|both kidneys|both lungs|both breasts|both hands|both feet"
            "|both arms|both legs|both knees|both hips",
            "it": "bilateral*|entrambi|entrambe|ambo i lati",
            "de": "bilateral*|beidseit*|beiderseit*|doppelseit*|beide|beider|beiden",
            "fr": "bilatér*|des deux côtés|les deux",
            "es": "bilateral*|ambos|ambas",
            "pt": "bilateral*|ambos|ambas",
            "nl": "bilateral*|beiderzijds|tweezijdig*|dubbelzijdig*",
            "zh": "双侧|两侧|雙側|兩側|双眼|双耳|双肾|双肺|双手|双足|双膝",
        },
        LEFT | RIGHT: {
            "en": "unilateral*|one sided|onesided",
            "it": "unilateral*|monolateral*",
            "de": "unilateral*|einseit*|halbseit*",
            "fr": "unilatér*",
            "es": "unilateral*",
            "pt": "unilateral*",
            "nl": "unilateral*|eenzijdig*|enkelzijdig*",
            "zh": "单侧|單側",
        },
        # Polymerase chain reaction; drugs named after the hand of their molecule.
        SILENT: {"en": "rt pcr", "zh": "左旋|左氧氟|左炔诺|左西|左乙拉|左甲状|左卡|右旋|右美|右佐|右兰|右丙"},
    }
)

# What may stand behind a side: "left sided".
_SIDED = frozenset(["side", "sided", "seite", "lato", "côté", "lado"])

LANGUAGES = _LEXICON.languages
concerns = _LEXICON.concerns
find = _LEXICON.find
PATTERN = _LEXICON.pattern()
speaks = nonzero
agree = shared
contradict = disjoint


def code(values: Sequence[int]) -> int:
    """Join the sides named; left with right leaves both sides open too."""
    joined = narrowest(values)
    return joined | BOTH if LEFT in values and RIGHT in values else joined


class Sided(NamedTuple):
    """A string that names one side, left or right.

    Attributes:
        of: the word behind the side, or before it where it is the last; "" for none.
    """

    whole: str
    of: str


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
    return code([found.value for found in find(read(string))])
