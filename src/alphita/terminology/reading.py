"""Reading a stored terminology back into `Tables`, so that rows can be added and a new one saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from alphita.errors import UsageError
from alphita.terminology import model, prefixes
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology, load_terminology


def open_base(onto: str, format_: str) -> Terminology:
    """Open the terminology that a format adds to."""
    if not onto:
        raise UsageError(f"{format_} adds to a terminology; name it: --onto BASE.terminology")
    return load_terminology(onto)


def tables_of(terminology: Terminology) -> Tables:
    """Return all that a terminology holds; its rows are those of `concepts`, so references are integers.

    Saved again without a change it holds the same.
    """
    concepts = pl.DataFrame(
        {
            "id": _series(terminology.concept_ids),
            "source": _series(terminology.concept_sources),
            "retired": pl.Series(np.asarray(terminology.retired)),
        }
    )
    parents = tuple(terminology.relation_labels[label] for label in terminology.parent_relations)
    side = {name: _frame(terminology.side_table(name)) for name in (*model.SIDE_TABLES, "aliases")}
    return Tables(
        concepts=concepts,
        terms=_frame(terminology.terms).insert_column(0, pl.Series("concept", np.asarray(terminology.term_concept))),
        relations=_relations(terminology),
        sources=[dict(source) for source in terminology.manifest.get("sources", [])],
        parent_relations=parents or (model.IS_A,),
        dropped=dict(terminology.manifest.get("dropped", {})),
        **side,  # type: ignore[arg-type]
    )


def added(frame: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with `rows` below it; columns that one of them lacks are null there, and types are made alike."""
    if rows.is_empty():
        return frame
    types = {
        name: pl.Categorical() if isinstance(kind, (pl.Categorical, pl.Enum)) else kind
        for name, kind in frame.schema.items()
    }
    rows = rows.cast({name: types[name] for name in rows.columns if name in types})
    return pl.concat([frame.cast(types), rows], how="diagonal")  # type: ignore[arg-type]


def rows_of(terminology: Terminology, curies: Iterable[str]) -> dict[str, int]:
    """Return the row of each CURIE that a concept answers to, by its id or else by an alternative id."""
    wanted = list(dict.fromkeys(curies))
    normal = pa.array([prefixes.normalize(curie) for curie in wanted], pa.large_string())
    aliases = terminology.side_table("aliases")
    names, owners = aliases.column("alias").combine_chunks(), aliases.column("concept").to_numpy()
    by_id = _places(normal, terminology.concept_ids)
    by_alias = _places(normal, names.cast(pa.large_string()))
    rows: dict[str, int] = {}
    for curie, row, alias in zip(wanted, by_id, by_alias, strict=True):
        if row >= 0:
            rows[curie] = row
        elif alias >= 0:
            rows[curie] = int(owners[alias])
    return rows


def _places(strings: pa.LargeStringArray, among: pa.LargeStringArray) -> list[int]:
    """Return the first place of each string in `among`; -1 where it is not there."""
    # The hash table is of the few strings asked for, not of the millions of ids.
    hits = pc.index_in(among, value_set=strings)
    rows = np.flatnonzero(pc.is_valid(hits).to_numpy(zero_copy_only=False))
    codes = hits.drop_null().to_numpy()
    places = np.full(len(strings), -1, np.int64)
    places[codes[::-1]] = rows[::-1]  # the first one is written last
    first = {string: place for string, place in zip(strings.to_pylist(), places.tolist(), strict=True) if place >= 0}
    # Two spellings of one id normalise to the same string, and only one of them is in the hash table.
    return [first.get(string, -1) for string in strings.to_pylist()]


def _relations(terminology: Terminology) -> pl.DataFrame:
    triples = np.asarray(terminology.triples)
    source, names = terminology.triple_sources
    return pl.DataFrame(
        {
            "head": pl.Series(triples[:, 0]),
            "relation": _coded(triples[:, 1], terminology.relation_labels),
            "tail": pl.Series(triples[:, 2]),
            "source": _coded(np.asarray(source), names),
        }
    )


def _coded(codes: np.ndarray[Any, Any], names: list[str]) -> pl.Series:
    """Return names[codes] as a Categorical column, without a string per row."""
    return _series(pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string())))


def _frame(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame({name: _series(table.column(name).combine_chunks()) for name in table.column_names})


def _series(array: pa.Array) -> pl.Series:
    series = pl.Series(array)
    return series.cast(pl.Categorical) if isinstance(series.dtype, pl.Enum) else series
