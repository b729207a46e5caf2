"""phenotype.hpoa, HPO's annotations of diseases: diseases and their phenotypes, added to a terminology that has HPO.

Each disease becomes a concept (unless the terminology has it), named by the file. An annotation becomes a relation from
the disease to a term of HPO; what it says of frequency and onset becomes further relations, and properties that keep
the numbers. The header's old and new spellings are read ("#DatabaseID", "database_id").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model, prefixes, reading
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files
from alphita.terminology.loaders._columns import Columns, commonest
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology

DESCRIPTION = "HPO's disease annotations (phenotype.hpoa); adds to a terminology (--onto)"

# Names of the files that are read, where they lie among others.
ENDINGS = (".hpoa", ".tab")
# Column names without case and underscores.
NEEDED = ("databaseid", "diseasename", "hpoid")
ASPECTS = {
    "P": "has_phenotype",
    "I": "has_inheritance",
    "C": "has_clinical_course",
    "M": "has_clinical_modifier",
    "H": "has_past_medical_history",
}
ONSET = "HP:0003674"
# HPO's terms of frequency, from HP:0040280 on, and the share of the patients from which each holds.
_WORDS = ("obligate", "very_frequent", "frequent", "occasional", "very_rare", "excluded")
FREQUENCIES = {f"HP:{number:07}": word for number, word in enumerate(_WORDS, 40280)}
_SHARES = dict(zip(_WORDS, (Fraction(1), Fraction(80, 100), Fraction(30, 100), Fraction(5, 100)), strict=False))
_RATIO = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)\s*%")
_CURIE = re.compile(r"[^\s:]+:\S+")
_REMEDY = "phenotype.hpoa has the columns database_id, disease_name, qualifier, hpo_id, …"


class Options(Config):
    """Options of the loader of HPO annotations."""

    onto: str = Field("", description="terminology with HPO to add to; on the command line --onto")
    frequency: bool = Field(True, description="add relations such as has_frequent_phenotype if there is a frequency")
    negated: bool = Field(
        False,
        description="read annotations with NOT, or with frequency 0, as lacks_phenotype; by default they are left out",
    )
    language: Language = Field("en", description="BCP-47 tag of disease names")
    encoding: str = Field("utf-8", description="encoding of the files")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: the columns that are needed, in either spelling."""
    return seen.settings(lambda file: {*NEEDED} <= {*_header(file.lines(), {})[1]}, ENDINGS)


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read the base terminology and add the diseases and annotations in the files."""
    base, columns = reading.open_base(options.onto, "hpoa"), Columns(rejects)
    reader = _Reader(options, columns)
    sources = [reader.read(file) for file in _files.chosen(paths, ENDINGS, columns.dropped)]
    _Adder(base, options, columns).add(reader.annotations)
    return _columns.added_to(base, columns, sources)


def _header(lines: Iterator[tuple[int, str]], remarks: dict[str, str]) -> tuple[int, list[str]]:
    """Return the line of the header, and the names in it, none where there is no header."""
    for number, line in lines:
        header = [name.lower().replace("_", "") for name in textio.tab_cells(line.removeprefix("#"))]
        if "databaseid" in header or (line.strip() and not line.startswith("#")):
            return number, header
        key, _, value = line.removeprefix("#").partition(":")
        remarks[key.strip().lower()] = value.strip()
    return 0, []


@dataclass
class _Annotation:
    file: str
    line: int
    disease: str
    name: str
    term: str
    relation: str
    negated: bool
    frequency: str
    onset: str


class _Reader:
    """Reads files one after another into annotations."""

    def __init__(self, options: Options, columns: Columns) -> None:
        self.options, self.columns = options, columns
        self.annotations: list[_Annotation] = []

    def read(self, member: Member) -> dict[str, Any]:
        self.columns.file = member.place
        lines = _files.lines(member, self.options.encoding, self.columns.rejects)
        remarks: dict[str, str] = {}
        place, header = _header(lines, remarks)
        if not header:
            raise InputError("no header in this file", file=member.place, remedy=_REMEDY)
        textio.check_header(header, NEEDED, member.place, place, _REMEDY)
        for number, row in textio.line_rows(lines, header, member.place, self.columns.rejects):
            self._row(number, row)
        version = remarks.get("version") or remarks.get("date")
        return _files.source(member, name=member.name.split(".")[0] + ".hpoa", version=version)

    def _row(self, line: int, row: dict[str, str]) -> None:
        disease, term = prefixes.normalize(row["databaseid"]), prefixes.normalize(row["hpoid"])
        aspect, name, qualifier = row.get("aspect", "") or "P", row["diseasename"], row.get("qualifier", "")
        for field, value, problem in (
            ("database_id", disease, _wrong_id(disease)),
            ("hpo_id", term, _wrong_id(term)),
            ("qualifier", qualifier, "" if qualifier in ("", "NOT") else "the qualifier must be NOT or nothing"),
            ("aspect", aspect, "" if aspect in ASPECTS else f"unknown aspect; it must be one of {[*ASPECTS]}"),
            ("disease_name", name, model.too_long(name)),
        ):
            if problem:
                self.columns.refuse(problem, line, field, value)
                return
        for column in ("sex", "modifier"):
            if row.get(column):
                self.columns.dropped[f"{column} of an annotation"] += 1
        negated, frequency, onset = qualifier == "NOT", row.get("frequency", ""), row.get("onset", "")
        facts = (disease, name, term, ASPECTS[aspect], negated, frequency, prefixes.normalize(onset))
        self.annotations.append(_Annotation(self.columns.file, line, *facts))


def _wrong_id(identifier: str) -> str:
    is_id = _CURIE.fullmatch(identifier) and len(identifier) <= _columns.MAX_ID_CHARACTERS
    return "" if is_id else "not an id such as OMIM:154700"


def frequency_class(written: str) -> str | None:
    """Return HPO's word for a frequency ("HP:0040283", "3/20", "15%"); None where it cannot be read."""
    if written in FREQUENCIES:
        return FREQUENCIES[written]
    if match := _RATIO.fullmatch(written):
        part, whole = int(match[1]), int(match[2])
        share = Fraction(part, whole) if whole else Fraction(2)
    elif match := _PERCENT.fullmatch(written):
        share = Fraction(match[1]) / 100
    else:
        return None
    if share > 1:
        return None
    if share == 0:
        return "excluded"
    return next((name for name, least in _SHARES.items() if share >= least), "very_rare")


class _Adder:
    """Turns annotations into rows added to the base: its rows first, then one for each new disease."""

    def __init__(self, base: Terminology, options: Options, columns: Columns) -> None:
        self.base, self.options, self.columns = base, options, columns

    def add(self, annotations: list[_Annotation]) -> None:
        ids = {id_ for entry in annotations for id_ in (entry.disease, entry.term, entry.onset) if id_}
        self.rows = reading.rows_of(self.base, ids)
        self.n = self.base.n_concepts
        self.is_named = {
            row for row in self.rows.values() if self.base.concept_terms[row] < self.base.concept_terms[row + 1]
        }
        onset = reading.rows_of(self.base, [ONSET]).get(ONSET)
        self.onsets = set() if onset is None else {onset, *self.base.descendants(onset).tolist()}
        # A term that the base lacks must not be taken for a disease of the file.
        self.terms = {entry.term: self.rows.get(entry.term) for entry in annotations}
        uses = Counter(
            (entry.disease, entry.name) for entry in annotations if entry.name and self.terms[entry.term] is not None
        )
        self.names = commonest(uses)
        for entry in annotations:
            self.columns.file, self.line = entry.file, entry.line
            self._annotation(entry)

    def _annotation(self, entry: _Annotation) -> None:
        term = self.terms[entry.term]
        if term is None:
            self._refuse("no concept has this id; is the terminology an older HPO?", "hpo_id", entry.term)
            return
        frequency = frequency_class(entry.frequency) if entry.frequency else None
        if entry.frequency and frequency is None:
            problem = "unreadable frequency; the annotation is kept without it"
            self._refuse(problem, "frequency", entry.frequency)
        disease = self._disease(entry)
        if disease is None:
            return
        if entry.negated or frequency == "excluded":
            if self.options.negated:
                self._relation(disease, "lacks" + entry.relation.removeprefix("has"), term)
            else:
                self.columns.dropped["annotations with NOT or of frequency 0"] += 1
            return
        relation = entry.relation
        if relation == "has_clinical_course" and term in self.onsets:
            relation = "has_onset"
        self._relation(disease, relation, term)
        if frequency is not None:
            if self.options.frequency:
                self._relation(disease, f"has_{frequency}_{relation.removeprefix('has_')}", term)
            self._property(disease, "frequency", f"{self.base.concept_id(term)} {entry.frequency}")
        if entry.onset:
            self._onset(entry, disease, term)

    def _onset(self, entry: _Annotation, disease: int, term: int) -> None:
        onset = self.rows.get(entry.onset)
        if onset is None or onset >= self.base.n_concepts:
            self._refuse("no concept has this id; the annotation is kept without its onset", "onset", entry.onset)
            return
        self._relation(disease, "has_phenotype_onset", onset)
        self._property(disease, "phenotype_onset", f"{self.base.concept_id(term)} {self.base.concept_id(onset)}")

    def _disease(self, entry: _Annotation) -> int | None:
        """Return the row of the disease, made new with the first annotation; names but the commonest are synonyms."""
        row = self.rows.get(entry.disease)
        source, _, code = entry.disease.partition(":")
        if row is None:
            if not entry.name:
                self._refuse("a disease without a name", "disease_name", entry.disease)
                return None
            row, self.n = self.n, self.n + 1
            self.rows[entry.disease] = row
            self.columns.put("concepts", self.line, id=entry.disease, source=source, retired=False)
        if entry.name and not self._has_name(row, entry):
            self.columns.put(
                "terms",
                self.line,
                concept=str(row),
                string=entry.name,
                language=self.options.language,
                scope="exact",
                preferred=row not in self.is_named and entry.name == self.names[entry.disease],
                source=source,
                code=code,
            )
        return row

    def _has_name(self, row: int, entry: _Annotation) -> bool:
        if not self.columns.is_new("terms", str(row), entry.name):
            return True
        if row >= self.base.n_concepts:
            return False
        known = _columns.terms_of(self.base, row, "string", "language")
        return {"string": entry.name, "language": self.options.language} in known

    def _relation(self, head: int, label: str, tail: int) -> None:
        # One disease has the same annotation from several publications.
        if self.columns.is_new("relations", str(head), label, str(tail)):
            ends = {"head": str(head), "tail": str(tail)}
            self.columns.put("relations", self.line, **ends, relation=label, source="HPOA")

    def _property(self, row: int, name: str, value: str) -> None:
        if self.columns.is_new("properties", str(row), name, value):
            self.columns.put("properties", self.line, concept=str(row), name=name, value=value, source="HPOA")

    def _refuse(self, problem: str, field: str, value: str) -> None:
        self.columns.refuse(problem, self.line, field, value)
