"""ELECTRA's entity masking (EM) and product attribute prediction (PAP) from MiniLM (Liu, Jiang and Lyu 2022).

Products are the rare diseases of HPO's annotations, with phenotypes, onset and inheritance as attributes; text are the
English clinical cases of E3C. All arms start from MiniLM and see the same text for equally many steps:

    tokens         single tokens are masked: ELECTRA
    em             words and entities are masked whole
    em_pap         as em; between two steps of text there is one of PAP
    pap_permuted   as em_pap, but the values of each attribute are dealt out anew among the products: it takes the same
                   steps and reads the same strings, and what it lacks is only which product has which value

Entities are the names of Uberon and DrugCentral: those of products and values would teach PAP's own strings. Needs
--data FOLDER with ontologies/phenotype.hpoa, uberon_import.obo and drugcentral.obo, and text/e3c/English.layer*.jsonl,
gzipped or not.

    value   the held-out value of a product first among 100 of its attribute; an item is a triple that did not train
    easy    of the two titles of a query in QTRel-easy's test part, by the cosine the one that fits is the nearer;
            an item is a query (runs/qtrel.py makes the sets)
    hard    the same on QTRel-hard, where no word of the query is in the title

The paper fine-tunes on these sets. MiniLM, fine-tuned on 2,000 pairs, stays at chance (50.3% on the easy part, 49.5% on
the hard one), where no arm could be told from another; so the vectors are asked as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import qtrel
from alphita import config
from alphita.errors import InputError, UsageError
from alphita.index.neighbours import unit
from alphita.search import catalogue
from alphita.terminology import reading, store
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.systems import load_system
from experiments import Arm, Experiment, Items, Job, accuracies
from study import Column, Ordering, whole

ENCODER, STEPS = "minilm", 300
ATTRIBUTES = ("has_phenotype", "has_onset", "has_inheritance")
ENTITIES = ("uberon_import", "drugcentral")
SETTINGS = {
    "scratch": "false",
    "pooling": "mean",
    "max_length": 64,
    "batch": 16,
    "attribute_batch": 8,
    "values": 8,
    "attributes": ",".join(ATTRIBUTES),
    "learning_rate": 5e-5,
    "precision": "bf16",
    "checkpoint_every": 100,
    "log_every": 50,
}
MOST, ASKED = 2000, 1000
ASKED_SETS = {"easy": qtrel.EASY, "hard": qtrel.HARD}
TRUE, PERMUTED, OTHERS, SETS = "diseases.terminology", "permuted.terminology", "entities.terminology", "qtrel"


def file(folder: Path, name: str) -> Path:
    """Return a file of the open data, gzipped or not."""
    for found in (folder / name, folder / f"{name}.gz"):
        if found.is_file():
            return found
    raise UsageError(f"there is no {folder / name}, gzipped or not")


def texts(data: Path) -> list[Path]:
    """Return the English texts."""
    found = sorted((data / "text" / "e3c").glob("English.layer*.jsonl*"))
    if not found:
        raise UsageError(f"there is no {data / 'text' / 'e3c' / 'English.layer*.jsonl'}, gzipped or not")
    return found


def prepare(folder: Path, _: int, data: Path | None, alphita: Callable[..., None]) -> None:
    """Make the terminologies and the sets, which all seeds share."""
    if data is None:
        raise UsageError("--data FOLDER is needed; the head of experiment_attributes.py says what it has")
    shared = folder.parent
    shared.mkdir(parents=True, exist_ok=True)
    terms, ontologies = shared / "hpo.terminology", data / "ontologies"
    if not whole(terms, "terminology"):
        alphita("terminology", "import", "obo", "hpo", "--packaged", "-o", terms)
    if not whole(shared / TRUE, "terminology"):
        words = [file(ontologies, "phenotype.hpoa"), "--onto", terms, "--set", "frequency=false"]
        alphita("terminology", "import", "hpoa", *words, "-o", shared / TRUE)
    for name in ENTITIES:
        if not whole(shared / f"{name}.terminology", "terminology"):
            words = [file(ontologies, f"{name}.obo"), "--set", "missing_scope=related"]
            alphita("terminology", "import", "obo", *words, "-o", shared / f"{name}.terminology")
    if not whole(shared / OTHERS, "terminology"):
        alphita("terminology", "merge", *(shared / f"{name}.terminology" for name in ENTITIES), "-o", shared / OTHERS)
    terminology = load_terminology(shared / TRUE)
    if not whole(shared / PERMUTED, "terminology"):
        moved = permuted(reading.tables_of(terminology), ATTRIBUTES)
        store.save(moved, shared / PERMUTED, config={"permuted": terminology.content_hash})
    if not (shared / SETS / qtrel.SPLIT).exists():
        (shared / SETS).mkdir(exist_ok=True)
        sizes = {name: {part: min(size, MOST) for part, size in of.items()} for name, of in qtrel.SIZES.items()}
        found = catalogue.collect(terminology, attributes=list(ATTRIBUTES), languages=["en"])
        qtrel.write_sets(terminology, found, shared / SETS, seed=0, sizes=sizes)


def permuted(tables: Tables, labels: tuple[str, ...] = (), seed: int = 0) -> Tables:
    """Return a terminology with the tails of each relation dealt out anew among its triples; of all, or of `labels`."""
    rng = np.random.default_rng(seed)
    relations = tables.relations
    tails = relations["tail"].to_numpy().copy()
    names = relations["relation"].cast(pl.String).to_numpy()
    for label in sorted(set(names) if not labels else set(labels)):
        rows = np.flatnonzero(names == label)
        tails[rows] = tails[rng.permutation(rows)]
    moved = relations.with_columns(tail=pl.Series(tails, dtype=relations.schema["tail"]))
    return replace(tables, relations=moved.unique(maintain_order=True))


def train(job: Job) -> None:
    """Train one arm."""
    assert job.open_data is not None, "looked at before"
    shared = job.data.parent
    terminology = shared / (PERMUTED if job.arm.name == "pap_permuted" else TRUE)
    text = {"corpus": ",".join(map(str, texts(job.open_data))), "entities_from": shared / OTHERS}
    job.train(terminology, ENCODER, {**SETTINGS, **text}, "--split", shared / SETS / qtrel.SPLIT)


def score(job: Job) -> dict[str, Items]:
    """Score a model by the triples and pairs that did not train."""
    shared = job.data.parent
    system = load_system(str(job.model) if job.arm.recipe else ENCODER)
    held_out = [f"held_out={shared / SETS / qtrel.SPLIT}", f"attributes={','.join(ATTRIBUTES)}", f"max_test={ASKED}"]
    module = load_benchmark("attribute_ranking")
    options = config.resolve(module.Options, sets=held_out)
    asked = module.load(Source(None, load_terminology(shared / TRUE), "attribute_ranking", ""), options)
    right = module.evaluate(asked, system, options).rows["right"].to_numpy()
    found = {name: fitting(shared / SETS / f"{set_name}.test.tsv", system) for name, set_name in ASKED_SETS.items()}
    return {"value": accuracies(right), **found}


def fitting(file: Path, system: Any) -> Items:  # noqa: ANN401 - a system
    """Tell of each query whether the title that fits is nearer to it than the one that does not."""
    pairs = pl.read_csv(file, separator="\t", quote_char=None, schema_overrides={"label": pl.String})
    cosine = (unit(system.encode(pairs["query"].to_list())) * unit(system.encode(pairs["title"].to_list()))).sum(axis=1)
    told = pairs.with_columns(cosine=pl.Series(cosine), place=pl.int_range(pl.len()) // 2)
    two = told.group_by("place", maintain_order=True).agg(pl.all().sort_by("label"))
    if not (two["label"].list.join("") == "01").all():
        raise InputError("does not hold two titles of each query, one that fits and one that does not", file=file)
    return accuracies([other < own for other, own in two["cosine"].to_list()])


PLAIN: dict[str, Any] = {"rho": 0, "steps": STEPS, "warmup_steps": STEPS // 10}
WITH: dict[str, Any] = {"rho": 0.5, "steps": 2 * STEPS, "warmup_steps": STEPS // 5}
POINTS: dict[str, Any] = {"scale": 100, "digits": 1}
EXPERIMENT = Experiment(
    name="attributes",
    title="Entity masking and attribute prediction, from MiniLM",
    arms=(
        Arm("start", "MiniLM as it comes", ""),
        Arm("tokens", "tokens masked", "electra_em_pap", {**PLAIN, "entities": "false", "segmenter": "none"}),
        Arm("em", "EM", "electra_em_pap", PLAIN),
        Arm("em_pap", "EM + PAP", "electra_em_pap", WITH),
        Arm("pap_permuted", "EM + PAP, permuted values", "electra_em_pap", WITH),
    ),
    columns=(
        Column("value", "held-out value @1", "", "", **POINTS),
        Column("easy", "QTRel-easy", "", "", **POINTS),
        Column("hard", "QTRel-hard", "", "", **POINTS),
    ),
    claims=(
        Ordering("em", "tokens", ("value", "easy", "hard"), "table 5: EM"),
        Ordering("em_pap", "em", ("value", "easy", "hard"), "table 5: PAP"),
        Ordering("em_pap", "pap_permuted", ("value", "easy", "hard"), "what is the table's"),
        Ordering("tokens", "start", ("value", "easy", "hard"), "what going on with text does"),
    ),
    seeds=tuple(range(5)),
    prepare=prepare,
    train=train,
    score=score,
    settings={"training": SETTINGS, "steps": STEPS, "rho": 0.5, "encoder": ENCODER},
)
