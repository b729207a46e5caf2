"""A terminology of a few concepts, made of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import table
from alphita.terminology.store import Terminology

HERE = Path(__file__).parent
COLUMNS = ("id", "term", "language", "scope", "semantic_type", "definition", "parent", "retired")
Make = Callable[..., Terminology]

ROWS = [
    {
        "id": "T:01",
        "term": "heart disease",
        "semantic_type": "Disorder",
        "definition": "A disorder of the pump that moves blood.",
    },
    {"id": "T:02", "term": "heart valve"},
    {"id": "T:03", "term": "breathlessness", "definition": "Too little air."},
    {"id": "T:03", "term": "dyspnea"},
    {
        "id": "T:04",
        "term": "mitral leak",
        "parent": "T:01",
        "semantic_type": "Disorder",
        "definition": "Mitral leak is a backward flow of blood through a gate that does not close. [PMID:12, TST:ab]",
    },
    {"id": "T:04", "term": "mitral regurgitation"},
    {"id": "T:05", "term": "aortic leak", "parent": "T:01"},
    {"id": "T:06", "term": "old thing", "parent": "T:01", "retired": "1", "definition": "Something nobody speaks of."},
    {"id": "T:07", "term": "lone word"},
    {"id": "T:08", "term": "fuite", "language": "fr", "definition": "Un flux de retour par la valve."},
]
RELATIONS = [
    ("T:04", "has_symptom", "T:03"),
    ("T:04", "finding_site", "T:02"),
    ("T:03", "symptom_of", "T:04"),
    ("T:05", "finding_site", "T:02"),
    ("T:05", "maps_to", "T:07"),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function: rows of terms, relations, a name -> the terminology, opened."""

    def run(
        rows: Sequence[dict[str, str]] = ROWS, relations: Sequence[tuple[str, str, str]] = RELATIONS, name: str = "t"
    ) -> Terminology:
        terms, edges = tmp_path / f"{name}.csv", tmp_path / f"{name}.tsv"
        with open(terms, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, restval="")
            writer.writeheader()
            writer.writerows({"language": "en"} | row for row in rows)
        edges.write_text("\n".join("\t".join(edge) for edge in [("head", "relation", "tail"), *relations]) + "\n")
        files = [terms, edges] if relations else [terms]
        tables = table.load(files, table.Options(), Rejects(None, strict=True))
        store.save(tables, tmp_path / f"{name}.terminology", rejects=Rejects(None, strict=True))
        return store.load_terminology(tmp_path / f"{name}.terminology")

    return run


@pytest.fixture
def small(make: Make) -> Terminology:
    return make()
