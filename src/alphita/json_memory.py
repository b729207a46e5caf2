"""How much memory a text in JSON takes when it is read: of a gigabyte of empty lists that is 26.

Told by counting signs, before anything is made of them.
"""

from __future__ import annotations

import re
import sys

# What a text may take with its values; and how many times its length that can be.
MOST_BYTES, MOST_DENSE = 2 * 2**30, 50
# Bytes that begin characters beyond U+00FF and beyond U+FFFF.
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")


def check(text: str | bytes) -> None:
    """Raise ValueError if a text in JSON takes more than `MOST_BYTES` with its values."""
    if len(text) * MOST_DENSE > MOST_BYTES and (memory := estimated(text)) > MOST_BYTES:
        most = f"{MOST_BYTES / 2**30:.1f} GB is the most"
        raise ValueError(f"too large: its values take about {memory / 2**30:.1f} GB of memory, and {most}")


def estimated(text: str | bytes) -> int:
    """Return about how many bytes a text takes with its values: hardly ever too few, at most some three times too
    many."""

    def count(sign: str) -> int:
        return text.count(sign) if isinstance(text, str) else text.count(sign.encode())

    lists, objects, keys = count("["), count("{"), count('":')
    values = count(",") + lists + objects
    strings = count('"') // 2 - keys
    numbers = max(0, values - strings - lists - objects)
    taken = 96 * lists + 192 * objects + 32 * keys + 64 * strings + 40 * numbers + 8 * values + len(text)
    if isinstance(text, str):
        return taken + sys.getsizeof(text)
    # Decoded, each character takes as much as the widest of all.
    width = 4 if _WIDEST.search(text) else 2 if _WIDE.search(text) else 1
    return taken + (width + 1) * len(text)
