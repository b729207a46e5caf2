"""Ways to search an index's vectors. A module here is a choice of `alphita index --backend`.

Each module has

    DESCRIPTION                                      one line
    build(vectors, folder, probes) -> settings       writes the files of the search, if any, into the segment's folder;
                                                     those of an index that is updated lie there already, for centroids
    attach(vectors, folder, settings) -> IndexBackend
                                                     opens it; must not copy the vectors

The vectors are float32, or float16 if the index stores them so (`alphita.index.neighbours`). The settings are plain
JSON in the index's manifest. A backend that does not compare every vector measures its recall@1 in `build`, and records
it there.
"""

from __future__ import annotations

import hashlib
import random
import string as characters
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita.index.neighbours import Backend
from alphita.registry import Group

if TYPE_CHECKING:
    from alphita.index.ngrams import SortedStrings

PLUGINS = Group("alphita.backends", ("DESCRIPTION", "build", "attach"))

AUTO = "auto"
# Compares every vector.
EVERY = "faiss"
# `auto` chooses by the number of strings. Comparing all of them needs no preparation and misses nothing, but the time
# grows with their number. Measured on 100,000 real strings of 384 numbers, one core, 1,000 misspelt queries: all
# compared 1,500 queries/s ivf_pq 5,500 queries/s at recall@1 0.992, prepared in 8 s, some 60 bytes per string in memory
# hnsw 1,600 queries/s at recall@1 0.989, prepared in 43 s, some 650 bytes per string in memory The nearest neighbour of
# a misspelt string is seldom near, and a graph must be searched widely to find it: so `auto` never takes hnsw, which is
# for users who have measured better results on their own vectors.
FLAT_UP_TO = 100_000
PROBES = 1000

# Returns the vectors (p, d) of strings like the indexed ones, but not indexed, to measure recall.
Probes = Callable[[], NDArray[np.float32]]


class IndexBackend(Backend, Protocol):
    """A backend attached to vectors."""

    def only(self, allowed: NDArray[np.bool_]) -> IndexBackend:
        """Return a search among the allowed rows, (n,) bool; row numbers do not change.

        A search that does not compare every vector examines a larger share of the allowed ones. Its recall there is not
        measured: the nearest of a part may be far from a query.
        """
        ...


class Among:
    """A search among some rows, with copied vectors."""

    def __init__(self, backend: IndexBackend, rows: NDArray[np.int64]) -> None:
        self._backend, self._rows = backend, rows

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        similarity, places = self._backend.search(queries, k)
        return similarity, self._rows[places]

    def only(self, allowed: NDArray[np.bool_]) -> Among:
        return Among(self._backend.only(allowed[self._rows]), self._rows)


def choose(n: int) -> str:
    """Return the backend that `auto` selects for an index of n strings."""
    return EVERY if n <= FLAT_UP_TO else "ivf_pq"


def rows(n: int, seed: str) -> list[int]:
    """Return the rows of up to `PROBES` of n strings, chosen with a seed."""
    return sorted(random.Random(seed).sample(range(n), min(n, PROBES)))


def probes(strings: Sequence[str] | SortedStrings, seed: str) -> list[str]:
    """Return some of the strings, chosen with a seed, each with an error."""
    return vary([strings[row] for row in rows(len(strings), seed)])


def vary(strings: Sequence[str]) -> list[str]:
    """Return each string with a word left out or swapped with the next one, or one or two letters changed."""
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
