"""Benchmarks times systems -> one report folder: figures, paired differences, published numbers, provenance."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita import artefact, config, progress, registry, report
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.report import KIND, file_name
from alphita.terminology.store import Terminology
from alphita_lab.evaluation import EvaluationChoice
from alphita_lab.evaluation.benchmarks import PACKAGE, Info, NotGiven, Source, load_benchmarks, settings_of
from alphita_lab.evaluation.report import page, pictures
from alphita_lab.evaluation.scoring import confusions
from alphita_lab.evaluation.scoring.results import Result, compare, figures_of
from alphita_lab.evaluation.systems import ConceptSystem, System, VectorSystem, load_system, name_of
from alphita_lab.evaluation.systems.encoder import EncoderSystem

ALL = "all"
FITS: dict[str, tuple[tuple[type, ...], str]] = {
    "any": ((System,), "text"),
    "vectors": ((VectorSystem,), "text as vectors"),
    "concepts": ((System, ConceptSystem), "text or concepts"),
    "vectors_or_concepts": ((VectorSystem, ConceptSystem), "text or concepts as vectors"),
    "encoder": ((EncoderSystem,), "text by an encoder that can be trained"),
}


@dataclass(frozen=True)
class EvaluationPlan(EvaluationChoice):
    """What to run: a choice, and the terminology for benchmarks that need one."""

    terminology: Terminology | None = None


@dataclass(frozen=True)
class _Task:
    """A benchmark with its data read, or the reason why it is not run."""

    name: str
    module: Any
    options: Any
    data: Any = None
    not_run: str | None = None
    read: list[Path] = field(default_factory=list)

    @property
    def info(self) -> Info:
        info: Info = self.module.INFO
        return info


def run(plan: EvaluationPlan, out: Path, *, force: bool = False) -> dict[str, Any]:
    """Score every system on every benchmark and write the report folder, whole or not at all."""
    if plan.pictures and plan.terminology is None:
        raise UsageError("pictures show a terminology: --terminology X.terminology")
    # The page needs it: better said now than when all is scored.
    require("jinja2", "evaluate")
    tasks, systems = _read(plan)
    had = [name for name in list(systems)[len(plan.models) :] if not isinstance(systems[name], Missing)]
    baseline = had[0] if had else None
    shown = None
    if plan.pictures and plan.terminology is not None:
        shown = pictures.choose(plan.terminology, systems, seed=plan.seed)
    with artefact.create(out, KIND, force=force) as draft:
        (draft.path / "rows").mkdir()
        everything = list(plan.benchmarks) == [ALL]
        failed: list[AlphitaError] = []
        entries = [_entry(task, systems, baseline, plan.seed, draft.path, everything, failed) for task in tasks]
        if failed and not any("figures" in system for entry in entries for system in entry["systems"]):
            raise failed[0]
        files = {
            f"{task.name}/{_within(path, plan.data, task.name)}": artefact.hash_file(path)
            for task in tasks
            for path in task.read
        }
        for task in tasks:
            files |= _of_settings(task)
        if plan.terminology is not None:
            files["terminology"] = plan.terminology.manifest["content_hash"]
        provenance = report.provenance(config=_resolved(tasks, plan), seed=plan.seed, data=files)
        scored: dict[str, Any] = {"benchmarks": entries}
        drawn: list[page.Picture] = []
        if shown is not None and plan.terminology is not None:
            try:
                for picture in pictures.draw(plan.terminology, shown, draft.path, seed=plan.seed):
                    drawn.append(picture)
            except Exception as error:
                # The figures are made: a picture that fails is told, and they stay.
                scored["pictures"] = _unforeseen(error, "pictures: not drawn", failed)
        whole = report.write(draft.path / "report.json", scored, provenance=provenance)
        page.write_page(whole, draft.path / "report.html", pictures=drawn)
        (draft.path / "report.md").write_text(page.to_markdown(whole), encoding="utf-8")
    return whole


def _within(path: Path, data: Path | None, benchmark: str) -> str:
    """Return a file's path within the benchmark's data: several may have one name."""
    for folder in (data / benchmark, data) if data else ():
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name


def _read(plan: EvaluationPlan) -> tuple[list[_Task], dict[str, Any]]:
    everything = list(plan.benchmarks) == [ALL]
    if plan.skipped and not everything:
        raise UsageError("benchmarks are skipped of `all` only")
    names = list(registry.load_all(PACKAGE)) if everything else plan.benchmarks
    modules = load_benchmarks(names)
    for name in plan.skipped:
        if name not in modules:
            raise UsageError(registry.unknown("benchmark", name, modules))
    settings = settings_of(plan.settings, modules)
    chosen = {name: config.resolve(module.Options, sets=settings[name]) for name, module in modules.items()}
    # What is mistyped is told before anything is read: of the benchmarks above, of the systems here.
    systems = open_systems([*plan.models, *plan.baselines])
    tasks = []
    for name, options in chosen.items():
        module = modules[name]
        if name in plan.skipped:
            tasks.append(_Task(name, module, options, not_run="left out on request (--skip)"))
            continue
        source = Source(plan.data, plan.terminology, name, module.INFO.where)
        try:
            data = module.load(source, options)
        except AlphitaError as error:
            # Where nothing was set but a seed, nothing was set wrongly: what was given does not suit the benchmark.
            is_set = any(not item.startswith("seed=") for item in settings[name])
            unsuited = isinstance(error, UsageError) and not is_set
            if not (everything and (unsuited or isinstance(error, NotGiven) or _is_missing(error, plan.terminology))):
                raise
            tasks.append(_Task(name, module, options, not_run=str(error)))
            continue
        tasks.append(_Task(name, module, options, data, read=source.read))
    if all(task.not_run for task in tasks):
        raise UsageError(
            "no benchmark has its data: give --data FOLDER, or --terminology X.terminology; "
            "alphita evaluate --about NAME says what a benchmark needs"
        )
    return tasks, systems


def _is_missing(error: AlphitaError, terminology: Terminology | None) -> bool:
    if not isinstance(error, InputError):
        return False
    return " finds no " in error.problem or (terminology is not None and error.file == terminology.path)


@dataclass(frozen=True)
class Missing:
    """A system that cannot be had, such as a hub's without a network, and why."""

    reason: str


def open_systems(specs: Sequence[str]) -> dict[str, Any]:
    """Return the systems by name; one that cannot be had is `Missing`, unless none can: its error is raised then."""
    systems: dict[str, Any] = {}
    files: set[str] = set()
    errors: list[AlphitaError] = []
    for spec in specs:
        system: Any
        try:
            system = load_system(spec)
            name = system.name
        except UsageError:
            raise
        except AlphitaError as error:
            errors.append(error)
            system, name = Missing(str(error)), name_of(spec)
            progress.say(f"{name}: not scored: {error}")
        if file_name(name) in files:
            raise UsageError(
                f"two systems are called {name!r} (as far as a file name can tell them apart); leave one out "
                "or, if it is an encoder, add ,name=ANOTHER"
            )
        files.add(file_name(name))
        systems[name] = system
    if errors and len(errors) == len(specs):
        raise errors[0]
    return systems


def _entry(
    task: _Task,
    systems: Mapping[str, Any],
    baseline: str | None,
    seed: int,
    folder: Path,
    everything: bool,
    failed: list[AlphitaError],
) -> dict[str, Any]:
    """Score every system on one benchmark; one that cannot do it is told so and the work goes on."""
    info = task.info
    entry: dict[str, Any] = {
        "name": task.name,
        "title": info.title,
        "task": info.task,
        "citation": info.citation,
        "main_metric": info.main_metric,
        "tested_on_real_data": info.tested_on_real_data,
        "options": task.options.model_dump(mode="json"),
        "published": [dataclasses.asdict(figure) for figure in task.module.PUBLISHED],
        "not_run": task.not_run,
        "where": info.where,
        "systems": [],
    }
    if task.not_run is not None:
        return entry
    kinds, what = FITS[info.systems]
    fitting = {name: system for name, system in systems.items() if isinstance(system, kinds)}
    if not fitting and not everything:
        raise UsageError(f"the benchmark {task.name} needs a system for {what}; none of {list(systems)} is one")
    results: dict[str, Result] = {}
    for name, system in systems.items():
        if isinstance(system, Missing):
            entry["systems"].append({"name": name, "not_applicable": system.reason, "missing": True})
            continue
        if name not in fitting:
            entry["systems"].append({"name": name, "not_applicable": f"needs a system for {what}"})
            continue
        progress.say(f"{task.name}: {name}")
        try:
            result, scored, packed = _scored(task, system, seed)
        except AlphitaError as error:
            progress.say(f"{task.name}: {name}: not scored: {error}")
            entry["systems"].append({"name": name, "not_applicable": str(error), "failed": not everything})
            failed.append(error)
        except Exception as error:
            entry["systems"].append({"name": name} | _unforeseen(error, f"{task.name}: {name}: not scored", failed))
        else:
            # A disk that is full is no fault of the system's.
            (folder / "rows" / f"{task.name}.{file_name(name)}.parquet").write_bytes(packed)
            results[name] = result
            entry["systems"].append({"name": name} | scored)
    _say_if_none_covered(entry)
    if baseline in results:
        for system_entry in entry["systems"]:
            if system_entry["name"] in results and system_entry["name"] != baseline:
                try:
                    differences = compare(results[system_entry["name"]], results[baseline], seed=seed)
                except Exception as error:
                    what = f"{task.name}: {system_entry['name']}: not compared with {baseline}"
                    system_entry["notes"]["not compared"] = _unforeseen(error, what, failed)["not_applicable"]
                    system_entry["failed"] = True
                else:
                    system_entry["against"] = {"baseline": baseline, "differences": differences}
    return entry


def _scored(task: _Task, system: Any, seed: int) -> tuple[Result, dict[str, Any], bytes]:  # noqa: ANN401 - any kind
    """Score one system; return the result, what the report holds of it, and its rows as a Parquet file."""
    start = time.perf_counter()
    result: Result = task.module.evaluate(task.data, system, task.options)
    seconds = time.perf_counter() - start
    _warn_of_training(result, system, task.info)
    scored = written(result, system.facts, seconds, task.info.task, seed=seed)
    # What a report cannot hold is the fault of this result alone, and shall not come out when all are written.
    report.as_json(scored)
    rows = io.BytesIO()
    result.rows.write_parquet(rows)
    return result, scored, rows.getvalue()


def written(result: Result, facts: Mapping[str, Any], seconds: float, task: str, *, seed: int = 0) -> dict[str, Any]:
    """Return what a report holds of a result."""
    return {
        "facts": facts,
        "seconds": seconds,
        "notes": result.notes,
        "figures": [dataclasses.asdict(figure) for figure in figures_of(result, seed=seed)],
        "against": None,
        "errors": confusions.analyse(result, task),
        "curves": {key: [list(xs), list(ys)] for key, (xs, ys) in result.curves.items()},
        "tables": {
            title: {"columns": table.columns, "rows": [list(row) for row in table.rows()]}
            for title, table in result.tables.items()
        },
        "histograms": {
            key: {"edges": list(edges), "counts": {label: list(values) for label, values in counts.items()}}
            for key, (edges, counts) in result.histograms.items()
        },
        # The statistic by name, so that it can be computed again from the rows.
        "metrics": [
            {
                "name": metric.name,
                "columns": list(metric.columns),
                "higher_is_better": metric.higher_is_better,
                "fraction": metric.fraction,
                "statistic": f"{metric.statistic.__module__}:{metric.statistic.__qualname__}",
            }
            for metric in result.metrics
        ],
    }


def _unforeseen(error: Exception, what: str, failed: list[AlphitaError]) -> dict[str, Any]:
    """Say what nobody foresaw with its traceback, and return what the report holds of it."""
    reason, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
    progress.say(f"{trace}{what}: {reason}")
    raised = AlphitaError(f"{what}: {reason}; the traceback above says where")
    raised.__cause__ = error
    failed.append(raised)
    return {"not_applicable": reason, "failed": True, "traceback": trace}


def _say_if_none_covered(entry: Mapping[str, Any]) -> None:
    """Say on stderr that no query could be answered: figures of 0 would pass for what the systems can do."""
    for system in entry["systems"]:
        notes = system.get("notes", {})
        if notes.get("queries") and notes.get("covered") == 0:
            notes["coverage"] = "no gold concept has a name among the targets, so that every answer is wrong"
            progress.say(f"{entry['name']}: {system['name']}: {notes['coverage']}")


def _warn_of_training(result: Result, system: Any, info: Info) -> None:  # noqa: ANN401 - a system of any kind
    """Note where a model of ours may have been trained on what it is scored on."""
    trained = system.facts.get("trained")
    if trained is None or ("split" not in result.notes and info.needs != ("terminology",)):
        return
    if "split" not in result.notes:
        result.notes["caution"] = "trained on a terminology: if it has these terms, they were seen in training"
    elif trained["split"] != result.notes["split"]:
        result.notes["caution"] = "trained without this split: what is held out here may have been trained on"


def _of_settings(task: _Task) -> dict[str, str]:
    """Return the hashes of the files and splits that a benchmark's settings name, by setting."""
    settings = {}
    for key, path in task.options if task.not_run is None else ():
        if isinstance(path, Path) and path.is_file():
            settings[f"{task.name}/{key}"] = artefact.hash_file(path)
        elif isinstance(path, Path):
            with contextlib.suppress(InputError):
                settings[f"{task.name}/{key}"] = artefact.open_manifest(path, "split")["content_hash"]
    return settings


def _resolved(tasks: Sequence[_Task], plan: EvaluationPlan) -> dict[str, Any]:
    return {
        "benchmarks": {task.name: task.options.model_dump(mode="json") for task in tasks},
        "models": list(plan.models),
        "baselines": list(plan.baselines),
        "data": plan.data and str(plan.data),
        "terminology": plan.terminology and str(plan.terminology.path),
        "terminology_version": plan.terminology and _versions(plan.terminology),
    }


def _versions(terminology: Terminology) -> str:
    """Return the sources of a terminology with their versions: "hp hp/releases/2025-01-16"."""
    sources = terminology.manifest.get("sources", ())
    return "; ".join(" ".join(str(one[key]) for key in ("name", "version") if one.get(key)) for one in sources)
