"""Small terminologies whose relations a graph model can learn."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from alphita import registry
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology

MODELS = registry.names("alphita_lab.graph.models")
STEPS = {"next": 1, "skips": 5, "far": 9}


def ring(folder: Path, n: int = 40, aliases: dict[str, str] | None = None) -> Terminology:
    """Write and open n concepts in a ring; a relation leads a fixed number of places on, and "before" turns next round.

    "seldom" has two triples, and one concept, retired, has a triple of its own. `aliases` are old ids of concepts.
    """
    ids = [f"R:{number:03d}" for number in range(n)]
    rows = [(ids[i], name, ids[(i + step) % n]) for name, step in STEPS.items() for i in range(n)]
    rows += [(ids[(i + 1) % n], "before", ids[i]) for i in range(n - 1)]
    rows += [
        (ids[0], "seldom", ids[2]),
        (ids[1], "seldom", ids[3]),
        (ids[4], "next", ids[4]),
        ("R:old", "next", ids[0]),
    ]
    concepts = pl.DataFrame({"id": [*ids, "R:alone", "R:old"]}).with_columns(
        source=pl.lit("R"), retired=pl.col("id") == "R:old"
    )
    terms = pl.DataFrame({"concept": [*ids, "R:alone"]}).with_columns(
        string=pl.concat_str(pl.lit("place "), "concept"), language=pl.lit("en"), source=pl.lit("R")
    )
    relations = pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").with_columns(source=pl.lit("R"))
    tables = Tables(concepts, terms, relations)
    if aliases:
        tables.aliases = pl.DataFrame({"alias": [*aliases], "concept": [*aliases.values()]}).with_columns(
            source=pl.lit("R")
        )
    store.save(tables, folder)
    return store.load_terminology(folder)
