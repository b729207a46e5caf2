"""Every option of a normalization job, once: its name, type, default and help.

The command line is made of `Spec`'s fields (`alphita.options`); one process, several and a cluster are given
what it says as a `Job` or `NormalizerSettings`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita import registry
from alphita.errors import UsageError
from alphita.index.choice import Choice
from alphita.options import HOW, Cluster, Option, Running, group, option, spelled

if TYPE_CHECKING:
    from alphita.index.store import Index
    from alphita.normalizer.answering.filters import Filters
    from alphita.normalizer.answering.normalizer import Normalizer
    from alphita.normalizer.reading.files import MentionFile
    from alphita.normalizer.writing.batches import NormalizerSettings
    from alphita.normalizer.writing.job import Job
    from alphita.normalizer.writing.remembering import Memory

FORMATS = ", ".join(registry.names("alphita.mappings.formats"))
RANKINGS = ", ".join(["auto", *registry.names("alphita.normalizer.answering.rankings")])
# Panels of the help; options in none are shown first, those in one by --help-all.
INPUT, AUDIT = "Input", "Checks and reports"
OUTPUT, CONCEPTS, REVIEWS = "Output", "Which concepts may be answered", "What was decided before"
TO = Option(
    flags=("--to", "--index"),
    metavar="SOURCE",
    help="What to answer with: hpo, icd10cm, a terminology's file or folder as it is published, an X.terminology "
    "or an X.index. What is not indexed yet is indexed once, and kept in the cache.",
)
ERROR = Option(
    least=0.0,
    most=1.0,
    help="Allowed share of errors among what is accepted; 0.05 by default, where there is a calibration.",
)
REPORT = Option(panel=AUDIT, help="Write the counts and times to this JSON file too.")
# Options of one file's job, and the values that they may have beside an engine.
OF_ONE_FILE: dict[str, tuple[object, ...]] = {
    "input_format": ("parquet",),
    "unit_column": (),
    "range_column": (),
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


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to normalise, to what, how and where to: the options of `alphita normalize`."""

    input: str = option(
        ...,
        positional=True,
        metavar="INPUT",
        help="CSV, TSV, Excel, Parquet, JSON Lines or .txt file, text also .gz; '-' is stdin. With --engine: a "
        "Parquet file, a folder of them, a pattern or a URL.",
    )
    to: str = option(..., like=TO)
    output: str = option(..., "--output", "-o", help="Output file; '-' is stdout. With --engine: a folder or URL.")
    column: str | None = option(
        None, help="Column of the strings; not needed if there is one column, or one called 'mention'."
    )
    code_column: str | None = option(None, help="Column of your own codes, kept as 'mention_code'.")
    context_column: str | None = option(
        None, help="Column of the text that each string stands in; it decides on abbreviations."
    )
    language_column: str | None = option(None, panel=INPUT, help="Column of each string's language: en, de, ...")
    frequency_column: str | None = option(
        None, panel=INPUT, help="Column of how often each string occurs, kept as 'frequency'."
    )
    unit_column: str | None = option(
        None, panel=INPUT, help="Column of the unit of the value that a string ends with: 'K+ 2.8', mmol/L."
    )
    range_column: str | None = option(
        None, panel=INPUT, help="Column of the range of that value: 3.5-5.1, <5; it tells what is raised or lowered."
    )
    input_format: str = option(
