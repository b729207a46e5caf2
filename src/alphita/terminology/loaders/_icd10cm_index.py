"""The alphabetical index of ICD-10-CM: entries that lead to codes, as names of those codes.

Read are CDC's XML (`icd10cm-index-2025.xml`) and a CSV with the columns Level, Term and Code. An entry has its level (0
for a main term), its words, and a code or a reference to another entry; those with a code name something.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from xml.parsers import expat

from alphita.errors import InputError, Rejects
from alphita.terminology import model
from alphita.terminology.loaders import _files, _tables
from alphita.terminology.loaders._files import Member

# The code that an entry leads to, and what may follow it: "E11.40, G59*", "A12 [B34]".
FIRST_CODE = re.compile(r"\s*([A-Z][0-9A-Z]{2}(?:\.[0-9A-Z]{1,4})?)\.?(-*)[*†‡+]?\s*(?:$|(?=[,;/\[(]|or\b|and\b)(.*))")

_UNSPECIFIED = re.compile(r"^(unspecified|not specified)\b", re.IGNORECASE)
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
            says_nothing = len(path) > 1 and not path[-2].code and _UNSPECIFIED.search(row.term)
            yield row, _name([step.term for step in (path[:-1] if says_nothing else path)])


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
_BYTES_AT_ONCE = 1 << 20
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

    def __init__(self, member: Member, rejects: Rejects, dropped: Counter[str]) -> None:
        self.member, self.rejects, self.dropped = member, rejects, dropped
        self.version: str | None = None
        if f"<{_ROOT}" in _head(member):
            xml = _Xml(member)
            self.version, self._term_field, self._code_field = xml.version, "title", "code"
            self.rows = list(self._whole(xml.entries))
        else:
            _, self._term_field, self._code_field = COLUMNS
            self.rows = list(self._whole(_table_entries(member, rejects)))
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
                    self.rejects.add(problem, file=self.member.place, line=entry.line, field=name, value=value)
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
                self.rejects.add(
                    "not an ICD-10-CM code",
                    file=self.member.place,
                    line=row.line,
                    field=self._code_field,
                    value=row.code,
                )
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
    encoding = "utf-16" if _head_bytes(member).startswith(_files.UTF16) else "utf-8"
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
                entry.wrong = (f"not the level at which it stands, {entry.level}", "level", level)
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


def _head_bytes(file: Member) -> bytes:
    with file.open(may_be_empty=True) as opened:
        return opened.read(_HEAD_BYTES)


def _head(file: Member) -> str:
    raw = _head_bytes(file)
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
