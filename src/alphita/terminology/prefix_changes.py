"""A release whose ids changed prefix: the same numbers of the same names, under another one (`ORPHA:58`, `ORDO:58`)."""

from __future__ import annotations

import polars as pl

from alphita.terminology.store import Terminology

# At least so many of the concepts under the old prefix stand under the new one, with their number and name.
LEAST_SHARE = 0.5


def changed_prefixes(old: Terminology, new: Terminology) -> dict[str, str]:
    """Return which prefixes of the old release are which of the new one, which has no id under the old."""
    before, after = _ids(old), _ids(new)
    gone = before.join(after.select("prefix").unique(), on="prefix", how="anti")
    come = after.join(before.select("prefix").unique(), on="prefix", how="anti")
    total = dict(gone.group_by("prefix").len().iter_rows())
    same = gone.join(come, on=["number", "name"], suffix="_now").group_by("prefix", "prefix_now").len()
    best = same.sort("len", "prefix_now", descending=[True, False]).unique("prefix", keep="first", maintain_order=True)
    return {prefix: now for prefix, now, count in best.iter_rows() if count >= LEAST_SHARE * total[prefix]}


def under(curie: str, changed: dict[str, str]) -> str:
    """Return an id under the new prefix of its own; as it is, if that did not change."""
    prefix, colon, number = curie.partition(":")
    return f"{changed[prefix]}:{number}" if colon and prefix in changed else curie


def _ids(terminology: Terminology) -> pl.DataFrame:
    """Return prefix, number and name (in lower case) of each concept."""
    frame = pl.DataFrame(
        {
            "id": pl.Series(terminology.concept_ids.to_pylist(), dtype=pl.String),
            "name": pl.Series(terminology.concept_names.to_pylist(), dtype=pl.String),
        }
    )
    parts = pl.col("id").str.splitn(":", 2)
    return frame.select(
        prefix=parts.struct.field("field_0"),
        number=parts.struct.field("field_1"),
        name=pl.col("name").str.to_lowercase(),
    ).drop_nulls("number")
