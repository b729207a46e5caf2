"""Strings to measure an approximate search with: real ones, misspelt or cut short as people write them.

The index's own strings would flatter it: their vectors lie in it.
"""

from __future__ import annotations

import hashlib
import random
import string as characters
from collections.abc import Sequence

PROBES = 1000


def rows(n: int, seed: str) -> list[int]:
    """Return the rows of up to `PROBES` of n strings, drawn by a seed."""
    return sorted(random.Random(seed).sample(range(n), min(n, PROBES)))


def vary(strings: Sequence[str]) -> list[str]:
    """Return each string with a word left out or exchanged with the next, or else one or two letters changed."""
    return [_vary(string) for string in strings]


def _vary(string: str) -> str:
    chance = random.Random(hashlib.sha256(string.encode("utf-8", "surrogatepass")).digest())
    words = string.split()
    if len(words) > 2 and chance.random() < 0.5:
        place = chance.randrange(len(words) - 1)
        if chance.random() < 0.5:
            del words[place]
        else:
            words[place], words[place + 1] = words[place + 1], words[place]
        return " ".join(words)
    for _ in range(1 + (len(string) > 12)):
        string = _misspell(string, chance)
    return string


def _misspell(string: str, chance: random.Random) -> str:
    place = chance.randrange(len(string)) if string else 0
    kind = chance.randrange(4)
    if kind == 0 and len(string) > 3:
        return string[:place] + string[place + 1 :]
    if kind == 1 and place + 1 < len(string):
        return string[:place] + string[place + 1] + string[place] + string[place + 2 :]
    letter = chance.choice(characters.ascii_lowercase)
    return string[:place] + letter + string[place + (kind == 2) :]
