"""The data about each concept in an index: enough to explain answers and to filter, without the terminology.

concepts.arrow       id, name, source, definition (the first one), semantic_types (list); kind and billable where the
                     terminology tells them (ICD-10-CM, RxNorm, LOINC); of OMOP vocabularies also
                     domain, vocabulary, concept_class, standard (S, C or null), omop_concept_id (int64) and
                     concept_code (null: what follows the prefix of the id); of laboratory tests also their axes (see
                     `laboratory`)
parents.npy          (p,) int32: the parents of concept c are at parent_offsets[c] up to [c + 1], sorted
parent_offsets.npy   (n_concepts + 1,) int64
known_ids.arrow      every CURIE of a concept, sorted: its own, its aliases, those of retired concepts that it replaces
known_rows.npy       (n_ids,) int32, the concept of each
codes.arrow          id: codes of other vocabularies that are not ids of concepts, sorted; concepts: rows of the
                     concepts of each, ascending (a list of int32), by an `EQUIVALENT` cross-reference, or as the
                     code of an exact term
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index import laboratory
from alphita.terminology import prefixes
from alphita.terminology.prefixes import canonical
from alphita.terminology.store import CODE, DOMAIN, MAPS_TO, STANDARD, VOCABULARY

if TYPE_CHECKING:
    import polars as pl

    from alphita.terminology.store import Terminology

OMOP = "OMOP"
# How the OMOP loader distinguishes its two kinds of semantic types, and our columns.
OMOP_TYPES = {DOMAIN: "domain", "concept_class_id": "concept_class"}
# Properties that say what kind of concept one is, and our columns.
KINDS = {"level": "kind", "billable": "billable"}
# Sources where the type of the preferred term says it, and in which words.
KINDS_OF_TERMS: dict[str, dict[str, str]] = {
    "RXNORM": {},
    "LOINC": {"LONG_COMMON_NAME": "term", "PartDisplayName": "part", "PartName": "part"},
}


class Concepts(NamedTuple):
    """The stored data; see the module."""

    table: pa.Table
    parents: NDArray[np.int32]
    parent_offsets: NDArray[np.int64]
    known_ids: pa.LargeStringArray
    known_rows: NDArray[np.int32]


def replacements(terminology: Terminology) -> NDArray[np.int32]:
    """Return the live concept that replaces each concept: (n_concepts,) int32."""
    retired = np.asarray(terminology.retired, bool)
    stands_for = np.where(retired, -1, np.arange(len(retired))).astype(np.int32)
    table = side(terminology, "replacements")
    if not len(table):
        return stands_for
    table = table.filter(pc.equal(table.column("predicate").cast(pa.string()), "replaced_by"))
    heads, tails = _numbers(table, "concept"), _rows_of(terminology, table.column("object"))
    pairs = np.unique(np.stack([heads, tails], axis=1), axis=0)
    several = np.bincount(pairs[:, 0], minlength=len(retired)) > 1
    pairs = pairs[~several[pairs[:, 0]] & (pairs[:, 1] >= 0) & retired[pairs[:, 0]]]
    following = np.full(len(retired), -1, np.int64)
    following[pairs[:, 0]] = pairs[:, 1]
    end = following.copy()
    # A chain of retired concepts is not longer than their number; a cycle never reaches a live one.
    for _ in range(len(pairs)):
        moving = (end >= 0) & retired[end]
        if not moving.any():
            break
        end[moving] = following[end[moving]]
    end[(end >= 0) & retired[end]] = -1
    stands_for[retired] = end[retired]
    return stands_for


def mapped(terminology: Terminology) -> NDArray[np.int64]:
    """Return pairs (m, 2), in order: live non-standard concepts of OMOP and the standard ones that they map to."""
    properties, xrefs = side(terminology, "properties"), side(terminology, "xrefs")
    if not len(properties) or not len(xrefs):
        return np.zeros((0, 2), np.int64)
    properties = properties.filter(pc.equal(properties.column("name").cast(pa.string()), STANDARD))
    properties = properties.filter(pc.equal(properties.column("value").cast(pa.string()), "S"))
    live = ~np.asarray(terminology.retired, bool)
    standard = np.zeros(len(live), bool)
    standard[_numbers(properties, "concept")] = True
    xrefs = xrefs.filter(pc.equal(xrefs.column("predicate").cast(pa.string()), MAPS_TO))
    heads, tails = _numbers(xrefs, "concept"), _rows_of(terminology, xrefs.column("object"))
    kept = (tails >= 0) & live[heads] & ~standard[heads] & (live & standard)[tails]
    return np.unique(np.stack([heads[kept], tails[kept]], axis=1), axis=0)


def gather(terminology: Terminology, used: NDArray[np.int64], stands_for: NDArray[np.int32]) -> Concepts:
    """Collect the data of some concepts, (n,) their rows in the terminology, ascending."""
    own = np.full(len(stands_for), -1, np.int32)
    own[used] = np.arange(len(used))
    parents, offsets = _parents(terminology, used, own)
    known_ids, known_rows = _known(terminology, own, stands_for)
    return Concepts(_table(terminology, used, own), parents, offsets, known_ids, known_rows)


def _table(terminology: Terminology, used: NDArray[np.int64], own: NDArray[np.int32]) -> pa.Table:
    take = pa.array(used)
    columns = {"id": text(terminology.concept_ids).take(take), "name": text(terminology.concept_names).take(take)}
    sources = getattr(terminology, "concept_sources", None)
    if sources is not None:
        columns["source"] = text(sources).take(take).dictionary_encode()
    definitions = side(terminology, "definitions")
    columns["definition"] = _first(definitions, "text", own, len(used))
    types = side(terminology, "semantic_types")
    columns["semantic_types"] = _list(types, "semantic_type", own, len(used))
    columns |= _kinds(terminology, columns, used, own)
    omop = _omop(terminology, columns, own, types) if sources is not None else {}
    return pa.table(columns | omop | laboratory.columns(terminology, used, side(terminology, "properties"), types))


def _kinds(
    terminology: Terminology, columns: dict[str, pa.Array], used: NDArray[np.int64], own: NDArray[np.int32]
) -> dict[str, pa.Array]:
    """Return the kinds of the concepts, and whether they may be billed, where the terminology tells it."""
    properties = side(terminology, "properties")
    found: dict[str, pa.Array] = {}
    for name, column in KINDS.items() if len(properties) else ():
        is_it = pc.equal(properties.column("name").cast(pa.string()), name)
        found[column] = _first(properties.filter(is_it), "value", own, len(used))
    sources = columns["source"].dictionary.to_pylist() if "source" in columns else ()
    if "term_type" in terminology.terms.column_names and not KINDS_OF_TERMS.keys().isdisjoint(sources):
        concepts = np.asarray(terminology.term_concept)
        first = np.minimum(np.searchsorted(concepts, used), len(concepts) - 1)
        kinds = text(terminology.terms.column("term_type").take(pa.array(first))).to_pylist()
        said = [KINDS_OF_TERMS.get(source) for source in columns["source"].to_pylist()]
        rows = zip(said, kinds, (concepts[first] == used).tolist(), strict=True)
        of_terms = [words.get(kind, kind) if has and words is not None else None for words, kind, has in rows]
        found["kind"] = pc.coalesce(found.get("kind", pa.nulls(len(used), pa.large_string())), text(of_terms))
    return {name: values.dictionary_encode() for name, values in found.items() if values.null_count < len(used)}


def _omop(
    terminology: Terminology, columns: dict[str, pa.Array], own: NDArray[np.int32], types: pa.Table
) -> dict[str, pa.Array]:
    """Return the columns of OMOP vocabularies; none if there are no OMOP vocabularies."""
    n = len(columns["id"])
    numbers = _omop_ids(terminology, columns["id"], own)
    if not numbers.is_valid().to_numpy(zero_copy_only=False).any():
        return {}
    vocabularies = pa.array(map(prefixes.omop_vocabulary, columns["source"].dictionary.to_pylist()), pa.large_string())
    properties = side(terminology, "properties")
    names = properties.column("name").cast(pa.string()) if len(properties) else None

    def said(name: str) -> pa.LargeStringArray:
        return _first(properties if names is None else properties.filter(pc.equal(names, name)), "value", own, n)

    spelt = pc.coalesce(said(VOCABULARY), vocabularies.take(columns["source"].indices))
    prefix_of = {"omop_concept_id": numbers, "vocabulary": spelt.dictionary_encode()}
    codes = types.column("code").cast(pa.string()) if len(types) else None
    for code, name in OMOP_TYPES.items():
        some = types if codes is None else types.filter(pc.equal(codes, code))
        prefix_of[name] = _first(some, "semantic_type", own, n).dictionary_encode()
    return prefix_of | {"standard": said(STANDARD).dictionary_encode(), "concept_code": said(CODE).dictionary_encode()}


def _omop_ids(terminology: Terminology, ids: pa.Array, own: NDArray[np.int32]) -> pa.Array:
    """Return each concept's OMOP id: (n,) int64, null if it has none; the first of several (after a merge)."""
    aliases = side(terminology, "aliases")
    pattern = f"^{OMOP}:[0-9]+$"
    result: NDArray[np.int64] = np.full(len(ids), -1, np.int64)
    if len(aliases):
        aliases = aliases.filter(pc.match_substring_regex(aliases.column("alias"), pattern))
        rows = own[_numbers(aliases, "concept")]
        numbers = pc.utf8_slice_codeunits(aliases.column("alias"), len(OMOP) + 1).cast(pa.int64()).to_numpy()
        result[rows[rows >= 0][::-1]] = numbers[rows >= 0][::-1]
    here = pc.match_substring_regex(ids, pattern).to_numpy(zero_copy_only=False)
    if here.any():
        result[here] = pc.utf8_slice_codeunits(ids.filter(pa.array(here)), len(OMOP) + 1).cast(pa.int64()).to_numpy()
    return pa.array(result, mask=result < 0)


def _parents(
    terminology: Terminology, used: NDArray[np.int64], own: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the nearest ancestors that are also in the index, as CSR; others are skipped."""
    n = len(own)
    triples = np.asarray(getattr(terminology, "triples", np.zeros((0, 3), np.int32)))
    up = triples[np.isin(triples[:, 1], getattr(terminology, "parent_relations", []))]
    child, parent = up[:, 0].astype(np.int64), up[:, 2].astype(np.int64)
    keys = np.unique(child * n + parent)
    child, parent = np.divmod(keys, max(n, 1))
    first = np.searchsorted(child, np.arange(n + 1))
    seen = open_keys = keys[own[child] >= 0]
    while len(open_keys):
        start, passed = np.divmod(open_keys, n)
        through = own[passed] < 0
        start, passed = start[through], passed[through]
        counts = first[passed + 1] - first[passed]
        places = np.arange(counts.sum()) + np.repeat(first[passed] - np.cumsum(counts) + counts, counts)
        # A known pair is not followed again, so that cycles end.
        open_keys = np.setdiff1d(np.repeat(start, counts) * n + parent[places], seen)
        seen = np.union1d(seen, open_keys)
    start, end = np.divmod(seen, max(n, 1))
    kept = (own[end] >= 0) & (start != end)
    start, end = own[start[kept]], own[end[kept]]
    order = np.lexsort((end, start))
    return end[order], np.searchsorted(start[order], np.arange(len(used) + 1)).astype(np.int64)


def _known(
    terminology: Terminology, own: NDArray[np.int32], stands_for: NDArray[np.int32]
) -> tuple[pa.LargeStringArray, NDArray[np.int32]]:
    """Return every id of an indexed concept, sorted, and the concept's position; a concept's own id wins."""
    aliases = side(terminology, "aliases")
    concepts = np.arange(len(own))
    ids = text(terminology.concept_ids)
    if len(aliases):
        ids = pa.concat_arrays([ids, text(aliases.column("alias"))])
        concepts = np.concatenate([concepts, _numbers(aliases, "concept")])
    now = stands_for[concepts]
    rows = np.where(now >= 0, own[now], -1)
    kept = np.flatnonzero(rows >= 0)
    ids, rows = ids.take(pa.array(kept)), rows[kept]
    # Stable: own ids come first, and the first of equal ids is kept.
    order = pc.sort_indices(
        pa.table({"id": ids, "place": np.arange(len(ids))}), [("id", "ascending"), ("place", "ascending")]
    )
    ids, rows = ids.take(order), rows[order.to_numpy()]
    new = np.ones(len(ids), bool)
    new[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    return ids.filter(pa.array(new)), rows[new].astype(np.int32)


def _rows_of(terminology: Terminology, curies: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the row of each id or alias in a terminology, -1 if no concept has it."""
    ids = text(terminology.concept_ids)
    rows = pc.fill_null(pc.index_in(curies, value_set=ids), -1).to_numpy().astype(np.int64)
    aliases = side(terminology, "aliases")
    if len(aliases):
        place = pc.fill_null(pc.index_in(curies, value_set=text(aliases.column("alias"))), -1).to_numpy()
        by_alias = (rows < 0) & (place >= 0)
        rows[by_alias] = _numbers(aliases, "concept")[place[by_alias]]
    return rows


def _first(table: pa.Table, column: str, own: NDArray[np.int32], n: int) -> pa.LargeStringArray:
    """Return the first value of each concept in a side table: (n,), null if there is none."""
    if not len(table):
        return pa.nulls(n, pa.large_string())
    rows = own[_numbers(table, "concept")]
    place = np.full(n, -1, np.int64)
    kept = np.flatnonzero(rows >= 0)[::-1]
    place[rows[kept]] = kept
    return text(table.column(column)).take(pa.array(place, mask=place < 0))


def _list(table: pa.Table, column: str, own: NDArray[np.int32], n: int) -> pa.ListArray:
    """Return the distinct values of each concept in a side table, in their order: (n,) lists of strings."""
    if not len(table):
        return pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()))
    rows = own[_numbers(table, "concept")]
    values = table.column(column).cast(pa.string()).combine_chunks()
    kept = np.flatnonzero((rows >= 0) & values.is_valid().to_numpy(zero_copy_only=False))
    codes = values.dictionary_encode().indices.to_numpy(zero_copy_only=False)[kept].astype(np.int64)
    _, first = np.unique(rows[kept] * (codes.max(initial=0) + 1) + codes, return_index=True)
    kept = kept[np.sort(first)]
    kept = kept[np.argsort(rows[kept], kind="stable")]
    offsets = np.searchsorted(rows[kept], np.arange(n + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(kept)))


def text(values: object) -> pa.LargeStringArray:
    """Return strings, of any Arrow type or as a list, as one array."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(pa.large_string()) if isinstance(values, pa.Array) else pa.array(values, pa.large_string())


def _numbers(table: pa.Table, column: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table.column(column).to_numpy().astype(np.int64)
    return numbers


def side(terminology: Terminology, name: str) -> pa.Table:
    """Return a side table; an empty one if the terminology has none."""
    side_table = getattr(terminology, "side_table", None)
    return side_table(name) if side_table is not None else pa.table({})


# Predicates by which a terminology states that its concept equals one of another vocabulary.
EQUIVALENT = ["exactmatch", "exact_match", "hasdbxref", "xref", "equivalentto", "equivalent_to", "equivalentclass"]
EQUIVALENT += ["code"]


def equivalents(terminology: Terminology) -> pl.DataFrame:
    """Return concept (its row in the terminology) and other (CURIE) for each stated equivalence."""
    # Imported here, because opening an index does not need polars.
    import polars as pl

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


def codes_of(terminology: Terminology, terms: pa.Table, kept: Concepts, own: NDArray[np.int32]) -> pa.Table:
    """Return the codes of the concepts of an index, see the module; `own` as in `gather`."""
    import polars as pl

    stated = equivalents(terminology)
    stated = stated.with_columns(concept=pl.Series(own[stated["concept"].to_numpy()], dtype=pl.Int32))
    codes = pl.concat([stated.select("concept", id="other"), _of_terms(terms)])
    known = pl.Series("id", kept.known_ids, dtype=pl.String)
    codes = codes.filter((pl.col("concept") >= 0) & ~pl.col("id").is_in(known.implode()))
    codes = codes.unique().sort("id", "concept").group_by("id", maintain_order=True).agg("concept")
    concepts = codes["concept"].to_arrow().cast(pa.list_(pa.int32()))
    return pa.table({"id": codes["id"].to_arrow().cast(pa.large_string()), "concepts": concepts})


def _of_terms(terms: pa.Table) -> pl.DataFrame:
    """Return concept and id of the codes of exact terms of live concepts."""
    import polars as pl

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
