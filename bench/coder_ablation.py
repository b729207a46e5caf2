"""The ablations of both CODER papers on an open graph: every row and seed trained and scored alike, and their table.

    python bench/coder_ablation.py run --terminology EN.terminology --split EN.split --output OUT [--data BENCHMARKS]
                                       [--earlier table.json]
    python bench/coder_ablation.py table OUT [--earlier table.json]
    python bench/coder_ablation.py rows

runs/coder_ablation.sh makes the terminology and the split, and calls this. OUT/ROW/SEED/ holds one training: its model
until it is scored, the reports, and cell.json, which is written last and marks it as done. What is done and intact is
not done again, and an unfinished training goes on from its last checkpoint. Seeds are the outer loop, so that a run
that is cut short leaves whole columns: seed 0 of every row first.

The papers' rows are Yuan et al. 2022, §5.1, and Yuan, Zhao and Yu 2020, table 6. All rows start from the same encoder,
CODER++ too, take equally many steps of some 256 term rows, and have the same learning rate, warm-up, dropout and
pooling (but for the row `cls`); what a row does not set is its recipe's default. `m`, the times that a triple stands in
a batch of `coder`, is 2 as in the quickstart: with the paper's 8, 256 term rows hold only 32 concepts, and the paper
adds the gradients of 8 batches.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import earlier as earlier_table
from alphita import artefact, machine, registry
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.evaluation import report
from alphita.graph.triples import usable_triples
from alphita.progress import say
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology

CELL, LOCK, LOG, MODEL, TABLE = "cell.json", "lock", "log.txt", "model", "table"
RELATIONS_FOLDER = "relations"
LAST_LINES = 12


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: of its folder.
        title: as the table prints it.
        recipe: what trains it; None: the encoder as it comes, scored once.
        settings: beside those that all rows share; {m} and {quarter} stand for numbers of the plan.
    """

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
        "transe_like", "MS + REL, TransE-like similarity", "coder",
        CODER | {"relation_similarity": "transe", "lam_rel": "-20.8"},
    ),
    Row("cls", "MS + REL, diagonal M_r, [CLS]", "coder", CODER | {"relation_matrix": "diagonal", "pooling": "cls"}),
    Row("ms_2020", "2020: MS", "coder_transe", {"batch_terms": "256", "mu": "0"}),
    Row("ms_transe", "2020: MS + TransE", "coder_transe", {"batch_terms": "256"}),
    Row(
        "ms_sty", "2020: MS + STY", "coder_transe",
        {"batch_terms": "256", "mu": "0", "semantic_type_weight": "0.1"},
    ),
    Row("ms_transe_sty", "2020: MS + TransE + STY", "coder_transe",
        {"batch_terms": "256", "semantic_type_weight": "0.1"}),
    Row("sapbert", "SapBERT", "sapbert", {"pairs": "128", "schedule": "linear"}),
    # As often mined anew in a run as the released code does: 4 times.
    Row("coder_pp", "CODER++, from the same encoder", "coder_pp", {"anchors": "7", "refresh_every": "{quarter}"}),
)  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """One call of `alphita evaluate`, and the report folder of its name.

    Attributes:
        name: of the folder.
        benchmarks: what is scored.
        systems: name in the report -> the pooling it is given; None: the model's own.
        settings: "key=value" or "BENCHMARK.key=value".
        data: whose files are needed: "benchmarks", or "relations", which are made of the terminology.
    """

    name: str
    benchmarks: tuple[str, ...]
    systems: Mapping[str, str | None]
    settings: tuple[str, ...] = ()
    data: Literal["", "benchmarks", "relations"] = ""


OWN: Mapping[str, str | None] = {"model": None}
# Sizes for two cores: some two minutes a model. MCSM: neighbours among the concepts that have a type, as in the
# released code. Relations: most triples of an ontology are is_a, so a sample with at most MOST_TRIPLES of each relation
# is classified, in the layout of DDBRC; what is tested on is held out of the encoders' training.
RELATIONS, MOST_TRIPLES, LEAST_TRIPLES, RELATIONS_SEED = 14, 500, 50, 0
EVALUATIONS = (
    Evaluation("synonyms", ("held_out_synonyms",), OWN),
    Evaluation("mcsm", ("mcsm",), {"mean": "mean", "cls": "cls"}, ("mcsm.candidates=types",)),
    Evaluation("relations", ("relation_classification",), OWN, data="relations"),
    Evaluation(
        "relations_tuned", ("relation_classification",), OWN,
        ("relation_classification.epochs=4", "relation_classification.fine_tune=true"), data="relations",
    ),
    Evaluation(
        "benchmarks", ("psytar", "ncbi_disease", "hpo_gsc_plus", "bc5cdr"), OWN, ("bc5cdr.part=dev",),
        data="benchmarks",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column of the table: where its figure stands in the reports.

    Attributes:
        name: its key in table.json.
        title: as the table prints it.
        evaluation: the report.
        benchmark: in the report.
        system: in the benchmark.
        metric: of the system.
        subset: of the rows.
        percent: whether it is a fraction, printed times 100.
    """

    name: str
    title: str
    evaluation: str
    benchmark: str
    system: str = "model"
    metric: str = "accuracy@1"
    subset: str = "all"
    percent: bool = True


COLUMNS = (
    Column("synonyms_1", "held-out synonyms @1", "synonyms", "held_out_synonyms"),
    Column("synonyms_3", "@3", "synonyms", "held_out_synonyms", metric="accuracy@3"),
    Column("mcsm_mean", "MCSM, mean", "mcsm", "mcsm", "mean", "MCSM", "mean of types", percent=False),
    Column("mcsm_cls", "MCSM, [CLS]", "mcsm", "mcsm", "cls", "MCSM", "mean of types", percent=False),
    Column("relations", "relations, frozen", "relations", "relation_classification", metric="accuracy"),
    Column("relations_f1", "macro F1", "relations", "relation_classification", metric="macro F1"),
    Column("relations_tuned", "relations, fine-tuned", "relations_tuned", "relation_classification",
           metric="accuracy, fine-tuned"),
    Column("psytar_1", "PsyTAR @1", "benchmarks", "psytar", subset="mean of folds"),
    Column("psytar_3", "@3", "benchmarks", "psytar", metric="accuracy@3", subset="mean of folds"),
    Column("ncbi_disease", "NCBI disease @1", "benchmarks", "ncbi_disease"),
    Column("hpo_gsc_plus", "HPO GSC+ @1", "benchmarks", "hpo_gsc_plus"),
    Column("bc5cdr", "BC5CDR @1", "benchmarks", "bc5cdr"),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        terminology: what is learnt and tested on; with semantic types and relations.
        split: what of it is held out.
        out: the folder of everything.
        data: the benchmarks' files; None: those are left out.
        encoder: what all rows start from.
        steps: optimiser steps; a tenth of them is warm-up.
        m: times that a triple stands in a batch of the recipe coder.
        learning_rate: at its peak.
        benchmarks: what is scored; empty: everything that there are data for.
        settings: further settings of every training, "key=value".
        threads: of one process.
        keep_models: models are not removed once they are scored (90 MB each).
        earlier: the table.json of an earlier run, whose cells are taken over.
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
    threads: int = 1
    keep_models: bool = False
    earlier: Path | None = None

    def common(self) -> dict[str, Any]:
        """Return what a figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "split": artefact.open_manifest(self.split, "split")["content_hash"],
            "encoder": self.encoder, "steps": self.steps, "m": self.m, "learning_rate": self.learning_rate,
            "settings": list(self.settings),
            "evaluations": {
                one.name: {"benchmarks": list(one.benchmarks), "settings": list(one.settings)}
                for one in self.evaluations()
            },
        }  # fmt: skip

    def evaluations(self) -> list[Evaluation]:
        """Return what is scored of each model.

        Raises:
            UsageError: a benchmark is unknown or needs data that were not given.
        """
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
            "steps": self.steps, "accumulation": 1, "learning_rate": self.learning_rate,
            "warmup_steps": self.steps // 10, "dropout": 0.0, "pooling": "mean", "seed": seed, "log_every": 25,
            "checkpoint_every": 100,
        }  # fmt: skip
        numbers = {"m": self.m, "quarter": max(1, self.steps // 4)}
        own = {key: value.format_map(numbers) for key, value in row.settings.items()}
        further = dict(item.split("=", 1) for item in self.settings)
        return [f"{key}={value}" for key, value in (shared | own | further).items()]


class Children:
    """The processes at work; ended with this one."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, command: Sequence[str], log: Path, held: int) -> int:
        """Run one to its end and return its exit status.

        Args:
            command: program and arguments.
            log: gets what it prints.
            held: a file descriptor that it inherits: its lock lasts as long as the process does.
        """
        with log.open("ab") as file:
            file.write(f"$ {' '.join(command)}\n".encode())
            file.flush()
            with self._lock:
                if self._ended:
                    return -signal.SIGTERM
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, pass_fds=(held,)
                )
                self._running.add(child)
            try:
                return child.wait()
            finally:
                with self._lock:
                    self._running.discard(child)

    def end(self) -> None:
        """End those that run, and start no further ones."""
        with self._lock:
            self._ended = True
            for child in self._running:
                child.terminate()


def run(plan: Plan, rows: Sequence[Row], seeds: Sequence[int], *, jobs: int) -> dict[str, str]:
    """Train and score every row with every seed, and write the table after each.

    Args:
        plan: what they share.
        rows: in the order of the table.
        seeds: the outer loop; a row without a recipe is scored with the first one only.
        jobs: trained and scored at a time.

    Returns:
        "ROW/SEED" -> why it failed; empty if none did.
    """
    made_with = plan.common()
    if any(one.data == "relations" for one in plan.evaluations()):
        made_with["relations"] = write_relations(
            load_terminology(plan.terminology), Split.load(plan.split), plan.out / RELATIONS_FOLDER
        )
    read_cells(plan.out, made_with, plan.earlier)
    earlier = read_table(plan.earlier) if plan.earlier else {}
    tasks = [
        (row, seed)
        for seed in seeds
        for row in rows
        if seed not in earlier.get(row.name, {})
        and (row.recipe is not None or (seed == seeds[0] and row.name not in earlier))
    ]
    failed: dict[str, str] = {}
    children = Children()
    pool = ThreadPoolExecutor(jobs)
    futures: dict[Future[str], str] = {}
    try:
        for row, seed in tasks:
            futures[pool.submit(make_cell, plan, made_with, row, seed, children)] = f"{row.name}/{seed}"
        for future in as_completed(futures):
            name = futures[future]
            try:
                say(f"{name}: {future.result()}")
            except (AlphitaError, OSError) as error:
                failed[name] = str(error)
                say(f"{name}: failed: {error}")
                continue
            write_table(plan.out, plan.earlier)
    finally:
        children.end()
        pool.shutdown(wait=True, cancel_futures=True)
    return failed


def write_relations(
    terminology: Terminology,
    split: Split,
    folder: Path,
    *,
    relations: int = RELATIONS,
    most: int = MOST_TRIPLES,
    least: int = LEAST_TRIPLES,
    seed: int = RELATIONS_SEED,
) -> str:
    """Write a sample of triples in DDBRC's layout, x_train.txt to y_test.txt: the test part is held out of training.

    Args:
        terminology: whose triples; those of relations that turn others round are left out, and pairs of concepts that
            two relations hold between.
        split: its held-out triples are those that no encoder was trained on.
        folder: of the four files.
        relations: how many, the most frequent ones.
        most: triples of each, drawn at random; four fifths of them to train on.
        least: triples that a relation must have.
        seed: of the draw.

    Returns:
        The hash of what was written.
    """
    triples, _ = usable_triples(terminology, rare=least, inverse=0.8)
    pairs = triples[:, 0] * terminology.n_concepts + triples[:, 2]
    values, times = np.unique(pairs, return_counts=True)
    triples = triples[np.isin(pairs, values[times == 1])]
    counts = np.bincount(triples[:, 1], minlength=len(terminology.relation_labels))
    held_out = {frozenset(pair) for pair in split.triple_pairs(terminology).tolist()}
    tested = np.array([frozenset(pair) in held_out for pair in triples[:, [0, 2]].tolist()])
    rng = np.random.default_rng(seed)
    texts = {f"{kind}_{part}.txt": "" for kind in "xy" for part in ("train", "test")}
    for relation in np.argsort(-counts, kind="stable")[:relations]:
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
    return artefact.hash_json(texts)


def make_cell(plan: Plan, common: Mapping[str, Any], row: Row, seed: int, children: Children) -> str:
    """Train and score one row with one seed, as far as that is not done yet, and return one line on it.

    Raises:
        AlphitaError: a step failed; what was made was made otherwise; or another process is at work on it.
    """
    folder = plan.out / row.name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    training = plan.training(row, seed) if row.recipe is not None else []
    made_with = {"common": dict(common), "row": row.name, "seed": seed, "recipe": row.recipe, "training": training}
    with _locked(folder) as held:
        _refuse_other(folder, made_with)
        if is_done(folder):
            if not plan.keep_models:
                shutil.rmtree(folder / MODEL, ignore_errors=True)
            return "done before"
        start = time.perf_counter()

        def alphita(*arguments: str) -> None:
            command = [sys.executable, "-m", "alphita", *arguments, "--threads", str(plan.threads)]
            status = children.run(command, folder / LOG, held)
            if status != 0:
                raise AlphitaError(f"`alphita {' '.join(arguments[:2])}` ended with status {status}\n{_tail(folder)}")

        model = plan.encoder
        trained: dict[str, Any] = {}
        if row.recipe is not None:
            model = str(folder / MODEL)
            _train(plan, row.recipe, training, folder / MODEL, alphita)
            trained = training_facts(folder / MODEL)
        reports = {}
        for evaluation in plan.evaluations():
            reports[evaluation.name] = _evaluate(plan, evaluation, model, folder, alphita)
        figures = figures_in(folder, reports)
        origin = report.provenance(config=made_with, seed=seed, data={"reports": reports})
        report.write(folder / CELL, {"figures": figures, "training": trained}, provenance=origin)
        if not plan.keep_models:
            shutil.rmtree(folder / MODEL, ignore_errors=True)
        return f"done in {(time.perf_counter() - start) / 60:.1f} min"


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    with open(folder / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlphitaError(f"another process is at work on {folder}; wait for its end") from None
        yield file.fileno()


def _refuse_other(folder: Path, made_with: Mapping[str, Any]) -> None:
    """Write down what the cell is made with; raise UsageError if it was begun with something else."""
    plan = folder / "plan.json"
    text = json.dumps(made_with, indent=1, sort_keys=True)
    if plan.exists():
        if json.loads(plan.read_text(encoding="utf-8")) != json.loads(text):
            raise UsageError(
                f"{folder} was begun with other settings or data (its plan.json says which); choose another --output, "
                "or remove that folder"
            )
        return
    with atomic_file(plan, "w") as file:
        file.write(text + "\n")


def is_done(folder: Path) -> bool:
    """Tell whether a cell is finished and its reports are those that it was finished with."""
    try:
        reports = json.loads((folder / CELL).read_text(encoding="utf-8"))["provenance"]["data"]["reports"]
        return all(_hash_of(folder / name, "report") == value for name, value in reports.items())
    except (OSError, ValueError, KeyError, TypeError, AlphitaError):
        return False


def _hash_of(folder: Path, kind: str) -> str:
    return str(artefact.open_manifest(folder, kind)["content_hash"])


def _train(plan: Plan, recipe: str, settings: Sequence[str], model: Path, alphita: Any) -> None:  # noqa: ANN401
    """Train, unless the model is there intact; go on with unfinished work."""
    if model.exists():
        with contextlib.suppress(InputError):
            artefact.open_manifest(model, "model")
            return
        shutil.rmtree(model)
    sets = [word for item in settings for word in ("--set", item)]
    alphita(
        "train", recipe, "--terminology", str(plan.terminology), "--split", str(plan.split), "--encoder", plan.encoder,
        "--output", str(model), "--resume", *sets,
    )  # fmt: skip


def _evaluate(plan: Plan, evaluation: Evaluation, model: str, folder: Path, alphita: Any) -> str:  # noqa: ANN401
    """Score the model, unless the report is there intact; return the report's content hash."""
    out = folder / evaluation.name
    with contextlib.suppress(InputError):
        return _hash_of(out, "report")
    shutil.rmtree(out, ignore_errors=True)
    settings = list(evaluation.settings)
    if "held_out_synonyms" in evaluation.benchmarks:
        settings.append(f"held_out_synonyms.split={plan.split}")
    words = []
    for name, pooling in evaluation.systems.items():
        words += ["--model", f"{model},name={name}" + (f",pooling={pooling}" if pooling else "")]
    words += [word for item in settings for word in ("--set", item)]
    if evaluation.data:
        words += ["--data", str(plan.data if evaluation.data == "benchmarks" else plan.out / RELATIONS_FOLDER)]
    alphita("evaluate", *evaluation.benchmarks, *words, "--terminology", str(plan.terminology), "--output", str(out))
    return _hash_of(out, "report")


def _tail(folder: Path) -> str:
    """Return the last lines of what a process printed: of a line that was drawn over, its last state."""
    text = (folder / LOG).read_text(encoding="utf-8", errors="replace")
    lines = [line.rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return "\n".join(f"    {line}" for line in [*lines[-LAST_LINES:], f"all of it: {folder / LOG}"])


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
        "steps": steps, "seconds": seconds, "rows_per_step": rows / steps if steps else 0.0,
        "config": facts["config"], "encoder": facts["encoder"], "model": _hash_of(model, "model"),
    }  # fmt: skip


def figures_in(folder: Path, reports: Mapping[str, str]) -> dict[str, float]:
    """Return the figures of a cell, by column; a column whose benchmark was not scored is left out.

    Raises:
        InputError: a benchmark was scored but has no such figure.
    """
    found = {}
    for column in COLUMNS:
        if column.evaluation not in reports:
            continue
        path = folder / column.evaluation / "report.json"
        benchmarks = {one["name"]: one for one in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]}
        if column.benchmark not in benchmarks:
            continue
        for system in benchmarks[column.benchmark]["systems"]:
            for figure in system.get("figures", []):
                place = (system["name"], figure["metric"], figure["subset"])
                if place == (column.system, column.metric, column.subset) and figure["value"] is not None:
                    found[column.name] = float(figure["value"])
        if column.name not in found:
            where = f"{column.benchmark}: {column.metric} ({column.subset}) of {column.system}"
            raise InputError("holds no such figure", file=path, value=where)
    return found


def read_cells(
    out: Path, common: Mapping[str, Any] | None = None, earlier: Path | None = None
) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the finished cells, row -> seed -> cell.json, in the order of the table.

    Args:
        out: the folder of everything.
        common: what they must all have been made with; by default what the first of them was made with.
        earlier: the table.json of an earlier run, whose cells stand beside; those of `out` come before them.

    Raises:
        InputError: one was made with other settings or data.
    """
    found: dict[str, dict[int, tuple[Path, dict[str, Any]]]] = {row.name: {} for row in ROWS}
    if earlier is not None:
        for name, taken in read_table(earlier).items():
            found[name] |= {seed: (earlier, cell) for seed, cell in taken.items()}
    for name in found:
        for folder in (out / name).glob("*"):
            if folder.name.isdigit() and is_done(folder):
                found[name][int(folder.name)] = (folder, json.loads((folder / CELL).read_text(encoding="utf-8")))
    cells: dict[str, dict[int, dict[str, Any]]] = {}
    for name, of_row in found.items():
        for seed, (path, cell) in sorted(of_row.items()):
            shared = cell["provenance"]["config"]["common"]
            common = shared if common is None else common
            if different := sorted(key for key in {*shared, *common} if shared.get(key) != common.get(key)):
                raise InputError(
                    f"{name}/{seed} was made with other values of {', '.join(different)} than the others", file=path,
                    remedy="rows of one table share them: choose another --output, or leave that file or folder out",
                )  # fmt: skip
            cells.setdefault(name, {})[seed] = cell
    return cells


def read_table(path: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the cells of a table.json, row -> seed -> what cell.json holds but for its packages.

    Raises:
        InputError: it is no table of this program's.
    """
    with earlier_table.reading(path) as written:
        cells = written["cells"]
        if unknown := sorted(set(cells) - {row.name for row in ROWS}):
            raise InputError("there is no such row", file=path, field="cells", value=unknown[0])
        return {
            row.name: {
                int(seed): {key: cell[key] for key in ("figures", "training", "provenance")}
                for seed, cell in cells[row.name].items()
            }
            for row in ROWS
            if row.name in cells
        }


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return n, the mean, the sample standard deviation (n - 1 in the denominator; None of one value), the values."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"n": len(values), "mean": float(np.mean(values)), "sd": spread, "values": list(values)}


def table_of(cells: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the rows of the table: name, title, recipe, seeds, figures and training by column, each a `summary`."""
    rows = []
    for row in ROWS:
        of_row = cells.get(row.name)
        if not of_row:
            continue
        figures = {}
        for column in COLUMNS:
            values = [cell["figures"][column.name] for cell in of_row.values() if column.name in cell["figures"]]
            if values:
                figures[column.name] = summary(values)
        training = {
            name: summary([cell["training"][name] for cell in of_row.values()])
            for name in ("steps", "rows_per_step", "seconds")
            if row.recipe is not None
        }
        rows.append({
            "name": row.name, "title": row.title, "recipe": row.recipe, "seeds": list(of_row), "figures": figures,
            "training": training,
        })  # fmt: skip
    return rows


def markdown(rows: Sequence[Mapping[str, Any]], cells: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> str:
    """Return the table as Markdown, with what it was made with below."""
    columns = [one for one in COLUMNS if any(one.name in row["figures"] for row in rows)]
    heads = ["row", "n", *(one.title for one in columns), "steps", "rows a step", "minutes"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in rows:
        figures, training = row["figures"], row["training"]
        cells_of_row = [row["title"], str(len(row["seeds"]))]
        for one in columns:
            scale, digits = (100, 1) if one.percent else (1, 2)
            cells_of_row.append(_cell(figures.get(one.name), scale, digits, len(row["seeds"])))
        n = len(row["seeds"])
        cells_of_row += [
            f"{training['steps']['mean']:,.0f}" if training else "–",
            _cell(training.get("rows_per_step"), 1, 0, n, spread=False),
            _cell(training.get("seconds"), 1 / 60, 1, n),
        ]
        lines.append("| " + " | ".join(cells_of_row) + " |")
    return "\n".join(["# Ablations of CODER", "", *lines, "", *_origin(cells)]) + "\n"


def _cell(one: Mapping[str, Any] | None, scale: float, digits: int, n: int, *, spread: bool = True) -> str:
    """Return "61.0 ± 0.4"; with how many values it has, if those are not all of the row's."""
    if one is None:
        return "–"
    text = f"{scale * one['mean']:.{digits}f}"
    if spread and one["sd"] is not None:
        text += f" ± {scale * one['sd']:.{digits}f}"
    return text if one["n"] == n else f"{text} (n={one['n']})"


def _origin(cells: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> list[str]:
    """Return lines on how to read the table and what it was made with."""
    every = [cell["provenance"] for of_row in cells.values() for cell in of_row.values()]
    if not every:
        return ["No row is finished yet."]
    common = every[0]["config"]["common"]
    commits = sorted({str(one["commit"]) for one in every})
    machines = sorted({f"{one['machine']['processor']}, {one['machine']['cores']} cores" for one in every})
    settings = [f"`{item}`" for one in common["evaluations"].values() for item in one["settings"]]
    return [
        "Mean ± standard deviation over n seeds (n - 1 in the denominator; none of one seed). Accuracies and F1 in "
        "percent; MCSM up to 11.09, the mean of the types. Minutes are those of training steps alone.",
        "",
        f"- all rows: encoder `{common['encoder']}`, {common['steps']:,} steps, learning rate "
        f"{common['learning_rate']:g}, m={common['m']}" + "".join(f", `{item}`" for item in common["settings"]),
        f"- evaluation: {', '.join(dict.fromkeys(settings)) or 'as by default'}; relations: at most {MOST_TRIPLES} "
        f"triples of each of the {RELATIONS} most frequent, the test part (a fifth at most) held out of training",
        f"- terminology `{common['terminology']}`, split `{common['split']}`",
        f"- commit {', '.join(commits)}; {'; '.join(machines)}",
        "- every cell's command, settings, packages and hashes: ROW/SEED/cell.json",
    ]


def write_table(out: Path, earlier: Path | None = None) -> list[dict[str, Any]]:
    """Write table.json and table.md of the cells that are finished, and return the table's rows.

    Args:
        out: the folder of everything.
        earlier: the table.json of an earlier run, whose cells stand beside.
    """
    cells = read_cells(out, earlier=earlier)
    rows = table_of(cells)
    every = [cell for of_row in cells.values() for cell in of_row.values()]
    common = every[0]["provenance"]["config"]["common"] if every else {}
    data = {key: common[key] for key in ("terminology", "split") if key in common}
    made = {
        row: {
            str(seed): {key: cell[key] for key in ("figures", "training")} | {"provenance": {
                key: cell["provenance"][key] for key in ("commit", "command", "machine", "config", "data")
            }}
            for seed, cell in of_row.items()
        }
        for row, of_row in cells.items()
    }  # fmt: skip
    origin = report.provenance(config=common, data=data)
    report.write(out / f"{TABLE}.json", {"rows": rows, "cells": made}, provenance=origin)
    with atomic_file(out / f"{TABLE}.md", "w") as file:
        file.write(markdown(rows, cells))
    return rows


def choose_rows(names: str) -> list[Row]:
    """Return the rows of names with commas between, in the order of the table; all for "".

    Raises:
        UsageError: there is no such row.
    """
    known = [row.name for row in ROWS]
    wanted = [name for name in (part.strip() for part in names.split(",")) if name]
    for name in wanted:
        if name not in known:
            raise UsageError(registry.unknown("row", name, known))
    return [row for row in ROWS if not wanted or row.name in wanted]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("rows", help="list the rows")
    table = commands.add_parser("table", help="write table.json and table.md of what is finished")
    table.add_argument("out", type=Path)
    table.add_argument("--earlier", type=Path, help="the table.json of an earlier run, whose cells stand beside")
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
    one.add_argument("--set", dest="settings", action="append", default=[], help="of every training: key=value")
    one.add_argument("--jobs", type=int, default=2, help="processes at a time; the cores are shared among them")
    one.add_argument("--keep-models", action="store_true", help="some 90 MB each")
    one.add_argument("--earlier", type=Path, help="the table.json of an earlier run, whose cells are not done again")
    given = parser.parse_args(arguments)
    try:
        if given.command == "rows":
            for row in ROWS:
                print(f"{row.name:<14} {row.title}")
            return 0
        if given.command == "table":
            if not given.out.is_dir():
                raise UsageError(f"there is no folder {given.out}")
            write_table(given.out, given.earlier)
            print((given.out / f"{TABLE}.md").read_text(encoding="utf-8"), end="")
            return 0
        return _run(given)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    if given.jobs < 1 or given.steps < 1:
        raise UsageError("--jobs and --steps are 1 or more")
    try:
        seeds = list(dict.fromkeys(int(part) for part in given.seeds.split(",")))
    except ValueError:
        raise UsageError(f"--seeds {given.seeds!r} are not whole numbers with commas between") from None
    if wrong := [item for item in given.settings if "=" not in item]:
        raise UsageError(f"--set {wrong[0]!r} is not of the form key=value")
    plan = Plan(
        given.terminology, given.split, given.output, given.data, given.encoder, given.steps, given.m,
        given.learning_rate, tuple(filter(None, given.benchmarks.split(","))), tuple(given.settings),
        max(1, machine.cores() // given.jobs), given.keep_models, given.earlier,
    )  # fmt: skip
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    rows = choose_rows(given.rows)
    failed = run(plan, rows, seeds, jobs=given.jobs)
    write_table(plan.out, plan.earlier)
    say(f"written: {plan.out / TABLE}.md and .json")
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
