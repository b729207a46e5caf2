"""Indexes on a server, for many readers at once. A module here is a choice of `alphita server`.

Each module has

    DESCRIPTION                            one line
    SCHEMES                                what an address begins with: ("postgresql://", "postgres://")
    EXAMPLE                                an address, for messages and help
    connect(address, name) -> ServerIndex  checks the address and the server at once; there need be no index yet
    names(address) -> list[str]            the indexes that are there, sorted

`connect` finds the module for an address; `_content` makes a `Content` of an `Index`.

A server index holds one release of a terminology at a time under a name. `load` fills it and `update` takes it from one
release to the next; readers meanwhile see the old one or the new one, and each answer says which. The vectors
are float16 there: similarities are right to about 0.0005.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from alphita import registry
from alphita.errors import UsageError

SERVERS = "alphita.index.servers"
# Of the layout on a server; what another version wrote is loaded again.
FORMAT = 1

# Gives the vectors (p, d), of length 1, of strings like the indexed ones but not indexed, to measure recall with.
Probes = Callable[[], NDArray[np.float32]]


class ServerTerm(NamedTuple):
    """A term as a server keeps it, one of those of a string.

    Attributes:
        place: 0, 1, ...
        concept_id: CURIE.
        scope: exact, narrow, broad or related.
        source: prefix of the terminology that the concept comes from; "" where it is not known.
        language: of the term, BCP-47; "" where it is not known.
        types: the concept's semantic types.
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
    """What is loaded: distinct strings with a vector each, and their terms. See `_content.of_index`."""

    @property
    def facts(self) -> dict[str, Any]:
        """Plain JSON: dim, model_hash, tokenizer_hash, cleaning_rules, cleaning_rules_hash, terminology_hash, ..."""
        ...

    @property
    def vectors(self) -> NDArray[Any]:
        """(n_strings, dim) float32 or float16, of length 1; may be mapped."""
        ...

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the distinct cleaned strings of rows [start, stop); they are sorted by their UTF-8 bytes."""
        ...

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        """Return the terms of the strings of rows [start, stop), each with its string's row; by row, then by place."""
        ...


class Hit(NamedTuple):
    """A term of a string that is near to a query.

    Attributes:
        similarity: cosine, from the server's float16 vectors; 1 for `exact`.
        release: the one that the answer comes from; the same for all hits of a call.
    """

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
    """A release that was loaded; the last one is what readers see.

    Attributes:
        loaded: when, ISO 8601 with time zone.
    """

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
        """Return what is recorded of the current release: `Content.facts`, release, recall_at_1, probes, search
        settings.

        Raises:
            InputError: nothing was loaded under this name.
        """
        ...

    def load(self, content: Content, *, release: str, probes: Probes, force: bool = False) -> dict[str, Any]:
        """Fill the index; measure how often it finds the nearest string, and record that.

        Args:
            content: see `Content`.
            release: name of the release, e.g. "2026-03".
            probes: see `Probes`.
            force: replace what is there under this name, all at once when the new is whole.

        Returns:
            The facts, as `facts` gives them from now on.

        Raises:
            UsageError: there is one under this name already and not `force`, or the release's name is empty.
            InputError: the nearest string is not found often enough (recall@1 below 0.99).
        """
        ...

    def update(self, content: Content, *, release: str) -> Change:
        """Turn the loaded release into another: what is gone is deleted, what is new or changed is written.

        What changed is told by a hash of each term's row. A string's vector is not compared: it follows from the string
        and the model, and the model must be the same.

        Raises:
            UsageError: the release's name is empty or was used before.
            InputError: nothing was loaded, or it was with another dimension, model or cleaning rules; said before
                anything is written.
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

        A string is counted only where one of its terms passes all the filters, and only the terms that pass are given;
        of several values of one filter any will do. A string's terms stand together, in order of their places.
        Where enough strings pass, there are always k.

        Args:
            vectors: (q, dim) float32; they are brought to length 1.
            k: how many strings, 0 or more.
            sources, types, languages: see `ServerTerm`; empty lets everything pass. "en" stands for "en-GB" too.

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
        """Remove the index.

        Raises:
            InputError: there is none under this name.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def __enter__(self) -> Self:
        """Use as a context manager."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        ...


# So that a name is the same as a PostgreSQL schema (63 bytes, with a prefix) and a part of a URL.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def module_of(address: str) -> ModuleType:
    """Return the module of `servers` that an address is for."""
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
            f"{name[:80]!r} cannot be the name of a server index: up to 40 of a-z, 0-9 and _, the first a letter"
        )


def check_release(release: str, before: list[str]) -> None:
    """Make sure that a release may be loaded after those before it."""
    if not release.strip() or "\0" in release:
        raise UsageError("a release needs a name, such as its date: --release 2026-03")
    if release in before:
        raise UsageError(f"release {release!r} was loaded before; loaded were {before}")
