"""Terms of a release in Rich Release Format; with their semantic types they settle which concepts there are."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.terminology import prefixes
from alphita.terminology.loaders._rrf_release import Release
from alphita.terminology.loaders._rrf_sieve import LANGUAGES, Dialect, Filters, IdRows, Int32, language_codes, not_an_id
from alphita.terminology.loaders._sieve import Sieve

COLUMNS = ["CUI", "LAT", "TS", "STT", "ISPREF", "AUI", "SAB", "TTY", "CODE", "STR", "SUPPRESS"]
# Term types whose meaning is the same in every source.
TERM_TYPES = {
    "AB": "abbreviation",
    "ACR": "abbreviation",
    "MTH_ACR": "abbreviation",
    "BN": "brand_name",
    "PTGB": "uk_spelling",
    "SYGB": "uk_spelling",
    "MTH_PTGB": "uk_spelling",
    "MTH_SYGB": "uk_spelling",
    "ETCF": "layperson",
}
LAYPERSON_SOURCES = ("CHV",)
MAX_RANK = 2**20
# RxNorm writes N, older releases nothing.
UNSUPPRESSED = ["N", ""]


class Terms:
    """The terms and concepts of a release.

    Attributes:
        rows: every concept id of the file of terms; `rows.of` gives its row.
        place: of each row the concept's place in `concepts`; -1 for one that was left out.
        n: how many concepts there are.
        concepts: id, source, retired.
        terms: as the table `terms` wants them.
        semantic_types: likewise.
        languages: language of each source, by its SAB.
        atom_rows: every atom's id, where relations may name atoms; `atom_concept` has the row of its concept.
    """

    def __init__(
        self,
        release: Release,
        dialect: Dialect,
        filters: Filters,
        sieve: Sieve,
        languages: dict[str, str],
        ranks: pl.DataFrame,
    ) -> None:
        self.release, self.dialect, self.filters, self.sieve = release, dialect, filters, sieve
        self.languages, self.ranks = languages, ranks

    def read(self, preferred_language: str) -> None:
        """Read the terms, choose each concept's preferred one, and settle which concepts there are."""
        dialect, name = self.dialect, self.dialect.terms
        self.release.require(name)
        self._read_ranks()
        self._first_languages = language_codes("preferred_language", preferred_language)
        ids, atoms, live, kept = [], [], [], []
        for frame in self.release.blocks(name, COLUMNS):
            frame = self._good_terms(frame)
            ids.append(frame["CUI"].unique(maintain_order=True))
            # The hash is 8 bytes, the atom's id with its view 16 or more.
            atoms.append(
                frame.select("line", "CUI", "AUI")
                if dialect.atom_relations
                else frame.select("line", AUI=pl.col("AUI").hash())
            )
            if dialect.retire_obsolete:
                live.append(frame.filter(pl.col("SUPPRESS") != "O")["CUI"].unique())
            for source, language in frame.select("SAB", "LAT").unique().iter_rows():
                self.languages.setdefault(source, LANGUAGES[language])
            kept.append(self._chosen_terms(frame))
        if not ids:
            raise InputError("the file is empty", file=self.release.shown(name))
        self.rows = IdRows(pl.concat(ids).unique(maintain_order=True))
        terms = self._distinct_atoms(pl.concat(atoms), pl.concat(kept))
        del ids, atoms, kept
        terms = terms.with_columns(concept=pl.Series(self.rows.of(terms["CUI"]))).drop("CUI", "line")
        self._choose_concepts(terms["concept"].to_numpy())
        place = pl.Series(self.place[terms["concept"].to_numpy()])
        terms = self.sieve.drop(
            terms.with_columns(concept=place), pl.col("concept") < 0, f"{name}: semantic type not chosen"
        )
        if terms.is_empty():
            raise InputError("no term is left: no row passes the filters", file=self.release.shown(name))
        preferred = _best(terms["concept"].to_numpy(), terms["score"].to_numpy(), terms["atom"], self.n)
        self.terms = terms.drop("score", "atom").with_columns(preferred=pl.Series(preferred))
        known = self.rows.ids.filter(pl.Series(self.place >= 0))
        self.concepts = pl.DataFrame({"id": dialect.prefix + ":" + known}).with_columns(
            source=pl.lit(dialect.prefix).cast(pl.Categorical), retired=pl.lit(False)
        )
        if dialect.retire_obsolete:
            is_live = np.zeros(len(self.place), bool)
            is_live[self.rows.of(pl.concat(live))] = True
            self.concepts = self.concepts.with_columns(retired=pl.Series(~is_live[self.place >= 0]))

    def _good_terms(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = self.sieve.refuse(frame, "CUI", not_an_id("CUI"), "not a concept id")
        frame = self.sieve.refuse(frame, "SAB", pl.col("SAB") == "", "a term without a source")
        frame = self.sieve.refuse(frame, "LAT", ~pl.col("LAT").is_in(list(LANGUAGES)), "unknown language code")
        return self.sieve.strings(frame, "STR", "term")

    def _chosen_terms(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the terms that pass the filters, with their columns as the table `terms` wants them."""
        name, filters = self.dialect.terms, self.filters
        if filters.languages:
            frame = self.sieve.drop(frame, ~pl.col("LAT").is_in(filters.languages), f"{name}: language not chosen")
        frame = filters.passed(name, frame, self.sieve)
        if filters.term_types:
            frame = self.sieve.drop(frame, ~pl.col("TTY").is_in(filters.term_types), f"{name}: term type not chosen")
        frame = frame.with_columns(score=self._score(frame))
        sources = {source: prefixes.canonical(source) for source in frame["SAB"].unique()}
        source = pl.col("SAB").replace(sources)
        # GO:0008150 of GO: the CURIE is made of source and code.
        code = pl.col("CODE").str.strip_prefix(pl.concat_str(source, pl.lit(":")))
        return frame.select(
            "line",
            "CUI",
            pl.col("STR").alias("string"),
            pl.col("LAT").replace_strict(LANGUAGES, return_dtype=pl.String).cast(pl.Categorical).alias("language"),
            source.cast(pl.Categorical).alias("source"),
            pl.when(~pl.col("CODE").is_in(["", "NOCODE"])).then(code).alias("code"),
            pl.when(pl.col("TTY") != "").then(pl.col("TTY")).cast(pl.Categorical).alias("term_type"),
            _type_of_term().cast(pl.Categorical).alias("type"),
            "score",
            pl.col("AUI").str.extract(r"(\d{1,9})$").cast(pl.Int32).fill_null(0).alias("atom"),
        )

    def _score(self, frame: pl.DataFrame) -> pl.Series:
        """Return how well each term would do as its concept's name: language, suppression, rank, UMLS's own flags."""
        flags = (pl.col("TS") == "P").cast(pl.Int32) * 4 + (pl.col("STT") == "PF") * 2 + (pl.col("ISPREF") == "Y")
        free = pl.col("SUPPRESS").is_in(UNSUPPRESSED)
        first = pl.col("LAT").is_in(self._first_languages)
        ranked = frame.join(self.ranks, on=["SAB", "TTY"], how="left", maintain_order="left")
        rank = pl.col("rank").fill_null(0)
        return ranked.select(score=((first.cast(pl.Int32) * 2 + free) * MAX_RANK + rank) * 8 + flags)["score"]

    def _read_ranks(self) -> None:
        found = [self.ranks]
        name = self.dialect.ranks
        for frame in self.release.blocks(name, ["RANK", "SAB", "TTY"]) if name else ():
            rank = frame["RANK"].cast(pl.Int32, strict=False)
            frame = frame.with_columns(rank=rank.set((rank < 0) | (rank >= MAX_RANK), None))
            frame = self.sieve.refuse(frame, "RANK", pl.col("rank").is_null(), "not a rank")
            found.append(frame.select("SAB", "TTY", "rank"))
        self.ranks = pl.concat(found).unique(["SAB", "TTY"], keep="first", maintain_order=True)

    def _distinct_atoms(self, atoms: pl.DataFrame, terms: pl.DataFrame) -> pl.DataFrame:
        """Refuse terms whose atom id stood before."""
        seen = atoms.filter(~pl.col("AUI").is_first_distinct()) if len(atoms) > atoms["AUI"].n_unique() else atoms[:0]
        if self.dialect.atom_relations:
            atoms = atoms.unique("AUI", keep="first", maintain_order=True)
            self.atom_rows = IdRows(atoms["AUI"])
            self.atom_concept = self.rows.of(atoms["CUI"])
        if seen.is_empty():
            return terms
        return terms.filter(~pl.col("line").is_in(self._repeated(seen)))

    def _repeated(self, seen: pl.DataFrame) -> list[int]:
        shown = self.release.shown(self.dialect.terms)
        lines: list[int] = seen["line"].to_list()
        for line in lines:
            self.sieve.rejects.add("this atom id stood before", file=shown, line=line, field="AUI")
        return lines

    def _choose_concepts(self, concept: Int32) -> None:
        """Number the concepts that have a term left and a semantic type that was asked for."""
        used = np.zeros(len(self.rows.ids), bool)
        used[concept] = True
        types = self._read_types()
        wanted = self.filters.semantic_types
        if wanted:
            chosen = types.filter(pl.col("semantic_type").is_in(wanted) | pl.col("code").is_in(wanted))
            missing = set(wanted) - {*types["semantic_type"].unique(), *types["code"].unique()}
            if missing:
                shown = sorted(types["semantic_type"].unique().to_list())[:5]
                raise UsageError(f"semantic_types: unknown {sorted(missing)}; the release has {shown}, ...")
            has = np.zeros(len(used), bool)
            has[chosen["concept"].to_numpy()] = True
            used &= has
        self.n = int(used.sum())
        self.place = np.where(used, np.cumsum(used, dtype=np.int32) - 1, np.int32(-1))
        place = pl.Series(self.place[types["concept"].to_numpy()])
        types = types.with_columns(concept=place).filter(pl.col("concept") >= 0)
        self.semantic_types = types.with_columns(source=pl.lit("UMLS").cast(pl.Categorical))

    def _read_types(self) -> pl.DataFrame:
        schema = pl.Schema({"concept": pl.Int32(), "semantic_type": pl.Categorical(), "code": pl.Categorical()})
        found = [pl.DataFrame(schema=schema)]
        name = self.dialect.types
        for frame in self.release.blocks(name, ["CUI", "TUI", "STY"]):
            frame = self.sieve.refuse(frame, "STY", pl.col("STY") == "", "a semantic type without a name")
            frame = frame.with_columns(concept=pl.Series(self.rows.of(frame["CUI"])))
            frame = self.sieve.refuse(frame, "CUI", pl.col("concept") < 0, self.dialect.unknown)
            found.append(frame.select("concept", semantic_type="STY", code="TUI").cast(schema))
        return pl.concat(found)


def _type_of_term() -> pl.Expr:
    """Return the type of a term as Alphita writes it, from SUPPRESS, TTY and SAB."""
    known = pl.col("TTY").replace_strict(TERM_TYPES, default=None, return_dtype=pl.String)
    return (
        pl.when(pl.col("SUPPRESS") == "O")
        .then(pl.lit("obsolete"))
        .when(known.is_null() & pl.col("SAB").is_in(LAYPERSON_SOURCES))
        .then(pl.lit("layperson"))
        .otherwise(known)
    )


def _best(concept: Int32, score: NDArray[np.int32], atom: pl.Series, n: int) -> NDArray[np.bool_]:
    """Return, for each term, whether it is the best of its concept; of equal ones that of the lowest atom id."""
    key = (score.astype(np.int64) + 1) * len(concept) - atom.rank("ordinal").to_numpy()
    best = np.full(n, -1, np.int64)
    np.maximum.at(best, concept, key)
    return best[concept] == key
