"""Concept vectors from a file: an id, then its numbers.

Read are cui2vec's CSV (Beam et al. 2020) and the layouts of word vectors, word2vec's text and binary among them, in
which De Vine et al. 2014's and the vectors of claims (Choi et al. 2016) come. They know ids and no strings. Only rows
that are asked for are kept; the file is read again for others.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita.terminology.loaders._files import open_bytes, read_block
from alphita_lab.evaluation.systems import refuse_unknown, word_vectors
from alphita_lab.evaluation.systems._shared import byte_lines

OPTIONS = ("prefix", "name")


class ConceptVectorSystem:
    """Vectors of concepts, as the file gives them."""

    def __init__(self, path: Path, *, prefix: str = "", name: str | None = None) -> None:
        self.path, self.prefix, self.name = path, prefix, name or path.name
        self._layout = _layout_of_words(path)
        self.dim, self._header = (self._layout.dim, False) if self._layout else _read_shape(path)
        self.facts: dict[str, Any] = {
            "kind": "concept_vectors",
            "file": path.name,
            "sha256": artefact.hash_file(path),
            "dimension": self.dim,
            "prefix": prefix,
        }
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._sought: set[str] = set()

    def encode_concepts(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32; a row of NaN for a concept that the file lacks."""
        keys = [concept_id.removeprefix(f"{self.prefix}:") if self.prefix else concept_id for concept_id in ids]
        if wanted := set(keys) - self._sought:
            self._vectors |= self._read(wanted)
            self._sought |= wanted
        unknown = np.full(self.dim, np.nan, np.float32)
        vectors = [self._vectors.get(key, unknown) for key in keys]
        return np.array(vectors, np.float32).reshape(len(keys), self.dim)

    def _read(self, wanted: set[str]) -> dict[str, NDArray[np.float32]]:
        found: dict[str, NDArray[np.float32]] = {}
        for key, place, vector in self._wanted_words(wanted) if self._layout else self._wanted_rows(wanted):
            if key in found:
                raise InputError("the concept has two rows", file=self.path, line=place, value=key)
            found[key] = vector
        return found

    def _wanted_rows(self, wanted: set[str]) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
        for number, line in byte_lines(self.path):
            if number == 1 and self._header:
                continue
            key, numbers = _row(line, self.path, number)
            if len(numbers) != self.dim:
                problem = f"a row of {len(numbers)} numbers, where the first has {self.dim}"
                raise InputError(problem, file=self.path, line=number, value=key)
            if key in wanted:
                yield key, number, _vector(numbers, self.path, number)

    def _wanted_words(self, wanted: set[str]) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
        assert self._layout is not None, "asked for where the file has such a layout"
        for place, raw, numbers in word_vectors.entries(self.path, self._layout):
            if (key := raw.decode("utf-8", "replace")) in wanted:
                yield key, place, word_vectors.vector_of(numbers, self._layout, self.path, place)


def _layout_of_words(path: Path) -> word_vectors.Layout | None:
    """Return how a file of word vectors is laid out; None for a CSV file, whose first line has commas or no number."""
    with open_bytes(path) as file:
        first = read_block(file, path, word_vectors.HEAD_BYTES).partition(b"\n")[0]
    numbers = first.strip().split(b" ")[1:]
    return word_vectors.read_layout(path) if numbers and all(map(_is_number, numbers)) else None


def _read_shape(path: Path) -> tuple[int, bool]:
    """Return how many numbers a row holds, and whether the first line is a header."""
    for number, line in byte_lines(path):
        _, numbers = _row(line, path, number)
        if numbers and _is_number(numbers[0]):
            return len(numbers), number > 1
        if number > 1 or any(map(_is_number, numbers)):
            break
    raise InputError(
        "holds no row of an id and numbers with commas between",
        file=path,
        remedy="cui2vec's CSV and word2vec's layouts are read",
    )


def _row(line: bytes, path: Path, number: int) -> tuple[str, list[bytes]]:
    """Return the id, which may stand in quotes, and the fields after it."""
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    if line.startswith(b'"'):
        first, _, rest = line[1:].partition(b'",')
    else:
        first, _, rest = line.partition(b",")
    try:
        return first.decode("utf-8"), rest.split(b",") if rest else []
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}", file=path, line=number) from None


def _is_number(field: bytes) -> bool:
    return word_vectors.is_number(field.strip(b'"'))


def _vector(numbers: Sequence[bytes], path: Path, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            vector = np.array([float(number.strip(b'"')) for number in numbers], np.float32)
    except ValueError as error:
        raise InputError(f"not a number: {error}", file=path, line=line) from None
    if not np.isfinite(vector).all():
        raise InputError("a number is not finite", file=path, line=line)
    return vector


def load(argument: str, options: Mapping[str, str]) -> ConceptVectorSystem:
    """Open a file of concept vectors."""
    refuse_unknown("concept_vectors", options, OPTIONS)
    if not argument:
        raise UsageError("concept_vectors needs a file: concept_vectors:FILE")
    prefix = options.get("prefix", "").removesuffix(":")
    return ConceptVectorSystem(Path(argument), prefix=prefix, name=options.get("name"))
