"""BioLORD-2023 phase by phase on an open graph, and the ablations of its paper: every row and seed, and their table.

    python bench/biolord.py run --terminology T --split S --scored TRAIN.csv --dev-scored DEV.csv --data DATA -o OUT
                                [--earlier table.json]
    python bench/biolord.py table OUT [--earlier table.json]

runs/biolord_open.sh makes the terminology and calls this. OUT/RUN/SEED/ holds one training with the models of all its
phases, and the reports. What is there whole is not made again, and an unfinished training goes on, so the same command
goes on with a run that was cut. Seeds are the outer loop.

The run `biolord` gives a row for each phase (Remy et al. 2024, table 2): adapted, contrasted, contrasted and adapted
again (BioLORD-2023-C), the first of the self-distilled students (BioLORD-2023-S), and the soup. Beside it stand
BioLORD-2022's plain contrast, what appendix A tells of, and names trained against a concept's other names too (ours),
each up to the end of its contrastive phase, to be compared with the row C; and students whose head starts as the
teacher's projection (ours), to be compared with S and its soup. All choices are made on the dev scores;
--benchmarks leaves out what is to be read once, at the end. --earlier takes over the figures of a run whose folder is
gone, if it was made with the same data and settings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import earlier as earlier_table
from alphita import artefact, machine
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.evaluation import report
from alphita.progress import say

TABLE, MODEL, REPORT = "table", "model", "report"
CONTRAST = "adapt,contrast"


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        name: of its folder.
        rows: phase, or "" for the model itself -> the row's title.
        settings: beside those that all runs share.
    """

    name: str
    rows: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)


RUNS = (
    Run(
        "biolord",
        {"adapted": "base, adapted (A)", "contrasted": "A + contrast", "contrasted_adapted": "A + contrast + A (C)",
         "distilled_0": "self-distilled (S)", "": "soup"},
    ),
    Run("lord_2022", {"": "2022: contrast, no adaptation"}, {"phases": "contrast", "batch": "96"}),
    Run("no_descriptions", {"": "C without descriptions"}, {"phases": CONTRAST, "kinds": "definition,generated"}),
    Run("no_definitions", {"": "C without definitions"}, {"phases": CONTRAST, "kinds": "description"}),
    Run(
        "names", {"": "C, against names too"},
        {"phases": CONTRAST, "kinds": "definition,description,generated,name"},
    ),
    Run("hard_negatives", {"": "C with hard negatives"}, {"phases": CONTRAST, "hard_negatives": "2"}),
    Run(
        "teacher_head", {"distilled_0": "S, the head from the teacher's", "": "soup, heads from the teacher's"},
        {"head": "teacher"},
    ),
)  # fmt: skip
BASE = "the encoder as it comes"
TITLES = (BASE, *(title for run in RUNS for title in run.rows.values()))
# Scored with every model: benchmark -> (metric, subset, title).
COLUMNS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "relatedness": (
        ("Spearman", "dataset=UMNSRS similarity", "UMNSRS similarity"),
        ("Spearman", "dataset=UMNSRS relatedness", "UMNSRS relatedness"),
        ("Spearman", "dataset=Bio-SimLex", "Bio-SimLex"),
        ("Spearman", "dataset=Bio-SimVerb", "Bio-SimVerb"),
    ),
    "sts": (("Pearson", "dataset=STS-B en", "STS-B"),),
    "held_out_synonyms": (("accuracy@1", "all", "held-out synonyms @1"),),
    "ncbi_disease": (("accuracy@1", "all", "NCBI disease @1"),),
    "bc5cdr": (("accuracy@1", "all", "BC5CDR @1"),),
    "hpo_gsc_plus": (("accuracy@1", "all", "HPO GSC+ @1"),),
    "psytar": (("accuracy@1", "mean of folds", "PsyTAR @1"),),
}


@dataclass(frozen=True)
class Plan:
    """What all runs share.

    Attributes:
        terminology, split: what is learnt, and what of it is held out.
        data: the benchmarks' files.
        scored, dev_scored: files of scored sentences, to adapt to and to choose by.
        out: the folder of everything.
        encoder: what all start from.
        benchmarks: what is scored.
        settings: of every training, "key=value".
    """

    terminology: Path
    split: Path
    data: Path
    scored: str
    dev_scored: str
    out: Path
    encoder: str
    benchmarks: tuple[str, ...]
    settings: tuple[str, ...]

    def training(self, run: Run, seed: int) -> dict[str, str]:
        """Return the settings of one training."""
        shared = {"scored": self.scored, "dev_scored": self.dev_scored, "seed": str(seed)}
        return shared | dict(item.split("=", 1) for item in self.settings) | run.settings


def alphita(*arguments: str | Path) -> None:
    """Run a command of alphita.

    Raises:
        AlphitaError: it failed; it has said why.
    """
    command = [sys.executable, "-m", "alphita", *map(str, arguments)]
    if subprocess.run(command, check=False).returncode:
        raise AlphitaError(f"this failed: {' '.join(command[2:])}")


def make(plan: Plan, run: Run, seed: int) -> None:
    """Train and score one run with one seed, as far as that is not done yet."""
    folder = plan.out / run.name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    settings = plan.training(run, seed)
    model = folder / MODEL
    if not _whole(model, "model"):
        shutil.rmtree(model, ignore_errors=True)
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        alphita(
            "train", "biolord", "--terminology", plan.terminology, "--split", plan.split, "--encoder", plan.encoder,
            "--output", model, "--resume", *sets,
        )  # fmt: skip
    systems = {phase or MODEL: folder / f"{MODEL}.phases" / phase if phase else model for phase in run.rows}
    score(plan, systems, folder / REPORT)


def score(plan: Plan, systems: Mapping[str, Path | str], out: Path) -> None:
    """Score some models, unless a whole report of these benchmarks is there."""
    if _whole(out, "report"):
        return
    shutil.rmtree(out, ignore_errors=True)
    words: list[str | Path] = []
    for name, path in systems.items():
        words += ["--model", f"{path},name={name}"]
    if "held_out_synonyms" in plan.benchmarks:
        words += ["--set", f"held_out_synonyms.split={plan.split}"]
    if "bc5cdr" in plan.benchmarks:
        words += ["--set", "bc5cdr.part=dev"]
    alphita(
        "evaluate", *plan.benchmarks, *words, "--terminology", plan.terminology, "--data", plan.data, "--output", out
    )


def _whole(path: Path, kind: str) -> bool:
    with contextlib.suppress(InputError):
        artefact.open_manifest(path, kind)
        return True
    return False


def figures_of(path: Path) -> dict[str, dict[str, float]]:
    """Return a report's figures: system -> title of the column -> value."""
    found: dict[str, dict[str, float]] = {}
    for benchmark in json.loads((path / "report.json").read_text(encoding="utf-8"))["benchmarks"]:
        for system in benchmark["systems"]:
            for figure in system.get("figures", []):
                for metric, subset, title in COLUMNS.get(benchmark["name"], ()):
                    if (figure["metric"], figure["subset"]) == (metric, subset) and figure["value"] is not None:
                        found.setdefault(system["name"], {})[title] = 100 * float(figure["value"])
    return found


def read_cells(
    out: Path, facts: Mapping[str, Any], earlier: Path | None = None
) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the table's cells: title of the row -> seed -> figures by column, commit and processor, in their order.

    Args:
        out: the folder of everything.
        facts: what all rows were made with.
        earlier: the table.json of an earlier run, whose cells stand beside; those of `out` come before them.

    Raises:
        InputError: the earlier table is none, or was made with something else.
    """
    cells = read_table(earlier, facts) if earlier else {}
    if _whole(out / "base", "report"):
        cells.setdefault(BASE, {})[0] = _cells(out / "base")["base"]
    for run in RUNS:
        for folder in (out / run.name).glob("*"):
            if folder.name.isdigit() and _whole(folder / REPORT, "report"):
                found = _cells(folder / REPORT)
                for phase, title in run.rows.items():
                    cells.setdefault(title, {})[int(folder.name)] = found[phase or MODEL]
    return {title: dict(sorted(cells[title].items())) for title in TITLES if title in cells}


def _cells(path: Path) -> dict[str, dict[str, Any]]:
    origin = json.loads((path / "report.json").read_text(encoding="utf-8"))["provenance"]
    made = {"commit": origin["commit"], "processor": origin["machine"]["processor"]}
    return {system: {"figures": figures, **made} for system, figures in figures_of(path).items()}


def read_table(path: Path, facts: Mapping[str, Any]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the cells of a table.json, as `read_cells` does.

    Raises:
        InputError: it is no table of this program's, or was made with something else than `facts`.
    """
    with earlier_table.reading(path) as written:
        made_with, cells = dict(written["provenance"]["config"]), {}
        for row in written["rows"]:
            if row["title"] not in TITLES:
                raise InputError("there is no such row", file=path, field="title", value=row["title"])
            columns = {title: values["values"] for title, values in row["figures"].items()}
            cells[row["title"]] = {
                seed: {
                    "figures": {title: values[place] for title, values in columns.items()},
                    "commit": row["commits"][place], "processor": row["processors"][place],
                }
                for place, seed in enumerate(row["seeds"])
            }  # fmt: skip
    earlier_table.check_alike(path, made_with, facts)
    return cells


def write_table(facts: dict[str, Any], out: Path, earlier: Path | None = None) -> None:
    """Write table.json and table.md of what is finished."""
    rows: list[dict[str, Any]] = []
    for title, of_row in read_cells(out, facts, earlier).items():
        made = of_row.values()
        found = dict.fromkeys(column for cell in made for column in cell["figures"])
        rows.append({
            "title": title, "seeds": list(of_row),
            "figures": {column: {"values": [cell["figures"][column] for cell in made]} for column in found},
            "commits": [cell["commit"] for cell in made], "processors": [cell["processor"] for cell in made],
        })  # fmt: skip
    columns = [title for some in COLUMNS.values() for _, _, title in some]
    columns = [title for title in columns if any(title in row["figures"] for row in rows)]
    lines = ["| row | n | " + " | ".join(columns) + " |", "|---|---:|" + "---:|" * len(columns)]
    for row in rows:
        cells = [_cell(row["figures"].get(title, {"values": []})["values"]) for title in columns]
        lines.append(f"| {row['title']} | {len(row['seeds'])} | " + " | ".join(cells) + " |")
    note = "Mean ± standard deviation over n seeds (n - 1 in the denominator). Correlations times 100; accuracy in %."
    report.write(out / f"{TABLE}.json", {"rows": rows}, provenance=report.provenance(config=facts))
    with atomic_file(out / f"{TABLE}.md", "w") as file:
        file.write("\n".join(["# BioLORD-2023 phase by phase", "", *lines, "", note, ""]))


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table", help="write table.json and table.md of what is finished")
    table.add_argument("out", type=Path)
    table.add_argument("--earlier", type=Path, help="the table.json of an earlier run, to take over")
    one = commands.add_parser("run", help="train and score; go on with what is unfinished")
    one.add_argument("--terminology", type=Path, required=True)
    one.add_argument("--split", type=Path, required=True)
    one.add_argument("--data", type=Path, required=True, help="the benchmarks' files")
    one.add_argument("--scored", required=True, help="scored sentences to adapt to")
    one.add_argument("--dev-scored", required=True, help="scored sentences to choose by")
    one.add_argument("--output", "-o", type=Path, required=True)
    one.add_argument("--encoder", default="minilm")
    one.add_argument("--seeds", default="0,1,2")
    one.add_argument("--runs", default=",".join(run.name for run in RUNS), help="names with commas between")
    one.add_argument("--benchmarks", default=",".join(COLUMNS), help="what is scored; UMNSRS is in relatedness")
    one.add_argument("--set", dest="settings", action="append", default=[], help="of every training: key=value")
    one.add_argument("--earlier", type=Path, help="the table.json of an earlier run: what it has is not made again")
    given = parser.parse_args(arguments)
    try:
        if given.command == "run":
            _run(given)
        out = given.output if given.command == "run" else given.out
        made = json.loads((out / "plan.json").read_text(encoding="utf-8"))
        write_table(made, out, given.earlier)
        print((out / f"{TABLE}.md").read_text(encoding="utf-8"), end="")
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(given: argparse.Namespace) -> None:
    known = {run.name: run for run in RUNS}
    chosen = [name for name in given.runs.split(",") if name]
    if unknown := [name for name in chosen if name not in known] + [
        name for name in given.benchmarks.split(",") if name not in COLUMNS
    ]:
        raise UsageError(f"unknown: {', '.join(unknown)}; runs: {', '.join(known)}; benchmarks: {', '.join(COLUMNS)}")
    plan = Plan(
        given.terminology, given.split, given.data, given.scored, given.dev_scored, given.output, given.encoder,
        tuple(given.benchmarks.split(",")), tuple(given.settings),
    )  # fmt: skip
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)
    plan.out.mkdir(parents=True, exist_ok=True)
    facts = {
        "terminology": artefact.open_manifest(plan.terminology, "terminology")["content_hash"],
        "split": artefact.open_manifest(plan.split, "split")["content_hash"], "encoder": plan.encoder,
        "benchmarks": list(plan.benchmarks), "settings": list(plan.settings), "scored": Path(plan.scored).name,
        "dev_scored": Path(plan.dev_scored).name,
    }  # fmt: skip
    note = plan.out / "plan.json"
    if note.exists() and json.loads(note.read_text(encoding="utf-8")) != facts:
        raise UsageError(f"{plan.out} was begun with other data or settings (plan.json); choose another --output")
    made = read_table(given.earlier, facts) if given.earlier else {}
    with atomic_file(note, "w") as file:
        file.write(json.dumps(facts, indent=1) + "\n")
    if BASE not in made:
        score(plan, {"base": plan.encoder}, plan.out / "base")
    for seed in map(int, given.seeds.split(",")):
        for name in chosen:
            if not all(seed in made.get(title, {}) for title in known[name].rows.values()):
                make(plan, known[name], seed)
            write_table(facts, plan.out, given.earlier)
            say(f"{name}, seed {seed}: done")


if __name__ == "__main__":
    sys.exit(main())
