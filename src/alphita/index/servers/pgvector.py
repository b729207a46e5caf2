"""An index in PostgreSQL with pgvector: a schema an index, HNSW over float16 vectors, filters in SQL.

alphita_NAME.releases   what was loaded, with its facts; the last row is what readers see
alphita_NAME.strings    a distinct cleaned string and its vector
alphita_NAME.terms      the terms of each string, each with the hash of its row
alphita_NAME.probes     vectors of misspelt strings: recall is measured again at each update

A search is one SQL statement, which reads one snapshot and its release with it: while a release changes, which is one
transaction, it sees the old or the new one. A filter is applied while the graph is walked; where that ends with fewer
strings than were wanted, all are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, LiteralString, Self

import numpy as np
from numpy.typing import NDArray

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.neighbours import unit
from alphita.index.servers import FORMAT, Change, Content, Hit, Probes, Release, check_release, tags_of
from alphita.index.servers import _postgres as loading
from alphita.index.servers._postgres import Database

if TYPE_CHECKING:
    from psycopg import sql

DESCRIPTION = "PostgreSQL with the extension pgvector 0.8 or later"
SCHEMES = ("postgresql://", "postgres://")
EXAMPLE = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"

PREFIX = "alphita_"
# How often a reader looks again where the release changes between two statements of its.
ATTEMPTS = 10

TERM = "t.concept_id, t.concept_name, t.term, t.scope, t.source, t.language"
# With `r` first, so that there is a row with the release even where nothing is found. Ordered by the similarity, not by
# the distance: PostgreSQL holds the graph's order for exact, and would not sort again.
NEAREST = """
    SELECT r.*, h.* FROM (SELECT loaded, release FROM {schema}.releases ORDER BY number DESC LIMIT 1) r LEFT JOIN (
        SELECT q.number, s.string, s.similarity, {term}, t.place
        FROM unnest(%(queries)s) WITH ORDINALITY q (vector, number)
        CROSS JOIN LATERAL (
            SELECT * FROM (
                SELECT s.id, s.string, -(s.vector <#> q.vector) AS similarity FROM {schema}.strings s {some}
                ORDER BY (s.vector <#> q.vector) {compared} LIMIT greatest(%(k)s, %(taken)s)
            ) s ORDER BY similarity DESC LIMIT %(k)s
        ) s JOIN {schema}.terms t ON t.string = s.id {passing}
    ) h ON true ORDER BY h.number, h.similarity DESC, h.string, h.place
"""
# By a sum the graph cannot order, so that every string is compared.
ALL_COMPARED = "+ 0"
SOME = "WHERE EXISTS (SELECT FROM {schema}.terms t WHERE t.string = s.id {passing})"
EXACT = """
    SELECT r.*, h.* FROM (SELECT loaded, release FROM {schema}.releases ORDER BY number DESC LIMIT 1) r LEFT JOIN (
        SELECT q.number, s.string, 1.0::float8, {term}, t.place
        FROM unnest(%(strings)s::text[]) WITH ORDINALITY q (string, number)
        JOIN {schema}.strings s ON s.string = q.string COLLATE "C" JOIN {schema}.terms t ON t.string = s.id
    ) h ON true ORDER BY h.number, h.place
"""


class PostgresIndex:
    """A `ServerIndex` in PostgreSQL; one thread at a time may use it."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self.name = database, name
        self.schema = PREFIX + name
        self._facts: dict[str, Any] | None = None
        # When that release was loaded: one of the same name may take its place.
        self._loaded: datetime | None = None
        self._missing = (
            f"there is no index {name!r} at {database.where}; load it: alphita server load, or see what is there: "
            "alphita server list"
        )

    def facts(self) -> dict[str, Any]:
        with self._database.errors_translated(self._missing):
            return self._read_facts()

    def load(self, content: Content, *, release: str, probes: Probes, force: bool = False) -> dict[str, Any]:
        check_release(release, [])
        with self._database.errors_translated(self._missing):
            self._database.create_extension()
            loading.load(self._database.connection, self.schema, content, release, probes, force=force)
            return self._read_facts()

    def update(self, content: Content, *, release: str) -> Change:
        check_release(release, [])
        with self._database.errors_translated(self._missing):
            self._read_facts()
            return loading.update(self._database.connection, self.schema, content, release)

    def search(
        self,
        vectors: NDArray[np.float32],
        k: int,
        *,
        sources: Sequence[str] = (),
        types: Sequence[str] = (),
        languages: Sequence[str] = (),
    ) -> list[list[Hit]]:
        with self._database.errors_translated(self._missing):
            dim = (self._facts or self._read_facts())["dim"]
            if k < 0:
                raise UsageError(f"k must be 0 or more, not {k}")
            if vectors.ndim != 2 or vectors.shape[1] != dim:
                raise UsageError(
                    f"queries of shape {vectors.shape} cannot be searched: the server index {self.name!r} holds "
                    f"vectors of {dim} numbers"
                )
            if k == 0 or len(vectors) == 0:
                return [[] for _ in vectors]
            from pgvector import HalfVector

            parameters: dict[str, Any] = {"queries": [HalfVector(row) for row in unit(vectors)], "k": k}
            filters = {"source": list(sources), "languages": list(languages), "types": list(types)}
            filters = {name: values for name, values in filters.items() if values}
            parameters |= filters
            answers = self._ask(self._nearest(filters), parameters, len(vectors))
            if any(len({hit.string for hit in hits}) < k for hits in answers):
                answers = self._ask(self._nearest(filters, ALL_COMPARED), parameters, len(vectors))
            return answers

    def exact(self, strings: Sequence[str]) -> list[list[Hit]]:
        if not strings:
            return []
        # PostgreSQL takes no NUL and no half of a surrogate pair, so no such string is there; nor is an empty one.
        storable = ["" if re.search("[\0\ud800-\udfff]", string) else string for string in strings]
        with self._database.errors_translated(self._missing):
            return self._ask(self._statement(EXACT), {"strings": storable}, len(storable))

    def releases(self) -> list[Release]:
        with self._database.errors_translated(self._missing):
            rows = self._database.connection.execute(
                self._statement("SELECT release, loaded, strings, terms FROM {schema}.releases ORDER BY number")
            ).fetchall()
        return [Release(release, loaded.isoformat(), *counts) for release, loaded, *counts in rows]

    def drop(self) -> None:
        with self._database.errors_translated(self._missing):
            self._read_facts()
            loading.drop(self._database.connection, self.schema)

    def close(self) -> None:
        self._database.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _statement(self, text: LiteralString, **parts: sql.Composable) -> sql.Composed:
        from psycopg import sql

        return sql.SQL(text).format(schema=sql.Identifier(self.schema), term=sql.SQL(TERM), **parts)

    def _nearest(self, filters: Iterable[str], compared: LiteralString = "") -> sql.Composed:
        """Return the statement of a search; `filters` are what is filtered by."""
        from psycopg import sql

        tests: dict[str, LiteralString] = {
            "source": "AND t.source = ANY(%(source)s)",
            "languages": "AND t.language = ANY(%(language)s)",
            "types": "AND t.types && %(types)s::text[]",
        }
        passing = sql.SQL(" ".join(tests[name] for name in filters))
        some = self._statement(SOME, passing=passing) if filters else sql.SQL("")
        return self._statement(NEAREST, some=some, passing=passing, compared=sql.SQL(compared))

    def _read_facts(self) -> dict[str, Any]:
        """Read the current release's facts, and search as they say."""
        self._facts = None
        self._database.prepare()
        for _ in range(ATTEMPTS):
            row = self._database.connection.execute(
                self._statement("SELECT loaded, release, facts FROM {schema}.releases ORDER BY number DESC LIMIT 1")
            ).fetchone()
            if row is not None:
                break
        else:
            raise InputError(self._missing)
        facts: dict[str, Any] = {"release": row[1], **row[2]}
        if facts.get("format") != FORMAT:
            raise InputError(
                f"the server index {self.name!r} has format {facts.get('format')}; this alphita reads {FORMAT}",
                remedy="load it again: alphita server load --force",
            )
        loading.search_as(self._database.connection, facts["search"])
        self._facts, self._loaded = facts, row[0]
        return facts

    def _ask(self, statement: sql.Composed, parameters: dict[str, Any], lines: int) -> list[list[Hit]]:
        """Ask one statement, again where the release changed meanwhile and its settings with it."""
        for _ in range(ATTEMPTS):
            facts = self._facts or self._read_facts()
            parameters["taken"] = facts["search"]["taken"]
            parameters["language"] = tags_of(facts, parameters.get("languages", ()))
            rows: list[Any] = self._database.connection.execute(statement, parameters, binary=True).fetchall()
            if rows and rows[0][0] == self._loaded:
                hits: list[list[Hit]] = [[] for _ in range(lines)]
                for row in rows:
                    if row[2] is not None:
                        hits[row[2] - 1].append(Hit._make((*row[3:-1], row[1])))
                return hits
            self._facts = None
        raise AlphitaError(f"the index {self.name!r} at {self._database.where} changes without end; try again")


def connect(address: str, name: str) -> PostgresIndex:
    """Open the index called `name` in the database at `address`; there need be none yet."""
    return PostgresIndex(Database(address), name)


def names(address: str) -> list[str]:
    """Return the indexes in the database at `address`, sorted."""
    database = Database(address)
    with database.connection, database.errors_translated():
        rows = database.connection.execute(
            "SELECT n.nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid "
            "WHERE starts_with(n.nspname, %s) AND c.relname = 'releases' ORDER BY 1",
            [PREFIX],
        ).fetchall()
    return [name.removeprefix(PREFIX) for (name,) in rows]
