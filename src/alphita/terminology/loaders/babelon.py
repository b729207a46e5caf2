"""Babelon tables, and the synonym tables beside them: translations added to an existing terminology.

A Babelon table (`hp-fr.babelon.tsv`) has one translated label, definition or synonym a row, with its status. The tables
of synonyms (`hp-fr.synonyms.tsv`) are of another shape: subject_id, translation_value and columns that differ from file
to file; several synonyms may stand in one cell, joined by `|`; the status may stand in the comment; a second header row
holds ROBOT's template, which states the language; and where nobody translated, English was left in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, Rejects, shorten
from alphita.terminology import languages, model, prefixes, reading
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files
from alphita.terminology.loaders._columns import Columns
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

DESCRIPTION = "translations of an ontology, such as HPO's; adds to a terminology (--onto)"

# Names of the files that are read, where they lie among others.
ENDINGS = (".tsv",)
NEEDED = ("subject_id", "translation_value")
NOT_TRANSLATED = "NOT_TRANSLATED"
STATUSES = {"OFFICIAL": "official", "UNDER_REVIEW": "candidate", "CANDIDATE": "candidate"}
MACHINE = "ALGORITHM"
LABEL, DEFINITION = "rdfs:label", "IAO:0000115"
SYNONYMS = {f"oboInOwl:has{scope.title()}Synonym": scope for scope in model.SCOPES}
# What stands for an empty cell in tables that statistics programs wrote.
EMPTY = frozenset({"", "NA"})

_TEMPLATE = re.compile(r"AL?\s+(\S+?)(?:@([\w-]+))?(?:\s+SPLIT=(\S+))?")
_NAMED = re.compile(r"[A-Za-z0-9]+[-_]([a-z]{2,3}(?:-[A-Za-z]{2,4})?)[.-].*")
_REMEDY = "a Babelon table has the columns subject_id, predicate_id, translation_language, translation_value"


class Options(Config):
    """Options of the Babelon loader."""

    onto: str = Field("", description="terminology to add to; on the command line --onto")
    language: Language = Field(
        "", description="BCP-47 tag of synonym tables that state none; empty: from the file's name (hp-fr.synonyms.tsv)"
    )
    status: str = Field(
        "official",
        pattern="^(official|candidate|machine)$",
        description="status of rows in synonym tables that state none",
    )
    encoding: str = Field("utf-8", description="encoding of the files")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: the columns that both kinds of its tables have."""
    return seen.settings(lambda file: {*NEEDED} <= {*_header(file.lines())[1]}, ENDINGS)


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read the base terminology and add the translations in the files."""
    base, columns = reading.open_base(options.onto, "babelon"), Columns(rejects)
    reader = _Reader(options, columns)
    sources = [reader.read(file) for file in _files.chosen(paths, ENDINGS, columns.dropped)]
    _Adder(base, columns).add(reader.translations)
    return _columns.added_to(base, columns, sources)


def _header(lines: Iterator[tuple[int, str]]) -> tuple[int, list[str]]:
    """Return the line of the header and the names in it; no names where there is none."""
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            return number, [name.lower().replace(" ", "_") for name in textio.tab_cells(line)]
    return 0, []


@dataclass
class _Translation:
    """One string, as read; `scope` is None for a definition."""

    file: str
    line: int
    concept: str
    string: str
    language: str
    status: str
    scope: str | None
    label: bool
    synonym_type: str
    reference: str
    from_synonyms: bool


class _Reader:
    """Reads files one after another into translations."""

    def __init__(self, options: Options, columns: Columns) -> None:
        self.options, self.columns = options, columns
        self.translations: list[_Translation] = []

    def read(self, member: Member) -> dict[str, Any]:
        self.member, self.columns.file = member, member.place
        lines = _files.lines(member, self.options.encoding, self.columns.rejects)
        place, header = _header(lines)
        if not header:
            raise InputError("no header in this file", file=member.place, remedy=_REMEDY)
        textio.check_header(header, NEEDED, member.place, place, _REMEDY)
        rows = textio.line_rows(lines, header, member.place, self.columns.rejects)
        version = None
        if "predicate_id" in header:
            textio.check_header(header, ("translation_language", "translation_status"), member.place, place, _REMEDY)
            version = self._babelon(rows)
        else:
            self._synonyms(rows)
        return _files.source(member, name=member.name.split(".")[0], version=version)

    def _babelon(self, rows: Iterator[tuple[int, dict[str, str]]]) -> str | None:
        version = None
        for line, row in rows:
            version = version or row.get("source_version") or None
            status = self._status(row["translation_status"], row.get("translator_expertise", ""), line)
            if status is None:
                continue
            predicate = row["predicate_id"]
            if predicate not in (LABEL, DEFINITION, *SYNONYMS):
                self.columns.dropped[f"predicate {shorten(predicate)}"] += 1
                continue
            self._translation(
                row,
                line,
                row["translation_value"],
                row["translation_language"],
                status,
                scope=None if predicate == DEFINITION else SYNONYMS.get(predicate, "exact"),
                label=predicate == LABEL,
            )
        return version

    def _status(self, written: str, expertise: str, line: int) -> str | None:
        """Return the status in the word used here; None for a row to be left out."""
        if written == NOT_TRANSLATED:
            self.columns.dropped["not translated"] += 1
            return None
        status = STATUSES.get(written)
        if status is None:
            problem = f"unknown status; it must be one of {[*STATUSES, NOT_TRANSLATED]}"
            self.columns.refuse(problem, line, "translation_status", written)
        # A machine's translation that somebody has made official is one no longer.
        elif expertise == MACHINE and status != "official":
            return "machine"
        return status

    def _synonyms(self, rows: Iterator[tuple[int, dict[str, str]]]) -> None:
        scope, language, separator = "exact", "", "|"
        for line, row in rows:
            if row["subject_id"] == "ID":
                template = _TEMPLATE.fullmatch(row["translation_value"])
                if template is None or template[1] not in SYNONYMS:
                    problem = "not a ROBOT template of synonyms"
                    self.columns.refuse(problem, line, "translation_value", row["translation_value"])
                else:
                    scope, language, separator = SYNONYMS[template[1]], template[2] or "", template[3] or "|"
                continue
            language = row.get("translation_language") or language or self._own_language(line)
            status = self._synonym_status(row, line)
            if status is None:
                continue
            for string in row["translation_value"].split(separator):
                self._translation(row, line, string.strip(), language, status, scope=scope, from_synonyms=True)

    def _own_language(self, line: int) -> str:
        named = _NAMED.fullmatch(self.member.name)
        language = self.options.language or (named[1] if named else "")
        if not language:
            problem, remedy = "nothing states the language of these synonyms", "name it: --set language=fr, say"
            raise InputError(problem, file=self.member.place, line=line, remedy=remedy)
        return language

    def _synonym_status(self, row: dict[str, str], line: int) -> str | None:
        for column in ("translation_status", "status", "comment"):
            if row.get(column, "") in (*STATUSES, NOT_TRANSLATED):
                return self._status(row[column], row.get("translator_expertise", ""), line)
        return self.options.status

    def _translation(
        self,
        row: dict[str, str],
        line: int,
        string: str,
        language: str,
        status: str,
        *,
        scope: str | None,
        label: bool = False,
        from_synonyms: bool = False,
    ) -> None:
        concept, tag = prefixes.normalize(row["subject_id"]), languages.normalize(language)
        limit = model.MAX_TEXT_CHARACTERS if scope is None else model.MAX_TERM_CHARACTERS
        if not concept:
            self.columns.refuse("a row without subject_id", line, "subject_id", None)
        elif tag is None:
            self.columns.refuse(languages.UNKNOWN, line, "translation_language", language)
        elif string in EMPTY:
            problem = "no translation, though its status says that there is one"
            self.columns.refuse(problem, line, "translation_value", string)
        elif problem := model.too_long(string, limit):
            self.columns.refuse(problem, line, "translation_value", string)
        else:
            kind = row.get("synonym_type", "")
            reference = row.get("translator") or row.get("contributor") or ""
            facts = (concept, string, tag, status, scope, label, kind, reference, from_synonyms)
            self.translations.append(_Translation(self.member.place, line, *facts))


class _Adder:
    """Turns translations into rows of terms and definitions of the base."""

    def __init__(self, base: Terminology, columns: Columns) -> None:
        self.base, self.columns = base, columns
        self._known: dict[int, list[dict[str, Any]]] = {}

    def add(self, translations: list[_Translation]) -> None:
        """Fill the columns; of several rows with one string the best is kept."""
        rows = reading.rows_of(self.base, (entry.concept for entry in translations))
        best: dict[tuple[int, str, str, bool], _Translation] = {}
        for entry in translations:
            row = rows.get(entry.concept)
            self.columns.file = entry.file
            if row is None:
                self.columns.refuse("no concept has this id", entry.line, "subject_id", entry.concept)
            elif reason := self._reason_to_drop(row, entry):
                self.columns.dropped[reason] += 1
            else:
                key = (row, entry.language, entry.string, entry.scope is None)
                if (other := best.get(key)) is not None:
                    self.columns.dropped["repeated rows"] += 1
                    # A machine's label that a person gives as a synonym is official, and still the label.
                    entry = replace(min(other, entry, key=_rank), label=other.label or entry.label)
                best[key] = entry
        named: set[tuple[int, str]] = set()
        # A better label of another file comes before the one read first.
        for (row, *_), entry in sorted(best.items(), key=lambda item: _rank(item[1])):
            identifier = self.base.concept_id(row)
            source, code = prefixes.parse_curie(identifier) or ("", identifier)
            common = {"language": entry.language, "source": source, "reference": entry.reference or None}
            self.columns.file = entry.file
            if entry.scope is None:
                self.columns.put("definitions", entry.line, concept=str(row), text=entry.string, **common)
                continue
            kind = re.split(r"[#/]", entry.synonym_type)[-1]
            self.columns.put(
                "terms",
                entry.line,
                concept=str(row),
                string=entry.string,
                scope=entry.scope,
                preferred=self._is_preferred(row, entry, named),
                type=model.term_type(kind),
                status=entry.status,
                code=code,
                term_type=kind or None,
                **common,
            )

    def _reason_to_drop(self, row: int, entry: _Translation) -> str:
        if entry.scope is None:
            # A definition has no status, so what a machine wrote could not be told from the rest.
            return "machine-translated definitions" if entry.status == "machine" else ""
        known = self._terms(row)
        if any(term["language"] == entry.language and term["string"] == entry.string for term in known):
            return "terms that the terminology has"
        # A label may well be the same word in both languages; its status says that it was translated.
        if entry.from_synonyms:
            cleaned = clean(entry.string)
            if any(term["language"] != entry.language and term["cleaned"] == cleaned for term in known):
                return "synonyms left untranslated"
        return ""

    def _terms(self, row: int) -> list[dict[str, Any]]:
        """Return string, language, preferred, status and cleaned string of the base's terms of a concept."""
        if row not in self._known:
            terms = _columns.terms_of(self.base, row, "string", "language", "preferred", "status")
            self._known[row] = [term | {"cleaned": clean(term["string"])} for term in terms]
        return self._known[row]

    def _is_preferred(self, row: int, entry: _Translation, named: set[tuple[int, str]]) -> bool:
        known, key = self._terms(row), (row, entry.language)
        # The name that is shown must stay the base's own, so a translation is preferred only beside a safe one.
        safe = bool(known) and known[0]["preferred"] and known[0]["status"] == "official"
        taken = any(term["preferred"] and term["language"] == entry.language for term in known)
        if entry.label and key in named:
            self.columns.dropped["further labels of a concept, kept as synonyms"] += 1
        preferred = entry.label and safe and not taken and key not in named
        if preferred:
            named.add(key)
        return preferred


def _rank(entry: _Translation) -> tuple[int, bool, bool, int, str]:
    """Sort official before candidate before machine, then labels before synonyms, by scope, and labels by alphabet."""
    scope = model.SCOPES.index(entry.scope or "exact")
    return model.STATUSES.index(entry.status), not entry.label, entry.from_synonyms, scope, entry.string * entry.label
