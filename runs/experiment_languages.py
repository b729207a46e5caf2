"""CODER in several languages, from scratch: what a translation of an unseen concept is told by (Yuan et al. 2022).

HPO in English and in the four languages of Latin script with most translations. A tenth of the concepts is held out:
none of their names trains, in any language. Encoders with random weights train by the recipe coder with equally many
steps, from the same tokens and weights:

    english    English names alone
    all        names of all five, of one concept together: CODER_ALL
    unlinked   the same names and relations, but a concept's names of each language are a concept of their own, so that
               nothing says which names of two languages mean the same

A translation is asked for the English name of its concept, among all exact English names; an item is a translation.
English synonyms of held-out concepts are asked likewise (runs/multilingual.py says how). Needs --data FOLDER with
ontologies/hpo_translations/hp-*.babelon.tsv and hp-*.synonyms.tsv, gzipped or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import multilingual
from alphita import TermEncoder
from alphita.errors import UsageError
from alphita.terminology import reading, splits, store, subset
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split
from alphita.terminology.store import load_terminology
from experiments import Arm, Experiment, Items, Job, accuracies, scratch_encoder
from study import Column, Ordering, whole

FOREIGN = ("es", "fr", "cs", "tr")
SETTINGS = {
    "k": 128,
    "m": 2,
    "relation_matrix": "diagonal",
    "pooling": "mean",
    "steps": 3000,
    "accumulation": 1,
    "learning_rate": 3e-4,
    "warmup_steps": 300,
    "dropout": 0.1,
    "dropout_masks": "shared",
    "name_rule": "none",
    "precision": "bf16",
    "checkpoint_every": 200,
    "log_every": 100,
}
ENCODER: dict[str, Any] = {"layers": 4, "hidden": 256, "vocabulary": 12_000}
FIVE, ENGLISH, UNLINKED, SPLIT = "all.terminology", "english.terminology", "unlinked.terminology", "concepts.split"


def files(folder: Path) -> list[Path]:
    """Return the tables of translations of the four languages."""
    found = []
    for tag in FOREIGN:
        labels = sorted(folder.glob(f"hp-{tag}.babelon.tsv*")) or sorted(
            folder.glob(f"hp-{tag}-preprocessed.babelon.tsv*")
        )
        found += labels + sorted(folder.glob(f"hp-{tag}.synonyms.tsv*"))
    if not found:
        raise UsageError(f"there is no hp-*.babelon.tsv or hp-*.synonyms.tsv of {', '.join(FOREIGN)} in {folder}")
    return found


def prepare(folder: Path, seed: int, data: Path | None, alphita: Callable[..., None]) -> None:
    """Make the three terminologies and the split, which all seeds share, and the seed's encoder."""
    if data is None:
        raise UsageError("--data FOLDER is needed, with ontologies/hpo_translations")
    shared = folder.parent
    shared.mkdir(parents=True, exist_ok=True)
    base, translated = shared / "hpo.terminology", shared / "translated.terminology"
    if not whole(base, "terminology"):
        alphita("terminology", "import", "obo", "hpo", "--packaged", "-o", base)
    if not whole(translated, "terminology"):
        tables = files(data / "ontologies" / "hpo_translations")
        alphita("terminology", "import", "babelon", *tables, "--onto", base, "-o", translated)
    for name, spoken in ((FIVE, ("en", *FOREIGN)), (ENGLISH, ("en",))):
        if not whole(shared / name, "terminology"):
            choice = subset.SubsetChoice(languages=spoken, retired=False)
            part = subset.subset(load_terminology(translated), choice)
            store.save(part, shared / name, config={"languages": list(spoken)})
    five = load_terminology(shared / FIVE)
    if not whole(shared / SPLIT, "split"):
        splits.hold_out_concepts(five, fraction=0.1, seed=0).save(shared / SPLIT)
    if not whole(shared / UNLINKED, "terminology"):
        store.save(unlinked(reading.tables_of(five)), shared / UNLINKED, config={"unlinked": five.content_hash})
    scratch_encoder(five, folder / "encoder", **ENCODER, seed=seed, exclude=Split.load(shared / SPLIT).cleaned)


def unlinked(tables: Tables) -> Tables:
    """Return a terminology in which a concept's names of each language are a concept of their own."""
    spoken = tables.terms.with_columns(language=pl.col("language").cast(pl.String).fill_null("en"))
    own = spoken.select("concept", "language").unique(maintain_order=True).with_row_index("row")
    ids = tables.concepts.with_row_index("concept").select(pl.col("concept").cast(pl.Int64), "id", "source")
    own = own.with_columns(pl.col("concept").cast(pl.Int64), pl.col("row").cast(pl.Int64)).join(ids, on="concept")
    own = own.sort("row")
    concepts = own.select(
        id=pl.when(pl.col("language") == "en")
        .then(pl.col("id"))
        .otherwise(pl.format("HP{}:{}", pl.col("language"), pl.col("id").str.split(":").list.last())),
        source="source",
        retired=pl.lit(False),
    )
    places = own.select("concept", "language", "row")
    terms = spoken.with_columns(pl.col("concept").cast(pl.Int64)).join(
        places, on=["concept", "language"], how="left", maintain_order="left"
    )
    terms = terms.with_columns(concept=pl.col("row")).drop("row")
    ends = tables.relations.with_columns(pl.col("head").cast(pl.Int64), pl.col("tail").cast(pl.Int64))
    heads = places.rename({"concept": "head", "row": "new_head"})
    tails = places.rename({"concept": "tail", "row": "new_tail"})
    relations = ends.join(heads, on="head").join(tails, on=["tail", "language"])
    relations = relations.with_columns(head=pl.col("new_head"), tail=pl.col("new_tail"))
    return replace(
        Tables(concepts=concepts, terms=terms, relations=relations.select(tables.relations.columns)),
        parent_relations=tables.parent_relations,
    )


def train(job: Job) -> None:
    """Train one arm."""
    shared = job.data.parent
    job.train(shared / f"{job.arm.name}.terminology", job.data / "encoder", SETTINGS, "--split", shared / SPLIT)


def score(job: Job) -> dict[str, Items]:
    """Score a model by the held-out concepts."""
    shared = job.data.parent
    given = multilingual.questions(load_terminology(shared / FIVE), Split.load(shared / SPLIT))
    right = multilingual.score(TermEncoder.load(str(job.model), precision="fp32"), given)
    found = {tag: accuracies(right[tag]) for tag in FOREIGN if tag in right}
    return {
        "translations": np.concatenate(list(found.values())),
        **found,
        "english": accuracies(right[multilingual.HELD_OUT]),
    }


POINTS: dict[str, Any] = {"scale": 100, "digits": 1}
EXPERIMENT = Experiment(
    name="languages",
    title="CODER in five languages, from scratch",
    arms=(
        Arm("english", "English alone", "coder"),
        Arm("all", "five languages", "coder"),
        Arm("unlinked", "five languages, no links across", "coder"),
    ),
    columns=(
        Column("translations", "translations @1", "", "", **POINTS),
        *(Column(tag, tag, "", "", **POINTS) for tag in FOREIGN),
        Column("english", "English synonyms @1", "", "", **POINTS),
    ),
    claims=(
        Ordering("all", "english", ("translations",), "table 2: CODER_ALL in other languages"),
        Ordering("all", "unlinked", ("translations",), "what is the links'"),
        Ordering("unlinked", "english", ("translations",), "what names without links teach"),
        Ordering("english", "all", ("english",), "table 1: CODER_ENG in English"),
    ),
    seeds=(0, 1, 2),
    prepare=prepare,
    train=train,
    score=score,
    settings={"training": SETTINGS, "encoder": ENCODER, "languages": ["en", *FOREIGN]},
)
