"""`alphita evaluate`: score encoders and baselines on benchmarks, or compare two reports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from alphita import printing, registry
from alphita.cli._from_spec import JSON, with_options
from alphita.errors import AlphitaError, UsageError
from alphita.options import HOW, THREADS, group, option
from alphita_lab.evaluation import EvaluationChoice

BENCHMARKS = "alphita_lab.evaluation.benchmarks"
UNTESTED = "untested on real data"


@dataclass(frozen=True, kw_only=True)
class EvaluateSpec:
    """What to score on what, or which reports to compare."""

    choice: EvaluationChoice = group(EvaluationChoice)
    terminology: Path | None = option(None, "--terminology", "-t", help="Terminology for the benchmarks that need one.")
    output: Path = option(Path("report"), "--output", "-o", help="Report folder to create.")
    threads: int | None = option(None, like=THREADS, panel=HOW)
    force: bool = option(False, panel=HOW, help="Move an existing report aside and create a new one.")
    list: bool = option(False, help="List the benchmarks and exit.")
    about: str | None = option(None, metavar="BENCHMARK", help="Describe a benchmark and its options, and exit.")
    check: bool = option(False, help="Open each system, say which cannot be had and why, and exit.")
    compare: tuple[str, str] | None = option(
        None, metavar="A B", help="Compare two report folders; FOLDER,name=SYSTEM takes one system of a report."
    )
    json: bool = option(False, help=JSON)


@with_options
def evaluate(spec: EvaluateSpec) -> None:
    """Score encoders and baselines on benchmarks, in one report with intervals, differences and published numbers.

    alphita evaluate sts --data benchmarks/ --model alphita-en --baseline tfidf -o report

    Give options of a system after commas: path/to/model,pooling=cls,max_length=25,name=mine or bm25,k1=1.2. Kinds:
    encoder (only its name), tfidf, bm25, exact_match, edit_distance, word_vectors:FILE, concept_vectors:FILE,
    graph_vectors:FOLDER, normalizer:MODEL.
    """
    if spec.list:
        _list(spec.json)
    elif spec.about:
        _about(spec.about, spec.json)
    elif spec.check:
        _check([*spec.choice.models, *spec.choice.baselines])
    elif spec.compare:
        _compare(*spec.compare, seed=spec.choice.seed, as_json=spec.json)
    else:
        _run(spec)


def _list(as_json: bool) -> None:
    modules = registry.load_all(BENCHMARKS)
    if as_json:
        printing.print_rows({"name": name, **asdict(module.INFO)} for name, module in modules.items())
        return
    for name, module in modules.items():
        info = module.INFO
        untested = "" if info.tested_on_real_data else f" ({UNTESTED})"
        print(f"{name:<24} {info.title}{untested}{registry.origin(BENCHMARKS, name)}")


def _about(name: str, as_json: bool) -> None:
    from rich import box
    from rich.table import Table

    from alphita import config

    module: ModuleType = registry.load(BENCHMARKS, name)
    info = module.INFO
    if as_json:
        printing.print_rows({"table": "settings", **asdict(setting)} for setting in config.options(module.Options))
        printing.print_rows({"table": "published", **asdict(figure)} for figure in module.PUBLISHED)
        return
    console = printing.console()

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
    if published := [asdict(figure) for figure in module.PUBLISHED]:
        from alphita_lab.evaluation.report.entries import Footnotes

        notes = Footnotes({"published": published})
        table = Table("system", "metric", "of", "value", "source", "note", title="Published", box=box.SIMPLE)
        for figure in published:
            place = (figure["system"], figure["metric"], figure["subset"], f"{figure['value']:g}", figure["source"])
            table.add_row(*place, ", ".join(map(str, notes.of(figure))))
        console.print(table)
        for reason, number in notes.numbers.items():
            say(f"{number}. {reason}")


def _check(systems: Sequence[str]) -> None:
    from alphita_lab.evaluation.systems import load_system, name_of

    for spec in systems:
        try:
            print(f"{load_system(spec).name}: ready")
        except AlphitaError as error:
            print(f"{name_of(spec)}: not scored: {error}")


def _compare(first: str, second: str, *, seed: int, as_json: bool) -> None:
    from alphita_lab.evaluation.report import comparison

    compared = comparison.compare(first, second, seed=seed)
    if as_json:
        printing.print_rows(_differences(compared))
    else:
        printing.console().print(comparison.render(compared))


def _differences(compared: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a row for each figure that both reports have, with the paired difference where there is one."""
    for entry in compared["benchmarks"]:
        for pair in entry["pairs"]:
            differences = {difference["metric"]: difference for difference in pair["differences"]}
            for figure in pair["figures"]:
                systems = {"first_system": pair["first"], "second_system": pair["second"]}
                yield {"benchmark": entry["name"], **systems, **figure, **differences.get(figure["metric"], {})}


def _figures(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in report["benchmarks"]:
        for system in entry["systems"]:
            for figure in system.get("figures", ()):
                yield {"benchmark": entry["name"], "system": system["name"], **figure}


def _run(spec: EvaluateSpec) -> None:
    choice, out = spec.choice, spec.output
    if not choice.benchmarks:
        raise UsageError(f"name a benchmark, or all; choose from {registry.names(BENCHMARKS)}")
    if not choice.models and not choice.baselines:
        raise UsageError("name a system to score: --model minilm, --model path/to/model, --baseline tfidf")
    if choice.data is not None and not choice.data.is_dir():
        raise UsageError(f"--data: there is no folder {choice.data}")
    from alphita import machine
    from alphita.terminology.store import load_terminology
    from alphita_lab.evaluation.report import page
    from alphita_lab.evaluation.report.entries import pictures_failed
    from alphita_lab.evaluation.run import EvaluationPlan, run

    machine.set_threads(spec.threads)
    terminology = load_terminology(spec.terminology) if spec.terminology else None
    report = run(EvaluationPlan(**vars(choice), terminology=terminology), out, force=spec.force)
    if spec.json:
        printing.print_rows(_figures(report))
    else:
        printing.console().print(page.summary_tables(report))
        print(f"the report: {out / 'report.html'}")
    rows = [(entry, one) for entry in report["benchmarks"] for one in entry["systems"]]
    failed = any(one.get("failed") for _, one in rows)
    left = [
        f"{entry['name']}: {one['name']}" + (" (not compared with the baseline)" if "figures" in one else "")
        for entry, one in rows
        if one.get("failed")
    ]
    if left := [*dict.fromkeys(one["name"] for _, one in rows if one.get("missing")), *left]:
        print(f"not scored, for reasons that the report gives: {'; '.join(left)}", file=sys.stderr)
    if undrawn := pictures_failed(report):
        print(f"pictures: {undrawn}", file=sys.stderr)
    if failed or undrawn:
        raise typer.Exit(1)
