"""The ablations of both CODER papers on an open graph: every row and seed trained and scored alike, and their table.

    python bench/coder_ablation.py run --terminology EN.terminology --split EN.split --output OUT [--data BENCHMARKS]
    python bench/coder_ablation.py table OUT
    python bench/coder_ablation.py rows

runs/coder_ablation.sh makes the terminology and the split, and calls this. OUT/ROW/SEED/ holds one training: its model
until it is scored, training.json, which tells of it, and the reports. What is there whole is not made again, and an
unfinished training goes on from its last checkpoint. Seeds are the outer loop, so that a run that is cut short leaves
whole columns: seed 0 of every row first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import arguments
import cells
from alphita import artefact, machine, report
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError
from alphita.progress import say
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.graph.triples import usable_triples
from cells import MODEL, report_figures, whole
from coder_rows import LEAST_TRIPLES, MOST_TRIPLES, RELATIONS, RELATIONS_SEED, ROWS, Evaluation, Plan, Row
from italian_table import Column, table

RELATIONS_FOLDER, TRAINING = "relations", "training.json"


@dataclass(frozen=True)
class Figure(Column):
    """One column of the table: where its figure stands in the reports.

    Attributes:
        evaluation: the report.
        system: in the benchmark.
    """

    evaluation: str = ""
    system: str = MODEL


ACCURACY: dict[str, Any] = {"scale": 100, "digits": 1}
TYPES: dict[str, Any] = {"subset": "mean of types", "evaluation": "mcsm"}
FROZEN: dict[str, Any] = {**ACCURACY, "evaluation": "relations"}
OTHERS: dict[str, Any] = {**ACCURACY, "evaluation": "benchmarks"}
COLUMNS = (
    Figure("synonyms_1", "held-out synonyms @1", "held_out_synonyms", "accuracy@1", evaluation="synonyms", **ACCURACY),
    Figure("synonyms_3", "@3", "held_out_synonyms", "accuracy@3", evaluation="synonyms", **ACCURACY),
    Figure("mcsm_mean", "MCSM, mean", "mcsm", "MCSM", system="mean", **TYPES),
    Figure("mcsm_cls", "MCSM, [CLS]", "mcsm", "MCSM", system="cls", **TYPES),
    Figure("relations", "relations, frozen", "relation_classification", "accuracy", **FROZEN),
    Figure("relations_f1", "macro F1", "relation_classification", "macro F1", **FROZEN),
    Figure(
        "relations_tuned",
        "relations, fine-tuned",
        "relation_classification",
        "accuracy, fine-tuned",
        evaluation="relations_tuned",
        **ACCURACY,
    ),
    Figure("psytar_1", "PsyTAR @1", "psytar", "accuracy@1", "mean of folds", **OTHERS),
    Figure("psytar_3", "@3", "psytar", "accuracy@3", "mean of folds", **OTHERS),
    Figure("ncbi_disease", "NCBI disease @1", "ncbi_disease", "accuracy@1", **OTHERS),
    Figure("hpo_gsc_plus", "HPO GSC+ @1", "hpo_gsc_plus", "accuracy@1", **OTHERS),
    Figure("bc5cdr", "BC5CDR @1", "bc5cdr", "accuracy@1", **OTHERS),
)
OF_TRAINING = (
    Column("rows_per_step", "rows a step", "", "", digits=0),
    Column("seconds", "minutes", "", "", scale=1 / 60, digits=1),
)


def write_relations(
    terminology: Terminology, split: Split, folder: Path, *, most: int = MOST_TRIPLES, least: int = LEAST_TRIPLES
) -> None:
    """Write a sample of triples in DDBRC's layout, x_train.txt to y_test.txt: the test part is held out of training.

    Args:
        terminology: whose triples; those of relations that turn others round are left out, and pairs of concepts that
            two relations hold between.
        split: its held-out triples are those that no encoder was trained on.
        folder: of the four files.
        most: triples of each of the most frequent relations, drawn at random; four fifths of them to train on.
        least: triples that a relation must have.
    """
    triples, _ = usable_triples(terminology, rare=least, inverse=0.8)
    pairs = triples[:, 0] * terminology.n_concepts + triples[:, 2]
    values, times = np.unique(pairs, return_counts=True)
    triples = triples[np.isin(pairs, values[times == 1])]
    counts = np.bincount(triples[:, 1], minlength=len(terminology.relation_labels))
    held_out = {frozenset(pair) for pair in split.triple_pairs(terminology).tolist()}
    tested = np.array([frozenset(pair) in held_out for pair in triples[:, [0, 2]].tolist()])
    rng = np.random.default_rng(RELATIONS_SEED)
    texts = {f"{kind}_{part}.txt": "" for kind in "xy" for part in ("train", "test")}
    for relation in np.argsort(-counts, kind="stable")[:RELATIONS]:
        label = terminology.relation_labels[relation]
        for part, wanted, count in (("train", ~tested, most * 4 // 5), ("test", tested, most // 5)):
            found = triples[(triples[:, 1] == relation) & wanted]
            for head, _, tail in found[np.sort(rng.permutation(len(found))[:count])].tolist():
                texts[f"x_{part}.txt"] += f"{terminology.concept_id(head)}\t{terminology.concept_id(tail)}\n"
                texts[f"y_{part}.txt"] += f"{label}\n"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with atomic_file(folder / name, "w") as file:
            file.write(text)


def make(plan: Plan, row: Row, seed: int, alphita: Callable[..., None]) -> None:
    """Train and score one row with one seed, as far as that is not done yet."""
    folder = plan.out / row.name / str(seed)
    missing = [one for one in plan.evaluations() if not whole(folder / one.name, "report")]
    if missing or not (folder / TRAINING).is_file():
        model = plan.encoder if row.recipe is None else str(folder / MODEL)
        _train(plan, row, seed, alphita)
        for evaluation in missing:
            _evaluate(plan, evaluation, model, folder, alphita)
    if not plan.keep_models:
        shutil.rmtree(folder / MODEL, ignore_errors=True)


def _train(plan: Plan, row: Row, seed: int, alphita: Callable[..., None]) -> None:
    """Train a row if its model is not there, and write down what the training tells of itself."""
    folder = plan.out / row.name / str(seed)
    model, settings, facts = folder / MODEL, [], {}
    folder.mkdir(parents=True, exist_ok=True)
    if row.recipe is not None:
        settings = plan.training(row, seed)
        if not whole(model, "model"):
            shutil.rmtree(model, ignore_errors=True)
            alphita(
                "train",
                row.recipe,
                "--terminology",
                plan.terminology,
                "--split",
                plan.split,
                "--encoder",
                plan.encoder,
                "--output",
                model,
                "--resume",
                *(word for item in settings for word in ("--set", item)),
            )
        facts = training_facts(model)
    origin = report.provenance(config={"row": row.name, "training": settings}, seed=seed)
    report.write(folder / TRAINING, {"training": facts}, provenance=origin)


def _evaluate(plan: Plan, evaluation: Evaluation, model: str, folder: Path, alphita: Callable[..., None]) -> None:
    out = folder / evaluation.name
    shutil.rmtree(out, ignore_errors=True)
    settings = list(evaluation.settings)
    if "held_out_synonyms" in evaluation.benchmarks:
        settings.append(f"held_out_synonyms.split={plan.split}")
    words: list[str | Path] = []
    for name, pooling in evaluation.systems.items():
        words += ["--model", f"{model},name={name}" + (f",pooling={pooling}" if pooling else "")]
    words += [word for item in settings for word in ("--set", item)]
    if evaluation.data == "benchmarks":
        assert plan.data is not None, "looked at before"
        words += ["--data", plan.data]
    elif evaluation.data:
        words += ["--data", plan.out / RELATIONS_FOLDER]
    alphita("evaluate", *evaluation.benchmarks, *words, "--terminology", plan.terminology, "--output", out)


def training_facts(model: Path) -> dict[str, Any]:
    """Return what a model's log tells: steps, seconds of steps (interruptions left out), term rows a step."""
    steps, seconds, rows = 0, 0.0, 0.0
    with (model / "log.jsonl").open(encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "steps_per_second" not in line:
                continue
            passed = (line["step"] - steps) / line["steps_per_second"]
            steps, seconds, rows = line["step"], seconds + passed, rows + passed * line["rows_per_second"]
    facts = json.loads((model / "training.json").read_text(encoding="utf-8"))
    return {
        "steps": steps,
        "seconds": seconds,
        "rows_per_step": rows / steps if steps else 0.0,
        "config": facts["config"],
        "encoder": facts["encoder"],
        "model": artefact.open_manifest(model, "model")["content_hash"],
    }


def rows_of(out: Path, evaluations: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, recipe, seeds, and the figures of each column by seed.

    Args:
        out: the folder of everything.
        evaluations: the reports that a row and seed must have.
    """
    rows = []
    for row in ROWS:
        found = {}
        for seed, folder in cells.seeds_in(out / row.name).items():
            if (folder / TRAINING).is_file() and all(whole(folder / one, "report") for one in evaluations):
                trained = cells.read(folder / TRAINING)["training"]
                found[seed] = figures_in(folder, evaluations) | {
                    one.name: trained[one.name] for one in OF_TRAINING if one.name in trained
                }
        if found:
            rows.append(
                {
                    "name": row.name,
                    "title": row.title,
                    "recipe": row.recipe,
                    "seeds": list(found),
                    "figures": cells.by_column(found),
                }
            )
    return rows


def figures_in(folder: Path, evaluations: Sequence[str]) -> dict[str, float]:
    """Return the figures of one row and seed, by column; a column whose benchmark was not scored is left out."""
    found = {}
    for name in evaluations:
        systems = report_figures(folder / name)
        for column in COLUMNS:
            place = (column.benchmark, column.metric, column.subset)
            if column.evaluation == name and place in systems.get(column.system, {}):
                found[column.name] = systems[column.system][place]
    return found


def markdown(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return the table as Markdown, with what it was made with below."""
    settings = dict.fromkeys(f"`{item}`" for one in facts["evaluations"].values() for item in one["settings"])
    lines = [
        "# Ablations of CODER",
        "",
        *table(rows, (*COLUMNS, *OF_TRAINING)),
        "",
        "Mean ± standard deviation over n seeds (n - 1 in the denominator; none of one seed). Accuracies and F1 in "
        "percent; MCSM up to 11.09, the mean of the types. Minutes are those of training steps alone.",
        "",
        f"- all rows: encoder `{facts['encoder']}`, {facts['steps']:,} steps, learning rate "
        f"{facts['learning_rate']:g}, m={facts['m']}" + "".join(f", `{item}`" for item in facts["settings"]),
        f"- evaluation: {', '.join(settings) or 'as by default'}; relations: at most {MOST_TRIPLES} "
        f"triples of each of the {RELATIONS} most frequent, the test part (a fifth at most) held out of training",
        f"- terminology `{facts['terminology']}`, split `{facts['split']}`",
        f"- commit {origin['commit']}; {origin['machine']['processor']}, {origin['machine']['cores']} cores",
        "- every training's settings, packages and hashes: ROW/SEED/training.json",
    ]
    return "\n".join(lines) + "\n"


def write_table(facts: Mapping[str, Any], out: Path) -> None:
    """Write table.json and table.md of what is finished."""
    rows = rows_of(out, list(facts["evaluations"]))
    cells.write_table(out, {"rows": rows}, facts, markdown(rows, facts, report.provenance()))


def run(plan: Plan, rows: Sequence[Row], seeds: Sequence[int]) -> dict[str, str]:
    """Train and score every row with every seed, and write the table after each.

    Args:
        plan: what they share.
        rows: a row without a recipe is scored with the first seed only.
        seeds: the outer loop.

    Returns:
        "ROW/SEED" -> why it failed; empty if none did.
    """
    facts = plan.facts()
    cells.begin(facts, plan.out)
    if "relations" in facts["evaluations"]:
        write_relations(load_terminology(plan.terminology), Split.load(plan.split), plan.out / RELATIONS_FOLDER)
    alphita = cells.caller(plan.threads)
    failed: dict[str, str] = {}
    for seed in seeds:
        for row in rows:
            if row.recipe is None and seed != seeds[0]:
                continue
            try:
                make(plan, row, seed, alphita)
            except AlphitaError as error:
                failed[f"{row.name}/{seed}"] = str(error)
                say(f"{row.name}, seed {seed}: {error}")
                continue
            write_table(facts, plan.out)
            say(f"{row.name}, seed {seed}: done")
    return failed


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("rows", help="list the rows")
    one = commands.add_parser("table", help="write table.json and table.md of what is finished")
    one.add_argument("output", metavar="OUT", type=Path)
    one = commands.add_parser("run", help="train and score; go on with what is unfinished")
    one.add_argument("--terminology", type=Path, required=True)
    one.add_argument("--split", type=Path, required=True)
    one.add_argument("--output", type=Path, required=True)
    one.add_argument("--data", type=Path, help="the benchmarks' files; without it those are left out")
    one.add_argument("--encoder", default=Plan.encoder)
    one.add_argument("--rows", default="", help="names with commas between; all by default")
    one.add_argument("--seeds", default="0,1,2")
    one.add_argument("--steps", type=int, default=Plan.steps)
    one.add_argument("--m", type=int, default=Plan.m)
    one.add_argument("--learning-rate", type=float, default=Plan.learning_rate)
    one.add_argument("--benchmarks", default="", help="names with commas between; all that have data by default")
    one.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=arguments.setting,
        help="of every training: key=value",
    )
    one.add_argument("--threads", type=int, help="of every command; all cores by default")
    one.add_argument("--keep-models", action="store_true", help="some 90 MB each")
    given = parser.parse_args(words)
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)
    return arguments.status(lambda: _act(given))


def _act(given: argparse.Namespace) -> None:
    if given.command == "rows":
        for row in ROWS:
            print(f"{row.name:<14} {row.title}")
        return
    failed = {}
    if given.command == "run":
        plan = Plan(
            given.terminology,
            given.split,
            given.output,
            given.data,
            given.encoder,
            given.steps,
            given.m,
            given.learning_rate,
            tuple(arguments.listed(given.benchmarks)),
            tuple(given.settings),
            given.threads,
            given.keep_models,
        )
        chosen = arguments.chosen("row", given.rows, [row.name for row in ROWS])
        rows = [row for row in ROWS if not chosen or row.name in chosen]
        failed = run(plan, rows, arguments.seeds(given.seeds))
    write_table(cells.begun(given.output), given.output)
    cells.show(given.output / f"{cells.TABLE}.md")
    if failed:
        raise AlphitaError("these failed: " + ", ".join(failed))


if __name__ == "__main__":
    sys.exit(main())
