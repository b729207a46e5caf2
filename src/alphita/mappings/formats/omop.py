"""OMOP SOURCE_TO_CONCEPT_MAP. Specification: https://ohdsi.github.io/CommonDataModel/cdm54.html#source_to_concept_map
Version 5.4 of the Common Data Model, as the comma-separated file that Usagi exports.

The rows keep the vocabulary of their codes, source_concept_id and dates of the file that they were read from.

A mention without a code is its own source_code. In a mention tabs and line breaks become one blank, in both columns.
NIL has target_concept_id 0 of vocabulary "None". Only "maps to" has a place here, and no rejection: other types of
target and mappings that were rejected, flagged or ignored are left out, and counted, as are further candidates. A code
longer than 50 characters cannot be written; a description is cut at 255. Nor can a target that is known to be no
Standard Concept, or to be no longer valid: the table maps to Standard Concepts.

A code and its target are written once, with the description they first have. The rows that repeat them are left out
when the file is finished, as are those with target 0 of a code that has another target; how many is told. It takes
memory for each distinct pair: about 0.2 GB for a million.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from alphita import textio
from alphita.errors import InputError, Rejects, UsageError, counted
from alphita.mappings.formats import Header, Problem, TargetInfo, _fields
from alphita.mappings.formats._fields import split_complete
from alphita.mappings.record import Mapping, bare
from alphita.terminology import prefixes
from alphita.terminology.loaders import _files

if TYPE_CHECKING:
    import polars as pl

__all__ = ["split_complete"]
DESCRIPTION = "OMOP SOURCE_TO_CONCEPT_MAP, comma-separated"
SUFFIXES = (".source_to_concept_map.csv", ".stcm.csv")
STREAMS = False
READS = True
PREFIXED = False
IS_MAP = True
LOSSES = _fields.all_but()

COLUMNS = (
    *("source_code", "source_concept_id", "source_vocabulary_id", "source_code_description", "target_concept_id"),
    *("target_vocabulary_id", "valid_start_date", "valid_end_date", "invalid_reason"),
)
CODE, VOCABULARY, TEXT, TARGET = map(
    COLUMNS.index, ("source_code", "source_vocabulary_id", "source_code_description", "target_concept_id")
)
# What a row says beside its mapping.
SAID = ("source_concept_id", "target_vocabulary_id", "valid_start_date", "valid_end_date")
NIL = "0"
MOST = {"source_code": 50, "source_vocabulary_id": 20, "source_code_description": 255, "target_vocabulary_id": 20}
START, END = "1970-01-01", "2099-12-31"
NO_PLACE = ("rejected", "flagged", "ignored")
CONCEPT_FILE = "CONCEPT.csv"
CONCEPT_COLUMNS = ("concept_id", "domain_id", "vocabulary_id", "concept_code")
# What ends a cell or a line where the table is loaded as text.
_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
MAPS_TO = "map it through 'Maps to' in CONCEPT_RELATIONSHIP, or normalise with --standard-only"


def begin(header: Header) -> bytes:
    """Return the line of column names."""
    name = header.source_vocabulary
    if not (name or header.is_coded) or len(name) > MOST["source_vocabulary_id"]:
        raise UsageError(
            f"SOURCE_TO_CONCEPT_MAP needs a source_vocabulary_id of 1 to 20 characters, not {name!r}: "
            "--source-vocabulary MY_CODES"
        )
    return (",".join(COLUMNS) + "\n").encode()


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for mapping in _fields.one_by_one(mappings):
        if not _why(header, mapping):
            writer.writerow(_row(header, mapping))
    return text.getvalue().encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Write each pair of code and target once, aside, rename, remove the part, and tell how many rows were left out."""
    mapped = _with_and_without(part)
    seen: set[tuple[tuple[str, str], str]] = set()
    repeats = nils = texts = 0
    with _fields.made_of(part, out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for row in _rows_of(part):
            code, target = (row[CODE], row[VOCABULARY]), row[TARGET]
            pair = (code, target)
            if pair in seen:
                repeats += 1
            elif target == NIL and code in mapped:
                nils += 1
            else:
                seen.add(pair)
                texts += row[CODE] == row[TEXT]
                writer.writerow(row)
    if texts:
        header.tell(f"{out}: {counted(texts, 'row')} without a code; the text is the source_code")
    if repeats:
        header.tell(f"{out}: left out: {counted(repeats, 'row')} with the code and target of an earlier one")
    if nils:
        header.tell(f"{out}: left out: {counted(nils, 'row')} with target 0 of a code that has another target")


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return why a mapping cannot be written, or None; None, too, for one that is left out anyway."""
    if _left_out(header, mapping):
        return None
    code = mapping.mention_code or _in_one_line(mapping.mention)
    if not code:
        return Problem("neither a code nor a mention", "mention_code", code)
    if len(code) > MOST["source_code"]:
        return Problem("a source code of more than 50 characters", "mention_code", code)
    if "\r" in code:
        return Problem("a carriage return in a source code", "mention_code", code)
    if not 0 < len(_vocabulary(header, mapping)) <= MOST["source_vocabulary_id"]:
        why = "a code without a vocabulary id of 1 to 20 characters; say --source-vocabulary MY_CODES"
        return Problem(why, "mention_vocabulary", _vocabulary(header, mapping))
    for concept_id in [None] if mapping.concept_id is None else mapping.concept_id.split("|"):
        target = _fields.omop_target(header, concept_id)
        if target is None or not (target.vocabulary or mapping.extras.get("target_vocabulary_id")):
            return Problem("a concept without OMOP's concept id and vocabulary", "concept_id", concept_id)
        if len(target.vocabulary) > MOST["target_vocabulary_id"]:
            return Problem("a vocabulary id of more than 20 characters", "concept_id", concept_id)
        if target.invalid_reason:
            why = f"a concept that is no longer valid in OMOP (invalid_reason {target.invalid_reason}); {MAPS_TO}"
            return Problem(why, "concept_id", concept_id)
        if target.standard is False:
            return Problem(f"not a Standard Concept of OMOP; {MAPS_TO}", "concept_id", concept_id)
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what the file does not hold."""

    def held(mapping: Mapping) -> Mapping:
        row = dict(zip(COLUMNS, _row(header, mapping), strict=True))
        # The OMOP number is another name of the same concept.
        back = _mapping(row, 1, int(row["target_concept_id"])).with_extras(row)
        return replace(back, concept_id=mapping.concept_id)

    return _fields.lost(mappings, lambda mapping: _why(header, mapping), held)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; concepts are named by OMOP's numbers (`OMOP:4329847`). Rows with an invalid_reason are set aside."""
    number, last = 0, None
    for line, cells in textio.table(path, ",", ("source_code", "target_concept_id"), rejects, how=header.reading):
        source = tuple(map(cells.get, ("source_code", "source_code_description", "source_vocabulary_id")))
        number += source != last
        last = source
        if cells.get("invalid_reason"):
            rejects.add("no longer valid", file=path, line=line, field="invalid_reason", value=cells["invalid_reason"])
        elif (concept := textio.whole_number(cells["target_concept_id"])) is None:
            value = cells["target_concept_id"]
            rejects.add("not a number", file=path, line=line, field="target_concept_id", value=value)
        elif not cells["source_code"]:
            rejects.add("empty", file=path, line=line, field="source_code")
        else:
            mapping = _mapping(cells, number, concept)
            own = dict(zip(COLUMNS, _own_row(header, mapping), strict=True))
            yield _fields.with_extras(mapping, {name: cells.get(name, "") for name in SAID}, own)


def _left_out(header: Header, mapping: Mapping) -> str | None:
    if not mapping.mention.strip() and mapping.concept_id is None:
        return "rows without a text, which no concept can fit"
    return _fields.left_out(mapping, NO_PLACE, not header.with_review)


def _why(header: Header, mapping: Mapping) -> str | None:
    problem = validate(header, mapping)
    return _left_out(header, mapping) or (problem and problem.problem)


def _rows_of(part: Path) -> Iterator[list[str]]:
    with open(part, encoding="utf-8", newline="") as file:
        yield from (record.cells for record in textio.records(file, ","))


def _with_and_without(part: Path) -> set[tuple[str, str]]:
    """Return the codes, with their vocabularies, that have no target in one row and have one in another."""
    without = {(row[CODE], row[VOCABULARY]) for row in islice(_rows_of(part), 1, None) if row[TARGET] == NIL}
    codes = ((row[CODE], row[VOCABULARY]) for row in islice(_rows_of(part), 1, None) if row[TARGET] != NIL)
    return without.intersection(codes)


def _vocabulary(header: Header, mapping: Mapping) -> str:
    return header.source_vocabulary or mapping.mention_vocabulary or ""


def _row(header: Header, mapping: Mapping) -> list[str]:
    """Return the cells of a mapping; OMOP's own facts are before those of the file that it was read from."""
    own = dict(zip(COLUMNS, _own_row(header, mapping), strict=True))
    vocabulary = own["target_vocabulary_id"]
    said = {name: text for name, text in mapping.extras.items() if name in SAID}
    return list((own | said | ({"target_vocabulary_id": vocabulary} if vocabulary else {})).values())


def _own_row(header: Header, mapping: Mapping) -> list[str]:
    target = _fields.omop_target(header, mapping.concept_id) or _fields.NO_OMOP
    description = _in_one_line(mapping.mention)
    return [
        mapping.mention_code or description,
        "0",
        _vocabulary(header, mapping),
        description[: MOST["source_code_description"]],
        str(target.omop_concept_id),
        target.vocabulary,
        START,
        END,
        "",
    ]


def _in_one_line(text: str) -> str:
    parts = _BREAKS.split(text)
    return text if len(parts) == 1 else " ".join(filter(None, map(str.strip, parts)))


def _mapping(row: dict[str, str], number: int, concept: int) -> Mapping:
    code, mention = row["source_code"], row.get("source_code_description") or row["source_code"]
    nil = concept == 0
    vocabulary = row.get("source_vocabulary_id") or None
    own_code = None if code == mention else code
    return bare(number, own_code, mention, None if nil else f"OMOP:{concept}", mention_vocabulary=vocabulary)


def load_concepts(path: Path, wanted: Collection[str]) -> dict[str, TargetInfo]:
    """Return the facts of some concepts, by the ids that ask for them: OMOP's (`OMOP:4329847`) or a vocabulary's
    own."""
    ids = sorted(wanted)
    facts: dict[str, TargetInfo] = {}
    for frame in _concept_frames(_concept_file(path)):
        for concept, domain, vocabulary, curie, omop, is_standard, reason in _concepts_of(frame, ids).iter_rows():
            info = TargetInfo(int(concept), domain or "", vocabulary or "", is_standard, reason or "")
            # A code that is used again for another meaning: the first that is valid stands for its CURIE, each for its
            # own number.
            if curie not in facts or (facts[curie].invalid_reason and not info.invalid_reason):
                facts[curie] = info
            facts[omop] = info
    return facts


def _concept_file(path: Path) -> _files.Member:
    members = _files.members([path])
    if members == [_files.Member(path)]:
        return members[0]
    matching = [member for member in members if member.name.lower() == CONCEPT_FILE.lower()]
    if len(matching) != 1:
        what = "no" if not matching else f"{len(matching)} files"
        raise InputError(f"{what} {CONCEPT_FILE} in it", file=path, remedy="give what Athena made, or the file itself")
    return matching[0]


def _concept_frames(member: _files.Member) -> Iterator[pl.DataFrame]:
    """Yield the rows, some 16 MB at once."""
    import polars as pl

    head = ""
    for _, text in _files.blocks(member, "utf-8", Rejects(strict=True)):
        head, rows = (head, text) if head else (text[: text.index("\n") + 1], text[text.index("\n") + 1 :])
        try:
            frame = pl.read_csv((head + rows).encode(), separator="\t", quote_char=None, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"cannot read it: {error}", file=member.place) from None
        if missing := [name for name in CONCEPT_COLUMNS if name not in frame.columns]:
            remedy = f"give the {CONCEPT_FILE} that Athena made"
            raise InputError(f"no column {missing[0]!r}", file=member.place, remedy=remedy)
        yield frame


def _concepts_of(frame: pl.DataFrame, ids: list[str]) -> pl.DataFrame:
    """Return number, domain, vocabulary, both ids, whether standard, and why invalid, of the rows of some ids."""
    import polars as pl

    known = {row.omop_vocabulary_id: row.prefix for row in prefixes.table().values() if row.omop_vocabulary_id}
    # A vocabulary of one's own (ids above 2,000,000,000) is known by its name, in any spelling.
    here = frame["vocabulary_id"].unique().drop_nulls().to_list()
    prefix = {vocabulary: known.get(vocabulary) or prefixes.canonical(vocabulary) for vocabulary in here}
    standard, invalid = (
        pl.col(name).fill_null("") if name in frame.columns else pl.lit(None, pl.String)
        for name in ("standard_concept", "invalid_reason")
    )
    own = pl.col("vocabulary_id").replace_strict(prefix, default=pl.lit("")) + ":" + pl.col("concept_code")
    number = pl.lit("OMOP:") + pl.col("concept_id")
    return frame.select(*CONCEPT_COLUMNS[:3], own=own, number=number, standard=standard == "S", invalid=invalid).filter(
        (pl.col("own").is_in(ids) | pl.col("number").is_in(ids)) & pl.col("concept_id").str.contains(r"^[0-9]{1,10}$")
    )
