"""Names in other vocabularies that an index lacks: a mention with such a name is unlikely to mean one of its concepts.

Only hashes are kept: (n,) uint64, sorted, the first eight bytes of BLAKE2b of each cleaned name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

# Before the words that an index lacks; a cleaned string does not contain it.
MARK, LONG_WORD = "\0", r"\p{Alphabetic}{4,}"
# Maximum words of a name inside a mention; the mention as a whole is looked up too.
MAX_WORDS = 4
_WORD = re.compile(r"[^\W_]+")


def absent(names: pl.DataFrame, strings: pa.LargeStringArray) -> pl.DataFrame:
    """Return the names of other vocabularies' concepts that have no name among the strings of the index."""
    import polars as pl

    from alphita.index.external_names import OF_CODES, OURS

    foreign = names.filter((pl.col("source") != OURS) & ~pl.col("source").str.ends_with(OF_CODES))
    known = foreign["key"].is_in(pl.Series(strings).implode())
    foreign = foreign.with_columns(known=known)
    there = foreign.filter("known").select("source", "id").unique()
    lacking = foreign.join(there, on=["source", "id"], how="anti", maintain_order="left")
    # A name of two concepts, one of which the index has, is ambiguous.
    return lacking.join(foreign.join(there, on=["source", "id"], how="semi"), on="key", how="anti")


def words_lacking(names: pl.DataFrame, strings: pa.LargeStringArray) -> list[str]:
    """Return the words of other vocabularies' names that no string of the index has, as `hashed` takes them."""
    import polars as pl

    def words(keys: pl.Series) -> pl.Series:
        return keys.str.extract_all(LONG_WORD).list.explode().drop_nulls().unique()

    lacking = words(names["key"].unique())
    lacking = lacking.filter(~lacking.is_in(words(pl.Series(strings)).implode()))
    return [MARK + word for word in lacking.sort().to_list()]


class Words:
    """The words of other vocabularies' names that an index lacks, by the hashes of its out-of-scope names."""

    def __init__(self, elsewhere: NDArray[np.uint64]) -> None:
        self._elsewhere = elsewhere

    def __contains__(self, word: object) -> bool:
        return bool(hits([f"{MARK}{word}"], self._elsewhere)[0])


def hashed(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hashes of cleaned strings, (n,)."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, "<u8")


def shares(texts: Sequence[str], elsewhere: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return the share of each cleaned string's words in out-of-scope names, (n,), 0 to 1."""
    shares_of_words = np.zeros(len(texts), np.float32)
    if not len(elsewhere):
        return shares_of_words
    rows: list[int] = []
    spans: list[tuple[int, int]] = []
    parts: list[str] = []
    counts = np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts):
        words = [(word.start(), word.end()) for word in _WORD.finditer(text)]
        counts[row] = len(words)
        for start in range(len(words)):
            for end in range(start + 1, min(len(words), start + MAX_WORDS) + 1):
                rows.append(row)
                spans.append((start, end))
                parts.append(text[words[start][0] : words[end - 1][1]])
    named = hits(parts, elsewhere)
    covered: dict[int, set[int]] = {}
    for place in np.flatnonzero(named).tolist():
        covered.setdefault(rows[place], set()).update(range(*spans[place]))
    for row, words_of in covered.items():
        shares_of_words[row] = len(words_of) / counts[row]
    return shares_of_words


def hits(texts: Sequence[str], elsewhere: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return whether each cleaned string is an out-of-scope name, (n,)."""
    if not len(elsewhere) or not len(texts):
        return np.zeros(len(texts), bool)
    wanted = hashed(texts)
    place = np.minimum(np.searchsorted(elsewhere, wanted), len(elsewhere) - 1)
    return np.asarray(elsewhere[place] == wanted)
