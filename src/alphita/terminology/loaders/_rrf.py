"""Rich Release Format, in which UMLS and RxNorm come: from the files of a release to the tables.

`_rrf_release` finds and reads the files, `_rrf_sieve` says what to take of them, `_rrf_terms` makes the table of terms;
here come the relations (88 million of them in UMLS) and the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.errors import Rejects
from alphita.progress import say
from alphita.terminology import model, prefixes
from alphita.terminology.loaders._rrf_release import Release as Release
from alphita.terminology.loaders._rrf_release import recognised as recognised
from alphita.terminology.loaders._rrf_sieve import LANGUAGES, Int32, not_an_id
from alphita.terminology.loaders._rrf_sieve import Dialect as Dialect
from alphita.terminology.loaders._rrf_sieve import Filters as Filters
from alphita.terminology.loaders._rrf_sieve import language_codes as language_codes
from alphita.terminology.loaders._rrf_terms import Terms
from alphita.terminology.loaders._sieve import Sieve
from alphita.terminology.loaders._sieve import listed as listed
from alphita.terminology.model import Tables

COLUMNS = ["CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"]
# Two bytes a relation instead of four, for 88 M of them.
_LABELS = pl.Categorical(pl.Categories("relation", "alphita", physical=pl.UInt16))
_SOURCES = pl.Categorical(pl.Categories("source", "alphita", physical=pl.UInt16))


def read_relations(terms: Terms, label: str, *, self_relations: bool) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Read the relations as places of the concepts: REL reads from the second concept to the first."""
    sieve, name = terms.sieve, terms.dialect.relations
    columns = COLUMNS + (["AUI1", "AUI2"] if terms.dialect.atom_relations else [])
    heads, tails, labels, sources = [], [], [], []
    for frame in terms.release.blocks(name, columns):
        unnamed = (pl.col("REL") == "") & (pl.col("RELA") == "")
        frame = sieve.refuse(frame, "REL", unnamed, "a relation with neither REL nor RELA")
        frame = terms.filters.passed(name, frame, sieve)
        if not len(frame):
            continue
        head, tail, keep = _ends(terms, frame)
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
    return frame, tuple(sorted(label for label in frame["relation"].unique().to_list() if _leads_up(label)))


def _ends(terms: Terms, frame: pl.DataFrame) -> tuple[Int32, Int32, NDArray[np.bool_]]:
    """Return head and tail of each relation, and which have both; complain of those that lead nowhere."""
    dialect = terms.dialect
    keep = np.ones(len(frame), bool)
    known = np.ones(len(frame), bool)
    ends = []
    for number in ("2", "1"):
        rows = terms.rows.of(frame["CUI" + number])
        if dialect.atom_relations and (rows < 0).any():
            empty = (frame["CUI" + number] == "").to_numpy()
            atoms = terms.atom_rows.of(frame["AUI" + number])
            rows = np.where(empty & (atoms >= 0), terms.atom_concept[atoms], rows)
        if (rows < 0).any():
            unknown = pl.Series((rows < 0) & known)
            terms.sieve.refuse(frame, "CUI" + number, pl.lit(unknown), dialect.unknown)
            known &= rows >= 0
        place = terms.place[rows]
        keep &= place >= 0
        ends.append(place)
    if (known & ~keep).any():
        terms.sieve.dropped[f"{dialect.relations}: of a concept that was left out"] += int((known & ~keep).sum())
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


NO_RANKS = pl.DataFrame(schema={"SAB": pl.String, "TTY": pl.String, "rank": pl.Int32})


class Builder:
    """Reads the files of a release one after another and gathers the tables.

    Call `versions` and `read_terms` first; the rest in any order.
    """

    def __init__(
        self, release: Release, dialect: Dialect, filters: Filters, rejects: Rejects, ranks: pl.DataFrame = NO_RANKS
    ) -> None:
        self.release, self.dialect, self.filters = release, dialect, filters
        self.sieve = Sieve(rejects)
        self.languages: dict[str, str] = {}
        self.terms = Terms(release, dialect, filters, self.sieve, self.languages, ranks)
        self.extra: dict[str, list[pl.DataFrame]] = {}
        self.relations, self.parent_labels = model.empty("relations"), tuple[str, ...]()
        self._tell_lacking()

    def _tell_lacking(self) -> None:
        """Say which files are not there: a subset may do without them, a copy that is not whole may not."""
        for name, what in (
            (self.dialect.relations, "relations"),
            (self.dialect.types, "semantic types"),
            (self.dialect.definitions, "definitions"),
        ):
            if name and self.release.has(self.dialect.terms) and not self.release.has(name):
                folder = self.release.parts[self.dialect.terms][0].path.parent
                rows = self.release.rows.get(name)
                told = f", of which MRFILES.RRF lists {rows:,} rows" if rows else ""
                say(f"there is no {name}.RRF{told} beside {self.dialect.terms}.RRF in {folder}: no {what} are read")

    def read_terms(self, preferred_language: str) -> None:
        """Read the terms and settle which concepts there are; see `Terms.read`."""
        self.terms.read(preferred_language)

    def read_relations(self, label: str, *, self_relations: bool) -> None:
        """Read the relations; see `_rrf_relations.read_relations`."""
        self.relations, self.parent_labels = read_relations(self.terms, label, self_relations=self_relations)

    def concept_rows(self, name: str, frame: pl.DataFrame, column: str) -> tuple[pl.DataFrame, Int32]:
        """Return the rows whose concept is kept, and its place in the table of concepts."""
        rows = self.terms.rows.of(frame[column])
        if (rows < 0).any():
            known = pl.Series(rows >= 0)
            self.sieve.refuse(frame, column, ~pl.lit(known), self.dialect.unknown)
            frame, rows = frame.filter(known), rows[rows >= 0]
        places = self.terms.place[rows]
        if (places < 0).any():
            self.sieve.dropped[f"{name}: of a concept that was left out"] += int((places < 0).sum())
            frame, places = frame.filter(pl.Series(places >= 0)), places[places >= 0]
        return frame, places

    def read_definitions(self) -> None:
        """Read the definitions; their language is that of their source."""
        name = self.dialect.definitions
        for frame in self.release.blocks(name, ["CUI", "ATUI", "SAB", "DEF", "SUPPRESS"]):
            frame = self.sieve.strings(frame, "DEF", "definition", model.MAX_TEXT_CHARACTERS)
            frame = self.filters.passed(name, frame, self.sieve)
            tags = {source: self.languages.get(source, "en") for source in frame["SAB"].unique()}
            frame = frame.with_columns(language=pl.col("SAB").replace(tags))
            if self.filters.languages:
                chosen = pl.col("language").is_in([LANGUAGES[code] for code in self.filters.languages])
                frame = self.sieve.drop(frame, ~chosen, f"{name}: language not chosen")
            frame, places = self.concept_rows(name, frame, "CUI")
            sources = {source: prefixes.canonical(source) for source in frame["SAB"].unique()}
            self.add(
                "definitions",
                frame,
                places,
                text=pl.col("DEF"),
                language=pl.col("language"),
                source=pl.col("SAB").replace(sources),
                reference=pl.when(pl.col("ATUI") != "").then(pl.col("ATUI")),
            )

    def add(self, table: str, frame: pl.DataFrame, places: Int32, **columns: pl.Expr) -> None:
        """Add rows to a side table."""
        if len(frame):
            self.extra.setdefault(table, []).append(frame.select(concept=pl.Series(places), **columns))

    def read_retired(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Add the concepts of the column CUI1 that have no terms as retired ones."""
        found = []
        for frame in self.release.blocks(name, columns):
            frame = self.sieve.refuse(frame, "CUI1", not_an_id("CUI1"), "not a concept id")
            has_terms = pl.Series(self.terms.rows.of(frame["CUI1"]) >= 0)
            found.append(self.sieve.drop(frame, has_terms, f"{name}: of a concept that has terms"))
        rows = pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
        ids = rows.select("CUI1").unique(maintain_order=True)
        concepts = ids.select(
            id=self.dialect.prefix + ":" + pl.col("CUI1"),
            source=pl.lit(self.dialect.prefix).cast(pl.Categorical),
            retired=pl.lit(True),
        )
        self.terms.concepts = pl.concat([self.terms.concepts, concepts])
        ids = ids.with_columns(concept=pl.int_range(self.terms.n, self.terms.n + len(ids), dtype=pl.Int32))
        self.terms.n += len(ids)
        return rows.join(ids, on="CUI1", how="left", maintain_order="left")

    def add_replacements(self, rows: pl.DataFrame, replaced: pl.Expr) -> None:
        """Add CUI2 of the rows as what to use instead: as replacement where `replaced` holds, else to consider."""
        predicate = model.predicate(replaced)
        target = pl.concat_str(pl.lit(f"{self.dialect.prefix}:"), pl.col("CUI2"))
        source = pl.lit(self.dialect.prefix)
        self.add("replacements", rows, rows["concept"].to_numpy(), predicate=predicate, object=target, source=source)

    def versions(self) -> dict[str, str]:
        """Return the version of each source, by its root SAB."""
        versions: dict[str, str] = {}
        for frame in self.release.blocks(self.dialect.sources, ["RSAB", "VSAB", "SVER", "LAT"]):
            for source, versioned, version, language in frame.select("RSAB", "VSAB", "SVER", "LAT").iter_rows():
                versions.setdefault(source, version or versioned)
                if language in LANGUAGES:
                    self.languages.setdefault(source, LANGUAGES[language])
        return versions

    def tables(self, sources: list[dict[str, Any]], used: Sequence[str]) -> Tables:
        """Return the tables; files of the release that no one read are counted as left out."""
        read = {part for name in used for part in self.release.parts[name]}
        for part in self.release.all_parts:
            stem, extension, _ = part.name.upper().partition(".RRF")
            if extension and part not in read:
                self.sieve.dropped[f"file {part.name.upper() if stem in used else stem}"] += 1
        side = {table: pl.concat(frames) for table, frames in self.extra.items()}
        terms, self.terms.terms = self.terms.terms, pl.DataFrame()
        relations, self.relations = self.relations, pl.DataFrame()
        return Tables(
            concepts=self.terms.concepts,
            terms=terms,
            relations=relations,
            semantic_types=self.terms.semantic_types,
            sources=sources,
            parent_relations=self.parent_labels,
            dropped=dict(self.sieve.dropped),
            **side,
        )
