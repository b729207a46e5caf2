"""What a job is asked, what makes it the same job when it goes on, and what it did."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from alphita import artefact
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import EXACT
from alphita.artefact import refuse_same, refuse_unwritable
from alphita.errors import InputError, UsageError
from alphita.index.store import Index
from alphita.jobs.parts import Parts, beside
from alphita.jobs.reading.files import STDIN, MentionFile
from alphita.jobs.remembering import Memory
from alphita.mappings.formats import Header, TargetInfo
from alphita.mappings.formats._names import chosen
from alphita.mappings.record import COLUMNS, REVIEW
from alphita.mappings.record import Mapping as Line
from alphita.terminology.prefixes import canonical

STDOUT = "-"
CHUNK_ROWS = 50_000
# What of a header makes a job another one.
GIVEN = (
    "set_id",
    "version",
    "licence",
    "source_vocabulary",
    "source_system",
    "source_version",
    "prefixes",
    "with_review",
)
# An answer of every kind of thing, to try a format with.
_SAMPLE = Line(
    row=1,
    mention_code="1",
    mention="x",
    frequency=1,
    rank=1,
    concept_id="X:1",
    concept_name="x",
    matched_term="x",
    similarity=1.0,
    confidence=1.0,
    decision="accept",
    method=EXACT,
    routes="exact",
    relation="exact",
    scope="exact",
    language="en",
    source=None,
    code=None,
    homonyms=None,
    expansion=None,
    contradictions=None,
    retired_concept=None,
)


@dataclass(frozen=True)
class Job:
    """What to normalise, where to, and how.

    Attributes:
        out: the output file, or "-" for stdout.
        format: a module of `alphita.mappings.formats`; "" to take it from the output's name.
        top_k: most candidates per row.
        private: no value of the input in rejects and errors, and an output that only its owner can read.
        chunk_rows: rows that are made durable together, at most.
        audit: accepted rows to draw at random for review; 0: none.
        audit_out: the file for them; None: OUT.audit.csv.
        report: the file for the counts, which the caller writes; None: there is none.
        memory: what people settled before: it answers first; None: nobody is asked.
    """

    table: MentionFile
    out: Path | str
    format: str = ""
    top_k: int = 1
    private: bool = False
    chunk_rows: int = CHUNK_ROWS
    explain: bool = False
    split: bool = False
    audit: int = 0
    audit_out: Path | None = None
    header: Header = field(default_factory=Header)
    report: Path | None = None
    memory: Memory | None = None
    reads: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Let the input's own errors keep to `private`."""
        self.table.private |= self.private

    @property
    def to_stdout(self) -> bool:
        """Whether the output goes to stdout."""
        return str(self.out) == STDOUT

    @property
    def audit_file(self) -> Path:
        """The file of the rows to review."""
        return self.audit_out or Path(f"{self.out}.audit.csv")

    @property
    def rejects_file(self) -> Path:
        """The file of the rows set aside."""
        return beside(Path(self.out), ".rejects.csv")

    def written(self) -> dict[str, Path]:
        """Return the files that are written, each by what it is called."""
        found: dict[str, Path] = {}
        if not self.to_stdout:
            found = {"the output": Path(self.out), "the rejects": self.rejects_file}
            if self.audit:
                found["the rows to audit"] = self.audit_file
        return found if self.report is None else found | {"the report": self.report}

    def columns(self) -> list[str]:
        """Return the output's columns."""
        given = {
            "mention_code": self.table.code_column,
            "frequency": self.table.frequency_column,
            "explanation": self.explain,
        }
        left_out = REVIEW if self.memory is None else ()
        return [name for name in COLUMNS if name not in left_out and given.get(name, True)]


def identity(normalizer: Normalizer, job: Job, format_name: str) -> dict[str, Any]:
    """Return what must be the same for a broken job to go on; the input's rows are compared chunk by chunk."""
    table, calibration, abbreviations = job.table, normalizer.calibration, normalizer.abbreviations
    return {
        "alphita build": artefact.build(),
        "index hash": normalizer.index.content_hash,
        "ranking": normalizer.ranking,
        "calibration hash": None if calibration is None else calibration.fields.get("content_hash"),
        "floor": normalizer.floor,
        "error": normalizer.error,
        "target": normalizer.target,
        "filters": None if normalizer.filters is None else repr(normalizer.filters),
        "abbreviations' hash": None if abbreviations is None else _hash(abbreviations.to_json()),
        "decisions' hash": None if job.memory is None else job.memory.content_hash,
        "precision": normalizer.options.precision,
        "top": job.top_k,
        "explain": job.explain,
        "format": format_name,
        **{name.replace("_", " "): getattr(job.header, name) for name in GIVEN},
        "audit": job.audit > 0,
        "private": job.private,
        "input format": table.format,
        "column": table.column,
        "code column": table.code_column,
        "context column": table.context_column,
        "language column": table.language_column,
        "frequency column": table.frequency_column,
        "unit column": table.unit_column,
        "range column": table.range_column,
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "chunk rows": job.chunk_rows,
        **({} if table.sheet is None else {"sheet": table.sheet}),
        **({"split": True} if job.split else {}),
    }


def header_of(normalizer: Normalizer, job: Job, date: str) -> Header:
    """Return what is said of the output: what was given, and what the index knows of its own terminology."""
    versions = {
        canonical(source["name"]): str(source["version"])
        for source in normalizer.index.manifest.get("sources", ())
        if source.get("name") and source.get("version")
    }
    return replace(
        job.header,
        columns=tuple(job.columns()),
        date=date,
        sources=versions | dict(job.header.sources),
        target_system=job.header.target_system or normalizer.target or _only_prefix(normalizer.index),
        target_info=job.header.target_info or _omop(normalizer.index),
    )


def check_concepts(normalizer: Normalizer, job: Job, writer: ModuleType, header: Header) -> None:
    """Refuse before anything is answered what the format cannot write of the concepts of index and memory."""
    if not writer.PREFIXED:
        return
    prefixes = set() if job.memory is None else job.memory.prefixes()
    if normalizer.filters is None and normalizer.target:
        prefixes.add(normalizer.target)
    elif normalizer.filters is None:
        ids = normalizer.index.segment.concepts.column("id")
        prefixes |= set(pc.unique(pc.replace_substring_regex(ids, ":.*", "")).to_pylist())
    writer.begin(header)
    for prefix in sorted(prefixes):
        writer.encode(header, [replace(_SAMPLE, concept_id=f"{prefix}:1")])


def _only_prefix(index: Index) -> str:
    """Return the prefix of the index's concepts, if all are of one; the first ten thousand are looked at."""
    prefixes = {one.partition(":")[0] for one in index.segment.concepts.column("id").slice(0, 10_000).to_pylist()}
    return prefixes.pop() if len(prefixes) == 1 else ""


def _omop(index: Index) -> Callable[[str], TargetInfo | None] | None:
    """Return what looks up OMOP's facts of a concept; None for an index of no OMOP vocabularies."""
    table = index.segment.concepts
    if "omop_concept_id" not in table.column_names:
        return None

    # Where no concept is a standard one, it was not told which are.
    is_known = bool(pc.any(pc.equal(table.column("standard").cast(pa.string()), "S")).as_py())

    @cache
    def found(concept_id: str) -> TargetInfo | None:
        row = int(index.concept_rows([concept_id])[0])
        number, domain, vocabulary, standard = (
            table.column(name)[row].as_py() for name in ("omop_concept_id", "domain", "vocabulary", "standard")
        )
        if row < 0 or number is None:
            return None
        return TargetInfo(number, domain or "", vocabulary or "", standard == "S" if is_known else None)

    return found


def check(normalizer: Normalizer, job: Job, writer: ModuleType, *, resume: bool, force: bool) -> None:
    """Refuse what cannot be done before anything is done."""
    if job.audit and normalizer.calibration is None:
        raise UsageError(
            f"--audit draws from the accepted rows, and without a calibration none is accepted; "
            f"fit one: alphita calibrate --index {normalizer.index.path} --split S.split"
        )
    if not job.table.is_stdin:
        try:
            os.stat(job.table.path)
        except OSError as error:
            raise InputError(f"cannot read the input: {error.strerror}", file=job.table.name) from None
    out = Path(job.out)
    # Such as "." has no name that the other files' could be made of.
    if not job.to_stdout and out.is_dir():
        raise UsageError(f"{out} is a folder; name a file")
    written = job.written()
    refuse_same(written)
    for what, read in {"the input": Path(job.table.path), **job.reads}.items():
        if str(read) != STDIN:
            refuse_same({what: read, **written})
    for made in filter(None, (job.audit_file if job.audit else None, job.report)):
        refuse_unwritable(made)
    if job.to_stdout:
        if resume:
            raise UsageError("stdout cannot be resumed; give an output file")
        if job.audit:
            raise UsageError("--audit needs an output file, not stdout")
        if not writer.STREAMS:
            raise UsageError(f"{job.format or 'this format'} cannot be written to stdout; give a file, or --format csv")
        return
    if resume and force:
        raise UsageError("--resume goes on with a job, --force begins anew; give one of them")
    if resume and job.table.is_stream:
        where = "stdin" if job.table.is_stdin else "a pipe"
        raise UsageError(f"input from {where} cannot be resumed; give a file")
    unfinished = resume and Parts.beside(out).exist
    for made in (out, *([job.audit_file] if job.audit else [])):
        if made.exists() and not force and not unfinished:
            raise UsageError(f"{made} already exists; choose another name or use --force")


def format_of(job: Job) -> ModuleType:
    """Return the output's format."""
    return chosen(Path(job.out), job.format or ("csv" if job.to_stdout else ""), "--format")


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
