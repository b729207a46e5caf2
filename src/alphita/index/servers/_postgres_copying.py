"""Rows on their way to PostgreSQL, by COPY in binary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.index.servers import Content
from alphita.index.servers._content import hash_of

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

STRINGS_AT_ONCE = 16_384
STRING_COLUMNS = ("id", "string", "vector")
TERM_COLUMNS = ("string", "place", "hash", "concept_id", "concept_name", "term", "scope", "source", "language", "types")
TERM_TYPES = ("int8", "int4", "bytea", "text", "text", "text", "text", "text", "text", "text[]")


def _copy(
    connection: psycopg.Connection,
    table: sql.Composable,
    columns: tuple[str, ...],
    types: tuple[str, ...],
    rows: Iterable[tuple[Any, ...]],
) -> int:
    from psycopg import sql

    names = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, names)
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def strings(
    connection: psycopg.Connection, schema: str, content: Content, ids: Iterable[tuple[int, int]], bar: progress.Bar
) -> None:
    """Write the strings of some rows, (row, id) each."""
    from pgvector import HalfVector
    from psycopg import sql

    def rows() -> Iterator[tuple[Any, ...]]:
        start, stop, strings = 0, 0, []
        for row, number in ids:
            if row >= stop:
                start, stop = row, min(row + STRINGS_AT_ONCE, len(content.vectors))
                strings = content.strings(start, stop)
                vectors = np.asarray(content.vectors[start:stop], np.float16)
            yield number, strings[row - start], HalfVector(vectors[row - start])
            bar.advance()

    _copy(connection, sql.Identifier(schema, "strings"), STRING_COLUMNS, ("int8", "text", "halfvec"), rows())


def terms(connection: psycopg.Connection, schema: str, rows: Iterable[tuple[Any, ...]]) -> int:
    from psycopg import sql

    return _copy(connection, sql.Identifier(schema, "terms"), TERM_COLUMNS, TERM_TYPES, rows)


def probes(connection: psycopg.Connection, schema: str, queries: NDArray[np.float32]) -> None:
    from pgvector import HalfVector
    from psycopg import sql

    _copy(connection, sql.Identifier(schema, "probes"), ("vector",), ("halfvec",), ((HalfVector(q),) for q in queries))


def _blocks(content: Content) -> Iterator[tuple[int, int]]:
    n = len(content.vectors)
    return ((start, min(start + STRINGS_AT_ONCE, n)) for start in range(0, n, STRINGS_AT_ONCE))


def all_terms(content: Content, bar: progress.Bar) -> Iterator[tuple[Any, ...]]:
    for start, stop in _blocks(content):
        strings = content.strings(start, stop)
        for row, term in content.terms(start, stop):
            place, *shown, types = term
            yield row, place, hash_of(strings[row - start], term), *shown, list(types)
        bar.advance(stop - start)


def some_terms(content: Content, wanted: list[tuple[int, bytes, int]]) -> Iterator[tuple[Any, ...]]:
    """Return the terms of the hashes that are wanted, (row, hash, id of the string) each, by row."""
    ids = {hashed: number for _, hashed, number in wanted}
    starts = sorted({row - row % STRINGS_AT_ONCE for row, _, _ in wanted})
    for start in starts:
        stop = min(start + STRINGS_AT_ONCE, len(content.vectors))
        strings = content.strings(start, stop)
        for row, term in content.terms(start, stop):
            hashed = hash_of(strings[row - start], term)
            if hashed in ids:
                place, *shown, types = term
                yield ids[hashed], place, hashed, *shown, list(types)


def incoming(connection: psycopg.Connection, content: Content) -> None:
    """Write all strings, and the hashes of all terms, into tables of this transaction."""
    from psycopg import sql

    connection.execute('CREATE TEMPORARY TABLE incoming_strings (row bigint, string text COLLATE "C") ON COMMIT DROP')
    connection.execute("CREATE TEMPORARY TABLE incoming_terms (row bigint, hash bytea) ON COMMIT DROP")
    strings = (
        (start + place, string)
        for start, stop in _blocks(content)
        for place, string in enumerate(content.strings(start, stop))
    )
    _copy(connection, sql.Identifier("incoming_strings"), ("row", "string"), ("int8", "text"), strings)
    with progress.bar("Comparing", total=len(content.vectors), unit="strings") as bar:
        terms = ((row, hashed) for row, _, hashed, *_ in all_terms(content, bar))
        _copy(connection, sql.Identifier("incoming_terms"), ("row", "hash"), ("int8", "bytea"), terms)
    connection.execute("ANALYZE incoming_strings, incoming_terms")
