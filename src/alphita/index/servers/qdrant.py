"""An index in Qdrant: a point for each string with its vector and terms, HNSW over float16 vectors, nested filters.

alphita_NAME                an alias, which `load --force` turns to another collection at once
alphita_NAME__GENERATION    the collection. Points:
    strings     string, its terms, the hashes of these, and the releases that it belongs to: since (a number), and until
                (the number of the first it does not belong to)
    0           the number of the release that readers see, and its facts
    1, 2, ...   what was loaded, oldest first

Qdrant has no transactions. So an update first writes the strings of the new release, which readers filter out, and
marks those that end; then it writes point 0 over. What ended is deleted by the update after that. A reader searches
with the number it knows and looks at point 0 afterwards: if that has changed, it searches again. An update that was
broken off is undone by the next one. Two updates of one index at a time are not kept apart: let there be one.

Tested with the imitation of a server that the package qdrant-client brings along; no Qdrant server was run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.index.servers import Change, Content, Hit, Probes, Release
from alphita.index.servers import _qdrant as server
from alphita.index.servers import _qdrant_loading as loading
from alphita.index.servers._content import tags_of
from alphita.index.servers._opening import check_release
from alphita.index.servers._qdrant_loading import NOW, VECTOR, Collection
from alphita.index.servers._refusals import check_format, check_queries, missing, restless

if TYPE_CHECKING:
    from qdrant_client import models

DESCRIPTION = "Qdrant 1.10 or later"
SCHEMES = ("http://", "https://")
EXAMPLE = "https://HOST:6333"

PREFIX = "alphita_"
# How often a reader looks again where the release changes between two of its questions.
ATTEMPTS = 10
QUERIES_AT_ONCE = 64
STRINGS_AT_ONCE = 256
# Of a term, in a hit.
SHOWN = ("concept_id", "concept_name", "term", "scope", "source", "language")

Found = TypeVar("Found")


class Current(NamedTuple):
    """What readers see: the content of point 0."""

    generation: str
    number: int
    release: str
    facts: dict[str, Any]


class QdrantIndex:
    """A `ServerIndex` in Qdrant; one thread at a time may use it."""

    def __init__(self, connection: server.Connection, name: str) -> None:
        """Use `connect`."""
        self._connection, self.name = connection, name
        self.alias = PREFIX + name
        self._current: Current | None = None

    def facts(self) -> dict[str, Any]:
        """Return what is recorded of the current release; see `ServerIndex`."""
        with self._speaking():
            current = self._read_current()
            return {"release": current.release, **current.facts}

    def load(self, content: Content, *, release: str, probes: Probes, force: bool = False) -> dict[str, Any]:
        """Fill a collection aside and turn the alias to it at the end; see `ServerIndex`."""
        check_release(release, [])
        with self._speaking():
            loading.load(self._connection.client, self.alias, content, release, probes, force=force)
        return self.facts()

    def update(self, content: Content, *, release: str) -> Change:
        """Turn the loaded release into another, which readers see at once; see `ServerIndex`."""
        check_release(release, [])
        with self._speaking():
            current = self._read_current()
            names = [one.release for one in self._releases(current)]
            check_release(release, names)
            loaded = Collection(self._connection.client, self.alias, current.generation)
            return loading.update(loaded, content, release, current.number, current.facts, self.name)

    def search(
        self,
        vectors: NDArray[np.float32],
        k: int,
        *,
        sources: Sequence[str] = (),
        types: Sequence[str] = (),
        languages: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Return the terms of the k nearest strings of each query; see `ServerIndex`."""

        def ask(current: Current) -> list[list[Hit]]:
            check_queries(self.name, vectors, k, current.facts["dim"])
            tags = tags_of(current.facts, languages)
            filters = {"source": tuple(sources), "types": tuple(types), "language": tuple(tags)}
            filters = {name: values for name, values in filters.items() if values}
            if k == 0 or len(vectors) == 0:
                return [[] for _ in vectors]
            found: list[list[Hit]] = []
            for start in range(0, len(vectors), QUERIES_AT_ONCE):
                found += self._nearest(unit(vectors[start : start + QUERIES_AT_ONCE]), k, filters, current)
            return found

        with self._speaking():
            return self._consistently(ask)

    def exact(self, strings: Sequence[str]) -> list[list[Hit]]:
        """Return the terms of each cleaned string that is indexed; see `ServerIndex`."""
        # Half of a surrogate pair cannot be sent, so no such string is there.
        asked = sorted({string for string in strings if not any("\ud800" <= letter <= "\udfff" for letter in string)})

        def ask(current: Current) -> list[list[Hit]]:
            found: dict[str, list[Hit]] = {}
            for start in range(0, len(asked), STRINGS_AT_ONCE):
                some = asked[start : start + STRINGS_AT_ONCE]
                points, _ = self._connection.client.scroll(
                    self.alias, scroll_filter=loading.visible(current.number, loading.among("string", some)),
                    limit=len(some), with_payload=["string", "terms"],
                )  # fmt: skip
                for point in points:
                    found[_payload(point)["string"]] = _hits(_payload(point), 1.0, {}, current.release)
            return [found.get(string, []) for string in strings]

        with self._speaking():
            return self._consistently(ask)

    def releases(self) -> list[Release]:
        """Return what was loaded, the oldest first."""
        with self._speaking():
            self._read_current()
            return self._releases(self._read_current())

    def drop(self) -> None:
        """Remove the index; see `ServerIndex`."""
        with self._speaking():
            current = self._read_current()
            self._current = None
            loading.drop(self._connection.client, self.alias, current.generation)

    def close(self) -> None:
        """Close the connection."""
        self._connection.client.close()

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def _speaking(self) -> Any:  # noqa: ANN401 - a context manager
        return self._connection.speaking(missing(self.name, self._connection.where))

    def _read_current(self) -> Current:
        """Read point 0.

        Raises:
            InputError: another version of this package wrote it, or it is not there.
        """
        self._current = None
        points = self._connection.client.retrieve(self.alias, [NOW], with_payload=True)
        if not points:
            raise InputError(f"{self.alias} at {self._connection.where} is not a collection that alphita loaded")
        current = Current(**{name: _payload(points[0])[name] for name in Current._fields})
        check_format(self.name, current.facts)
        self._current = current
        return current

    def _releases(self, current: Current) -> list[Release]:
        """Return the releases up to the current one: an update that broke off may have written down another."""
        points = loading.every(self._connection.client, self.alias, loading.all_of(loading.among("kind", ["release"])))
        found = sorted((_payload(point) for point in points), key=lambda one: int(one["number"]))
        found = [one for one in found if int(one["number"]) <= current.number]
        return [Release(*(one[name] for name in Release._fields)) for one in found]

    def _consistently(self, ask: Callable[[Current], Found]) -> Found:
        """Ask, again where the release changed meanwhile: what is given back is of one release."""
        for _ in range(ATTEMPTS):
            current = self._current or self._read_current()
            try:
                found = ask(current)
            except Exception as error:
                # Loaded anew: the collection that was asked is gone. If there is none at all, this says so.
                if server.gone(error) and self._read_current() != current:
                    continue
                raise
            if self._read_current() == current:
                return found
        raise restless(self.name, self._connection.where)

    def _nearest(
        self, queries: NDArray[np.float32], k: int, filters: dict[str, tuple[str, ...]], current: Current
    ) -> list[list[Hit]]:
        """Ask for the k nearest strings of some queries; where not enough came, all are compared."""
        found = self._ask(queries, k, filters, current, compare_all=False)
        short = [place for place, points in enumerate(found) if len(points) < k]
        if short:
            again = self._ask(queries[short], k, filters, current, compare_all=True)
            for place, points in zip(short, again, strict=True):
                found[place] = points
        hits = []
        for points in found:
            points.sort(key=lambda point: (-point.score, _payload(point)["string"].encode()))
            hits.append(
                [hit for point in points for hit in _hits(_payload(point), point.score, filters, current.release)]
            )
        return hits

    def _ask(
        self, queries: NDArray[np.float32], k: int, filters: dict[str, tuple[str, ...]], current: Current, *,
        compare_all: bool,
    ) -> list[list[models.ScoredPoint]]:  # fmt: skip
        from qdrant_client import models

        passing = loading.visible(current.number)
        if filters:
            # One term of the string must pass all of them.
            tests = loading.all_of(*(loading.among(name, values) for name, values in filters.items()))
            passing = loading.visible(
                current.number, models.NestedCondition(nested=models.Nested(key="terms", filter=tests))
            )
        params = models.SearchParams(hnsw_ef=max(current.facts["search"]["ef"], k), exact=compare_all)
        requests = [
            models.QueryRequest(
                query=query, using=VECTOR, filter=passing, limit=k, params=params, with_payload=["string", "terms"]
            )
            for query in queries.tolist()
        ]
        return [answer.points for answer in self._connection.client.query_batch_points(self.alias, requests)]


def connect(address: str, name: str) -> QdrantIndex:
    """Open the index called `name` on the Qdrant at `address`; there need be none yet.

    Raises:
        MissingExtra: qdrant-client is not installed.
        UsageError: the address is not well formed.
        AlphitaError: the server cannot be reached, refuses, or is no Qdrant.
    """
    return QdrantIndex(server.connect(address), name)


def names(address: str) -> list[str]:
    """Return the indexes on the Qdrant at `address`, sorted."""
    connection = server.connect(address)
    try:
        with connection.speaking():
            aliases = connection.client.get_aliases().aliases
    finally:
        connection.client.close()
    return sorted(one.alias_name.removeprefix(PREFIX) for one in aliases if one.alias_name.startswith(PREFIX))


def _payload(point: models.Record | models.ScoredPoint) -> dict[str, Any]:
    return point.payload or {}


def _hits(payload: dict[str, Any], similarity: float, filters: dict[str, tuple[str, ...]], release: str) -> list[Hit]:
    """Return the terms of a string that pass the filters."""
    found = []
    for term in payload["terms"]:
        own = {**term, "source": [term["source"]], "language": [term["language"]]}
        if all(set(own[name]) & set(values) for name, values in filters.items()):
            shown = {name: term[name] for name in SHOWN}
            found.append(Hit(string=payload["string"], similarity=float(similarity), release=release, **shown))
    return found
