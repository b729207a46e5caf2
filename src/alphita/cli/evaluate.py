"""`alphita evaluate`: score encoders and baselines on benchmarks, or compare two reports."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, NamedTuple

import typer

from alphita import registry
from alphita.errors import UsageError

BENCHMARKS = "alphita.evaluation.benchmarks"
UNTESTED = "untested on real data"


def evaluate(
    benchmarks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BENCHMARK...]", help="Their names, or files of your own; all: those whose data are there."
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="alphita-en, minilm, a model folder, a hub name or a baseline's kind; repeatable."
        ),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", "-b", help="The same; the first one is what others are laid beside."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of the benchmarks' files.")] = None,
    terminology: Annotated[
        Path | None, typer.Option("--terminology", "-t", help="For benchmarks that are made of a terminology.")
    ] = None,
    out: Annotated[Path, typer.Option("--output", "-o", help="The report folder to create.")] = Path("report"),
    skipped: Annotated[
        list[str] | None, typer.Option("--skip", metavar="BENCHMARK", help="Leave one out of all; repeatable.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value or BENCHMARK.key=value; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap intervals and pictures.")] = 0,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Draw the terminology's terms as the encoders place them (t-SNE).")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Size of every thread pool; by default one a core.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing report (it is moved aside).")] = False,
    shown: Annotated[bool, typer.Option("--list", help="List the benchmarks and leave.")] = False,
    about: Annotated[
        str | None, typer.Option(metavar="BENCHMARK", help="What a benchmark is, needs and is set by; and leave.")
    ] = None,
    compared: Annotated[
        tuple[Path, Path] | None, typer.Option("--compare", metavar="A B", help="Two report folders to compare.")
    ] = None,
) -> None:
    """Score encoders and baselines on benchmarks: one report with intervals, differences and published numbers.

    A system may carry options: path/to/model,pooling=cls,max_length=25,name=mine or bm25,k1=1.2. Kinds: encoder (just
    its name), tfidf, bm25, exact_match, edit_distance, word_vectors:FILE, concept_vectors:FILE, graph_vectors:FOLDER,
    normalizer:MODEL.
    """
    if shown:
        _list()
    elif about:
        _about(about)
    elif compared:
        _compare(*compared, seed=seed)
    else:
        chosen = _Chosen(
            benchmarks or [],
            models or [],
            baselines or [],
            data,
            terminology,
            skipped or [],
            settings or [],
            seed,
            pictures,
        )
        _run(chosen, out, threads, force=force)


class _Chosen(NamedTuple):
    """What was asked for, in the order of `alphita.evaluation.run.EvaluationPlan`; nothing is opened yet."""

    benchmarks: list[str]
    models: list[str]
    baselines: list[str]
    data: Path | None
    terminology: Path | None
    skipped: list[str]
    settings: list[str]
    seed: int
    pictures: bool


def _list() -> None:
    for name, module in registry.load_all(BENCHMARKS).items():
        info = module.INFO
        untested = "" if info.tested_on_real_data else f" ({UNTESTED})"
        print(f"{name:<24} {info.title}{untested}{registry.origin(BENCHMARKS, name)}")


def _about(name: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from alphita import config

    module: ModuleType = registry.load(BENCHMARKS, name)
    info = module.INFO
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    say(f"{name}: {(module.__doc__ or '').strip()}\n")
    if not info.tested_on_real_data:
        say(f"This benchmark is {UNTESTED}: only on small files of our own in the published layout.\n")
    say(f"data: {info.citation}\nwhere: {info.where}\nneeds: {', '.join(info.needs)}\n")
    if options := config.options(module.Options):
        table = Table("option", "default", "meaning", title="Settings, each by --set option=value", box=box.SIMPLE)
        for option in options:
            table.add_row(option.name, option.default, option.description)
        console.print(table)
    if module.PUBLISHED:
        table = Table("system", "metric", "of", "value", "source", "differs", title="Published", box=box.SIMPLE)
        for one in module.PUBLISHED:
            table.add_row(
                one.system, one.metric, one.subset, f"{one.value:g}", one.source, one.differs or one.slip or ""
            )
        console.print(table)


def _compare(first: Path, second: Path, *, seed: int) -> None:
    from rich.console import Console

    from alphita.evaluation.report import comparison

    Console().print(comparison.render(comparison.compare(first, second, seed=seed)))


def _run(chosen: _Chosen, out: Path, threads: int | None, *, force: bool) -> None:
    if not chosen.benchmarks:
        raise UsageError(f"name a benchmark, or all; choose from {registry.names(BENCHMARKS)}")
    if not chosen.models and not chosen.baselines:
        raise UsageError("name a system to score: --model minilm, --model path/to/model, --baseline tfidf")
    if chosen.data is not None and not chosen.data.is_dir():
        raise UsageError(f"--data: there is no folder {chosen.data}")
    from rich.console import Console

    from alphita import machine
    from alphita.evaluation.report import markdown
    from alphita.evaluation.report.entries import pictures_failed
    from alphita.evaluation.run import EvaluationPlan, run
    from alphita.terminology.store import load_terminology

    machine.set_threads(threads)
    opened = load_terminology(chosen.terminology) if chosen.terminology else None
    report = run(EvaluationPlan(**{**chosen._asdict(), "terminology": opened}), out, force=force)
    Console().print(markdown.summary_tables(report))
    print(f"the report: {out / 'report.html'}")
    failed = [
        f"{entry['name']}: {one['name']}" + (" (not compared with the baseline)" if "figures" in one else "")
        for entry in report["benchmarks"]
        for one in entry["systems"]
        if one.get("failed")
    ]
    if failed:
        print(f"not scored, for reasons that the report gives: {'; '.join(failed)}", file=sys.stderr)
    if undrawn := pictures_failed(report):
        print(f"pictures: {undrawn}", file=sys.stderr)
    if failed or undrawn:
        raise typer.Exit(1)
