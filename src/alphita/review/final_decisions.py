"""What a store has settled, looked up one code or concept at a time, for those who ask in the midst of reviewing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from alphita.review.connections import Connections
from alphita.review.rows import candidates_of

_FOUND = """
SELECT p.name, p.source, r.id, r.code, r.mention, d.concept_id, d.concept_name, d.relation
FROM project p CROSS JOIN row r ON r.project = p.id JOIN decision d ON d.id = r.settled_by
WHERE d.kind <> 'reject' AND """
# To wait for another program that is writing.
SECONDS = 10.0


class Settled(NamedTuple):
    """What a row means.

    Attributes:
        project: its name.
        source: where the codes come from.
        code: the input's own, or the string where there is none.
        mention: the string.
        concept_id: CURIE (several, joined by `|`, where one concept has several codes); None: no concept fits.
        concept_name: its preferred term, if it is known.
        relation: exact, broad, narrow or related; None without a concept.
        confidence: what the normaliser gave, where people settled on its answer; else None.
        decision: likewise: "accept", "review" or "nil".
    """

    project: str
    source: str
    code: str
    mention: str
    concept_id: str | None
    concept_name: str | None
    relation: str | None
    confidence: float | None = None
    decision: str | None = None


class SettledMappings:
    """Looks up in the file of a store, which sees every decision as soon as it is stored."""

    def __init__(self, path: Path) -> None:
        self._connections = Connections(path, SECONDS)

    def close(self) -> None:
        """Close it."""
        self._connections.close()

    def by_code(self, code: str) -> list[Settled]:
        """Return what a code means, in all projects; a row without a code is found by its string."""
        if not code:
            return []
        with self._connections.reading() as connection:
            coded = connection.execute(f"{_FOUND} r.code = ? ORDER BY p.id, r.number, r.id", (code,)).fetchall()
            uncoded = connection.execute(
                f"{_FOUND} r.code = '' AND r.mention = ? ORDER BY p.id, r.number, r.id", (code,)
            ).fetchall()
            return [_settled(connection, values) for values in (*coded, *uncoded)]

    def by_concept(self, wanted: Callable[[str], bool]) -> list[Settled]:
        """Return the rows, in all projects, that mean a concept whose id (or one of its ids) is wanted."""
        with self._connections.reading() as connection:
            found = connection.execute(f"{_FOUND} d.concept_id IS NOT NULL ORDER BY p.id, r.number, r.id")
            kept = [values for values in found if any(map(wanted, values[5].split("|")))]
            return [_settled(connection, values) for values in kept]


def _settled(connection: sqlite3.Connection, values: tuple[Any, ...]) -> Settled:
    project, source, row, code, mention, concept_id, name, relation = values
    (known,) = connection.execute("SELECT candidates FROM detail WHERE row = ?", (row,)).fetchone()
    candidates = candidates_of(known)
    if concept_id is not None and name is None:
        names = (candidate.get("concept_name") for candidate in candidates if candidate.get("concept_id") == concept_id)
        name = next(names, None)
    answer = candidates[0] if candidates else {}
    is_answer = answer.get("concept_id") == concept_id
    said = [answer.get(one) if is_answer else None for one in ("confidence", "decision")]
    return Settled(project, source, code or mention, mention, concept_id, name, relation, *said)
