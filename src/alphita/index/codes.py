"""Codes of other vocabularies: which concepts a terminology says they are.

codes.arrow     id: the CURIEs, sorted and distinct, without those that a concept answers to itself; concepts: the rows
                of the concepts that each is, ascending (a list of int32)

A code is a concept by a cross-reference that says so (`EQUIVALENT`), or as the code of one of its exact terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from alphita.index.concepts import Concepts, side
from alphita.terminology.prefixes import canonical

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

# Predicates by which a terminology says that a concept of its own is another vocabulary's.
EQUIVALENT = (
    "exactmatch",
    "exact_match",
    "hasdbxref",
    "xref",
    "equivalentto",
    "equivalent_to",
    "equivalentclass",
    "code",
)


def equivalents(terminology: Terminology) -> pl.DataFrame:
    """Return concept (its row in the terminology) and other (CURIE): what the terminology says is the same."""
    table = side(terminology, "xrefs")
    if not len(table):
        return pl.DataFrame(schema={"concept": pl.Int32, "other": pl.String})
    frame = pl.DataFrame(
        {
            "concept": table.column("concept").to_numpy().astype(np.int32),
            "predicate": pl.Series(table.column("predicate").cast("string").to_pylist(), dtype=pl.String),
            "other": pl.Series(table.column("object").cast("string").to_pylist(), dtype=pl.String),
        }
    )
    kind = pl.col("predicate").str.split(":").list.last().str.to_lowercase()
    return frame.filter(kind.is_in(EQUIVALENT)).select("concept", "other")


def gather(terminology: Terminology, terms: pa.Table, kept: Concepts, own: NDArray[np.int32]) -> pa.Table:
    """Return the codes of the concepts that an index keeps; see the module.

    Args:
        own: (n_concepts,) the row in the index of each concept of the terminology, -1 where it has none.
    """
    stated = equivalents(terminology)
    stated = stated.with_columns(concept=pl.Series(own[stated["concept"].to_numpy()], dtype=pl.Int32))
    found = pl.concat([stated.select("concept", id="other"), _of_terms(terms)])
    known = pl.Series("id", kept.known_ids, dtype=pl.String)
    found = found.filter((pl.col("concept") >= 0) & ~pl.col("id").is_in(known.implode()))
    found = found.unique().sort("id", "concept").group_by("id", maintain_order=True).agg("concept")
    concepts = found["concept"].to_arrow().cast(pa.list_(pa.int32()))
    return pa.table({"id": found["id"].to_arrow().cast(pa.large_string()), "concepts": concepts})


def _of_terms(terms: pa.Table) -> pl.DataFrame:
    """Return concept and id of the codes that exact terms of concepts that are not retired bring along."""
    if not {"source", "code", "scope"} <= set(terms.column_names):
        return pl.DataFrame(schema={"concept": pl.Int32, "id": pl.String})
    frame = pl.DataFrame(
        {
            "concept": terms.column("concept").to_numpy(),
            "retired": pl.Series(terms.column("retired_concept").is_valid().to_numpy()),
            **{
                name: pl.Series(name, terms.column(name).cast("string").combine_chunks(), dtype=pl.String)
                for name in ("source", "code", "scope")
            },
        }
    )
    frame = frame.filter((pl.col("scope") == "exact") & ~pl.col("retired")).drop_nulls(["source", "code"])
    spelt = {source: canonical(source) for source in frame["source"].unique().to_list()}
    prefix = pl.col("source").replace(spelt) + ":"
    code = pl.when(pl.col("code").str.starts_with(prefix)).then("code").otherwise(prefix + pl.col("code"))
    return frame.select("concept", id=code)
