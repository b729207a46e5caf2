"""`alphita quickstart`: clinical strings -> concepts of the Human Phenotype Ontology, with confidence, in a minute.

It answers the local codes and the sample that come with Alphita, and measures the answers that are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alphita import artefact, clock, printing, registry, shipped, textio
from alphita.errors import InputError, Rejects
from alphita.progress import say

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer
    from alphita.answer.records import Result
    from alphita.mappings.record import Mapping as Line

SOURCE = "hpo"
TOP_K = 3
SHOWN = 15
FORMATS = {"csv": "answers.csv", "sssom": "answers.sssom.tsv", "html": "answers.html"}
CODES_PREFIX, CODES_URI = "LOCAL", "https://example.org/codes/"
SET_ID = "https://example.org/mappings/quickstart.sssom.tsv"
LICENCE = "https://creativecommons.org/publicdomain/zero/1.0/"
REPORT = "report.json"


class Asked(NamedTuple):
    """What is answered: local codes first, then the sample."""

    mentions: list[str]
    codes: list[str | None]
    frequencies: list[int | None]
    contexts: list[str | None]


class Sample(NamedTuple):
    """Strings whose concept is known."""

    mentions: list[str]
    concepts: list[str | None]
    kinds: list[str]


def sample_path() -> Path:
    """Return the path of examples/messy_terms.csv, which comes with Alphita."""
    return shipped.find("examples/messy_terms.csv")


def read_sample(path: Path) -> Sample:
    """Return the strings of a CSV with columns mention and concept_id (NIL: none), and kind if it has it."""
    sample = Sample([], [], [])
    rows = textio.columns(path, ("mention", "concept_id"), optional=("kind",), strip=False)
    for line, (mention, concept, kind) in rows:
        if not mention or not concept:
            remedy = "give every row a mention and a concept_id; NIL where it names nothing"
            raise InputError("a row lacks one of its cells", file=path, line=line, remedy=remedy)
        sample.mentions.append(mention)
        sample.concepts.append(None if concept == "NIL" else concept)
        sample.kinds.append(kind)
    if not sample.mentions:
        raise InputError("needs rows with a mention and a concept_id", file=path)
    return sample


def run(folder: Path, sample: Path, *, to: Path | str = SOURCE, threads: int | None = None) -> dict[str, Any]:
    """Answer local codes and sample, write the files into `folder`, and return the report, also in report.json."""
    from alphita.answer.normalizer import Normalizer
    from alphita.index.sources import index_of

    known = read_sample(sample)
    questions = _asked(shipped.find("examples/local_codes.csv"), known)
    folder.mkdir(parents=True, exist_ok=True)
    normalizer = Normalizer(index_of(to, threads=threads), threads=threads)
    say(f"answering {len(questions.mentions):,} strings …")
    normalizer.prepare([*questions.mentions, *filter(None, questions.contexts)])
    results = normalizer.normalize(questions.mentions, top_k=TOP_K, contexts=questions.contexts, explain=True)
    _write(folder, questions, results, normalizer)
    figures = measure(known, results[-len(known.mentions) :])
    return _report(folder, figures, sample, normalizer)


def _asked(codes: Path, sample: Sample) -> Asked:
    rows = [cells for _, cells in textio.columns(codes, ("description", "code", "count", "note"), strip=False)]
    n = len(sample.mentions)
    return Asked(
        [description for description, _, _, _ in rows] + sample.mentions,
        [code for _, code, _, _ in rows] + [None] * n,
        [int(count) for _, _, count, _ in rows] + [None] * n,
        [note or None for _, _, _, note in rows] + [None] * n,
    )


def _write(folder: Path, questions: Asked, results: Sequence[Result], normalizer: Normalizer) -> None:
    """Write the answers in each format."""
    from alphita.answer.records import lines
    from alphita.jobs.job import Job, header_of
    from alphita.jobs.reading import MentionFile
    from alphita.mappings.formats import Header
    from alphita.review.files import write

    def mappings() -> Iterator[Line]:
        rows = zip(results, questions.codes, questions.frequencies, strict=True)
        for number, (result, code, frequency) in enumerate(rows, 1):
            yield from lines(number, result, TOP_K, mention_code=code, frequency=frequency)

    given = Header(set_id=SET_ID, licence=LICENCE, source_vocabulary=CODES_PREFIX, prefixes={CODES_PREFIX: CODES_URI})
    table = MentionFile("-", "csv", code_column="code", frequency_column="count")
    header = header_of(normalizer, Job(table, "-", explain=True, header=given), clock.today().isoformat())
    for name, file in FORMATS.items():
        with Rejects(folder / f"{file}.rejects.csv") as rejects:
            write(mappings(), registry.load("alphita.mappings.formats", name), header, folder / file, rejects)


@dataclass
class Tally:
    """How the strings of one kind were answered."""

    n: int = 0
    right: int = 0
    nil: int = 0
    accepted: int = 0
    wrong: int = 0


def measure(sample: Sample, results: Sequence[Result]) -> dict[str, Any]:
    """Return how the sample was answered: by kind, and in all for strings that name a concept and those that do not."""
    kinds: dict[str, Tally] = {}
    totals = {"named": Tally(), "nil": Tally()}
    for gold, kind, result in zip(sample.concepts, sample.kinds, results, strict=True):
        first = result.candidates[0].concept_id if result.candidates else None
        nil = result.concept_id is None
        accepted = result.decision == "accept"
        for tally in (kinds.setdefault(kind, Tally()), totals["nil" if gold is None else "named"]):
            tally.n += 1
            tally.right += nil if gold is None else first == gold
            tally.nil += nil
            tally.accepted += accepted
            tally.wrong += accepted and result.concept_id != gold
    return {
        "kinds": {kind: vars(tally) for kind, tally in sorted(kinds.items(), key=lambda item: -item[1].n)},
        **{name: vars(tally) for name, tally in totals.items()},
    }


def _report(folder: Path, figures: Mapping[str, Any], sample: Path, normalizer: Normalizer) -> dict[str, Any]:
    from alphita import report

    manifest = normalizer.index.manifest
    data = {
        "sources": manifest.get("sources"),
        "terminology": manifest["terminology_hash"],
        "index": normalizer.index.content_hash,
        "model": manifest["model_hash"],
        "sample_sha256": artefact.hash_file(sample),
    }
    config = {name: getattr(normalizer, name) for name in ("error", "nil_error", "assurance")}
    return report.write(folder / REPORT, dict(figures), provenance=report.provenance(config=config, seed=0, data=data))


def show(report: Mapping[str, Any], folder: Path, *, to: Path | str = SOURCE) -> None:
    """Print the first answers, what the sample's answers are worth, where the files lie and what to try next."""
    from rich import box
    from rich.table import Table

    console = printing.console(highlight=False)
    _show_answers(console, folder / FORMATS["csv"])
    table = Table(title="The sample, by kind of string", box=box.SIMPLE_HEAD, title_justify="left")
    for column in ("kind", "strings", "right", "NIL", "accepted", "of them wrong"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    rows = {**report["kinds"], "all that name a concept": report["named"], "all that name none": report["nil"]}
    for kind, tally in rows.items():
        table.add_row(kind, *(f"{tally[name]:,}" for name in ("n", "right", "nil", "accepted", "wrong")))
    console.print(table)
    config = report["provenance"]["config"]
    console.print(
        "right: the first candidate is the concept that a careful person chose, or NIL where there is none.\n"
        f"accepted: at an allowed error of {config['error']:.0%}; NIL: of {config['nil_error']:.0%}; confidence is "
        f"{config['assurance']}."
    )
    page, others = folder / FORMATS["html"], f"{FORMATS['csv']} and {FORMATS['sssom']}"
    console.print(f"\nAll answers: {page} to read; {others} beside it.")
    console.print("Next:")
    for command in (
        "alphita serve --demo",
        f"alphita normalize YOUR.csv --column NAME --to {to} -o mapped.csv",
        "alphita quickstart --train" if to == SOURCE else "alphita train --list",
    ):
        console.print(f"  {command}", soft_wrap=True, markup=False)


def _show_answers(console: Any, answers: Path) -> None:  # noqa: ANN401 - rich's Console
    from rich import box
    from rich.table import Table

    with Rejects(strict=True) as rejects:
        every = [row for _, row in textio.table(answers, ",", (), rejects)]
    rows = [row for row in every if row["rank"] == "1"][:SHOWN]
    table = Table(title=f"The first {len(rows)} answers", box=box.SIMPLE_HEAD, title_justify="left")
    for column in ("mention", "concept", "decision"):
        table.add_column(column)
    table.add_column("confidence", justify="right")
    for row in rows:
        concept = f"{row['concept_id']} {row['concept_name']}" if row["concept_id"] else "none fits"
        colour = {"accept": "green", "review": "yellow"}.get(row["decision"], "dim")
        table.add_row(row["mention"], concept, f"[{colour}]{row['decision']}[/]", f"{float(row['confidence']):.2f}")
    console.print(table)
