"""Usagi CSV. Specification: https://github.com/OHDSI/Usagi (WriteCodeMappingsToFile, ReadCodeMappingsFromFile)
Version 1.4.3, with its way of writing cells: quotes doubled, a backslash as two, a line break as backslash and n.

One row for each target of a mention, next to one another; conceptId 0 where there is none. Further candidates are no
targets: their concept ids stand in sourceAutoAssignedConceptIds, joined by `;`; so does that of the nearest concept of
a NIL without candidates. A sourceFrequency of -1 is Usagi's word
for none.

matchScore orders Usagi's list: it is the confidence, or the similarity where there is none, with two decimals. Usagi
itself writes there how alike the strings are, so it is read as the similarity, never as a calibrated probability.

Usagi takes the status of a mention from its first row, and every row's concept as a target. So all rows of a mention
have one status: the one its targets agree on; else FLAGGED if one of them is flagged, else UNCHECKED. A rejected target
is left out where the mention has another one, and counted.

The columns that a table of codes added (ADD_INFO), the domain, and who created a row, when and for whom, are kept.

Usagi takes neighbouring rows of one code and name for one mention. So a mention that is given several times, one after
the other, is written once, with the sum of its frequencies, also across runs (see `split_complete`). A target that a
file repeats is read once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, get_args

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, Problem, TargetInfo, _fields
from alphita.mappings.formats._fields import finish
from alphita.mappings.record import Mapping, MappingType, bare

__all__ = ["finish"]
DESCRIPTION = "Usagi's mapping file, for review in Usagi"
SUFFIXES = (".usagi.csv",)
STREAMS = True
READS = True
PREFIXED = False
LOSSES = _fields.all_but("frequency", "mapping_type")

COLUMNS = (
    *("sourceCode", "sourceName", "sourceFrequency", "sourceAutoAssignedConceptIds", "matchScore", "mappingStatus"),
    *("equivalence", "statusSetBy", "statusSetOn", "conceptId", "conceptName", "domainId", "mappingType", "comment"),
    *("createdBy", "createdOn", "assignedReviewer"),
)
# What a row says in other words, or beside its mapping; a table of one's own adds columns of this name.
ADDED = "ADD_INFO:"
SAID = ("mappingStatus", "equivalence", "domainId", "mappingType", "createdBy", "createdOn", "assignedReviewer")
EQUIVALENCES = {"exact": "EQUAL", "broad": "WIDER", "narrow": "NARROWER", "related": "INEXACT", None: "UNREVIEWED"}
RELATIONS = {name: relation for relation, name in EQUIVALENCES.items()} | {"EQUIVALENT": "exact", "UNMATCHED": None}
# A mention whose every target is rejected has no place in Usagi but as one that is flagged for another look.
STATUSES = {
    "unreviewed": "UNCHECKED",
    "approved": "APPROVED",
    "rejected": "FLAGGED",
    "flagged": "FLAGGED",
    "ignored": "IGNORED",
}
READ_STATUSES = {
    **dict.fromkeys(("UNCHECKED", "AUTO_MAPPED", "AUTO_MAPPED_TO_1"), "unreviewed"),
    **dict.fromkeys(("FLAGGED", "INVALID_TARGET"), "flagged"),
    "APPROVED": "approved",
    "IGNORED": "ignored",
}
TYPES: dict[str, MappingType] = {name.upper(): name for name in get_args(MappingType)} | {
    "EVENT": "maps_to",
    "VALUE": "maps_to_value",
    "UNIT": "maps_to_unit",
}
NO_FREQUENCY = "-1"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class _Mention(NamedTuple):
    """The mappings of a mention."""

    targets: list[Mapping]
    rejected: list[Mapping]
    candidates: list[Mapping]
    status: str
    repeated: int


def begin(header: Header) -> bytes:
    """Return the line of column names."""
    return (",".join(map(_cell, _columns(header))) + "\n").encode()


def said(path: Path, header: Header) -> Header:
    """Return a header with the names of the columns that a file adds."""
    how = header.reading._replace(tell=None)
    delimiter, lines, _ = textio.divided((line for _, line in textio.streamed(path, how)), ",", path, how)
    first = textio.line_cells(next(lines, "").rstrip("\r\n"), delimiter)
    return replace(header, extra=tuple(name for name in first if name.startswith(ADDED)))


def _columns(header: Header) -> tuple[str, ...]:
    """Return all columns, as Usagi orders them: those that a table adds stand before the score."""
    place = COLUMNS.index("matchScore")
    return (*COLUMNS[:place], *(name for name in header.extra if name.startswith(ADDED)), *COLUMNS[place:])


def split_complete(header: Header, mappings: Sequence[Mapping]) -> tuple[Sequence[Mapping], Sequence[Mapping]]:
    """Return the mappings before the last mention, and those of it, as one: it may go on in what follows."""
    before: list[Mapping] = []
    last: list[Mapping] = []
    for mapping in _fields.one_by_one(mappings):
        if validate(header, mapping) is not None:
            # It is not written, and so it parts no neighbours.
            before.append(mapping)
            continue
        if last and _key(mapping) != _key(last[0]):
            before += last
            last = []
        last.append(mapping)
    return before, _as_one(header, last)


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the rows; the mappings of one mention must come together."""
    texts = []
    for mention in _mentions(header, mappings):
        numbers = _automatic(header, mention)
        texts += [
            ",".join(_cell(row.get(name, "")) for name in _columns(header)) + "\n"
            for row in (_row(header, target, mention.status, numbers) for target in mention.targets)
        ]
    return "".join(texts).encode("utf-8")


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return why a mapping cannot be written, or None."""
    if not mapping.mention_code and not mapping.mention:
        return Problem("neither a code nor a mention", "mention", mapping.mention)
    for concept in [None] if mapping.concept_id is None else mapping.concept_id.split("|"):
        if _fields.omop_target(header, concept) is None:
            return Problem("a concept without OMOP's concept id", "concept_id", concept)
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what the file does not hold."""
    whole: Counter[str] = Counter()
    pairs = []
    for mapping in _fields.one_by_one(mappings):
        if problem := validate(header, mapping):
            whole[problem.problem] += 1
    for mention in _mentions(header, mappings):
        whole["further candidates, but for their concept ids"] += len(mention.candidates)
        whole["rejected mappings"] += len(mention.rejected)
        whole["mentions given again, with the first one's row"] += mention.repeated
        for mapping in mention.targets:
            row = _row(header, mapping, mention.status, "")
            cells = {name: _unescaped(_escaped(row.get(name, ""))) for name in _columns(header)}
            # The OMOP number is another name of the same concept.
            nearest = mapping.nearest_id if _automatic(header, mention) else None
            back = _mapping(cells, 1).with_extras(cells)
            pairs.append((mapping, replace(back, concept_id=mapping.concept_id, nearest_id=nearest)))
    return {what: number for what, number in whole.items() if number} | _fields.count(pairs)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; concepts are named by OMOP's numbers. Targets have rank 1, automatically assigned concepts 2, ..."""
    number, last = 0, None
    seen: set[tuple[str | None, str]] = set()
    autos: list[int] = []
    template: Mapping | None = None
    needed = ("sourceCode", "sourceName", "mappingStatus", "conceptId")
    rows = textio.table(path, ",", needed, rejects, how=header.reading)
    added = said(path, header).extra
    for line, cells in _fields.warn_unused_columns(rows, (*COLUMNS, *added), path, header.tell):
        source = (cells["sourceCode"], cells["sourceName"])
        if source != last:
            yield from _candidates(template, autos)
            number, last, autos, template = number + 1, source, [], None
            seen.clear()
        try:
            cells = {name: _unescaped(cell) for name, cell in cells.items()}
            mapping = _mapping(cells, number)
        except InputError as error:
            rejects.add(error.problem, file=path, line=line, field=error.field, value=error.value)
            continue
        target = (mapping.concept_id, mapping.mapping_type)
        if target in seen:
            rejects.add(
                "the mention has this target already", file=path, line=line, field="conceptId", value=cells["conceptId"]
            )
            continue
        seen.add(target)
        numbers = map(textio.whole_number, cells.get("sourceAutoAssignedConceptIds", "").split(";"))
        autos = [auto for auto in numbers if auto is not None]
        template = mapping
        own = _own_row(header, mapping, STATUSES[mapping.status], "")
        yield _fields.with_extras(mapping, {name: cells.get(name, "") for name in (*SAID, *added)}, own)
    yield from _candidates(template, autos)


def _mentions(header: Header, mappings: Sequence[Mapping]) -> Iterator[_Mention]:
    """Yield the mentions of those mappings that can be written."""
    fitting = (mapping for mapping in _fields.one_by_one(mappings) if validate(header, mapping) is None)
    for _, group in groupby(fitting, key=_key):
        given = list(group)
        repeated = _times(given) - 1
        mappings_once = _as_one(header, given)
        targets = [mapping for mapping in mappings_once if _fields.is_target(mapping)]
        standing = [target for target in targets if target.status != "rejected"]
        rejected = [target for target in targets if target.status == "rejected"] if standing else []
        candidates = [mapping for mapping in mappings_once if not _fields.is_target(mapping)]
        kept = standing or targets
        status = _status({STATUSES[mapping.status] for mapping in kept})
        yield _Mention(kept, rejected, candidates, status, repeated)


def _automatic(header: Header, mention: _Mention) -> str:
    """Return the OMOP ids of the candidates; of a NIL without any, that of its nearest concept."""
    ids = [candidate.concept_id for candidate in mention.candidates]
    if not any(ids) and header.target_info is not None:
        ids = [one for target in mention.targets for one in (target.nearest_id or "").split("|")]
    found = (_fields.omop_target(header, concept_id) for concept_id in ids if concept_id)
    return ";".join(str(target.omop_concept_id) for target in found if target)


def _key(mapping: Mapping) -> tuple[str, str]:
    """Return what Usagi tells mentions apart by."""
    return _escaped(mapping.mention_code or ""), _escaped(mapping.mention)


def _times(mappings: Sequence[Mapping]) -> int:
    """Return how often the mention of some mappings is given."""
    return sum(1 for _ in groupby(mappings, key=lambda mapping: mapping.row))


def _as_one(header: Header, given: Sequence[Mapping]) -> list[Mapping]:
    """Return the mappings of a mention as those of one row, if it is given again: each target once, all frequencies."""
    if _times(given) <= 1:
        return list(given)
    # Rows are numbered anew in each of several files that were put together.
    rows = [[mapping.frequency for mapping in group] for _, group in groupby(given, key=lambda mapping: mapping.row)]
    counts = [max(known) for row in rows if (known := [times for times in row if times is not None and times >= 0])]
    once: dict[tuple[TargetInfo | None, str], Mapping] = {}
    for mapping in sorted(given, key=lambda mapping: not _fields.is_target(mapping)):
        once.setdefault((_target(header, mapping), mapping.mapping_type), mapping)
    kept = list(once.values())
    # None was found for one of them, and something for another.
    if any(mapping.concept_id is not None for mapping in kept if _fields.is_target(mapping)):
        kept = [mapping for mapping in kept if mapping.concept_id is not None]
    return [replace(mapping, row=given[-1].row, frequency=sum(counts) if counts else None) for mapping in kept]


def _status(statuses: set[str]) -> str:
    return next(iter(statuses)) if len(statuses) == 1 else "FLAGGED" if "FLAGGED" in statuses else "UNCHECKED"


def _candidates(template: Mapping | None, numbers: Sequence[int]) -> Iterator[Mapping]:
    if template is None:
        return
    for rank, number in enumerate(numbers, 2):
        mention = (template.row, template.mention_code, template.mention)
        yield bare(*mention, f"OMOP:{number}", rank=rank, frequency=template.frequency)


def _target(header: Header, mapping: Mapping) -> TargetInfo | None:
    return _fields.omop_target(header, mapping.concept_id)


def _row(header: Header, mapping: Mapping, status: str, candidates: str) -> dict[str, str]:
    """Return the cells of a mapping, in the words of the file that it was read from where they say the same."""
    own = _own_row(header, mapping, status, candidates)
    # Of several targets each has the status of the mention.
    names = [name for name in (*SAID, *header.extra) if name != "mappingStatus" or status == STATUSES[mapping.status]]
    known = mapping if mapping.concept_id is None else replace(mapping, concept_id=f"OMOP:{own['conceptId']}")
    return _fields.overlaid(own, known, names, lambda cells: _mapping(cells, 1))


def _own_row(header: Header, mapping: Mapping, status: str, candidates: str) -> dict[str, str]:
    target = _target(header, mapping) or _fields.NO_OMOP
    nil = mapping.concept_id is None
    score = mapping.confidence if mapping.confidence is not None else mapping.similarity
    cells = [
        mapping.mention_code or "",
        mapping.mention,
        NO_FREQUENCY if mapping.frequency is None or mapping.frequency < 0 else str(mapping.frequency),
        candidates,
        f"{max(score or 0.0, 0.0):.2f}",
        status,
        "UNMATCHED" if nil else EQUIVALENCES[mapping.relation],
        mapping.reviewer or "",
        _milliseconds(mapping),
        str(target.omop_concept_id),
        mapping.concept_name or "" if not nil else "",
        target.domain,
        mapping.mapping_type.upper(),
        mapping.comment or "",
        header.tool,
        _day(header),
        "",
    ]
    return dict(zip(COLUMNS, cells, strict=True))


def _mapping(cells: dict[str, str], number: int) -> Mapping:
    """Return the mapping of a row's cells."""
    status, equivalence = cells["mappingStatus"], cells.get("equivalence") or "UNREVIEWED"
    kind = cells.get("mappingType") or "MAPS_TO"
    for name, value, allowed in (
        ("mappingStatus", status, READ_STATUSES),
        ("equivalence", equivalence, RELATIONS),
        ("mappingType", kind, TYPES),
    ):
        if value not in allowed:
            raise InputError(f"must be one of {sorted(allowed)}", field=name, value=value)
    concept, none = _whole(cells, "conceptId"), cells.get("sourceFrequency", "").strip() == NO_FREQUENCY
    return bare(
        number,
        cells["sourceCode"] or None,
        cells["sourceName"],
        f"OMOP:{concept}" if concept else None,
        frequency=None if none else _whole(cells, "sourceFrequency"),
        concept_name=cells.get("conceptName") or None,
        similarity=_score(cells),
        relation=RELATIONS[equivalence] if concept else None,
        status=READ_STATUSES[status],
        mapping_type=TYPES[kind],
        reviewer=cells.get("statusSetBy") or None,
        reviewed_at=_moment(cells),
        comment=cells.get("comment") or None,
    )


def _whole(cells: dict[str, str], name: str) -> int | None:
    text = cells.get(name, "").strip()
    if not text:
        return None
    # R writes large numbers as 1e+05 and 1.6e+12.
    if not re.fullmatch(r"[0-9]{1,18}(\.0+)?|[0-9](\.[0-9]+)?[eE]\+?[01]?[0-9]", text):
        raise InputError("not a whole number", field=name, value=text)
    return int(text) if text.isdecimal() else int(float(text))


def _score(cells: dict[str, str]) -> float | None:
    text = cells.get("matchScore", "")
    try:
        score = float(text or 0)
    except ValueError:
        raise InputError("not a number", field="matchScore", value=text) from None
    if not 0 <= score <= 1:
        raise InputError("must be from 0 to 1", field="matchScore", value=text)
    # 0.00 is what Usagi writes for none.
    return score or None


def _moment(cells: dict[str, str]) -> str | None:
    milliseconds = _whole(cells, "statusSetOn")
    try:
        return (EPOCH + timedelta(milliseconds=milliseconds)).isoformat() if milliseconds else None
    except OverflowError:
        why = "no time in milliseconds since 1970: it is after the year 9999"
        raise InputError(why, field="statusSetOn", value=cells["statusSetOn"]) from None


def _milliseconds(mapping: Mapping) -> str:
    if not mapping.reviewed_at:
        return "0"
    try:
        moment = datetime.fromisoformat(mapping.reviewed_at)
    except ValueError:
        return "0"
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # Before 1970 is none, as it is for Usagi.
    return str(max((moment - EPOCH) // timedelta(milliseconds=1), 0))


def _day(header: Header) -> str:
    try:
        day = datetime.fromisoformat(header.date).replace(tzinfo=UTC)
    except ValueError:
        return "0"
    return str((day - EPOCH) // timedelta(milliseconds=1))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text) if "\\" in text else text


def _cell(text: str) -> str:
    text = _escaped(text)
    if '"' in text or "," in text:
        return '"' + text.replace('"', '""') + '"'
    return text
