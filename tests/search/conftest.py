"""A few products of a pharmacy that does not exist, and an encoder that has a projection beside its weights."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from alphita.errors import Rejects
from alphita.search import store
from alphita.search.projection import FILE
from alphita.terminology.loaders import products
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology, load_terminology, save
from tests.doubles import HashEncoder

ROWS = [
    ("Otocalm ear drops 5 ml", "indication", "tympanitis|earache"),
    ("Otocalm ear drops 5 ml", "route", "auricular"),
    ("Cefadrel tablets 200 mg", "indication", "tympanitis|Bronchitis"),
    ("Cefadrel tablets 200 mg", "route", "oral"),
    ("Motiral capsules 5 mg", "indication", "nausea"),
    ("Motiral capsules 5 mg", "route", "oral"),
    ("Motiral capsules 5 mg", "main_ingredient", "motiride"),
    ("Tympan balm", "indication", "dry skin"),
    ("Tympan balm", "route", "cutaneous"),
    ("Nasalin spray", "indication", "nasal congestion"),
    ("Nasalin spray", "route", "nasal"),
]


def products_of(rows: Sequence[tuple[str, str, str]], folder: Path, **options: str) -> Terminology:
    """Import rows of title, attribute and values as a terminology."""
    table = folder.with_suffix(".csv")
    with open(table, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("title", "attribute_name", "attribute_values"), *rows])
    with Rejects() as rejects:
        save(products.load([table], products.Options(**options), rejects), folder)
    assert options or not rejects.count
    return load_terminology(folder)


class ProjectingEncoder(HashEncoder):
    """An encoder with a folder, in which there may be a projection; its vectors are not of length 1."""

    def __init__(self, folder: Path, dim: int = 64):
        super().__init__(dim)
        self.folder = folder

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        return 3 * super().encode(strings)


def write_projection(folder: Path, dim: int = 64, out: int = 16, **config: object) -> tuple[np.ndarray, np.ndarray]:
    """Write a projection of random weights, and a record of training where there are settings."""
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(out, dim)).astype(np.float32) / np.float32(np.sqrt(dim))
    bias = rng.normal(size=out).astype(np.float32)
    save_file({"dense.weight": weight, "dense.bias": bias}, folder / FILE)
    if config:
        (folder / "training.json").write_text(json.dumps({"recipe": "electra_em_pap", "config": config}))
    return weight, bias


@pytest.fixture(scope="session")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return products_of(ROWS, tmp_path_factory.mktemp("products") / "p.terminology")


@pytest.fixture(scope="session")
def plain(terminology: Terminology, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search folder of a model without a projection."""
    path = tmp_path_factory.mktemp("plain") / "p.search"
    store.build(terminology, HashEncoder(), path)
    return path


@pytest.fixture(scope="session")
def projecting(tmp_path_factory: pytest.TempPathFactory) -> ProjectingEncoder:
    folder = tmp_path_factory.mktemp("model")
    write_projection(folder, gamma=2.5)
    return ProjectingEncoder(folder)


@pytest.fixture(scope="session")
def projected(
    terminology: Terminology, projecting: ProjectingEncoder, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A search folder of a model with a projection."""
    path = tmp_path_factory.mktemp("projected") / "p.search"
    store.build(terminology, projecting, path)
    return path


def save_bilingual(
    english: Sequence[tuple[str, str]],
    italian: Sequence[tuple[str, str]],
    triples: Sequence[tuple[str, str, str]],
    path: Path,
):
    """Save a terminology of concepts (id, name) with preferred English names and some Italian ones."""
    terms = pl.concat(
        pl.DataFrame(rows, schema=["concept", "string"], orient="row").with_columns(
            language=pl.lit(language), preferred=pl.lit(language == "en"), source=pl.lit("T")
        )
        for language, rows in (("en", english), ("it", italian))
    )
    relations = pl.DataFrame(triples, schema=["head", "relation", "tail"], orient="row")
    concepts = pl.DataFrame({"id": [row[0] for row in english]}).with_columns(source=pl.lit("T"))
    save(Tables(concepts, terms, relations.with_columns(source=pl.lit("T"))), path)
