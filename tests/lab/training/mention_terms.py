"""A terminology of a few names, for the tests of mentions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from alphita.terminology import store
from alphita.terminology.model import Tables


def terminology_of(rows: Sequence[tuple[str, str, str]], path: Path) -> store.Terminology:
    """Write and open a terminology of (concept, string, language)."""
    terms = pl.DataFrame(rows, schema=["concept", "string", "language"], orient="row").with_columns(source=pl.lit("T"))
    ids = sorted({concept for concept, _, _ in rows})
    concepts = pl.DataFrame({"id": ids}).with_columns(source=pl.lit("T"))
    store.save(Tables(concepts, terms), path)
    return store.load_terminology(path)
