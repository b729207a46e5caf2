"""Every option of a normalization job, once: its name, type, default and help.

The command line is made of `Spec`'s fields (`alphita.cli._from_spec`); one process, several and a cluster are given
what it says as a `Job` or `NormalizerSettings`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import registry
from alphita.errors import UsageError

if TYPE_CHECKING:
    from alphita.index.choice import Choice
    from alphita.index.store import Index
    from alphita.normalizer.answering.filters import Filters
    from alphita.normalizer.answering.normalizer import Normalizer
    from alphita.normalizer.reading.files import MentionFile
    from alphita.normalizer.writing.batches import NormalizerSettings
    from alphita.normalizer.writing.job import Job
    from alphita.normalizer.writing.remembering import Memory

FORMATS = registry.listed("alphita.mappings.formats")
RANKINGS = ", ".join(["auto", *registry.names("alphita.normalizer.answering.rankings")])
# Panels of the help; options in none are shown first, those in one by --help-all.
INPUT, AUDIT = "Input", "Checks and reports"
OUTPUT, CONCEPTS, REVIEWS, HOW = "Output", "Which concepts may be answered", "What was decided before", "How"
GIVEN, CLUSTER = "What an index is given beside its terminology", "Several processes or machines"
# Options of one file's job, and the values that they may have beside an engine.
OF_ONE_FILE: dict[str, tuple[object, ...]] = {
    "input_format": ("parquet",),
    "sheet": (),
    "delimiter": (),
    "encoding": ("utf-8",),
    "split": (),
    "format": ("parquet",),
    "source_vocabulary": (),
    "source_system": (),
    "source_version": (),
    "set_id": (),
    "licence": (),
    "prefixes": (),
    "audit": (),
    "audit_out": (),
}
OF_AN_ENGINE = ("workers", "address", "gpus_per_worker")


@dataclass(frozen=True)
class Option:
    """How a field is shown on a command line.

    Attributes:
        help: one sentence or two.
        flags: as they are typed; empty: `--` and the field's name.
        metavar: what stands for the value; empty: the type.
        panel: the heading of the help that it stands under.
        least: the least value allowed, of a number.
        most: the largest.
        positional: whether it is an argument, not an option.
    """

    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    least: float | None = None
    most: float | None = None
    positional: bool = False


def _option(default: object, *flags: str, help: str, **how: Any) -> Any:  # noqa: ANN401
    """Return a field with this default; `...` where there is none."""
    metadata = {"option": Option(help, flags, **how)}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to normalise, to what, how and where to: the options of `alphita normalize`."""

    input: str = _option(
        ...,
        positional=True,
        metavar="INPUT",
        help="CSV, TSV, Excel, Parquet, JSON Lines or .txt file, text also .gz; '-' is stdin. With --engine: a "
        "Parquet file, a folder of them, a pattern or a URL.",
    )
    to: str = _option(
        ...,
        "--to",
        "--index",
        metavar="SOURCE",
        help="What to answer with: hpo, icd10cm, a terminology's file or folder as it is published, an X.terminology "
        "or an X.index. What is not indexed yet is indexed once, and kept in the cache.",
    )
    output: str = _option(..., "--output", "-o", help="Output file; '-' is stdout. With --engine: a folder or URL.")
    column: str | None = _option(
        None, help="Column of the strings; not needed if there is one column, or one called 'mention'."
    )
    code_column: str | None = _option(None, help="Column of your own codes, kept as 'mention_code'.")
    context_column: str | None = _option(
        None, help="Column of the text that each string stands in; it decides on abbreviations."
    )
    language_column: str | None = _option(None, panel=INPUT, help="Column of each string's language: en, de, ...")
    frequency_column: str | None = _option(
        None, panel=INPUT, help="Column of how often each string occurs, kept as 'frequency'."
    )
    input_format: str = _option(
        "", panel=INPUT, help="csv, tsv, excel, parquet, jsonl or lines; told by the file's name else (stdin: lines)."
    )
    sheet: str | None = _option(
        None, panel=INPUT, help="Sheet of an Excel workbook; not needed if only one has anything in it."
    )
    delimiter: str = _option("", panel=INPUT, help="Between the cells of CSV or TSV, e.g. ';'.")
    encoding: str = _option("utf-8", panel=INPUT, help="Encoding of a text input, e.g. cp1252.")
    split: bool = _option(
        False, "--split", help="Give a line for each of the names that a string joins: 'fever, cough and rash'."
    )
    top: int = _option(1, least=1, help="Candidates per string, one line each.")
    explain: bool = _option(False, "--explain", help="Say why, in the column 'explanation'.")
    format: str = _option("", help=f"{FORMATS}; told by the output's name otherwise.")
    source_vocabulary: str = _option("", panel=OUTPUT, help="Short name of the system of your own codes.")
    source_system: str = _option("", panel=OUTPUT, help="Its URI, for FHIR.")
    source_version: str = _option("", panel=OUTPUT, help="Its version.")
    set_id: str = _option("", panel=OUTPUT, help="URI of the set of mappings made.")
    licence: str = _option("", panel=OUTPUT, help="URI of the licence of that set.")
    prefixes: tuple[str, ...] = _option(
        (), "--prefix", metavar="NAME=URI", panel=OUTPUT, help="What a CURIE prefix stands for; repeatable."
    )
    target: str | None = _option(None, panel=CONCEPTS, help="Answer with codes of this code system, e.g. SNOMEDCT.")
    types: tuple[str, ...] = _option(
        (), "--type", panel=CONCEPTS, help="Concepts of this type or domain only; repeatable."
    )
    sources: tuple[str, ...] = _option(
        (), "--source", panel=CONCEPTS, help="Concepts of this terminology only; repeatable."
    )
    languages: tuple[str, ...] = _option(
        (), "--language", panel=CONCEPTS, help="Terms in this language only; repeatable."
    )
    under: tuple[str, ...] = _option(
        (), metavar="CURIE", panel=CONCEPTS, help="This concept and those below it only; repeatable."
    )
    standard_only: bool = _option(False, "--standard-only", panel=CONCEPTS, help="Standard concepts (OMOP) only.")
    mappings: Path | None = _option(
        None, metavar="STORE", panel=REVIEWS, help="A store of reviews: what people settled there answers first."
    )
    mappings_source: str | None = _option(
        None,
        metavar="NAME",
        panel=REVIEWS,
        help="What was settled of strings from there; needed if the store has several sources.",
    )
    project: str | None = _option(None, panel=REVIEWS, help="Only what was settled in this project.")
    ranking: str = _option("auto", panel=HOW, help=f"{RANKINGS}.")
    calibration: Path | None = _option(
        None, panel=HOW, help="From 'alphita calibrate'; by default that of the index, else that of its model."
    )
    error: float | None = _option(
        None,
        least=0.0,
        most=1.0,
        help="Allowed share of errors among what is accepted; 0.05 by default, where there is a calibration.",
    )
    floor: float | None = _option(
        None,
        least=-1.0,
        most=1.0,
        panel=HOW,
        help="Similarity below which no concept is given (NIL); without calibration.",
    )
    abbreviations: Path | None = _option(
        None, panel=HOW, help="Your own abbreviations: a CSV or TSV with the columns short and long."
    )
    no_borrow: bool = _option(
        False,
        "--no-borrow",
        panel=GIVEN,
        help="Leave out what other open vocabularies call the same concepts, and the clinic's short forms.",
    )
    names: tuple[Path, ...] = _option(
        (),
        metavar="SOURCE",
        panel=GIVEN,
        help="Names of your own: a table with an id and a name a row, or any terminology. A concept that has one of "
        "the names of an id gets the others too. May be given several times.",
    )
    learn: str = _option(
        "seconds",
        panel=GIVEN,
        help="How long is learned from the terminology's synonyms: no, seconds or minutes (a head on the encoder's "
        "vectors); for `alphita index` also full (the whole encoder first; it needs torch).",
    )
    model: str | None = _option(
        None,
        panel=GIVEN,
        help="alphita-en, for English, or alphita-multi, for other languages too; by default what the languages of "
        "the terminology and of the strings call for. An X.index has its own.",
    )
    precision: str = _option("auto", panel=HOW, help="Arithmetic of the encoder: auto, fp32, bf16, ...")
    device: str = _option("auto", panel=HOW, help="Where the encoder runs: auto, cpu, cuda.")
    threads: int | None = _option(None, least=1, panel=HOW, help="Threads of every library; all cores by default.")
    engine: str | None = _option(
        None, panel=CLUSTER, help="What runs the job: processes (of this machine), ray or spark."
    )
    workers: int | None = _option(None, least=1, panel=CLUSTER, help="How many; by default as the engine has room.")
    address: str | None = _option(
        None, panel=CLUSTER, help="Of the cluster: HOST:6379 for Ray, spark://HOST:7077 for Spark."
    )
    gpus_per_worker: float = _option(0.0, least=0.0, panel=CLUSTER, help="GPUs of each worker, or a share of one: 0.5.")
    audit: int = _option(0, least=0, panel=AUDIT, help="Draw so many of the accepted rows at random, for review.")
    audit_out: Path | None = _option(None, panel=AUDIT, help="The file for them; OUTPUT.audit.csv otherwise.")
    resume: bool = _option(False, "--resume", help="Go on with a job that was broken off.")
    force: bool = _option(False, "--force", help="Replace an existing output; forget an unfinished job.")
    private: bool = _option(
        False, "--private", help="Strings are patient data: rejects and errors give row numbers only."
    )
    verify: bool = _option(False, "--verify", panel=AUDIT, help="Rehash the whole index first, however large.")
    report: Path | None = _option(None, panel=AUDIT, help="Write the counts and times to this JSON file too.")

    @classmethod
    def option(cls, name: str) -> Option:
        """Return how a field is shown."""
        shown: Option = next(each.metadata["option"] for each in fields(cls) if each.name == name)
        return shown

    @classmethod
    def flags(cls, name: str) -> tuple[str, ...]:
        """Return what may be typed for a field, the usual first."""
        return cls.option(name).flags or ("--" + name.replace("_", "-"),)

    def check_engine(self) -> None:
        """Make sure that the options go with an engine, or without one.

        Raises:
            UsageError: one does not, by name.
        """
        if self.engine is None:
            refuse_without_engine({self.flags(name)[0]: getattr(self, name) for name in OF_AN_ENGINE})
            return
        if self.input == "-":
            raise UsageError("--engine reads Parquet files, not stdin")
        if self.output == "-":
            raise UsageError("--engine writes a folder, not stdout; give -o FOLDER")
        for name, allowed in OF_ONE_FILE.items():
            value = getattr(self, name)
            if value and value not in allowed:
                told = " ".join(value) if isinstance(value, tuple) else value
                raise UsageError(
                    f"{self.flags(name)[0]} {told} does not go with --engine, which reads Parquet and writes a folder "
                    "of Parquet; leave it out, or leave out --engine"
                )

    def choice(self) -> Choice:
        """Return what the index is given beside its terminology."""
        return chosen(self.no_borrow, self.names, self.learn, self.model)

    def filters(self) -> Filters | None:
        """Return which concepts may be answered; None: all."""
        from alphita.normalizer.answering.filters import Filters

        filters = Filters(self.types, self.sources, self.languages, self.under, self.standard_only)
        return None if filters.empty else filters

    def memory(self) -> Memory | None:
        """Return what people settled before; None without a store.

        Raises:
            UsageError: options of a store, and no store; or it has several sources, and none is named.
            InputError: it is missing or damaged.
        """
        if self.mappings is None:
            if self.mappings_source is not None or self.project is not None:
                raise UsageError("--mappings-source and --project go with --mappings STORE")
            return None
        from alphita.normalizer.writing.remembering import Memory

        return Memory.read(self.mappings, source=self.mappings_source, project=self.project)

    def mention_file(self) -> MentionFile:
        """Return the input, which is not opened yet."""
        from alphita.normalizer.reading.files import MentionFile

        return MentionFile(
            self.input,
            self.input_format,
            self.column,
            self.code_column,
            self.encoding,
            self.delimiter,
            context_column=self.context_column,
            language_column=self.language_column,
            frequency_column=self.frequency_column,
            sheet=self.sheet,
        )

    def job(self) -> Job:
        """Return the job of one file.

        Raises:
            UsageError: a prefix that is none, or as for `memory`.
            InputError: as for `memory`.
        """
        from alphita.mappings.formats import Header
        from alphita.mappings.formats._curies import prefixes_of
        from alphita.normalizer.writing.job import Job

        read = {
            "the file of abbreviations": self.abbreviations,
            "the calibration": self.calibration,
            "the store of reviews": self.mappings,
        }
        return Job(
            self.mention_file(),
            self.output,
            self.format,
            self.top,
            self.private,
            explain=self.explain,
            split=self.split,
            audit=self.audit,
            audit_out=self.audit_out,
            header=Header(
                set_id=self.set_id,
                licence=self.licence,
                source_vocabulary=self.source_vocabulary,
                source_system=self.source_system,
                source_version=self.source_version,
                prefixes=prefixes_of(self.prefixes),
            ),
            report=self.report,
            memory=self.memory(),
            reads={what: path for what, path in read.items() if path is not None},
        )

    def normalizer(self, index: Index) -> Normalizer:
        """Open the normaliser of an index.

        Raises:
            UsageError: an option that the index has nothing for.
            InputError: a calibration or list that cannot be read, or does not belong to the index.
        """
        from alphita.normalizer.answering.normalizer import Normalizer
        from alphita.normalizer.answering.records import DEFAULT_FLOOR

        return Normalizer(
            index,
            ranking=self.ranking,
            calibration=self.calibration,
            floor=DEFAULT_FLOOR if self.floor is None else self.floor,
            error=self.error,
            target=self.target,
            filters=self.filters(),
            abbreviations=self.abbreviations,
            precision=self.precision,
            device=self.device,
            threads=self.threads,
        )

    def settings(self, index: Path | str) -> NormalizerSettings:
        """Return what every process of an engine is told, of the index at this place."""
        from alphita.normalizer.answering.records import DEFAULT_FLOOR
        from alphita.normalizer.writing.batches import NormalizerSettings

        return NormalizerSettings(
            str(index),
            self.column or "",
            self.context_column,
            self.language_column,
            self.top,
            self.explain,
            self.ranking,
            None if self.calibration is None else str(self.calibration),
            DEFAULT_FLOOR if self.floor is None else self.floor,
            self.error,
            self.target,
            self.filters(),
            None if self.abbreviations is None else str(self.abbreviations),
            self.precision,
            self.device,
            self.threads,
            memory=self.memory(),
        )


def chosen(no_borrow: bool, names: Iterable[Path] | None, learn: str, model: str | None = None) -> Choice:
    """Return what options say that an index is given beside its terminology."""
    from alphita.index.choice import Choice

    return Choice(not no_borrow, tuple(map(str, names or ())), learn, model)  # type: ignore[arg-type]


def refuse_without_engine(values: dict[str, object]) -> None:
    """Make sure that options of an engine, by what is typed for them, have no value where there is no engine.

    Raises:
        UsageError: one has.
    """
    for flag, value in values.items():
        if value:
            raise UsageError(f"{flag} goes with --engine processes, ray or spark")
