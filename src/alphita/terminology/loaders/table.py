"""Tables of your own: CSV, TSV or Parquet with named columns.

A file with the columns id and term has one term a row: the first term of an id is the preferred one, unless a column
`preferred` says so. A file with the columns head and tail has one relation a row. Both kinds may be given together, in
any number. What a column is called is an option; the columns that are there under their default names are used, and a
column that was named but is not there is an error that lists those that are. All other columns are left out, and named
in the manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _files, _table_rows
from alphita.terminology.loaders._columns import Columns
from alphita.terminology.loaders._files import Member
from alphita.terminology.model import Tables

DESCRIPTION = "CSV, TSV or Parquet with named columns"

_TRUE = frozenset({"1", "true", "t", "yes", "y"})
_FALSE = frozenset({"", "0", "false", "f", "no", "n"})


class Options(Config):
    """Options of the table loader: how columns are called, and what holds where there is none."""

    id_column: str = Field("id", description="concept id: a CURIE, or a bare code (then give `prefix`)")
    term_column: str = Field("term", description="the string")
    language_column: str = Field("language", description="BCP-47 tag of the term and the definition")
    scope_column: str = Field("scope", description="exact, narrow, broad or related")
    type_column: str = Field("type", description="of the term: abbreviation, layperson, ...")
    status_column: str = Field("status", description="official, candidate or machine")
    preferred_column: str = Field("preferred", description="1/0, true/false or yes/no")
    semantic_type_column: str = Field("semantic_type", description="category of the concept")
    definition_column: str = Field("definition", description="definition of the concept")
    source_column: str = Field("source", description="where the term comes from; by default the prefix of the id")
    code_column: str = Field("code", description="the concept's code there; by default the id without prefix")
    parent_column: str = Field("parent", description="id of a parent concept; several joined by '|'")
    xref_column: str = Field("xref", description="CURIE in another terminology; several joined by '|'")
    retired_column: str = Field("retired", description="whether the concept is retired; 1/0, true/false, yes/no")
    replaced_by_column: str = Field("replaced_by", description="id to use instead of a retired one")
    head_column: str = Field("head", description="in a relation table: id of the head")
    relation_column: str = Field("relation", description="in a relation table: label")
    tail_column: str = Field("tail", description="in a relation table: id of the tail")
    prefix: str = Field("", description="prefix put before ids that have none, e.g. LOCAL")
    language: Language = Field("en", description="BCP-47 tag where there is no language column, or an empty cell")
    relation: str = Field("related_to", description="label where there is no relation column, or an empty cell")
    delimiter: str = Field("", description="between cells; by default what the name (.tsv) or the first line tells")
    quote: str = Field('"', max_length=1, description="quotes a cell; empty: quotes mean nothing")
    encoding: str = Field("utf-8", description="of CSV and TSV files")


RELATION_COLUMNS = ("head_column", "relation_column", "tail_column")
TERM_COLUMNS = tuple(name for name in Options.model_fields if name.endswith("_column") and name not in RELATION_COLUMNS)
Row = dict[str, str]


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read term and relation tables.

    Raises:
        InputError: a file is empty, no table, or unreadable; nothing was left of it.
        UsageError: a column is missing, ids have no prefix, an unknown encoding.
    """
    reader = _Reader(options, rejects)
    files = _files.chosen(paths, _table_rows.ENDINGS, reader.dropped)
    sources = [reader.read(file) for file in files]
    tables = Tables(**reader.columns.frames(), sources=sources, dropped=dict(reader.dropped))  # type: ignore[arg-type]
    if not reader.concepts:
        raise InputError("no usable row of terms in these files", file=paths[0] if paths else None)
    return tables


class _Reader:
    """Reads files one after another into columns."""

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.rejects = options, rejects
        self.columns = Columns()
        self.dropped: Counter[str] = Counter()
        self.concepts: dict[str, dict[str, Any]] = {}  # their rows, for a later line may say that one is retired
        self.named: set[str] = set()
        self.seen: set[tuple[str, ...]] = set()
        self.format = _table_rows.Format(options.delimiter, options.quote, options.encoding)

    def read(self, member: Member) -> dict[str, Any]:
        self.file = member.place
        rows = _table_rows.rows(member, self.format, self.rejects)
        _, header = next(rows)
        names = [str(name) for name in header]
        fields = self._fields(names)
        is_relations = "head_column" in fields and "term_column" not in fields
        for unused in sorted(set(names) - {names[place] for place in fields.values()}):
            self.dropped[f"column {unused!r} of {member.name}"] += 1
        accept = self._relation if is_relations else self._term
        for line, cells in rows:
            accept(line, {field: cells[place].strip() for field, place in fields.items()})
        return _files.source(member, name=member.name.split(".")[0])

    def _fields(self, names: list[str]) -> dict[str, int]:
        """Return the place of each field that the file has, and check that the needed ones are there."""
        options = self.options
        place = {name: at for at, name in reversed(list(enumerate(names)))}
        given = {field: getattr(options, field) for field in (*TERM_COLUMNS, *RELATION_COLUMNS)}
        found = {field: place[name] for field, name in given.items() if name in place}
        relations = ("head_column" in found or "tail_column" in found) and "term_column" not in found
        wanted = RELATION_COLUMNS if relations else TERM_COLUMNS
        needed = {"head_column", "tail_column"} if relations else {"id_column", "term_column"}
        for field in wanted:
            if field not in found and (field in needed or field in options.model_fields_set):
                raise UsageError(
                    f"{self.file}: no column {given[field]!r} (option {field}); its columns are {names}"
                    + ("" if relations else "; a table of relations needs 'head' and 'tail'")
                )
        return {field: at for field, at in found.items() if field in wanted}

    # --- rows --------------------------------------------------------------------------------------------------------

    def _term(self, line: int, row: Row) -> None:
        concept = self._curie(row["id_column"], line, "id_column")
        if concept is None or not self._row_is_good(line, row):
            return
        prefix, local = prefixes.parse_curie(concept) or ("", concept)
        source = row.get("source_column") or prefix
        place = {"line": line, "file": self.file}
        if concept not in self.concepts:
            self.concepts[concept] = {"id": concept, "source": prefix, "retired": False, **place}
            self.columns.rows["concepts"].append(self.concepts[concept])
        self.concepts[concept]["retired"] |= row.get("retired_column", "").lower() in _TRUE
        preferred = row.get("preferred_column", "").lower() in _TRUE
        if "preferred_column" not in row:
            preferred = concept not in self.named
            self.named.add(concept)
        language = languages.normalize(row.get("language_column", "")) or self.options.language
        term = {
            "concept": concept, "string": row["term_column"], "language": language,
            "scope": row.get("scope_column", "").lower() or "exact",
            "type": model.term_type(row.get("type_column", "")),
            "status": row.get("status_column", "").lower() or "official", "source": source,
            "code": row.get("code_column") or local,
        }  # fmt: skip
        if self._is_new("terms", *map(str, term.values())):
            self.columns.add("terms", preferred=preferred, **term, **place)
        if text := row.get("definition_column"):
            self._add("definitions", concept, source, place, text=text, language=language)
        if name := row.get("semantic_type_column"):
            self._add("semantic_types", concept, source, place, semantic_type=name)
        for parent in self._curies(row.get("parent_column", ""), line, "parent_column"):
            self._add_relation(concept, model.IS_A, parent, prefix, place)
        for target in filter(None, row.get("xref_column", "").split("|")):
            self._add("xrefs", concept, source, place, object=prefixes.normalize(target))
        for target in self._curies(row.get("replaced_by_column", ""), line, "replaced_by_column"):
            self._add("replacements", concept, source, place, object=target)

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
            if (value := row.get(field, "").lower()) not in _TRUE | _FALSE:
                self._refuse("must be 1/0, true/false or yes/no", line, field, value)
                return False
        if not row["term_column"]:
            self._refuse("an empty term", line, "term_column", None)
            return False
        for field, value in row.items():
            limit = model.MAX_TEXT_CHARACTERS if field == "definition_column" else model.MAX_TERM_CHARACTERS
            if len(value) > limit:
                self._refuse(f"{len(value):,} characters; at most {limit:,} are read", line, field, value)
                return False
        return True

    def _relation(self, line: int, row: Row) -> None:
        head = self._curie(row["head_column"], line, "head_column")
        tail = self._curie(row["tail_column"], line, "tail_column") if head else None
        if head and tail:
            label = row.get("relation_column") or self.options.relation
            prefix = (prefixes.parse_curie(head) or ("", ""))[0]
            self._add_relation(head, label, tail, prefix, {"line": line, "file": self.file})

    def _add_relation(self, head: str, label: str, tail: str, source: str, place: dict[str, Any]) -> None:
        if self._is_new("relations", head, label, tail):
            self.columns.add("relations", head=head, relation=label, tail=tail, source=source, **place)

    def _add(self, table: str, concept: str, source: str, place: dict[str, Any], **values: str) -> None:
        if self._is_new(table, concept, source, *values.values()):
            self.columns.add(table, concept=concept, source=source, **place, **values)

    def _is_new(self, *values: str) -> bool:
        if values in self.seen:
            self.dropped["repeated rows"] += 1
            return False
        self.seen.add(values)
        return True

    def _curies(self, cell: str, line: int, field: str) -> list[str]:
        found = (self._curie(part.strip(), line, field) for part in cell.split("|") if part.strip())
        return [curie for curie in found if curie]

    def _curie(self, cell: str, line: int, field: str) -> str | None:
        if not cell:
            self._refuse("an empty id", line, field, None)
            return None
        curie = prefixes.normalize(cell)
        if prefixes.parse_curie(curie) is None:
            if not self.options.prefix:
                if not self.concepts:
                    raise UsageError(
                        f"{self.file}:{line}: the id {cell[:80]!r} has no prefix; say which one it belongs to, e.g. "
                        "--set prefix=LOCAL"
                    )
                self._refuse("an id without prefix; give one with --set prefix=NAME", line, field, cell)
                return None
            curie = prefixes.normalize(f"{self.options.prefix}:{cell}")
        if len(curie) > 1000 or any(sign.isspace() for sign in curie):
            self._refuse("not an id: too long, or with a space in it", line, field, cell)
            return None
        return curie

    def _refuse(self, problem: str, line: int, field: str, value: str | None) -> None:
        self.rejects.add(problem, file=self.file, line=line, field=getattr(self.options, field), value=value)
