"""Mentions that name several concepts: "seizures and hypotonia", "fever, cough; rash"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import clean

# What joins two names: signs, and words for "and" and "or" that are no other word, nor a letter ("hepatitis E virus").
_JOINS = re.compile(r"[,;/+&、，；]|\b(?:and|or|plus|with|ed|con|und|oder|mit|et|ou|avec|y|en|met|nebo|ve|veya)\b")


def parts_of(mention: str) -> list[str]:
    """Return the cleaned strings that signs or words join in a cleaned mention; one alone where nothing does."""
    return [part for piece in _JOINS.split(mention) if (part := clean(piece))]


def names_in(mention: str, rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> list[str]:
    """Return the names that a mention joins, as it writes them; the mention alone where it is one."""
    pieces = [piece.strip() for piece in re.split(_JOINS.pattern, mention, flags=re.IGNORECASE) if clean(piece)]
    if len(pieces) < 2 or rows([clean(mention)])[0] >= 0:
        return [mention]
    for least, parts in _shared(pieces):
        known = rows([clean(part) for part in parts])
        if (known >= 0).sum() >= least and len(set(known[known >= 0].tolist())) > 1:
            return parts
    return [mention]


def _shared(pieces: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the ways to complete some pieces, each with how many of them must be names."""
    yield 2, list(pieces)
    first, last = pieces[0].split(), pieces[-1].split()
    for start in range(1, len(last)):
        yield len(pieces), [*(f"{piece} {' '.join(last[start:])}" for piece in pieces[:-1]), pieces[-1]]
    for end in range(len(first) - 1, 0, -1):
        yield len(pieces), [pieces[0], *(f"{' '.join(first[:end])} {piece}" for piece in pieces[1:])]


def name_several(mentions: Sequence[str], rows: Callable[[Sequence[str]], NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Tell which cleaned mentions, (n,), join two or more names of the index, whatever else stands between."""
    parts = {number: some for number, mention in enumerate(mentions) if len(some := parts_of(mention)) > 1}
    ways = [(number, least, way) for number, some in parts.items() for least, way in _shared(some)]
    known = rows([part for _, _, way in ways for part in way]) if ways else np.empty(0, np.int64)
    found, start = np.zeros(len(mentions), bool), 0
    for number, least, way in ways:
        named = known[start : start + len(way)]
        found[number] |= (named >= 0).sum() >= least and len(set(named[named >= 0].tolist())) > 1
        start += len(way)
    return found
