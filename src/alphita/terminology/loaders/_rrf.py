"""Rich Release Format, in which UMLS and RxNorm come: from the files of a release to the tables.

`_rrf_release` finds and reads the files, `_rrf_sieve` says what to take of them, `_rrf_terms` and `_rrf_relations` make
the two great tables; here they are put together with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from alphita.errors import Rejects
from alphita.terminology import model, prefixes
from alphita.terminology.loaders._rrf_ids import Int32
from alphita.terminology.loaders._rrf_relations import read_relations
from alphita.terminology.loaders._rrf_release import Release as Release
from alphita.terminology.loaders._rrf_release import recognised as recognised
from alphita.terminology.loaders._rrf_sieve import LANGUAGES, Sieve, not_an_id
from alphita.terminology.loaders._rrf_sieve import Dialect as Dialect
from alphita.terminology.loaders._rrf_sieve import Filters as Filters
from alphita.terminology.loaders._rrf_sieve import language_codes as language_codes
from alphita.terminology.loaders._rrf_sieve import listed as listed
from alphita.terminology.loaders._rrf_terms import Terms
from alphita.terminology.model import Tables

NO_RANKS = pl.DataFrame(schema={"SAB": pl.String, "TTY": pl.String, "rank": pl.Int32})


class Builder:
    """Reads the files of a release one after another and gathers the tables.

    Call `versions` and `read_terms` first; the rest in any order.
    """

    def __init__(
        self, release: Release, dialect: Dialect, filters: Filters, rejects: Rejects, ranks: pl.DataFrame = NO_RANKS
    ) -> None:
        """Start with nothing read; `ranks` has the rank of each source and term type, beside the release's own."""
        self.release, self.dialect, self.filters = release, dialect, filters
        self.sieve = Sieve(release, dialect, filters, rejects)
        self.languages: dict[str, str] = {}
        self.terms = Terms(self.sieve, self.languages, ranks)
        self.extra: dict[str, list[pl.DataFrame]] = {}
        self.relations, self.parent_labels = model.empty("relations"), tuple[str, ...]()

    def read_terms(self, preferred_language: str) -> None:
        """Read the terms and settle which concepts there are; see `Terms.read`."""
        self.terms.read(preferred_language)

    def read_relations(self, label: str, *, self_relations: bool) -> None:
        """Read the relations; see `_rrf_relations.read_relations`."""
        self.relations, self.parent_labels = read_relations(
            self.sieve, self.terms, label, self_relations=self_relations
        )

    def concept_rows(self, name: str, frame: pl.DataFrame, column: str) -> tuple[pl.DataFrame, Int32]:
        """Return the rows whose concept is kept, and its place in the table of concepts."""
        rows = self.terms.rows.of(frame[column])
        if (rows < 0).any():
            known = pl.Series(rows >= 0)
            self.sieve.refuse(name, frame, ~pl.lit(known), f"no term of {self.dialect.terms} has this id", column)
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
            long = pl.col("DEF").str.len_chars() > model.MAX_TEXT_CHARACTERS
            frame = self.sieve.refuse(name, frame, pl.col("DEF").str.strip_chars() == "", "an empty definition", "DEF")
            frame = self.sieve.refuse(name, frame, long, f"longer than {model.MAX_TEXT_CHARACTERS:,} characters", "DEF")
            frame = self.sieve.filtered(name, frame)
            tags = {source: self.languages.get(source, "en") for source in frame["SAB"].unique()}
            frame = frame.with_columns(language=pl.col("SAB").replace(tags))
            if self.filters.languages:
                chosen = pl.col("language").is_in([LANGUAGES[code] for code in self.filters.languages])
                frame = self.sieve.drop(frame, chosen, f"{name}: language not chosen")
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
        """Add the concepts of the column CUI1 that have no terms as retired ones.

        Returns:
            The rows of the file that are of such concepts; the column `concept` is their place.
        """
        found = []
        for frame in self.release.blocks(name, columns):
            frame = self.sieve.refuse(name, frame, not_an_id("CUI1"), "not a concept id", "CUI1")
            gone = pl.Series(self.terms.rows.of(frame["CUI1"]) < 0)
            found.append(self.sieve.drop(frame, pl.lit(gone), f"{name}: of a concept that has terms"))
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
        predicate = pl.when(replaced).then(pl.lit(model.REPLACED_BY)).otherwise(pl.lit(model.CONSIDER))
        target = pl.concat_str(pl.lit(f"{self.dialect.prefix}:"), pl.col("CUI2"))
        source = pl.lit(self.dialect.prefix)
        self.add("replacements", rows, rows["concept"].to_numpy(), predicate=predicate, object=target, source=source)

    def versions(self) -> dict[str, str]:
        """Return the version of each source, by its root SAB."""
        found: dict[str, str] = {}
        for frame in self.release.blocks(self.dialect.sources, ["RSAB", "VSAB", "SVER", "LAT"]):
            for source, versioned, version, language in frame.select("RSAB", "VSAB", "SVER", "LAT").iter_rows():
                found.setdefault(source, version or versioned)
                if language in LANGUAGES:
                    self.languages.setdefault(source, LANGUAGES[language])
        return found

    def tables(self, sources: list[dict[str, Any]], used: Sequence[str]) -> Tables:
        """Return the tables; files of the release that no one read are counted as left out.

        Args:
            sources: the manifest's entries.
            used: stems of the files that were looked for.
        """
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
