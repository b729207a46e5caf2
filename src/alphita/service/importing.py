"""The import of a file that came over HTTP, as a process of its own does it: see `review_transfer.importing`."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alphita import machine, textio
from alphita.errors import InputError, Rejects
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import Header, _names
from alphita.review import files
from alphita.review.store import ReviewStore
from alphita.service import review_files

# Problems that are told one by one.
TOLD = 10
REMEDY = "divide it into several files, or import it beside the store: alphita review import"
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to import.

    Attributes:
        store: file of the reviews.
        index: folder of the index.
        content_hash: of the index that the server itself opened.
        name: of the project.
        source: see `Project`; so are column and blind.
        format: "": told by the file's name.
        filename: as the client says.
        by: who brings the file.
        concepts: which of the index may answer, as JSON of `Concepts`.
        max_rows: of the file.
        max_bytes: of the file, unpacked.
    """

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
        if self.count <= TOLD:
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
    reader = _names.chosen(given, asked.format, "format", to_read=True)
    header = Header(source_vocabulary=asked.source)
    called, most = asked.filename or "an upload", asked.max_rows
    rows = files.read(given, reader, asked.name, rejects, header=header, name=called, left_out=left_out, most=most)
    concepts = Concepts.from_json(asked.concepts)
    project = review_files.project_of(
        asked.name, asked.source, asked.column, index, blind=asked.blind, concepts=concepts
    )
    with ReviewStore.open(asked.store) as store:
        added = review_files.add(store, project, rows, index, by=asked.by, guarded=True, left_out=left_out)
    yield {
        "new": added.new,
        "known": added.known,
        "decided": added.decided,
        "overtaken": added.overtaken,
        "left_out": dict(left_out),
        "set_aside": rejects.count,
        "problems": rejects.first,
    }


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
        raise InputError(f"cannot be read, for it is damaged: {error}") from None
