"""Rich Release Format, in which UMLS and RxNorm are published: from the files of a release to the tables."""

from __future__ import annotations

import codecs
import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import textio
from alphita.errors import InputError, Rejects, UsageError
from alphita.progress import say
from alphita.terminology import languages, model, prefixes
from alphita.terminology.loaders import _columns, _files
from alphita.terminology.loaders._columns import Check, Sieve, listed
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.loaders._tables import Lines
from alphita.terminology.model import Tables

BLOCK_BYTES = 32 * 2**20
# MRFILES calls the first column of MRRANK so.
RANK_COLUMN = "MRRANK_RANK"
M = TypeVar("M", bound=Member)
Int32 = NDArray[np.int32]

# --- options ---------------------------------------------------------------------------------------------------------

SUPPRESS: str = Field(
    "",
    pattern=r"^[NOEY]?(,[NOEY])*$",
    description="values of SUPPRESS to read: N is not suppressed, O obsolete, E by an editor, Y by its term type",
)
SELF_RELATIONS: bool = Field(False, description="keep relations between two terms of one concept")
# LAT, a code of ISO 639-2, most often the older of two -> BCP-47.
LANGUAGES = {code.upper(): tag for code, tag in languages.by_code().items() if len(code) == 3}


def relation_label(example: str) -> str:
    """Return the option that chooses the labels of relations; `example` is a RELA with the REL "RO"."""
    label: str = Field(
        "both",
        pattern="^(rel|rela|both)$",
        description=f"label of relations: rel (RO), rela ({example}) or both (RO:{example}); a relation with only "
        "one label keeps it",
    )
    return label


def language_codes(option: str, value: str) -> list[str]:
    """Return LAT codes for a list of LAT codes or BCP-47 tags."""
    chosen = []
    for name in listed(value):
        codes = [code for code, tag in LANGUAGES.items() if name.upper() == code or name.lower() == tag]
        if not codes:
            raise UsageError(
                f"{option}: unknown language {name!r}; give LAT codes or BCP-47 tags: ENG, en, SPA, es, ..."
            )
        chosen += codes
    return chosen


@dataclass(frozen=True)
class Filters:
    """What to take; an empty list takes all."""

    languages: list[str]
    sources: list[str]
    term_types: list[str]
    suppression: list[str]
    semantic_types: list[str]
    # Whether a term with SUPPRESS = O is a term as any other.
    obsolete_trains: bool = False

    @classmethod
    def of(cls, options: Any, languages: str) -> Filters:  # noqa: ANN401 - the options of either distribution
        lists = (options.sources, options.term_types, options.suppress, options.semantic_types)
        sources, term_types, suppression, semantic_types = map(listed, lists)
        trains = getattr(options, "obsolete_trains", False)
        return cls(language_codes("languages", languages), sources, term_types, suppression, semantic_types, trains)

    def passed(self, name: str, frame: pl.DataFrame, sieve: Sieve) -> pl.DataFrame:
        """Return the rows of a file that pass by source and suppression, where it has such columns."""
        if self.sources and "SAB" in frame.columns:
            frame = sieve.drop(frame, ~pl.col("SAB").is_in(self.sources), f"{name}: source not chosen")
        if self.suppression and "SUPPRESS" in frame.columns:
            # An empty one says no more than N.
            values = [*self.suppression, *([""] if "N" in self.suppression else [])]
            frame = sieve.drop(frame, ~pl.col("SUPPRESS").is_in(values), f"{name}: suppressed")
        return frame


@dataclass(frozen=True)
class Dialect:
    """How a distribution differs from the other: the stems of its files, "" for one that it lacks, and their columns.

    Relations of `atom_relations` may name atoms (AUI1, AUI2) instead of concepts. With `retire_obsolete` a concept all
    of whose terms are obsolete (SUPPRESS = O) is retired.
    """

    prefix: str
    licence: str
    layouts: Mapping[str, str]
    terms: str
    relations: str
    types: str
    sources: str
    definitions: str = ""
    ranks: str = ""
    layout_file: str = ""
    atom_relations: bool = False
    retire_obsolete: bool = False

    @property
    def unknown(self) -> str:
        return f"no term of {self.terms} has this id"

    def recognises(self, seen: Look) -> dict[str, str] | None:
        """Recognise a release by its file of terms; see `Loader.recognises`."""
        if parts := parts_of(seen.members, self.terms):
            return {} if "|" in parts[0].first_line else None
        others = [f"{name}.RRF" for name in self.layouts if parts_of(seen.members, name)]
        if not others:
            return None
        raise InputError(
            f"{', '.join(others)} of a release, without the terms in {self.terms}.RRF",
            file=seen.path,
            remedy="give the folder of the release, or its zip file",
        )


# --- files -----------------------------------------------------------------------------------------------------------


def parts_of(members: Sequence[M], name: str) -> list[M]:
    """Return the file of that name: plain, gzipped, or cut into MRCONSO.RRF.aa.gz, .ab.gz, ..."""
    for pattern in (f"{name}.RRF", f"{name}.RRF.[A-Z][A-Z]*"):
        matching = [part for part in members if fnmatch.fnmatchcase(part.name.upper(), pattern)]
        # The one nearest to the top: RxNorm has a second, smaller release in the folder `prescribe`.
        folders = {part: part.place.rpartition("/")[0] for part in matching}
        if matching:
            top = min(folders.values(), key=lambda folder: (folder.count("/"), "prescrib" in folder, folder))
            return sorted((part for part in matching if folders[part] == top), key=lambda part: part.name)
    return []


class Release:
    """The files of one release, and how many rows MRFILES.RRF says that each has; they are hashed on the way."""

    def __init__(self, paths: Sequence[Path], dialect: Dialect, rejects: Rejects) -> None:
        self.dialect, self.rejects = dialect, rejects
        self.layouts = {name: tuple(columns.split()) for name, columns in dialect.layouts.items()}
        self.rows: dict[str, int] = {}
        self.all_parts = _files.members(paths)
        self.parts = {name: parts_of(self.all_parts, name) for name in dialect.layouts}
        self._hashing = ThreadPoolExecutor(max_workers=1)
        self._hashed: dict[Member, Future[dict[str, Any]]] = {}

    def __enter__(self) -> Release:
        if self.dialect.layout_file:
            self._read_layouts(self.dialect.layout_file)
        return self

    def __exit__(self, *_: object) -> None:
        self._hashing.shutdown(cancel_futures=True)

    def shown(self, name: str) -> str:
        """Return the name of a file in messages: of one in several parts, its whole name."""
        parts = self.parts[name]
        return parts[0].place if len(parts) == 1 else parts[0].place.rsplit(".", 2)[0]

    def require(self, name: str) -> None:
        """Raise `InputError` if the release lacks a file."""
        if not self.parts[name]:
            shown = sorted({part.name.upper() for part in self.all_parts})
            raise InputError(
                f"no file {name}.RRF (or {name}.RRF.gz) was given; found {shown[:8] or 'none'}",
                file=self.all_parts[0].path.parent if self.all_parts else None,
                remedy="give the folder of the release, its zip file, or the files themselves",
            )

    def _read_layouts(self, name: str) -> None:
        """Take columns and row counts of all files from MRFILES.RRF, where there is one."""
        for block in self.blocks(name, ["FIL", "FMT", "RWS"]):
            for file, columns, rows in block.select("FIL", "FMT", "RWS").iter_rows():
                stem = Path(file).name.upper().removesuffix(".RRF")
                if stem in self.layouts and stem != name:
                    names = (column.strip().upper() for column in columns.split(","))
                    self.layouts[stem] = tuple("RANK" if column == RANK_COLUMN else column for column in names)
                    if (number := textio.whole_number(rows)) is not None:
                        self.rows[stem] = number

    def sources(self, version: str | None, versions: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the manifest's entries, one a file on disk; the first one also holds the sources' versions."""
        common = {"name": self.dialect.prefix, "version": version, "licence": self.dialect.licence}
        entries = [{**future.result(), **common} for future in self._hashed.values()]
        if entries and versions:
            entries[0]["sources"] = dict(sorted(versions.items()))
        return entries

    def blocks(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield a file's rows, block by block: the wanted columns as strings ("" where empty), `file` and `line`."""
        parts = self.parts[name] if name else []
        if not parts:
            return
        for part in parts:
            if part.path not in {other.path for other in self._hashed}:
                self._hashed[part] = self._hashing.submit(_files.source, part.path, name=name)
        shown, layout = self.shown(name), self.layouts[name]
        for column in columns:
            if column not in layout:
                raise InputError(f"MRFILES gives {name}.RRF no column {column}; it has {list(layout)}", file=shown)
        places = {column: layout.index(column) for column in columns}
        lines = None
        for raw in _files.whole_lines(_pieces(parts), shown):
            if lines is None:
                raw = raw.removeprefix(codecs.BOM_UTF8)
                lines = self._lines(raw, len(layout), places, shown)
            frame = lines.frame(raw)
            if len(frame):
                yield frame.with_columns(pl.col("line").cast(pl.Int32), file=pl.lit(shown, dtype=pl.Categorical))
        n_lines = lines.line - 1 if lines else 0
        if lines and not lines.accepted:
            raise InputError(
                f"no line has the {len(layout)} fields of {name}.RRF, each ended by '|'",
                file=shown,
                remedy="is it another file, or in another format (ORF)?",
            )
        if n_lines != self.rows.get(name, n_lines):
            problem = f"MRFILES.RRF says {self.rows[name]:,} rows, the file has {n_lines:,}: cut short, or filtered?"
            self.rejects.add(problem, file=shown)

    def _lines(self, first: bytes, n_fields: int, places: Mapping[str, int], shown: str) -> Lines:
        """Return the reader of a file's lines, of which `first` is the first block."""
        # Some tools leave out the '|' that ends the line: in all lines, so most of them tell and no single one.
        n_pipes = n_fields
        if not _files.Split("|", n_fields + 1).fits(first):
            counts = Counter(line.count(b"|") for line in first.split(b"\n")[:-1])
            n_pipes -= counts[n_fields - 1] > counts[n_fields]

        def check(raw: bytes) -> str | None:
            n_found = raw.count(b"|")
            if not raw.strip():
                return None
            if n_found != n_pipes:
                return f"{n_found + (n_pipes != n_fields)} fields, but there must be {n_fields}"
            return "a NUL byte in the line" if b"\0" in raw else "" if _files.is_utf8(raw) else "not utf-8"

        return Lines(shown, _files.Split("|", n_pipes + 1), places, self.rejects, check, line=1, shown="utf-8")


def _pieces(parts: Sequence[Member]) -> Iterator[bytes]:
    """Yield the bytes of the parts one after another, whatever line they are cut in."""
    for part in parts:
        # A file may have no rows; where it was cut into parts, an empty one has lost its rows.
        with part.open(may_be_empty=len(parts) == 1) as file:
            yield from iter(partial(file.read, BLOCK_BYTES), b"")


# Ids whose number is below this find their row by a plain table.
MAX_NUMBER = 200_000_000


class IdRows:
    """From ids to their places in a list.

    Ids of at most one letter and a number (C0000005, 161) are looked up in a plain table, 40 times as fast as by hash.
    """

    def __init__(self, ids: pl.Series) -> None:
        self.ids = ids
        self.start = ids[0][:1] if len(ids) and ids[0][:1].isalpha() else ""
        self.lengths = ids.str.len_bytes().to_numpy().astype(np.int32)
        self.table: Int32 | None = None
        numbers = self._numbers(ids)
        if numbers.null_count() or not len(ids) or int(numbers.max()) > MAX_NUMBER:  # type: ignore[arg-type]
            return
        table = np.full(int(numbers.max()) + 2, -1, np.int32)  # type: ignore[arg-type]
        table[numbers.to_numpy()] = np.arange(len(ids), dtype=np.int32)
        if len(ids) == numbers.n_unique():  # else 7 and 007 are two ids
            self.table = table

    def _numbers(self, ids: pl.Series) -> pl.Series:
        digits = ids.str.strip_prefix(self.start) if self.start else ids
        # "+7" and "CC7" would pass as numbers.
        plain = ids.str.starts_with(self.start) & ~ids.str.contains("+", literal=True)
        return digits.cast(pl.UInt32, strict=False).set(~plain, None)

    def of(self, ids: pl.Series) -> Int32:
        """Return each id's place; -1 where it is not among them."""
        if self.table is None:
            known = pl.DataFrame({"id": self.ids, "row": pl.int_range(len(self.ids), dtype=pl.Int32, eager=True)})
            rows = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["row"]
            return rows.fill_null(-1).to_numpy()
        numbers = self._numbers(ids).fill_null(len(self.table)).to_numpy()
        rows = self.table[np.minimum(numbers, len(self.table) - 1)]
        # The last place of the table is never filled; lengths tell 7 from 007.
        same = self.lengths[rows] == ids.str.len_bytes().to_numpy()
        return np.where(same, rows, np.int32(-1))


TERM_COLUMNS = ["CUI", "LAT", "TS", "STT", "ISPREF", "AUI", "SAB", "TTY", "CODE", "STR", "SUPPRESS"]
# Term types whose meaning is the same in every source.
TERM_TYPES = {
    **dict.fromkeys(("AB", "ACR", "MTH_ACR"), "abbreviation"),
    **dict.fromkeys(("PTGB", "SYGB", "MTH_PTGB", "MTH_SYGB"), "uk_spelling"),
    "BN": "brand_name",
    "ETCF": "layperson",
}
LAYPERSON_SOURCES = ("CHV",)
MAX_RANK = 2**20
NO_RANKS = pl.DataFrame(schema={"SAB": pl.String, "TTY": pl.String, "rank": pl.Int32})
RELATION_COLUMNS = ["CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"]
# Two bytes a relation instead of four, for 88 M of them.
_LABELS = pl.Categorical(pl.Categories("relation", "alphita", physical=pl.UInt16))
_SOURCES = pl.Categorical(pl.Categories("source", "alphita", physical=pl.UInt16))
_TERM_CHECKS = (
    ("SAB", pl.col("SAB") == "", "a term without a source"),
    _columns.one_of("LAT", [*LANGUAGES], "unknown language code"),
    *_columns.text("STR", "term"),
)


def not_an_id(column: str) -> Check:
    """Return the check of a column of ids: a cell is neither empty nor has white space in it."""
    return column, (pl.col(column) == "") | pl.col(column).str.contains(r"\s"), "not a concept id"


def canonical_sources(frame: pl.DataFrame) -> pl.Expr:
    return pl.col("SAB").replace({source: prefixes.canonical(source) for source in frame["SAB"].unique()})


class Reader:
    """Reads the files of a release one after another and gathers the tables.

    Call `read_versions` and `read_terms` first; the rest in any order. Then `place` has, for each concept id of the
    release in `rows`, its row in `concepts`; -1 for one that was left out.
    """

    def __init__(self, release: Release, filters: Filters, ranks: pl.DataFrame = NO_RANKS) -> None:
        self.release, self.dialect, self.filters = release, release.dialect, filters
        self.sieve = Sieve(release.rejects)
        self.languages: dict[str, str] = {}
        self.ranks = ranks
        self.side: dict[str, list[pl.DataFrame]] = {}
        self.relations, self.parent_labels = model.empty("relations"), tuple[str, ...]()
        self._warn_of_missing_files()

    def _warn_of_missing_files(self) -> None:
        """Say which files are not there: a subset may do without them, a copy that is not whole may not."""
        dialect, parts = self.dialect, self.release.parts
        missing = {dialect.relations: "relations", dialect.types: "semantic types", dialect.definitions: "definitions"}
        for name, what in missing.items():
            if name and parts[dialect.terms] and not parts[name]:
                folder = parts[dialect.terms][0].path.parent
                rows = self.release.rows.get(name)
                listed_rows = f", of which MRFILES.RRF lists {rows:,} rows" if rows else ""
                say(f"there is no {name}.RRF{listed_rows} beside {dialect.terms}.RRF in {folder}: no {what} are read")

    def read_versions(self) -> dict[str, str]:
        """Return the version of each source, by its root SAB."""
        versions: dict[str, str] = {}
        for frame in self.release.blocks(self.dialect.sources, ["RSAB", "VSAB", "SVER", "LAT"]):
            for source, versioned, version, language in frame.select("RSAB", "VSAB", "SVER", "LAT").iter_rows():
                versions.setdefault(source, version or versioned)
                if language in LANGUAGES:
                    self.languages.setdefault(source, LANGUAGES[language])
        return versions

    def read_terms(self, preferred_language: str) -> None:
        """Read the terms, choose each concept's preferred one, and settle which concepts there are."""
        dialect, name = self.dialect, self.dialect.terms
        self.release.require(name)
        self._read_ranks()
        self._first_languages = language_codes("preferred_language", preferred_language)
        ids, atoms, live, kept = [], [], [], []
        for frame in self.release.blocks(name, TERM_COLUMNS):
            frame = self.sieve.check(frame, not_an_id("CUI"), *_TERM_CHECKS)
            ids.append(frame["CUI"].unique(maintain_order=True))
            # The hash is 8 bytes, the atom's id with its view 16 or more.
            own = ["CUI", "AUI"] if dialect.atom_relations else [pl.col("AUI").hash()]
            atoms.append(frame.select("line", *own))
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
        terms = terms.with_columns(concept=place)
        terms = self.sieve.drop(terms, pl.col("concept") < 0, f"{name}: semantic type not chosen")
        if terms.is_empty():
            raise InputError("no term is left: no row passes the filters", file=self.release.shown(name))
        preferred = _best(terms["concept"].to_numpy(), terms["score"].to_numpy(), terms["atom"], self.n)
        self.terms = terms.drop("score", "atom").with_columns(preferred=pl.Series(preferred))
        known = self.rows.ids.filter(pl.Series(self.place >= 0))
        self.concepts = pl.DataFrame({"id": dialect.prefix + ":" + known}).with_columns(retired=pl.lit(False))
        if dialect.retire_obsolete:
            is_live = np.zeros(len(self.place), bool)
            is_live[self.rows.of(pl.concat(live))] = True
            self.concepts = self.concepts.with_columns(retired=pl.Series(~is_live[self.place >= 0]))

    def _chosen_terms(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the terms that pass the filters, with their columns as the table `terms` wants them."""
        name, filters = self.dialect.terms, self.filters
        if filters.languages:
            frame = self.sieve.drop(frame, ~pl.col("LAT").is_in(filters.languages), f"{name}: language not chosen")
        frame = filters.passed(name, frame, self.sieve)
        if filters.term_types:
            frame = self.sieve.drop(frame, ~pl.col("TTY").is_in(filters.term_types), f"{name}: term type not chosen")
        frame = frame.with_columns(score=self._score(frame))
        source = canonical_sources(frame)
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
            _type_of_term(filters).cast(pl.Categorical).alias("type"),
            "score",
            pl.col("AUI").str.extract(r"(\d{1,9})$").cast(pl.Int32).fill_null(0).alias("atom"),
        )

    def _score(self, frame: pl.DataFrame) -> pl.Series:
        """Return how well each term would do as its concept's name: language, suppression, rank, UMLS's own flags."""
        flags = (pl.col("TS") == "P").cast(pl.Int32) * 4 + (pl.col("STT") == "PF") * 2 + (pl.col("ISPREF") == "Y")
        # RxNorm writes N, older releases nothing.
        free = pl.col("SUPPRESS").is_in(["N", ""])
        first = pl.col("LAT").is_in(self._first_languages)
        ranked = frame.join(self.ranks, on=["SAB", "TTY"], how="left", maintain_order="left")
        rank = pl.col("rank").fill_null(0)
        return ranked.select(score=((first.cast(pl.Int32) * 2 + free) * MAX_RANK + rank) * 8 + flags)["score"]

    def _read_ranks(self) -> None:
        ranks = [self.ranks]
        for frame in self.release.blocks(self.dialect.ranks, ["RANK", "SAB", "TTY"]):
            rank = frame["RANK"].cast(pl.Int32, strict=False)
            frame = frame.with_columns(rank=rank.set((rank < 0) | (rank >= MAX_RANK), None))
            frame = self.sieve.check(frame, ("RANK", pl.col("rank").is_null(), "not a rank"))
            ranks.append(frame.select("SAB", "TTY", "rank"))
        self.ranks = pl.concat(ranks).unique(["SAB", "TTY"], keep="first", maintain_order=True)

    def _distinct_atoms(self, atoms: pl.DataFrame, terms: pl.DataFrame) -> pl.DataFrame:
        """Refuse terms with an atom id that an earlier term has."""
        repeated = atoms[:0]
        if len(atoms) > atoms["AUI"].n_unique():
            repeated = atoms.filter(~pl.col("AUI").is_first_distinct())
        if self.dialect.atom_relations:
            atoms = atoms.unique("AUI", keep="first", maintain_order=True)
            self.atom_rows = IdRows(atoms["AUI"])
            self.atom_concept = self.rows.of(atoms["CUI"])
        if repeated.is_empty():
            return terms
        shown = self.release.shown(self.dialect.terms)
        lines: list[int] = repeated["line"].to_list()
        for line in lines:
            self.sieve.rejects.add("an earlier row has this atom id", file=shown, line=line, field="AUI")
        return terms.filter(~pl.col("line").is_in(lines))

    def _choose_concepts(self, concept: Int32) -> None:
        """Number the concepts that have a term left and a semantic type that was asked for."""
        used = np.zeros(len(self.rows.ids), bool)
        used[concept] = True
        types = self._read_types()
        if wanted := self.filters.semantic_types:
            missing = set(wanted) - {*types["semantic_type"].unique(), *types["code"].unique()}
            if missing:
                shown = sorted(types["semantic_type"].unique().to_list())[:5]
                raise UsageError(f"semantic_types: unknown {sorted(missing)}; the release has {shown}, ...")
            chosen = types.filter(pl.col("semantic_type").is_in(wanted) | pl.col("code").is_in(wanted))
            has_type = np.zeros(len(used), bool)
            has_type[chosen["concept"].to_numpy()] = True
            used &= has_type
        self.n = int(used.sum())
        self.place = np.where(used, np.cumsum(used, dtype=np.int32) - 1, np.int32(-1))
        place = pl.Series(self.place[types["concept"].to_numpy()])
        types = types.with_columns(concept=place).filter(pl.col("concept") >= 0)
        self.semantic_types = types.with_columns(source=pl.lit("UMLS").cast(pl.Categorical))

    def _read_types(self) -> pl.DataFrame:
        schema = pl.Schema({"concept": pl.Int32(), "semantic_type": pl.Categorical(), "code": pl.Categorical()})
        types = [pl.DataFrame(schema=schema)]
        for frame in self.release.blocks(self.dialect.types, ["CUI", "TUI", "STY"]):
            frame = self.sieve.check(frame, ("STY", pl.col("STY") == "", "a semantic type without a name"))
            frame = frame.with_columns(concept=pl.Series(self.rows.of(frame["CUI"])))
            frame = self.sieve.check(frame, ("CUI", pl.col("concept") < 0, self.dialect.unknown))
            types.append(frame.select("concept", semantic_type="STY", code="TUI").cast(schema))
        return pl.concat(types)

    def read_relations(self, label: str, *, self_relations: bool) -> None:
        """Read the relations as rows of the concepts: REL reads from the second concept to the first."""
        sieve, name = self.sieve, self.dialect.relations
        unnamed = (pl.col("REL") == "") & (pl.col("RELA") == "")
        columns = RELATION_COLUMNS + (["AUI1", "AUI2"] if self.dialect.atom_relations else [])
        heads, tails, labels, sources = [], [], [], []
        for frame in self.release.blocks(name, columns):
            frame = sieve.check(frame, ("REL", unnamed, "a relation with neither REL nor RELA"))
            frame = self.filters.passed(name, frame, sieve)
            if not len(frame):
                continue
            head, tail, keep = self._ends(frame)
            if not self_relations:
                same = keep & (head == tail)
                sieve.count(f"{name}: between terms of one concept", int(same.sum()))
                keep &= ~same
            if not keep.all():
                frame, head, tail = frame.filter(pl.Series(keep)), head[keep], tail[keep]
            heads.append(head)
            tails.append(tail)
            coded = frame.select(relation=_label(label).cast(_LABELS), source=canonical_sources(frame).cast(_SOURCES))
            labels.append(coded["relation"])
            sources.append(coded["source"])
        if not heads:
            return
        # Column by column, so that no more than one stands twice in memory.
        frame = pl.DataFrame({"head": np.concatenate(heads)})
        heads.clear()
        frame = frame.with_columns(tail=pl.Series(np.concatenate(tails)))
        tails.clear()
        frame = frame.with_columns(relation=pl.concat(labels, rechunk=True))
        labels.clear()
        self.relations = frame.with_columns(source=pl.concat(sources, rechunk=True))
        # A concept is the child of its parent, or "is a".
        parts = {label: label.partition(":") for label in frame["relation"].unique().to_list()}
        upwards = sorted(label for label, (rel, _, rela) in parts.items() if rel == "CHD" or "isa" in (rel, rela))
        self.parent_labels = tuple(upwards)

    def _ends(self, frame: pl.DataFrame) -> tuple[Int32, Int32, NDArray[np.bool_]]:
        """Return head and tail of each relation, and which have both; report those that lead nowhere."""
        keep = np.ones(len(frame), bool)
        known = np.ones(len(frame), bool)
        ends = []
        for number in ("2", "1"):
            rows = self.rows.of(frame["CUI" + number])
            if self.dialect.atom_relations and (rows < 0).any():
                empty = (frame["CUI" + number] == "").to_numpy()
                atoms = self.atom_rows.of(frame["AUI" + number])
                rows = np.where(empty & (atoms >= 0), self.atom_concept[atoms], rows)
            if (rows < 0).any():
                unknown = pl.Series((rows < 0) & known)
                self.sieve.check(frame, ("CUI" + number, pl.lit(unknown), self.dialect.unknown))
                known &= rows >= 0
            place = self.place[rows]
            keep &= place >= 0
            ends.append(place)
        self.sieve.count(f"{self.dialect.relations}: of a concept that was left out", int((known & ~keep).sum()))
        return ends[0], ends[1], keep & known

    def at_concepts(self, name: str, frame: pl.DataFrame, column: str = "CUI") -> tuple[pl.DataFrame, Int32]:
        """Return the rows whose concept is kept, and its row in `concepts`."""
        rows = self.rows.of(frame[column])
        if (rows < 0).any():
            known = pl.Series(rows >= 0)
            frame, rows = self.sieve.check(frame, (column, ~pl.lit(known), self.dialect.unknown)), rows[rows >= 0]
        places = self.place[rows]
        self.sieve.count(f"{name}: of a concept that was left out", int((places < 0).sum()))
        return frame.filter(pl.Series(places >= 0)), places[places >= 0]

    def read_definitions(self) -> None:
        """Read the definitions; their language is that of their source."""
        name = self.dialect.definitions
        for frame in self.release.blocks(name, ["CUI", "ATUI", "SAB", "DEF", "SUPPRESS"]):
            frame = self.sieve.check(frame, *_columns.text("DEF", "definition", model.MAX_TEXT_CHARACTERS))
            frame = self.filters.passed(name, frame, self.sieve)
            tags = {source: self.languages.get(source, "en") for source in frame["SAB"].unique()}
            frame = frame.with_columns(language=pl.col("SAB").replace(tags))
            if self.filters.languages:
                chosen = pl.col("language").is_in([LANGUAGES[code] for code in self.filters.languages])
                frame = self.sieve.drop(frame, ~chosen, f"{name}: language not chosen")
            frame, places = self.at_concepts(name, frame)
            self.add(
                "definitions",
                frame,
                places,
                text=pl.col("DEF"),
                language=pl.col("language"),
                source=canonical_sources(frame),
                reference=pl.when(pl.col("ATUI") != "").then(pl.col("ATUI")),
            )

    def add(self, table: str, frame: pl.DataFrame, places: Int32, **columns: pl.Expr) -> None:
        if len(frame):
            self.side.setdefault(table, []).append(frame.select(concept=pl.Series(places), **columns))

    def read_retired(self, name: str, column: str, kinds: Sequence[str], replaced: Sequence[str]) -> None:
        """Add the concepts of the column CUI1 that have no terms as retired ones, and CUI2 as what to use instead.

        Args:
            kinds: values of `column` in rows that name a successor; empty: all but rows that name the concept itself.
            replaced: those of them whose successor replaces the concept; the others are to be considered.
        """
        columns, prefix = ["CUI1", column, "CUI2"], self.dialect.prefix
        frames = [pl.DataFrame(schema=dict.fromkeys(columns, pl.String))]
        for frame in self.release.blocks(name, columns):
            frame = self.sieve.check(frame, not_an_id("CUI1"))
            has_terms = pl.Series(self.rows.of(frame["CUI1"]) >= 0)
            frame = self.sieve.drop(frame, has_terms, f"{name}: of a concept that has terms")
            frames.append(frame.select(columns))
        rows = pl.concat(frames)
        ids = rows.select("CUI1").unique(maintain_order=True)
        concepts = ids.select(id=prefix + ":" + pl.col("CUI1"), retired=pl.lit(True))
        self.concepts = pl.concat([self.concepts, concepts])
        ids = ids.with_columns(concept=pl.int_range(self.n, self.n + len(ids), dtype=pl.Int32))
        self.n += len(ids)
        rows = rows.join(ids, on="CUI1", how="left", maintain_order="left").filter(
            pl.col("CUI2") != "", pl.col(column).is_in(kinds) if kinds else pl.col("CUI2") != pl.col("CUI1")
        )
        self.add(
            "replacements",
            rows,
            rows["concept"].to_numpy(),
            predicate=model.predicate(pl.col(column).is_in(replaced)),
            object=pl.concat_str(pl.lit(f"{prefix}:"), pl.col("CUI2")),
        )

    def tables(self, sources: list[dict[str, Any]]) -> Tables:
        """Return the tables; files of the release that were not read are counted as left out."""
        used = self.dialect.layouts
        read = {part for name in used for part in self.release.parts[name]}
        for part in self.release.all_parts:
            stem, extension, _ = part.name.upper().partition(".RRF")
            if extension and part not in read:
                self.sieve.dropped[f"file {part.name.upper() if stem in used else stem}"] += 1
        side = {table: pl.concat(frames) for table, frames in self.side.items()}
        # Handed over and not kept, so that memory is free again as soon as a table is saved.
        terms, self.terms = self.terms, pl.DataFrame()
        relations, self.relations = self.relations, pl.DataFrame()
        return Tables(
            concepts=self.concepts,
            terms=terms,
            relations=relations,
            semantic_types=self.semantic_types,
            sources=sources,
            source=self.dialect.prefix,
            parent_relations=self.parent_labels,
            dropped=dict(self.sieve.dropped),
            **side,
        )


def _type_of_term(filters: Filters) -> pl.Expr:
    """Return the type of a term as Alphita writes it, from SUPPRESS, TTY and SAB."""
    known = pl.col("TTY").replace_strict(TERM_TYPES, default=None, return_dtype=pl.String)
    layperson = pl.when(pl.col("SAB").is_in(LAYPERSON_SOURCES)).then(pl.lit("layperson"))
    obsolete = (pl.col("SUPPRESS") == "O") & (not filters.obsolete_trains)
    return pl.when(obsolete).then(pl.lit("obsolete")).otherwise(pl.coalesce(known, layperson))


def _best(concept: Int32, score: NDArray[np.int32], atom: pl.Series, n: int) -> NDArray[np.bool_]:
    """Return, for each term, whether it is the best of its concept; of equal ones that of the lowest atom id."""
    key = (score.astype(np.int64) + 1) * len(concept) - atom.rank("ordinal").to_numpy()
    best = np.full(n, -1, np.int64)
    np.maximum.at(best, concept, key)
    return best[concept] == key


def _label(kind: str) -> pl.Expr:
    rel, rela = (pl.col(name).replace("", None) for name in ("REL", "RELA"))
    if kind == "both":
        return pl.concat_str(rel, rela, separator=":", ignore_nulls=True)
    return pl.coalesce((rel, rela) if kind == "rel" else (rela, rel))
