"""Files of mappings: what `alphita normalize` wrote becomes the rows of a review, its decisions become a mapping set.

Mappings with the same code and the same string are one row of the review, wherever they stand in the file: their
candidates are put together by rank, the frequencies of their rows are added. What they say was decided comes with the
row (see `imports`).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, lost_anew, sssom
from alphita.mappings.record import COLUMNS, Mapping, chunks
from alphita.review import codings, imports
from alphita.review import rows as rows_
from alphita.review.records import Project, ReviewRow
from alphita.terminology import prefixes

# Rows that are encoded together.
CHUNK = 2_000
# SSSOM's own word for a set whose licence nobody has said.
NO_LICENCE = "https://w3id.org/sssom/license/unspecified"
_PREFIX = re.compile(r"[A-Za-z_][\w.-]*")


def read(
    path: Path,
    reader: ModuleType,
    project: str,
    rejects: Rejects,
    *,
    header: Header | None = None,
    context: Dictionary[int, Dictionary[str, str]] | None = None,
    name: str = "",
    left_out: Counter[str] | None = None,
    most: int | None = None,
) -> Iterator[ReviewRow]:
    """Read a file of mappings, and return the rows of a project that it holds, in its order; none has an id yet."""
    header, counts = header or Header(), Counter[str]() if left_out is None else left_out
    mappings = reader.read(path, header, rejects)
    kept = _kept(mappings if most is None else _bounded(mappings, most))
    counts.update(header.lost)
    return _rows(path, kept, project, rejects, context, name, counts)


def _bounded(mappings: Iterable[Mapping], most: int) -> Iterator[Mapping]:
    for number, one in enumerate(mappings, 1):
        if number > most:
            raise InputError(f"more than {most:,} mappings", remedy="divide it into several files")
        yield one


def _kept(mappings: Iterable[Mapping]) -> sqlite3.Connection:
    """Put mappings into a table on disk that goes with its connection."""
    kept = sqlite3.connect("")
    fields = attrgetter(*COLUMNS)
    packed = ((json.dumps([one.mention_code or "", one.mention]), json.dumps(fields(one))) for one in mappings)
    try:
        kept.execute("CREATE TABLE mapping (key TEXT, fields TEXT)")
        kept.executemany("INSERT INTO mapping VALUES (?, ?)", packed)
    except BaseException:
        kept.close()
        raise
    return kept


def _grouped(kept: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], dict[int, list[Mapping]]]]:
    """Yield each code and string, in the order of the file, with its mappings by their rows."""
    with closing(kept):
        found = kept.execute("SELECT key, fields FROM mapping ORDER BY min(rowid) OVER (PARTITION BY key), rowid")
        for _, packed in groupby(found, itemgetter(0)):
            by_number: dict[int, list[Mapping]] = {}
            for one in (Mapping(*json.loads(fields)) for _, fields in packed):
                by_number.setdefault(one.row, []).append(one)
            yield (one.mention_code or "", one.mention), by_number


def _rows(
    path: Path,
    kept: sqlite3.Connection,
    project: str,
    rejects: Rejects,
    context: Dictionary[int, Dictionary[str, str]] | None,
    name: str,
    counts: Counter[str],
) -> Iterator[ReviewRow]:
    for key, by_number in _grouped(kept):
        if not any(key):
            for number in by_number:
                rejects.add("neither a code nor a mention", file=path, line=number, field="mention")
            continue
        occurrences = []
        for number, some in by_number.items():
            if all(one.rank != 1 for one in some):
                # Else the next candidate would stand for the answer.
                rejects.add(
                    "its answer, the line of rank 1, is not there or could not be read",
                    file=path,
                    line=number,
                    field="rank",
                )
                continue
            try:
                occurrences.append(_occurrence(project, number, key, some))
            except InputError as error:
                field = "row" if error.field == "number" else error.field
                rejects.add(error.problem, file=path, line=number, field=field, value=error.value)
                continue
            if context is not None and number not in context:
                raise InputError(
                    f"the mappings speak of row {number}, which the file of context has not, or has not sound",
                    remedy="give the file that was normalised",
                )
        if occurrences:
            row = _together(occurrences)
            shown = _shown(context[row.number], row.candidates[0]) if context is not None else {}
            decided = imports.decided(row.candidates, project, name or path.name, counts)
            yield replace(row, context=shown, candidates=_distinct(row.candidates), decided=decided)


def header_of(project: Project, given: Header, writer: ModuleType, concepts: Iterable[str] = ()) -> Header:
    """Return what is said of a project's mapping set: what was given, and else what the project knows of itself."""
    system = given.source_system or codings.source_system(project.source)
    vocabulary = given.source_vocabulary or (project.source if _PREFIX.fullmatch(project.source) else "")
    systems = {one: codings.system_of(one) for one in {concept.partition(":")[0] for concept in concepts} if one}
    if vocabulary:
        systems[vocabulary] = system
    unknown = {one: uri for one, uri in systems.items() if not _known(one)}
    # SSSOM puts code after code to the URI; in FHIR it is the name of the system.
    between = ":" if writer is sssom else ""
    declared = {one: uri if uri.endswith(("/", "#")) else uri + between for one, uri in unknown.items()}
    return replace(
        given,
        set_id=given.set_id or set_id(project.name),
        source_vocabulary=vocabulary,
        source_system=system,
        licence=given.licence or (NO_LICENCE if writer is sssom else ""),
        prefixes=declared | dict(given.prefixes),
    )


def set_id(project: str) -> str:
    """Return the URI of a project's mapping set, if it has no other."""
    return f"urn:alphita:review:{quote(project, safe='')}"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an export.

    Attributes:
        mappings: how many there were.
        losses: what of them the format does not hold, and how often.
        set_aside: mappings that could not be written at all.
    """

    mappings: int
    losses: dict[str, int]
    set_aside: int


def write(mappings: Iterable[Mapping], writer: ModuleType, header: Header, out: Path, rejects: Rejects) -> Written:
    """Write mappings to a file that only its owner can read."""
    part = out.with_name(out.name + ".part")
    losses: Counter[str] = Counter()
    count, before = 0, rejects.count
    held: Sequence[Mapping] = ()
    begun = writer.begin(header)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.write(begun)
            for chunk in chunks(mappings, CHUNK):
                count += len(chunk)
                losses.update(lost_anew(writer, header, held, chunk))
                closed, held = writer.closed(header, [*held, *chunk])
                file.write(writer.encode(header, closed))
                for one in chunk:
                    if (found := writer.unfit(header, one)) is not None:
                        rejects.add(f"cannot be written: {found.problem}", line=one.row, field=found.field)
            if held:
                file.write(writer.encode(header, held))
        writer.finish(header, part, out)
    finally:
        part.unlink(missing_ok=True)
    return Written(count, dict(+losses), rejects.count - before)


def _occurrence(project: str, number: int, key: tuple[str, str], mappings: Sequence[Mapping]) -> ReviewRow:
    """Return one input row."""
    plain = ReviewRow(0, project, number, *key, 1)
    for one in mappings:
        imports.check(one)
        rows_.check(replace(plain, frequency=_frequency(one), candidates=(one,)))
    candidates = imports.in_order(mappings)
    return replace(plain, frequency=_frequency(candidates[0]), candidates=tuple(candidates))


def _frequency(mapping: Mapping) -> int:
    return 1 if mapping.frequency is None else mapping.frequency


def _together(occurrences: Sequence[ReviewRow]) -> ReviewRow:
    """Return the row that input rows with one code and string are."""
    candidates = imports.in_order(candidate for row in occurrences for candidate in row.candidates)
    frequency = min(sum(row.frequency for row in occurrences), rows_.LARGEST)
    number = min(row.number for row in occurrences)
    return replace(occurrences[0], number=number, frequency=frequency, candidates=tuple(candidates))


def _distinct(candidates: Iterable[Mapping]) -> tuple[Mapping, ...]:
    """Return candidates without those that name a concept again, or say again that there is none."""
    kept: dict[tuple[str | None, str], Mapping] = {}
    for one in candidates:
        kept.setdefault((one.concept_id, one.mapping_type), one)
    return tuple(kept.values())


def _known(prefix: str) -> bool:
    row = prefixes.table().get(prefixes.canonical(prefix))
    return row is not None and bool(row.uri)


def _shown(cells: Dictionary[str, str], mapping: Mapping) -> dict[str, str]:
    """Return the cells that say more than the mapping does."""
    known = {mapping.mention, mapping.mention_code, None, ""}
    return {name: cell for name, cell in cells.items() if cell not in known}
