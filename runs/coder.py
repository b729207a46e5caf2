"""The ablations of both CODER papers on an open graph: every row and seed trained and scored alike, and their table.

    python runs/coder.py run --terminology EN.terminology --split EN.split --output OUT [--data BENCHMARKS]
    python runs/coder.py table OUT
    python runs/coder.py rows

runs/coder_ablation.sh makes the terminology and the split, and calls this. OUT/ROW/SEED/ holds one training: its model
until it is scored, training.json and the reports. What is complete is not made again, and an unfinished training goes
on from its last checkpoint. Seeds are the outer loop, so that a run that is cut short leaves whole columns.

The papers' rows are Yuan et al. 2022, §5.1, and Yuan, Zhao and Yu 2020, table 6. All rows start from the same encoder,
CODER++ too, take equally many steps of some 256 term rows, and have the same learning rate, warm-up, dropout and
pooling (except the row `cls`); what a row does not set is its recipe's default. `m`, the times that a triple stands in
a batch of `coder`, is 2 as in the quickstart: with the paper's 8, 256 term rows hold only 32 concepts, and the paper
adds the gradients of 8 batches.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import study
from alphita import artefact, registry, report
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, UsageError
from alphita.progress import say
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.graph.triples import usable_triples
from study import MODEL, Column, report_figures, table, whole


@dataclass(frozen=True)
class Row:
    """One row of the table; in its settings {m} and {quarter} stand for numbers of the plan."""

    name: str
    title: str
    recipe: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


CODER = {"k": "128", "m": "{m}"}
# Rows a step: 256 of coder and sapbert. coder_transe fills 256 as far as whole concepts fit. coder_pp gives an anchor,
# its 30 nearest and what synonyms it has: 7 anchors come nearest to 256 on the open graph. The table tells what it was.
ROWS = (
    Row("base", "the encoder as it comes"),
    Row("ms", "MS", "coder", CODER | {"mu": "0"}),
    Row("rel_full", "MS + REL, full M_r", "coder", CODER | {"relation_matrix": "full"}),
    Row("rel_diagonal", "MS + REL, diagonal M_r", "coder", CODER | {"relation_matrix": "diagonal"}),
    Row("rel_low_rank", "MS + REL, low-rank M_r", "coder", CODER | {"relation_matrix": "low_rank"}),
    # lambda is minus the mean distance at the start, as -28 is for vectors of 768 numbers; MiniLM's have 384.
    Row(
        "transe_like",
        "MS + REL, TransE-like similarity",
        "coder",
        CODER | {"relation_similarity": "transe", "lam_rel": "-20.8"},
    ),
    Row("cls", "MS + REL, diagonal M_r, [CLS]", "coder", CODER | {"relation_matrix": "diagonal", "pooling": "cls"}),
    Row("ms_2020", "2020: MS", "coder_transe", {"batch_terms": "256", "mu": "0"}),
    Row("ms_transe", "2020: MS + TransE", "coder_transe", {"batch_terms": "256"}),
    Row("ms_sty", "2020: MS + STY", "coder_transe", {"batch_terms": "256", "mu": "0", "semantic_type_weight": "0.1"}),
    Row(
        "ms_transe_sty",
        "2020: MS + TransE + STY",
        "coder_transe",
        {"batch_terms": "256", "semantic_type_weight": "0.1"},
    ),
    Row("sapbert", "SapBERT", "sapbert", {"pairs": "128", "schedule": "linear"}),
    # As often mined anew in a run as the released code does: 4 times.
    Row("coder_pp", "CODER++, from the same encoder", "coder_pp", {"anchors": "7", "refresh_every": "{quarter}"}),
)


@dataclass(frozen=True)
class Evaluation:
    """One call of `alphita evaluate`, and the report folder of its name.

    Attributes:
        systems: name in the report -> the pooling it is given; None: the model's own.
        data: whose files are needed: "benchmarks", or "relations", which are made of the terminology.
    """

    name: str
    benchmarks: tuple[str, ...]
    systems: Mapping[str, str | None]
    settings: tuple[str, ...] = ()
    data: Literal["", "benchmarks", "relations"] = ""


OWN: Mapping[str, str | None] = {"model": None}
# Sizes for two cores: some two minutes a model. MCSM: neighbours among the concepts that have a type, as in the
# released code. Relations: most triples of an ontology are is_a, so a sample with at most MAX_TRIPLES of each relation
# is classified, in the layout of DDBRC; what is tested on is held out of the encoders' training.
RELATIONS, MAX_TRIPLES, MIN_TRIPLES, RELATIONS_SEED = 14, 500, 50, 0
EVALUATIONS = (
    Evaluation("synonyms", ("held_out_synonyms",), OWN),
    Evaluation("mcsm", ("mcsm",), {"mean": "mean", "cls": "cls"}, ("mcsm.candidates=types",)),
    Evaluation("relations", ("relation_classification",), OWN, data="relations"),
    Evaluation(
        "relations_tuned",
        ("relation_classification",),
        OWN,
        ("relation_classification.epochs=4", "relation_classification.fine_tune=true"),
        data="relations",
    ),
    Evaluation(
        "benchmarks", ("psytar", "ncbi_disease", "hpo_gsc_plus", "bc5cdr"), OWN, ("bc5cdr.part=dev",), data="benchmarks"
    ),
)


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        data: the benchmarks' files; None: those are left out.
        m: times that a triple stands in a batch of the recipe coder.
        benchmarks: what is scored; empty: everything that there are data for.
        settings: further settings of every training, "key=value".
        keep_models: models are not removed once they are scored (90 MB each).
    """

    terminology: Path
    split: Path
    out: Path
    data: Path | None = None
    encoder: str = "minilm"
    steps: int = 1000
    m: int = 2
    learning_rate: float = 1e-4
    benchmarks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    threads: int | None = None
    keep_models: bool = False

    def facts(self) -> dict[str, Any]:
        """Return what a figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "split": artefact.open_manifest(self.split, "split")["content_hash"],
            "encoder": self.encoder,
            "steps": self.steps,
            "m": self.m,
            "learning_rate": self.learning_rate,
            "settings": list(self.settings),
            "relations": [RELATIONS, MAX_TRIPLES, MIN_TRIPLES, RELATIONS_SEED],
            "evaluations": {
                one.name: {"benchmarks": list(one.benchmarks), "settings": list(one.settings)}
                for one in self.evaluations()
            },
        }

    def evaluations(self) -> list[Evaluation]:
        """Return what is scored of each model."""
        known = [name for one in EVALUATIONS for name in one.benchmarks]
        for name in self.benchmarks:
            if name not in known:
                raise UsageError(registry.unknown("benchmark", name, list(dict.fromkeys(known))))
        chosen = []
        for one in EVALUATIONS:
            wanted = tuple(name for name in one.benchmarks if not self.benchmarks or name in self.benchmarks)
            if one.data == "benchmarks" and self.data is None:
                if self.benchmarks and wanted:
                    raise UsageError(f"{', '.join(wanted)} need their files: --data FOLDER")
                continue
            kept = tuple(item for item in one.settings if "." not in item or item.partition(".")[0] in wanted)
            if wanted:
                chosen.append(Evaluation(one.name, wanted, one.systems, kept, one.data))
        return chosen

    def training(self, row: Row, seed: int) -> list[str]:
        """Return the settings of one training, "key=value"; what comes later overrides."""
        shared = {
            "steps": self.steps,
            "accumulation": 1,
            "learning_rate": self.learning_rate,
            "warmup_steps": self.steps // 10,
            "dropout": 0.0,
            "pooling": "mean",
            "seed": seed,
            "log_every": 25,
            "checkpoint_every": 100,
        }
        numbers = {"m": self.m, "quarter": max(1, self.steps // 4)}
        own = {key: value.format_map(numbers) for key, value in row.settings.items()}
        further = dict(item.split("=", 1) for item in self.settings)
        return [f"{key}={value}" for key, value in (shared | own | further).items()]


RELATIONS_FOLDER, TRAINING = "relations", "training.json"


@dataclass(frozen=True)
class Figure(Column):
    """One column of the table: the report (evaluation) and the system in it whose figure it is."""

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
    terminology: Terminology, split: Split, folder: Path, *, most: int = MAX_TRIPLES, least: int = MIN_TRIPLES
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
    """Return the rows that are scored: name, title, recipe, seeds, and the figures of each column by seed."""
    rows = []
    for row in ROWS:
        found = {}
        for seed, folder in study.seeds_in(out / row.name).items():
            if (folder / TRAINING).is_file() and all(whole(folder / one, "report") for one in evaluations):
                trained = study.read(folder / TRAINING)["training"]
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
                    "figures": study.by_column(found),
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
        f"- evaluation: {', '.join(settings) or 'as by default'}; relations: at most {MAX_TRIPLES} "
        f"triples of each of the {RELATIONS} most frequent, the test part (a fifth at most) held out of training",
        f"- terminology `{facts['terminology']}`, split `{facts['split']}`",
        f"- commit {origin['commit']}; {origin['machine']['processor']}, {origin['machine']['cores']} cores",
        "- every training's settings, packages and hashes: ROW/SEED/training.json",
    ]
    return "\n".join(lines) + "\n"


def write_table(facts: Mapping[str, Any], out: Path) -> None:
    """Write table.json and table.md of what is finished."""
    rows = rows_of(out, list(facts["evaluations"]))
    origin = report.provenance(config=facts)
    study.write_table(out, {"rows": rows}, origin, markdown(rows, facts, origin))


def run(plan: Plan, rows: Sequence[Row], seeds: Sequence[int]) -> dict[str, str]:
    """Train and score every row with every seed, and write the table after each."""
    facts = plan.facts()
    study.begin(facts, plan.out)
    if "relations" in facts["evaluations"]:
        write_relations(load_terminology(plan.terminology), Split.load(plan.split), plan.out / RELATIONS_FOLDER)
    alphita = study.caller(plan.threads)
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


def do_rows(_: argparse.Namespace) -> None:
    """List the rows."""
    for row in ROWS:
        print(f"{row.name:<14} {row.title}")


def do_table(given: argparse.Namespace) -> None:
    """Write table.json and table.md of what is finished."""
    write_table(study.begun(given.out), given.out)
    study.show(given.out / f"{study.TABLE}.md")


def do_run(given: argparse.Namespace) -> None:
    """Train and score; go on with what is unfinished."""
    plan = study.plan_of(Plan, given, benchmarks=study.listed(given.benchmarks))
    chosen = study.chosen("row", given.rows, [row.name for row in ROWS])
    failed = run(plan, [row for row in ROWS if not chosen or row.name in chosen], study.seeds(given.seeds))
    do_table(given)
    if failed:
        raise AlphitaError("these failed: " + ", ".join(failed))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    study.add_command(commands, do_rows)
    study.add_command(commands, do_table).add_argument("out", metavar="OUT", type=Path)
    one = study.add_command(commands, do_run)
    one.add_argument("--terminology", type=Path, required=True)
    one.add_argument("--split", type=Path, required=True)
    one.add_argument("--output", dest="out", type=Path, required=True)
    one.add_argument("--data", type=Path, help="the benchmarks' files; without it those are left out")
    one.add_argument("--encoder", default=Plan.encoder)
    one.add_argument("--rows", default="", help="names with commas between; all by default")
    one.add_argument("--seeds", default="0,1,2")
    one.add_argument("--steps", type=int, default=Plan.steps)
    one.add_argument("--m", type=int, default=Plan.m)
    one.add_argument("--learning-rate", type=float, default=Plan.learning_rate)
    one.add_argument("--benchmarks", default="", help="names with commas between; all that have data by default")
    study.add_settings(one, "--set", "every training", "settings")
    one.add_argument("--threads", type=int, help="of every command; all cores by default")
    one.add_argument("--keep-models", action="store_true", help="some 90 MB each")
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
