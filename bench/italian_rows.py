"""The rows of the Italian system's tables: what trains each, and training and scoring of one after another.

Settings are the paper's, the recipes' own, unless a number N of steps is given: then a contrastive training takes N
steps and looks 4 times for hard negatives (the row that is 16 epochs in the paper: 4 N, and 16 times), the injection
6.4 N, as 40k are to 6,250, and the masked language model 2 N. Entities are injected after two thirds of the layers:
after 8 of 12, as in the paper.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cells
import italian_graph
import italian_table
from alphita import artefact
from alphita.progress import say
from cells import MODEL, PLAN, by_column, made_by, read, report_figures, seeds_in, whole

REPORT, MENTIONS = "report", "mentions"
BENCHMARKS = ("mcsm", "clustering_pairs", "relatedness", "held_out_synonyms", "held_out_translations", "misspelt_names")
# Of 50k batches (§4), 8 a step: what other lengths are measured by.
MARGIN_STEPS, INJECTION_STEPS, INJECTION_WARMUP = 6_250, 40_000, 4_000
EPOCHS = 4


@dataclass(frozen=True)
class Row:
    """One row of the tables.

    Attributes:
        name: of its folder.
        title: as the tables print it.
        recipe: what trains it; None: the encoder as it comes, scored once.
        start: the row whose model training starts from; None: the encoder as it comes.
        graph: the graph model whose vectors it takes.
        settings: that are its own.
    """

    name: str
    title: str
    recipe: str | None = None
    start: str | None = "ext"
    graph: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def _with_graph(name: str, title: str, recipe: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"{name}_{graph}", f"{title}, {italian_graph.TITLES[graph]}", recipe, graph=graph)
        for graph in italian_graph.MODELS
        if graph != "complex"
    )


ROWS = (
    Row("base", "the encoder as it comes"),
    Row("ext", "ext-BERT", "ext_bert", start=None),
    Row("v1", "MS loss v1", "kge_margin", settings={"version": "v1"}),
    Row("v2", "MS loss v2", "kge_margin", settings={"version": "v2"}),
    Row("v3", "MS loss v3", "kge_margin", graph="complex"),
    Row("injected", "KGE-injected", "kge_injection", graph="complex"),
    # The second phase of the recipe `pipelined`, from the injected encoder: the first is the same in all of them, and a
    # test holds that the recipe's model is that of the two.
    Row("pipelined", "pipelined", "kge_margin", "injected", "complex"),
    *_with_graph("v3", "MS loss v3", "kge_margin"),
    *_with_graph("injected", "KGE-injected", "kge_injection"),
    Row("pipelined_cls", "pipelined, [CLS]", "kge_margin", "injected", "complex", {"pooling": "cls"}),
    Row("pipelined_16", "pipelined, four times as long", "kge_margin", "injected", "complex", {"epochs": "16"}),
)
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        terminology: what is learnt and scored.
        out: the folder of everything.
        corpus: files of text.
        language: of names and text.
        target: of the names that held-out translations are to find.
        graphs: the folder of `graph`.
        split: what of the terminology is held out of training: translations to be found.
        cut: names that the terminology lacks, to be found.
        data: the benchmarks' files.
        encoder: what all rows start from.
        steps: of the contrastive training; 0: the paper's epochs and steps.
        sequence_tokens: tokens of a sequence for the injection.
        settings: phase ("ext", "margin", "injection") -> further settings, "key=value".
        benchmarks: what is scored.
        scoring: further settings of them, "BENCHMARK.key=value".
        threads: of every command; None: all cores.
        keep_models: keep models that nothing starts from, and those of a training's first phases.
    """

    terminology: Path
    out: Path
    corpus: tuple[Path, ...] = ()
    language: str = "it"
    target: str = "en"
    graphs: Path | None = None
    split: Path | None = None
    cut: Path | None = None
    data: Path | None = None
    encoder: str = "minilm"
    steps: int = 0
    sequence_tokens: int = 254
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    scoring: tuple[str, ...] = ()
    threads: int | None = None
    keep_models: bool = False

    def training(self, row: Row, seed: int) -> dict[str, str]:
        """Return the settings of one training; what was asked for goes over what a row has, but for its own."""
        settings = {"seed": str(seed)} | self._lengths(row)
        phase = {"ext_bert": "ext", "kge_margin": "margin", "kge_injection": "injection"}[row.recipe or ""]
        settings |= dict(item.split("=", 1) for item in self.settings.get(phase, ()))
        if row.recipe == "ext_bert":
            settings |= {"corpus": ",".join(map(str, self.corpus)), "languages": self.language}
        else:
            settings["mentions"] = str(self.out / MENTIONS / str(seed))
        if row.graph is not None:
            assert self.graphs is not None, "looked at before"
            settings["graph"] = str(italian_graph.vectors_in(self.graphs, row.graph, seed))
        return settings | dict(row.settings)

    def _lengths(self, row: Row) -> dict[str, str]:
        """Return layer and lengths of a training, as --steps has them."""
        settings = {"layer": "0"} if row.recipe == "kge_injection" else {}
        if not self.steps:
            return settings
        times = int(row.settings.get("epochs", EPOCHS)) // EPOCHS
        margin = {"steps": str(times * self.steps), "refresh_every": str(math.ceil(self.steps / EPOCHS))}
        injection = {
            "steps": str(max(1, round(self.steps * INJECTION_STEPS / MARGIN_STEPS))),
            "warmup_steps": str(round(self.steps * INJECTION_WARMUP / MARGIN_STEPS)),
        }
        of_recipe = {"ext_bert": {"steps": str(2 * self.steps)}, "kge_margin": margin, "kge_injection": injection}
        return settings | of_recipe[row.recipe or ""]

    def facts(self) -> dict[str, Any]:
        """Return what every figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "split": artefact.open_manifest(self.split, "split")["content_hash"] if self.split else None,
            "cut": artefact.open_manifest(self.cut, "split")["content_hash"] if self.cut else None,
            "corpus": {path.name: artefact.hash_file(path) for path in self.corpus},
            "encoder": self.encoder,
            "language": self.language,
            "steps": self.steps,
            "sequence_tokens": self.sequence_tokens,
            "settings": {phase: list(items) for phase, items in sorted(self.settings.items()) if items},
            "benchmarks": list(self.benchmarks),
            "scoring": list(self.scoring),
        }


def make(plan: Plan, row: Row, seed: int, alphita: Callable[..., None]) -> None:
    """Train and score one row with one seed, as far as that is not done yet."""
    folder = plan.out / row.name / str(seed)
    if whole(folder / REPORT, "report"):
        return
    system = f"{plan.encoder},pooling=mean" if row.recipe is None else str(trained(plan, row, seed, alphita))
    shutil.rmtree(folder / REPORT, ignore_errors=True)
    words: list[str | Path] = ["--terminology", plan.terminology, "--output", folder / REPORT]
    for item in [*_scoring(plan), *plan.scoring]:
        words += ["--set", item]
    if plan.data is not None:
        words += ["--data", plan.data]
    alphita("evaluate", *plan.benchmarks, "--model", f"{system},name={MODEL}", *words)
    if row.recipe is not None and not plan.keep_models and row.name not in {one.start for one in ROWS}:
        shutil.rmtree(folder / MODEL)


def _scoring(plan: Plan) -> list[str]:
    """Return the settings of the benchmarks that follow from the plan."""
    settings = {
        "mcsm": ["candidates=types"],
        "clustering_pairs": [f"languages={plan.language}"],
        "held_out_synonyms": [f"split={plan.cut}"],
        "held_out_translations": [f"split={plan.split}", f"language={plan.language}", f"target_language={plan.target}"],
        "misspelt_names": [f"language={plan.language}"],
    }
    return [f"{name}.{item}" for name in plan.benchmarks for item in settings.get(name, [])]


def trained(plan: Plan, row: Row, seed: int, alphita: Callable[..., None]) -> Path:
    """Return the model of a row, trained if it is not there; so is what it starts from, and the mentions."""
    model = plan.out / row.name / str(seed) / MODEL
    if whole(model, "model"):
        return model
    start: Path | str = plan.encoder if row.start is None else trained(plan, BY_NAME[row.start], seed, alphita)
    if row.recipe != "ext_bert":
        extended = trained(plan, BY_NAME["ext"], seed, alphita)
        mentions = plan.out / MENTIONS / str(seed)
        if not whole(mentions, "mentions"):
            alphita(
                "mentions",
                *plan.corpus,
                "--terminology",
                plan.terminology,
                "--encoder",
                extended,
                "--language",
                plan.language,
                "--sequence-tokens",
                str(plan.sequence_tokens),
                "--seed",
                str(seed),
                "--output",
                mentions,
                "--force",
                *_held_out(plan),
            )
    shutil.rmtree(model, ignore_errors=True)
    model.parent.mkdir(parents=True, exist_ok=True)
    alphita(*_train_words(plan, row, seed, start), "--resume")
    if not plan.keep_models:
        shutil.rmtree(model.with_name(f"{MODEL}.phases"), ignore_errors=True)
    return model


def _train_words(plan: Plan, row: Row, seed: int, start: Path | str) -> list[str | Path]:
    """Return the command that trains a row from `start`."""
    words: list[str | Path] = ["train", str(row.recipe), "--terminology", plan.terminology, "--encoder", start]
    words += ["--output", plan.out / row.name / str(seed) / MODEL, *_held_out(plan)]
    return words + [word for key, value in plan.training(row, seed).items() for word in ("--set", f"{key}={value}")]


def _held_out(plan: Plan) -> list[str]:
    return ["--split", str(plan.split)] if plan.split else []


def tell_costs(plan: Plan, rows: Sequence[Row], seed: int) -> None:
    """Print what each row's training takes, as far as what it starts from is there."""
    alphita = cells.caller(plan.threads)
    for row in rows:
        if row.recipe is None:
            continue
        needed = [(plan.out / MENTIONS / str(seed), "mentions")] if row.recipe != "ext_bert" else []
        start: Path | str = plan.encoder
        if row.start is not None:
            start = plan.out / row.start / str(seed) / MODEL
            needed.append((start, "model"))
        missing = [str(path) for path, kind in needed if not whole(path, kind)]
        if missing:
            say(f"{row.name}: can be told once there is {' and '.join(missing)}")
        else:
            alphita(*_train_words(plan, row, seed, start), "--dry-run")


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, seeds, what made them, and the figures of each column by seed."""
    rows = []
    for row in ROWS:
        scored = {
            seed: path for seed, folder in seeds_in(out / row.name).items() if whole(path := folder / REPORT, "report")
        }
        if row.recipe is None:
            # What has no seed has one figure.
            scored = dict(list(scored.items())[:1])
        found = {seed: italian_table.figures_in(report_figures(path).get(MODEL, {})) for seed, path in scored.items()}
        if scored:
            rows.append(
                {
                    "name": row.name,
                    "title": row.title,
                    "seeds": list(scored),
                    "seeded": row.recipe is not None,
                    "made": {seed: made_by(path) for seed, path in scored.items()},
                    "figures": by_column(found),
                }
            )
    return rows


def write_table(facts: Mapping[str, Any], out: Path, graphs: Path | None) -> None:
    """Write table.json and table.md of what is finished."""
    rows = rows_of(out)
    of_graphs = italian_graph.rows_of_table(graphs) if graphs else []
    made_with = read(graphs / PLAN) if graphs and (graphs / PLAN).is_file() else None
    judged = italian_table.orderings(rows)
    figures = {"rows": rows, "graphs": of_graphs, "graphs_made_with": made_with, "orderings": judged}
    cells.write_table(out, figures, facts, italian_table.markdown(rows, of_graphs, judged))


def run(plan: Plan, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Train and score the rows with every seed, and write the table after each."""
    facts = plan.facts()
    cells.begin(facts, plan.out)
    alphita = cells.caller(plan.threads)
    write_table(facts, plan.out, plan.graphs)
    for seed in seeds:
        for row in rows:
            if row.recipe is None and any(whole(path, "report") for path in plan.out.glob(f"{row.name}/*/{REPORT}")):
                continue
            make(plan, row, seed, alphita)
            write_table(facts, plan.out, plan.graphs)
            say(f"{row.name}, seed {seed}: done")
