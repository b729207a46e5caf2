"""What systems share: words, lines of a file, and the greatest of each row with equals in the order of the terms."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import InputError, require
from alphita.index.backends import exact, faiss
from alphita.index.neighbours import nearest
from alphita.terminology.loaders._files import MAX_LINE_BYTES, open_bytes
from alphita_lab.evaluation.systems import Found

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
# Queries multiplied at once; the whole product of some of them may be needed.
QUERIES_AT_ONCE = 1024
# Numbers of an array of similarities at once: 8 M of 4 bytes.
NUMBERS_AT_ONCE = 8_000_000


def words(string: str) -> list[str]:
    """Return the runs of letters and digits; where a script puts no space between words, each character is a word."""
    return _WORD.findall(string)


def byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line without its end) of a file, gzipped or not; blank lines are passed over."""
    number = 0
    with open_bytes(path) as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                if len(line) == MAX_LINE_BYTES:
                    raise InputError("a line of more than 16 MB: these are no vectors", file=path, line=number)
                if stripped := line.rstrip(b" \r\n"):
                    yield number, stripped
        except (EOFError, zlib.error, OSError) as error:
            raise InputError(f"cannot be read on: {error}", file=path, line=number, remedy="fetch it again") from None


def nothing(queries: int, k: int) -> Found:
    """Return the answer in which nothing was found: similarity 0 and row -1, (queries, k)."""
    return np.zeros((queries, k), np.float32), np.full((queries, k), -1, np.int64)


def greatest(values: NDArray[np.float32], k: int) -> Found:
    """Return the k greatest of each row (q, n), none below 0; greatest first, equals by column; 0 is no answer."""
    # Floats that are not negative are ordered as their bits are, so value and column fit one number that has no equal.
    columns = np.arange(values.shape[1], dtype=np.int64)
    keys = (np.ascontiguousarray(values).view(np.int32).astype(np.int64) << 32) | (0xFFFFFFFF - columns)
    keys = np.partition(keys, values.shape[1] - k, axis=1)[:, -k:]
    keys = np.sort(keys, axis=1)[:, ::-1]
    best = (keys >> 32).astype(np.int32).view(np.float32)
    return best, np.where(best > 0, 0xFFFFFFFF - (keys & 0xFFFFFFFF), -1)


def greatest_products(queries: csr_matrix, terms: csr_matrix, k: int) -> Found:
    """Return the k greatest inner products of queries (q, w) with terms (n, w), none below 0; equals by row."""
    topn = require("sparse_dot_topn", "evaluate")
    products, rows = nothing(queries.shape[0], k)
    if not terms.shape[1]:
        return products, rows
    columns = terms.T.tocsr()
    for start in range(0, queries.shape[0], QUERIES_AT_ONCE):
        block = queries[start : start + QUERIES_AT_ONCE]
        # One more than asked for shows whether the last place is shared, where any of the equals may have been kept.
        nearest_columns = topn.sp_matmul_topn(block, columns, top_n=k + 1, n_threads=machine.cores())
        values, where = _by_row(nearest_columns, k + 1)
        shared = np.flatnonzero((values[:, k] == values[:, k - 1]) & (where[:, k] >= 0))
        products[start : start + QUERIES_AT_ONCE] = values[:, :k]
        rows[start : start + QUERIES_AT_ONCE] = where[:, :k]
        at_once = max(1, NUMBERS_AT_ONCE // terms.shape[0])
        for first in range(0, len(shared), at_once):
            tied = shared[first : first + at_once]
            products[start + tied], rows[start + tied] = greatest((block[tied] @ columns).toarray(), k)
    return products, rows


def _by_row(found: csr_matrix, k: int) -> Found:
    """Turn a CSR matrix of at most k numbers a row into (q, k), the greatest first, equals by column."""
    values, rows = nothing(found.shape[0], k)
    counts = np.diff(found.indptr)
    query = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((found.indices, -found.data, query))
    place = np.arange(len(query)) - np.repeat(found.indptr[:-1], counts)
    values[query, place], rows[query, place] = found.data[order], found.indices[order]
    return values, rows


def nearest_vectors(queries: NDArray[np.float32], terms: NDArray[np.float32], k: int) -> Found:
    """Return the k greatest inner products of queries (q, d) with terms (n, d), greatest first, equals by row."""
    products, rows = nearest(faiss.attach(terms), (len(terms), terms.shape[1]), queries, k + 1)
    if k < len(terms):
        # FAISS keeps any of the equals at the last place. Strings that an encoder cannot tell apart are no rarity.
        shared = np.flatnonzero(products[:, k] == products[:, k - 1])
        again = nearest(exact.attach(terms), (len(terms), terms.shape[1]), queries[shared], k)
        products[shared, :k], rows[shared, :k] = again
    return products[:, :k], rows[:, :k]
