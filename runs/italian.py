"""The Italian system of Amore Bondarenko, Ferrod and Di Caro (2022), row by row: its tables 2 to 5 on given data.

    python runs/italian.py scarce EN.terminology -o SCARCE.terminology --held-out CUT.split
    python runs/italian.py bilingual OPEN.terminology -o IT.terminology --held-out IT.split --language it
    python runs/italian.py groups UMLS.terminology -o UMLS_ITA.terminology --sources ICPCITA,MDRITA,MSHITA
    python runs/italian.py graph --terminology T -o GRAPHS [--data BENCHMARKS]
    python runs/italian.py run --terminology T --corpus TEXT --graphs GRAPHS -o OUT [--data BENCHMARKS]
    python runs/italian.py table OUT [--graphs GRAPHS]
    python runs/italian.py rows

runs/italian_open.sh and runs/italian_umls.sh make the terminologies and call this. OUT/ROW/SEED/ holds a row's model
and its report, OUT/mentions/SEED the mentions found with the extended encoder of that seed. What is complete is not
made again, and an unfinished training goes on. Seeds are the outer loop. Every step is a command of `alphita`, printed.

Settings are the paper's, the recipes' own, unless a number N of steps is given: then a contrastive training takes N
steps and looks 4 times for hard negatives (the row that is 16 epochs in the paper: 4 N, and 16 times), the injection
6.4 N, as 40k are to 6,250, and the masked language model 2 N. Entities are injected after two thirds of the layers:
after 8 of 12, as in the paper.

The paper writes of 1.22 Italian terms a concept in the UMLS (`scarce`), and of "13 semantic types" (`groups`). Those
have too many concepts for single types (an untrained BERT has an MCSM of 9.07 of at most 11.09 for Pathologic
Function), so they are read as groups: each with the types below it in the UMLS Semantic Network, except those that are
groups of their own. Findings are so without Sign or Symptom, health care activities without the procedures.

GRAPHS/MODEL/SEED/ holds `vectors`, the report `types` (MCSM) and, where there are sets of scored pairs, `relatedness`.
The sets name concepts by CUI: a pair's concept is the one of that id, or with a cross-reference to it, else those with
the term of the pair as a name; of several the mean of their unit vectors is taken.

Each ordering that the paper prints ("first over second on a measure") is judged by `study.judge`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import study
from alphita import artefact, config, report
from alphita.artefact import atomic_file
from alphita.errors import InputError, UsageError
from alphita.index.neighbours import unit
from alphita.progress import say
from alphita.terminology import prefixes, reading, store, subset
from alphita.terminology.model import Tables
from alphita.terminology.reading import rows_of
from alphita.terminology.splits import Split, uniform
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.benchmarks._held_out import hold_out_translations
from alphita_lab.evaluation.benchmarks.mcsm import discounts
from alphita_lab.graph import models as graph_models
from alphita_lab.graph.store import EntityVectors
from study import (
    MODEL,
    PLAN,
    Column,
    Ordering,
    by_column,
    cell,
    made_by,
    read,
    report_figures,
    seeds_in,
    table,
    table_of_orderings,
    verdict,
    whole,
)

NAMES = 1.22
# Letters of the paper's table 4 -> the group's name and its types, by TUI: the root first, those below it after.
GROUPS = {
    "BP": ("Body Part, Organ, or Organ Component", "T023"),
    "BS": ("Body Substance", "T031"),
    "C": (
        "Chemical",
        "T103 T104 T109 T114 T115 T116 T118 T119 T110 T111 T120 T121 T122 T123 T124 T125 T126 T127 T129 T130 T131 T192 "
        "T195 T196 T197",
    ),
    "MD": ("Medical Device", "T074 T203"),
    "F": ("Finding", "T033 T034"),
    "SS": ("Sign or Symptom", "T184"),
    "HCA": ("Health Care Activity", "T058"),
    "DP": ("Diagnostic Procedure", "T060"),
    "LP": ("Laboratory Procedure", "T059"),
    "TPP": ("Therapeutic or Preventive Procedure", "T061"),
    "PF": ("Pathologic Function", "T046 T047 T048 T049 T050 T191"),
    "PhF": ("Physiologic Function", "T039 T040 T041 T042 T043 T044 T045"),
    "IP": ("Injury or Poisoning", "T037"),
}


def scarce(terminology: Terminology, names: float, seed: int, queries: int) -> tuple[Tables, Split]:
    """Cut a terminology to few names a concept; concepts and triples stay as they are.

    Every concept keeps the name it is called by, and of the further names that train as many are kept as `names` asks
    for, each as likely as any other. A name that does not train (not exact, machine-translated, obsolete) goes, unless
    the concept has none that does; then it keeps its first.

    Args:
        terminology: what to cut.
        names: names a concept, of those that have a name to train on; 1 or more.
        seed: of the choice.
        queries: concepts at most of which one of the names that were cut away is asked for.

    Returns:
        The tables; and a split whose test part are names that were cut away, one a concept, none of them also a name
        that was kept. Nothing trains on them, for they are not in the tables: the split is for scoring.

    Raises:
        UsageError: the terminology has not so many names a concept, or `names` is below 1.
    """
    rows, offsets = terminology.training_terms()
    named = np.flatnonzero(np.diff(offsets))
    first = rows[offsets[named]]
    others = np.setdiff1d(rows, first)
    wanted = round(names * len(named)) - len(named)
    if not 0 <= wanted <= len(others):
        raise UsageError(
            f"--names {names:g} does not lie between 1 and {len(rows) / max(len(named), 1):.2f}, the exact names that "
            f"a concept of {terminology.path.name} has"
        )
    owners = terminology.term_concept
    ids = {row: terminology.concept_id(row) for row in np.unique(owners[others]).tolist()}
    strings = dict(zip(others.tolist(), terminology.terms["string"].take(others).to_pylist(), strict=True))
    chance = {row: uniform(seed, "scarce", f"{ids[int(owners[row])]}\0{strings[row]}") for row in strings}
    drawn = sorted(chance, key=chance.__getitem__)
    starts = np.searchsorted(owners, np.setdiff1d(np.unique(owners), named))
    kept = np.zeros(len(owners), bool)
    kept[first] = kept[drawn[:wanted]] = kept[starts] = True
    tables = reading.tables_of(terminology)
    tables = replace(tables, terms=tables.terms.filter(pl.Series(kept)))

    taken = np.zeros(terminology.n_keys, bool)
    taken[terminology.term_key[kept]] = True
    asked: dict[int, int] = {}
    for row in drawn[wanted:]:
        if not taken[terminology.term_key[row]]:
            asked.setdefault(int(owners[row]), row)
    chosen = sorted(asked.values(), key=chance.__getitem__)[:queries]
    facts = {
        "method": "names cut away",
        "names": names,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "names_before": len(rows),
        "names_kept": len(first) + wanted,
        "concepts": len(named),
        "held_out": len(chosen),
    }
    test = [ids[int(owners[row])] for row in chosen]
    return tables, Split([strings[row] for row in chosen], test, ["test"] * len(chosen), facts)


def bilingual(
    terminology: Terminology, language: str, target: str, fraction: float, seed: int, folder: Path
) -> tuple[Terminology, Split]:
    """Write the concepts that have a name in a language, with their names in it and in another; and a split."""
    if not folder.exists():
        spoken = reading.tables_of(terminology).terms
        owners = spoken.filter(pl.col("language").cast(pl.String) == language)["concept"].unique().to_list()
        listed = [terminology.concept_id(int(row)) for row in owners if not terminology.retired[int(row)]]
        choice = subset.SubsetChoice(languages=(language, target), listed=listed, retired=False)
        save(subset.subset(terminology, choice), folder, {"bilingual": [language, target]}, terminology)
    made = load_terminology(folder)
    split = hold_out_translations(made, language, fraction=fraction, seed=seed)
    terms = reading.tables_of(made).terms.filter(pl.col("language").cast(pl.String) == target)
    there = {made.concept_id(int(row)) for row in terms["concept"].unique().to_list()}
    rows = [row for row, one in enumerate(split.concept_ids) if one in there]
    if not rows:
        raise UsageError(f"no name in {language!r} of a concept with a name in {target!r} is held out: {split.facts}")
    strings, ids, parts = ([column[row] for row in rows] for column in (split.strings, split.concept_ids, split.parts))
    facts = split.facts | {"held_out": len(rows), "without_a_name_to_find": len(split) - len(rows)}
    return made, Split(strings, ids, parts, facts)


def grouped(terminology: Terminology, sources: Collection[str]) -> Tables:
    """Return the concepts of the paper's 13 groups, the groups in place of their semantic types."""
    spelt = [prefixes.canonical(name) for name in sources]
    of_type = {tui: name for name, types in GROUPS.values() for tui in types.split()}

    def named(tables: Tables) -> pl.DataFrame:
        wanted = pl.col("source").cast(pl.String).is_in(spelt) if sources else pl.lit(True)
        return tables.terms.filter(wanted)

    def typed(tables: Tables) -> pl.DataFrame:
        return tables.semantic_types.filter(pl.col("code").cast(pl.String).is_in(list(of_type)))

    tables = reading.tables_of(terminology)
    rows = set(named(tables)["concept"].to_list()) & set(typed(tables)["concept"].to_list())
    listed = [terminology.concept_id(row) for row in sorted(rows) if not terminology.retired[row]]
    if not listed:
        wanted = f" and has a name of {', '.join(sources)}" if sources else ""
        raise InputError(f"no concept is of one of the 13 groups{wanted}", file=terminology.path)
    tables = subset.subset(terminology, subset.SubsetChoice(listed=listed))
    groups = typed(tables).with_columns(
        semantic_type=pl.col("code").cast(pl.String).replace_strict(of_type, return_dtype=pl.String),
        code=pl.lit(None, pl.String),
    )
    return replace(tables, terms=named(tables), semantic_types=groups.unique(maintain_order=True))


def save(tables: Tables, path: Path, config: dict[str, Any], made_of: Terminology) -> None:
    """Write a terminology that was made of another."""
    origin = {"made_of": {"name": made_of.path.name, "content_hash": made_of.content_hash}}
    store.save(tables, path, config=config | origin)


MODELS = ("transe", "complex", "rotate", "simple")
TITLES = {"transe": "TransE", "complex": "ComplEx", "rotate": "RotatE", "simple": "SimplE"}
LINKS = ("hits@1", "hits@3", "hits@10", "MR", "MRR")
VECTORS, TYPES, RELATED_REPORT = "vectors", "types", "relatedness"
CUIS = "cui.csv"


def make_graph(
    terminology: Path,
    out: Path,
    model: str,
    seed: int,
    settings: Sequence[str],
    data: Path | None,
    scoring: Sequence[str],
    alphita: Callable[..., None],
    *,
    device: str = "cpu",
) -> None:
    """Train and score one model with one seed, as far as that is not done yet."""
    folder = out / model / str(seed)
    vectors = folder / VECTORS
    if not whole(vectors, "graph_vectors"):
        sets = [word for item in (f"seed={seed}", *settings) for word in ("--set", item)]
        alphita(
            "graph",
            "train",
            model,
            "--terminology",
            terminology,
            "--output",
            vectors,
            "--device",
            device,
            "--resume",
            *sets,
        )
    opened = load_terminology(terminology)
    if len(opened.side_table("semantic_types")) and not whole(folder / TYPES, "report"):
        alphita(
            "evaluate",
            "mcsm",
            "--model",
            f"graph_vectors:{vectors},name=vectors",
            "--terminology",
            terminology,
            "--output",
            folder / TYPES,
            "--force",
            *_of("mcsm", scoring),
        )
    if data is None or whole(folder / RELATED_REPORT, "report"):
        return
    known = by_cui(EntityVectors.load(vectors), opened, concepts_of_pairs(data))
    if known:
        write_cuis(known, folder / CUIS)
        alphita(
            "evaluate",
            "relatedness",
            "--model",
            f"concept_vectors:{folder / CUIS},name=vectors",
            "--data",
            data,
            "--output",
            folder / RELATED_REPORT,
            "--force",
        )


def _of(benchmark: str, scoring: Sequence[str]) -> list[str]:
    return [word for item in scoring if item.startswith(f"{benchmark}.") for word in ("--set", item)]


def concepts_of_pairs(data: Path) -> dict[str, set[str]]:
    """Return the CUIs of the relatedness sets, each with its terms, cleaned."""
    module = load_benchmark("relatedness")
    found: dict[str, set[str]] = {}
    for one in module.load(Source(data, None, "relatedness", module.INFO.where), module.Options()).sets:
        for terms, cuis in zip(zip(one.left, one.right, strict=True), one.concepts or (), strict=False):
            for term, cui in zip(terms, cuis, strict=True):
                if cui:
                    found.setdefault(cui, set()).add(clean(term))
    return found


def by_cui(
    vectors: EntityVectors, terminology: Terminology, asked: Mapping[str, set[str]]
) -> dict[str, NDArray[np.float32]]:
    """Return the vector of each CUI that a concept with a vector stands for."""
    rows, _ = vectors.rows_of_terminology(terminology)
    ids = rows_of(terminology, [f"UMLS:{cui}" for cui in asked])
    xrefs = terminology.side_table("xrefs")
    referring: dict[str, list[int]] = {}
    for concept, target in zip(xrefs["concept"].to_pylist(), xrefs["object"].to_pylist(), strict=True):
        referring.setdefault(target, []).append(concept)
    found = {}
    for cui, terms in asked.items():
        identifier = f"UMLS:{cui}"
        concepts = [ids[identifier]] if identifier in ids else referring.get(identifier, [])
        if not _known(rows, concepts):
            concepts = [concept for term in sorted(terms) for concept in _named(terminology, term)]
        if known := _known(rows, concepts):
            found[cui] = unit(np.asarray(vectors.vectors[rows[known]], np.float32)).mean(axis=0)
    return found


def _known(rows: NDArray[np.int64], concepts: Sequence[int]) -> list[int]:
    """Return the concepts that have a vector, each once."""
    return [concept for concept in sorted(set(concepts)) if rows[concept] >= 0]


def _named(terminology: Terminology, term: str) -> list[int]:
    key = terminology.find_key(term)
    return [] if key is None else terminology.term_concept[terminology.terms_of_key(key)].tolist()


def write_cuis(vectors: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    """Write vectors as cui2vec's file has them: a CUI and its numbers, a line each."""
    with atomic_file(path, "w") as file:
        for cui, vector in sorted(vectors.items()):
            file.write(",".join([cui, *(f"{number:.8g}" for number in vector.tolist())]) + "\n")


def figures_of(folder: Path) -> dict[str, float]:
    """Return the figures of one finished model: of link prediction, MCSM and relatedness."""
    facts = artefact.open_manifest(folder / VECTORS, "graph_vectors")["facts"]
    tested = facts.get("figures", {}).get("test", {})
    figures = {name: float(tested[name]) for name in LINKS if name in tested}
    if whole(folder / TYPES, "report"):
        found = report_figures(folder / TYPES)["vectors"]
        if ("mcsm", "MCSM", "mean of types") in found:
            figures["MCSM"] = found["mcsm", "MCSM", "mean of types"]
    if whole(folder / RELATED_REPORT, "report"):
        for (_, metric, subset), value in report_figures(folder / RELATED_REPORT)["vectors"].items():
            if metric == "Spearman" and subset.startswith("dataset="):
                figures[subset.removeprefix("dataset=")] = value
        figures["CUIs"] = float(len((folder / CUIS).read_text(encoding="utf-8").splitlines()))
    return figures


def vectors_in(graphs: Path, model: str, seed: int) -> Path:
    """Return the vectors of a model: those of the seed, or else of the lowest seed there is."""
    seeds = sorted(int(path.parent.name) for path in graphs.glob(f"{model}/*/{VECTORS}") if path.parent.name.isdigit())
    if not seeds:
        raise InputError(
            f"no vectors of {model}", file=graphs, remedy=f"make them: python runs/italian.py graph --models {model}"
        )
    return graphs / model / str(seed if seed in seeds else seeds[0]) / VECTORS


def rows_of_table(out: Path) -> list[dict[str, Any]]:
    """Return a row for each model that is trained: name, title, seeds, and the figures of each column by seed."""
    rows = []
    for model in MODELS:
        made = {
            seed: figures_of(folder)
            for seed, folder in seeds_in(out / model).items()
            if whole(folder / VECTORS, "graph_vectors")
        }
        if made:
            rows.append({"name": model, "title": TITLES[model], "seeds": list(made), "figures": by_column(made)})
    return rows


REPORT, MENTIONS = "report", "mentions"
BENCHMARKS = ("mcsm", "clustering_pairs", "relatedness", "held_out_synonyms", "held_out_translations", "misspelt_names")
# Of 50k batches (§4), 8 a step: what other lengths are measured by.
MARGIN_STEPS, INJECTION_STEPS, INJECTION_WARMUP = 6_250, 40_000, 4_000
EPOCHS = 4


@dataclass(frozen=True)
class Row:
    """One row of the tables.

    Attributes:
        recipe: what trains it; None: the encoder as it comes, scored once.
        start: the row whose model training starts from; None: the encoder as it comes.
        graph: the graph model whose vectors it takes.
        system: what is scored instead of the encoder, where nothing trains.
    """

    name: str
    title: str
    recipe: str | None = None
    start: str | None = "ext"
    graph: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    system: str = ""


def _beside(out: Path) -> list[Row]:
    """Return the rows of the systems that are laid beside, as far as they can be had."""
    return [
        Row(name, Path(one["system"]).name, system=one["system"])
        for name, one in study.beside(out).items()
        if not one["missing"]
    ]


def _with_graph(name: str, title: str, recipe: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"{name}_{graph}", f"{title}, {TITLES[graph]}", recipe, graph=graph)
        for graph in MODELS
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
    Row(
        "v3_detached", "MS loss v3, margin detached", "kge_margin", graph="complex", settings={"detach_margin": "true"}
    ),
    Row("pipelined_cls", "pipelined, [CLS]", "kge_margin", "injected", "complex", {"pooling": "cls"}),
    Row("pipelined_16", "pipelined, four times as long", "kge_margin", "injected", "complex", {"epochs": "16"}),
)
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        target: language of the names that held-out translations are to find.
        graphs: the folder of `graph`.
        split: what of the terminology is held out of training: translations to be found.
        cut: names that the terminology lacks, to be found.
        steps: of the contrastive training; 0: the paper's epochs and steps.
        settings: phase ("ext", "margin", "injection") -> further settings, "key=value".
        scoring: further settings of the benchmarks, "BENCHMARK.key=value".
        keep_models: also those that nothing starts from, and those of a training's first phases.
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
    beside: tuple[str, ...] = ()

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
            settings["graph"] = str(vectors_in(self.graphs, row.graph, seed))
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
    system = (
        f"{row.system or plan.encoder},pooling=mean" if row.recipe is None else str(trained(plan, row, seed, alphita))
    )
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
    alphita = study.caller(plan.threads)
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


def scored_rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, seeds, what made them, and the figures of each column by seed."""
    rows = []
    for row in [*ROWS, *_beside(out)]:
        scored = {
            seed: path for seed, folder in seeds_in(out / row.name).items() if whole(path := folder / REPORT, "report")
        }
        if row.recipe is None:
            # What has no seed has one figure.
            scored = dict(list(scored.items())[:1])
        found = {seed: figures_in(report_figures(path).get(MODEL, {})) for seed, path in scored.items()}
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
    return [*rows, *study.not_scored(out)]


def write_table(facts: Mapping[str, Any], out: Path, graphs: Path | None) -> None:
    """Write table.json and table.md of what is finished."""
    rows = scored_rows(out)
    of_graphs = rows_of_table(graphs) if graphs else []
    made_with = read(graphs / PLAN) if graphs and (graphs / PLAN).is_file() else None
    judged = orderings(rows)
    figures = {"rows": rows, "graphs": of_graphs, "graphs_made_with": made_with, "orderings": judged}
    origin = report.provenance(config=facts)
    study.write_table(out, figures, origin, markdown(rows, of_graphs, judged))


def run_rows(plan: Plan, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Train and score the rows with every seed, and write the table after each."""
    facts = plan.facts()
    study.begin(facts, plan.out)
    study.look_for(plan.beside, plan.out)
    alphita = study.caller(plan.threads)
    write_table(facts, plan.out, plan.graphs)
    for seed in seeds:
        for row in [*rows, *_beside(plan.out)]:
            if row.recipe is None and any(whole(path, "report") for path in plan.out.glob(f"{row.name}/*/{REPORT}")):
                continue
            make(plan, row, seed, alphita)
            write_table(facts, plan.out, plan.graphs)
            say(f"{row.name}, seed {seed}: done")


# Measures whose mean says how good a row is "on average", each of 1 at most.
AVERAGE = "average"
HIGHEST = float(discounts(40).sum())
BY_TYPE = "MCSM type="


COLUMNS = (
    Column("mcsm", "MCSM", "mcsm", "MCSM", "mean of types", most=HIGHEST),
    Column("f1", "clustering F1", "clustering_pairs", "F1", scale=100, digits=1),
    Column("theta", "θ", "clustering_pairs", "theta"),
    Column("f1_tuned", "F1, θ tuned elsewhere", "clustering_pairs", "F1, tuned theta", scale=100, digits=1),
    Column("theta_tuned", "that θ", "clustering_pairs", "theta, tuned"),
    Column("mayo", "MayoSRS", "relatedness", "Spearman", "dataset=MayoSRS"),
    Column("mini_physicians", "MiniMayoSRS, physicians", "relatedness", "Spearman", "dataset=MiniMayoSRS physicians"),
    Column("mini_coders", "MiniMayoSRS, coders", "relatedness", "Spearman", "dataset=MiniMayoSRS coders"),
    Column("umnsrs", "UMNSRS relatedness", "relatedness", "Spearman", "dataset=UMNSRS relatedness"),
    Column("umnsrs_similarity", "UMNSRS similarity", "relatedness", "Spearman", "dataset=UMNSRS similarity"),
    Column("synonyms_1", "held-out synonyms @1", "held_out_synonyms", "accuracy@1", scale=100, digits=1),
    Column("synonyms_5", "@5", "held_out_synonyms", "accuracy@5", scale=100, digits=1),
    Column("translations_1", "held-out translations @1", "held_out_translations", "accuracy@1", scale=100, digits=1),
    Column("translations_5", "@5", "held_out_translations", "accuracy@5", scale=100, digits=1),
    Column("misspelt", "misspelt names @1", "misspelt_names", "accuracy@1", scale=100, digits=1),
)
GRAPH_COLUMNS = (
    *(Column(name, name, "", name, digits=3) for name in ("hits@1", "hits@3", "hits@10")),
    Column("MR", "MR", "", "MR", digits=0),
    Column("MRR", "MRR", "", "MRR", digits=3),
    Column("MCSM", "MCSM", "", "MCSM"),
    *(
        Column(one.subset.removeprefix("dataset="), one.title, "", "Spearman")
        for one in COLUMNS
        if one.benchmark == "relatedness"
    ),
    Column("CUIs", "CUIs", "", "CUIs", digits=0),
)
MAYO = ("mayo", "mini_physicians", "mini_coders")
RELATED = (*MAYO, "umnsrs")


ORDERINGS = (
    Ordering("v3", "v1", ("mcsm", "f1", "umnsrs"), "table 3"),
    Ordering("v1", "v3", MAYO, "table 3: v3 is not the best on MayoSRS"),
    Ordering("v2", "v1", ("mcsm", "f1"), "table 3"),
    Ordering("v3", "v2", ("mcsm", "f1"), "table 3"),
    Ordering("base", "ext", ("mcsm", "f1", *MAYO), "tables 4 and 5: masked language modelling alone does harm"),
    Ordering("ext", "base", ("misspelt",), "§3.1: the extended vocabulary helps to correct misspellings"),
    Ordering("v3", "ext", ("mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("injected", "ext", ("mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("v3", "injected", ("mcsm", "f1"), "tables 4 and 5"),
    Ordering("pipelined", "v3", (AVERAGE, "mcsm", "f1", *RELATED), "tables 4 and 5"),
    Ordering("pipelined", "injected", (AVERAGE, "mcsm", "f1", *RELATED), "tables 4 and 5"),
    *(
        Ordering(one, f"{one}_{other}", (AVERAGE,), "§4: ComplEx is the best in it")
        for one in ("v3", "injected")
        for other in ("transe", "rotate", "simple")
    ),
    Ordering("pipelined", "pipelined_cls", ("mcsm", "f1"), "§4: [CLS] loses on these"),
    Ordering("pipelined_cls", "pipelined", RELATED, "§4: [CLS] wins on these"),
    Ordering("pipelined_16", "pipelined", ("f1",), "§4, footnote 2: 16 epochs for 4"),
    Ordering("pipelined", "pipelined_16", ("mcsm", *RELATED), "§4: longer training harms these"),
)


def figures_in(found: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    """Return the figures of one report by column, with MCSM by type and the average."""
    figures = {
        one.name: found[one.benchmark, one.metric, one.subset]
        for one in COLUMNS
        if (one.benchmark, one.metric, one.subset) in found
    }
    for (benchmark, metric, part), value in sorted(found.items()):
        if (benchmark, metric) == ("mcsm", "MCSM") and part.startswith("type="):
            figures[f"{BY_TYPE}{part.removeprefix('type=')}"] = value
    parts = []
    if "mcsm" in figures:
        parts.append(figures["mcsm"] / HIGHEST)
    if "f1" in figures:
        parts.append(figures["f1"])
    mayo = [figures[name] for name in (MAYO[:1] if MAYO[0] in figures else MAYO[1:]) if name in figures]
    parts += [float(np.mean(mayo))] if mayo else []
    parts += [figures["umnsrs"]] if "umnsrs" in figures else []
    if parts:
        figures[AVERAGE] = float(np.mean(parts))
    return figures


def paired(row: Mapping[str, Any], other: Mapping[str, Any], column: str) -> Mapping[int, float]:
    """Return seed -> figure of a row; a row of no seed (the base) has its figure for each seed of the other."""
    own: Mapping[int, float] = row["figures"].get(column, {})
    if row["seeded"] or not own:
        return own
    (value,) = own.values()
    return dict.fromkeys(other["figures"].get(column, {}), value)


def orderings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge the paper's orderings on rows of `figures` by column and seed; those of missing rows are left out."""
    by_name = {row["name"]: row for row in rows}
    forms = {one.name: one for one in COLUMNS} | {AVERAGE: Column(AVERAGE, AVERAGE, "", "")}
    found = []
    for one in ORDERINGS:
        if one.first not in by_name or one.second not in by_name:
            continue
        first, second = by_name[one.first], by_name[one.second]
        for column in one.columns:
            form = forms[column]
            said = verdict(paired(first, second, column), paired(second, first, column), form.most / 100)
            if said is not None:
                names = {"first": first["title"], "second": second["title"], "measure": form.title}
                found.append({**names, "column": column, "paper": one.source, **said})
    return found


def table_by_type(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table of MCSM with a line for each semantic type and their mean; none, if none."""
    scored = [row for row in rows if COLUMNS[0].name in row["figures"]]
    names = dict.fromkeys(name for row in scored for name in row["figures"] if name.startswith(BY_TYPE))
    if not names:
        return []
    lines = ["| type | " + " | ".join(row["title"] for row in scored) + " |", "|---|" + "---:|" * len(scored)]
    for name, title in [
        *((name, name.removeprefix(BY_TYPE)) for name in names),
        (COLUMNS[0].name, "mean of the types"),
    ]:
        cells = [cell(list(row["figures"].get(name, {}).values()), COLUMNS[0]) for row in scored]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def markdown(
    rows: Sequence[Mapping[str, Any]], graphs: Sequence[Mapping[str, Any]], judged: Sequence[Mapping[str, Any]]
) -> str:
    """Return all tables of what is finished as Markdown."""
    lines = ["# The Italian system", ""]
    if graphs:
        lines += ["## Graph models (table 2)", "", *table(graphs, GRAPH_COLUMNS), ""]
    if rows:
        lines += ["## Encoders (tables 3 and 5)", "", *table(rows, COLUMNS), ""]
    if types := table_by_type(rows):
        lines += ["## MCSM by type (table 4)", "", *types, ""]
    if judged:
        lines += ["## Which of the paper's orderings hold", "", *table_of_orderings(judged, COLUMNS), ""]
    lines += [
        "Mean ± standard deviation over n seeds (n - 1 in the denominator). F1 and accuracies in percent, MCSM of "
        "11.09 at most, Spearman's correlations as they are. θ: chosen on the scored pairs, as the paper does; beside "
        "it one chosen on other concepts. Average: the mean of MCSM (as a share of its maximum), F1, MayoSRS "
        "(MiniMayoSRS where that is all there is) and UMNSRS relatedness. CUIs: those of the relatedness sets that "
        "have a vector; pairs without are left out.",
        "",
        study.RULE,
        "",
    ]
    return "\n".join(lines)


def do_scarce(given: argparse.Namespace) -> None:
    """Cut a terminology to few names a concept, unless that is done."""
    if whole(given.out, "terminology") and whole(given.held_out, "split"):
        return
    terminology = load_terminology(given.terminology)
    tables, cut = scarce(terminology, given.names, given.seed, given.queries)
    if not whole(given.out, "terminology"):
        save(tables, given.out, {"scarce": cut.facts}, terminology)
    cut.save(given.held_out, force=True)
    facts = cut.facts
    say(
        f"{given.out}: {facts['names_kept']:,} of {facts['names_before']:,} names for {facts['concepts']:,} "
        f"concepts; {len(cut):,} of those cut away are to be found"
    )


def do_bilingual(given: argparse.Namespace) -> None:
    """Write the concepts with names in a language, and hold some of these names out, unless that is done."""
    if whole(given.out, "terminology") and whole(given.held_out, "split"):
        return
    terminology = load_terminology(given.terminology)
    made, split = bilingual(terminology, given.language, given.target_language, given.fraction, given.seed, given.out)
    split.save(given.held_out, force=True)
    say(f"{given.out}: {made.n_concepts:,} concepts; {len(split):,} names in {given.language} are held out")


def do_groups(given: argparse.Namespace) -> None:
    """Write the concepts of the paper's 13 groups, unless that is done."""
    if not whole(given.out, "terminology"):
        terminology = load_terminology(given.terminology)
        sources = study.listed(given.sources)
        tables = grouped(terminology, sources)
        save(tables, given.out, {"groups": list(GROUPS), "sources": sources}, terminology)
    counts = load_terminology(given.out).manifest["counts"]
    say(f"{given.out}: " + ", ".join(f"{counts[name]:,} {name}" for name in ("concepts", "terms", "relations")))


def do_graph(given: argparse.Namespace) -> None:
    """Train and score graph models with every seed, and write their table."""
    models = study.chosen("model", given.models, MODELS)
    terminology = artefact.open_manifest(given.terminology, "terminology")
    # Of all models, so that one after the other may be trained into the same folder.
    resolved = {
        name: config.resolve(graph_models.load(name).Config, sets=given.settings).model_dump() for name in MODELS
    }
    facts: dict[str, Any] = {
        "terminology": terminology["content_hash"],
        "relations": terminology["counts"]["relations"],
        "settings": given.settings,
        "scoring": given.scoring,
        "models": resolved,
    }
    study.begin(facts, given.out)
    alphita = study.caller(given.threads)
    for seed in study.seeds(given.seeds):
        for model in models:
            make_graph(
                given.terminology,
                given.out,
                model,
                seed,
                given.settings,
                given.data,
                given.scoring,
                alphita,
                device=given.device,
            )
            write_table(facts, given.out, given.out)
            say(f"{model}, seed {seed}: done")


def do_run(given: argparse.Namespace) -> None:
    """Train and score the rows of tables 3 to 5."""
    rows = [BY_NAME[name] for name in study.chosen("row", given.rows, tuple(BY_NAME))]
    benchmarks = study.chosen("benchmark", given.benchmarks, BENCHMARKS)
    for needed, value, what in (
        ("relatedness", given.data, "--data, the benchmarks' files"),
        ("held_out_synonyms", given.cut, "--cut, names to be found"),
        ("held_out_translations", given.split, "--split, translations to be found"),
    ):
        if needed in benchmarks and value is None:
            raise UsageError(f"{needed} needs {what}; or leave it out of --benchmarks")
    if any(row.graph for row in rows) and given.graphs is None:
        raise UsageError("--graphs is needed: what `graph` made, for the rows that take the graph")
    settings = {phase: tuple(getattr(given, phase)) for phase in ("ext", "margin", "injection")}
    plan = study.plan_of(Plan, given, settings=settings, benchmarks=benchmarks)
    if given.dry_run:
        tell_costs(plan, rows, study.seeds(given.seeds)[0])
        return
    run_rows(plan, rows, study.seeds(given.seeds))
    study.show(given.out / f"{study.TABLE}.md")


def do_table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    write_table(study.begun(given.out), given.out, given.graphs or given.out)
    study.show(given.out / f"{study.TABLE}.md")


def do_rows(_: argparse.Namespace) -> None:
    """List the rows."""
    for row in ROWS:
        print(f"{row.name:<18} {row.title}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = {action: study.add_command(commands, action) for action in (do_scarce, do_bilingual, do_groups)}
    for one in making.values():
        one.add_argument("terminology", type=Path)
        one.add_argument("--output", "-o", dest="out", type=Path, required=True, help="X.terminology")
    for action in (do_scarce, do_bilingual):
        making[action].add_argument("--held-out", type=Path, required=True, help="X.split: names that are to be found")
        making[action].add_argument("--seed", type=int, default=42)
    making[do_scarce].add_argument("--names", type=float, default=NAMES, help="names a concept")
    making[do_scarce].add_argument("--queries", type=int, default=5000, help="names to be found, at most")
    making[do_bilingual].add_argument("--language", default="it")
    making[do_bilingual].add_argument("--target-language", default="en")
    making[do_bilingual].add_argument("--fraction", type=float, default=0.2, help="of the concepts, held out")
    making[do_groups].add_argument("--sources", default="", help="names of these only; all by default")
    graph, run = (study.add_command(commands, action) for action in (do_graph, do_run))
    for one, seeds in ((graph, "0"), (run, "0,1,2")):
        one.add_argument("--terminology", type=Path, required=True)
        one.add_argument("--output", "-o", dest="out", type=Path, required=True)
        one.add_argument("--data", type=Path, help="the benchmarks' files, for relatedness")
        one.add_argument("--seeds", default=seeds)
        study.add_settings(one, "--score", "a benchmark, its name before the key", "scoring")
        one.add_argument("--threads", type=int, help="of every command; all cores by default")
    graph.add_argument("--models", default=",".join(MODELS))
    study.add_settings(graph, "--set", "every training", "settings")
    graph.add_argument("--device", default="cpu", help="cpu or cuda")
    run.add_argument("--corpus", type=Path, action="append", required=True, help="a file of text; can be repeated")
    run.add_argument("--graphs", type=Path, help="what `graph` made")
    run.add_argument("--language", default="it", help="of names and text")
    run.add_argument("--target-language", dest="target", default="en", help="of names that translations are to find")
    run.add_argument("--split", type=Path, help="held out of training: translations to be found")
    run.add_argument("--cut", type=Path, help="names that the terminology lacks, to be found; made by `scarce`")
    run.add_argument("--encoder", default="minilm")
    run.add_argument("--rows", default=",".join(BY_NAME), help="names with commas between")
    run.add_argument("--benchmarks", default="mcsm,clustering_pairs", help="what is scored, with commas between")
    run.add_argument("--steps", type=int, default=0, help="of the contrastive training; 0: the paper's")
    run.add_argument("--sequence-tokens", type=int, default=254, help="of a text for the injection")
    for phase in ("ext", "margin", "injection"):
        study.add_settings(run, f"--{phase}", phase)
    study.add_beside(run)
    run.add_argument("--dry-run", action="store_true", help="only say what each training takes")
    run.add_argument("--keep-models", action="store_true", help="also those that nothing starts from")
    one = study.add_command(commands, do_table)
    one.add_argument("out", type=Path, help="what `run` or `graph` made")
    one.add_argument("--graphs", type=Path, help="what `graph` made")
    study.add_command(commands, do_rows)
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
