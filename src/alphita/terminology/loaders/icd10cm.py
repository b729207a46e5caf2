"""ICD-10-CM: the tabular list in XML, as the US CDC publishes it yearly (`icd10cm-tabular-*.xml`), or CMS's order file.

Read of the tabular list: chapters, sections (blocks) and codes with their titles, the hierarchy as is_a, inclusion
terms as synonyms, notes of what a chapter, section or code `includes` as narrow terms, and the codes that 7th-character
tables make ("S52.521A"), named as the official code list names them: title, comma, extension. Left out and counted in
the manifest: inclusion terms and notes that instruct coders and name nothing; excludes1, excludes2, codeFirst,
codeAlso, useAdditionalCode and other notes; the introduction; the tables of visual impairment.

Inclusion terms under a title that says "other ..." list conditions that share the code rather than name it: they are
narrow, not exact. Chapters and sections are named by their range ("A00-B99", "B20-B20"), as UMLS does. ICD-10-CM has no
semantic types; the level of each concept is kept as the property "level".

The order file (`icd10cm_order_2025.txt`) has fixed columns: order number (1 to 5), code without its dot (7 to 13),
whether it is valid for HIPAA-covered transactions (15), short title (17 to 76) and long one (from 78). Read: codes with
both titles, each under the longest shorter one; the validity as the property "billable". It has no chapters and no
inclusion terms, so where a tabular list is given too, that is read.

Beside either the alphabetical index may lie, in CDC's XML or as a CSV: its entries become names of their codes, see
`_icd10cm_index`. They are exact, but narrow (`other_inclusions`) where the code's title says that it holds other or
unspecified conditions, or where the entry leads to further codes, of which the first gets it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model
from alphita.terminology.detect import Beginning, Look, import_command
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _files, _icd10cm_index
from alphita.terminology.loaders._columns import Columns
from alphita.terminology.loaders._files import Member
from alphita.terminology.model import Tables
from alphita.terminology.text import clean, clean_many

DESCRIPTION = "ICD-10-CM: tabular list (XML) or CMS's order file, and the alphabetical index"
# Names of the files that are read, where they lie among others.
ENDINGS = (".xml", ".txt", ".csv")
PREFIX = "ICD10CM"
LICENCE = "public domain (US government work)"

LEVELS = {"chapter": "chapter", "section": "section", "diag": "code"}
# Elements that are not read.
NOTES = ("excludes1", "excludes2", "codeFirst", "codeAlso", "useAdditionalCode", "notes", "sevenChrNote")
DROPPED = frozenset({*NOTES, "introduction", "visualImpairment"})
_CODE = re.compile(r"[A-Z][0-9A-Z]{2}(\.[0-9A-Z]{1,4})?")
_RANGE = re.compile(r"\s*\(([A-Z][0-9A-Z]{2}(?:-[A-Z][0-9A-Z]{2})?)\)\s*$")
_OTHER = re.compile(r"\bother\b", re.IGNORECASE)
_UNSPECIFIED = re.compile(r"\b(other|unspecified|not otherwise specified|elsewhere)\b", re.IGNORECASE)
# "7th characters D and S do not apply to codes in category S06 with 6th character 7 - death due to ..., or 8 - ..."
_EXCEPTION = re.compile(r"7th characters? (.+?) do(?:es)? not apply to codes in category \w+ with 6th character(.+)")
# Inclusion terms that name nothing: "... should be coded to complete", "Conditions classifiable to C51-C63".
_INSTRUCTION = re.compile(
    r"\bcoded? to\b|\bthese codes\b|\bthis (code|category) (is|may)\b|\bcategories [A-Z]\d\d|\b(is|are) for use\b"
    r"|\bclassifiable to\b|^screening is\b|^code (also|first)\b",
    re.IGNORECASE,
)
_BYTES_AT_ONCE = 1 << 20
# A code with all of its seven characters, and its dot.
_FULL_LENGTH = 8
_ORDER_NAME = re.compile(r"icd10cm[-_]order[-_](?!addenda)(?:.*[-_])?(20\d\d)\.txt", re.IGNORECASE)
_ORDER_ROW = re.compile(r"\d{5} (.{7}) ([01]) (.{60}) (.+)")


class Options(Config):
    """Options of the ICD-10-CM loader."""

    language: Language = Field("en", description="BCP-47 tag of the titles")
    seventh_characters: bool = Field(
        True, description="also create the codes of the 7th-character tables: S52.521A, ..."
    )
    other_inclusions: str = Field(
        "narrow",
        pattern="^(exact|narrow|broad|related)$",
        description="scope of inclusion terms under a title that says 'other', and of index entries that lead to "
        "several codes or to one whose title says 'other', 'unspecified' or 'elsewhere'",
    )
    index_entries: bool = Field(True, description="also read the alphabetical index if it comes with the list")


@dataclass
class _Node:
    """A chapter, section or code being read."""

    kind: str
    line: int
    code: str = ""
    title: str = ""
    inclusions: list[tuple[int, str]] = field(default_factory=list)
    includes: list[tuple[int, str]] = field(default_factory=list)
    extensions: dict[str, str] = field(default_factory=dict)
    not_extended: set[tuple[str, str]] = field(default_factory=set)
    has_codes: bool = False


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: XML with the tabular list's root, or rows of an order file."""
    if seen.first(lambda file: _is_read(seen, file), ENDINGS) is not None:
        return {}
    if (index := seen.first(_icd10cm_index.is_published, ENDINGS)) is not None:
        raise _icd10cm_index.alone(index.place, f"; a table of your own: {import_command('table', index.path)}")
    return None


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read tabular XML files, or order files where there are none of those, into tables, and then the index."""
    reader = _Reader(options, rejects)
    lists, indexes = _chosen(paths, options, reader.columns.dropped)
    sources = [reader.read_order(file) if _is_order(file) else reader.read(file) for file in lists]
    sources += map(reader.read_index, indexes)
    return reader.columns.tables(sources)


def _chosen(paths: Sequence[Path], options: Options, dropped: Counter[str]) -> tuple[list[Member], list[Member]]:
    """Return the lists and the indexes to read; in folders and archives others are left out, and counted."""
    there = list(dict.fromkeys(_files.chosen(paths, ENDINGS, dropped)))
    named = {Member(Path(path)) for path in paths}
    indexes = [file for file in there if _icd10cm_index.is_index(file, named=file in named)]
    readable = [
        file
        for file in there
        if file not in indexes
        and (file in named or file.name.lower().endswith(".xml") or _ORDER_NAME.fullmatch(file.name))
    ]
    # The release has indexes of the same ending beside it.
    lists = [
        file
        for file in readable
        if file in named or _is_order(file) or b"<ICD10CM.tabular" in _start(file, _BYTES_AT_ONCE)
    ]
    if indexes and not lists:
        raise _icd10cm_index.alone(indexes[0].place)
    if not readable:
        raise InputError(
            f"no tabular list (.xml) and no order file (icd10cm_order_2025.txt) in it; it has {there[0].name!r}",
            file=there[0].path,
        )
    lists = lists or readable
    tabular = [file for file in lists if not _is_order(file)]
    chosen = tabular or lists
    if not options.index_entries:
        indexes = []
    dropped.update(f"file {file.name}" for file in there if file not in chosen and file not in indexes)
    return chosen, indexes


def _is_order(file: Member) -> bool:
    """Tell an order file by its name, or by its first row."""
    if _ORDER_NAME.fullmatch(file.name):
        return True
    return re.match(rb"(?:\xef\xbb\xbf)?\d{5} [A-Z]", _start(file, 20)) is not None


def _start(file: Member, size: int) -> bytes:
    with file.open() as opened:
        return opened.read(size)


def _is_read(seen: Look, file: Beginning) -> bool:
    # Among others an order file is told by its name, too: see `_chosen`.
    is_order = (seen.is_file or _ORDER_NAME.fullmatch(file.name)) and _ORDER_ROW.fullmatch(file.first_line)
    return bool(is_order) or "<ICD10CM.tabular" in file.text


class _Reader:
    """Reads files one after another into columns; the stack holds the open chapter, section and codes."""

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.columns = options, Columns(rejects)
        self.first_line: dict[str, int] = {}

    def read(self, member: Member) -> dict[str, Any]:
        self.columns.file = member.place
        self.stack: list[_Node] = []
        self.char = ""
        self.version: str | None = None
        self.xml = _icd10cm_index.Document(member, "ICD10CM.tabular", "an ICD-10-CM tabular list")
        self.xml.read(self._start, self._end)
        if not self.first_line:
            raise InputError("no chapter and no code in this file: not an ICD-10-CM tabular list", file=member.place)
        return _files.source(member, name=PREFIX, version=self.version, licence=LICENCE)

    def read_order(self, member: Member) -> dict[str, Any]:
        """Read one order file; return its entry for the manifest."""
        self.columns.file = member.place
        rows = []
        for line, text in _files.lines(member, "utf-8", self.columns.rejects):
            if not text.strip():
                continue
            row = _ORDER_ROW.fullmatch(text)
            plain, title = (row[1].strip(), row[4].strip()) if row else ("", "")
            code = f"{plain[:3]}.{plain[3:]}" if len(plain) > 3 else plain
            if row is None or not title or not _CODE.fullmatch(code):
                problem = "not a row of an order file: number, code, 0 or 1, titles at the columns 1, 7, 15, 17 and 78"
                self.columns.refuse(problem, line, None, text)
                continue
            rows.append((code, line, title, row[3].strip(), row[2] == "1"))
        for ordered in sorted(rows):
            self._ordered(*ordered)
        if not self.first_line:
            raise InputError("no code in this file: not an ICD-10-CM order file", file=member.place)
        year = _ORDER_NAME.fullmatch(member.name)
        return _files.source(member, name=PREFIX, version=year[1] if year else None, licence=LICENCE)

    def read_index(self, member: Member) -> dict[str, Any]:
        """Add the entries of an alphabetical index, after the lists, as names of their codes."""
        self.columns.file = member.place
        index = _icd10cm_index.Index(member, self.columns.rejects, self.columns.dropped)
        terms = self.columns.frame("terms")
        titles = dict(terms.filter("preferred").select("code", "string").iter_rows())
        taken = set(zip(terms["code"], clean_many(terms["string"]), strict=True))
        for code, name, line, is_narrow in index.names(titles):
            key = code, clean(name)
            if key in taken:
                self.columns.dropped["index entries that repeat a name of their code"] += 1
                continue
            taken.add(key)
            scope = self.options.other_inclusions if is_narrow or _UNSPECIFIED.search(titles[code]) else "exact"
            self._term(code, name, line, scope=scope, term_type="index entry")
        return _files.source(member, name=PREFIX, version=index.version, licence=LICENCE)

    def _ordered(self, code: str, line: int, title: str, short: str, billable: bool) -> None:
        """Add a code of an order file, after the shorter ones above it."""
        if len(code) == _FULL_LENGTH and not self.options.seventh_characters:
            self.columns.dropped["codes of seven characters"] += 1
            return
        level = "category" if "." not in code else "7th character" if len(code) == _FULL_LENGTH else "code"
        shorter = (code[:length].rstrip(".") for length in range(len(code) - 1, 2, -1))
        if not self._concept(
            code,
            title,
            level,
            line,
            next((code_above for code_above in shorter if code_above in self.first_line), None),
        ):
            return
        if short and short != title:
            self._term(code, short, line, scope="exact", term_type="short title")
        self._property(code, "billable", "yes" if billable else "no", line)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in LEVELS:
            if tag == "diag" and self.stack:
                self.stack[-1].has_codes = True
            self.stack.append(_Node(tag, self.xml.line, code=_section_code(attributes) if tag == "section" else ""))
        elif tag == "extension":
            self.char = attributes.get("char", "")

    def _end(self, tag: str) -> None:
        text = self.xml.text
        parent = self.xml.open[-1] if self.xml.open else ""
        if tag in LEVELS:
            self._finish(self.stack.pop())
        elif tag in DROPPED:
            self.columns.dropped[tag] += 1
        elif tag == "version" and len(self.xml.open) == 1:
            self.version = text
        elif self.stack:
            node = self.stack[-1]
            if tag == "name" and parent == node.kind and node.kind != "section":
                node.code = text
            elif tag == "desc" and parent == node.kind:
                node.title = text
            elif tag == "note" and parent in ("inclusionTerm", "includes"):
                notes = node.inclusions if parent == "inclusionTerm" else node.includes
                notes.append((self.xml.line, text))
            elif tag == "note" and parent == "notes" and (exception := _EXCEPTION.match(text)):
                sixths = re.findall(r"(?:^|or) (\w)\b", exception[2])
                node.not_extended = {(six, last) for six in sixths for last in re.findall(r"\b[A-Z]\b", exception[1])}
            elif tag == "extension" and self.char:
                node.extensions[self.char] = text

    # --- one concept -------------------------------------------------------------------------------------------------

    def _finish(self, node: _Node) -> None:
        title = node.title
        if node.kind != "diag" and (ranged := _RANGE.search(title)):
            title = title[: ranged.start()].strip()
        code = self._code(node)
        if not code:
            self.columns.refuse(f"a {LEVELS[node.kind]} without a name", node.line, "name")
            return
        if node.kind == "diag" and not _CODE.fullmatch(code):
            self.columns.refuse("not an ICD-10-CM code", node.line, "name", code)
            return
        if not title:
            self.columns.refuse(f"a {LEVELS[node.kind]} without a title", node.line, "desc", code)
            return
        level = "category" if node.kind == "diag" and "." not in code else LEVELS[node.kind]
        if not self._concept(code, title, level, node.line, self._parent(code)):
            return
        scope = self.options.other_inclusions if _OTHER.search(title) else "exact"
        for line, note in node.inclusions:
            self._term(code, note, line, scope=scope, term_type="inclusion term")
        for line, note in node.includes:
            self._term(code, note, line, scope="narrow", term_type="includes note")
        if node.kind == "diag" and not node.has_codes and self.options.seventh_characters:
            self._extended(code, title, node)

    def _code(self, node: _Node) -> str:
        if node.kind != "chapter":
            return node.code
        ranged = _RANGE.search(node.title)
        if ranged is None:
            return f"chapter-{node.code}" if node.code else ""
        return ranged[1] if "-" in ranged[1] else f"{ranged[1]}-{ranged[1]}"

    def _parent(self, code: str) -> str | None:
        """Return the code of the nearest open chapter, section or code that is not `code` itself."""
        for node in reversed(self.stack):
            if (parent := self._code(node)) and parent != code:
                return parent
        return None

    def _extended(self, code: str, title: str, node: _Node) -> None:
        """Make the codes that the nearest 7th-character table gives, with X in the places between."""
        holder = next((n for n in [node, *reversed(self.stack)] if n.extensions), node)
        bare = code.replace(".", "")
        if len(bare) > 6:
            return
        padded = bare.ljust(6, "X")
        for char, extension in holder.extensions.items():
            if (padded[5], char) in holder.not_extended:
                continue
            extended = f"{padded[:3]}.{padded[3:]}{char}"
            self._concept(extended, f"{title}, {extension}", "7th character", node.line, code)

    def _concept(self, code: str, title: str, level: str, line: int, parent: str | None) -> bool:
        if code in self.first_line:
            self.columns.refuse(f"this code was defined before, at line {self.first_line[code]}", line, "name", code)
            return False
        self.first_line[code] = line
        concept = f"{PREFIX}:{code}"
        self.columns.put("concepts", line, id=concept, source=PREFIX, retired=False)
        self._term(code, title, line, scope="exact", term_type=level, preferred=True)
        self._property(code, "level", level, line)
        if parent is not None:
            tail = f"{PREFIX}:{parent}"
            self.columns.put("relations", line, head=concept, relation=model.IS_A, tail=tail, source=PREFIX)
        return True

    def _property(self, code: str, name: str, value: str, line: int) -> None:
        self.columns.put("properties", line, concept=f"{PREFIX}:{code}", name=name, value=value, source=PREFIX)

    def _term(self, code: str, string: str, line: int, *, scope: str, term_type: str, preferred: bool = False) -> None:
        if not string:
            self.columns.refuse("an empty note", line, term_type)
            return
        if not preferred and _INSTRUCTION.search(string):
            self.columns.dropped["notes that instruct coders and name nothing"] += 1
            return
        if problem := model.too_long(string):
            self.columns.refuse(problem, line, term_type, string)
            return
        self.columns.put(
            "terms",
            line,
            concept=f"{PREFIX}:{code}",
            string=string,
            language=self.options.language,
            scope=scope,
            preferred=preferred,
            source=PREFIX,
            code=code,
            term_type=term_type,
        )


def _section_code(attributes: dict[str, str]) -> str:
    """Return a section's range: "A00-A09"; one of a single category is "B20-B20", apart from the category B20."""
    identifier = attributes.get("id", "").strip()
    return identifier if "-" in identifier or not identifier else f"{identifier}-{identifier}"
