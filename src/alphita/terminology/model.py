"""The data model: `Tables`, in which a loader hands a terminology over, and their way to disk.

Every loader fills the same tables with whatever its format has. `save` gives the concepts their dense rows, checks
every reference, and writes the folder that `store` opens memory-mapped. Files:

concepts.arrow        id (sorted by bytes), name, source      retired.npy       (n_concepts,) bool
terms.arrow           sorted by concept, preferred first      term_concept.npy  (n_terms,) int32
concept_terms.npy     (n_concepts + 1,) int64: offsets of each concept's terms
term_key.npy          (n_terms,) int32: rank of the cleaned string; equal ranks, equal strings
key_terms.npy         (n_terms,) int32: the terms in the order of their ranks
key_offsets.npy       (n_keys + 1,) int64: into key_terms
triples.npy           (n_relations, 3) int32, sorted          triple_source.npy (n_relations,) uint16
head_offsets.npy      (n_concepts + 1,) int64: into triples
tail_triples.npy      (n_relations,) int32: the triples in the order of their tails
tail_offsets.npy      (n_concepts + 1,) int64: into tail_triples
definitions, semantic_types, xrefs, replacements, properties .arrow     sorted by their column `concept` (int32)
aliases.arrow         sorted by alias                         labels.json       relations, their sources, parents
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError, Rejects
from alphita.terminology import arrow_files, text

# Best first: in this order the terms of one concept are kept.
SCOPES = ("exact", "narrow", "broad", "related")
STATUSES = ("official", "candidate", "machine")

MAX_TERM_CHARACTERS = 10_000
MAX_TEXT_CHARACTERS = 60_000
# The semantic type of what a table of products lists.
PRODUCT = "product"

IS_A = "is_a"
XREF = "oboInOwl:hasDbXref"
REPLACED_BY = "replaced_by"
CONSIDER = "consider"

# Spellings of synonym types in the wild -> the word used here. Anything else is kept, in snake_case.
TERM_TYPES = {
    "plural_form": "plural",
    **dict.fromkeys(("layperson_term", "layperson_synonym", "lay_term"), "layperson"),
    "uk_spelling_synonym": "uk_spelling",
    **dict.fromkeys(("obsolete_synonym", "discarded_obsoleted_synonym", "deprecated"), "obsolete"),
}

_REQUIRED = object()
# table -> its columns, and the default of those that may be left out, "-" for null. References are ids or rows.
_COLUMNS = {
    "concepts": "id source retired=False",
    "terms": "concept string language scope=exact preferred=False type=- status=official source code=- term_type=- "
    "reference=-",
    "relations": "head relation tail source",
    "definitions": "concept text language source reference=-",
    "semantic_types": "concept semantic_type code=- source",
    "xrefs": f"concept predicate={XREF} object source",
    "aliases": "concept alias source",
    "replacements": f"concept predicate={REPLACED_BY} object source",
    "properties": "concept name value source",
}


def _column(written: str) -> tuple[str, tuple[Any, Any]]:
    name, given, default = written.partition("=")
    if default == "False":
        return name, (pl.Boolean, False)
    return name, (pl.String, None if default == "-" else default if given else _REQUIRED)


# table -> column -> (type, default); columns without default must be given.
SCHEMAS: dict[str, dict[str, tuple[Any, Any]]] = {
    table: dict(map(_column, columns.split())) for table, columns in _COLUMNS.items()
}
PLACE = {"file": pl.String, "line": pl.Int64}
REFERENCES = ("concept", "head", "tail")
SIDE_TABLES = ("definitions", "semantic_types", "xrefs", "replacements", "properties")


def empty(table: str) -> pl.DataFrame:
    """Return the table of that name with no rows."""
    return pl.DataFrame(schema={name: kind for name, (kind, _) in SCHEMAS[table].items()})


@dataclass
class Tables:
    """What a loader returns. Columns as in `SCHEMAS`; those with a default may be left out.

    Attributes:
        concepts: id (CURIE), source, retired.
        terms: concept, string, language (BCP-47), scope, preferred, type, status, source, code (the concept's code in
            that source, so that `source:code` is a CURIE), term_type (as the source calls it), reference.
        relations: head, relation, tail, source.
        definitions: concept, text, language, source, reference.
        semantic_types: concept, semantic_type, code, source.
        xrefs: concept, predicate (CURIE), object (CURIE in another terminology), source.
        aliases: concept, alias: other ids it answers to.
        replacements: concept (a retired one), predicate "replaced_by" or "consider", object (CURIE).
        properties: concept, name ("subset", "comment", ...), value.
        sources: one dict a file: name, file, version, licence, sha256.
        parent_relations: the relation labels that lead from a concept to its parents.
        dropped: what was left out on purpose, counted; it goes into the manifest.
        source: of all rows of tables without the column `source`.
    """

    concepts: pl.DataFrame
    terms: pl.DataFrame
    relations: pl.DataFrame = field(default_factory=partial(empty, "relations"))
    definitions: pl.DataFrame = field(default_factory=partial(empty, "definitions"))
    semantic_types: pl.DataFrame = field(default_factory=partial(empty, "semantic_types"))
    xrefs: pl.DataFrame = field(default_factory=partial(empty, "xrefs"))
    aliases: pl.DataFrame = field(default_factory=partial(empty, "aliases"))
    replacements: pl.DataFrame = field(default_factory=partial(empty, "replacements"))
    properties: pl.DataFrame = field(default_factory=partial(empty, "properties"))
    sources: list[dict[str, Any]] = field(default_factory=list)
    parent_relations: tuple[str, ...] = (IS_A,)
    dropped: dict[str, int] = field(default_factory=dict)
    source: str | None = None


def too_long(string: str, limit: int = MAX_TERM_CHARACTERS) -> str:
    """Return what is wrong with a string of more than `limit` characters; "" for others."""
    return f"{len(string):,} characters; at most {limit:,} are read" if len(string) > limit else ""


def predicate(replaces: pl.Expr) -> pl.Expr:
    """Return what kind of successor an object of the table `replacements` is: one that replaces, or one to consider."""
    return pl.when(replaces).then(pl.lit(REPLACED_BY)).otherwise(pl.lit(CONSIDER)).alias("predicate")


def successors(targets: pl.DataFrame, replaces: pl.Expr) -> pl.DataFrame:
    """Return concept, predicate and object of the table `replacements`, by concept, those that replace first."""
    targets = targets.with_columns(predicate(replaces))
    targets = targets.sort("concept", pl.col("predicate") == CONSIDER, maintain_order=True)
    return targets.unique(["concept", "object"], keep="first", maintain_order=True).select(
        "concept", "predicate", "object"
    )


def complete(table: str, frame: pl.DataFrame, source: str | None = None) -> pl.DataFrame:
    """Return `frame` with the columns of `SCHEMAS[table]` in order, then file and line if given; defaults filled in."""
    if source is not None and "source" not in frame.columns:
        frame = frame.with_columns(source=pl.lit(source, dtype=pl.Categorical))
    columns = []
    for name, (kind, default) in SCHEMAS[table].items():
        if name not in frame.columns:
            if default is _REQUIRED:
                raise ValueError(f"table {table} lacks the column {name}; it has {frame.columns}")
            columns.append(pl.lit(default, dtype=kind).alias(name))
            continue
        given = frame.schema[name]
        keep = (name in REFERENCES and given.is_integer()) or isinstance(given, (pl.Categorical, pl.Enum))
        column = pl.col(name) if keep or given == kind else pl.col(name).cast(kind)
        columns.append(column if default in (None, _REQUIRED) else column.fill_null(pl.lit(default, dtype=kind)))
    place = [name for name in PLACE if name in frame.columns]
    # `select` of nothing but literals would give one row.
    return frame.with_columns(columns).select([*SCHEMAS[table], *place])


def snake_case(name: str) -> str:
    """Return "Plural form" as "plural_form"; letters keep their marks, in the composed form where there is one."""
    name = unicodedata.normalize("NFC", name.strip().lower())
    if name.isascii():
        return re.sub(r"[^\w]+", "_", name).strip("_")
    # Vowels of Indic scripts are marks, which \w leaves out.
    kept = (sign if sign.isalnum() or unicodedata.category(sign).startswith("M") else "_" for sign in name)
    return re.sub("_+", "_", "".join(kept)).strip("_")


def term_type(name: str) -> str | None:
    """Return a synonym type in the word used here: "plural form" -> "plural"; "" -> None."""
    word = snake_case(name)
    return TERM_TYPES.get(word, word) or None


# --- writing: whole columns are joined, sorted and packed; 15.5 M terms and 88 M relations pass in some GB -----------

KIND = "terminology"
STRINGS_AT_ONCE = 500_000
ROWS_AT_ONCE = 8_000_000
# Stored as dictionary codes: columns of few distinct values.
_FEW_VALUES = ("source", "language", "scope", "type", "status", "term_type", "predicate", "semantic_type")
_DICTIONARY = frozenset({*_FEW_VALUES, "name:properties", "code:semantic_types"})


def save(
    tables: Tables,
    path: Path | str,
    *,
    sources: list[dict[str, Any]] | None = None,
    config: dict[str, Any] | None = None,
    rejects: Rejects | None = None,
    force: bool = False,
    before: Callable[[dict[str, int]], None] = lambda counts: None,
) -> None:
    """Write a terminology folder; it appears whole or not at all."""
    rejects = rejects if rejects is not None else Rejects(None)
    rejected = rejects.count
    # A copy that loses each table when it is written, so that the memory is free again unless the caller holds it.
    tables = replace(tables)
    with artefact.create(Path(path), KIND, force=force) as draft:
        counts = _Writer(draft.path, tables, rejects).write()
        draft.fields.update(
            {
                "counts": counts,
                "sources": tables.sources if sources is None else sources,
                "config": config or {},
                "cleaning_rules": list(text.DEFAULT_RULES),
                "cleaning_version": text.CLEANING_VERSION,
                "dropped": dict(sorted(tables.dropped.items())),
                "rejected_on_saving": rejects.count - rejected,
            }
        )
        before(counts)
        # Whoever finds the folder finds what was left out of it.
        rejects.close()


class _Writer:
    """Writes one folder, table after table; each step frees what it does not need any more."""

    def __init__(self, folder: Path, tables: Tables, rejects: Rejects) -> None:
        self.folder, self.tables, self.rejects = folder, tables, rejects

    def write(self) -> dict[str, int]:
        concepts = self._concepts()
        names = self._terms()
        ids = concepts["id"].to_arrow()
        names = pc.coalesce(names, ids.cast(pa.large_string()))  # a concept without a term shows its id
        columns = {
            "id": _canonical(ids.cast(pa.large_string())),
            "name": _canonical(names),
            "source": _dictionary(concepts["source"]),
        }
        arrow_files.write(self.folder / "concepts.arrow", pa.table(columns))
        n_relations = self._relations()
        counts = {"concepts": self.n, "terms": self.n_terms, "relations": n_relations}
        for name in SIDE_TABLES:
            counts[name] = self._side_table(name, sort="concept")
        counts["aliases"] = self._side_table("aliases", sort="alias")
        return counts

    def _concepts(self) -> pl.DataFrame:
        """Give each concept its row: the rank of its id by bytes."""
        frame = complete("concepts", self.tables.concepts, self.tables.source).with_row_index("place")
        frame = self._refuse(frame, pl.col("id").is_null() | (pl.col("id") == ""), "a concept without id", "id")
        frame = frame.sort("id", maintain_order=True)
        frame = self._refuse(frame, pl.col("id") == pl.col("id").shift(1), "this id was defined before", "id")
        if frame.is_empty():
            raise InputError("no concept is left to save")
        self.n = len(frame)
        self.ids = frame.select("id", row=pl.int_range(self.n, dtype=pl.Int32))
        # From the loader's row numbers to ours.
        self.row_of_place = np.full(len(self.tables.concepts), -1, np.int32)
        self.row_of_place[frame["place"].to_numpy()] = np.arange(self.n, dtype=np.int32)
        _write_npy(self.folder / "retired.npy", frame["retired"].to_numpy().astype(bool))
        return frame.select("id", "source")

    def _terms(self) -> pa.LargeStringArray:
        """Write the terms; return each concept's name: its first term, or null."""
        frame = self._resolved("terms", ["concept"])
        length = pl.col("string").str.len_chars()
        blank = pl.col("string").is_null() | (pl.col("string").str.strip_chars() == "")
        frame = self._refuse(frame, blank, "a term without a string", "string")
        frame = self._refuse(
            frame, length > MAX_TERM_CHARACTERS, f"longer than {MAX_TERM_CHARACTERS:,} characters", "string"
        )
        for column, allowed in (("scope", SCOPES), ("status", STATUSES)):
            unknown = ~pl.col(column).cast(pl.String).is_in(list(allowed))
            frame = self._refuse(frame, unknown, f"unknown {column}; it must be one of {list(allowed)}", column)
        if frame.is_empty():
            raise InputError("no term is left to save")
        concept = frame["concept"].to_numpy()
        order = _packed_order(
            [
                (concept, self.n),
                (~frame["preferred"].to_numpy().astype(bool), 2),
                (_order_codes(frame["scope"], SCOPES), len(SCOPES)),
                (_order_codes(frame["status"], STATUSES), len(STATUSES)),
            ]
        )
        frame, concept = frame.drop("concept", *PLACE, strict=False)[order], concept[order]
        self.n_terms = len(concept)
        offsets = _offsets(concept, self.n)
        _write_npy(self.folder / "term_concept.npy", concept.astype(np.int32))
        _write_npy(self.folder / "concept_terms.npy", offsets)
        strings = frame["string"]
        arrow_files.write(self.folder / "terms.arrow", pa.table(_arrays("terms", frame)))
        del frame
        self._keys(strings)
        first = pa.array(offsets[:-1], mask=np.diff(offsets) == 0)
        return strings.to_arrow().cast(pa.large_string()).take(first)

    def _keys(self, strings: pl.Series) -> None:
        """Write the ranks of the cleaned strings, by which equal strings are found without cleaning them again."""
        cleaned = pl.concat(
            pl.Series(text.clean_many(strings.slice(start, STRINGS_AT_ONCE).to_list()), dtype=pl.String)
            for start in range(0, len(strings), STRINGS_AT_ONCE)
        )
        order = cleaned.arg_sort().to_numpy()
        new = (cleaned[order] != cleaned[order].shift(1)).fill_null(True).to_numpy()
        key = np.empty(len(order), np.int32)
        key[order] = np.cumsum(new, dtype=np.int64) - 1
        n_keys = int(new.sum())
        _write_npy(self.folder / "term_key.npy", key)
        _write_npy(self.folder / "key_terms.npy", _packed_order([(key, n_keys)]).astype(np.int32))
        _write_npy(self.folder / "key_offsets.npy", np.append(np.flatnonzero(new), len(key)).astype(np.int64))

    def _relations(self) -> int:
        frame = self._resolved("relations", ["head", "tail"])
        frame = self._refuse(frame, pl.col("relation").is_null(), "a relation without a label", "relation")
        labels, label = _label_codes(frame["relation"])
        origins, origin = _label_codes(frame["source"])
        head, tail = frame["head"].to_numpy(), frame["tail"].to_numpy()
        del frame
        head, label, tail, origin = _sorted_distinct(
            [(head, self.n), (label, len(labels)), (tail, self.n), (origin, len(origins))]
        )
        triples = np.empty((len(head), 3), np.int32)
        triples[:, 0], triples[:, 1], triples[:, 2] = head, label, tail
        _write_npy(self.folder / "triples.npy", triples)
        _write_npy(self.folder / "triple_source.npy", origin.astype(np.uint16))
        _write_npy(self.folder / "head_offsets.npy", _offsets(head, self.n))
        by_tail = _packed_order([(tail, self.n)])
        _write_npy(self.folder / "tail_triples.npy", by_tail.astype(np.int32))
        _write_npy(self.folder / "tail_offsets.npy", _offsets(tail, self.n))
        parents = [name for name in self.tables.parent_relations if name in labels]
        content = {"relations": labels, "relation_sources": origins, "parent_relations": parents}
        (self.folder / "labels.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        return len(head)

    def _side_table(self, name: str, *, sort: str) -> int:
        frame = self._resolved(name, ["concept"])
        values = [column for column in SCHEMAS[name] if column not in ("concept", "source", "code", "reference")]
        for column in values:
            missing = pl.col(column).is_null() | (pl.col(column).cast(pl.String) == "")
            frame = self._refuse(frame, missing, f"a row of {name} without {column}", column)
        frame = frame.drop(*PLACE, strict=False).unique(maintain_order=True).sort(sort, maintain_order=True)
        n = len(frame)
        arrow_files.write(self.folder / f"{name}.arrow", pa.table(_arrays(name, frame)))
        return n

    def _resolved(self, table: str, references: list[str]) -> pl.DataFrame:
        """Return a table with its concept references as our rows; those that lead nowhere are refused."""
        frame = complete(table, getattr(self.tables, table), self.tables.source)
        setattr(self.tables, table, empty(table))
        for column in references:
            rows = self._rows(frame[column])
            missing = rows.is_null()
            if missing.any():
                problem = f"no concept has this id ({column} of {table})"
                self._report(frame.filter(missing), problem, column)
                frame, rows = frame.filter(~missing), rows.filter(~missing)
            frame = frame.with_columns(rows.alias(column))
        return frame

    def _rows(self, references: pl.Series) -> pl.Series:
        if references.dtype.is_integer():
            place = references.fill_null(-1).to_numpy()
            inside = (place >= 0) & (place < len(self.row_of_place))
            rows = np.where(inside, self.row_of_place[np.where(inside, place, 0)], -1)
            return pl.Series(rows.astype(np.int32)).replace(-1, None)
        ids = references.cast(pl.String).alias("id").to_frame()
        return ids.join(self.ids, on="id", how="left", maintain_order="left")["row"]

    def _refuse(self, frame: pl.DataFrame, bad: pl.Expr, problem: str, field: str) -> pl.DataFrame:
        """Take the rows for which `bad` holds out of `frame` and report each."""
        mask = frame.select(bad.fill_null(False).alias("bad"))["bad"]
        if not mask.any():
            return frame
        self._report(frame.filter(mask), problem, field)
        return frame.filter(~mask)

    def _report(self, frame: pl.DataFrame, problem: str, field: str) -> None:
        for row in frame.select(field, *(name for name in PLACE if name in frame.columns)).iter_rows(named=True):
            value = row.pop(field)
            self.rejects.add(problem, field=field, value=value, **row)


Coded = list[tuple[NDArray[Any], int]]


def _packed(columns: Coded) -> NDArray[np.int64] | None:
    """Return columns (values from 0, number of possible values) as one integer a row; None where 63 bits are too few.

    One sort of integers is several times faster than an argsort.
    """
    space = 1
    for _, size in columns:
        space *= max(size, 1)
    if space >= 2**63:
        return None
    packed = np.zeros(len(columns[0][0]), np.int64)
    for values, size in columns:
        packed *= max(size, 1)
        packed += values
    return packed


def _packed_order(columns: Coded) -> NDArray[np.int64]:
    """Return the stable order that sorts by the columns, the first one first."""
    n = len(columns[0][0])
    packed = _packed([*columns, (np.arange(n), n)])
    if packed is None:
        return np.lexsort([values for values, _ in reversed(columns)])
    packed.sort()
    packed %= max(n, 1)
    return packed


def _sorted_distinct(columns: Coded) -> list[NDArray[np.int32]]:
    """Return the distinct rows of the columns, sorted by the first column first."""
    packed = _packed(columns)
    if packed is None:
        rows = np.unique(np.stack([values for values, _ in columns], axis=1), axis=0)
        return [rows[:, place] for place in range(len(columns))]
    packed.sort()
    repeated = packed[1:] == packed[:-1]
    if repeated.any():
        packed = packed[np.append(True, ~repeated)]
    distinct = []
    for _, size in reversed(columns):
        distinct.append((packed % max(size, 1)).astype(np.int32))
        packed //= max(size, 1)
    return distinct[::-1]


def _offsets(rows: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return (n + 1,) CSR offsets of the rows 0 to n - 1, once sorted."""
    counts = np.zeros(n + 1, np.int64)
    for start in range(0, len(rows), ROWS_AT_ONCE):  # bincount copies its input to int64
        counts[1:] += np.bincount(rows[start : start + ROWS_AT_ONCE], minlength=n)
    return np.cumsum(counts)


def _order_codes(series: pl.Series, order: tuple[str, ...]) -> NDArray[np.int64]:
    values = series.cast(pl.String).replace_strict(list(order), list(range(len(order))), return_dtype=pl.Int64)
    return values.to_numpy()


def _label_codes(series: pl.Series) -> tuple[list[str], NDArray[np.int32]]:
    """Return the distinct values, sorted, and each row's place among them."""
    series = series.cast(pl.Categorical).fill_null("")
    array = series.to_physical()
    names = series.unique().cast(pl.String).sort().to_list()
    if not names:
        return [], np.empty(0, np.int32)
    # Translate through the physical codes: few distinct values, many rows.
    pairs = pl.DataFrame({"code": array, "name": series}).unique("code")
    place = {name: row for row, name in enumerate(names)}
    translate = np.zeros(int(pairs["code"].max()) + 1, np.int32)  # type: ignore[arg-type]
    for code, name in pairs.iter_rows():
        translate[code] = place[name]
    return names, translate[array.to_numpy()]


def _arrays(table: str, frame: pl.DataFrame) -> dict[str, pa.Array]:
    """Return the columns as they are stored, taking each out of the frame, so that no more than one stands twice."""
    columns = {}
    for name in frame.columns:
        few = name in _DICTIONARY or f"{name}:{table}" in _DICTIONARY
        series = frame.drop_in_place(name)
        if few:
            columns[name] = _dictionary(series)
            continue
        array = series.cast(pl.String).to_arrow() if series.dtype in (pl.Categorical, pl.Enum) else series.to_arrow()
        columns[name] = _canonical(array.cast(pa.large_string()) if series.dtype == pl.String else array)
    return columns


def _dictionary(series: pl.Series) -> pa.DictionaryArray:
    """Return the column as dictionary codes of the smallest integer type; the dictionary is sorted."""
    names = series.drop_nulls().unique().cast(pl.String).sort().to_list()
    kind = pa.int8() if len(names) < 127 else pa.int16() if len(names) < 2**15 else pa.int32()
    codes = pc.index_in(series.cast(pl.String).to_arrow().cast(pa.string()), value_set=pa.array(names, pa.string()))
    return pa.DictionaryArray.from_arrays(_canonical(codes.cast(kind)), pa.array(names, pa.string()))


def _canonical(array: pa.Array) -> pa.Array:
    """Return the array in the one form that its values have, so that equal content has equal bytes and one hash."""
    n, kind, valid = len(array), array.type, None
    if n == 0:
        return pa.array([], kind)

    def bits(flags: pa.BooleanArray) -> pa.Buffer:
        return pa.py_buffer(np.packbits(flags.to_numpy(zero_copy_only=False), bitorder="little"))

    if array.null_count:
        valid = bits(array.is_valid())
        array = array.fill_null("" if pa.types.is_large_string(kind) else 0)
    if pa.types.is_large_string(kind):
        _, offsets, content = array.buffers()
        places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + n + 1]
        start, end = int(places[0]), int(places[-1])
        content = pa.py_buffer(b"") if content is None else content.slice(start, end - start)
        values = [pa.py_buffer(places - start if start else places), content]
    elif pa.types.is_boolean(kind):
        values = [bits(array)]
    else:
        values = [pa.py_buffer(array.to_numpy())]
    return pa.Array.from_buffers(kind, n, [valid, *values])


def _write_npy(path: Path, array: NDArray[Any]) -> None:
    np.save(path, np.ascontiguousarray(array), allow_pickle=False)
