"""Names that an index borrows: what other vocabularies call the concepts of its terminology.

A concept and one of a lender are the same if an exact name of the one is, cleaned, a name of that one alone in the
lender's vocabulary, or if their ids are the same, or the terminology or the lender says that they are equivalent. Then
the concept gets the other names, unless a name is one of the terminology's own, or would come to two of its concepts.
Left out too is what adds nothing: a plural, or the words of another name in another order.

A short form among them ("DM") is no name: it has other meanings. It becomes a meaning of a short form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.codes import equivalents
from alphita.index.lenders import COLUMNS, OF_CODES, prepared
from alphita.index.segment import BORROWED_STANDING, Content
from alphita.terminology.text import DEFAULT_RULES, plain_words

if TYPE_CHECKING:
    from alphita.index.lenders import Lender
    from alphita.terminology.store import Terminology

# "DM", "T2DM", "HbA1c", "cpc", "crd", but neither "Zika" nor "itch".
_SHORT = re.compile(r"(?=(.*[A-Z0-9]){2})(?=.*[A-Za-z])[A-Za-z0-9/+&.-]{2,6}|[a-z]{2,3}|[b-df-hj-np-tv-xz]{4,5}")


class Borrowed(NamedTuple):
    """What is borrowed.

    Attributes:
        names: concept (row), key (the cleaned name), name, source, language, via (the concept's name that it stands
            behind): at most one row for a concept and key.
        short_forms: short, long, source: short forms that a lender has among a concept's names.
        report: counts, for the manifest.
    """

    names: pl.DataFrame
    short_forms: list[tuple[str, str, str]]
    report: dict[str, Any]


def borrow(content: Content, terminology: Terminology, lender: Lender, rules: Sequence[str]) -> Borrowed:
    """Find the names that a terminology's concepts can borrow.

    Args:
        content: the strings and terms that the index has of its own.
        terminology: says which concepts are equivalent to others.
        lender: what lends.
        rules: names of the cleaning rules of the index.
    """
    own = _own(content)
    lent = lender.names if tuple(rules) == DEFAULT_RULES else prepared(lender.names.select(COLUMNS), rules)
    lent = lent.with_row_index("order")
    links = _links(content, terminology, lender, own, lent)
    found = links.join(lent, on=["source", "id"], how="inner")
    found = found.sort("concept", "order").unique(["concept", "key"], keep="first", maintain_order=True)
    total = len(found)
    found = found.join(own.select("key").unique(), on="key", how="anti", maintain_order="left")
    is_short = pl.Series([_SHORT.fullmatch(name) is not None for name in found["name"].to_list()], dtype=pl.Boolean)
    short = found.filter(is_short)
    found = found.filter(~is_short).filter(pl.col("concept").n_unique().over("key") == 1)
    found = _adding(found, own)
    report = {
        "hash": lender.hash,
        "names": len(found),
        "concepts": found["concept"].n_unique(),
        "linked": links["concept"].n_unique(),
        "left_out": total - len(found),
        "by_source": dict(found.group_by("source").len().sort("source").iter_rows()),
    }
    short_forms = list(short.select("name", "via", "source").iter_rows())
    return Borrowed(found.select("concept", "key", "name", "source", "language", "via"), short_forms, report)


def extended(content: Content, names: pl.DataFrame) -> Content:
    """Return what a segment holds of its own with borrowed names, `Borrowed.names`, none of which is a string of it."""
    if not len(names):
        return content
    keys = names["key"].unique().to_arrow().cast(pa.large_string())
    every = pa.concat_arrays([content.strings, keys])
    strings = every.take(pc.sort_indices(every))
    places = pc.index_in(every, value_set=strings).to_numpy(zero_copy_only=False)
    own = np.repeat(places[: len(content.strings)], np.diff(content.offsets))
    new = pc.index_in(names["key"].to_arrow().cast(pa.large_string()), value_set=strings)
    string = np.concatenate([own, new.to_numpy(zero_copy_only=False)]).astype(np.int64)
    given = {
        "string": names["name"],
        "concept": names["concept"],
        "language": names["language"],
        "source": names["source"],
        "scope": ["exact"] * len(names),
        "preferred": [False] * len(names),
    }
    columns = {}
    for name in content.terms.column_names:
        before = content.terms.column(name)
        plain = before.cast(before.type.value_type) if pa.types.is_dictionary(before.type) else before
        added = pa.array(given[name], plain.type) if name in given else pa.nulls(len(names), plain.type)
        both = pa.concat_arrays([*plain.chunks, added])
        columns[name] = both.dictionary_encode() if pa.types.is_dictionary(before.type) else both
    via = pa.array(names["via"], pa.large_string())
    columns["borrowed_as"] = pa.concat_arrays([pa.nulls(len(content.terms), pa.large_string()), via])
    standing = np.concatenate([content.standing, np.full(len(names), BORROWED_STANDING, np.uint8)])
    order = np.argsort(string, kind="stable")
    offsets = np.searchsorted(string[order], np.arange(len(strings) + 1)).astype(np.int64)
    terms = pa.table(columns).take(pa.array(order))
    return content._replace(strings=strings, offsets=offsets, terms=terms, standing=standing[order])


def _own(content: Content) -> pl.DataFrame:
    """Return concept, key, name, whether it is exact and the terminology's own, for each term; best standing first."""
    terms = content.terms
    string = np.repeat(np.arange(len(content.strings)), np.diff(content.offsets))
    scope = terms.column("scope").cast("string") if "scope" in terms.column_names else None
    exact = np.ones(len(terms), bool) if scope is None else _true(pc.equal(scope, "exact"))
    exact &= _true(pc.is_null(terms.column("retired_concept")))
    frame = pl.DataFrame(
        {
            "concept": terms.column("concept").to_numpy(),
            "string": string,
            "exact": exact,
            "standing": content.standing,
            "key": pl.Series("key", content.strings.take(pa.array(string))),
            "name": pl.from_arrow(terms.column("string").combine_chunks()),
        }
    )
    return frame.sort("concept", "standing", maintain_order=True)


def _links(
    content: Content, terminology: Terminology, lender: Lender, own: pl.DataFrame, lent: pl.DataFrame
) -> pl.DataFrame:
    """Return which concept is which of the lender's: concept, source, id, via."""
    ids = pl.from_arrow(content.concepts.table.column("id").combine_chunks())
    name = pl.from_arrow(content.concepts.table.column("name").combine_chunks())
    concepts = pl.DataFrame({"concept": np.arange(len(ids), dtype=np.int32), "own_id": ids, "label": name})
    leading = lent.filter("alone").select("key", "source", "id", "first")
    named = own.filter("exact").join(leading, on="key", how="inner")
    named = named.with_columns(
        strength=2 * pl.col("first").cast(pl.Int8) + (pl.col("standing") == 0).cast(pl.Int8)
    ).sort("concept", "strength", descending=[False, True], maintain_order=True)
    named = named.unique(["concept", "source", "id"], keep="first", maintain_order=True)
    # Where a lender counts several of the concepts as one, the one that it is named for has its names.
    best = pl.col("strength") == pl.col("strength").max().over("source", "id")
    named = named.filter(best).filter(pl.len().over("source", "id") == 1)
    named = named.select("concept", "source", "id", via="name")
    of_ids = lent.select("source", "id").unique()
    told = [
        _stated(terminology),
        lender.equivalents.rename({"id": "own_id"}),
        concepts.select("own_id", other="own_id"),
    ]
    same = pl.concat(told).unique().rename({"other": "id"}).join(of_ids, on="id", how="inner")
    same = same.join(concepts, on="own_id", how="inner")
    # A statement by which one concept is two others, or two are one, says less than that they are the same.
    alone = (pl.len().over("concept", "source") == 1) & (pl.len().over("source", "id") == 1)
    same = same.filter(alone).select("concept", "source", "id", via="label")
    links = pl.concat([named, same.cast({"concept": pl.Int32})]).unique(
        ["concept", "source", "id"], keep="first", maintain_order=True
    )
    # A vocabulary does not borrow from itself, but an index of its codes lends to them.
    links = links.join(concepts, on="concept", how="inner", maintain_order="left")
    itself = pl.col("own_id").str.split(":").list.first() == pl.col("id").str.split(":").list.first()
    itself &= (pl.col("own_id") != pl.col("id")) | ~pl.col("source").str.ends_with(OF_CODES)
    return links.filter(~itself).select("concept", "source", "id", "via")


def _stated(terminology: Terminology) -> pl.DataFrame:
    """Return own_id and other of what the terminology says is equivalent."""
    frame = equivalents(terminology)
    ids = pl.Series(terminology.concept_ids.cast("large_string").to_pylist() if len(frame) else [], dtype=pl.String)
    return frame.select(own_id=ids.gather(frame["concept"]), other="other")


def _adding(found: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Leave out names whose words are those of another name of the concept, but for their order and number."""
    some = own.filter(pl.col("concept").is_in(found["concept"].unique().to_list())).select("concept", "key")
    known = some.select("concept", words=_words(some["key"])).unique()
    told = found.with_columns(words=_words(found["key"]))
    told = told.join(known, on=["concept", "words"], how="anti", maintain_order="left")
    return told.unique(["concept", "words"], keep="first", maintain_order=True)


def _words(keys: pl.Series) -> pl.Series:
    return pl.Series("words", [" ".join(sorted(plain_words(key))) for key in keys.to_list()], dtype=pl.String)


def _true(values: Any) -> NDArray[np.bool_]:  # noqa: ANN401 - a boolean array, chunked or not
    return np.array(pc.fill_null(values, False).to_numpy(zero_copy_only=False), bool)
