"""Averaged word vectors from a file: a string's vector is the mean of its words' vectors, as in Yuan et al. 2022.

Read are word2vec's text and binary layouts, GloVe's text, which has no header, and fastText's .vec, each gzipped or
not; files are told apart by what they hold. Nothing is ever unpickled. A file is read again whenever words are asked
for that were not asked for before, and only their vectors are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, UsageError
from alphita.index.neighbours import unit
from alphita.terminology.loaders._files import open_bytes, read_block
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, count, refuse_unknown, truth
from alphita_lab.evaluation.systems._shared import byte_lines, nearest_vectors, nothing, words

OPTIONS = ("lower", "limit", "name")
# What tells the layout: the first line and some numbers after it.
HEAD_BYTES = 2**16
BLOCK_BYTES = 2**24
# A binary file with no space in as many bytes is none.
LONGEST_WORD_BYTES = 2**16
# No vector has more.
MAX_NUMBERS = 100_000
FASTTEXT_BINARY = b"\xba\x16\x4f\x2f"
_NOT_TEXT = re.compile(rb"[\x00-\x08]")
WHAT_IS_READ = "word2vec (text or binary), GloVe text or fastText .vec is read"


@dataclass(frozen=True)
class Layout:
    """How a file is laid out; `words`: how many its first line says it holds, None without such a line (GloVe)."""

    dim: int
    words: int | None
    binary: bool


class WordVectorSystem:
    """Similarity is the cosine of averaged vectors; words that the file lacks are left out.

    A word is first looked for with its punctuation ("alzheimer's"), then as its runs of letters and digits. Where
    strings are lowercased, a word that the file has only in another case ("Parkinson") is found too; else one that it
    has only in lowercase.
    """

    def __init__(self, path: Path, *, lower: bool = True, limit: int | None = None, name: str | None = None) -> None:
        self.path, self.lower, self.limit, self.name = path, lower, limit, name or path.name
        self.rules = tuple(rule for rule in DEFAULT_RULES if lower or rule != "lowercase")
        self.layout = read_layout(path)
        self.facts: dict[str, Any] = {
            "kind": "word_vectors",
            "file": path.name,
            "sha256": artefact.hash_file(path),
            "dimension": self.layout.dim,
            "words": self.layout.words,
            "limit": limit,
            "rules": list(self.rules),
        }
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._sought: set[str] = set()

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d) at length 1; NaN for a string of which no word is known."""
        pieces = [[(piece, words(piece)) for piece in string.split()] for string in strings]
        wanted = {word for string in pieces for piece, parts in string for word in (piece, *parts)}
        if not self.lower:
            wanted |= {word.lower() for word in wanted}
        if wanted := wanted - self._sought:
            self._vectors |= self._read(wanted)
            self._sought |= wanted
        means = np.full((len(strings), self.layout.dim), np.nan, np.float32)
        for row, string in enumerate(pieces):
            vectors = [vector for piece, parts in string for vector in self._look_up(piece, parts)]
            if vectors:
                means[row] = np.mean(vectors, axis=0)
        return unit(means)

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """Return the k terms most similar to each query; none for a query without a known word."""
        vectors = self.encode([*queries, *terms])
        known = np.flatnonzero(np.isfinite(vectors[:, 0]))
        asked, terms_known = known[known < len(queries)], known[known >= len(queries)]
        similarity, rows = nothing(len(queries), min(k, len(terms)))
        near, where = nearest_vectors(vectors[asked], vectors[terms_known], k)
        similarity[asked, : near.shape[1]] = near
        rows[asked, : near.shape[1]] = (terms_known - len(queries))[where]
        return similarity, rows

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each pair; NaN where no word of one string is known."""
        vectors = self.encode([*left, *right])
        cosine: NDArray[np.float32] = (vectors[: len(left)] * vectors[len(left) :]).sum(axis=1)
        return cosine

    def _look_up(self, piece: str, parts: Sequence[str]) -> list[NDArray[np.float32]]:
        whole = self._vector_of(piece)
        if whole is not None:
            return [whole]
        return [vector for vector in map(self._vector_of, parts) if vector is not None]

    def _vector_of(self, word: str) -> NDArray[np.float32] | None:
        vector = self._vectors.get(word)
        return self._vectors.get(word.lower()) if vector is None and not self.lower else vector

    def _read(self, wanted: set[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the wanted words that the file has, by the form in which they are wanted."""
        found: dict[str, NDArray[np.float32]] = {}
        as_written: set[str] = set()
        for place, raw, numbers in entries(self.path, self.layout, self.limit):
            word = raw.decode("utf-8", "replace")
            key = word.lower() if self.lower else word
            if key not in wanted or key in as_written or (key in found and word != key):
                continue
            found[key] = vector_of(numbers, self.layout, self.path, place)
            if word == key:
                as_written.add(key)
        return found


def read_layout(path: Path) -> Layout:
    """Tell the layout of a file of word vectors by its first line."""
    with open_bytes(path) as file:
        head = read_block(file, path, HEAD_BYTES)
    if head.startswith(FASTTEXT_BINARY):
        raise InputError("fastText's own binary layout is not read", file=path, remedy="give its .vec file")
    first, _, rest = head.partition(b"\n")
    fields = first.strip().split(b" ")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, dim = (textio.whole_number(field.decode()) or 0 for field in fields)
        if not count or not 0 < dim <= MAX_NUMBERS:
            shown = first.decode("ascii", "replace")
            raise InputError("holds no vectors by its first line", file=path, line=1, value=shown)
        return Layout(dim, count, bool(_NOT_TEXT.search(rest)))
    if len(fields) < 2 or not all(map(is_number, fields[1:])):
        shown = first[:100].decode("ascii", "replace")
        raise InputError("not a file of word vectors", file=path, line=1, value=shown, remedy=WHAT_IS_READ)
    return Layout(len(fields) - 1, None, False)


def entries(path: Path, layout: Layout, limit: int | None = None) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (line, or number of the word in a binary file; word; its numbers, for `vector_of`)."""
    return (_binary_entries if layout.binary else _text_entries)(path, layout, limit)


def _text_entries(path: Path, layout: Layout, limit: int | None) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (line, word, its numbers as text); every line is checked for how many numbers it holds."""
    held = 0
    for number, line in byte_lines(path):
        if number == 1 and layout.words is not None:
            continue
        if held == limit:
            return
        held += 1
        spaces = line.count(b" ")
        # Tokens with a space in them (GloVe has ". . .") are no words of a string.
        if spaces > layout.dim and not is_number(line.rsplit(b" ", layout.dim)[0].rpartition(b" ")[2]):
            continue
        if spaces != layout.dim:
            problem = f"a word and {spaces} numbers, where the file's vectors have {layout.dim}"
            raise InputError(problem, file=path, line=number, value=line.decode("utf-8", "replace"))
        word, _, numbers = line.partition(b" ")
        yield number, word, numbers
    if layout.words is not None and held < layout.words:
        raise InputError(f"cut short: {held} words of {layout.words}", file=path, remedy="fetch it again")


def _binary_entries(path: Path, layout: Layout, limit: int | None) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (number of the word, word, its numbers as bytes)."""
    size = 4 * layout.dim
    count = layout.words or 0
    with open_bytes(path) as file:
        buffer = read_block(file, path, BLOCK_BYTES)
        at = buffer.index(b"\n") + 1
        for number in range(1, min(count, limit or count) + 1):
            space = buffer.find(b" ", at)
            while space < 0 or len(buffer) <= space + size:
                more = read_block(file, path, BLOCK_BYTES)
                if not more or (space < 0 and len(buffer) - at > LONGEST_WORD_BYTES):
                    problem = f"damaged or cut short at word {number} of {count}"
                    raise InputError(problem, file=path, remedy="fetch it again")
                buffer, at = buffer[at:] + more, 0
                space = buffer.find(b" ")
            end = space + 1 + size
            yield number, buffer[at:space].lstrip(b"\n"), buffer[space + 1 : end]
            at = end


def vector_of(numbers: bytes, layout: Layout, path: Path, place: int) -> NDArray[np.float32]:
    """Return the vector (d,) of one of the `entries`."""
    try:
        with np.errstate(over="ignore"):
            vector = (
                np.frombuffer(numbers, "<f4").astype(np.float32)
                if layout.binary
                else np.array([float(number) for number in numbers.split(b" ")], np.float32)
            )
    except ValueError as error:
        raise InputError(f"not a vector: {error}", file=path, line=place) from None
    if not np.isfinite(vector).all():
        where = f" of word {place}" if layout.binary else ""
        raise InputError(f"a number{where} is not finite", file=path, line=None if layout.binary else place)
    return vector


def is_number(field: bytes) -> bool:
    """Tell whether a field is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def load(argument: str, options: Mapping[str, str]) -> WordVectorSystem:
    """Open a file of word vectors."""
    refuse_unknown("word_vectors", options, OPTIONS)
    if not argument:
        raise UsageError("word_vectors needs a file: word_vectors:FILE")
    lower, limit = truth("word_vectors", options, "lower", True), count("word_vectors", options, "limit", "words")
    given = [f"{key}={value}" for key, value in options.items() if key != "name"]
    name = options.get("name") or ",".join([Path(argument).name, *given])
    return WordVectorSystem(Path(argument), lower=lower, limit=limit, name=name)
