"""Vocabularies that lend names: what each calls one thing.

names.parquet        source, id, name, language: the exact names of each concept, the preferred one first; and what
                     `prepared` adds
equivalents.parquet  id, other: two concepts that a vocabulary says are the same
short_forms.tsv      short, long, share, language, english (see `normalizer.clinical`)

The folder models/alphita-names comes with Alphita. Any terminology lends too: one's own synonyms, a licensed
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow.compute as pc

from alphita import artefact
from alphita.errors import InputError
from alphita.index.choice import KIND, shipped_folder
from alphita.terminology.text import DEFAULT_RULES, clean_many

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

NAMES, EQUIVALENTS, SHORT_FORMS = "names.parquet", "equivalents.parquet", "short_forms.tsv"
# The lender that stands for Alphita's own lists: one name may stand in several of its groups, and lends in each.
OURS = "Alphita"
COLUMNS = ("source", "id", "name", "language")
PREPARED = (*COLUMNS, "key", "alone", "first")
# Of a lender whose names end so, they are those of codes, each a class of things: lent to these codes alone.
OF_CODES = "index"
MOST_CHARACTERS = 200


class Lender(NamedTuple):
    """What lends names.

    Attributes:
        names: `PREPARED`; names of one id are synonyms, the preferred one first.
        equivalents: columns id and other: the concept `id`, of any terminology, is the concept `other` of `names`.
        hash: of its content.
    """

    names: pl.DataFrame
    equivalents: pl.DataFrame
    hash: str


def shipped_lender() -> Lender:
    """Return the table of names that comes with Alphita.

    Raises:
        InputError: it is damaged.
    """
    folder = shipped_folder()
    manifest = artefact.verify(folder, KIND)
    try:
        names, equivalents = pl.read_parquet(folder / NAMES), pl.read_parquet(folder / EQUIVALENTS)
        return Lender(names.select(PREPARED), equivalents.select("id", "other"), str(manifest["content_hash"]))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"damaged table of names: {error}", file=folder, remedy="install alphita again") from None


def lender_of(terminology: Terminology) -> Lender:
    """Return a terminology as one that lends."""
    source = str(terminology.manifest.get("sources", [{}])[0].get("name") or terminology.path.stem)
    return Lender(prepared(names_of(terminology, source)), _no_equivalents(), terminology.content_hash)


def names_of(terminology: Terminology, source: str) -> pl.DataFrame:
    """Return the exact names of the live concepts of a terminology that have two or more: `COLUMNS`.

    Args:
        terminology: any.
        source: what reports call it.
    """
    terms = terminology.terms
    frame = pl.DataFrame(
        {
            "concept": terminology.term_concept,
            "name": pl.Series(terms.column("string").cast("large_string").to_pylist(), dtype=pl.String),
            "language": pl.Series(_text(terms, "language"), dtype=pl.String),
            "exact": pc.equal(terms.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False),
            "first": terms.column("preferred").to_numpy(zero_copy_only=False),
            "made": pl.Series(_text(terms, "status"), dtype=pl.String),
        }
    )
    live = ~pl.Series(terminology.retired).cast(pl.Boolean)
    own = frame.filter(pl.col("exact") & (pl.col("made") != "machine").fill_null(True))
    own = own.filter(live.gather(own["concept"])).sort("concept", ~pl.col("first"), maintain_order=True)
    own = own.filter(pl.len().over("concept") > 1)
    ids = pl.Series(terminology.concept_ids.cast("large_string").to_pylist(), dtype=pl.String)
    return own.select(source=pl.lit(source), id=ids.gather(own["concept"]), name="name", language="language")


def prepared(names: pl.DataFrame, rules: Sequence[str] = DEFAULT_RULES) -> pl.DataFrame:
    """Return names with what borrowing asks of them; those that no key is left of, or that are texts, are left out.

    Returns:
        `PREPARED`: key (the cleaned name), alone (whether it leads to its concept: it names no other of its source),
        first (whether it is the preferred one).
    """
    keyed = names.with_columns(key=pl.Series(clean_many(names["name"].to_list(), tuple(rules)), dtype=pl.String))
    keyed = keyed.filter((pl.col("key") != "") & (pl.col("name").str.len_chars() <= MOST_CHARACTERS))
    alone = (pl.col("id").n_unique().over("source", "key") == 1) | (pl.col("source") == OURS)
    number = pl.int_range(pl.len())
    return keyed.with_columns(
        alone=alone & ~pl.col("source").str.ends_with(OF_CODES), first=number == number.min().over("source", "id")
    )


def _text(terms: object, name: str) -> list[str | None]:
    column = terms.column(name) if name in terms.column_names else None  # type: ignore[attr-defined]
    return column.cast("string").to_pylist() if column is not None else [None] * len(terms)  # type: ignore[arg-type]


def _no_equivalents() -> pl.DataFrame:
    return pl.DataFrame({"id": [], "other": []}, schema={"id": pl.String, "other": pl.String})


def together(lenders: Sequence[Lender]) -> Lender:
    """Return several as one."""
    return Lender(
        pl.concat([one.names for one in lenders]),
        pl.concat([one.equivalents for one in lenders]),
        artefact.hash_json([one.hash for one in lenders]),
    )
