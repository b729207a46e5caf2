"""Files into a review and out of it, with what the index knows: the project's facts, and the types of its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from alphita.answer.filters import Allowed
from alphita.errors import InputError, Rejects
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import Header, TargetInfo
from alphita.mappings.record import Mapping
from alphita.review import files, priority
from alphita.review.records import Added, Project, ReviewRow
from alphita.review.store import ReviewStore

MOST_CHARACTERS = 100
ALL = Concepts()


def check_name(name: str) -> None:
    """Make sure that a name of a project can stand in an address."""
    if not name.strip() or name != name.strip() or len(name) > MOST_CHARACTERS:
        raise InputError(
            f"a project's name must have 1 to {MOST_CHARACTERS} characters, the first and the last no spaces",
            field="name",
            value=name,
        )
    if name in (".", "..") or any(one in "/\\" or not one.isprintable() for one in name):
        raise InputError(
            "a project's name must have no slash, backslash or control character", field="name", value=name
        )


def project_of(
    name: str, source: str, column: str, index: Index | None, *, blind: bool = True, concepts: Concepts = ALL
) -> Project:
    """Return a new project; what the index knows of terminology, release and model is "" without one."""
    manifest: dict[str, Any] = index.manifest if index is not None else {}
    hashes = [str(manifest.get(one) or "") for one in ("terminology_hash", "model_hash")]
    return Project(name, source, column, hashes[0], release_of(index), hashes[1], "", blind, concepts.to_json())


def release_of(index: Index | None) -> str:
    """Return the versions of an index's sources, as "HP 2026-01-01"; "" if none is said."""
    sources = index.manifest.get("sources", ()) if index is not None else ()
    return ", ".join(
        f"{source['name']} {source['version']}" for source in sources if source.get("name") and source.get("version")
    )


def add(
    store: ReviewStore,
    project: Project,
    rows: Iterable[ReviewRow],
    index: Index | None,
    *,
    by: str = files.UNNAMED,
    guarded: bool = False,
    left_out: Counter[str] | None = None,
) -> Added:
    """Add rows to a project, which is made if there is none of its name; and put them in the order "learning"."""
    check_name(project.name)
    if not project.source.strip():
        raise InputError("say where the codes come from", field="source", value=project.source)
    known = next((one for one in store.projects() if one.name == project.name), None)
    concepts = Concepts.from_json(project.filters or (known.filters if known is not None else {}))
    if known is not None and known.source != project.source:
        raise InputError(
            f"the project is there already, with codes of {known.source!r}",
            field="source",
            value=project.source,
            remedy="give that source, or another name",
        )
    if known is not None and known.filters not in ({}, concepts.to_json()):
        raise InputError(
            f"the project is there already, answered with {Concepts.from_json(known.filters)}",
            field="filters",
            value=str(concepts),
            remedy="give those, none, or another name",
        )
    if index is not None:
        allowed = concepts.allowed(index)
        counts = Counter[str]() if left_out is None else left_out
        rows = (_typed(_allowed(row, index, allowed, counts), index, allowed) for row in rows)
    found = iter(rows)
    first = next(found, None)
    if first is None:
        raise InputError("there is not one row to review in this file")
    found = chain([first], found)
    if known is None:
        added = store.add_project(project, found, by=by)
    else:
        added = store.add_rows(project.name, found, by=by, guarded=guarded, filters=project.filters)
    priority.update(store, project.name)
    return added


def _typed(row: ReviewRow, index: Index, allowed: Allowed) -> ReviewRow:
    answer = row.candidates[0].concept_id if row.candidates else None
    place = allowed.row(answer) if answer else -1
    return replace(row, types=index.concept(place).semantic_types) if place >= 0 else row


def _allowed(row: ReviewRow, index: Index, allowed: Allowed, left_out: Counter[str]) -> ReviewRow:
    """Return a row without the unreviewed candidates that may not be answered; what the index does not know stays."""
    if allowed.concepts is None:
        return row

    def is_out(one: Mapping) -> bool:
        if one.concept_id is None or one.status != "unreviewed" or allowed.row(one.concept_id) >= 0:
            return False
        return int(index.concept_rows([one.concept_id])[0]) >= 0

    kept = tuple(one for one in row.candidates if not is_out(one))
    if len(kept) < len(row.candidates):
        left_out["candidates that the project's filters leave out"] += len(row.candidates) - len(kept)
    return replace(row, candidates=kept)


def export(
    store: ReviewStore,
    project: str,
    writer: ModuleType,
    header: Header,
    out: Path,
    rejects: Rejects,
    *,
    settled_only: bool,
) -> files.Written:
    """Write a project's mappings to a file."""
    facts = store.project(project)
    mappings: list[Mapping] = list(store.mappings(project, settled_only=settled_only))
    concepts = {one for mapping in mappings for one in (mapping.concept_id or "").split("|") if ":" in one}
    return files.write(mappings, writer, files.header_of(facts, header, writer, concepts), out, rejects)


def omop_of(index: Index) -> dict[str, TargetInfo] | None:
    """Return what an index of OMOP vocabularies knows of OMOP's numbers, by CURIE; None for another index."""
    table = index.segment.concepts
    if "omop_concept_id" not in table.column_names:
        return None
    columns = [table.column(name).to_pylist() for name in ("id", "omop_concept_id", "domain", "vocabulary", "standard")]
    # Where no concept is a standard one, it was not told which are.
    is_known = "S" in columns[-1]
    return {
        curie: TargetInfo(number, domain or "", vocabulary or "", standard == "S" if is_known else None)
        for curie, number, domain, vocabulary, standard in zip(*columns, strict=True)
        if number is not None
    }
