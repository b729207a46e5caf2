"""What a job is asked, what makes it the same job when it goes on, and what it did."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.compute as pc

from alphita import artefact
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import ABBREVIATION, EXACT, NEAREST, NIL, Explain
from alphita.artefact import refuse_same, refuse_unwritable
from alphita.errors import InputError, UsageError
from alphita.index.store import Index
from alphita.jobs.answers import Memory
from alphita.jobs.parts import Chunk, Parts, beside
from alphita.jobs.reading import COLUMN_OPTIONS, STDIN, MentionFile
from alphita.mappings.formats import Header, chosen
from alphita.mappings.record import COLUMNS, OF_FILES, OMOP, REVIEW, REVIEWED, bare
from alphita.options import Restart
from alphita.terminology.prefixes import canonical

STDOUT = "-"
CHUNK_ROWS = 50_000
# What of a header makes a job another one.
GIVEN = (
    *("set_id", "version", "licence", "source_vocabulary", "source_system", "source_version", "prefixes"),
    *("with_review", "bom", "raw"),
)
# An answer of every kind of thing, to try a format with.
_SAMPLE = bare(
    *(1, "1", "x", "X:1"),
    **dict.fromkeys(("concept_name", "matched_term"), "x"),
    **dict.fromkeys(("method", "routes", "relation", "scope"), EXACT),
    **dict.fromkeys(("frequency", "similarity", "confidence"), 1.0),
    decision="accept",
    language="en",
)


@dataclass(frozen=True)
class Job:
    """What to normalise, where to, and how."""

    table: MentionFile
    out: Path | str
    format: str = ""
    top_k: int = 1
    private: bool = False
    chunk_rows: int = CHUNK_ROWS
    explain: Explain = False
    split: bool = False
    audit: int = 0
    audit_out: Path | None = None
    header: Header = field(default_factory=Header)
    report: Path | None = None
    memory: Memory | None = None
    reads: Mapping[str, Path] = field(default_factory=dict)
    domains: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.table.private |= self.private

    @property
    def to_stdout(self) -> bool:
        return str(self.out) == STDOUT

    @property
    def audit_file(self) -> Path:
        return self.audit_out or Path(f"{self.out}.audit.csv")

    @property
    def rejects_file(self) -> Path:
        return beside(Path(self.out), ".rejects.csv")

    def written(self) -> dict[str, Path]:
        """Return the files that are written, each by what it is called."""
        files: dict[str, Path] = {}
        if not self.to_stdout:
            files = {"the output": Path(self.out), "the rejects": self.rejects_file}
            if self.audit:
                files["the rows to audit"] = self.audit_file
        return files if self.report is None else files | {"the report": self.report}

    def columns(self, normalizer: Normalizer) -> list[str]:
        """Return the columns of a plain table, without those that the job has nothing for."""
        given = dict.fromkeys(OMOP, normalizer.omop.known) | {
            "mention_code": self.table.code_column,
            "frequency": self.table.frequency_column,
            "explanation": self.explain,
        }
        left_out = OF_FILES + (REVIEW if self.memory is None else ())
        return [name for name in COLUMNS if name not in left_out and given.get(name, True)]


def identity(normalizer: Normalizer, job: Job, format_name: str) -> dict[str, Any]:
    """Return what must be the same for a broken job to go on; the input's rows are compared chunk by chunk."""
    table, calibration, abbreviations = job.table, normalizer.calibration, normalizer.abbreviations
    return {
        "alphita build": artefact.build(),
        "index hash": normalizer.index.content_hash,
        "ranking": normalizer.ranking,
        "calibration hash": None if calibration is None else calibration.fields.get("content_hash"),
        **{name: getattr(normalizer, name) for name in ("floor", "error", "nil_error", "target")},
        "filters": None if normalizer.filters is None else repr(normalizer.filters),
        "abbreviations' hash": None if abbreviations is None else _hash(abbreviations.to_json()),
        "decisions' hash": None if job.memory is None else job.memory.content_hash,
        "precision": normalizer.options.precision,
        "top": job.top_k,
        "format": format_name,
        "audit": job.audit > 0,
        "domains": dict(job.domains or {}),
        "input format": table.format,
        **{name.replace("_", " "): getattr(job, name) for name in ("explain", "private", "chunk_rows")},
        **{name.replace("_", " "): getattr(job.header, name) for name in GIVEN},
        **{name.replace("_", " "): getattr(table, name) for name in (*COLUMN_OPTIONS, "encoding", "delimiter")},
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
        columns=tuple(job.columns(normalizer)),
        date=date,
        sources=versions | dict(job.header.sources),
        target_system=job.header.target_system or normalizer.target or _only_prefix(normalizer.index),
        target_info=job.header.target_info or normalizer.omop.targets(),
        **_errors(normalizer),
    )


def _errors(normalizer: Normalizer) -> dict[str, Any]:
    """Return the allowed errors, which a normaliser without calibration does not have."""
    is_calibrated = normalizer.calibration is not None
    return {name: getattr(normalizer, name) if is_calibrated else None for name in ("error", "nil_error")}


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
    prefixes = {curie.partition(":")[0] for curie in index.segment.concepts.column("id").slice(0, 10_000).to_pylist()}
    return prefixes.pop() if len(prefixes) == 1 else ""


def check(normalizer: Normalizer, job: Job, writer: ModuleType, restart: Restart) -> None:
    """Refuse what cannot be done before anything is done."""
    if job.audit and normalizer.calibration is None:
        raise UsageError(
            f"--audit draws from the accepted rows, and without a calibration none is accepted; "
            f"fit one: alphita calibrate --index {normalizer.index.path}"
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
    for file in filter(None, (job.audit_file if job.audit else None, job.report)):
        refuse_unwritable(file)
    if job.to_stdout:
        if restart.resume:
            raise UsageError("stdout cannot be resumed; give an output file")
        if job.audit:
            raise UsageError("--audit needs an output file, not stdout")
        if not writer.STREAMS:
            raise UsageError(f"{job.format or 'this format'} cannot be written to stdout; give a file, or --format csv")
        return
    restart.check()
    if restart.resume and job.table.is_stream:
        where = "stdin" if job.table.is_stdin else "a pipe"
        raise UsageError(f"input from {where} cannot be resumed; give a file")
    unfinished = restart.resume and Parts.beside(out).exist
    for file in (out, *([job.audit_file] if job.audit else [])):
        if file.exists() and not restart.force and not unfinished:
            raise UsageError(f"{file} already exists; choose another name or use --force")


def format_of(job: Job) -> ModuleType:
    """Return the output's format."""
    return chosen(Path(job.out), job.format or ("csv" if job.to_stdout else ""), "--format")


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


REJECTED = "rejected"
ACCEPTED = "accepted"
FOR_REVIEW = "review"
DECISIONS = {"accept": ACCEPTED, "review": FOR_REVIEW}
# Rows whose answer the output's format cannot hold.
UNWRITTEN = "unwritten"
# Rows without a code, where a column of codes was named.
NO_CODE = "no_code"
# Of these every row has one.
OUTCOMES = (EXACT, ABBREVIATION, NEAREST, NIL, REVIEWED, REJECTED)


@dataclass(frozen=True)
class Summary:
    """What a job did."""

    rows: int
    exact: int
    abbreviation: int
    nearest: int
    nil: int
    rejected: int
    accepted: int | None
    review: int | None
    resumed_rows: int
    seconds: float
    rows_per_second: float
    out: str
    rejects: str | None
    audit: str | None
    lost: dict[str, int]
    reviewed: int = 0
    learned: int | None = None
    error: float | None = None
    nil_error: float | None = None
    assurance: str | None = None
    origin: str = ""
    unread: dict[str, dict[str, int]] = field(default_factory=dict)
    no_code: int = 0
    unwritten: int = 0

    @classmethod
    def of(
        cls,
        counts: Mapping[str, int],
        resumed: int,
        start: float,
        out: str,
        normalizer: Normalizer,
        *,
        lost: Mapping[str, int] | None = None,
        **files: Path | str | None,
    ) -> Summary:
        """Return the summary of the counts of all rows.

        Args:
            start: when this run began, by `time.monotonic`.
            files: `rejects` and `audit`, as far as they were written.
        """
        calibration = normalizer.calibration
        rows, seconds = rows_of(counts), time.monotonic() - start
        counted: dict[str, Any] = {name: counts.get(name, 0) for name in (*OUTCOMES, NO_CODE, UNWRITTEN)}
        return cls(
            rows=rows,
            **counted,
            accepted=counts.get(ACCEPTED, 0) if calibration is not None else None,
            review=counts.get(FOR_REVIEW, 0) if calibration is not None else None,
            resumed_rows=resumed,
            seconds=round(seconds, 3),
            rows_per_second=round((rows - resumed) / max(seconds, 1e-9), 1),
            out=out,
            rejects=None if (rejects := files.get("rejects")) is None else str(rejects),
            audit=None if (audit := files.get("audit")) is None else str(audit),
            lost=dict(lost or {}),
            learned=normalizer.index.learned,
            **_errors(normalizer),
            assurance=normalizer.assurance,
            origin=calibration.origin if calibration is not None else "",
        )

    @classmethod
    def of_chunks(
        cls, chunks: Iterable[Chunk], resumed: int, start: float, out: str, normalizer: Normalizer, **files: Path | None
    ) -> Summary:
        """Sum up the chunks of a job."""
        total: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        for chunk in chunks:
            total.update(chunk.counts)
            lost.update(chunk.lost)
        return cls.of(total, resumed, start, out, normalizer, lost=dict((+lost).most_common()), **files)


def rows_of(counts: Mapping[str, int]) -> int:
    """Return how many rows some counts are of."""
    return sum(counts.get(name, 0) for name in OUTCOMES)


def outcomes(tally: dict[tuple[str, str | None], int]) -> dict[str, int]:
    """Return how many rows had which outcome, of rows by method and decision."""
    counts: Counter[str] = Counter()
    for (method, decision), number in tally.items():
        counts[method] += number
        if decision in DECISIONS:
            counts[DECISIONS[decision]] += number
    return dict(counts)
