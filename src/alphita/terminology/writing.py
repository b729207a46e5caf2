"""Writing a terminology: from a loader's `Tables` to the folder that `store` opens memory-mapped.

Vectorised throughout: joins and sorts of whole columns, packed into one integer where that is faster, so that 15.5 M
terms and 88 M relations pass in some GB. Files:

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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError, Rejects
from alphita.terminology import model, text
from alphita.terminology.model import Tables

KIND = "terminology"
STRINGS_AT_ONCE = 500_000
ROWS_AT_ONCE = 8_000_000
# Stored as dictionary codes: columns of few distinct values.
_FEW_VALUES = ("source", "language", "scope", "type", "status", "term_type", "predicate", "semantic_type")
_DICTIONARY = frozenset({*_FEW_VALUES, "name:properties", "code:semantic_types"})
SIDE_TABLES = ("definitions", "semantic_types", "xrefs", "replacements", "properties")


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
        """Write all files but the manifest; rows that cannot be saved go to the rejects."""
        concepts = self._concepts()
        names = self._terms()
        ids = concepts["id"].to_arrow()
        names = pc.coalesce(names, ids.cast(pa.large_string()))  # a concept without a term shows its id
        columns = {
            "id": _canonical(ids.cast(pa.large_string())),
            "name": _canonical(names),
            "source": _dictionary(concepts["source"]),
        }
        write_arrow(self.folder / "concepts.arrow", columns)
        n_relations = self._relations()
        counts = {"concepts": self.n, "terms": self.n_terms, "relations": n_relations}
        for name in SIDE_TABLES:
            counts[name] = self._side_table(name, sort="concept")
        counts["aliases"] = self._side_table("aliases", sort="alias")
        return counts

    def _concepts(self) -> pl.DataFrame:
        """Give each concept its row: the rank of its id by bytes."""
        frame = model.complete("concepts", self.tables.concepts).with_row_index("place")
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
            frame, length > model.MAX_TERM_CHARACTERS, f"longer than {model.MAX_TERM_CHARACTERS:,} characters", "string"
        )
        for column, allowed in (("scope", model.SCOPES), ("status", model.STATUSES)):
            unknown = ~pl.col(column).cast(pl.String).is_in(list(allowed))
            frame = self._refuse(frame, unknown, f"unknown {column}; it must be one of {list(allowed)}", column)
        if frame.is_empty():
            raise InputError("no term is left to save")
        concept = frame["concept"].to_numpy()
        order = _packed_order(
            [
                (concept, self.n),
                (~frame["preferred"].to_numpy().astype(bool), 2),
                (_places(frame["scope"], model.SCOPES), len(model.SCOPES)),
                (_places(frame["status"], model.STATUSES), len(model.STATUSES)),
            ]
        )
        frame, concept = frame.drop("concept", *model.PLACE, strict=False)[order], concept[order]
        self.n_terms = len(concept)
        offsets = _offsets(concept, self.n)
        _write_npy(self.folder / "term_concept.npy", concept.astype(np.int32))
        _write_npy(self.folder / "concept_terms.npy", offsets)
        strings = frame["string"]
        write_arrow(self.folder / "terms.arrow", _arrays("terms", frame))
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
        labels, label = _coded(frame["relation"])
        origins, origin = _coded(frame["source"])
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
        values = [column for column in model.SCHEMAS[name] if column not in ("concept", "source", "code", "reference")]
        for column in values:
            missing = pl.col(column).is_null() | (pl.col(column).cast(pl.String) == "")
            frame = self._refuse(frame, missing, f"a row of {name} without {column}", column)
        frame = frame.drop(*model.PLACE, strict=False).unique(maintain_order=True).sort(sort, maintain_order=True)
        n = len(frame)
        write_arrow(self.folder / f"{name}.arrow", _arrays(name, frame))
        return n

    def _resolved(self, table: str, references: list[str]) -> pl.DataFrame:
        """Return a table with its concept references as our rows; those that lead nowhere are refused."""
        frame = model.complete(table, getattr(self.tables, table))
        setattr(self.tables, table, model.empty(table))
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
        for row in frame.select(field, *(name for name in model.PLACE if name in frame.columns)).iter_rows(named=True):
            value = row.pop(field)
            self.rejects.add(problem, field=field, value=value, **row)


def _packed_order(columns: list[tuple[NDArray[Any], int]]) -> NDArray[np.int64]:
    """Return the stable order that sorts by the columns, the first one first.

    Args:
        columns: (values, number of possible values) pairs; values count from 0.
    """
    n = len(columns[0][0])
    space = n
    for _, size in columns:
        space *= size
    if space < 2**63:
        # One sort of integers that end in the row number is several times faster than an argsort.
        packed = np.zeros(n, np.int64)
        for values, size in columns:
            packed *= size
            packed += values
        packed *= max(n, 1)
        packed += np.arange(n)
        packed.sort()
        packed %= max(n, 1)
        return packed
    return np.lexsort([values for values, _ in reversed(columns)])


def _sorted_distinct(columns: list[tuple[NDArray[Any], int]]) -> list[NDArray[np.int32]]:
    """Return the distinct rows of the columns, sorted by the first column first."""
    space = 1
    for _, size in columns:
        space *= max(size, 1)
    if space >= 2**63:
        rows = np.unique(np.stack([values for values, _ in columns], axis=1), axis=0)
        return [rows[:, place] for place in range(len(columns))]
    packed = np.zeros(len(columns[0][0]), np.int64)
    for values, size in columns:
        packed *= max(size, 1)
        packed += values
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


def _places(series: pl.Series, order: tuple[str, ...]) -> NDArray[np.int64]:
    values = series.cast(pl.String).replace_strict(list(order), list(range(len(order))), return_dtype=pl.Int64)
    return values.to_numpy()


def _coded(series: pl.Series) -> tuple[list[str], NDArray[np.int32]]:
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
        columns[name] = _dictionary(series) if few else _plain(series)
    return columns


def _plain(series: pl.Series) -> pa.Array:
    array = series.cast(pl.String).to_arrow() if series.dtype in (pl.Categorical, pl.Enum) else series.to_arrow()
    return _canonical(array.cast(pa.large_string()) if series.dtype == pl.String else array)


def _dictionary(series: pl.Series) -> pa.DictionaryArray:
    """Return the column as dictionary codes of the smallest integer type; the dictionary is sorted."""
    names = series.drop_nulls().unique().cast(pl.String).sort().to_list()
    kind = pa.int8() if len(names) < 127 else pa.int16() if len(names) < 2**15 else pa.int32()
    codes = pc.index_in(series.cast(pl.String).to_arrow().cast(pa.string()), value_set=pa.array(names, pa.string()))
    return pa.DictionaryArray.from_arrays(_canonical(codes.cast(kind)), pa.array(names, pa.string()))


def write_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """Write columns as an Arrow file that can be mapped."""
    # One record batch, so that each column is one array when it is mapped.
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _canonical(array: pa.Array) -> pa.Array:
    """Return the array in the one form that its values have, so that equal content has equal bytes and one hash."""
    n = len(array)
    kind = array.type
    if n == 0:
        return pa.array([], kind)
    valid = None
    if array.null_count:
        valid = _bits(array.is_valid())
        array = array.fill_null("" if pa.types.is_large_string(kind) else 0)
    if pa.types.is_large_string(kind):
        _, offsets, content = array.buffers()
        places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + n + 1]
        start, end = int(places[0]), int(places[-1])
        content = pa.py_buffer(b"") if content is None else content.slice(start, end - start)
        values = [pa.py_buffer(places - start if start else places), content]
    elif pa.types.is_boolean(kind):
        values = [_bits(array)]
    else:
        values = [pa.py_buffer(array.to_numpy())]
    return pa.Array.from_buffers(kind, n, [valid, *values])


def _bits(array: pa.BooleanArray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(array.to_numpy(zero_copy_only=False), bitorder="little"))


def _write_npy(path: Path, array: NDArray[Any]) -> None:
    np.save(path, np.ascontiguousarray(array), allow_pickle=False)
