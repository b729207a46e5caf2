"""Which columns of a table hold ids and terms, told by their names and by the first rows.

An id is looked for under `id`, `code`, `concept_id`, ... and the names of known systems: `snomed_code`, `cui`; a term
under `term`, `name`, `label`, ..., else `description`, ...; in any case, and with or without spaces and underscores.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from alphita.errors import InputError, shorten
from alphita.terminology import languages, model, prefixes
from alphita.terminology.loaders._look import Beginning, Look, import_command
from alphita.terminology.loaders._table_rows import ENDINGS

# What Python takes for white space, and polars does not in part.
WHITE = "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())

# An id has no space. "%20" in a code is written "%2520", so that it is not taken for one.
_TO_ENCODE = re.compile(r"\s|%(?=[0-9A-Fa-f]{2})")
_PLAIN_BYTES = 900


class Ids:
    """Makes CURIEs out of the cells of a table: one of some system, or of a code of the table's own.

    Where the table has a prefix of its own, its codes may look like anything: `DO:123`, `10:30`, `GLU 1`. So an id
    counts as a CURIE only if its prefix is that one, or stands in the table of prefixes spelled just so, or if it is a
    URI that has a CURIE; all else is a code. Without a prefix of its own everything with a prefix is a CURIE, aliases
    resolved.

    Attributes:
        prefix: of the table's own codes, as Alphita writes it; "" where it has none.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefixes.canonical(prefix)
        self.spellings = {prefix, self.prefix}

    def of(self, cell: str) -> tuple[str, str, str] | None:
        """Return (CURIE, prefix, code as it is written); None for a code without prefix that gets none here."""
        if not self.prefix:
            curie = prefixes.normalize(cell)
            parsed = prefixes.parse_curie(curie)
            return (curie, *parsed) if parsed else None
        contracted = prefixes.contract(cell) if "://" in cell else None
        prefix, _, code = (contracted or cell).partition(":")
        if contracted or (code and prefix in prefixes.table() and prefix not in self.spellings):
            return f"{prefix}:{code}", prefix, code
        if not code or prefix not in self.spellings:
            code = cell
        return f"{self.prefix}:{_TO_ENCODE.sub(_encoded, code)}", self.prefix, code

    def of_all(self, cells: pl.Series) -> pl.DataFrame:
        """Return the columns id, prefix and code as `of` does; null where a cell must be shown to `of` by itself."""
        parts = _parts(cells)
        by_prefix: dict[str, str | None] = {}
        for prefix in parts["prefix"].unique().drop_nulls():
            if not self.prefix:
                by_prefix[prefix] = prefixes.canonical(prefix)
            elif prefix in self.spellings:
                by_prefix[prefix] = self.prefix
            else:
                by_prefix[prefix] = prefix if prefix in prefixes.table() else None
        parts = parts.with_columns(
            known=pl.col("prefix").replace_strict(by_prefix, default=None, return_dtype=pl.String)
        )
        curie = pl.when("plain").then(pl.concat_str("known", pl.lit(":"), "local"))
        if not self.prefix:
            return parts.select(id=curie, prefix="known", code="local")
        is_own = pl.col("known").is_null()
        own = pl.when("plain").then(pl.concat_str(pl.lit(f"{self.prefix}:"), "cell"))
        return parts.select(
            id=pl.when(is_own).then(own).otherwise(curie),
            prefix=pl.col("known").fill_null(self.prefix),
            code=pl.when(is_own).then("cell").otherwise("local"),
        )


def normalized(cells: pl.Series) -> pl.Series:
    """Return `prefixes.normalize` of each cell."""
    parts = _parts(cells)
    known = {prefix: prefixes.canonical(prefix) for prefix in parts["prefix"].unique().drop_nulls()}
    prefix = pl.col("prefix").replace_strict(known, default=None, return_dtype=pl.String)
    curies = parts.select(found=pl.when("plain").then(pl.concat_str(prefix, pl.lit(":"), "local")))["found"]
    if not curies.has_nulls():
        return curies
    return pl.Series(
        [prefixes.normalize(cell) if curie is None else curie for cell, curie in zip(cells, curies, strict=True)],
        dtype=pl.String,
    )


def _parts(cells: pl.Series) -> pl.DataFrame:
    """Return the columns cell, prefix and local (null without a colon), and plain: whether nothing is odd about it."""
    cell = pl.col("cell")
    halves = cell.str.splitn(":", 2)
    local = halves.struct.field("field_1")
    is_odd = (
        (cell == "")
        | (local == "")
        | cell.str.starts_with(":")
        | cell.str.contains(r"[\s\x1c-\x1f%]")
        | cell.str.contains("://", literal=True)
        | (cell.str.len_bytes() > _PLAIN_BYTES)
    )
    return cells.to_frame("cell").select(
        "cell",
        prefix=pl.when(local.is_not_null()).then(halves.struct.field("field_0")),
        local=local,
        plain=~is_odd.fill_null(False),
    )


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


TRUE = frozenset({"1", "true", "t", "yes", "y"})
FALSE = frozenset({"", "0", "false", "f", "no", "n"})
# In lower case, by the option that names the column.
ALLOWED: dict[str, frozenset[str]] = {
    "scope_column": frozenset({"", *model.SCOPES}),
    "status_column": frozenset({"", *model.STATUSES}),
    "preferred_column": TRUE | FALSE,
    "retired_column": TRUE | FALSE,
}


class Defaults:
    """What stands in a column of cells, or else a default: where the cell is empty, or no such column is there."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns

    def __call__(self, field: str, default: str | pl.Expr | None, value: pl.Expr | None = None) -> pl.Expr:
        """Return the value of the cells (by default the cell itself) where they have one, else the default."""
        other = default if isinstance(default, pl.Expr) else pl.lit(default, pl.String)
        if field not in self.columns:
            return other
        return pl.when(pl.col(field) == "").then(other).otherwise(pl.col(field) if value is None else value)


def values_of(cells: pl.DataFrame, field: str) -> list[str]:
    """Return the distinct values of a field; none where no such column is there."""
    return cells[field].unique().to_list() if field in cells.columns else []


def is_odd(cells: pl.DataFrame, tags: dict[str, str]) -> pl.Series:
    """Tell which rows of terms must be checked one by one; some of them may turn out good."""
    odd = [pl.col("term_column") == ""]
    for field in cells.columns:
        if field in ALLOWED:
            odd.append(~pl.col(field).str.to_lowercase().is_in(list(ALLOWED[field])))
        elif field == "language_column":
            odd.append(pl.col(field).is_in([tag for tag, known in tags.items() if tag and not known]))
        elif field != "line":
            limit = model.MAX_TEXT_CHARACTERS if field == "definition_column" else model.MAX_TERM_CHARACTERS
            odd.append(pl.col(field).str.len_bytes() > limit)
    return cells.select(odd=pl.any_horizontal(odd))["odd"]


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
    """Return the options for the tables that were seen; None: there is none."""
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
    match = _OF_A_SYSTEM.fullmatch(snake)
    return _SYSTEMS.get(snake) or (_known(match[1]) if match else "")


def _system_term(name: str) -> str:
    found = re.fullmatch(r"(.+?)_?(?:name|term|label|description)", model.snake_case(name))
    return _known(found[1]) if found else ""


def _known(name: str) -> str:
    prefix = prefixes.canonical(name)
    return prefix if prefix in prefixes.table() else ""


def _prefix_of(path: Path) -> str:
    stem = _DATE.sub("", path.absolute().name.lstrip(".").split(".")[0])
    return re.sub(r"\W+", "_", stem).strip("_").upper() or "LOCAL"
