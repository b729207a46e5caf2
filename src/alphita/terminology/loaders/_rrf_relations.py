"""Relations of a release in Rich Release Format, as rows of the concepts: 88 million of them in UMLS."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.terminology import model, prefixes
from alphita.terminology.loaders._rrf_ids import Int32
from alphita.terminology.loaders._rrf_sieve import Sieve
from alphita.terminology.loaders._rrf_terms import Terms

COLUMNS = ["CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"]
# Two bytes a relation instead of four, for 88 M of them.
_LABELS = pl.Categorical(pl.Categories("relation", "alphita", physical=pl.UInt16))
_SOURCES = pl.Categorical(pl.Categories("source", "alphita", physical=pl.UInt16))


def read_relations(
    sieve: Sieve, terms: Terms, label: str, *, self_relations: bool
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Read the relations as places of the concepts: REL reads from the second concept to the first.

    Args:
        sieve: of the release.
        terms: its terms, read before.
        label: "rel" or "rela" (the other one where it is empty), or "both" (REL:RELA, or the one that is there).
        self_relations: keep those between two terms of one concept.

    Returns:
        The table `relations`, and those of its labels that lead from a concept to its parents.
    """
    name = sieve.dialect.relations
    columns = COLUMNS + (["AUI1", "AUI2"] if sieve.dialect.atom_relations else [])
    heads, tails, labels, sources = [], [], [], []
    for frame in sieve.release.blocks(name, columns):
        unnamed = (pl.col("REL") == "") & (pl.col("RELA") == "")
        frame = sieve.refuse(name, frame, unnamed, "a relation with neither REL nor RELA", "REL")
        frame = sieve.filtered(name, frame)
        if not len(frame):
            continue
        head, tail, keep = _ends(sieve, terms, frame)
        if not self_relations:
            same = keep & (head == tail)
            if same.any():
                sieve.dropped[f"{name}: between terms of one concept"] += int(same.sum())
                keep &= ~same
        if not keep.all():
            frame, head, tail = frame.filter(pl.Series(keep)), head[keep], tail[keep]
        heads.append(head)
        tails.append(tail)
        sources_here = {source: prefixes.canonical(source) for source in frame["SAB"].unique()}
        coded = frame.select(
            _label(label).cast(_LABELS).alias("relation"), pl.col("SAB").replace(sources_here).cast(_SOURCES)
        )
        labels.append(coded["relation"])
        sources.append(coded["SAB"])
    if not heads:
        return model.empty("relations"), ()
    # Column by column, so that no more than one stands twice in memory.
    frame = pl.DataFrame({"head": np.concatenate(heads)})
    heads.clear()
    frame = frame.with_columns(tail=pl.Series(np.concatenate(tails)))
    tails.clear()
    frame = frame.with_columns(relation=pl.concat(labels, rechunk=True))
    labels.clear()
    frame = frame.with_columns(source=pl.concat(sources, rechunk=True))
    return frame, tuple(sorted(found for found in frame["relation"].unique().to_list() if _leads_up(found)))


def _ends(sieve: Sieve, terms: Terms, frame: pl.DataFrame) -> tuple[Int32, Int32, NDArray[np.bool_]]:
    """Return head and tail of each relation, and which have both; complain of those that lead nowhere."""
    name = sieve.dialect.relations
    keep = np.ones(len(frame), bool)
    known = np.ones(len(frame), bool)
    ends = []
    for number in ("2", "1"):
        rows = terms.rows.of(frame["CUI" + number])
        if sieve.dialect.atom_relations and (rows < 0).any():
            empty = (frame["CUI" + number] == "").to_numpy()
            atoms = terms.atom_rows.of(frame["AUI" + number])
            rows = np.where(empty & (atoms >= 0), terms.atom_concept[atoms], rows)
        if (rows < 0).any():
            unknown = pl.Series((rows < 0) & known)
            problem = f"no term of {sieve.dialect.terms} has this id"
            sieve.refuse(name, frame, pl.lit(unknown), problem, "CUI" + number)
            known &= rows >= 0
        place = terms.place[rows]
        keep &= place >= 0
        ends.append(place)
    if (known & ~keep).any():
        sieve.dropped[f"{name}: of a concept that was left out"] += int((known & ~keep).sum())
    return ends[0], ends[1], keep & known


def _label(kind: str) -> pl.Expr:
    rel, rela = pl.col("REL"), pl.col("RELA")
    if kind == "rel":
        return pl.when(rel == "").then(rela).otherwise(rel)
    if kind == "rela":
        return pl.when(rela == "").then(rel).otherwise(rela)
    only = pl.when(rela == "").then(rel).when(rel == "").then(rela)
    return only.otherwise(pl.concat_str(rel, rela, separator=":"))


def _leads_up(label: str) -> bool:
    """Tell whether a relation leads from a concept to its parent: it is its child, or "is a"."""
    rel, _, rela = label.partition(":")
    return rel == "CHD" or "isa" in (rel, rela)
