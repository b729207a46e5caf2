"""Terminologies of a few terms, for benchmarks that are made of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import obo
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology


def save(path: Path, terms: Sequence[tuple[Any, ...]], **side: Sequence[tuple[Any, ...]]) -> Terminology:
    """Save a terminology of terms; the first of a concept leads, and one that begins with "old " is obsolete."""
    ids = list(dict.fromkeys(term[0] for term in terms))
    columns = ["concept", "string", "language", "status", "scope", "source"]
    frame = pl.DataFrame(list(terms), schema=columns, orient="row")
    first = pl.int_range(pl.len()).over("concept") == 0
    obsolete = pl.when(pl.col("string").str.starts_with("old ")).then(pl.lit("obsolete"))
    frame = frame.with_columns(preferred=first, type=obsolete)
    retired = {one for (one,) in side.pop("retired", [])}
    concepts = pl.DataFrame({"id": ids, "retired": [one in retired for one in ids]}).with_columns(source=pl.lit("T"))
    schemas = {
        "xrefs": ["concept", "predicate", "object"],
        "aliases": ["concept", "alias"],
        "replacements": ["concept", "predicate", "object"],
        "semantic_types": ["concept", "semantic_type"],
    }
    tables = {
        name: pl.DataFrame(list(rows), schema=schemas[name], orient="row").with_columns(source=pl.lit("T"))
        for name, rows in side.items()
    }
    store.save(Tables(concepts, frame, **tables), path, force=True)
    return store.load_terminology(path)


def term(
    concept: str,
    string: str,
    language: str = "en",
    status: str = "official",
    scope: str = "exact",
    source: str = "SNOMEDCT",
) -> tuple[str, ...]:
    return concept, string, language, status, scope, source


def imported(folder: Path, lines: Sequence[str], **options: Any) -> Terminology:
    """Import the stanzas of an OBO file."""
    (folder / "x.obo").write_text("\n".join(["format-version: 1.2", "", *lines]), encoding="utf-8")
    with Rejects() as rejects:
        store.save(obo.load([folder / "x.obo"], obo.Options(**options), rejects), folder / "x.terminology")
    return store.load_terminology(folder / "x.terminology")


def stanza(concept: str, name: str, *lines: str) -> list[str]:
    return ["[Term]", f"id: {concept}", f"name: {name}", *lines, ""]
