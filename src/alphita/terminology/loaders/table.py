"""Tables of your own: CSV, TSV, Excel or Parquet with named columns.

A file with the columns id and term has one term a row: the first term of an id is the preferred one, unless a column
`preferred` says so. Without a column `retired`, a concept whose first term begins with "obsolete " is retired. A file
with the columns head and tail has one relation a row. Both kinds may be given together, in any number. What a column is
called is an option; the columns that are there under their default names are used, and a column that was named but is
not there is an error that lists those that are. All other columns are left out, and named in the manifest; so is one
whose option is empty.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from alphita import progress, textio
from alphita.errors import InputError, Rejects, UsageError, shorten
from alphita.terminology import languages, model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Check
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Beginning, Look, import_command
from alphita.terminology.loaders._tables import ENDINGS
from alphita.terminology.model import Tables

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

        def encoded(match: re.Match[str]) -> str:
            return "".join(f"%{byte:02X}" for byte in match[0].encode())

        return f"{self.prefix}:{_TO_ENCODE.sub(encoded, code)}", self.prefix, code

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
    curies = Ids("").of_all(cells)["id"]
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


TRUE = frozenset({"1", "true", "t", "yes", "y"})
_BOOLEAN = TRUE | {"", "0", "false", "f", "no", "n"}, "must be 1/0, true/false or yes/no"
# By the option that names the column: what may stand there, in lower case, and what else there is said of.
ALLOWED: dict[str, tuple[frozenset[str], str]] = {
    "scope_column": (frozenset({"", *model.SCOPES}), f"must be one of {list(model.SCOPES)}"),
    "status_column": (frozenset({"", *model.STATUSES}), f"must be one of {list(model.STATUSES)}"),
    "preferred_column": _BOOLEAN,
    "retired_column": _BOOLEAN,
}


def _limit(field: str) -> int:
    return model.MAX_TEXT_CHARACTERS if field == "definition_column" else model.MAX_TERM_CHARACTERS


def _checks(cells: pl.DataFrame, tags: Mapping[str, str]) -> list[Check]:
    """Return the checks of a row of terms; the problem of a cell that is too long is ""."""
    checks: list[Check] = [
        (field, ~pl.col(field).str.to_lowercase().is_in(list(words)), problem)
        for field, (words, problem) in ALLOWED.items()
        if field in cells.columns
    ]
    if unknown := [tag for tag, known in tags.items() if tag and not known]:
        checks.append(_columns.none_of("language_column", unknown, languages.UNKNOWN))
    checks.append(("term_column", pl.col("term_column") == "", "an empty term"))
    for field in cells.columns:
        if field not in (*ALLOWED, "language_column", "line"):
            limit, cell = _limit(field), pl.col(field)
            checks.append((field, (cell.str.len_bytes() > limit) & (cell.str.len_chars() > limit), ""))
    return checks


class _Defaults:
    """The value of a cell, or else a default: where the cell is empty, or there is no such column."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns

    def __call__(self, field: str, default: str | pl.Expr | None, value: pl.Expr | None = None) -> pl.Expr:
        other = default if isinstance(default, pl.Expr) else pl.lit(default, pl.String)
        if field not in self.columns:
            return other
        return pl.when(pl.col(field) == "").then(other).otherwise(pl.col(field) if value is None else value)


def _values_of(cells: pl.DataFrame, field: str) -> list[str]:
    return cells[field].unique().to_list() if field in cells.columns else []


# --- recognition -----------------------------------------------------------------------------------------------------

Settings = dict[str, str]

# Names of columns, as `_compact` writes them. A weak one is taken where there is no other: it may describe the term.
_ROLES = [(row["role"], row["name"]) for row in textio.packaged(__package__, "table_columns.tsv")]
IDS, TERMS, WEAK_TERMS, LANGUAGES = (
    frozenset(name for role, name in _ROLES if role == wanted) for wanted in ("id", "term", "weak term", "language")
)
_OF_A_SYSTEM = re.compile(r"(.+?)_?(?:concept_?)?(?:id|code|curie|cui|number|num)")
# Names of ids by themselves, where the names of other systems may stand over a cross-reference.
_SYSTEMS = {"cui": "UMLS", "sctid": "SNOMEDCT", "rxcui": "RXNORM"}
_DATE = re.compile(r"[_.\s-]*(?<!\d)(?:19|20)\d\d(?:[_.-]?\d\d){0,2}$")
_ROWS = 200
_SHOWN = 20


def _recognised(seen: Look, defaults: Mapping[str, str]) -> Settings | None:
    """Return the options for the tables that were seen; None: there is none."""
    files = seen.among(ENDINGS)
    tables = [file for file in files if file.columns]
    if not tables:
        return None
    if other := next((file for file in files if file not in tables), None):
        raise InputError("not a table, but the other files are", file=other.place, remedy="give the table alone")
    of_terms = [file for file in tables if not {"head", "tail"} <= {*file.columns} or "term" in file.columns]
    if not of_terms:
        remedy = f"give the terms too: alphita terminology import table TERMS {seen.path} -o X.terminology"
        raise InputError("relations between concepts, but no terms", file=seen.path, remedy=remedy)
    first, *others = [_Columns(file, seen.path, defaults).settings() for file in of_terms]
    for file, settings in zip(of_terms[1:], others, strict=True):
        if settings != first:
            raise InputError(
                f"{settings} would be the options for it, but {first} for {of_terms[0].place}",
                file=file.place,
                remedy="give them one by one, or call the columns alike",
            )
    return first


class _Columns:
    """The columns of one table of terms."""

    def __init__(self, file: Beginning, path: Path, defaults: Mapping[str, str]) -> None:
        self.file, self.path, self.defaults = file, path, defaults
        self.names = file.columns

    def settings(self) -> Settings:
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
        own = [name for name in self.names if _compact(name) == "term"]
        strong = [name for name in self.names if _compact(name) in TERMS or (system and _system_term(name) == system)]
        return own or strong or [name for name in self.names if _compact(name) in WEAK_TERMS]

    def _others(self, taken: set[str]) -> Settings:
        """Return columns that are called as the loader's own, in another writing."""
        others = {}
        for field, default in self.defaults.items():
            wanted = LANGUAGES if field == "language_column" else {_compact(default)}
            alike = [name for name in self.names if _compact(name) in wanted and name not in taken]
            if alike and default not in self.names:
                others[field] = alike[0]
        return others

    def _told_by_cells(self, columns: Settings) -> Settings:
        """Return the options that only the first rows tell: the prefix, and columns to leave out."""
        checked = [field for field in ("id_column", "language_column", *ALLOWED) if columns[field] in self.names]
        first: dict[str, set[str]] = {field: set() for field in checked}
        if (table := self.file.opened()) is not None:
            rows = table.rows([self.names.index(columns[field]) for field in checked])
            for _, cells in itertools.islice(rows, _ROWS):
                for field, cell in zip(checked, cells, strict=True):
                    first[field] |= {cell.strip(WHITE)} - {""}
        settings: Settings = {}
        if any(Ids("").of(cell) is None for cell in first["id_column"]):
            stem = _DATE.sub("", self.path.absolute().name.lstrip(".").split(".")[0])
            own = re.sub(r"\W+", "_", stem).strip("_").upper()
            settings["prefix"] = _system(columns["id_column"]) or own or "LOCAL"
        for field in ALLOWED:
            if first.get(field) and not ALLOWED[field][0] & {cell.lower() for cell in first[field]}:
                settings[field] = ""
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
        return settings

    def _unclear(self, ids: list[str], terms: list[str]) -> InputError:
        shown = [shorten(name, 40) for name in self.names[:_SHOWN]] + ["…"] * (len(self.names) > _SHOWN)
        problems = [
            f"no column of {what}s" if not names else f"{' and '.join(map(repr, names))} may both be the {what}"
            for what, names in (("id", ids), ("term", terms))
            if len(names) != 1
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
    return model.snake_case(name).replace("_", "")


def _system(name: str) -> str:
    """Return the prefix of the system whose ids a column is called after: "SNOMED code" is SNOMEDCT's; "" for none."""
    snake = model.snake_case(name)
    match = _OF_A_SYSTEM.fullmatch(snake)
    return _SYSTEMS.get(snake) or (_known(match[1]) if match else "")


def _system_term(name: str) -> str:
    match = re.fullmatch(r"(.+?)_?(?:name|term|label|description)", model.snake_case(name))
    return _known(match[1]) if match else ""


def _known(name: str) -> str:
    prefix = prefixes.canonical(name)
    return prefix if prefix in prefixes.table() else ""


DESCRIPTION = "CSV, TSV, Excel or Parquet with named columns"

# Columns in which a row repeats another if it has the same values there.
KEYS = {
    "concepts": ("id",),
    "terms": ("concept", "string", "language", "scope", "type", "status", "source", "code"),
    "relations": ("head", "relation", "tail"),
    "definitions": ("concept", "source", "text", "language"),
    "semantic_types": ("concept", "source", "semantic_type"),
    "xrefs": ("concept", "source", "object"),
    "replacements": ("concept", "source", "object"),
}
# The type of columns with few distinct values.
_FEW = pl.Categorical()
# So OBO's ontologies call a concept that they retired, also in tables made of them.
OBSOLETE = "obsolete "


class Options(_tables.Format):
    """Options of the table loader: how columns are called, and what holds where there is none."""

    id_column: str = Field("id", description="concept id: a CURIE, or a bare code (then give `prefix`)")
    term_column: str = Field("term", description="the string")
    language_column: str = Field("language", description="BCP-47 tag of the term and the definition")
    scope_column: str = Field("scope", description="exact, narrow, broad or related")
    type_column: str = Field("type", description="type of the term: abbreviation, layperson, ...")
    status_column: str = Field("status", description="official, candidate or machine")
    preferred_column: str = Field("preferred", description="1/0, true/false or yes/no")
    semantic_type_column: str = Field("semantic_type", description="category of the concept")
    definition_column: str = Field("definition", description="definition of the concept")
    source_column: str = Field("source", description="source of the term; by default the prefix of the id")
    code_column: str = Field("code", description="the concept's code in that source; by default the id without prefix")
    parent_column: str = Field("parent", description="id of a parent concept; several joined by '|'")
    xref_column: str = Field("xref", description="CURIE in another terminology; several joined by '|'")
    retired_column: str = Field("retired", description="whether the concept is retired: 1/0, true/false, yes/no")
    replaced_by_column: str = Field("replaced_by", description="id to use instead of a retired one")
    head_column: str = Field("head", description="in a relation table: id of the head")
    relation_column: str = Field("relation", description="in a relation table: label")
    tail_column: str = Field("tail", description="in a relation table: id of the tail")
    prefix: str = Field("", pattern="^[^:]*$", description="prefix for your own codes, whatever they look like: LOCAL")
    language: Language = Field("en", description="BCP-47 tag if there is no language column, or the cell is empty")
    relation: str = Field("related_to", description="label if there is no relation column, or the cell is empty")


RELATION_COLUMNS = ("head_column", "relation_column", "tail_column")
TERM_COLUMNS = tuple(name for name in Options.model_fields if name.endswith("_column") and name not in RELATION_COLUMNS)


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: columns of ids and of terms, under their usual names."""
    return _recognised(seen, {name: str(getattr(Options(), name)) for name in TERM_COLUMNS})


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read term and relation tables."""
    reader = _Reader(options, rejects)
    files = _tables.chosen(paths, options, reader.dropped)
    sources = [reader.read(file) for file in files]
    if not reader.has_concepts:
        raise InputError("no usable row of terms in these files", file=paths[0] if paths else None)
    tables = reader.tables()
    return Tables(**tables, sources=sources, dropped=dict(reader.dropped))  # type: ignore[arg-type]


class _Reader:
    """Reads files one after another into frames.

    A frame of cells has a column for each field that the file has, named as the option that names it, and `line`.
    """

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.rejects = options, rejects
        self.ids = Ids(options.prefix)
        self.frames: dict[str, list[pl.DataFrame]] = {name: [] for name in KEYS}
        self.dropped: Counter[str] = Counter()
        self.has_concepts = False

    def read(self, member: Member) -> dict[str, Any]:
        self.file = member.place
        table = _tables.opened(member, self.options, self.rejects)
        fields = self._fields(table.names)
        is_relations = "head_column" in fields and "term_column" not in fields
        for name in (table.names[place] for place in fields.values()):
            if table.names.count(name) > 1:
                raise InputError(
                    f"column {name!r} appears more than once in the header: {table.names}",
                    file=self.file,
                    line=table.header_line,
                    field=name,
                    remedy="rename or remove all but one of them",
                )
        for unused in sorted(name for place, name in enumerate(table.names) if place not in fields.values()):
            self.dropped[f"column {unused!r} of {member.name}"] += 1
        accept = self._relations if is_relations else self._terms
        for frame in table.frames(list(fields.values())):
            accept(
                frame.select(
                    "line", *(pl.col(str(place)).str.strip_chars(WHITE).alias(field) for field, place in fields.items())
                )
            )
        return _files.source(member, name=member.name.split(".")[0])

    def _fields(self, names: list[str]) -> dict[str, int]:
        """Return the place of each field that the file has, and check that the needed ones are there."""
        options = self.options
        place = {name: at for at, name in reversed(list(enumerate(names)))}
        given = {field: getattr(options, field) for field in (*TERM_COLUMNS, *RELATION_COLUMNS)}
        fields = {field: place[name] for field, name in given.items() if name and name in place}
        relations = ("head_column" in fields or "tail_column" in fields) and "term_column" not in fields
        wanted = RELATION_COLUMNS if relations else TERM_COLUMNS
        needed = {"head_column", "tail_column"} if relations else {"id_column", "term_column"}
        for field in wanted:
            if field not in fields and (field in needed or (given[field] and field in options.model_fields_set)):
                raise UsageError(
                    f"{self.file}: no column {given[field]!r} (option {field}); its columns are {names}"
                    + ("" if relations else "; a table of relations needs 'head' and 'tail'")
                )
        return {field: at for field, at in fields.items() if field in wanted}

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables, without the rows that repeat others; a concept's first term becomes the preferred one."""
        tables = {name: pl.concat(frames) if frames else model.empty(name) for name, frames in self.frames.items()}
        self.frames.clear()
        concepts, terms = tables["concepts"], tables["terms"]
        retired = concepts.filter("retired")["id"].unique()
        concepts = concepts.filter(pl.col("id").is_first_distinct())
        tables["concepts"] = concepts.with_columns(retired=pl.col("id").is_in(retired.implode()))
        self._say_whose(tables["concepts"])
        is_open = pl.col("preferred").is_null()
        first = pl.col("concept").is_first_distinct().over(is_open)
        # In this file or another.
        has_name = pl.col("preferred").fill_null(False).any().over("concept")
        tables["terms"] = terms.with_columns(preferred=pl.when(is_open).then(first & ~has_name).otherwise("preferred"))
        tables = {name: self._distinct(frame, KEYS[name]) for name, frame in tables.items()}
        return tables | {"terms": self._one_preferred(tables["terms"])}

    def _one_preferred(self, terms: pl.DataFrame) -> pl.DataFrame:
        """Return the terms with one preferred name a concept, language and source, the first; count the others."""
        place = pl.col("preferred").cum_sum().over("concept", "language", "source")
        if further := terms.select((pl.col("preferred") & (place > 1)).sum()).item():
            self.dropped["further preferred names, kept as synonyms"] += further
        return terms.with_columns(preferred=pl.col("preferred") & (place == 1))

    def _distinct(self, frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Return the frame without the rows that repeat an earlier one in the columns `keys`; count them."""
        # A hash first, for it needs much less memory than to compare all rows.
        candidates = frame.select(keys).hash_rows().is_duplicated()
        if not candidates.any():
            return frame
        frame = frame.with_row_index("place")
        among = frame.filter(candidates).select("place", *keys)
        lost = among.filter(~pl.struct(keys).is_first_distinct())["place"]
        self.dropped["repeated rows"] += len(lost)
        return frame.filter(~pl.col("place").is_in(lost.implode())).drop("place")

    def _say_whose(self, concepts: pl.DataFrame) -> None:
        """Say where codes under a prefix may be ids of other systems, and where ids that were taken so may be codes."""
        own = self.ids.prefix
        if not own:
            return
        others = concepts["source"].cast(pl.String).value_counts(sort=True).filter(pl.col("source") != own)
        if len(others):
            listed = ", ".join(f"{count:,} of {prefix}" for prefix, count in others.head(5).iter_rows())
            progress.say(
                f"{others['count'].sum():,} ids were taken as those of other systems, not as codes of "
                f"{own}, for they have a known prefix: {listed}" + (", ..." if len(others) > 5 else "")
            )
        codes = concepts.filter(pl.col("source").cast(pl.String) == own)["id"].str.strip_prefix(f"{own}:")
        spelled = codes.str.extract(r"^([^:]+):.").drop_nulls().value_counts(sort=True)
        for spelling, count in spelled.iter_rows():
            known = prefixes.canonical(spelling)
            if known != own and known in prefixes.table():
                progress.say(
                    f"{count:,} ids under {spelling}: were taken as codes of {own}; "
                    f"if they are {known}'s, write {known}:"
                )

    def _terms(self, cells: pl.DataFrame) -> None:
        tags = {tag: languages.normalize(tag) or "" for tag in _values_of(cells, "language_column")}
        types = {name: model.term_type(name) for name in _values_of(cells, "type_column")}
        rows = self._identified(cells, "id_column", _checks(cells, tags))
        if rows.is_empty():
            return
        self.has_concepts = True
        default = _Defaults(rows.columns)
        concept, prefix, language = pl.col("id_column.id"), pl.col("id_column.prefix"), self.options.language
        rows = rows.with_columns(
            default("language_column", language, pl.col("language_column").replace_strict(tags)).alias("language"),
            default("source_column", prefix).cast(_FEW).alias("source"),
            pl.lit(self.file).cast(_FEW).alias("file"),
            concept=concept,
        )
        is_first = concept.is_first_distinct()
        retired = default("retired_column", "").str.to_lowercase().is_in(TRUE)
        if "retired_column" not in rows.columns:
            retired = is_first & pl.col("term_column").str.starts_with(OBSOLETE)
        self._add(
            "concepts", rows, id=concept, source=prefix.cast(_FEW), retired=retired.max().over(concept), keep=is_first
        )
        preferred = pl.lit(None, pl.Boolean)
        if "preferred_column" in rows.columns:
            preferred = pl.col("preferred_column").str.to_lowercase().is_in(TRUE)
        self._add(
            "terms",
            rows,
            "concept",
            "source",
            string=pl.col("term_column"),
            language=pl.col("language").cast(_FEW),
            scope=default("scope_column", "exact").str.to_lowercase().cast(_FEW),
            type=default("type_column", None, pl.col("type_column").replace_strict(types)).cast(_FEW),
            status=default("status_column", "official").str.to_lowercase().cast(_FEW),
            code=default("code_column", pl.col("id_column.code")),
            preferred=preferred,
        )
        if "definition_column" in rows.columns:
            text = pl.col("definition_column")
            self._add("definitions", rows, "concept", "source", "language", text=text, keep=text != "")
        if "semantic_type_column" in rows.columns:
            name = pl.col("semantic_type_column")
            self._add("semantic_types", rows, "concept", "source", semantic_type=name.cast(_FEW), keep=name != "")
        for field, target in (("parent_column", "tail"), ("replaced_by_column", "object"), ("xref_column", "object")):
            if field in rows.columns:
                self._add_listed(field, target, rows)

    def _add_listed(self, field: str, target: str, rows: pl.DataFrame) -> None:
        """Add what a column names that takes several values joined by '|'."""
        several = rows.select("concept", "source", "id_column.prefix", "line", "file", pl.col(field).str.split("|"))
        several = several.explode(field).with_columns(pl.col(field).str.strip_chars(WHITE)).filter(pl.col(field) != "")
        if field == "xref_column":
            value = normalized(several[field])
            self._add("xrefs", several.with_columns(value.alias(target)), "concept", "source", target)
            return
        several = self._identified(several, field).rename({f"{field}.id": target})
        if field == "replaced_by_column":
            self._add("replacements", several, "concept", "source", target)
        else:
            is_a, prefix = pl.lit(model.IS_A).cast(_FEW), pl.col("id_column.prefix").cast(_FEW)
            self._add("relations", several, target, head=pl.col("concept"), relation=is_a, source=prefix)

    def _relations(self, cells: pl.DataFrame) -> None:
        rows = self._identified(self._identified(cells, "head_column"), "tail_column")
        default = _Defaults(rows.columns)
        self._add(
            "relations",
            rows,
            head=pl.col("head_column.id"),
            relation=default("relation_column", self.options.relation).cast(_FEW),
            tail=pl.col("tail_column.id"),
            source=pl.col("head_column.prefix").cast(_FEW),
            file=pl.lit(self.file).cast(_FEW),
        )

    def _identified(self, cells: pl.DataFrame, field: str, checks: Sequence[Check] = ()) -> pl.DataFrame:
        """Return the good rows, with the id, prefix and code of a field in the columns `FIELD.id`, ..."""
        ids = self.ids.of_all(cells[field])
        first_bad = pl.coalesce(*(pl.when(bad).then(number) for number, (_, bad, _) in enumerate(checks)), None)
        problems = cells.with_columns(_problem=first_bad.cast(pl.Int32))["_problem"]
        is_odd = ids["id"].is_null() | problems.is_not_null()
        rows = cells.hstack(ids.select(pl.all().name.prefix(f"{field}.")))
        if not is_odd.any():
            return rows
        clean = (~is_odd).arg_max() if not is_odd.all() else None
        good = []
        for place in is_odd.arg_true():
            if field == "id_column" and clean is not None and clean < place:
                self.has_concepts = True
            row = rows.row(place, named=True)
            curie = self._curie(row[field], row["line"], field)
            if curie is None:
                continue
            if (number := problems[place]) is not None:
                name, _, problem = checks[number]
                value = row[name].lower() if name in ALLOWED else row[name] or None
                self._refuse(problem or model.too_long(row[name], _limit(name)), row["line"], name, value)
                continue
            self.has_concepts |= field == "id_column"
            good.append([*(row[name] for name in cells.columns), *curie])
        looked_at = pl.DataFrame(good, schema=rows.schema, orient="row")
        return pl.concat([rows.filter(~is_odd), looked_at]).sort("line", maintain_order=True)

    def _curie(self, cell: str, line: int, field: str) -> tuple[str, str, str] | None:
        """Return CURIE, prefix and code of a cell; report one that is no id."""
        if not cell:
            self._refuse("an empty id", line, field, None)
            return None
        curie = self.ids.of(cell)
        if curie is None and not self.has_concepts:
            raise UsageError(
                f"{self.file}:{line}: the id {cell[:80]!r} has no prefix; say which one it belongs to, e.g. "
                "--set prefix=LOCAL"
            )
        if curie is None:
            self._refuse("an id without prefix; give one with --set prefix=NAME", line, field, cell)
        elif not _columns.is_id(curie[0]):
            self._refuse("not an id: too long, or with a space in it", line, field, cell)
            return None
        return curie

    def _refuse(self, problem: str, line: int, field: str, value: str | None) -> None:
        self.rejects.add(problem, file=self.file, line=line, field=getattr(self.options, field), value=value)

    def _add(
        self, table: str, rows: pl.DataFrame, *names: str, keep: pl.Expr | None = None, **columns: pl.Expr
    ) -> None:
        """Add rows to a table: columns named as there, and others."""
        place = () if "file" in columns else ("file",)
        # `keep` looks at the rows' own columns, and others at all rows.
        frame = rows.with_columns(keep=pl.lit(True) if keep is None else keep)
        frame = frame.select(*names, *place, "line", "keep", **columns).filter("keep").drop("keep")
        if len(frame):
            self.frames[table].append(frame.select(sorted(frame.columns)))
