"""What a server index is loaded with, taken from an embedded index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index import backends
from alphita.index.encoding import Encoder
from alphita.index.neighbours import unit
from alphita.index.servers import FORMAT, Probes, ServerTerm
from alphita.index.store import Index
from alphita.terminology.languages import among

# What must be the same for an update: the vectors of the strings that stay were made so.
SAME = ("format", "dim", "model_hash", "tokenizer_hash", "cleaning_rules_hash")
KEPT = ("dim", "model_hash", "tokenizer_hash", "cleaning_rules", "cleaning_rules_hash", "terminology_hash", "sources")


class IndexContent:
    """The strings, vectors and terms of an embedded index, read block by block; see `Content`."""

    def __init__(self, index: Index) -> None:
        self.index = index
        kept = {name: index.manifest[name] for name in KEPT if name in index.manifest}
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            **kept,
            "index_hash": index.content_hash,
            "languages": _languages(index.segment.terms),
        }
        self.vectors: NDArray[Any] = index.vectors

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the cleaned strings of rows [start, stop)."""
        strings: list[str] = self.index.strings.array.slice(start, stop - start).to_pylist()
        return strings

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        """Return the terms of the strings of rows [start, stop), each with its string's row."""
        segment = self.index.segment
        offsets = np.asarray(segment.offsets[start : stop + 1])
        table = segment.terms.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        row = np.repeat(np.arange(start, stop), np.diff(offsets))
        place = np.arange(len(table)) - np.repeat(offsets[:-1] - offsets[0], np.diff(offsets))
        concepts = segment.concepts.take(table.column("concept"))
        # An index without the concepts' own sources has the terms'.
        source = concepts if "source" in concepts.column_names else table
        columns: Iterator[Any] = zip(
            row.tolist(),
            place.tolist(),
            _texts(concepts, "id"),
            _texts(concepts, "name"),
            _texts(table, "string"),
            _texts(table, "scope"),
            _texts(source, "source"),
            _texts(table, "language"),
            _types(concepts),
            strict=True,
        )
        return [(row, ServerTerm(*rest)) for row, *rest in columns]


def probes_of(index: Index, encoder: Encoder) -> Probes:
    """Return what gives the vectors of misspelt strings of an index, to measure recall with."""
    index.check_encoder(encoder)

    def varied() -> NDArray[np.float32]:
        drawn = [index.strings[row] for row in backends.rows(len(index), encoder.content_hash)]
        return unit(encoder.encode(backends.vary(drawn)))

    return varied


def check_same(loaded: dict[str, Any], content: dict[str, Any], name: str) -> None:
    """Make sure that what is loaded can be updated with other content."""
    for field in SAME:
        if loaded.get(field) != content.get(field):
            raise InputError(
                f"the server index {name!r} has {field} {loaded.get(field)}, this index has {content.get(field)}",
                remedy="an update needs the same model and cleaning rules; load it again: alphita server load --force",
            )


def hash_of(string: str, term: ServerTerm) -> bytes:
    """Return the content hash of a term's row: 16 bytes."""
    text = json.dumps([string, *term], ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def tags_of(facts: Mapping[str, Any], languages: Sequence[str]) -> list[str]:
    """Return the tags of a loaded index's terms that are of these languages; where none is, the languages
    themselves."""
    return among(facts.get("languages", ()), languages) or list(languages)


def _languages(terms: Any) -> list[str]:  # noqa: ANN401
    if "language" not in terms.column_names:
        return []
    return sorted(filter(None, terms.column("language").unique().to_pylist()))


def _texts(table: Any, name: str) -> Sequence[str]:  # noqa: ANN401
    if name not in table.column_names:
        return [""] * len(table)
    return ["" if value is None else str(value) for value in table.column(name).to_pylist()]


def _types(concepts: Any) -> Sequence[tuple[str, ...]]:  # noqa: ANN401
    if "semantic_types" not in concepts.column_names:
        return [()] * len(concepts)
    return [tuple(types or ()) for types in concepts.column("semantic_types").to_pylist()]
