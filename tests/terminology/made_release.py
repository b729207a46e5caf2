"""A made-up release in the layout of UMLS: 4.27 M concepts, 15.48 M names, 87.89 M relations at scale 1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

# UMLS 2020AA; the last three are rough.
SIZES = {
    "concepts": 4_270_000,
    "names": 15_480_000,
    "relations": 87_890_000,
    "semantic_types": 4_600_000,
    "definitions": 300_000,
    "retired": 1_000_000,
}
ROWS_AT_ONCE = 1_000_000
# Share of the names; the alphabet their words are of.
LANGUAGES = {
    "ENG": (0.71, "latin"),
    "SPA": (0.10, "accents"),
    "FRE": (0.03, "accents"),
    "POR": (0.025, "accents"),
    "JPN": (0.021, "han"),
    "RUS": (0.02, "cyrillic"),
    "DUT": (0.019, "latin"),
    "GER": (0.016, "accents"),
    "ITA": (0.016, "latin"),
    "CZE": (0.012, "accents"),
    "CHI": (0.005, "han"),
    "HUN": (0.005, "accents"),
    "KOR": (0.005, "han"),
    "NOR": (0.004, "accents"),
    "SWE": (0.003, "accents"),
    "POL": (0.003, "accents"),
    "TUR": (0.001, "accents"),
    "EST": (0.001, "accents"),
    "FIN": (0.001, "accents"),
    "LAV": (0.001, "accents"),
    "DAN": (0.0005, "accents"),
    "SCR": (0.0005, "accents"),
    "GRE": (0.0005, "cyrillic"),
    "BAQ": (0.0005, "latin"),
    "HEB": (0.0005, "latin"),
}
ALPHABETS = {
    "latin": [first + second for first in "bcdfglmnprstv" for second in ("a", "e", "i", "o", "u", "an", "or", "is")],
    "accents": [first + second for first in "bcdfglmnprstvšñç" for second in ("á", "é", "i", "ö", "ü", "an", "ão")],
    "cyrillic": [first + second for first in "бвгдклмнпрст" for second in "аеиоуы"],
    "han": [chr(0x4E00 + 7 * place) for place in range(400)],
}
TERM_TYPES = {"PT": 0.3, "SY": 0.35, "LLT": 0.1, "IS": 0.05, "OAP": 0.05, "AB": 0.03, "ET": 0.06, "MH": 0.06}
SUPPRESS = {"N": 0.75, "O": 0.17, "Y": 0.06, "E": 0.02}
RELATIONS = {
    ("RO", "finding_site_of"): 0.1,
    ("RO", "has_finding_site"): 0.1,
    ("RO", "associated_with"): 0.1,
    ("RO", ""): 0.05,
    ("SY", "same_as"): 0.05,
    ("SY", ""): 0.1,
    ("PAR", "inverse_isa"): 0.08,
    ("CHD", "isa"): 0.08,
    ("SIB", ""): 0.1,
    ("RB", "has_tradename"): 0.04,
    ("RN", "tradename_of"): 0.04,
    ("AQ", ""): 0.04,
    ("QB", ""): 0.04,
    ("RQ", "mapped_to"): 0.04,
    ("RQ", "mapped_from"): 0.04,
}
N_SEMANTIC_TYPES = 127
Ints = NDArray[np.int64]


LAYOUTS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRRANK": "RANK SAB TTY SUPPRESS",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
}


# --- writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """Writes the files of a release, a million rows at a time."""

    def __init__(self, folder: Path, scale: float, seed: int) -> None:
        """Make the ids and the vocabulary."""
        self.folder = folder
        self.sizes = {name: max(20, round(size * scale)) for name, size in SIZES.items()}
        self.rng = np.random.default_rng(seed)
        self.n = self.sizes["concepts"]
        # Every fifth number is free: concepts that were merged away.
        numbers = np.arange(self.n + self.n // 4 + 5)
        self.cui = _ids("C", numbers[numbers % 5 > 0][: self.n])
        self.languages = pl.Series(list(LANGUAGES))
        self.words = {name: self._words(parts) for name, parts in ALPHABETS.items()}
        # Some sources a language; the first ones are large.
        self.sources = {
            language: pl.Series([f"{language}SRC{place}" for place in range(60 if language == "ENG" else 3)])
            for language in LANGUAGES
        }

    def write(self) -> dict[str, int]:
        """Write everything; return the number of rows by file."""
        files: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
            "MRCONSO": self._names,
            "MRREL": self._relations,
            "MRSTY": self._semantic_types,
            "MRDEF": self._definitions,
            "MRRANK": self._ranks,
            "MRCUI": self._retired,
        }
        written = {name: self._write_rows(name, rows()) for name, rows in files.items()}
        lines = [f"{name}.RRF||{LAYOUTS[name].replace(' ', ',')}||{rows}||\n" for name, rows in written.items()]
        (self.folder / "MRFILES.RRF").write_text("".join(lines), encoding="utf-8")
        return written

    def _write_rows(self, name: str, blocks: Iterator[dict[str, Any]]) -> int:
        rows = 0
        with open(self.folder / f"{name}.RRF", "wb") as file:
            for given in blocks:
                block = pl.DataFrame({column: value for column, value in given.items() if not isinstance(value, str)})
                constants = {column: value for column, value in given.items() if isinstance(value, str)}
                columns = [
                    pl.col(column) if column in block.columns else pl.lit(constants.get(column, "")).alias(column)
                    for column in [*LAYOUTS[name].split(), "end"]
                ]
                block.select(columns).write_csv(file, include_header=False, separator="|", quote_style="never")
                rows += len(block)
        return rows

    def _names(self) -> Iterator[dict[str, Any]]:
        # Each concept has a name; the others go where there are many, as a Pareto distribution has it.
        weights = np.cumsum(self.rng.pareto(1.5, self.n) + 0.2)
        more = np.searchsorted(weights, self.rng.random(self.sizes["names"] - self.n) * weights[-1])
        concept = np.sort(np.concatenate([np.arange(self.n), np.minimum(more, self.n - 1)]))
        shares = np.array([share for share, _ in LANGUAGES.values()])
        for start, end in _slices(len(concept)):
            owner, n = concept[start:end], end - start
            first = np.diff(owner, prepend=concept[start - 1] if start else -1) > 0
            language = np.where(first, 0, self.rng.choice(len(LANGUAGES), n, p=shares / shares.sum()))
            number = np.arange(start, end) + 1
            code = self.rng.integers(0, 10**8, n)
            yield {
                "CUI": self.cui.gather(owner),
                "LAT": self.languages.gather(language),
                "TS": _either(first, "P", "S"),
                "LUI": _ids("L", number),
                "STT": _either(first, "PF", "VO"),
                "SUI": _ids("S", number),
                "ISPREF": _either(first | (number % 4 > 0), "Y", "N"),
                "AUI": _ids("A", number),
                "SCUI": pl.Series(code).cast(pl.String),
                "SAB": self._sources(language),
                "TTY": self._chosen(TERM_TYPES, n),
                "CODE": pl.Series(code).cast(pl.String),
                "STR": self._strings(language),
                "SRL": "0",
                "SUPPRESS": self._chosen(SUPPRESS, n),
            }

    def _relations(self) -> Iterator[dict[str, Any]]:
        total = self.sizes["relations"]
        # A few concepts have very many relations; which ones is arbitrary.
        shuffled = self.rng.permutation(self.n)
        rel = pl.Series([rel for rel, _ in RELATIONS])
        rela = pl.Series([rela for _, rela in RELATIONS])
        shares = np.array(list(RELATIONS.values()))
        for start, end in _slices(total):
            n = end - start
            ordered = np.sort(self.rng.integers(start * self.n // total, end * self.n // total, n))
            other = shuffled[self._skewed(self.n, n)]
            kind = self.rng.choice(len(shares), n, p=shares / shares.sum())
            source = np.minimum(self.rng.zipf(1.6, n), 60) - 1
            number = np.arange(start, end) + 1
            yield {
                "CUI1": self.cui.gather(ordered),
                "AUI1": _ids("A", ordered * 3 + 1),
                "STYPE1": "AUI",
                "REL": rel.gather(kind),
                "CUI2": self.cui.gather(other),
                "AUI2": _ids("A", other * 3 + 1),
                "STYPE2": "AUI",
                "RELA": rela.gather(kind),
                "RUI": _ids("R", number),
                "SAB": self.sources["ENG"].gather(source),
                "SL": self.sources["ENG"].gather(source),
                "DIR": "Y",
                "SUPPRESS": "N",
            }

    def _semantic_types(self) -> Iterator[dict[str, Any]]:
        total = self.sizes["semantic_types"]
        concept = np.sort(np.concatenate([np.arange(self.n), self.rng.integers(0, self.n, total - self.n)]))
        # A concept's second type is another than its first.
        again = np.diff(concept, prepend=-1) == 0
        for start, end in _slices(total):
            kind = (concept[start:end] * 31 + np.where(again[start:end], np.arange(start, end), 0)) % N_SEMANTIC_TYPES
            yield {
                "CUI": self.cui.gather(concept[start:end]),
                "TUI": _ids("T", kind, 3),
                "STN": "A1.2.3.4",
                "STY": pl.select("Invented Type " + pl.Series(kind).cast(pl.String)).to_series(),
                "ATUI": _ids("AT", np.arange(start, end), 8),
            }

    def _definitions(self) -> Iterator[dict[str, Any]]:
        for start, end in _slices(self.sizes["definitions"]):
            n = end - start
            english = np.zeros(n, np.int64)
            text = pl.DataFrame([self._strings(english).alias(str(place)) for place in range(6)])
            yield {
                "CUI": self.cui.gather(np.sort(self.rng.integers(0, self.n, n))),
                "AUI": "A0000001",
                "ATUI": _ids("AT", np.arange(start, end) + 50_000_000, 8),
                "SAB": self._sources(english),
                "DEF": text.select(pl.concat_str(pl.all(), separator=" ")).to_series(),
                "SUPPRESS": "N",
            }

    def _ranks(self) -> Iterator[dict[str, Any]]:
        pairs = [(source, kind) for names in self.sources.values() for source in names for kind in TERM_TYPES]
        ranks = [f"{rank:04}" for rank in range(len(pairs), 0, -1)]
        yield {
            "RANK": pl.Series(ranks),
            "SAB": pl.Series([source for source, _ in pairs]),
            "TTY": pl.Series([kind for _, kind in pairs]),
            "SUPPRESS": "N",
        }

    def _retired(self) -> Iterator[dict[str, Any]]:
        for start, end in _slices(self.sizes["retired"]):
            n = end - start
            merged = self.rng.random(n) < 0.7
            target = self.cui.gather(self.rng.integers(0, self.n, n))
            yield {
                "CUI1": _ids("C", np.arange(start, end) + 8_000_000),
                "VER": "2019AA",
                "REL": _either(merged, "SY", "DEL"),
                "CUI2": pl.select(pl.when(pl.Series(merged)).then(target).otherwise(pl.lit(""))).to_series(),
                "MAPIN": _either(merged, "Y", ""),
            }

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _words(self, syllables: list[str]) -> pl.Series:
        """Return 20,000 words of one to five syllables, the short ones first."""
        count = np.sort(self.rng.choice([1, 2, 3, 4, 5], 20_000, p=[0.05, 0.2, 0.35, 0.25, 0.15]))
        return self._joined(pl.Series(syllables), count, 5, "", lambda n: self.rng.integers(0, len(syllables), n))

    def _strings(self, language: Ints) -> pl.Series:
        """Return names of one to nine words; frequent words are many times as frequent as others."""
        found = pl.Series([None] * len(language), dtype=pl.String)
        for alphabet, words in self.words.items():
            those = np.flatnonzero(
                np.isin(language, [at for at, (_, kind) in enumerate(LANGUAGES.values()) if kind == alphabet])
            )
            if len(those):
                count = 1 + np.minimum(self.rng.poisson(2.6, len(those)), 8)
                pick = functools.partial(self._skewed, len(words))
                found = found.scatter(those, self._joined(words, count, 9, " ", pick))
        return found

    def _joined(
        self, pieces: pl.Series, count: Ints, most: int, separator: str, pick: Callable[[int], Ints]
    ) -> pl.Series:
        columns = []
        for place in range(most):
            chosen = pieces.gather(pick(len(count)))
            columns.append(chosen.set(pl.Series(count <= place), None).alias(str(place)))
        return pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator=separator, ignore_nulls=True)).to_series()

    def _skewed(self, size: int, n: int) -> Ints:
        """Return n places below `size`, the small ones far oftener."""
        return np.asarray(size * self.rng.random(n) ** 3).astype(np.int64)

    def _sources(self, language: Ints) -> pl.Series:
        names = pl.concat([*self.sources.values()])
        sizes = np.array([len(found) for found in self.sources.values()])
        start = np.cumsum(sizes) - sizes
        within = np.minimum(self.rng.zipf(1.6, len(language)), sizes[language]) - 1
        return names.gather(start[language] + within)

    def _chosen(self, shares: dict[str, float], n: int) -> pl.Series:
        weights = np.array(list(shares.values()))
        return pl.Series(list(shares)).gather(self.rng.choice(len(shares), n, p=weights / weights.sum()))


def _ids(letter: str, numbers: Ints, digits: int = 7) -> pl.Series:
    return pl.select(pl.lit(letter) + pl.Series(numbers).cast(pl.String).str.zfill(digits)).to_series()


def _either(mask: NDArray[np.bool_], yes: str, no: str) -> pl.Series:
    return pl.Series([no, yes]).gather(mask.astype(np.int64))


def _slices(n: int) -> Iterator[tuple[int, int]]:
    for start in range(0, n, ROWS_AT_ONCE):
        yield start, min(n, start + ROWS_AT_ONCE)


# --- measuring, each step in a process of its own --------------------------------------------------------------------
