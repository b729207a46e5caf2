"""The rows of the Italian system's tables: what trains each, and training and scoring of one after another.

Settings are the paper's, the recipes' own, unless a number N of steps is given: then a contrastive training takes N
steps and looks 4 times for hard negatives (the row of 16 epochs: 4 N, and 16 times), the injection 6.4 N, as 40k are to
6,250, and the masked language model 2 N. Entities are injected after two thirds of the layers: after 8 of 12, as in the
paper.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import earlier as earlier_table
import italian_graph
import italian_table
from alphita import artefact
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.evaluation import report
from alphita.progress import say
from italian_data import whole

TABLE, MODEL, REPORT, MENTIONS, PLAN = "table", "model", "report", "mentions", "plan.json"
BENCHMARKS = (
    "mcsm", "clustering_pairs", "relatedness", "held_out_synonyms", "held_out_translations", "misspelt_names",
)  # fmt: skip
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
    Row("pipelined_16", "pipelined, 16 epochs", "kge_margin", "injected", "complex", {"epochs": "16"}),
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
        of_recipe = {
            "ext_bert": {"steps": str(2 * self.steps)}, "kge_margin": margin, "kge_injection": injection,
        }  # fmt: skip
        return settings | of_recipe[row.recipe or ""]

    def facts(self) -> dict[str, Any]:
        """Return what every figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "split": artefact.open_manifest(self.split, "split")["content_hash"] if self.split else None,
            "cut": artefact.open_manifest(self.cut, "split")["content_hash"] if self.cut else None,
            "corpus": {path.name: artefact.hash_file(path) for path in self.corpus}, "encoder": self.encoder,
            "language": self.language, "steps": self.steps, "sequence_tokens": self.sequence_tokens,
            "settings": {phase: list(items) for phase, items in sorted(self.settings.items()) if items},
            "benchmarks": list(self.benchmarks), "scoring": list(self.scoring),
        }  # fmt: skip


def caller(threads: int | None) -> Callable[..., None]:
    """Return what runs a command of alphita; it raises AlphitaError where that fails, which has said why."""

    def alphita(*arguments: str | Path) -> None:
        command = [sys.executable, "-m", "alphita", *map(str, arguments)]
        command += [] if threads is None else ["--threads", str(threads)]
        say(" ".join(["alphita", *command[3:]]))
        if subprocess.run(command, check=False).returncode:
            raise AlphitaError(f"this failed: {' '.join(command[2:])}")

    return alphita


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
        "mcsm": ["candidates=types"], "clustering_pairs": [f"languages={plan.language}"],
        "held_out_synonyms": [f"split={plan.cut}"],
        "held_out_translations": [
            f"split={plan.split}", f"language={plan.language}", f"target_language={plan.target}",
        ],
        "misspelt_names": [f"language={plan.language}"],
    }  # fmt: skip
    return [f"{name}.{item}" for name in plan.benchmarks for item in settings.get(name, [])]


def trained(plan: Plan, row: Row, seed: int, alphita: Callable[..., None]) -> Path:
    """Return the model of a row, trained if it is not there; so is what it starts from, and the mentions."""
    model = plan.out / row.name / str(seed) / MODEL
    if whole(model, "model"):
        return model
    start: Path | str = plan.encoder if row.start is None else trained(plan, BY_NAME[row.start], seed, alphita)
    held_out = ["--split", str(plan.split)] if plan.split else []
    if row.recipe != "ext_bert":
        extended = trained(plan, BY_NAME["ext"], seed, alphita)
        mentions = plan.out / MENTIONS / str(seed)
        if not whole(mentions, "mentions"):
            alphita(
                "mentions", *plan.corpus, "--terminology", plan.terminology, "--encoder", extended, "--language",
                plan.language, "--sequence-tokens", str(plan.sequence_tokens), "--seed", str(seed), "--output",
                mentions, "--force", *held_out,
            )  # fmt: skip
    sets = [word for key, value in plan.training(row, seed).items() for word in ("--set", f"{key}={value}")]
    shutil.rmtree(model, ignore_errors=True)
    model.parent.mkdir(parents=True, exist_ok=True)
    alphita(
        "train", str(row.recipe), "--terminology", plan.terminology, "--encoder", start, "--output", model, "--resume",
        *held_out, *sets,
    )  # fmt: skip
    if not plan.keep_models:
        shutil.rmtree(model.with_name(f"{MODEL}.phases"), ignore_errors=True)
    return model


def graph_hash(graphs: Path | None, row: Row, seed: int) -> str | None:
    """Return the hash of what the graph's vectors of a row follow from; None: it takes none, or they are not there."""
    if row.graph is None or graphs is None:
        return None
    try:
        return italian_graph.made_with(italian_graph.vectors_in(graphs, row.graph, seed))
    except InputError:
        return None


def cells_of(out: Path, row: Row, graphs: Path | None) -> dict[int, dict[str, Any]]:
    """Return what is scored of a row: seed -> figures by column, and the commit, processor and graph that gave them."""
    cells = {}
    for folder in (out / row.name).glob("*"):
        if folder.name.isdigit() and whole(folder / REPORT, "report"):
            found = italian_graph.report_figures(folder / REPORT).get(MODEL, {})
            origin = json.loads((folder / REPORT / "report.json").read_text(encoding="utf-8"))["provenance"]
            made = made_by(origin)
            if (graph := graph_hash(graphs, row, int(folder.name))) is not None:
                made["graph"] = graph
            cells[int(folder.name)] = {"figures": italian_table.figures_in(found), "made": made}
    return cells


def made_by(origin: Mapping[str, Any]) -> dict[str, str]:
    """Return of a report's provenance what made its figures: commit and processor."""
    return {"commit": origin["commit"], "processor": origin["machine"]["processor"]}


def rows_of(
    out: Path, graphs: Path | None, earlier: Mapping[str, Mapping[int, Mapping[str, Any]]] | None = None
) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, seeds, what made them, and the figures of each column by seed.

    Args:
        out: the folder of everything.
        graphs: the folder of `graph`.
        earlier: cells of an earlier table (`read_table`), which stand beside; those of `out` come before them.
    """
    rows = []
    for row in ROWS:
        own, taken = cells_of(out, row, graphs), (earlier or {}).get(row.name, {})
        cells = {**taken, **own}
        if row.recipe is None and cells:
            # What has no seed has one figure.
            one = min(own or taken)
            cells = {one: cells[one]}
        seeds = sorted(cells)
        figures: dict[str, dict[int, float]] = {}
        for seed in seeds:
            for name, value in cells[seed]["figures"].items():
                figures.setdefault(name, {})[seed] = value
        if seeds:
            made = {seed: cells[seed]["made"] for seed in seeds}
            rows.append({
                "name": row.name, "title": row.title, "seeds": seeds, "seeded": row.recipe is not None, "made": made,
                "figures": figures,
            })  # fmt: skip
    return rows


def graphs_of(
    folder: Path | None, earlier: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the rows of the graph models that are trained, and what they were made with; None where that is not known.

    Args:
        folder: what `graph` made; None: nothing.
        earlier: the JSON of an earlier table, whose models stand beside if they were made with the same.
    """
    rows = italian_graph.rows_of_table(folder) if folder else []
    facts = None
    if folder and (folder / PLAN).is_file():
        facts = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    made_with = (earlier or {}).get("graphs_made_with")
    if earlier and made_with and (not rows or facts == made_with):
        known = {row["name"]: row for row in [*earlier["graphs"], *rows]}
        return [known[name] for name in italian_graph.MODELS if name in known], made_with
    return rows, facts


def read_table(
    path: Path, facts: Mapping[str, Any], graphs: Path | None
) -> tuple[dict[str, dict[int, dict[str, Any]]], dict[str, Any]]:
    """Return the cells of an earlier table.json, row -> seed -> figures by column and what made them; and its JSON.

    Cells that are not known to be of the graph's vectors that are in `graphs` now are left out.

    Raises:
        InputError: it is no table of this program's, or was made with something else than `facts`.
    """
    with earlier_table.reading(path) as written:
        origin, cells = written["provenance"], {}
        made_with = dict(origin["config"])
        for row in written["rows"]:
            if row["name"] not in BY_NAME:
                raise InputError("there is no such row", file=path, field="name", value=row["name"])
            cells[row["name"]] = {
                seed: {
                    "figures": {name: of[str(seed)] for name, of in row["figures"].items() if str(seed) in of},
                    "made": row["made"][str(seed)] if "made" in row else made_by(origin),
                }
                for seed in row["seeds"]
            }
            for seed, cell in list(cells[row["name"]].items()):
                graph = graph_hash(graphs, BY_NAME[row["name"]], seed)
                if graph is not None and cell["made"].get("graph") != graph:
                    del cells[row["name"]][seed]
    earlier_table.check_alike(path, made_with, facts)
    return cells, written


def write_table(facts: Mapping[str, Any], out: Path, graphs: Path | None, earlier: Path | None = None) -> None:
    """Write table.json and table.md of what is finished, and of what an earlier table has of the rows."""
    cells, written = read_table(earlier, facts, graphs) if earlier else (None, None)
    rows, (of_graphs, made_with) = rows_of(out, graphs, cells), graphs_of(graphs, written)
    judged = italian_table.orderings(rows)
    figures = {"rows": rows, "graphs": of_graphs, "graphs_made_with": made_with, "orderings": judged}
    report.write(out / f"{TABLE}.json", figures, provenance=report.provenance(config=facts))
    with atomic_file(out / f"{TABLE}.md", "w") as file:
        file.write(italian_table.markdown(rows, of_graphs, judged))


def begin(facts: Mapping[str, Any], out: Path) -> None:
    """Write down what a folder is made with.

    Raises:
        UsageError: it was begun with something else.
    """
    out.mkdir(parents=True, exist_ok=True)
    note = out / PLAN
    if note.exists() and json.loads(note.read_text(encoding="utf-8")) != json.loads(json.dumps(facts)):
        raise UsageError(f"{out} was begun with other data or settings ({PLAN}); choose another --output")
    with atomic_file(note, "w") as file:
        file.write(json.dumps(facts, indent=1) + "\n")


def run(plan: Plan, rows: Sequence[Row], seeds: Sequence[int], earlier: Path | None = None) -> None:
    """Train and score the rows with every seed, but for what an earlier table has, and write the table after each."""
    facts = plan.facts()
    taken, written = read_table(earlier, facts, plan.graphs) if earlier else ({}, {"rows": []})
    for row in written["rows"]:
        for seed in row["seeds"]:
            if seed not in taken[row["name"]]:
                say(f"{earlier}: {row['name']}, seed {seed}, is of other vectors of the graph, and is not taken over")
    begin(facts, plan.out)
    alphita = caller(plan.threads)
    write_table(facts, plan.out, plan.graphs, earlier)
    for seed in seeds:
        for row in rows:
            known = taken.get(row.name, {})
            if seed in known or (row.recipe is None and (known or set(cells_of(plan.out, row, None)) - {seed})):
                continue
            make(plan, row, seed, alphita)
            write_table(facts, plan.out, plan.graphs, earlier)
            say(f"{row.name}, seed {seed}: done")
