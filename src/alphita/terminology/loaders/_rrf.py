"""Rich Release Format, in which UMLS and RxNorm come: finding the files, reading them in blocks, building the tables.

Every line is a row, every field ends in '|', there is no header and no quoting. A file is read in blocks of some MB:
each line's fields are counted, lines that do not fit go to the rejects with their number, and polars splits the rest.
So a relation file of 8 GB passes in the memory of one block plus three integers a relation.
"""

from __future__ import annotations

import fnmatch
import gzip
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import model, prefixes
from alphita.terminology.loaders import _files
from alphita.terminology.model import Tables

BLOCK_BYTES = 32 * 2**20
PIPE, NEWLINE = ord("|"), ord("\n")
# Ids whose number is below this find their row by a plain table.
MAX_NUMBER = 200_000_000

# LAT, the older of the two ISO 639-2 codes, and SCR as UMLS long called Croatian -> BCP-47.
LANGUAGES = {
    "ARA": "ar", "BAQ": "eu", "BUL": "bg", "CAT": "ca", "CHI": "zh", "CZE": "cs", "DAN": "da", "DUT": "nl", "ENG": "en",
    "EST": "et", "FIN": "fi", "FRE": "fr", "GER": "de", "GLE": "ga", "GRE": "el", "HEB": "he", "HIN": "hi",
    "HRV": "hr", "HUN": "hu", "ICE": "is", "IND": "id", "ITA": "it", "JPN": "ja", "KOR": "ko", "LAT": "la",
    "LAV": "lv", "LIT": "lt", "MAY": "ms", "NOR": "no", "PER": "fa", "POL": "pl", "POR": "pt", "RUM": "ro",
    "RUS": "ru", "SCR": "hr", "SLO": "sk", "SLV": "sl", "SPA": "es", "SRP": "sr", "SWE": "sv", "THA": "th",
    "TUR": "tr", "UKR": "uk", "VIE": "vi",
}  # fmt: skip

# Term types whose meaning is the same in every source.
TERM_TYPES = {
    "AB": "abbreviation", "ACR": "abbreviation", "MTH_ACR": "abbreviation", "BN": "brand_name",
    "PTGB": "uk_spelling", "SYGB": "uk_spelling", "MTH_PTGB": "uk_spelling", "MTH_SYGB": "uk_spelling",
    "ETCF": "layperson",
}  # fmt: skip
LAYPERSON_SOURCES = ("CHV",)
SUPPRESSION = ("N", "O", "E", "Y")

Int32 = NDArray[np.int32]


# --- finding the files -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One file, or one member of a zip file."""

    path: Path
    member: str | None = None

    @property
    def name(self) -> str:
        """The file's own name, in capitals."""
        return Path(self.member or self.path.name).name.upper()

    @property
    def shown(self) -> str:
        """How messages name it."""
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it, unpacked.

        Raises:
            InputError: it cannot be read, or is empty.
        """
        if self.member is None:
            with _files.open_bytes(self.path) as file:
                yield file
            return
        with _unzipping(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
            if not self.name.endswith(".GZ"):
                yield member
                return
            with gzip.open(member, "rb") as unpacked:
                yield unpacked  # type: ignore[misc]


@contextmanager
def _unzipping(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"the zip file is damaged, encrypted or cut short ({error})", file=path) from None


def find_parts(paths: Sequence[Path]) -> list[Part]:
    """Return every file of the paths: folders are walked, zip files opened.

    Raises:
        InputError: a path does not exist or cannot be read.
    """
    found = []
    for path in map(Path, paths):
        files = sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]
        for file in files:
            if not path.is_dir():
                with _files.open_bytes(file):
                    pass
            found += _members(file) if file.suffix.lower() in (".zip", ".nlm") else [Part(file)]
    return found


def _members(path: Path) -> list[Part]:
    with _unzipping(path), zipfile.ZipFile(path) as archive:
        return [Part(path, name) for name in sorted(archive.namelist()) if not name.endswith("/")]


class Release:
    """The files of one release.

    Attributes:
        layouts: columns of each file; those of MRFILES.RRF, where there is one, win over the usual ones.
        rows: how many rows MRFILES.RRF says that each file has.
    """

    def __init__(self, paths: Sequence[Path], layouts: Mapping[str, str], rejects: Rejects) -> None:
        """Find the files; `layouts` gives the usual columns by file, separated by spaces."""
        self.rejects = rejects
        self.layouts = {name: tuple(columns.split()) for name, columns in layouts.items()}
        self.rows: dict[str, int] = {}
        self.parts: dict[str, list[Part]] = {}
        self.all_parts = find_parts(paths)
        for name in layouts:
            self.parts[name] = self._choose(name)
        self._hashing = ThreadPoolExecutor(max_workers=1)
        self._hashed: dict[Part, Future[dict[str, Any]]] = {}

    def __enter__(self) -> Release:
        """Use as a context manager."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread that hashes."""
        self._hashing.shutdown(cancel_futures=True)

    def _choose(self, name: str) -> list[Part]:
        """Return the file of that name: plain, gzipped, or cut into MRCONSO.RRF.aa.gz, .ab.gz, ..."""
        for pattern in (f"{name}.RRF", f"{name}.RRF.GZ", f"{name}.RRF.[A-Z][A-Z]*"):
            chosen = [part for part in self.all_parts if fnmatch.fnmatchcase(part.name, pattern)]
            # The one nearest to the top: RxNorm has a second, smaller release in the folder `prescribe`.
            folders = {part: part.shown.rpartition("/")[0] for part in chosen}
            if chosen:
                top = min(folders.values(), key=lambda folder: (folder.count("/"), "prescrib" in folder, folder))
                return sorted((part for part in chosen if folders[part] == top), key=lambda part: part.name)
        return []

    def has(self, name: str) -> bool:
        """Tell whether the release has that file."""
        return bool(self.parts[name])

    def shown(self, name: str) -> str:
        """Return how messages call a file of the release; one in several parts by its whole name."""
        parts = self.parts[name]
        return parts[0].shown if len(parts) == 1 else parts[0].shown.rsplit(".", 2)[0]

    def require(self, name: str) -> None:
        """Check that a file is there.

        Raises:
            InputError: it is not.
        """
        if not self.has(name):
            shown = sorted({part.name for part in self.all_parts})
            where = self.all_parts[0].path.parent if self.all_parts else None
            raise InputError(
                f"no file {name}.RRF (or {name}.RRF.gz) was given; found {shown[:8] or 'none'}", file=where,
                remedy="give the folder of the release, its zip file, or the files themselves",
            )  # fmt: skip

    def read_layouts(self, name: str) -> None:
        """Take columns and row counts of all files from MRFILES.RRF, where there is one."""
        for block in self.blocks(name, ["FIL", "FMT", "RWS"]):
            for file, columns, rows in block.select("FIL", "FMT", "RWS").iter_rows():
                stem = Path(file).name.upper().removesuffix(".RRF")
                if stem in self.layouts and stem != name:
                    self.layouts[stem] = tuple(column.strip().upper() for column in columns.split(","))
                    if rows.isdigit():
                        self.rows[stem] = int(rows)

    def rename(self, name: str, old: str, new: str) -> None:
        """Call a column of a file otherwise."""
        self.layouts[name] = tuple(new if column == old else column for column in self.layouts[name])

    def sources(
        self, name: str, version: str | None, licence: str, versions: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Return the manifest's entries, one a file on disk; the first one also holds the sources' versions."""
        common = {"name": name, "version": version, "licence": licence}
        found = [{**future.result(), **common} for future in self._hashed.values()]
        if found and versions:
            found[0]["sources"] = dict(sorted(versions.items()))
        return found

    # --- reading -----------------------------------------------------------------------------------------------------

    def blocks(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield a file's rows, block by block: the wanted columns as strings ("" where empty), `file` and `line`.

        Nothing is yielded where the release lacks the file.

        Raises:
            InputError: it cannot be read, is not of the format, or lacks one of `columns`.
        """
        parts = self.parts[name]
        if not parts:
            return
        for part in parts:
            if part.path not in {other.path for other in self._hashed}:
                self._hashed[part] = self._hashing.submit(_files.source, part.path, name=name)
        shown = self.shown(name)
        layout = self.layouts[name]
        for column in columns:
            if column not in layout:
                raise InputError(f"MRFILES gives {name}.RRF no column {column}; it has {list(layout)}", file=shown)
        places = {column: layout.index(column) for column in columns}
        checker = _Checker(len(layout), shown, self.rejects)
        for raw in _raw_blocks(parts):
            good, lines = checker.check(raw)
            if len(lines):
                yield _split(good, lines, places, len(layout))
        if checker.accepted == 0:
            raise InputError(
                f"no line has the {len(layout)} fields of {name}.RRF, each ended by '|'", file=shown,
                remedy="is it another file, or in another format (ORF)?",
            )  # fmt: skip
        if checker.line != self.rows.get(name, checker.line):
            problem = (
                f"MRFILES.RRF says {self.rows[name]:,} rows, the file has {checker.line:,}: cut short, or filtered?"
            )
            self.rejects.add(problem, file=shown)


def _raw_blocks(parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the bytes of the parts one after another, in blocks of whole lines."""
    rest = b""
    for part in parts:
        with part.open() as file:
            while data := _files.read_block(file, part.path, BLOCK_BYTES):
                end = data.rfind(b"\n") + 1
                if end:
                    yield rest + data[:end]
                    rest = b""
                rest += data[end:]
                if len(rest) > _files.MAX_LINE_BYTES:
                    raise InputError(
                        "a line of more than 16 MB: this is not a text file of the format", file=part.shown
                    )
    if rest:
        yield rest + b"\n"


class _Checker:
    """Counts the fields of each line; passes the good lines on and reports the others.

    Attributes:
        line: lines seen so far.
        accepted: of these, the good ones.
    """

    def __init__(self, n_fields: int, shown: str, rejects: Rejects) -> None:
        self.n_fields, self.shown, self.rejects = n_fields, shown, rejects
        self.pipes = 0
        self.line = self.accepted = 0

    def check(self, raw: bytes) -> tuple[bytes, NDArray[np.int64]]:
        """Return the good lines of a block, and their numbers from 1."""
        if self.line == 0:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            # Some tools leave out the '|' that ends the line.
            first = raw[: raw.index(b"\n")].rstrip(b"\r")
            self.pipes = self.n_fields - (first.count(b"|") == self.n_fields - 1)
        if b"\r" in raw:  # one byte is found far faster than two
            raw = raw.replace(b"\r\n", b"\n")
        signs = np.frombuffer(raw, np.uint8)
        starts = np.flatnonzero(signs[:-1] == NEWLINE) + 1
        starts = np.insert(starts, 0, 0)
        lines = np.arange(self.line + 1, self.line + 1 + len(starts))
        self.line += len(starts)
        pipes = (signs == PIPE).view(np.uint8)
        # Counted in one byte each, for memory: right but for multiples of 256, and those would show in the sum.
        counts = np.add.reduceat(pipes, starts, dtype=np.uint8)
        right = np.count_nonzero(pipes) == self.pipes * len(starts) and not (counts != self.pipes % 256).any()
        if not right or b"\0" in raw or not _is_utf8(raw):
            raw, lines = self._sort_out(raw, lines)
        self.accepted += len(lines)
        return raw, lines

    def _sort_out(self, raw: bytes, lines: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        kept, numbers = [], []
        for text, number in zip(raw.split(b"\n"), lines.tolist(), strict=False):
            if not text.strip():
                continue
            count = text.count(b"|")
            problem = None
            if count != self.pipes:
                problem = f"{count + (self.pipes != self.n_fields)} fields, but there must be {self.n_fields}"
            elif b"\0" in text:
                problem = "a NUL byte in the line"
            elif not _is_utf8(text):
                problem = "not utf-8"
            if problem is None:
                kept.append(text)
                numbers.append(number)
            else:
                shown = text[:100].decode("utf-8", "replace")
                self.rejects.add(problem, file=self.shown, line=number, value=shown)
        return b"\n".join([*kept, b""]), np.array(numbers, np.int64)


def _is_utf8(raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split(raw: bytes, lines: NDArray[np.int64], places: Mapping[str, int], n_fields: int) -> pl.DataFrame:
    names = {place: column for column, place in places.items()}
    order = sorted(names)
    frame = pl.read_csv(
        raw, has_header=False, separator="|", quote_char=None, columns=order, infer_schema=False,
        schema={f"column_{place + 1}": pl.String for place in range(n_fields)}, empty_string_is_null=False,
        extra_columns="ignore",
    )  # fmt: skip
    frame.columns = [names[place] for place in order]
    return frame.with_columns(pl.Series("line", lines.astype(np.int32)))


# --- ids -------------------------------------------------------------------------------------------------------------


class IdRows:
    """From ids to their places in a list.

    Ids of one letter or none and a number (C0000005, 161) are looked up in a plain table, 40 times as fast as strings
    by their hash; any others fall back on that.
    """

    def __init__(self, ids: pl.Series) -> None:
        """Take the ids, each once."""
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
            found = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["row"]
            return found.fill_null(-1).to_numpy()
        numbers = self._numbers(ids).fill_null(len(self.table)).to_numpy()
        rows = self.table[np.minimum(numbers, len(self.table) - 1)]
        # The last place of the table is never filled; lengths tell 7 from 007.
        same = self.lengths[rows] == ids.str.len_bytes().to_numpy()
        return np.where(same, rows, np.int32(-1))


# --- building --------------------------------------------------------------------------------------------------------


def listed(value: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    return [part.strip() for part in value.split(",") if part.strip()]


@dataclass(frozen=True)
class Filters:
    """What to take; an empty list takes all.

    Attributes:
        languages: LAT codes.
        sources: SABs.
        term_types: TTYs.
        suppression: values of SUPPRESS.
        semantic_types: names or TUIs.
    """

    languages: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    term_types: list[str] = field(default_factory=list)
    suppression: list[str] = field(default_factory=list)
    semantic_types: list[str] = field(default_factory=list)


def language_codes(option: str, value: str) -> list[str]:
    """Return LAT codes for a list of LAT codes or BCP-47 tags.

    Raises:
        UsageError: one is neither.
    """
    found = []
    for name in listed(value):
        codes = [code for code, tag in LANGUAGES.items() if name.upper() == code or name.lower() == tag]
        if not codes:
            raise UsageError(
                f"{option}: unknown language {name!r}; give LAT codes or BCP-47 tags: ENG, en, SPA, es, ..."
            )
        found += codes
    return found


@dataclass(frozen=True)
class Dialect:
    """How a distribution differs from another.

    Attributes:
        prefix: of the concepts' CURIEs, and their source.
        terms: stem of the file with the terms (MRCONSO); the others likewise. "" where there is none.
        atom_relations: relations may name atoms (AUI1, AUI2) instead of concepts.
        retire_obsolete: a concept all of whose terms are obsolete (SUPPRESS = O) is retired.
    """

    prefix: str
    terms: str
    relations: str
    types: str
    definitions: str
    sources: str
    ranks: str
    atom_relations: bool = False
    retire_obsolete: bool = False


class Builder:
    """Reads the files of a release one after another and gathers the tables.

    Call `read_terms` first; the rest in any order.
    """

    def __init__(self, release: Release, dialect: Dialect, filters: Filters, rejects: Rejects) -> None:
        """Start with nothing read."""
        self.release, self.dialect, self.filters, self.rejects = release, dialect, filters, rejects
        self.dropped: Counter[str] = Counter()
        self.extra: dict[str, list[pl.DataFrame]] = {}
        self.languages: dict[str, str] = {}
        # Rank of each source and term type: the greater, the better.
        self.ranks = pl.DataFrame(schema={"SAB": pl.String, "TTY": pl.String, "rank": pl.Int32})

    # --- pieces ------------------------------------------------------------------------------------------------------

    def refuse(self, name: str, frame: pl.DataFrame, bad: pl.Expr, problem: str, column: str) -> pl.DataFrame:
        """Report the rows for which `bad` holds; return the others."""
        mask = frame.select(bad.alias("bad"))["bad"]
        if not mask.any():
            return frame
        shown = self.release.shown(name)
        for value, line in frame.filter(mask).select(column, "line").iter_rows():
            self.rejects.add(problem, file=shown, line=line, field=column, value=value)
        return frame.filter(~mask)

    def drop(self, frame: pl.DataFrame, keep: pl.Expr, reason: str) -> pl.DataFrame:
        """Leave rows out on purpose, and count them."""
        mask = frame.select(keep.alias("keep"))["keep"]
        if mask.all():
            return frame
        self.dropped[reason] += len(frame) - int(mask.sum())
        return frame.filter(mask)

    def filtered(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Apply the filters by source and suppression, where the file has such columns."""
        if self.filters.sources and "SAB" in frame.columns:
            frame = self.drop(frame, pl.col("SAB").is_in(self.filters.sources), f"{name}: source not chosen")
        if self.filters.suppression and "SUPPRESS" in frame.columns:
            # An empty one says no more than N.
            values = [*self.filters.suppression, *([""] if "N" in self.filters.suppression else [])]
            frame = self.drop(frame, pl.col("SUPPRESS").is_in(values), f"{name}: suppressed")
        return frame

    def concept_rows(self, name: str, frame: pl.DataFrame, column: str) -> tuple[pl.DataFrame, Int32]:
        """Return the rows whose concept is kept, and its place in the table of concepts."""
        rows = self.rows.of(frame[column])
        if (rows < 0).any():
            known = pl.Series(rows >= 0)
            self.refuse(name, frame, ~pl.lit(known), f"no term of {self.dialect.terms} has this id", column)
            frame, rows = frame.filter(known), rows[rows >= 0]
        places = self.place[rows]
        if (places < 0).any():
            self.dropped[f"{name}: of a concept that was left out"] += int((places < 0).sum())
            frame, places = frame.filter(pl.Series(places >= 0)), places[places >= 0]
        return frame, places

    # --- terms and semantic types ------------------------------------------------------------------------------------

    def read_terms(self, preferred_language: str) -> None:
        """Read the terms, choose each concept's preferred one, and settle which concepts there are.

        Raises:
            InputError: the file is missing or is another; no term is left.
        """
        dialect, name = self.dialect, self.dialect.terms
        self.release.require(name)
        self._read_ranks()
        self._first_languages = language_codes("preferred_language", preferred_language)
        ids, atoms, live, kept = [], [], [], []
        for frame in self.release.blocks(name, TERM_COLUMNS):
            frame = self._good_terms(frame)
            ids.append(frame["CUI"].unique(maintain_order=True))
            # The hash is 8 bytes, the atom's id with its view 16 or more.
            atoms.append(frame.select("line", "CUI", "AUI") if dialect.atom_relations
                         else frame.select("line", AUI=pl.col("AUI").hash()))  # fmt: skip
            if dialect.retire_obsolete:
                live.append(frame.filter(pl.col("SUPPRESS") != "O")["CUI"].unique())
            for source, language in frame.select("SAB", "LAT").unique().iter_rows():
                self.languages.setdefault(source, LANGUAGES[language])
            kept.append(self._chosen_terms(frame))
        self.rows = IdRows(pl.concat(ids).unique(maintain_order=True))
        terms = self._distinct_atoms(pl.concat(atoms), pl.concat(kept))
        del ids, atoms, kept
        terms = terms.with_columns(concept=pl.Series(self.rows.of(terms["CUI"]))).drop("CUI", "line")
        self._choose_concepts(terms["concept"].to_numpy())
        place = pl.Series(self.place[terms["concept"].to_numpy()])
        terms = self.drop(
            terms.with_columns(concept=place), pl.col("concept") >= 0, f"{name}: semantic type not chosen"
        )
        if terms.is_empty():
            raise InputError("no term is left: no row passes the filters", file=self.release.shown(name))
        preferred = _best(terms["concept"].to_numpy(), terms["score"].to_numpy(), self.n)
        self.terms = terms.drop("score").with_columns(preferred=pl.Series(preferred))
        known = self.rows.ids.filter(pl.Series(self.place >= 0))
        self.concepts = pl.DataFrame({"id": dialect.prefix + ":" + known}).with_columns(
            source=pl.lit(dialect.prefix).cast(pl.Categorical), retired=pl.lit(False)
        )
        if dialect.retire_obsolete:
            is_live = np.zeros(len(self.place), bool)
            is_live[self.rows.of(pl.concat(live))] = True
            self.concepts = self.concepts.with_columns(retired=pl.Series(~is_live[self.place >= 0]))

    def _good_terms(self, frame: pl.DataFrame) -> pl.DataFrame:
        name = self.dialect.terms
        length = pl.col("STR").str.len_bytes()
        long = (length > model.MAX_TERM_CHARACTERS) & (pl.col("STR").str.len_chars() > model.MAX_TERM_CHARACTERS)
        known = pl.col("LAT").is_in(list(LANGUAGES))
        for bad, problem, column in (
            (_not_an_id("CUI"), "not a concept id", "CUI"),
            (pl.col("SAB") == "", "a term without a source", "SAB"),
            (~known, "unknown language code", "LAT"),
            (pl.col("STR").str.strip_chars() == "", "a term without a string", "STR"),
            (long, f"longer than {model.MAX_TERM_CHARACTERS:,} characters", "STR"),
        ):
            frame = self.refuse(name, frame, bad, problem, column)
        return frame

    def _chosen_terms(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the terms that pass the filters, with their columns as the table `terms` wants them."""
        name, filters = self.dialect.terms, self.filters
        if filters.languages:
            frame = self.drop(frame, pl.col("LAT").is_in(filters.languages), f"{name}: language not chosen")
        frame = self.filtered(name, frame)
        if filters.term_types:
            frame = self.drop(frame, pl.col("TTY").is_in(filters.term_types), f"{name}: term type not chosen")
        frame = frame.with_columns(score=self._score(frame))
        sources = {source: prefixes.canonical(source) for source in frame["SAB"].unique()}
        source = pl.col("SAB").replace(sources)
        # GO:0008150 of GO: the CURIE is made of source and code.
        code = pl.col("CODE").str.strip_prefix(pl.concat_str(source, pl.lit(":")))
        return frame.select(
            "line", "CUI",
            pl.col("STR").alias("string"),
            pl.col("LAT").replace_strict(LANGUAGES, return_dtype=pl.String).cast(pl.Categorical).alias("language"),
            source.cast(pl.Categorical).alias("source"),
            pl.when(~pl.col("CODE").is_in(["", "NOCODE"])).then(code).alias("code"),
            pl.when(pl.col("TTY") != "").then(pl.col("TTY")).cast(pl.Categorical).alias("term_type"),
            _type_of_term().cast(pl.Categorical).alias("type"),
            "score",
        )  # fmt: skip

    def _score(self, frame: pl.DataFrame) -> pl.Series:
        """Return how well each term would do as its concept's name: language, suppression, rank, UMLS's own flags."""
        flags = (pl.col("TS") == "P").cast(pl.Int32) * 4 + (pl.col("STT") == "PF") * 2 + (pl.col("ISPREF") == "Y")
        free = pl.col("SUPPRESS").is_in(_UNSUPPRESSED)
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
            frame = self.refuse(name, frame, pl.col("rank").is_null(), "not a rank", "RANK")
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
            self.rejects.add("this atom id stood before", file=shown, line=line, field="AUI")
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
            frame = self.refuse(name, frame, pl.col("STY") == "", "a semantic type without a name", "STY")
            rows = self.rows.of(frame["CUI"])
            self.refuse(
                name, frame, ~pl.lit(pl.Series(rows >= 0)), f"no term of {self.dialect.terms} has this id", "CUI"
            )
            frame = frame.with_columns(concept=pl.Series(rows)).filter(pl.col("concept") >= 0)
            found.append(frame.select("concept", semantic_type="STY", code="TUI").cast(schema))
        return pl.concat(found)

    # --- relations ---------------------------------------------------------------------------------------------------

    def read_relations(self, label: str, *, self_relations: bool) -> None:
        """Read the relations as rows of the concepts: REL reads from the second concept to the first.

        Args:
            label: "rel", "rela" (REL where RELA is empty) or "both" (REL:RELA).
            self_relations: keep those between two terms of one concept.
        """
        name = self.dialect.relations
        columns = RELATION_COLUMNS + (["AUI1", "AUI2"] if self.dialect.atom_relations else [])
        heads, tails, labels, sources = [], [], [], []
        for frame in self.release.blocks(name, columns):
            frame = self.refuse(name, frame, pl.col("REL") == "", "a relation without REL", "REL")
            frame = self.filtered(name, frame)
            if not len(frame):
                continue
            head, tail, keep = self._ends(name, frame)
            if not self_relations:
                same = keep & (head == tail)
                if same.any():
                    self.dropped[f"{name}: between terms of one concept"] += int(same.sum())
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
            self.relations, self.parent_labels = model.empty("relations"), ()
            return
        # Column by column, so that no more than one stands twice in memory.
        frame = pl.DataFrame({"head": np.concatenate(heads)})
        heads.clear()
        frame = frame.with_columns(tail=pl.Series(np.concatenate(tails)))
        tails.clear()
        frame = frame.with_columns(relation=pl.concat(labels, rechunk=True))
        labels.clear()
        self.relations = frame.with_columns(source=pl.concat(sources, rechunk=True))
        self.parent_labels = tuple(sorted(found for found in frame["relation"].unique().to_list() if _leads_up(found)))

    def _ends(self, name: str, frame: pl.DataFrame) -> tuple[Int32, Int32, NDArray[np.bool_]]:
        """Return head and tail of each relation, and which have both; complain of those that lead nowhere."""
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
                problem = f"no term of {self.dialect.terms} has this id"
                self.refuse(name, frame, pl.lit(unknown), problem, "CUI" + number)
                known &= rows >= 0
            place = self.place[rows]
            keep &= place >= 0
            ends.append(place)
        if (known & ~keep).any():
            self.dropped[f"{name}: of a concept that was left out"] += int((known & ~keep).sum())
        return ends[0], ends[1], keep & known

    # --- the rest ----------------------------------------------------------------------------------------------------

    def read_definitions(self) -> None:
        """Read the definitions; their language is that of their source."""
        name = self.dialect.definitions
        for frame in self.release.blocks(name, ["CUI", "ATUI", "SAB", "DEF", "SUPPRESS"]):
            long = pl.col("DEF").str.len_chars() > model.MAX_TEXT_CHARACTERS
            frame = self.refuse(name, frame, pl.col("DEF").str.strip_chars() == "", "an empty definition", "DEF")
            frame = self.refuse(name, frame, long, f"longer than {model.MAX_TEXT_CHARACTERS:,} characters", "DEF")
            frame = self.filtered(name, frame)
            tags = {source: self.languages.get(source, "en") for source in frame["SAB"].unique()}
            frame = frame.with_columns(language=pl.col("SAB").replace(tags))
            if self.filters.languages:
                chosen = pl.col("language").is_in([LANGUAGES[code] for code in self.filters.languages])
                frame = self.drop(frame, chosen, f"{name}: language not chosen")
            frame, places = self.concept_rows(name, frame, "CUI")
            sources = {source: prefixes.canonical(source) for source in frame["SAB"].unique()}
            self.add(
                "definitions", frame, places, text=pl.col("DEF"), language=pl.col("language"),
                source=pl.col("SAB").replace(sources), reference=pl.when(pl.col("ATUI") != "").then(pl.col("ATUI")),
            )  # fmt: skip

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
            frame = self.refuse(name, frame, _not_an_id("CUI1"), "not a concept id", "CUI1")
            gone = pl.Series(self.rows.of(frame["CUI1"]) < 0)
            found.append(self.drop(frame, pl.lit(gone), f"{name}: of a concept that has terms"))
        rows = pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
        ids = rows.select("CUI1").unique(maintain_order=True)
        concepts = ids.select(
            id=self.dialect.prefix + ":" + pl.col("CUI1"),
            source=pl.lit(self.dialect.prefix).cast(pl.Categorical), retired=pl.lit(True),
        )  # fmt: skip
        self.concepts = pl.concat([self.concepts, concepts])
        ids = ids.with_columns(concept=pl.int_range(self.n, self.n + len(ids), dtype=pl.Int32))
        self.n += len(ids)
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
        for part in self.release.all_parts:
            stem = part.name.partition(".RRF")[0]
            if ".RRF" in part.name and part not in [chosen for name in used for chosen in self.release.parts[name]]:
                self.dropped[f"file {part.name if stem in used else stem}"] += 1
        side = {table: pl.concat(frames) for table, frames in self.extra.items()}
        terms, self.terms = self.terms, pl.DataFrame()
        relations, self.relations = self.relations, pl.DataFrame()
        return Tables(
            concepts=self.concepts, terms=terms, relations=relations, semantic_types=self.semantic_types,
            sources=sources, parent_relations=self.parent_labels, dropped=dict(self.dropped), **side,
        )  # fmt: skip


TERM_COLUMNS = ["CUI", "LAT", "TS", "STT", "ISPREF", "AUI", "SAB", "TTY", "CODE", "STR", "SUPPRESS"]
RELATION_COLUMNS = ["CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS"]
MAX_RANK = 2**20
# RxNorm writes N, older releases nothing.
_UNSUPPRESSED = ["N", ""]
# Two bytes a relation instead of four, for 88 M of them.
_LABELS = pl.Categorical(pl.Categories("relation", "alphita", physical=pl.UInt16))
_SOURCES = pl.Categorical(pl.Categories("source", "alphita", physical=pl.UInt16))


def _not_an_id(column: str) -> pl.Expr:
    return (pl.col(column) == "") | pl.col(column).str.contains(r"\s")


def _type_of_term() -> pl.Expr:
    """Return the type of a term as Alphita writes it, from SUPPRESS, TTY and SAB."""
    known = pl.col("TTY").replace_strict(TERM_TYPES, default=None, return_dtype=pl.String)
    return (
        pl.when(pl.col("SUPPRESS") == "O").then(pl.lit("obsolete"))
        .when(known.is_null() & pl.col("SAB").is_in(LAYPERSON_SOURCES)).then(pl.lit("layperson"))
        .otherwise(known)
    )  # fmt: skip


def _label(kind: str) -> pl.Expr:
    rel, rela = pl.col("REL"), pl.col("RELA")
    if kind == "rel":
        return rel
    if kind == "rela":
        return pl.when(rela == "").then(rel).otherwise(rela)
    return pl.when(rela == "").then(rel).otherwise(pl.concat_str(rel, rela, separator=":"))


def _leads_up(label: str) -> bool:
    """Tell whether a relation leads from a concept to its parent: it is its child, or "is a"."""
    rel, _, rela = label.partition(":")
    return rel == "CHD" or "isa" in (rel, rela)


def _best(concept: Int32, score: NDArray[np.int32], n: int) -> NDArray[np.bool_]:
    """Return, for each term, whether it is the best of its concept; of equal ones the first."""
    place = np.arange(len(concept), dtype=np.int64)
    key = score.astype(np.int64) * len(concept) + place[::-1]
    best = np.full(n, -1, np.int64)
    np.maximum.at(best, concept, key)
    return best[concept] == key
