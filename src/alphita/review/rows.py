"""Projects and rows: into the store and out of it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from alphita import registry
from alphita.errors import InputError
from alphita.mappings.record import COLUMNS, Mapping
from alphita.review import tables
from alphita.review.database import Damaged, check_kinds, run, stored
from alphita.review.records import Project, ReviewRow, Unknown
from alphita.review.rules import LARGEST, check_row, now
from alphita.review.tables import among
from alphita.terminology.text import clean

_DEFAULTS: dict[str, Any] = dict.fromkeys(COLUMNS) | {
    column.name: column.default for column in fields(Mapping) if isinstance(column.default, str)
}
# What SQLite would hold as anything.
_KINDS: dict[str, type] = {"id": int, "project": str, "number": int, "code": str, "mention": str, "frequency": int}
# What of a project is as its cells have it, by their names.
_SAID = {one.name: "column_name" if one.name == "column" else one.name for one in fields(Project)[:-2]}
# Rows that are written or read together.
AT_ONCE = 1_000
_row, _detail, _project = tables.row.c, tables.detail.c, tables.project.c
_PROJECTS = select(_project.id, *(_project[name] for name in _SAID.values()), _project.blind, _project.filters)
_PROJECT = _PROJECTS.where(_project.name == bindparam("name"))
_OF_ROW = (_row.id, _project.name, _row.number, _row.code, _row.mention, _row.frequency)
_CELLS = (*_OF_ROW, _detail.context, _detail.candidates, _detail.types)
_JOINED = tables.row.join(tables.project, _project.id == _row.project).join(tables.detail, _detail.row == _row.id)
_ROWS = select(*_CELLS).select_from(_JOINED).where(among(_row.id, "ids"))
_ROW = _PROJECTS.add_columns(*_CELLS).select_from(_JOINED).where(_row.id == bindparam("row"))
_LAST = select(func.max(_row.id))
# A purge notes the last row that there was: its number is nobody else's.
_PURGED = select(func.max(tables.forgetting.c.upto)).where(tables.forgetting.c.what == "purge")
_NEW_ROW, _NEW_DETAIL, _NEW_TYPE = (insert(table) for table in (tables.row, tables.detail, tables.row_type))
_TYPES_OF = delete(tables.row_type).where(tables.row_type.c.row == bindparam("of"))
_CHANGED = update(tables.row).where(_row.id == bindparam("of"))
_DETAIL_CHANGED = update(tables.detail).where(_detail.row == bindparam("of"))


def add_project(connection: Connection, project: Project) -> None:
    """See `ReviewStore.add_project`."""
    for name in ("name", "source"):
        if not getattr(project, name).strip():
            raise InputError("a project needs one", field=name)
    if run(connection, _PROJECT, name=project.name).fetchone() is not None:
        raise InputError("a project of this name exists already", field="name", value=project.name)
    values = {column: getattr(project, name) for name, column in _SAID.items()}
    values |= {"created_at": project.created_at or now(), "blind": int(project.blind)}
    connection.execute(insert(tables.project), values | {"filters": json.dumps(project.filters)})


def set_filters(connection: Connection, name: str, filters: dict[str, Any]) -> None:
    """Say which concepts a project's rows may be answered with."""
    changed = update(tables.project).where(_project.name == name)
    connection.execute(changed, {"filters": json.dumps(filters)})


def projects(connection: Connection) -> list[Project]:
    """Return all projects, oldest first."""
    return [_read_project(values)[1] for values in connection.execute(_PROJECTS.order_by(_project.id))]


def numbered(connection: Connection, name: str) -> tuple[int, Project]:
    """Return one project and its id."""
    found = run(connection, _PROJECT, name=name).fetchone()
    if found is None:
        raise Unknown(registry.unknown("project", name, (project.name for project in projects(connection))))
    return _read_project(found)


def project(connection: Connection, name: str) -> Project:
    """Return one project."""
    return numbered(connection, name)[1]


def add(connection: Connection, project_id: int, given: Sequence[ReviewRow]) -> tuple[int, list[int]]:
    """Add those of some rows that are not known; return how many are new, and the ids of all."""
    for one in given:
        check_row(one)
    pairs = {(one.code, one.mention): one for one in reversed(given)}
    known, values = tables.with_pairs(connection.dialect.name, pairs)
    found = connection.execute(known.where(_row.project == project_id), values)
    ids = {(code, mention): id for code, mention, id in found}
    last = max(run(connection, one).fetchone()[0] or 0 for one in (_LAST, _PURGED))
    new = {pair: one for one in given if (pair := (one.code, one.mention)) not in ids and pairs[pair] is one}
    ids |= {pair: last + place for place, pair in enumerate(new, 1)}
    if new:
        cells = [
            {
                **{"id": ids[pair], "project": project_id, "code": one.code, "mention": one.mention},
                **{"number": one.number, "frequency": one.frequency, "confidence": one.confidence},
                **{"cleaned": clean(one.mention), "searched": searched(one), "risk": one.risk},
            }
            for pair, one in new.items()
        ]
        run(connection, _NEW_ROW, *cells)
        context = ({"row": ids[pair], "context": json.dumps(one.context)} | _answered(one) for pair, one in new.items())
        run(connection, _NEW_DETAIL, *context)
        _set_types(connection, {ids[pair]: one.types for pair, one in new.items()})
    return len(new), [ids[one.code, one.mention] for one in given]


def change(connection: Connection, row: ReviewRow, candidates: Sequence[Mapping], types: Sequence[str]) -> None:
    """Give a row other candidates."""
    changed = replace(row, candidates=tuple(candidates), types=tuple(types))
    check_row(changed)
    facts: dict[str, Any] = {"searched": searched(changed), "confidence": changed.confidence, "risk": changed.risk}
    run(connection, _CHANGED, of=row.id, **facts)
    run(connection, _DETAIL_CHANGED, of=row.id, **_answered(changed))
    run(connection, _TYPES_OF, of=row.id)
    _set_types(connection, {row.id: changed.types})


def row(connection: Connection, id: int) -> ReviewRow:
    """Return one row."""
    return load(connection, [id])[0]


def with_project(connection: Connection, id: int) -> tuple[int, Project, ReviewRow]:
    """Return the id of a row's project, the project and the row."""
    _check_ids([id])
    found = run(connection, _ROW, row=id).fetchone()
    if found is None:
        raise Unknown(f"unknown row {id}")
    return *_read_project(found[: -len(_CELLS)]), _read_row(found[-len(_CELLS) :])


def load(connection: Connection, ids: Sequence[int]) -> list[ReviewRow]:
    """Return rows, in the order of `ids`."""
    _check_ids(ids)
    by_id = {values[0]: _read_row(values) for values in run(connection, _ROWS, ids=list(ids))}
    for id in ids:
        if id not in by_id:
            raise Unknown(f"unknown row {id}")
    return [by_id[id] for id in ids]


def _check_ids(ids: Sequence[int]) -> None:
    if not all(isinstance(id, int) and 0 < id <= LARGEST for id in ids):
        raise Unknown("unknown row")


def of_project(connection: Connection, project: str, ids: Collection[int]) -> list[ReviewRow]:
    """Return rows of a project, by their ids."""
    found = load(connection, sorted(ids))
    for one in found:
        if one.project != project:
            raise Unknown(f"unknown row {one.id} of project {project!r}")
    return found


def searched(row: ReviewRow) -> str:
    """Return what a search looks through."""
    answer = row.candidates[0] if row.candidates else None
    parts = (row.mention, row.code, *row.context.values())
    found = (answer.concept_id or "", answer.concept_name or "") if answer else ()
    return fold("\n".join((*parts, *found)))


def fold(text: str) -> str:
    """Return a text without its case and compatibility forms, in which one can be found in another."""
    return unicodedata.normalize("NFKC", text).casefold()


def _set_types(connection: Connection, types: dict[int, Sequence[str]]) -> None:
    if values := [{"row": row, "type": name} for row, names in types.items() for name in set(names)]:
        run(connection, _NEW_TYPE, *values)


def _read_project(values: Sequence[Any]) -> tuple[int, Project]:
    said = dict(zip(_SAID, values[1:], strict=False))
    return values[0], Project(**said, blind=bool(values[-2]), filters=stored(values[-1], dict))


def _read_row(values: Sequence[Any]) -> ReviewRow:
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


def _answered(row: ReviewRow) -> dict[str, Any]:
    """Return the cells of a row's candidates, without what is as by default, and types."""
    columns = [(name, _DEFAULTS[name]) for name in COLUMNS]
    candidates = [
        {name: value for name, plain in columns if (value := getattr(candidate, name)) != plain}
        for candidate in row.candidates
    ]
    return {"candidates": json.dumps(candidates), "types": json.dumps(row.types)}
