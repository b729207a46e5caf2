"""Tables of your own: CSV, TSV, Excel or Parquet with named columns.

A file with the columns id and term has one term a row: the first term of an id is the preferred one, unless a column
`preferred` says so. Without a column `retired`, a concept whose first term begins with "obsolete " is retired. A file
with the columns head and tail has one relation a row. Both kinds may be given together, in any number. What a column is
called is an option; the columns that are there under their default names are used, and a column that was named but is
not there is an error that lists those that are. All other columns are left out, and named in the manifest; so is one
whose option is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from alphita import progress
from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _files, _table_columns, _table_rows
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.loaders._table_columns import FALSE, TRUE, WHITE, Defaults, Ids, is_odd, normalized, values_of
from alphita.terminology.model import Tables

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


class Options(Config):
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
    delimiter: str = Field("", description="delimiter of cells; by default from the name (.tsv) or the first line")
    quote: str = Field('"', max_length=1, description="quotation mark of cells; empty: quotes have no special meaning")
    encoding: str = Field("utf-8", description="encoding of CSV and TSV files")
    sheet: str = Field("", description="sheet of an Excel workbook; by default the only one that is not empty")


RELATION_COLUMNS = ("head_column", "relation_column", "tail_column")
TERM_COLUMNS = tuple(name for name in Options.model_fields if name.endswith("_column") and name not in RELATION_COLUMNS)
Row = dict[str, str]
Check = Callable[[int, Row], bool]


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: columns of ids and of terms, under their usual names; see `_table_columns`."""
    return _table_columns.recognised(seen, {name: str(getattr(Options(), name)) for name in TERM_COLUMNS})


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read term and relation tables."""
    reader = _Reader(options, rejects)
    files = _table_rows.chosen(paths, reader.format, reader.dropped)
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
        self.format = _table_rows.Format(options.delimiter, options.quote, options.encoding, options.sheet)

    def read(self, member: Member) -> dict[str, Any]:
        """Read one file; return its entry for the manifest."""
        self.file = member.place
        table = _table_rows.opened(member, self.format, self.rejects)
        fields = self._fields(table.names)
        is_relations = "head_column" in fields and "term_column" not in fields
        for name in (table.names[place] for place in fields.values()):
            if table.names.count(name) > 1:
                raise InputError(
                    f"column {name!r} stands more than once in the header: {table.names}",
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
        said = pl.col("preferred").fill_null(False).any().over("concept")
        tables["terms"] = terms.with_columns(preferred=pl.when(is_open).then(first & ~said).otherwise("preferred"))
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

    # --- terms -------------------------------------------------------------------------------------------------------

    def _terms(self, cells: pl.DataFrame) -> None:
        tags = {tag: languages.normalize(tag) or "" for tag in values_of(cells, "language_column")}
        types = {name: model.term_type(name) for name in values_of(cells, "type_column")}
        rows = self._identified(cells, "id_column", is_odd(cells, tags), self._row_is_good)
        if rows.is_empty():
            return
        self.has_concepts = True
        default = Defaults(rows.columns)
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

    def _row_is_good(self, line: int, row: Row) -> bool:
        """Check the cells of a term row; report the first that is wrong."""
        for field, allowed in (("scope_column", model.SCOPES), ("status_column", model.STATUSES)):
            if (value := row.get(field, "").lower()) and value not in allowed:
                self._refuse(f"must be one of {list(allowed)}", line, field, value)
                return False
        if (tag := row.get("language_column", "")) and languages.normalize(tag) is None:
            self._refuse(languages.UNKNOWN, line, "language_column", tag)
            return False
        for field in ("preferred_column", "retired_column"):
            if (value := row.get(field, "").lower()) not in TRUE | FALSE:
                self._refuse("must be 1/0, true/false or yes/no", line, field, value)
                return False
        if not row["term_column"]:
            self._refuse("an empty term", line, "term_column", None)
            return False
        for field, value in row.items():
            limit = model.MAX_TEXT_CHARACTERS if field == "definition_column" else model.MAX_TERM_CHARACTERS
            if problem := model.too_long(value, limit):
                self._refuse(problem, line, field, value)
                return False
        return True

    # --- relations ---------------------------------------------------------------------------------------------------

    def _relations(self, cells: pl.DataFrame) -> None:
        rows = self._identified(self._identified(cells, "head_column"), "tail_column")
        default = Defaults(rows.columns)
        self._add(
            "relations",
            rows,
            head=pl.col("head_column.id"),
            relation=default("relation_column", self.options.relation).cast(_FEW),
            tail=pl.col("tail_column.id"),
            source=pl.col("head_column.prefix").cast(_FEW),
            file=pl.lit(self.file).cast(_FEW),
        )

    # --- ids ---------------------------------------------------------------------------------------------------------

    def _identified(
        self, cells: pl.DataFrame, field: str, odd: pl.Series | None = None, check: Check = lambda line, row: True
    ) -> pl.DataFrame:
        """Return the good rows, with the id, prefix and code of a field in the columns `FIELD.id`, ..."""
        ids = self.ids.of_all(cells[field])
        is_odd = ids["id"].is_null() if odd is None else ids["id"].is_null() | odd
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
            if curie is None or not check(row["line"], {name: row[name] for name in cells.columns if name != "line"}):
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
        found = self.ids.of(cell)
        if found is None:
            if not self.has_concepts:
                raise UsageError(
                    f"{self.file}:{line}: the id {cell[:80]!r} has no prefix; say which one it belongs to, e.g. "
                    "--set prefix=LOCAL"
                )
            self._refuse("an id without prefix; give one with --set prefix=NAME", line, field, cell)
            return None
        if len(found[0]) > 1000 or any(sign.isspace() for sign in found[0]):
            self._refuse("not an id: too long, or with a space in it", line, field, cell)
            return None
        return found

    def _refuse(self, problem: str, line: int, field: str, value: str | None) -> None:
        self.rejects.add(problem, file=self.file, line=line, field=getattr(self.options, field), value=value)

    def _add(
        self, table: str, rows: pl.DataFrame, *names: str, keep: pl.Expr | None = None, **columns: pl.Expr
    ) -> None:
        """Add rows to a table: columns named as there, and others."""
        place = () if "file" in columns else ("file",)
        frame = rows if keep is None else rows.with_columns(keep.alias("keep"))
        found = frame.select(*names, *place, "line", *(["keep"] if keep is not None else []), **columns)
        found = found if keep is None else found.filter("keep").drop("keep")
        if len(found):
            self.frames[table].append(found.select(sorted(found.columns)))
