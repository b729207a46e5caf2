"""Projects and rows: into the store and out of it."""

from __future__ import annotations

import json
import sqlite3
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from alphita import clock, registry
from alphita.errors import InputError
from alphita.mappings.record import COLUMNS, Mapping
from alphita.review.database import Damaged, Unknown, check_kinds, stored
from alphita.review.records import Project, ReviewRow
from alphita.terminology.text import clean

LARGEST = 2**63 - 1
_DEFAULTS: dict[str, Any] = dict.fromkeys(COLUMNS) | {
    column.name: column.default for column in fields(Mapping) if isinstance(column.default, str)
}
# What SQLite would hold as anything.
_KINDS: dict[str, type] = {"id": int, "project": str, "number": int, "code": str, "mention": str, "frequency": int}
_SAID = ("name", "source", "column", "terminology", "release", "model")
_PROJECT = "name, source, column_name, terminology, release, model, created_at, blind, filters"
_ROW = "r.id, p.name, r.number, r.code, r.mention, r.frequency, d.context, d.candidates, d.types"


_latest_lock = threading.Lock()
_latest = ""


def now() -> str:
    """Return the time, UTC; none before one that was told already, or that a store opened here holds."""
    global _latest
    with _latest_lock:
        _latest = max(_latest, clock.now().isoformat(timespec="milliseconds"))
        return _latest


def keep_ahead(connection: sqlite3.Connection) -> None:
    """Let `now` tell no time before the newest decision of a store: the clock may be set back between two programs."""
    global _latest
    (newest,) = connection.execute("SELECT max(at) FROM decision").fetchone()
    with _latest_lock:
        _latest = max(_latest, newest if isinstance(newest, str) else "")


def add_project(connection: sqlite3.Connection, project: Project) -> None:
    """See `ReviewStore.add_project`."""
    for name in ("name", "source"):
        if not getattr(project, name).strip():
            raise InputError("a project needs one", field=name)
    if connection.execute("SELECT 1 FROM project WHERE name = ?", (project.name,)).fetchone():
        raise InputError("a project of this name exists already", field="name", value=project.name)
    said = (getattr(project, name) for name in _SAID)
    values = (*said, project.created_at or now(), project.blind, json.dumps(project.filters))
    connection.execute(f"INSERT INTO project ({_PROJECT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def set_filters(connection: sqlite3.Connection, name: str, filters: dict[str, Any]) -> None:
    """Say which concepts a project's rows may be answered with."""
    connection.execute("UPDATE project SET filters = ? WHERE name = ?", (json.dumps(filters), name))


def projects(connection: sqlite3.Connection) -> list[Project]:
    """Return all, oldest first."""
    found = connection.execute(f"SELECT {_PROJECT} FROM project ORDER BY id")
    return [_project(values) for values in found]


def project(connection: sqlite3.Connection, name: str) -> tuple[int, Project]:
    """Return one project and its id."""
    found = connection.execute(f"SELECT id, {_PROJECT} FROM project WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise Unknown(registry.unknown("project", name, (project.name for project in projects(connection))))
    return found[0], _project(found[1:])


def add_row(connection: sqlite3.Connection, project_id: int, row: ReviewRow) -> bool:
    """Add a row unless it is known; tell whether it is new."""
    check(row)
    told = (row.number, row.code, row.mention, clean(row.mention), searched(row))
    values = (project_id, *told, row.frequency, row.confidence, row.risk)
    made = connection.execute(
        "INSERT INTO row (project, number, code, mention, cleaned, searched, frequency, confidence, risk)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project, code, mention) DO NOTHING RETURNING id",
        values,
    ).fetchone()
    if made is None:
        return False
    detail = (made[0], json.dumps(row.context), _dump(row.candidates), json.dumps(row.types))
    connection.execute("INSERT INTO detail (row, context, candidates, types) VALUES (?, ?, ?, ?)", detail)
    _set_types(connection, made[0], row.types)
    return True


def change(connection: sqlite3.Connection, row: ReviewRow, candidates: Sequence[Mapping], types: Sequence[str]) -> None:
    """Give a row other candidates."""
    changed = replace(row, candidates=tuple(candidates), types=tuple(types))
    check(changed)
    connection.execute(
        "UPDATE row SET searched = ?, confidence = ?, risk = ? WHERE id = ?",
        (searched(changed), changed.confidence, changed.risk, row.id),
    )
    connection.execute(
        "UPDATE detail SET candidates = ?, types = ? WHERE row = ?",
        (_dump(changed.candidates), json.dumps(changed.types), row.id),
    )
    connection.execute("DELETE FROM row_type WHERE row = ?", (row.id,))
    _set_types(connection, row.id, changed.types)


def load(connection: sqlite3.Connection, ids: Sequence[int]) -> list[ReviewRow]:
    """Return rows, in the order of `ids`."""
    if not all(isinstance(id, int) and 0 < id <= LARGEST for id in ids):
        raise Unknown("unknown row")
    found = connection.execute(
        f"SELECT {_ROW} FROM json_each(?) i JOIN row r ON r.id = i.value JOIN project p ON p.id = r.project"
        " JOIN detail d ON d.row = r.id",
        (json.dumps(ids),),
    )
    by_id = {values[0]: _row(values) for values in found}
    for id in ids:
        if id not in by_id:
            raise Unknown(f"unknown row {id}")
    return [by_id[id] for id in ids]


def searched(row: ReviewRow) -> str:
    """Return what a search looks through."""
    answer = row.candidates[0] if row.candidates else None
    parts = (row.mention, row.code, *row.context.values())
    found = (answer.concept_id or "", answer.concept_name or "") if answer else ()
    return fold("\n".join((*parts, *found)))


def fold(text: str) -> str:
    """Return a text without its case and compatibility forms, in which one can be found in another."""
    return unicodedata.normalize("NFKC", text).casefold()


def check(row: ReviewRow) -> None:
    """See that a row is sound; its mention is not shown, for it may be patient data."""
    for name, least in (("number", 1), ("frequency", 0)):
        if not least <= getattr(row, name) <= LARGEST:
            raise InputError("out of range", line=row.number, field=name, value=getattr(row, name))
    if row.confidence is not None and not 0 <= row.confidence <= 1:
        raise InputError("not a probability", line=row.number, field="confidence", value=row.confidence)


def _set_types(connection: sqlite3.Connection, row: int, types: Sequence[str]) -> None:
    connection.executemany(
        "INSERT INTO row_type (row, type) VALUES (?, ?)", [(row, type_name) for type_name in set(types)]
    )


def _project(values: tuple[Any, ...]) -> Project:
    named = dict(zip((*_SAID, "created_at"), values, strict=False))
    return Project(**named, blind=bool(values[-2]), filters=stored(values[-1], dict))


def _row(values: tuple[Any, ...]) -> ReviewRow:
    plain = dict(zip(_KINDS, values, strict=False))
    check_kinds(plain, _KINDS)
    candidates = tuple(Mapping(**_DEFAULTS | one) for one in candidates_of(values[-2]))
    return ReviewRow(
        **plain, context=stored(values[-3], dict), candidates=candidates, types=tuple(stored(values[-1], list))
    )


def candidates_of(text: object) -> list[dict[str, Any]]:
    """Return what a cell of candidates says of each that is not as by default."""
    candidates: list[dict[str, Any]] = stored(text, list)
    if not all(isinstance(candidate, dict) and candidate.keys() <= _DEFAULTS.keys() for candidate in candidates):
        raise Damaged("a cell of candidates holds something else")
    return candidates


def _dump(candidates: Sequence[Mapping]) -> str:
    """Return mappings as JSON, without what is as by default."""
    columns = [(name, _DEFAULTS[name]) for name in COLUMNS]
    return json.dumps(
        [
            {name: value for name, plain in columns if (value := getattr(candidate, name)) != plain}
            for candidate in candidates
        ]
    )
