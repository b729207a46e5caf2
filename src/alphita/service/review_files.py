"""Files into a review and out of it; a file sent over HTTP is read in a process of its own (see `imported`)."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from alphita import machine, quickstart, textio
from alphita.answer.filters import Allowed
from alphita.answer.normalizer import Normalizer
from alphita.answer.omop import OmopConcepts
from alphita.answer.records import lines
from alphita.errors import InputError, Rejects
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import Header, chosen
from alphita.mappings.record import Mapping
from alphita.review import files, priority
from alphita.review.records import Added, Project, ReviewRow
from alphita.review.store import ReviewStore

MAX_CHARACTERS = 100
ALL = Concepts()


def check_name(name: str) -> None:
    """Make sure that a name of a project can stand in an address."""
    if not name.strip() or name != name.strip() or len(name) > MAX_CHARACTERS:
        raise InputError(
            f"a project's name must have 1 to {MAX_CHARACTERS} characters, the first and the last no spaces",
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
    told = (
        f"{source['name']} {source['version']}" for source in sources if source.get("name") and source.get("version")
    )
    return ", ".join(dict.fromkeys(told))


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
            f"the project exists already, with codes of {known.source!r}",
            field="source",
            value=project.source,
            remedy="give that source, or another name",
        )
    if known is not None and known.filters not in ({}, concepts.to_json()):
        raise InputError(
            f"the project exists already, answered with {Concepts.from_json(known.filters)}",
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
        raise InputError("the file has no rows to review")
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

    kept = tuple(candidate for candidate in row.candidates if not is_out(candidate))
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
    omop: OmopConcepts | None = None,
) -> files.Written:
    """Write a project's mappings to a file, with what `omop` says of their concepts."""
    facts = store.project(project)
    mappings: list[Mapping] = list(store.mappings(project, settled_only=settled_only))
    if omop is not None:
        said = [(one, omop.of_id(one.concept_id)) for one in mappings]
        mappings = [replace(one, **asdict(concept)) if concept is not None else one for one, concept in said]
    concepts = {one for mapping in mappings for one in (mapping.concept_id or "").split("|") if ":" in one}
    return files.write(mappings, writer, files.header_of(facts, header, writer, concepts), out, rejects)


# Problems that are told one by one.
PROBLEMS_SHOWN = 10
REMEDY = "divide it into several files, or import it beside the store: alphita review import"
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to import; `format` "": told by the file's name; `concepts`: JSON of the `Concepts` that may answer."""

    store: str
    index: str
    content_hash: str
    name: str
    source: str
    column: str
    blind: bool
    format: str
    filename: str
    by: str
    concepts: dict[str, Any]
    max_rows: int
    max_bytes: int


class _Rejects(Rejects):
    """Counts rows that are set aside, up to a number, and keeps the first ones without their values."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.first = most, list[dict[str, str]]()

    def add(self, problem: str, **where: Any) -> None:  # noqa: ANN401 - see `Rejects.add`
        super().add(problem, **where)
        if self.count > self.most:
            raise InputError(f"more than {self.most:,} rows that cannot be read", remedy=REMEDY)
        if self.count <= PROBLEMS_SHOWN:
            place = {name: str(where.get(name) or "") for name in ("line", "field")}
            self.first.append(place | {"problem": problem})


def imported(path: str, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Read a file into a project, which is made if there is none of its name; yield what is told of that, once."""
    machine.fit_addresses()
    asked = Job(**job)
    index = Index.open(asked.index, verify=False)
    if index.content_hash != asked.content_hash:
        raise InputError("the index is not the one that the server opened", remedy="start the server again")
    given, rejects, left_out = Path(path), _Rejects(asked.max_rows), Counter[str]()
    _unpack(given, asked.max_bytes)
    reader = chosen(given, asked.format, "format", to_read=True)
    header = Header(source_vocabulary=asked.source)
    called, most = asked.filename or "an upload", asked.max_rows
    rows = files.read(given, reader, asked.name, rejects, header=header, name=called, left_out=left_out, most=most)
    concepts = Concepts.from_json(asked.concepts)
    project = project_of(asked.name, asked.source, asked.column, index, blind=asked.blind, concepts=concepts)
    with ReviewStore.open(asked.store) as store:
        added = add(store, project, rows, index, by=asked.by, guarded=True, left_out=left_out)
    yield {**asdict(added), "left_out": dict(left_out), "set_aside": rejects.count, "problems": rejects.first}


def _unpack(path: Path, most: int) -> None:
    """Unpack a gzipped file in its place."""
    packed = path.with_name("packed")
    with open(path, "rb") as file:
        if file.read(len(textio.GZIP_MAGIC)) != textio.GZIP_MAGIC:
            return
    path.rename(packed)
    size = 0
    try:
        with gzip.open(packed) as source, open(path, "wb") as target:
            while block := source.read(_BLOCK_BYTES):
                size += len(block)
                if size > most:
                    raise InputError(f"unpacked it has more than {most:,} bytes", remedy=REMEDY)
                target.write(block)
    except textio.DAMAGED as error:
        raise InputError(f"the file is damaged: {error}") from None


# A review to try: messy clinical strings against the Human Phenotype Ontology.
DEMO_TO, DEMO_STORE = "hpo", Path("demo") / "reviews.sqlite"
DEMO_PROJECT, DEMO_CANDIDATES = "demo", 5


def fill_demo(mappings: Path, normalizer: Normalizer, sample: Path | None = None) -> int:
    """Normalize the sample and put it under review, unless it is; return the number of new rows."""
    mappings.parent.mkdir(parents=True, exist_ok=True)
    with ReviewStore.open(mappings, create=True) as store:
        if any(project.name == DEMO_PROJECT for project in store.projects()):
            return 0
        mentions = quickstart.read_sample(sample or quickstart.sample_path()).mentions
        rows = []
        for number, result in enumerate(normalizer.normalize(mentions, top_k=DEMO_CANDIDATES, explain=True), 1):
            # Made up: a few occur often and most seldom.
            frequency = max(1, 2_000 // (1 + (number * 7_919) % 997))
            shown = tuple(lines(number, result, DEMO_CANDIDATES, frequency=frequency))
            rows.append(ReviewRow(0, DEMO_PROJECT, number, f"MT-{number:04}", result.mention, frequency, {}, shown))
        project = project_of(DEMO_PROJECT, "MESSY_TERMS", "mention", normalizer.index)
        return add(store, project, rows, normalizer.index).new
