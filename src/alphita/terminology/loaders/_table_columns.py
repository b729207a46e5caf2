"""Which columns of a table hold ids and terms, told by their names and by the first rows.

An id is looked for under `id`, `code`, `concept_id`, ... and the names of known systems: `snomed_code`, `cui`; a term
under `term`, `name`, `label`, ..., else `description`, ...; in any case, and with or without spaces and underscores.
Two columns that may both be it are an error. Other columns are told by the loader's own names for them alone.

Bare codes get a prefix: that of the system if the column names one, else the name of the file (or folder) in capitals,
without a date at its end. So `lab-codes_2025-01-31.csv` makes `LAB_CODES:1`, and next year's file does too.

A column called `status`, `scope`, `preferred` or `retired` none of whose first cells the loader understands is taken
for something else, and left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from alphita.errors import InputError, shorten
from alphita.terminology import languages, model, prefixes
from alphita.terminology.loaders._look import Beginning, Look, import_command
from alphita.terminology.loaders._table_cells import ALLOWED
from alphita.terminology.loaders._table_ids import WHITE, Ids
from alphita.terminology.loaders._table_rows import ENDINGS

Settings = dict[str, str]

# Written as `_compact` does.
IDS = frozenset(
    {
        "id",
        "code",
        "curie",
        "identifier",
        "conceptid",
        "conceptcode",
        "conceptcurie",
        "termid",
        "classid",
        "itemid",
        "localid",
        "localcode",
        "sourcecode",
        "entityid",
        "icdcode",
    }
)
TERMS = frozenset(
    {
        "term",
        "name",
        "label",
        "string",
        "termname",
        "conceptname",
        "conceptlabel",
        "conceptterm",
        "preferredname",
        "preferredterm",
        "preferredlabel",
        "prefname",
        "prefterm",
        "preflabel",
        "display",
        "displayname",
        "longcommonname",
        "fullyspecifiedname",
        "fsn",
    }
)
# Taken where there is none of the above, for they may also hold what only tells of the term.
WEAK_TERMS = frozenset(
    {
        "description",
        "desc",
        "codedescription",
        "longdescription",
        "shortdescription",
        "longname",
        "shortname",
        "title",
        "synonym",
        "text",
    }
)
LANGUAGES = frozenset({"language", "lang", "languagecode"})
_OF_A_SYSTEM = re.compile(r"(.+?)_?(?:concept_?)?(?:id|code|curie|cui|number|num)")
# Names of ids by themselves, where the names of other systems may stand over a cross-reference.
_SYSTEMS = {"cui": "UMLS", "sctid": "SNOMEDCT", "rxcui": "RXNORM"}
_DATE = re.compile(r"[_.\s-]*(?<!\d)(?:19|20)\d\d(?:[_.-]?\d\d){0,2}$")
_ROWS = 200
_SHOWN = 20


def recognised(seen: Look, defaults: Mapping[str, str]) -> Settings | None:
    """Return the options for the tables that were seen; None: there is none.

    Args:
        seen: tables of terms, and of relations between them.
        defaults: what each column of a table of terms is called, by the option that names it.

    Raises:
        InputError: a header does not tell which columns hold ids and terms, a language column holds none, several
            tables need options of their own, or none has terms.
    """
    files = seen.among(ENDINGS)
    tables = [file for file in files if file.columns]
    if not tables:
        return None
    if stranger := next((file for file in files if file not in tables), None):
        raise InputError("among tables, and none itself", file=stranger.place, remedy="give the table alone")
    of_terms = [file for file in tables if not _is_relations(file.columns)]
    if not of_terms:
        remedy = f"give the terms too: alphita terminology import table TERMS {seen.path} -o X.terminology"
        raise InputError("relations between concepts, and no terms", file=seen.path, remedy=remedy)
    found = [_Columns(file, seen.path, defaults).settings() for file in of_terms]
    for file, settings in zip(of_terms, found, strict=True):
        if settings != found[0]:
            raise InputError(
                f"{settings} would be the options for it, but {found[0]} for {of_terms[0].place}",
                file=file.place,
                remedy="give them one by one, or call the columns alike",
            )
    return found[0]


def _is_relations(names: Sequence[str]) -> bool:
    return {"head", "tail"} <= set(names) and "term" not in names


class _Columns:
    """The columns of one table of terms."""

    def __init__(self, file: Beginning, path: Path, defaults: Mapping[str, str]) -> None:
        self.file, self.path, self.defaults = file, path, defaults
        self.names = file.columns

    def settings(self) -> Settings:
        """Return the options that the loader needs."""
        ids = [name for name in self.names if _compact(name) in IDS or _system(name)]
        if {*map(_compact, ids)} == {"id", "code"}:
            # The loader has an option for each of them.
            ids = [name for name in ids if _compact(name) == "id"]
        terms = self._terms(_system(ids[0]) if len(ids) == 1 else "")
        if len(ids) != 1 or len(terms) != 1:
            raise self._unclear(ids, terms)
        columns = {"id_column": ids[0], "term_column": terms[0]} | self._others({*ids, *terms})
        named = {field: name for field, name in columns.items() if name != self.defaults[field]}
        return named | self._told_by_cells({**self.defaults, **columns}) | self.file.settings

    def _terms(self, system: str) -> list[str]:
        """Return the columns that may hold the term, one where there is no doubt."""
        own = [name for name in self.names if _compact(name) == "term"]
        strong = [name for name in self.names if _compact(name) in TERMS or (system and _system_term(name) == system)]
        return own or strong or [name for name in self.names if _compact(name) in WEAK_TERMS]

    def _others(self, taken: set[str]) -> Settings:
        """Return columns that are called as the loader's own, in another writing."""
        found = {}
        for field, default in self.defaults.items():
            wanted = LANGUAGES if field == "language_column" else {_compact(default)}
            alike = [name for name in self.names if _compact(name) in wanted and name not in taken]
            if alike and default not in self.names:
                found[field] = alike[0]
        return found

    def _told_by_cells(self, columns: Settings) -> Settings:
        """Return the options that only the first rows tell: the prefix, and columns to leave out."""
        checked = [field for field in ("id_column", "language_column", *ALLOWED) if columns[field] in self.names]
        first: dict[str, set[str]] = {field: set() for field in checked}
        if (table := self.file.opened()) is not None:
            rows = table.rows([self.names.index(columns[field]) for field in checked])
            for _, cells in itertools.islice(rows, _ROWS):
                for field, cell in zip(checked, cells, strict=True):
                    first[field] |= {cell.strip(WHITE)} - {""}
        found = {}
        if any(Ids("").of(cell) is None for cell in first["id_column"]):
            found["prefix"] = _system(columns["id_column"]) or _prefix_of(self.path)
        for field in ALLOWED:
            if first.get(field) and not ALLOWED[field] & {cell.lower() for cell in first[field]}:
                found[field] = ""
        tags = first.get("language_column", set())
        if tags and not any(map(languages.normalize, tags)):
            named = {field: columns[field] for field in ("id_column", "term_column")}
            command = import_command("table", self.path, **named, language_column="", language="TAG")
            raise InputError(
                languages.UNKNOWN,
                file=self.file.place,
                field=columns["language_column"],
                value=min(tags),
                remedy=f"write tags there, or leave the column out and say the language: {command}",
            )
        return found

    def _unclear(self, ids: list[str], terms: list[str]) -> InputError:
        shown = [shorten(name, 40) for name in self.names[:_SHOWN]] + ["…"] * (len(self.names) > _SHOWN)
        problems = [
            f"no column of {what}s" if not found else f"{' and '.join(map(repr, found))} may both be the {what}"
            for what, found in (("id", ids), ("term", terms))
            if len(found) != 1
        ]
        command = import_command(
            "table", self.path, id_column=ids[0] if ids else "COLUMN", term_column=terms[0] if terms else "COLUMN"
        )
        return InputError(
            f"{', and '.join(problems)}, among the columns {shown}",
            file=self.file.place,
            remedy=f"say which they are (and --set prefix=NAME for bare codes): {command}",
        )


def _compact(name: str) -> str:
    """Return "Concept ID", "concept_id" and "ConceptId" as "conceptid"."""
    return model.snake_case(name).replace("_", "")


def _system(name: str) -> str:
    """Return the prefix of the system whose ids a column is called after: "SNOMED code" is SNOMEDCT's; "" for none."""
    snake = model.snake_case(name)
    found = _OF_A_SYSTEM.fullmatch(snake)
    return _SYSTEMS.get(snake) or (_known(found[1]) if found else "")


def _system_term(name: str) -> str:
    found = re.fullmatch(r"(.+?)_?(?:name|term|label|description)", model.snake_case(name))
    return _known(found[1]) if found else ""


def _known(name: str) -> str:
    prefix = prefixes.canonical(name)
    return prefix if prefix in prefixes.table() else ""


def _prefix_of(path: Path) -> str:
    stem = _DATE.sub("", path.absolute().name.lstrip(".").split(".")[0])
    return re.sub(r"\W+", "_", stem).strip("_").upper() or "LOCAL"
