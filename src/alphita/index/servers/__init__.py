"""Indexes on a server, for many readers at once. A module here is a choice of `alphita server`.

Each module has

    DESCRIPTION                            one line
    SCHEMES                                what an address begins with: ("postgresql://", "postgres://")
    EXAMPLE                                an address, for messages and help
    connect(address, name) -> ServerIndex  checks the address and the server at once; there need be no index yet
    names(address) -> list[str]            the indexes that are there, sorted

A server index holds one release of a terminology at a time under a name. `load` fills it and `update` replaces one
release by the next; meanwhile readers see the old one or the new one, and each answer says which. Vectors are float16
there: similarities are right to about 0.0005.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.index import backends
from alphita.index.neighbours import unit
from alphita.terminology.languages import among

if TYPE_CHECKING:
    from alphita.index.encoding import Encoder
    from alphita.index.store import Index

SERVERS = "alphita.index.servers"
# Of the layout on a server; what another version wrote is loaded again.
FORMAT = 1
# What must be the same for an update: the vectors of the strings that stay were made so.
SAME = ("format", "dim", "model_hash", "tokenizer_hash", "cleaning_rules_hash")
KEPT = ("dim", "model_hash", "tokenizer_hash", "cleaning_rules", "cleaning_rules_hash", "terminology_hash", "sources")
# So that a name is the same as a PostgreSQL schema (63 bytes, with a prefix) and a part of a URL.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

# Gives the vectors (p, d), of length 1, of strings like the indexed ones but not indexed, to measure recall with.
Probes = Callable[[], NDArray[np.float32]]


class ServerTerm(NamedTuple):
    """A term of a string as a server keeps it.

    `concept_id` is a CURIE, `source` the prefix of the concept's terminology, `language` BCP-47 (each "" where it is
    not known), `types` the concept's semantic types; `place` counts the terms of one string from 0.
    """

    place: int
    concept_id: str
    concept_name: str
    term: str
    scope: str
    source: str
    language: str
    types: tuple[str, ...]


class Content(Protocol):
    """What is loaded: distinct strings, sorted by their UTF-8 bytes, with a vector each, and their terms."""

    @property
    def facts(self) -> dict[str, Any]:
        """Plain JSON: dim, model_hash, tokenizer_hash, cleaning_rules, cleaning_rules_hash, terminology_hash, ..."""
        ...

    @property
    def vectors(self) -> NDArray[Any]:
        """(n_strings, dim) float32 or float16, of length 1; may be mapped."""
        ...

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the cleaned strings of rows [start, stop)."""
        ...

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        """Return the terms of the strings of rows [start, stop), each with its string's row; by row, then by place."""
        ...


class Hit(NamedTuple):
    """A term of a string near a query: its cosine is 1 for `exact`; the release is the same for all hits of a call."""

    string: str
    similarity: float
    concept_id: str
    concept_name: str
    term: str
    scope: str
    source: str
    language: str
    release: str


class Release(NamedTuple):
    """A loaded release; readers see the last one. `loaded` is ISO 8601 with time zone."""

    release: str
    loaded: str
    strings: int
    terms: int


class Change(NamedTuple):
    """What an update did, in rows."""

    strings_added: int
    strings_removed: int
    terms_added: int
    terms_removed: int
    terms_kept: int


class ServerIndex(Protocol):
    """An index on a server; use as a context manager, or close it."""

    def facts(self) -> dict[str, Any]:
        """Return the facts of the current release: `Content.facts`, release, recall_at_1, probes, search settings.

        Raises:
            InputError: nothing was loaded under this name.
        """
        ...

    def load(self, content: Content, *, release: str, probes: Probes, force: bool = False) -> dict[str, Any]:
        """Fill the index, measure how often it finds the nearest string, and return the facts.

        Args:
            content: see `Content`.
            release: name of the release, e.g. "2026-03".
            probes: see `Probes`.
            force: replace what is there under this name, all at once when the new is complete.

        Raises:
            UsageError: the name is taken and not `force`, or the release's name is empty.
            InputError: the nearest string is not found often enough (recall@1 below 0.99).
        """
        ...

    def update(self, content: Content, *, release: str) -> Change:
        """Replace the loaded release by another: what is gone is deleted, what is new or changed is written.

        Terms are compared by a hash of their row. Vectors are not compared: they follow from string and model.

        Raises:
            UsageError: the release's name is empty or was used before.
            InputError: nothing was loaded, or with another dimension, model or cleaning rules; nothing is written then.
        """
        ...

    def search(
        self,
        vectors: NDArray[np.float32],
        k: int,
        *,
        sources: Sequence[str] = (),
        types: Sequence[str] = (),
        languages: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Return the terms of the k nearest strings of each query, most similar first, equals by string.

        A string counts only where one of its terms passes all filters, and only the terms that pass are given, in order
        of their places; of several values of one filter any will do. Where enough strings pass, there are always k.

        Args:
            vectors: (q, dim) float32, of any length.
            k: how many strings, 0 or more.
            sources, types, languages: see `ServerTerm`; empty lets everything pass. "en" includes "en-GB".

        Raises:
            UsageError: another dimension than the index's, or `k` is negative.
            InputError: nothing was loaded under this name.
        """
        ...

    def exact(self, strings: Sequence[str]) -> list[list[Hit]]:
        """Return the terms of each cleaned string that is indexed, in order of their places; [] where it is not."""
        ...

    def releases(self) -> list[Release]:
        """Return what was loaded under this name, the oldest first; the last is the current one."""
        ...

    def drop(self) -> None:
        """Remove the index; an `InputError` where there is none."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def module_of(address: str) -> ModuleType:
    """Return the module of `servers` for an address."""
    modules = [registry.load(SERVERS, name) for name in registry.names(SERVERS)]
    for module in modules:
        if address.lower().startswith(module.SCHEMES):
            return module
    known = " or ".join(module.EXAMPLE for module in modules)
    raise UsageError(f"no server is known for this address; give one like {known}")


def connect(address: str, name: str) -> ServerIndex:
    """Open the index called `name` on a server; there need be none yet."""
    module = module_of(address)
    check_name(name)
    opened: ServerIndex = module.connect(address, name)
    return opened


def check_name(name: str) -> None:
    """Make sure that `name` may be the name of a server index."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a server index: use up to 40 of a-z, 0-9 and _; begin with a letter"
        )


def check_release(release: str, before: list[str]) -> None:
    """Make sure that a release may be loaded after those before it."""
    if not release.strip() or "\0" in release:
        raise UsageError("a release needs a name, such as its date: --release 2026-03")
    if release in before:
        raise UsageError(f"release {release!r} was loaded before; loaded were {before}")


def check_same(loaded: dict[str, Any], content: dict[str, Any], name: str) -> None:
    """Make sure that what is loaded can be updated with other content."""
    for field in SAME:
        if loaded.get(field) != content.get(field):
            raise InputError(
                f"the server index {name!r} has {field} {loaded.get(field)}, this index has {content.get(field)}",
                remedy="an update needs the same model and cleaning rules; load it again: alphita server load --force",
            )


class IndexContent:
    """The `Content` of an embedded index, read block by block."""

    def __init__(self, index: Index) -> None:
        self.index = index
        terms = index.segment.terms
        languages = terms.column("language").unique().to_pylist() if "language" in terms.column_names else []
        self.facts: dict[str, Any] = {
            "format": FORMAT,
            **{name: index.manifest[name] for name in KEPT if name in index.manifest},
            "index_hash": index.content_hash,
            "languages": sorted(filter(None, languages)),
        }
        self.vectors: NDArray[Any] = index.vectors

    def strings(self, start: int, stop: int) -> list[str]:
        strings: list[str] = self.index.strings.array.slice(start, stop - start).to_pylist()
        return strings

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        segment = self.index.segment
        offsets = np.asarray(segment.offsets[start : stop + 1])
        table = segment.terms.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        row = np.repeat(np.arange(start, stop), np.diff(offsets))
        place = np.arange(len(table)) - np.repeat(offsets[:-1] - offsets[0], np.diff(offsets))
        concepts = segment.concepts.take(table.column("concept"))
        # An index without the concepts' own sources has the terms'.
        source = concepts if "source" in concepts.column_names else table
        shown = ((concepts, "id"), (concepts, "name"), (table, "string"), (table, "scope"), (source, "source"))
        texts = (
            ["" if value is None else str(value) for value in _values(*column)]
            for column in (*shown, (table, "language"))
        )
        types = [tuple(types or ()) for types in _values(concepts, "semantic_types")]
        columns: Iterator[Any] = zip(row.tolist(), place.tolist(), *texts, types, strict=True)
        return [(row, ServerTerm(*rest)) for row, *rest in columns]


def probes_of(index: Index, encoder: Encoder) -> Probes:
    """Return what gives the vectors of misspelt strings of an index, to measure recall with."""
    index.check_encoder(encoder)
    return lambda: unit(encoder.encode(backends.probes(index.strings, encoder.content_hash)))


def hash_of(string: str, term: ServerTerm) -> bytes:
    """Return the content hash of a term's row: 16 bytes."""
    text = json.dumps([string, *term], ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def tags_of(facts: Mapping[str, Any], languages: Sequence[str]) -> list[str]:
    """Return the tags of a loaded index's terms in these languages; where there are none, the languages themselves."""
    return among(facts.get("languages", ()), languages) or list(languages)


def _values(table: Any, name: str) -> Sequence[Any]:  # noqa: ANN401
    return table.column(name).to_pylist() if name in table.column_names else [None] * len(table)
