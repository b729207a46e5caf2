"""Files of mappings -> the rows of a review, and a project's decisions -> a file of mappings.

Mappings with the same code and string are one row: candidates by rank, frequencies added. What they say was decided
comes along: approved -> accept, choose or nil; rejected -> reject, if it is the answer's; flagged -> flag; ignored ->
skip. Targets that one reviewer approved together are one decision; further mappings are left out and counted.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from types import ModuleType
from urllib.parse import quote, unquote

from alphita import artefact
from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, _curies, lost_anew, sssom
from alphita.mappings.record import COLUMNS, JOINT, Mapping, chunks, nearest
from alphita.review import rules
from alphita.review.records import Decision, Kind, Project, ReviewRow
from alphita.terminology import prefixes

# Who decided, where the file does not say it.
UNNAMED = "imported"
IGNORED = "ignored"
KIND = "import"
MEANS = "maps_to"
# Which of the mappings of one rank is shown first, and which says what the row means.
FIRST = {"approved": 0, "rejected": 2}


def in_order(mappings: Iterable[Mapping]) -> list[Mapping]:
    """Return the mappings of one row, the answer first: by rank, then approved ones, rejected ones and NIL last."""
    return sorted(
        mappings,
        key=lambda one: (one.rank, FIRST.get(one.status, 1), one.mapping_type != MEANS, one.concept_id is None),
    )


def check_reviewed(mapping: Mapping) -> None:
    """See that a mapping that was reviewed can become a decision."""
    if mapping.status != "unreviewed":
        rules.check_meaning(mapping.concept_id, None)
        rules.moment(mapping.reviewed_at, "reviewed_at")


def import_uid(decision: Decision, key: tuple[str, str], file: str) -> str:
    """Return the uid of a decision that a file brings about a code and string: the same whenever it is imported."""
    said = ("project", "reviewer", "kind", "concept_id", "relation", "comment", "at")
    return f"{KIND}:{artefact.hash_json([key, *(getattr(decision, name) for name in said)])[:32]}:{file}"


def decisions_of(mappings: Sequence[Mapping], project: str, file: str, left_out: Counter[str]) -> tuple[Decision, ...]:
    """Return the decisions that a file brings about one row, none of them stored yet."""
    mappings = _joined(mappings)
    main = _settling(mappings)
    found: dict[str, Mapping] = {}
    for one in mappings:
        if one.status == "unreviewed":
            continue
        if one.status == "approved" and one.mapping_type != MEANS and (main is None or main.status != "approved"):
            left_out[f"approved mappings that do not say what a row means (not {MEANS})"] += 1
        elif _says(one) != _says(main):
            left_out[f"further {one.status} mappings of a row"] += 1
        elif (first := found.setdefault(_reviewer(one), one)) is not one:
            found[_reviewer(one)] = _filled(first, one)
        elif one.status == "ignored":
            left_out["ignored mappings, kept as skipped"] += 1
    return tuple(_decision(value, project, file) for value in found.values())


def _joined(mappings: Sequence[Mapping]) -> list[Mapping]:
    """Return mappings; the targets of an input row that one reviewer approved alike as one, with all their ids."""
    together: dict[object, list[Mapping]] = {}
    for place, one in enumerate(mappings):
        is_target = one.status == "approved" and one.mapping_type == MEANS and one.concept_id is not None
        alike = (one.row, _reviewer(one), one.relation or "exact") if is_target else place
        together.setdefault(alike, []).append(one)
    return [one for some in together.values() for one in _as_one(some)]


def _as_one(targets: Sequence[Mapping]) -> Sequence[Mapping]:
    names = {one.concept_id or "": one.concept_name for one in reversed(targets)}
    if len(names) == 1:
        return targets
    ids = list(dict.fromkeys(one.concept_id or "" for one in targets))
    comments = "; ".join(dict.fromkeys(one.comment for one in targets if one.comment))
    named = JOINT.join(names[id] or id for id in ids)
    return [replace(targets[0], concept_id="|".join(ids), concept_name=named, comment=comments or None)]


def _settling(mappings: Sequence[Mapping]) -> Mapping | None:
    """Return the mapping that says what the row means; None: none does, or was put off."""
    approved = [mapping for mapping in mappings if mapping.status == "approved" and mapping.mapping_type == MEANS]
    rejected = [mapping for mapping in mappings[:1] if mapping.status == "rejected"]
    others = [mapping for status in ("flagged", "ignored") for mapping in mappings if mapping.status == status]
    approved.sort(key=lambda one: one.concept_id is None)
    return next(iter([*approved, *rejected, *others]), None)


def _says(mapping: Mapping | None) -> tuple[object, ...]:
    if mapping is None:
        return ()
    return mapping.status, mapping.concept_id, mapping.relation or "exact", mapping.mapping_type


def _reviewer(mapping: Mapping) -> str:
    return mapping.reviewer if mapping.reviewer and mapping.reviewer.strip() else UNNAMED


def _filled(first: Mapping, further: Mapping) -> Mapping:
    """Return a reviewer's mapping with what another one that says the same has beside it."""
    comments = filter(None, dict.fromkeys((first.comment, further.comment)))
    empty = {name: getattr(further, name) for name in ("reviewed_at", "concept_name") if not getattr(first, name)}
    return replace(first, comment="; ".join(comments) or None, **empty)


def _decision(mapping: Mapping, project: str, file: str) -> Decision:
    means = mapping.concept_id if mapping.status == "approved" else None
    approved: Kind = "nil" if means is None else "choose"
    kinds: dict[str, Kind] = {"approved": approved, "rejected": "reject", "flagged": "flag", "ignored": "skip"}
    said = [IGNORED if mapping.status == "ignored" else "", mapping.comment or ""]
    relation = (mapping.relation or "exact") if means is not None else None
    by = _reviewer(mapping), kinds[mapping.status]
    comment, at = "; ".join(filter(None, said)), rules.moment(mapping.reviewed_at, "reviewed_at")
    name = mapping.concept_name if means is not None else None
    made = Decision("", project, 0, *by, means, relation, comment, at, concept_name=name)
    named = replace(made, uid=import_uid(made, (mapping.mention_code or "", mapping.mention), file))
    return replace(named, concept_id=mapping.concept_id) if named.kind == "reject" else named


TERMINOLOGY = "urn:alphita:terminology:"
_PLAIN = Header()
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")


def source_system(source: str) -> str:
    """Return the URI of a source's codes: itself if it is one, that of a known terminology, or one made of its name."""
    known = prefixes.table().get(prefixes.canonical(source))
    if known is not None and (known.fhir_system or known.uri):
        return known.fhir_system or known.uri
    return source if _URI.fullmatch(source) else _curies.SOURCE + quote(source, safe="")


def system_of(prefix: str) -> str:
    """Return the FHIR system of a CURIE prefix."""
    try:
        return _curies.fhir_system(_PLAIN, prefix)
    except UsageError:
        return TERMINOLOGY + quote(prefix, safe="")


@functools.lru_cache(100_000)
def coding_of(curie: str) -> tuple[str, str]:
    """Return system and code of a concept."""
    return system_of(curie.partition(":")[0]), _curies.fhir_code(curie)


def curie_of(system: str, code: str) -> str | None:
    """Return the concept that a code of a system means, or None for a system that no prefix is known for."""
    if system.startswith(TERMINOLOGY):
        return f"{unquote(system.removeprefix(TERMINOLOGY))}:{code}"
    return _curies.from_fhir(_PLAIN, system, code)


# Rows that are encoded together.
CHUNK = 2_000
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

    def found() -> Iterator[ReviewRow]:
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
                        remedy="give the file that was normalised, with its --context-encoding and --context-delimiter",
                    )
            if occurrences:
                row = _together(occurrences)
                shown = _shown(context[row.number], row.candidates[0]) if context is not None else {}
                decided = decisions_of(row.candidates, project, name or path.name, counts)
                yield replace(row, context=shown, candidates=_distinct(row.candidates), decided=decided)

    return found()


def _bounded(mappings: Iterable[Mapping], most: int) -> Iterator[Mapping]:
    for number, one in enumerate(mappings, 1):
        if number > most:
            raise InputError(f"more than {most:,} mappings", remedy="divide it into several files")
        yield one


def _kept(mappings: Iterable[Mapping]) -> sqlite3.Connection:
    """Put mappings into a table on disk that goes with its connection."""
    kept = sqlite3.connect("")
    fields = attrgetter(*COLUMNS)
    packed = (
        (json.dumps([mapping.mention_code or "", mapping.mention]), json.dumps(fields(mapping)))
        for mapping in _told_apart(mappings)
    )
    try:
        kept.execute("CREATE TABLE mapping (key TEXT, fields TEXT)")
        kept.executemany("INSERT INTO mapping VALUES (?, ?)", packed)
    except BaseException:
        kept.close()
        raise
    return kept


def _told_apart(mappings: Iterable[Mapping]) -> Iterator[Mapping]:
    """Yield mappings; of several vocabularies, one code may be that of two: it has a prefix in all but the first."""
    first = None
    for mapping in mappings:
        first = first or mapping.mention_vocabulary
        if mapping.mention_code and mapping.mention_vocabulary not in (None, first):
            yield replace(mapping, mention_code=f"{mapping.mention_vocabulary}:{mapping.mention_code}")
        else:
            yield mapping


def _grouped(kept: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], dict[int, list[Mapping]]]]:
    """Yield each code and string, in the order of the file, with its mappings by their rows."""
    with closing(kept):
        found = kept.execute("SELECT key, fields FROM mapping ORDER BY min(rowid) OVER (PARTITION BY key), rowid")
        for _, packed in groupby(found, itemgetter(0)):
            by_number: dict[int, list[Mapping]] = {}
            for one in (Mapping(*json.loads(fields)) for _, fields in packed):
                by_number.setdefault(one.row, []).append(one)
            yield (one.mention_code or "", one.mention), by_number


def header_of(project: Project, given: Header, writer: ModuleType, concepts: Iterable[str] = ()) -> Header:
    """Return what is said of a project's mapping set: what was given, and else what the project knows of itself."""
    system = given.source_system or source_system(project.source)
    vocabulary = given.source_vocabulary or (project.source if _PREFIX.fullmatch(project.source) else "")
    systems = {one: system_of(one) for one in {concept.partition(":")[0] for concept in concepts} if one}
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
        licence=given.licence or (sssom.NO_LICENCE if writer is sssom else ""),
        prefixes=declared | dict(given.prefixes),
    )


def set_id(project: str) -> str:
    """Return the URI of a project's mapping set, if it has no other."""
    return f"urn:alphita:review:{quote(project, safe='')}"


@dataclass(frozen=True, slots=True)
class Written:
    """How many mappings were exported, how many of them set aside, and how often the format lacks what."""

    mappings: int
    losses: dict[str, int]
    set_aside: int


def write(mappings: Iterable[Mapping], writer: ModuleType, header: Header, out: Path, rejects: Rejects) -> Written:
    """Write mappings to a file that only its owner can read."""
    part = out.with_name(out.name + ".part")
    losses: Counter[str] = Counter()
    count, before = 0, rejects.count
    held: Sequence[Mapping] = ()
    # What files say beside the columns is kept with the mappings of a row.
    each = chunks(mappings, CHUNK)
    first = next(each, [])
    header = header.for_mappings(first)
    begun = writer.begin(header)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.write(begun)
            for chunk in chain([first], each):
                count += len(chunk)
                losses.update(lost_anew(writer, header, held, chunk))
                complete, held = writer.split_complete(header, [*held, *chunk])
                file.write(writer.encode(header, complete))
                for one in chunk:
                    if (found := writer.validate(header, one)) is not None:
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
    for mapping in mappings:
        check_reviewed(mapping)
        rules.check_row(replace(plain, frequency=_frequency(mapping), candidates=(mapping,)))
    candidates = in_order([*mappings, *filter(None, map(nearest, mappings))])
    return replace(plain, frequency=_frequency(candidates[0]), candidates=tuple(candidates))


def _frequency(mapping: Mapping) -> int:
    return 1 if mapping.frequency is None else mapping.frequency


def _together(occurrences: Sequence[ReviewRow]) -> ReviewRow:
    """Return the row that input rows with one code and string are."""
    candidates = in_order(candidate for row in occurrences for candidate in row.candidates)
    frequency = min(sum(row.frequency for row in occurrences), rules.LARGEST)
    number = min(row.number for row in occurrences)
    return replace(occurrences[0], number=number, frequency=frequency, candidates=tuple(candidates))


def _distinct(candidates: Iterable[Mapping]) -> tuple[Mapping, ...]:
    """Return candidates without those that name a concept again, or say again that there is none."""
    kept: dict[tuple[str | None, str], Mapping] = {}
    for candidate in candidates:
        kept.setdefault((candidate.concept_id, candidate.mapping_type), candidate)
    return tuple(kept.values())


def _known(prefix: str) -> bool:
    row = prefixes.table().get(prefixes.canonical(prefix))
    return row is not None and bool(row.uri)


def _shown(cells: Dictionary[str, str], mapping: Mapping) -> dict[str, str]:
    """Return the cells that say more than the mapping does."""
    known = {mapping.mention, mapping.mention_code, None, ""}
    return {name: cell for name, cell in cells.items() if cell not in known}
