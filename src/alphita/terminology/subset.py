"""A part of a terminology: by source, language, semantic type, descendants of concepts, or a list of ids.

The choices hold together; several values of one choice are alternatives. What is left out is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import textio
from alphita.errors import Rejects, UsageError, shorten
from alphita.registry import unknown
from alphita.terminology import prefixes, reading
from alphita.terminology.languages import among
from alphita.terminology.loaders import _files
from alphita.terminology.model import SIDE_TABLES, Tables
from alphita.terminology.store import Terminology

# Tables of facts of a concept.
FACTS = ("terms", *SIDE_TABLES, "aliases")
# Those that a source is chosen among; what a concept is, and which ids lead to it, stays whoever says so.
OF_SOURCES = ("terms", "definitions", "xrefs", "properties", "relations")


# At the start of a cell or after white space; CURIEs of URIs may have one inside.
_COMMENT = re.compile(r"(?:^|\s+)#.*")


@dataclass(frozen=True)
class SubsetChoice:
    """What to keep; an empty choice keeps everything.

    Sources keep the concepts that are theirs or have a term from them, with their terms, definitions, relations,
    cross-references and properties from these sources, or from a distributor that hands the concept on. The language
    "en" takes "en-GB" too; concepts left without a term are left out. Semantic types are names or codes.
    """

    sources: Collection[str] = ()
    languages: Collection[str] = ()
    semantic_types: Collection[str] = ()
    descendants_of: Collection[str] = ()
    listed: Collection[str] | None = None
    retired: bool = True


def subset(terminology: Terminology, choice: SubsetChoice) -> Tables:
    """Return the part of a terminology that was chosen."""
    tables = reading.tables_of(terminology)
    dropped: Counter[str] = Counter()
    n, kept = terminology.n_concepts, np.ones(terminology.n_concepts, bool)
    if choice.semantic_types:
        kept &= _of_types(tables, choice.semantic_types, n)
    if choice.descendants_of:
        roots = [terminology.resolve(root) for root in choice.descendants_of]
        kept &= _marked(n, [row for root in roots for row in (root, *terminology.descendants(root))])
    if choice.listed is not None:
        kept &= _marked(n, [terminology.resolve(curie) for curie in choice.listed])
    if not choice.retired:
        kept &= ~np.asarray(terminology.retired)
    had_terms = _marked(n, tables.terms["concept"].to_numpy())
    if choice.sources:
        kept &= _of_sources(tables, choice.sources, dropped)
    if choice.languages:
        _keep_languages(tables, choice.languages, dropped)
    if choice.sources or choice.languages:
        has_terms = _marked(n, tables.terms["concept"].to_numpy())
        kept &= has_terms | ~had_terms
    return _restricted(tables, kept, dropped)


def read_list(path: Path, terminology: Terminology, rejects: Rejects) -> list[str]:
    """Read CURIEs, the first cell of each line (tab or comma between cells); "#" begins a comment."""
    rows: dict[str, int] = {}
    first = True
    for number, line in _files.lines(path, "utf-8", rejects):
        cells = textio.line_cells(line, "\t" if "\t" in line else ",")
        cell = _COMMENT.sub("", cells[0].strip() if cells else "")
        if not cell:
            continue
        if prefixes.parse_curie(cell) is not None:
            rows.setdefault(cell, number)
        elif not first:
            rejects.add("not a CURIE", file=path, line=number, value=cell)
        first = False
    known = reading.rows_of(terminology, rows)
    for curie, number in rows.items():
        if curie not in known:
            rejects.add("no concept has this id", file=path, line=number, value=curie)
    return list(known)


def _of_types(tables: Tables, names: Collection[str], n: int) -> NDArray[np.bool_]:
    frame = tables.semantic_types.select(
        "concept", pl.col("semantic_type").cast(pl.String), pl.col("code").cast(pl.String)
    )
    known = set(frame["semantic_type"].unique()) | set(frame["code"].drop_nulls().unique())
    _check("semantic type", names, known)
    chosen = frame.filter(pl.col("semantic_type").is_in(list(names)) | pl.col("code").is_in(list(names)))
    return _marked(n, chosen["concept"].to_numpy())


def _of_sources(tables: Tables, names: Collection[str], dropped: Counter[str]) -> NDArray[np.bool_]:
    """Keep what the sources say, or distributors of them; return the concepts that are theirs or have their terms."""
    wanted = [prefixes.canonical(name) for name in names]
    known = {str(name) for table in ("concepts", "terms") for name in getattr(tables, table)["source"].unique()}
    wanted = [given if given in known else name for given, name in zip(names, wanted, strict=True)]
    _check("source", wanted, known)
    theirs = pl.col("source").cast(pl.String).is_in(wanted)
    own = tables.concepts.select(theirs)["source"].to_numpy()
    handed_on = _handed_on(tables)
    for name in OF_SOURCES:
        frame: pl.DataFrame = getattr(tables, name)
        of = frame["head" if name == "relations" else "concept"].to_numpy()
        chosen = frame.select(theirs)["source"].to_numpy()
        for source in handed_on.keys() & {str(stating) for stating in frame["source"].unique()}:
            chosen = chosen | ((frame["source"].cast(pl.String) == source).to_numpy() & handed_on[source][of])
        _filter(tables, name, pl.lit(pl.Series(chosen)), f"{name} of other sources", dropped)
    return own | _marked(len(own), tables.terms["concept"].to_numpy())


def _handed_on(tables: Tables) -> dict[str, NDArray[np.bool_]]:
    """Return, by source, the concepts that it gives an id, be it an alternative one, but no term."""

    def pairs(name: str, concept: pl.Expr) -> pl.DataFrame:
        frame: pl.DataFrame = getattr(tables, name)
        return frame.select(concept.cast(pl.Int64).alias("concept"), pl.col("source").cast(pl.String)).unique()

    named = pl.concat([pairs("concepts", pl.int_range(pl.len())), pairs("aliases", pl.col("concept"))])
    renamed = named.join(pairs("terms", pl.col("concept")), on=["concept", "source"], how="anti")
    n = len(tables.concepts)
    return {str(source): _marked(n, part["concept"].to_numpy()) for (source,), part in renamed.group_by("source")}


def _keep_languages(tables: Tables, names: Collection[str], dropped: Counter[str]) -> None:
    known = {str(name) for name in tables.terms["language"].unique()}
    _check("language", [name for name in names if not among(known, [name])], known)
    tags = among(known, names)
    for name in ("terms", "definitions"):
        chosen = pl.col("language").cast(pl.String).is_in(tags)
        _filter(tables, name, chosen, f"{name} of other languages", dropped)


def _filter(tables: Tables, name: str, wanted: pl.Expr, what: str, dropped: Counter[str]) -> None:
    frame: pl.DataFrame = getattr(tables, name)
    chosen = frame.filter(wanted)
    setattr(tables, name, chosen)
    if len(chosen) < len(frame):
        dropped[what] += len(frame) - len(chosen)


def _restricted(tables: Tables, kept: NDArray[np.bool_], dropped: Counter[str]) -> Tables:
    """Return the tables of the concepts kept, their rows numbered anew."""
    if not kept.any():
        raise UsageError("nothing is left: no concept fits all the choices")
    place = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    if not kept.all():
        dropped["concepts not chosen"] += int((~kept).sum())
    parts = {name: _moved(getattr(tables, name), ("concept",), place) for name in FACTS}
    relations = _moved(tables.relations, ("head", "tail"), place)
    lost = int(kept[tables.relations["head"].to_numpy()].sum()) - len(relations)
    if lost:
        dropped["relations to concepts not chosen"] += lost
    return replace(
        tables,
        concepts=tables.concepts.filter(kept),
        relations=relations,
        dropped=dict(sorted(dropped.items())),
        **parts,  # type: ignore[arg-type]
    )


def _moved(frame: pl.DataFrame, columns: tuple[str, ...], place: NDArray[np.int32]) -> pl.DataFrame:
    rows = {name: place[frame[name].to_numpy()] for name in columns}
    inside = np.logical_and.reduce([places >= 0 for places in rows.values()])
    return frame.with_columns(pl.Series(name, places) for name, places in rows.items()).filter(inside)


def _marked(n: int, rows: Iterable[int] | NDArray[np.integer]) -> NDArray[np.bool_]:
    mask = np.zeros(n, bool)
    mask[np.asarray(rows, np.int64)] = True
    return mask


def _check(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(shorten(unknown(what, name, sorted(known)), 300))
