"""Usagi CSV. Specification: https://github.com/OHDSI/Usagi (WriteCodeMappingsToFile, ReadCodeMappingsFromFile)
Version 1.4.3, with its way of writing cells: quotes doubled, a backslash as two, a line break as backslash and n.

One row for each target of a mention, next to one another; conceptId 0 where there is none. Further candidates are no
targets: their concept ids stand in sourceAutoAssignedConceptIds, joined by `;`. matchScore is the confidence, or the
similarity where there is none, with two decimals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, Problem, _losses, _omop, _rows
from alphita.mappings.record import Mapping, MappingType

DESCRIPTION = "Usagi's mapping file, for review in Usagi"
SUFFIXES = (".usagi.csv",)
STREAMS = True
PREFIXED = False
LOSSES = (
    "mention_code", "mention", "rank", "concept_name", "matched_term", "similarity", "confidence", "decision", "method",
    "routes", "relation", "scope", "language", "source", "code", "homonyms", "expansion", "contradictions",
    "retired_concept", "explanation", "status", "comment", "reviewer", "reviewed_at",
)  # fmt: skip

COLUMNS = (
    "sourceCode", "sourceName", "sourceFrequency", "sourceAutoAssignedConceptIds", "matchScore", "mappingStatus",
    "equivalence", "statusSetBy", "statusSetOn", "conceptId", "conceptName", "domainId", "mappingType", "comment",
    "createdBy", "createdOn", "assignedReviewer",
)  # fmt: skip
EQUIVALENCES = {"exact": "EQUAL", "broad": "WIDER", "narrow": "NARROWER", "related": "INEXACT", None: "UNREVIEWED"}
RELATIONS = {name: relation for relation, name in EQUIVALENCES.items()} | {"EQUIVALENT": "exact", "UNMATCHED": None}
# A rejected target has no place in Usagi but as one that is flagged for another look.
STATUSES = {
    "unreviewed": "UNCHECKED", "approved": "APPROVED", "rejected": "FLAGGED", "flagged": "FLAGGED", "ignored": "IGNORED"
}  # fmt: skip
READ_STATUSES = {
    "UNCHECKED": "unreviewed", "AUTO_MAPPED": "unreviewed", "AUTO_MAPPED_TO_1": "unreviewed", "APPROVED": "approved",
    "FLAGGED": "flagged", "INVALID_TARGET": "flagged", "IGNORED": "ignored",
}  # fmt: skip
TYPES: dict[str, MappingType] = {
    "MAPS_TO": "maps_to", "MAPS_TO_VALUE": "maps_to_value", "MAPS_TO_UNIT": "maps_to_unit",
    "MAPS_TO_OPERATOR": "maps_to_operator", "MAPS_TO_TYPE": "maps_to_type", "MAPS_TO_NUMBER": "maps_to_number",
    "EVENT": "maps_to", "VALUE": "maps_to_value", "UNIT": "maps_to_unit",
}  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def begin(header: Header) -> bytes:
    """Return the line of column names."""
    return (",".join(COLUMNS) + "\n").encode()


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the rows; the mappings of one mention must come together."""
    texts = []
    for targets, candidates in _grouped(header, mappings):
        numbers = ";".join(str(found.omop_concept_id) for one in candidates if (found := _target(header, one)))
        texts += [",".join(map(_cell, _row(header, one, numbers))) + "\n" for one in targets]
    return "".join(texts).encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Rename the part to the output."""
    part.replace(out)


def unfit(header: Header, mapping: Mapping) -> Problem | None:
    """Return why a mapping cannot be written, or None."""
    if not mapping.mention_code and not mapping.mention:
        return Problem("neither a code nor a mention", "mention", mapping.mention)
    for one in [None] if mapping.concept_id is None else mapping.concept_id.split("|"):
        if _omop.target(header, one) is None:
            return Problem("a concept without OMOP's concept id", "concept_id", one)
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what the file does not hold."""
    whole: Counter[str] = Counter()
    pairs = []
    for one in _losses.one_by_one(mappings):
        if problem := unfit(header, one):
            whole[problem.problem] += 1
        elif not _losses.is_target(one):
            whole["further candidates, but for their concept ids"] += 1
        else:
            cells = dict(zip(COLUMNS, _row(header, one, ""), strict=True))
            cells = {name: _unescaped(_escaped(cell)) for name, cell in cells.items()}
            # The OMOP number is another name of the same concept.
            pairs.append((one, replace(_mapping(cells, 1), concept_id=one.concept_id)))
    return dict(whole) | _losses.count(pairs)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; concepts are named by OMOP's numbers. Targets have rank 1, automatically assigned concepts 2, ..."""
    number, last = 0, None
    autos: list[str] = []
    template: Mapping | None = None
    needed = ("sourceCode", "sourceName", "mappingStatus", "conceptId")
    for line, cells in _rows.delimited(path, ",", needed, rejects):
        source = (cells["sourceCode"], cells["sourceName"])
        if source != last:
            yield from _candidates(template, autos)
            number, last, autos, template = number + 1, source, [], None
        try:
            mapping = _mapping({name: _unescaped(cell) for name, cell in cells.items()}, number)
        except InputError as error:
            rejects.add(error.problem, file=path, line=line, field=error.field, value=error.value)
            continue
        autos = [one for one in cells.get("sourceAutoAssignedConceptIds", "").split(";") if one.isdecimal()]
        template = mapping
        yield mapping
    yield from _candidates(template, autos)


def _grouped(header: Header, mappings: Sequence[Mapping]) -> Iterator[tuple[list[Mapping], list[Mapping]]]:
    """Yield (targets, further candidates) of each mention."""
    fitting = (one for one in _losses.one_by_one(mappings) if unfit(header, one) is None)
    for _, group in groupby(fitting, key=lambda one: (one.row, one.mention_code, one.mention)):
        found = list(group)
        targets = [one for one in found if _losses.is_target(one)]
        yield targets, [one for one in found if not _losses.is_target(one) and one.concept_id is not None]


def _candidates(template: Mapping | None, numbers: Sequence[str]) -> Iterator[Mapping]:
    if template is None:
        return
    for rank, number in enumerate(numbers, 2):
        yield replace(
            template, rank=rank, concept_id=f"OMOP:{int(number)}", concept_name=None, similarity=None, confidence=None,
            method="nearest", relation=None, status="unreviewed", mapping_type="maps_to", reviewer=None,
            reviewed_at=None, comment=None,
        )  # fmt: skip


def _target(header: Header, mapping: Mapping) -> _omop.TargetInfo | None:
    return _omop.target(header, mapping.concept_id)


def _row(header: Header, mapping: Mapping, candidates: str) -> list[str]:
    found = _target(header, mapping) or _omop.NONE
    nil = mapping.concept_id is None
    score = mapping.confidence if mapping.confidence is not None else mapping.similarity
    return [
        mapping.mention_code or "", mapping.mention, "" if mapping.frequency is None else str(mapping.frequency),
        candidates, f"{max(score or 0.0, 0.0):.2f}", STATUSES[mapping.status],
        "UNMATCHED" if nil else EQUIVALENCES[mapping.relation], mapping.reviewer or "", _milliseconds(mapping),
        str(found.omop_concept_id), mapping.concept_name or "" if not nil else "", found.domain,
        mapping.mapping_type.upper(), mapping.comment or "", header.tool, _day(header), "",
    ]  # fmt: skip


def _mapping(cells: dict[str, str], number: int) -> Mapping:
    """Return the mapping of a row's cells.

    Raises:
        InputError: a cell has a value that means nothing.
    """
    status, equivalence = cells["mappingStatus"], cells.get("equivalence") or "UNREVIEWED"
    kind = cells.get("mappingType") or "MAPS_TO"
    for name, value, allowed in (
        ("mappingStatus", status, READ_STATUSES), ("equivalence", equivalence, RELATIONS), ("mappingType", kind, TYPES)
    ):  # fmt: skip
        if value not in allowed:
            raise InputError(f"must be one of {sorted(allowed)}", field=name, value=value)
    concept, frequency = _whole(cells, "conceptId"), _whole(cells, "sourceFrequency")
    score = _score(cells)
    moment = _whole(cells, "statusSetOn")
    nil = not concept
    return Mapping(
        row=number, mention_code=cells["sourceCode"] or None, mention=cells["sourceName"], frequency=frequency, rank=1,
        concept_id=None if nil else f"OMOP:{concept}", concept_name=cells.get("conceptName") or None,
        matched_term=None, similarity=None, confidence=score, decision=None, method="nil" if nil else "nearest",
        routes=None, relation=None if nil else RELATIONS[equivalence], scope=None, language=None, source=None,
        code=None, homonyms=None, expansion=None, contradictions=None, retired_concept=None, explanation=None,
        status=READ_STATUSES[status], mapping_type=TYPES[kind], reviewer=cells.get("statusSetBy") or None,
        reviewed_at=(EPOCH + timedelta(milliseconds=moment)).isoformat() if moment else None,
        comment=cells.get("comment") or None,
    )  # fmt: skip


def _whole(cells: dict[str, str], name: str) -> int | None:
    text = cells.get(name, "").strip()
    if not text:
        return None
    # R writes large numbers as 1.6e+12.
    if not re.fullmatch(r"\d{1,18}(\.0+)?|\d(\.\d+)?[eE]\+?1?\d", text):
        raise InputError("not a whole number", field=name, value=text)
    return int(text) if text.isdecimal() else int(float(text))


def _score(cells: dict[str, str]) -> float | None:
    text = cells.get("matchScore", "")
    try:
        # 0.00 is what Usagi writes for none.
        return float(text or 0) or None
    except ValueError:
        raise InputError("not a number", field="matchScore", value=text) from None


def _milliseconds(mapping: Mapping) -> str:
    if not mapping.reviewed_at:
        return "0"
    try:
        moment = datetime.fromisoformat(mapping.reviewed_at)
    except ValueError:
        return "0"
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return str((moment - EPOCH) // timedelta(milliseconds=1))


def _day(header: Header) -> str:
    try:
        day = datetime.fromisoformat(header.date).replace(tzinfo=UTC)
    except ValueError:
        return "0"
    return str((day - EPOCH) // timedelta(milliseconds=1))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text


def _cell(text: str) -> str:
    text = _escaped(text)
    if '"' in text or "," in text:
        return '"' + text.replace('"', '""') + '"'
    return text
