"""Mentions by a regular expression: every form an alternative, the longest first, no mention ending inside a word."""

from __future__ import annotations

import re
from collections.abc import Iterable


def find(text: str, keys: Iterable[str], word: str) -> list[tuple[int, int, str]]:
    """Return start, end and key of the mentions in a folded text.

    Args:
        text: folded.
        keys: folded forms.
        word: a regular expression for one character of a word.
    """
    not_inside = f"(?:(?<!{word})|(?!{word}))"
    alternatives = "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))
    found = re.finditer(f"{not_inside}(?:{alternatives}){not_inside}", text)
    return [(one.start(), one.end(), one[0]) for one in found]
