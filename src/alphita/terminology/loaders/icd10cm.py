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

Beside either the alphabetical index may lie, in CDC's XML (`icd10cm-index-2025.xml`) or as a CSV with the columns
Level, Term and Code. An entry has its level (0 for a main term), its words, and a code or a reference to another entry;
those with a code become names of it. They are exact, but narrow (`other_inclusions`) where the code's title says that
it holds other or unspecified conditions, or where the entry leads to further codes, of which the first gets it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _files, _tables
from alphita.terminology.loaders._columns import Columns
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Beginning, Look, import_command
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
    if (index := seen.first(is_published, ENDINGS)) is not None:
        raise alone(index.place, f"; a table of your own: {import_command('table', index.path)}")
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
    indexes = [file for file in there if is_index(file, named=file in named)]
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
        raise alone(indexes[0].place)
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


def _start(file: Member, size: int, *, may_be_empty: bool = False) -> bytes:
    with file.open(may_be_empty=may_be_empty) as opened:
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
        self.xml = Document(member, "ICD10CM.tabular", "an ICD-10-CM tabular list")
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
        index = Index(member, self.columns)
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
        of_concept = {"concept": f"{PREFIX}:{code}", "source": PREFIX, "code": code}
        language, how = self.options.language, {"scope": scope, "preferred": preferred, "term_type": term_type}
        self.columns.put("terms", line, string=string, language=language, **of_concept, **how)


def _section_code(attributes: dict[str, str]) -> str:
    """Return a section's range: "A00-A09"; one of a single category is "B20-B20", apart from the category B20."""
    identifier = attributes.get("id", "").strip()
    return identifier if "-" in identifier or not identifier else f"{identifier}-{identifier}"


# --- names that the entries of the alphabetical index make -----------------------------------------------------------

# The code that an entry leads to, and what may follow it: "E11.40, G59*", "A12 [B34]".
FIRST_CODE = re.compile(r"\s*([A-Z][0-9A-Z]{2}(?:\.[0-9A-Z]{1,4})?)\.?(-*)[*†‡+]?\s*(?:$|(?=[,;/\[(]|or\b|and\b)(.*))")

_SAYS_NOTHING = re.compile(r"^(unspecified|not specified)\b", re.IGNORECASE)
# Words that say where in the list one is, or that nothing is said, and nothing of the disease.
_IDLE = re.compile(
    r"^note:.*|\bsee also\b.*|\s-+\s*(code|see)\b.*|\s*\[[^\]]*\]|\b(other )?specified(,? [\w ,/-]+?)?,? NEC\b"
    r"|\b(other )?specified (type|site|part|form|cause|complication|disorder|joint|symptom|organism|agent)\b.*"
    r"|^(other )?specified$|^site( specified)?( NEC)?$|\b(unspecified|not specified)\b.*|\b(NEC|NOS)\b"
    r"|, inconclusive, without diagnosis$",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"(due to|with|without|in|of|from|following|by|during|after|complicating|complicated by|resulting|caused|causing"
    r"|associated|for|to|on|at|involving|because|secondary to|affecting|before|under|through|as|and|or|when|where"
    r"|while|despite|between|within)(?![\w-])",
    re.IGNORECASE,
)
_ENDS_OPEN = re.compile(
    r"\b(due to|with|without|in|of|from|following|by|for|to|on|at|and|or|during|after|complicating|causing|affecting"
    r"|involving|before|under|where|between|into|against)$",
    re.IGNORECASE,
)
# Sub-terms that stand behind what they belong to: "alcohol abuse".
_TAILS = frozenset({"abuse", "dependence", "use"})
# Main terms that stand before all of their sub-terms: "irritable colon", "history of".
_ADJECTIVE = re.compile(
    r"(?!(?:removal|withdrawal|canal|colic|metal|panic|tic|need)$)\w+(?:al|ic|ed|ous|ive|able|ful)"
    r"|aberrant|adherent|floating|giant|ingrowing|patent|redundant|rudimentary|supernumerary",
    re.IGNORECASE,
)
_LEADS = {
    "Admission": "admission for",
    "Encounter": "encounter for",
    "History": "history of",
    "Screening": "screening for",
}
_WHOSE = frozenset({"personal", "family"})
# Words that others stand behind: "Turner's hypoplasia", "Rh incompatibility".
_BEFORE = re.compile(r"\S+(?:'s|s')|[A-Z]+(?:-?\d+)?|Rh")
# A species behind its genus: "Trypanosoma brucei"; and "trisomy 13", "vitamin A".
_SPECIES = re.compile(r"[a-z]+(?:i|ae|is|us|um|a|ans|ense|ens|ile|es)")
_NUMBER = re.compile(r"\d+|[A-Z]\d*|[IVX]+[ab]?")
_LISTED = re.compile(r"(?:.* )?(?:or|and) \w+(.*)")
# Not in "46,XY" and "2, 3 diphosphoglycerate".
_COMMA = re.compile(r",\s+(?!\d)|,$")
# Two forms of one word: they begin alike, or not quite.
_SAME_LETTERS = 3
_EITHER = re.compile(r"(\w+) or (\w+)")
# Maximum names of one entry in other forms.
MAX_FORMS = 4
_OTHER_FORMS = frozenset({"teeth", "testes", "torn", "worn"})


class IndexRow(NamedTuple):
    """One entry: its depth below a main term, its words, its code, if it has one, and the line where it stands."""

    level: int
    term: str
    code: str
    line: int = 0


def names(rows: Iterable[IndexRow]) -> Iterator[tuple[str, str]]:
    """Yield code and name of each entry that has a code, in the order of the index."""
    for row, name in named(rows):
        if name and (match := FIRST_CODE.match(row.code)):
            yield match[1], name


def named(rows: Iterable[IndexRow]) -> Iterator[tuple[IndexRow, str | None]]:
    """Yield the entries with a code, and their names where they make one."""
    path: list[IndexRow] = []
    for row in rows:
        # A level that was skipped is one that no row stands for.
        path[row.level :] = [IndexRow(0, "", "") for _ in range(row.level - len(path))] + [row]
        if row.code.strip():
            # "Unspecified site" has its parent's name, if that has no code to have it.
            says_nothing = len(path) > 1 and not path[-2].code and _SAYS_NOTHING.search(row.term)
            terms = [step.term for step in (path[:-1] if says_nothing else path)]
            for name in dict.fromkeys(map(_name, [terms, *_in_other_forms(terms)])):
                yield row, name


def _in_other_forms(path: list[str]) -> Iterator[list[str]]:
    """Yield a path with other forms of its words: "myocardial" of "myocardium, myocardial", "infarction" of "Infarct".

    Of a sub-term it is the adjective; of the main term, each noun.
    """
    forms = [_forms(term, is_main=level == 0) for level, term in enumerate(path)]
    if any(len(some) > 1 or some[0] != term for some, term in zip(forms, path, strict=True)):
        yield from map(list, itertools.islice(itertools.product(*forms), MAX_FORMS))


def _forms(term: str, *, is_main: bool) -> list[str]:
    """Return the forms of a term: "Infarct, infarction", "atrial or auricular"; the term itself, if it has one only."""
    first, *others = [part.strip() for part in _COMMA.split(_IDLE.sub("", term))]
    if not others and (joined := _EITHER.fullmatch(first)):
        return [*joined.groups()]
    start = first.rpartition(" ")[2][:_SAME_LETTERS].lower()
    if not first or not others or any(other[:_SAME_LETTERS].lower() != start for other in others):
        return [term]
    adjectives = [form for form in others if _ADJECTIVE.fullmatch(form)]
    return [first, *(form for form in others if form not in adjectives)] if is_main else adjectives[:1] or [first]


@dataclass
class _Phrase:
    """A part of a name: "due to" and "blood loss". An empty end waits for words, without one (None) none can come."""

    begin: str = ""
    end: str | None = ""

    def __str__(self) -> str:
        return f"{self.begin} {self.end or ''}".strip()


def _name(path: list[str]) -> str | None:
    main, *parts = ([piece for piece in _pieces(term) if piece] for term in path)
    # What adds nothing to its main term is no name of its own.
    if not main or (parts and not parts[-1]):
        return None
    rest = [piece for part in [main[1:], *parts] for piece in part]
    phrases = [_beginning(main[0], rest)]
    before = ""
    for piece in rest:
        last, is_open = phrases[-1], _ENDS_OPEN.search(piece) is not None
        if last.end == "":
            last.begin, last.end = (f"{last.begin} {piece}", "") if is_open else (last.begin, piece)
            before = piece
        elif is_open or _BEHIND.match(piece):
            if before == "complicated" and piece == "by":
                piece, phrases[0].end = "complicated by", (phrases[0].end or "").removeprefix("complicated ")
            phrases.append(_Phrase(piece, "" if is_open else None))
        else:
            before = _placed(last if last.end else phrases[0], piece, before)
    if phrases[-1].end == "":
        if len(phrases) != 2 or _BEHIND.match(phrases[-1].begin):
            return None
        # "Colostomy / attention to"
        phrases = [phrases[-1], _Phrase(_inside(str(phrases[0])))]
    return " ".join(" ".join(map(str, phrases)).split())


def _beginning(head: str, rest: list[str]) -> _Phrase:
    """Return a main term as the first phrase, without an end where all sub-terms come behind it."""
    if rest and head in _LEADS and not _BEHIND.match(rest[0]):
        whose = f"{rest.pop(0)} " if rest[0] in _WHOSE else ""
        return _Phrase(f"{whose}{_LEADS[head]}")
    is_first = rest and (_ENDS_OPEN.search(head) or _ADJECTIVE.fullmatch(head))
    return _Phrase(head) if is_first else _Phrase(end=head)


def _placed(phrase: _Phrase, piece: str, before: str) -> str:
    """Put a piece to a phrase, in its place; return the words that a number or a species would stand behind."""
    end = phrase.end or ""
    is_genus = before[:1].isupper() and before.replace(" ", "").isalpha()
    if end.startswith(before) and (_NUMBER.fullmatch(piece) or (is_genus and _SPECIES.fullmatch(piece))):
        before = before or end
        phrase.end = f"{before} {piece}{end.removeprefix(before)}"
        return f"{before} {piece}"
    if piece in _TAILS or _BEFORE.fullmatch(end) or _ADJECTIVE.fullmatch(end):
        phrase.end = f"{end} {piece}"
        return ""
    phrase.end = f"{piece} {_inside(end)}"
    return piece


def _inside(name: str) -> str:
    """Return a name as it is written behind another word: "Abscess" as "abscess", "Still's disease" as it is."""
    first = name.split(" ", 1)[0]
    return name[0].lower() + name[1:] if first[1:].islower() and "'" not in first else name


def _pieces(term: str) -> list[str]:
    """Return the words of a term in the order in which they are spoken, in two pieces where a preposition divides
    them."""
    first, *others = [part.strip() for part in _COMMA.split(_IDLE.sub("", term))]
    others = [other for other in others if other]
    if not others:
        return [first]
    start = first.rpartition(" ")[2][:_SAME_LETTERS].lower()
    if others[0][:_SAME_LETTERS].lower() == start or others[0] in _OTHER_FORMS:
        return [first]
    if (listed := _LISTED.fullmatch(others[-1])) and not _BEHIND.match(others[0]):
        # "sedative, hypnotic, or anxiolytic use"
        return [first if " " in first else first + listed[1]]
    behind = [other for other in others if _BEHIND.match(other)]
    front = [other for other in others if other not in behind]
    link = _BEHIND.match(first)
    begin, rest = (link[0], first[link.end() :].strip()) if link else ("", _inside(first) if front and first else first)
    return [" ".join([begin, *reversed(front), rest]).strip(), " ".join(behind)]


# --- the index -------------------------------------------------------------------------------------------------------

COLUMNS = ("Level", "Term", "Code")
# With these alone beside them, a table is an index and no table of somebody's own.
_PUBLISHED = frozenset({*COLUMNS, "RowID", "Letter", "See", "SeeAlso", "NonEssModif"})
_ROOT = "ICD10CM.index"
# What lies beside it with the same root or columns: the index of external causes, the tables of drugs and neoplasms.
_OTHER_NAME = re.compile(r"external|(?<![a-z])e-?index|drug|neoplasm", re.IGNORECASE)
_OTHER_CONTENT = re.compile(r"<indexHeading|<title>[^<]*external", re.IGNORECASE)
_HEAD_BYTES = 64 * 1024
_DEEPEST = 9
# Characters of the shortest code.
_CATEGORY = 3
# Elements around one; a code has about ten.
_MOST_OPEN = 100


def is_index(file: Member, *, named: bool) -> bool:
    """Tell whether a file is an index; if it was not named itself, by its name and title that of diseases."""
    head = _head(file)
    if f"<{_ROOT}" in head:
        return named or not (_OTHER_NAME.search(file.name) or _OTHER_CONTENT.search(head.partition("<letter")[0]))
    return _columns(head) >= {*COLUMNS} and (named or not _OTHER_NAME.search(file.name))


def is_published(file: Member) -> bool:
    """Tell whether a file is an index as it is published, and no table of somebody's own."""
    head = _head(file)
    return f"<{_ROOT}" in head or {*COLUMNS} <= _columns(head) <= _PUBLISHED


def alone(place: str, otherwise: str = "") -> InputError:
    """Return the error for an index without the codes that it names."""
    return InputError(
        "the alphabetical index of ICD-10-CM, without the tabular list, which has the codes",
        file=place,
        remedy="give both, or a folder that holds both: alphita terminology import icd10cm icd10cm-tabular-2025.xml "
        f"{place} -o X.terminology{otherwise}",
    )


@dataclass
class _Entry:
    """An entry as it stands in a file, and what is wrong with it: problem, field and value; () was reported before."""

    level: int
    line: int
    term: str = ""
    code: str = ""
    wrong: tuple[str, str, str] | tuple[()] | None = None


class Index:
    """An index that was read."""

    def __init__(self, member: Member, columns: Columns) -> None:
        self.columns, self.dropped = columns, columns.dropped
        self.version: str | None = None
        if f"<{_ROOT}" in _head(member):
            xml = _Xml(member)
            self.version, self._term_field, self._code_field = xml.version, "title", "code"
            self.rows = list(self._whole(xml.entries))
        else:
            _, self._term_field, self._code_field = COLUMNS
            self.rows = list(self._whole(_table_entries(member, columns.rejects)))
        if not any(row.code for row in self.rows):
            raise InputError("no entry with a code in this file: not the index of diseases", file=member.place)

    def _whole(self, entries: Iterable[_Entry]) -> Iterator[IndexRow]:
        deepest = _DEEPEST
        for entry in entries:
            if entry.wrong is None and not 0 < len(entry.term) <= model.MAX_TERM_CHARACTERS:
                problem = model.too_long(entry.term) or "an entry without a term"
                entry.wrong = problem, self._term_field, entry.term
            if entry.wrong is not None:
                if entry.wrong:
                    problem, name, value = entry.wrong
                    self.columns.refuse(problem, entry.line, name, value)
                deepest = min(deepest, entry.level)
            elif entry.level > deepest:
                self.dropped["index entries below one that was left out"] += 1
            else:
                deepest = _DEEPEST
                yield IndexRow(entry.level, entry.term, entry.code, entry.line)

    def names(self, codes: Container[str]) -> Iterator[tuple[str, str, int, bool]]:
        """Yield code, name, line, and whether the name is narrower than the code, of the entries that lead to `codes`.

        It is where the entry leads to further codes, too. One that leads to "C88.2-" leads to what there is of C88.2,
        C88, the longest first.
        """
        self.dropped["index entries without a code"] += sum(not row.code for row in self.rows)
        for row, name in named(self.rows):
            match = FIRST_CODE.fullmatch(row.code)
            if match is None:
                self.columns.refuse("not an ICD-10-CM code", row.line, self._code_field, row.code)
                continue
            code = match[1]
            while match[2] and code not in codes and len(code) > _CATEGORY:
                code = code[:-1].rstrip(".")
            if code not in codes:
                self.dropped["index entries of codes that are not in the tabular list"] += 1
            elif name is None:
                self.dropped["index entries that make no name of their own"] += 1
            else:
                yield code, name, row.line, code != match[1] or bool(match[3])


def _table_entries(member: Member, rejects: Rejects) -> Iterator[_Entry]:
    encoding = "utf-16" if _start(member, 2).startswith(_files.UTF16) else "utf-8"
    table = _tables.opened(member, _tables.Format(encoding=encoding), rejects)
    if missing := [name for name in COLUMNS if name not in table.names]:
        raise InputError(
            f"no column {missing[0]!r}: neither a tabular list nor an index, which has the columns {list(COLUMNS)}",
            file=member.place,
            line=table.header_line,
            value=",".join(table.names),
        )
    before = table.header_line
    for line, cells in table.rows([table.names.index(name) for name in COLUMNS]):
        level, term, code = (" ".join(cell.split()) for cell in cells)
        if line != before + 1:
            # A row that could not be read: what was below it would seem to be below the one before.
            yield _Entry(0, before + 1, wrong=())
        before = line
        entry = _Entry(int(level) if re.fullmatch("[0-9]", level) else 0, line, term, code)
        if str(entry.level) != level:
            entry.wrong = (f"not a level, which is 0 to {_DEEPEST}", "Level", level)
        yield entry


class _Xml:
    """The entries of an index in XML: main terms, and terms at any depth in them."""

    def __init__(self, member: Member) -> None:
        self.entries: list[_Entry] = []
        self.version: str | None = None
        self.stack: list[_Entry] = []
        self.document = Document(member, _ROOT, "the index of ICD-10-CM")
        self.document.read(self._start, self._end)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("mainTerm", "term"):
            entry = _Entry(len(self.stack), self.document.line)
            level = attributes.get("level", "")
            if tag == "term" and level != str(entry.level):
                entry.wrong = (f"wrong level: the entry is at level {entry.level}", "level", level)
            self.entries.append(entry)
            self.stack.append(entry)
        elif tag == "nemod" and self.stack:
            self._add_to_title()

    def _end(self, tag: str) -> None:
        text = self.document.text
        if tag == "version" and len(self.document.open) == 1:
            self.version = text
        elif self.stack:
            entry = self.stack[-1]
            if tag == "title":
                self._add_to_title()
            elif tag == "code":
                entry.code = f"{entry.code} {text}".strip()
            elif tag == "manif":
                entry.code = f"{entry.code} [{text}]"
            elif tag in ("mainTerm", "term"):
                self.stack.pop()

    def _add_to_title(self) -> None:
        entry = self.stack[-1]
        entry.term = f"{entry.term} {self.document.text}".strip().replace(" ,", ",")


def _head(file: Member) -> str:
    raw = _start(file, _HEAD_BYTES, may_be_empty=True)
    return raw.decode("utf-16" if raw.startswith(_files.UTF16) else "utf-8-sig", "replace")


def _columns(head: str) -> set[str]:
    return {cell.strip(' "\r') for cell in re.split(r"[,;|\t]", head.partition("\n")[0])}


# --- XML, of the tabular list too ------------------------------------------------------------------------------------


class Document:
    """An XML file that is read element by element, with its DTD refused and no entity beyond XML's own."""

    def __init__(self, member: Member, root: str, what: str) -> None:
        self.member, self.root, self.what = member, root, what
        self.open: list[str] = []
        self._text: list[str] = []

    @property
    def line(self) -> int:
        return self._parser.CurrentLineNumber

    @property
    def text(self) -> str:
        """The text since the last tag, its white space made single."""
        return " ".join("".join(self._text).split())

    def read(self, start: Callable[[str, dict[str, str]], None], end: Callable[[str], None]) -> None:
        """Tell of each element where it begins, before it is open, and where it ends, when it is open no more."""
        self._start_element, self._end_element = start, end
        parser = self._parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text.append
        parser.StartDoctypeDeclHandler = self._doctype
        parser.buffer_text = True
        place, given = self.member.place, 0
        try:
            with self.member.open() as file:
                while block := file.read(_BYTES_AT_ONCE):
                    parser.Parse(block, False)
                    self._check_size(given := given + len(block))
                parser.Parse(b"", True)
        except expat.ExpatError as error:
            what = "cut short" if error.code in (3, 5, 6) and self.open else "damaged, or no XML"
            raise InputError(
                f"the XML is {what}: {expat.ErrorString(error.code)}", file=place, line=error.lineno
            ) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not know, or cannot give to expat
            raise InputError(
                f"the XML declares an encoding that cannot be read: {error}", file=place, line=1, remedy="use UTF-8"
            ) from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self.open and tag != self.root:
            problem = f"not {self.what}: the first element should be {self.root}"
            raise InputError(problem, file=self.member.place, line=self.line, value=f"<{tag}>")
        if len(self.open) == _MOST_OPEN:
            problem = f"an element within {_MOST_OPEN} others: this is not a file of the format"
            raise InputError(problem, file=self.member.place, line=self.line, value=f"<{tag}>")
        self._start_element(tag, attributes)
        self.open.append(tag)
        self._text.clear()

    def _end(self, tag: str) -> None:
        self.open.pop()
        self._end_element(tag)
        self._text.clear()

    def _check_size(self, given: int) -> None:
        """Refuse a tag or a text between tags that has no end: the parser, or we, would hold all of it."""
        held = max(given - self._parser.CurrentByteIndex, sum(map(len, self._text)))
        if held > _files.MAX_LINE_BYTES:
            problem = "a text or tag of more than 16 MB: this is not a file of the format"
            raise InputError(problem, file=self.member.place, line=self.line)

    def _doctype(self, *_declaration: object) -> None:
        problem = "a document type declaration (<!DOCTYPE) is not allowed here"
        raise InputError(problem, file=self.member.place, line=self.line)
