"""One recipe under several seeds: the models, a report on all of them, and each figure's mean and sd."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alphita import artefact
from alphita.errors import UsageError
from alphita_lab.cli._train_spec import TrainSpec
from alphita_lab.evaluation.report import entries

# Of a training's figures: how fast it went, and what is set.
NOT_OF_A_MODEL = ("_per_second", "_share", "_rate")


def run(recipe: str, spec: TrainSpec, train: Callable[[str, TrainSpec], dict[str, float]]) -> None:
    """Train a model a seed, `OUTPUT/seed-N`, evaluate all beside the encoder they began from, and print mean and sd.

    With `resume`, models that are there are not trained again. Mean and sd are in `OUTPUT/seeds.json`.

    Raises:
        UsageError: the seeds are not two or more numbers.
    """
    seeds = _numbers(spec.seeds)
    trained: dict[str, dict[str, float]] = {}
    for seed in seeds:
        out = spec.output / f"seed-{seed}"
        one = dataclasses.replace(spec, output=out, settings=(*spec.settings, f"seed={seed}"), seeds="", evaluate=())
        if spec.resume and out.exists() and not spec.force:
            trained[out.name] = artefact.open_manifest(out, "model")["figures"]
            continue
        spec.output.mkdir(parents=True, exist_ok=True)
        trained[out.name] = train(recipe, one)
        if spec.dry_run:
            return
    if int(os.environ.get("RANK", "0")) > 0:
        return
    summary: dict[str, Any] = {"training": spread(list(trained.values()))}
    benchmarks = list(spec.evaluate) or ["held_out_synonyms"] * (spec.split is not None)
    if benchmarks:
        summary |= {"benchmarks": _evaluated(benchmarks, list(trained), spec)}
    _print(summary, len(seeds))
    with artefact.atomic_file(spec.output / "seeds.json", "w") as file:
        file.write(_as_json({"recipe": recipe, "seeds": seeds, **summary}))


def spread(figures: Sequence[Mapping[str, float | None]]) -> dict[str, dict[str, float]]:
    """Return mean and sample sd (n - 1) of each figure that all have, but for those of the machine."""
    shared = [
        name
        for name in figures[0]
        if not name.endswith(NOT_OF_A_MODEL) and all(one.get(name) is not None for one in figures)
    ]
    values = {name: [float(one[name] or 0.0) for one in figures] for name in shared}
    return {name: {"mean": statistics.fmean(of), "sd": statistics.stdev(of)} for name, of in values.items()}


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < 2 or len(set(parts)) < len(parts):
        raise UsageError(f"--seeds {text!r}: give two or more different whole numbers, as in 1,2,3")
    return [int(part) for part in parts]


def _evaluated(benchmarks: Sequence[str], models: Sequence[str], spec: TrainSpec) -> dict[str, Any]:
    """Evaluate the models in one report, `OUTPUT/report`; return the spread of each figure over all rows."""
    from alphita.terminology.store import load_terminology
    from alphita_lab.evaluation.run import EvaluationPlan
    from alphita_lab.evaluation.run import run as evaluate

    names, settings = [], []
    for one in benchmarks:
        name, *given = one.split(",")
        names.append(name)
        settings += [f"{name}.{setting}" for setting in given]
    if "held_out_synonyms" in names and spec.split and "held_out_synonyms.split" not in " ".join(settings):
        settings.append(f"held_out_synonyms.split={spec.split}")
    plan = EvaluationPlan(
        benchmarks=names,
        models=[f"{spec.output / model},name={model}" for model in models],
        baselines=[f"{spec.encoder},name=start"],
        data=spec.data,
        settings=settings,
        terminology=load_terminology(spec.terminology) if spec.terminology else None,
    )
    report = evaluate(plan, spec.output / "report", force=True)
    found = {}
    for entry in report["benchmarks"]:
        whole = {
            system["name"]: {one["metric"]: one["value"] for one in system["figures"] if one["subset"] == entries.ALL}
            for system in entries.scored(entry)
        }
        if set(models) <= set(whole):
            figures = spread([whole[model] for model in models])
            found[entry["name"]] = {
                name: one | {"start": whole.get("start", {}).get(name)} for name, one in figures.items()
            }
    return found


def _print(summary: Mapping[str, Any], seeds: int) -> None:
    print(f"mean and sd over {seeds} seeds:")
    for name, one in summary["training"].items():
        print(f"  {name}: {one['mean']:.4g} ± {one['sd']:.2g}")
    for benchmark, figures in summary.get("benchmarks", {}).items():
        for name, one in figures.items():
            start = "" if one["start"] is None else f" (the encoder at the start: {one['start']:.4g})"
            print(f"  {benchmark}, {name}: {one['mean']:.4g} ± {one['sd']:.2g}{start}")


def _as_json(summary: Mapping[str, Any]) -> str:
    from alphita import report

    return report.as_json(summary) + "\n"
