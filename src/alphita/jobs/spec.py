"""Every option of a normalization job, once: its name, type, default and help.

`Spec` makes the command line (`alphita.options`), a `Job` of one file, or the `NormalizerSettings` of an engine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import registry
from alphita.answer import RANKING_NAMES
from alphita.errors import UsageError
from alphita.index.choice import Choice
from alphita.mappings.formats import PREFIXES, Header
from alphita.options import ENCODING, HOW, Cluster, Option, Restart, Running, group, option, options_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alphita.answer.filters import Allowed, Filters
    from alphita.answer.normalizer import Normalizer, NormalizerOptions
    from alphita.answer.records import Explain
    from alphita.index.store import Index
    from alphita.jobs.answers import Memory
    from alphita.jobs.batches import NormalizerSettings
    from alphita.jobs.job import Job
    from alphita.jobs.reading import MentionFile

FORMATS = ", ".join(registry.names("alphita.mappings.formats"))
RANKINGS = ", ".join(["auto", *RANKING_NAMES])
# Panels of the help; options in none are shown first, those in one by --help-all.
INPUT, AUDIT = "Input", "Checks and reports"
OUTPUT, CONCEPTS, REVIEWS = "Output", "Concept filters", "Earlier decisions"
TO = Option(
    flags=("--to", "--index"),
    metavar="SOURCE",
    help="Terminology to map to: hpo, icd10cm, a terminology's published file or folder, an X.terminology or an "
    "X.index. If there is no index yet, it is built once and kept in the cache.",
)
ERROR = Option(
    least=0.0,
    most=1.0,
    help="Allowed share of errors among accepted answers; 0.05 by default if there is a calibration.",
)
NIL_ERROR = Option(
    least=0.0,
    most=1.0,
    help="Allowed share, among NIL answers, of strings that have a concept; 0.05 by default if there is a calibration.",
)
REPORT = Option(panel=AUDIT, help="Also write counts and times to this JSON file.")
# Options of one file's job, and the values that they may have beside an engine.
OF_ONE_FILE: dict[str, tuple[object, ...]] = dict.fromkeys(
    (
        *("unit_column", "range_column", "specimen_column", "sheet", "delimiter", "split", "source_vocabulary"),
        *("source_system", "source_version", "set_id", "licence", "prefixes", "with_review", "bom", "raw"),
        *("audit", "audit_out"),
    ),
    (),
) | {"input_format": ("parquet",), "format": ("parquet",), "encoding": ("utf-8",)}


@dataclass(frozen=True, kw_only=True)
class Concepts:
    """Which concepts may be answered, and by what codes; a project of a review keeps it."""

    target: str | None = option(None, help="Answer with codes of this code system, e.g. SNOMEDCT.")
    types: tuple[str, ...] = option(
        (),
        "--type",
        help="Only concepts of this type, domain or kind: term or part (LOINC), SCD (RxNorm), ...; repeatable.",
    )
    sources: tuple[str, ...] = option((), "--source", help="Only concepts of this terminology; repeatable.")
    languages: tuple[str, ...] = option((), "--language", help="Only terms in this language; repeatable.")
    under: tuple[str, ...] = option((), metavar="CURIE", help="Only this concept and those below it; repeatable.")
    standard_only: bool = option(False, help="Only Standard Concepts (OMOP).")
    billable: bool = option(
        False, help="Only codes that can be billed (ICD-10-CM); a heading is answered by its unspecified code."
    )

    def filters(self) -> Filters | None:
        """Return the filters; None: all concepts may be answered."""
        from alphita.answer.filters import Filters

        given = {name: value for name, value in vars(self).items() if name != "target"}
        filters = Filters(**given)
        return None if filters.empty else filters

    def allowed(self, index: Index) -> Allowed:
        """Return the concepts of an index that may be answered."""
        from alphita.answer.filters import Allowed, Targets

        return Allowed(index, self.filters(), Targets(index.segment, self.target) if self.target else None)

    def to_json(self) -> dict[str, Any]:
        given = ((name, value) for name, value in vars(self).items() if value)
        return {name: sorted({*value}) if isinstance(value, tuple) else value for name, value in given}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Concepts:
        given: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in record.items()}
        return cls(**given)

    def __str__(self) -> str:
        typed = []
        for field_ in options_of(Concepts):
            value = getattr(self, field_.name)
            some = value if isinstance(value, tuple) else [value] if value else []
            typed += [field_.flags[0] if item is True else f"{field_.flags[0]} {item}" for item in some]
        return " ".join(typed)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to normalise, to what, how and where to: the options of `alphita normalize`."""

    input: str = option(
        ...,
        positional=True,
        metavar="INPUT",
        help="CSV, TSV, Excel, Parquet, JSON Lines or .txt file; text files also as .gz; '-' is stdin. With --engine: "
        "a Parquet file, a folder of them, a pattern or a URL.",
    )
    to: str = option(..., like=TO)
    output: str = option(..., "--output", "-o", help="Output file; '-' is stdout. With --engine: a folder or URL.")
    column: str | None = option(
        None, help="Column with the strings; not needed if there is one column, or one called 'mention'."
    )
    code_column: str | None = option(None, help="Column with your own codes, kept as 'mention_code'.")
    context_column: str | None = option(
        None, help="Column with the surrounding text of each string; it helps to resolve abbreviations."
    )
    language_column: str | None = option(None, panel=INPUT, help="Column with the language of each string: en, de, ...")
    frequency_column: str | None = option(
        None, panel=INPUT, help="Column with the count of each string, kept as 'frequency'."
    )
    unit_column: str | None = option(
        None,
        panel=INPUT,
        help="Column with the unit of a laboratory test, or of the value at the end of a string: 'K+ 2.8', mmol/L.",
    )
    specimen_column: str | None = option(
        None, panel=INPUT, help="Column with the specimen of a laboratory test: Serum, Urine, ..."
    )
    range_column: str | None = option(
        None,
        panel=INPUT,
        help="Column with the reference range of that value: 3.5-5.1, <5; it shows whether the value is high or low.",
    )
    domain_column: str | None = option(
        None,
        panel=INPUT,
        help="Column with the type or domain that each answer must have: Drug, Condition, ... Rows with another value "
        "are answered from all concepts, and counted.",
    )
    domain_map: Path | None = option(
        None,
        panel=INPUT,
        help="Table of your values in that column and their domains: 'Lab,Measurement', with header; a value can have "
        "several rows.",
    )
    input_format: str = option(
        "", panel=INPUT, help="csv, tsv, excel, parquet, jsonl or lines; by default from the name (stdin: lines)."
    )
    sheet: str | None = option(
        None, panel=INPUT, help="Sheet of an Excel workbook; not needed if only one is not empty."
    )
    delimiter: str = option("", panel=INPUT, help="Delimiter of CSV or TSV, e.g. ';'; by default it is guessed.")
    encoding: str = option("utf-8", like=ENCODING, panel=INPUT)
    split: bool = option(False, help="Write one line for each name in a string such as 'fever, cough and rash'.")
    top: int = option(1, least=1, help="Candidates per string, one line each.")
    explain: bool = option(False, help="Explain each answer by a sentence in the column 'explanation'.")
    explain_numbers: bool = option(
        False, panel=OUTPUT, help="Explain each answer by the similarities and weights that it was computed from."
    )
    format: str = option("", help=f"{FORMATS}; by default from the output's name.")
    header: Header = group(Header, without=("version", "date", "target_system"), panel=OUTPUT)
    prefixes: tuple[str, ...] = option((), like=PREFIXES, panel=OUTPUT)
    concepts: Concepts = group(Concepts, panel=CONCEPTS)
    mappings: str | None = option(
        None,
        metavar="STORE",
        panel=REVIEWS,
        help="Review store, a SQLite file or postgresql://user@host/database; its final decisions take "
        "precedence, and confirmed phrases become names in the index.",
    )
    mappings_source: str | None = option(
        None,
        metavar="NAME",
        panel=REVIEWS,
        help="Only decisions for this source of codes; needed if the store has several sources.",
    )
    project: str | None = option(None, panel=REVIEWS, help="Only decisions of this project.")
    ranking: str = option("auto", panel=HOW, help=f"{RANKINGS}.")
    calibration: Path | None = option(
        None,
        panel=HOW,
        help="Calibration from 'alphita calibrate'; by default that of the index, otherwise that of its model.",
    )
    error: float | None = option(None, like=ERROR)
    nil_error: float | None = option(None, like=NIL_ERROR)
    floor: float | None = option(
        None, least=-1.0, most=1.0, panel=HOW, help="Without a calibration: similarity below which the answer is NIL."
    )
    abbreviations: Path | None = option(
        None, panel=HOW, help="Your own abbreviations: a CSV or TSV with the columns short and long."
    )
    given: Choice = group(Choice)
    running: Running = group(Running, panel=HOW)
    cluster: Cluster = group(Cluster)
    audit: int = option(0, least=0, panel=AUDIT, help="Write a random sample of this many accepted rows, for an audit.")
    audit_out: Path | None = option(None, panel=AUDIT, help="File for the audit sample; OUTPUT.audit.csv by default.")
    restart: Restart = group(Restart)
    private: bool = option(False, help="Treat strings as patient data: rejects and errors give only row numbers.")
    verify: bool = option(False, panel=AUDIT, help="Verify the hashes of the whole index first.")
    report: Path | None = option(None, like=REPORT)

    def check_engine(self) -> None:
        """Make sure that the options go with an engine, or without one."""
        self.cluster.check()
        if self.cluster.engine is None:
            return
        if self.input == "-":
            raise UsageError("--engine reads Parquet files, not stdin")
        if self.output == "-":
            raise UsageError("--engine writes a folder, not stdout; give -o FOLDER")
        for field_ in options_of(Spec):
            value = getattr(self, field_.name, getattr(self.header, field_.name, None))
            if value and value not in OF_ONE_FILE.get(field_.name, (value,)):
                shown = " ".join(value) if isinstance(value, tuple) else value
                raise UsageError(
                    f"{field_.flags[0]} {shown} does not go with --engine, which reads Parquet and writes a folder "
                    "of Parquet; leave it out, or leave out --engine"
                )

    def domains(self) -> Mapping[str, str] | None:
        """Return the domains by the user's values."""
        from alphita.jobs.domains import read_map

        if self.domain_map is not None and self.domain_column is None:
            raise UsageError("--domain-map says what the values of a column mean; name that with --domain-column")
        return None if self.domain_map is None else read_map(self.domain_map)

    @property
    def explaining(self) -> Explain:
        return "numbers" if self.explain_numbers else self.explain

    def choice(self, memory: Memory | None) -> Choice:
        """Return the options of the index, which learns the phrases that people confirmed."""
        return self.given if memory is None else replace(self.given, confirmed=memory.confirmed)

    def memory(self) -> Memory | None:
        """Return what people settled before; None without a store."""
        if self.mappings is None:
            if self.mappings_source is not None or self.project is not None:
                raise UsageError("--mappings-source and --project go with --mappings STORE")
            return None
        from alphita.jobs.answers import Memory

        return Memory.read(self.mappings, source=self.mappings_source, project=self.project)

    def mention_file(self) -> MentionFile:
        from alphita.jobs.reading import COLUMN_OPTIONS, MentionFile

        names = (*COLUMN_OPTIONS, "encoding", "delimiter", "sheet")
        file = MentionFile(self.input, self.input_format, **{name: getattr(self, name) for name in names})
        file.take_counts()
        return file

    def job(self) -> Job:
        """Return the job that these options describe."""
        from alphita.jobs.job import Job
        from alphita.mappings.formats._curies import prefixes_of

        read = {
            "the file of abbreviations": self.abbreviations,
            "the calibration": self.calibration,
            "the map of domains": self.domain_map,
            "the store of reviews": Path(self.mappings) if self.mappings and "://" not in self.mappings else None,
        }
        header = replace(self.header, prefixes=prefixes_of(self.prefixes))
        reads = {what: path for what, path in read.items() if path is not None}
        how: dict[str, Any] = {"split": self.split, "explain": self.explaining, "header": header}
        how |= {"audit": self.audit, "audit_out": self.audit_out, "report": self.report, "reads": reads}
        how |= {"memory": self.memory(), "domains": self.domains()}
        return Job(self.mention_file(), self.output, self.format, self.top, self.private, **how)

    def normalizer(self, index: Index) -> Normalizer:
        from alphita.answer.normalizer import Normalizer

        return Normalizer(index, options=self.answering())

    def answering(self) -> NormalizerOptions:
        from alphita.answer.normalizer import NAMES, NormalizerOptions

        given = {name: value for name in NAMES if (value := getattr(self, name, None)) is not None}
        chosen = {"filters": self.concepts.filters(), "target": self.concepts.target}
        return NormalizerOptions(**given | chosen, **asdict(self.running))

    def settings(self, index: Path | str, memory: Memory | None = None) -> NormalizerSettings:
        """Return what every process of an engine is told, of the index at this place."""
        from alphita.jobs.batches import NormalizerSettings

        options = vars(self.answering()).items()
        values: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in options}
        columns = self.column or "", self.context_column, self.language_column
        values |= {"explain": self.explaining, "memory": memory, "domain": self.domain_column}
        return NormalizerSettings(str(index), *columns, self.top, **values)
