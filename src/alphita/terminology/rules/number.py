"""Numbers: plain ones, and measures compared in one unit (0.5 g = 500 mg).

Each dimension is compared for itself: plain numbers, mass, volume, time, length, ...
"""

from __future__ import annotations

import re
from fractions import Fraction

from alphita.terminology.rules import lexicon, quantities, stage
from alphita.terminology.rules.lexicon import Found, Text
from alphita.terminology.rules.quantities import NAMES, NUMBER, PLAIN, Slots, fraction, hashed, in_base_unit
from alphita.terminology.rules.sets import nonzero

VETO = True

_SLOTS = Slots(count=2, kind_bits=5, major_bits=26)
_WORDS = {word: int(number) for word, number in lexicon.meanings("number").items()}
_LAST = {"i": 1, "iv": 4, "v": 5, "x": 10}
_INGREDIENTS = {quantities.MASS, quantities.UNITS, quantities.AMOUNT, quantities.PERCENT}
_OF_INGREDIENTS = "|".join(
    re.escape(name) for name, (of, _) in quantities.UNITS_OF_MEASURE.items() if of in _INGREDIENTS
)
# After a "/": the next ingredient of a combination, "800 mg/trimethoprim 160 mg".
_INGREDIENT = rf"\s?(?!(?:{NAMES})(?!\w))[^\W\d_]{{4}}[^\d/]{{0,60}}?\s(?:{NUMBER})\s?(?:{_OF_INGREDIENTS})(?!\w)"
_QUANTITY = re.compile(
    rf"""(?<![^\s(\[;:=])(?P<sign>-?)(?P<digits>{NUMBER})
         (?>(?:(?P<ordinal>st|nd|rd|th)(?!\w)|\s?(?P<unit>{NAMES})(?![^\W\u3400-\u9fff]))?)
         (?![^\W\u3400-\u9fff]|\.\d|\s?[-/^*×]\s?\d|\s?(?:per\b|pro\b|je\b)
         |\s?/(?(unit)(?!{_INGREDIENT}))
         |\s(?:{lexicon.pattern("quantity words", "open")}))""",
    re.VERBOSE,
)
LONGEST_BOUND = 64
_BOUND = re.compile(rf"(?:[<>≤≥=~±]|\b(?:{lexicon.pattern('quantity words', 'bound')}))\.?\s?$")


def concerns(word: str) -> bool:
    """Tell whether the word holds a digit or is the name of a number."""
    return word in _WORDS or word in _LAST or not word.isalpha()


def find(text: Text) -> list[Found]:
    """Return the numbers, each as its dimension and a hash of its value."""
    spans = [found.span() for found in lexicon.WORD.finditer(text.string)]
    string = text.string
    used = stage.places(text)
    for place in used:
        start, end = spans[place]
        string = string[:start] + "_" * (end - start) + string[end:]
    found = []
    for part in _QUANTITY.finditer(string):
        number = fraction(part["digits"])
        if number is None or _BOUND.search(string, max(0, part.start() - LONGEST_BOUND), part.start()):
            continue
        number = -number if part["sign"] else number
        dimension, number = in_base_unit(number, part["unit"]) if part["unit"] else (PLAIN, number)
        found.append(Found(_SLOTS.value(dimension, hashed(number)), part[0]))
    for place, word in enumerate(text.words):
        named = _WORDS.get(word)
        if named is None and place and place == len(text.words) - 1:
            named = _LAST.get(word)
        # "Second" is a unit of time behind a number.
        is_time = word == "second" and place and (text.words[place - 1].isdecimal() or text.words[place - 1] == "per")
        if named is not None and place not in used and not is_time:
            found.append(Found(_SLOTS.value(PLAIN, hashed(Fraction(named))), text.shown[place]))
    return found


code, speaks, contradict, agree = _SLOTS.code, nonzero, _SLOTS.contradict, _SLOTS.agree
