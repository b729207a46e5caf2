"""`alphita quickstart --train`: what training on one's own terminology brings, end to end on real open data.

What an earlier call left in the folder is used again, and a training run that was killed goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphita import printing, quickstart
from alphita.errors import Rejects, require
from alphita.progress import say

HELD_OUT_FRACTION = 0.3
SPLIT_SEED = 42
# The open settings of this training; all others are the paper's defaults. Chosen on other splits (other
# seeds) than the one reported: docs/results/log.md.
TRAINING: dict[str, Any] = {
    "k": 128,
    "m": 2,
    "steps": 800,
    "accumulation": 1,
    "learning_rate": 4e-4,
    "warmup_steps": 80,
    "pooling": "mean",
    "mining": False,
    "least_head_names": 2,
    "dropout": 0.0,
    "start_share": 0.3,
    "noise": 0.5,
    "name_rule": "none",
    "checkpoint_every": 150,
    "log_every": 25,
    "seed": 0,
}
# So that all is done within ten minutes on a slow processor: it shows how training goes, not what it brings.
SMALL = {"steps": 60, "warmup_steps": 6, "checkpoint_every": 20, "log_every": 10}
TERMINOLOGY, SPLIT, MODEL, INDEX, EVALUATION = "hpo.terminology", "held_out.split", "model", "hpo.index", "evaluation"


def run(folder: Path, sample: Path, *, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Train, evaluate on held-out synonyms, index and answer the sample; return the report of the evaluation."""
    # What is wrong is told before the minutes of training.
    quickstart.read_sample(sample)
    for package, extra in (("torch", "train"), ("openTSNE", "plots")):
        require(package, extra)
    from alphita.terminology import splits
    from alphita.terminology.store import load_terminology
    from alphita_lab.evaluation.run import EvaluationPlan
    from alphita_lab.evaluation.run import run as evaluate
    from alphita_lab.front import train

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / TERMINOLOGY).exists():
        _import(folder / TERMINOLOGY)
    terminology = load_terminology(folder / TERMINOLOGY)
    split = folder / SPLIT
    if not split.exists():
        splits.hold_out_synonyms(terminology, fraction=HELD_OUT_FRACTION, seed=SPLIT_SEED).save(split)
    training = TRAINING | dict(settings or {})
    if not (folder / MODEL).exists():
        say("training without the held-out synonyms: " + ", ".join(f"{key}={value}" for key, value in training.items()))
        train("coder", folder / TERMINOLOGY, folder / MODEL, split=split, resume=True, **training)
    plan = EvaluationPlan(
        benchmarks=["held_out_synonyms"],
        models=[f"{folder / MODEL},name=MiniLM + coder", "minilm,name=MiniLM"],
        baselines=["tfidf"],
        settings=[f"split={split}"],
        pictures=True,
        terminology=terminology,
    )
    report = evaluate(plan, folder / EVALUATION, force=True)
    if not (folder / INDEX).exists():
        _index(folder)
    quickstart.run(folder, sample, to=folder / INDEX)
    return report


def _import(output: Path) -> None:
    from alphita.terminology import store
    from alphita.terminology.detect import find_packaged
    from alphita.terminology.loaders import obo

    with Rejects(output.with_name("import.rejects.csv")) as rejects:
        store.save(obo.load([find_packaged("hpo")], obo.Options(), rejects), output, rejects=rejects)


def _index(folder: Path) -> None:
    """Index all names, the held-out ones included."""
    from alphita.calibrate.transfer import adapt_where_missing
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import build
    from alphita.terminology.store import load_terminology

    terminology = load_terminology(folder / TERMINOLOGY)
    adapt_where_missing(build(terminology, TermEncoder.load(str(folder / MODEL)), folder / INDEX))


def show(report: Mapping[str, Any], folder: Path) -> None:
    """Print what training gained, the answers of the trained index, and where everything lies."""
    import json

    from alphita_lab.evaluation.report import page

    printing.console(highlight=False).print(page.summary_tables(report))
    quickstart.show(json.loads((folder / quickstart.REPORT).read_text(encoding="utf-8")), folder, to=folder / INDEX)
    print(f"what training gained: {folder / EVALUATION / 'report.html'}; the encoder: {folder / MODEL}")
