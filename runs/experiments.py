"""Small, fair experiments on the papers' claims: arms that differ in one thing, several seeds, verdicts by one rule.

    python runs/experiments.py run margins OUT [--seeds 0,1,2] [--arms v1,v3] [--data DATA] [--threads 1]
    python runs/experiments.py table OUT
    python runs/experiments.py list

| experiment | question |
|---|---|
| margins | do margins from a graph (Amore Bondarenko et al. 2022, v1 to v3) bring an encoder nearer to the graph? |
| attributes | what do entity masking and attribute prediction (Liu et al. 2022) add to MiniLM? |
| languages | do names of other languages, and that they are of one concept, find unseen concepts (Yuan et al. 2022)? |
| relations | what do relations and types add to CODER (Yuan et al. 2020 and 2022)? |

Each is a file experiment_NAME.py, whose head says what it needs. A job is one arm with one seed: OUT/ARM/SEED/ has its
model until it is scored, then scores.json. What is complete is not made again, and an unfinished training goes on: the
same command resumes after any stop. Seeds are the outer loop. OUT/table.json and table.md are written after each job;
`study.judge` says how a verdict is reached. Nothing was chosen on what is scored: sizes and rates were fixed with one
arm, by a seed that is not among those that count.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import study
from alphita import machine, report
from alphita.errors import AlphitaError
from alphita.progress import say
from alphita.terminology.store import Terminology
from study import MODEL, Column, Ordering, whole

Items = NDArray[np.float64]
"""(n, 2): of each item numerator and denominator; a figure is the sum of the first over that of the second."""
SCORES, DATA = "scores.json", "data"


@dataclass(frozen=True)
class Arm:
    """One arm: its recipe and what makes it differ from the others; {data} stands for the seed's data.

    Without a recipe nothing trains: it is a row to compare with.
    """

    name: str
    title: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One arm with one seed: where it lies, what it is made of, and the folder of open data, if that was given."""

    arm: Arm
    seed: int
    folder: Path
    data: Path
    open_data: Path | None
    alphita: Callable[..., None]

    @property
    def model(self) -> Path:
        """Where its model lies until it is scored."""
        return self.folder / MODEL

    def train(self, terminology: Path, encoder: str | Path, settings: Mapping[str, Any], *more: str | Path) -> None:
        """Train its model, or go on with it; the arm's settings go over those given."""
        own = {key: str(value).format(data=self.data) for key, value in self.arm.settings.items()}
        sets = [
            word
            for key, value in {**settings, "seed": self.seed, **own}.items()
            for word in ("--set", f"{key}={value}")
        ]
        words = ["train", self.arm.recipe, "--terminology", terminology, "--encoder", encoder, "--output", self.model]
        self.alphita(*words, "--resume", *sets, *more)


@dataclass(frozen=True)
class Experiment:
    """What one experiment is.

    Attributes:
        columns: the measures; `most` is the end of a measure's range, of which a point is a hundredth.
        claims: the orderings that are judged.
        seeds: those that count.
        prepare: makes what all arms with a seed share, in a folder; what is there stays.
        train: trains a job's model.
        score: a job -> measure -> items, in the same order for each arm of a seed.
        settings: what was fixed beforehand, for the table.
    """

    name: str
    title: str
    arms: tuple[Arm, ...]
    columns: tuple[Column, ...]
    claims: tuple[Ordering, ...]
    seeds: tuple[int, ...]
    prepare: Callable[[Path, int, Path | None, Callable[..., None]], None]
    train: Callable[[Job], None]
    score: Callable[[Job], dict[str, Items]]
    settings: Mapping[str, Any]


EXPERIMENTS = ("margins", "attributes", "languages", "relations")


def load(name: str) -> Experiment:
    """Return an experiment by its name."""
    (chosen,) = study.chosen("experiment", name, EXPERIMENTS) or [""]
    found: Experiment = importlib.import_module(f"experiment_{chosen}").EXPERIMENT
    return found


def scratch_encoder(
    terminology: Terminology,
    folder: Path,
    *,
    layers: int,
    hidden: int,
    vocabulary: int,
    seed: int,
    exclude: frozenset[str] = frozenset(),
) -> None:
    """Write an encoder with random weights, its tokens trained on the names of a terminology but those excluded."""
    from alphita_lab.encoder import electra
    from alphita_lab.encoder.wordpieces import count_words
    from alphita_lab.training.terms.names import TrainingNames
    from alphita_lab.training.text import corpora

    if (folder / "config.json").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    words = count_words(TrainingNames(terminology, exclude=exclude).strings, corpora.empty())
    corpora.train(words, vocabulary, folder / "words.json")
    electra.scratch(
        folder,
        folder / "words.json",
        layers=layers,
        hidden=hidden,
        heads=max(1, hidden // 64),
        intermediate=4 * hidden,
        positions=64,
        seed=seed,
    )


def make(experiment: Experiment, job: Job) -> None:
    """Train and score one job, as far as that is not done yet."""
    if (job.folder / SCORES).is_file():
        return
    job.folder.mkdir(parents=True, exist_ok=True)
    if job.arm.recipe and not whole(job.model, "model"):
        experiment.train(job)
    items = experiment.score(job)
    figures = {name: figure(of) for name, of in items.items()}
    kept = {name: of.tolist() for name, of in items.items()}
    origin = report.provenance(config={"arm": job.arm.name, "settings": dict(experiment.settings)}, seed=job.seed)
    report.write(job.folder / SCORES, {"figures": figures, "items": kept}, provenance=origin)
    shutil.rmtree(job.model, ignore_errors=True)
    say(f"{job.arm.name}, seed {job.seed}: " + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()))


def accuracies(right: Sequence[float] | NDArray[np.bool_]) -> Items:
    """Return the items of an accuracy, of what is right and what is not."""
    return np.stack([np.asarray(right, np.float64), np.ones(len(right))], axis=1)


def figure(items: Items) -> float:
    """Return the figure of some items."""
    return float(items[:, 0].sum() / items[:, 1].sum())


def rows_of(experiment: Experiment, out: Path) -> list[dict[str, Any]]:
    """Return the arms that have scores: name, title, seeds, and the figures of each measure by seed."""
    rows = []
    for arm in experiment.arms:
        found = {
            seed: study.read(folder / SCORES)["figures"]
            for seed, folder in study.seeds_in(out / arm.name).items()
            if (folder / SCORES).is_file() and seed in experiment.seeds
        }
        if found:
            rows.append({"name": arm.name, "title": arm.title, "seeds": list(found), "figures": study.by_column(found)})
    return rows


def judged(experiment: Experiment, out: Path) -> list[dict[str, Any]]:
    """Judge the claims, each by the seeds that both its arms have."""
    titles = {arm.name: arm.title for arm in experiment.arms}
    points = {column.name: column.most / 100 for column in experiment.columns}
    found = []
    for claim in experiment.claims:
        folders = [study.seeds_in(out / name) for name in (claim.first, claim.second)]
        seeds = [
            seed for seed in experiment.seeds if all(seed in of and (of[seed] / SCORES).is_file() for of in folders)
        ]
        if not seeds:
            continue
        kept = [[study.read(of[seed] / SCORES)["items"] for seed in seeds] for of in folders]
        for column in claim.columns:
            first, second = (np.array([one[column] for one in of]) for of in kept)
            names = {"first": titles[claim.first], "second": titles[claim.second]}
            title = next(one.title for one in experiment.columns if one.name == column)
            said = study.judge(first, second, point=points[column])
            pair = {"arms": [claim.first, claim.second], "items": first.shape[1]}
            found.append({**names, **pair, "measure": title, "column": column, "paper": claim.source, **said})
    return found


def write_table(experiment: Experiment, out: Path) -> None:
    """Write table.json and table.md of the jobs that are finished."""
    rows, verdicts = rows_of(experiment, out), judged(experiment, out)
    wanted = len(experiment.seeds) * len(experiment.arms)
    done = sum(len(row["seeds"]) for row in rows)
    figures = {"experiment": experiment.name, "jobs": {"done": done, "of": wanted}, "rows": rows, "orderings": verdicts}
    origin = report.provenance(config=dict(experiment.settings))
    told = f"# {experiment.title}\n\n{tables(experiment, figures)}\n\n{study.RULE}\n"
    study.write_table(out, figures, origin, told)


def tables(experiment: Experiment, figures: Mapping[str, Any]) -> str:
    """Return the tables of figures as Markdown."""
    jobs = figures["jobs"]
    lines = [f"{jobs['done']} of {jobs['of']} jobs.", "", *study.table(figures["rows"], experiment.columns), ""]
    return "\n".join([*lines, *study.table_of_orderings(figures["orderings"], experiment.columns)])


def in_docs(name: str, folder: Path) -> str:
    """Return what the docs show of an experiment: its tables, once its figures are there, all of its jobs done."""
    file = folder / f"experiment_{name}.json"
    return tables(load(name), study.read(file)) if file.is_file() else "Not run to its end yet."


def do_run(given: argparse.Namespace) -> None:
    """Train and score the jobs of an experiment; go on with what is unfinished."""
    experiment, out = load(given.experiment), given.out
    machine.set_threads(given.threads)
    names = study.chosen("arm", given.arms, [arm.name for arm in experiment.arms])
    arms = [arm for arm in experiment.arms if not names or arm.name in names]
    # Further options than these may not change between two calls.
    study.begin({"experiment": experiment.name, "settings": dict(experiment.settings)}, out)
    alphita = study.caller(given.threads)
    failed = []
    for seed in study.seeds(given.seeds) or experiment.seeds:
        data = out / DATA / str(seed)
        if all((out / arm.name / str(seed) / SCORES).is_file() for arm in arms):
            continue
        experiment.prepare(data, seed, given.data, alphita)
        for arm in arms:
            job = Job(arm, seed, out / arm.name / str(seed), data, given.data, alphita)
            try:
                make(experiment, job)
            except AlphitaError as error:
                failed.append(f"{arm.name}/{seed}")
                say(f"{arm.name}, seed {seed}: {error}")
                continue
            write_table(experiment, out)
    do_table(given)
    if failed:
        raise AlphitaError("these failed: " + ", ".join(failed))


def do_table(given: argparse.Namespace) -> None:
    """Write and print the table of what is finished."""
    write_table(load(study.begun(given.out)["experiment"]), given.out)
    study.show(given.out / f"{study.TABLE}.md")


def do_list(_: argparse.Namespace) -> None:
    """List the experiments and their arms."""
    for name in EXPERIMENTS:
        experiment = load(name)
        print(f"{name}: {experiment.title}; seeds {','.join(map(str, experiment.seeds))}")
        for arm in experiment.arms:
            print(f"  {arm.name:<14} {arm.title}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = study.add_command(commands, do_run)
    one.add_argument("experiment", help=", ".join(EXPERIMENTS))
    one.add_argument("out", metavar="OUT", type=Path)
    one.add_argument("--arms", default="", help="names with commas between; all by default")
    one.add_argument("--seeds", default="", help="whole numbers with commas between; the experiment's by default")
    one.add_argument("--data", type=Path, help="the folder of open data, where the experiment needs one")
    one.add_argument("--threads", type=int, default=1, help="of every command")
    study.add_command(commands, do_table).add_argument("out", metavar="OUT", type=Path)
    study.add_command(commands, do_list)
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
