"""Noise as in real data, for training: typing errors, and words dropped, swapped, shortened or added.

Each kind is a small function of a cleaned string and a random generator that returns a changed string, or the same one
if it does not apply. `noisy` draws one or two kinds.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from alphita.terminology.rules import lexicon

# Shorter words are not misspelt, because the result would be ambiguous.
SHORTEST_MISSPELT = 4
SECOND_NOISE = 0.25
# Words that notes put before and after a name; they do not change the concept.
LEAD_INS, TAILS = lexicon.words("noise", "lead in"), lexicon.words("noise", "tail")
# The keys near each key, and sounds that are written in several ways.
NEAR_KEYS = {keys[0]: keys[1:] for keys in lexicon.words("noise", "keys")}
SOUNDS = [sound.split(">") for sound in lexicon.words("noise", "sounds")]


def noisy(string: str, chance: random.Random) -> str:
    """Return the string with one kind of noise, sometimes two; the same string if none applies."""
    names = list(KINDS)
    for _ in range(4):
        result = KINDS[chance.choice(names)](string, chance)
        if chance.random() < SECOND_NOISE:
            result = KINDS[chance.choice(names)](result, chance)
        if result != string and result.strip():
            return result
    return string


def slip(string: str, chance: random.Random) -> str:
    """Drop, double, swap or mistype one letter of one word."""
    words = string.split()
    long = [place for place, word in enumerate(words) if len(word) >= SHORTEST_MISSPELT]
    if not long:
        return string
    place = chance.choice(long)
    words[place] = _slip(words[place], chance)
    return " ".join(words)


def two_slips(string: str, chance: random.Random) -> str:
    """Make two typing errors."""
    return slip(slip(string, chance), chance)


def by_ear(string: str, chance: random.Random) -> str:
    """Write one sound in another way."""
    fitting = [(old, new) for old, new in SOUNDS if old in string]
    if not fitting:
        return string
    old, new = chance.choice(fitting)
    places = [start for start in range(len(string)) if string.startswith(old, start)]
    start = chance.choice(places)
    return string[:start] + new + string[start + len(old) :]


def swap_words(string: str, chance: random.Random) -> str:
    """Swap two neighbouring words."""
    words = string.split()
    if len(words) < 2:
        return string
    place = chance.randrange(len(words) - 1)
    words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


def inverted(string: str, chance: random.Random) -> str:
    """Put the last word first, as catalogues do: "acute renal failure" becomes "failure, acute renal"."""
    words = string.split()
    return f"{words[-1]}, {' '.join(words[:-1])}" if len(words) > 1 else string


def drop_word(string: str, chance: random.Random) -> str:
    """Drop one word of three or more."""
    words = string.split()
    if len(words) > 2:
        del words[chance.randrange(len(words))]
        return " ".join(words)
    return string


def cut_word(string: str, chance: random.Random) -> str:
    """Cut a long word to its first letters: "resp. failure"."""
    words = string.split()
    long = [place for place, word in enumerate(words) if len(word) > 6]
    if not long or len(words) < 2:
        return string
    place = chance.choice(long)
    words[place] = words[place][: chance.randint(3, 5)] + "."
    return " ".join(words)


def glue(string: str, chance: random.Random) -> str:
    """Leave out one space, or put one into a word."""
    spaces = [place for place, sign in enumerate(string) if sign == " "]
    if spaces and chance.random() < 0.6:
        place = chance.choice(spaces)
        return string[:place] + string[place + 1 :]
    if len(string) < 8:
        return string
    place = chance.randint(3, len(string) - 3)
    return string[:place] + " " + string[place:]


def lead_in(string: str, chance: random.Random) -> str:
    """Add words before or after the name, as notes do."""
    if chance.random() < 0.7:
        return f"{chance.choice(LEAD_INS)} {string}"
    return f"{string} {chance.choice(TAILS)}"


def coded(string: str, chance: random.Random) -> str:
    """Put a code before or after: "R06.02 - dyspnea", "100123 dyspnea", "dyspnea (786.05)"."""
    letter, digits = chance.choice("abcdefghijklmnopqrstz"), f"{chance.randrange(100):02}"
    long = f"{letter}{digits}.{chance.randrange(100)}"
    numbers = f"{chance.randrange(100, 1000)}.{digits}", str(chance.randrange(10_000, 100_000_000))
    code = chance.choice((f"{letter}{digits}", long, *numbers))
    return chance.choice((f"{code} {string}", f"{code}: {string}", f"{code} - {string}", f"{string} ({code})"))


def plural(string: str, chance: random.Random) -> str:
    """Make the last word plural, or singular."""
    if string.endswith("ies"):
        return string[:-3] + "y"
    if string.endswith("s") and not string.endswith(("ss", "sis", "us")):
        return string[:-1]
    return string + "s"


def _slip(word: str, chance: random.Random) -> str:
    place = chance.randrange(1, len(word) - 1)
    kind = chance.randrange(5)
    if kind == 0:
        return word[:place] + word[place + 1 :]
    if kind == 1:
        return word[:place] + word[place] + word[place:]
    if kind == 2:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    near = NEAR_KEYS.get(word[place], "aeiou")
    if kind == 3:
        return word[:place] + chance.choice(near) + word[place + 1 :]
    return word[:place] + chance.choice(near) + word[place:]


KINDS: dict[str, Callable[[str, random.Random], str]] = {
    kind.__name__: kind
    for kind in (slip, two_slips, by_ear, swap_words, inverted, drop_word, cut_word, glue, lead_in, coded, plural)
}
