"""Mentions that name several concepts: "seizures and hypotonia", "fever, cough; rash"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import clean

# What joins two names: signs, and words for "and" and "or" that are no other word, nor a letter ("hepatitis E virus").
_JOINS = re.compile(r"[,;/+&、，；]|\b(?:and|or|plus|ed|und|oder|et|ou|y|en|nebo|ve|veya)\b")


def parts_of(mention: str) -> list[str]:
    """Return the cleaned strings that signs or words join in a cleaned mention; one alone where nothing does."""
    return [part for piece in _JOINS.split(mention) if (part := clean(piece))]


def name_several(mentions: Sequence[str], rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Tell which cleaned mentions, (n,), join two or more names of the index, whatever else stands between.

    Args:
        mentions: n cleaned strings.
        rows: the row of each cleaned string in the index, -1 where it is none (`Index.rows`).
    """
    parts = {number: some for number, mention in enumerate(mentions) if len(some := parts_of(mention)) > 1}
    known = rows([part for some in parts.values() for part in some]) if parts else np.empty(0, np.int64)
    found, start = np.zeros(len(mentions), bool), 0
    for number, some in parts.items():
        found[number] = len({int(row) for row in known[start : start + len(some)] if row >= 0}) > 1
        start += len(some)
    return found
