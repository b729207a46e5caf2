"""What to take of a release in Rich Release Format, and how distributions of it differ."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.terminology import languages
from alphita.terminology.loaders._sieve import Sieve, listed

# Ids whose number is below this find their row by a plain table.
MAX_NUMBER = 200_000_000

Int32 = NDArray[np.int32]


class IdRows:
    """From ids to their places in a list.

    Ids of one letter or none and a number (C0000005, 161) are looked up in a plain table, 40 times as fast as strings
    by their hash; any others fall back on that.
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
            found = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["row"]
            return found.fill_null(-1).to_numpy()
        numbers = self._numbers(ids).fill_null(len(self.table)).to_numpy()
        rows = self.table[np.minimum(numbers, len(self.table) - 1)]
        # The last place of the table is never filled; lengths tell 7 from 007.
        same = self.lengths[rows] == ids.str.len_bytes().to_numpy()
        return np.where(same, rows, np.int32(-1))


# LAT, a code of ISO 639-2, most often the older of two -> BCP-47.
LANGUAGES = {code.upper(): tag for code, tag in languages.by_code().items() if len(code) == 3}


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

    def passed(self, name: str, frame: pl.DataFrame, sieve: Sieve) -> pl.DataFrame:
        """Return the rows of a file that pass by source and suppression, where it has such columns."""
        if self.sources and "SAB" in frame.columns:
            frame = sieve.drop(frame, ~pl.col("SAB").is_in(self.sources), f"{name}: source not chosen")
        if self.suppression and "SUPPRESS" in frame.columns:
            # An empty one says no more than N.
            values = [*self.suppression, *([""] if "N" in self.suppression else [])]
            frame = sieve.drop(frame, ~pl.col("SUPPRESS").is_in(values), f"{name}: suppressed")
        return frame


def language_codes(option: str, value: str) -> list[str]:
    """Return LAT codes for a list of LAT codes or BCP-47 tags."""
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

    @property
    def unknown(self) -> str:
        """What is wrong with the id of no concept."""
        return f"no term of {self.terms} has this id"


def not_an_id(column: str) -> pl.Expr:
    """Hold where a cell is empty or has white space in it."""
    return (pl.col(column) == "") | pl.col(column).str.contains(r"\s")
