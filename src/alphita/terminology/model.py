"""The data model, and `Tables`: the columnar form in which a loader hands a terminology over.

Every loader fills the same tables with whatever its format has; `alphita.terminology.writing.save` gives the concepts
their dense rows, checks every reference, and writes the memory-mapped store.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

import polars as pl

# Best first: in this order the terms of one concept are kept.
SCOPES = ("exact", "narrow", "broad", "related")
STATUSES = ("official", "candidate", "machine")

MAX_TERM_CHARACTERS = 10_000
# The semantic type of what a table of products lists.
PRODUCT = "product"
MAX_TEXT_CHARACTERS = 60_000

IS_A = "is_a"
XREF = "oboInOwl:hasDbXref"
REPLACED_BY = "replaced_by"
CONSIDER = "consider"

# Spellings of synonym types in the wild -> the word used here. Anything else is kept, in snake_case.
TERM_TYPES = {
    "plural_form": "plural",
    "layperson_term": "layperson",
    "layperson_synonym": "layperson",
    "lay_term": "layperson",
    "uk_spelling_synonym": "uk_spelling",
    "obsolete_synonym": "obsolete",
    "discarded_obsoleted_synonym": "obsolete",
    "deprecated": "obsolete",
}

_REQUIRED = object()
# table -> its columns, and the default of those that may be left out, "-" for null. References are ids or rows.
_COLUMNS = {
    "concepts": "id source retired=False",
    "terms": "concept string language scope=exact preferred=False type=- status=official source code=- term_type=- "
    "reference=-",
    "relations": "head relation tail source",
    "definitions": "concept text language source reference=-",
    "semantic_types": "concept semantic_type code=- source",
    "xrefs": f"concept predicate={XREF} object source",
    "aliases": "concept alias source",
    "replacements": f"concept predicate={REPLACED_BY} object source",
    "properties": "concept name value source",
}


def _column(written: str) -> tuple[str, tuple[Any, Any]]:
    """Return a column's name, type and default."""
    name, given, default = written.partition("=")
    if default == "False":
        return name, (pl.Boolean, False)
    return name, (pl.String, None if default == "-" else default if given else _REQUIRED)


# table -> column -> (type, default); columns without default must be given.
SCHEMAS: dict[str, dict[str, tuple[Any, Any]]] = {
    table: dict(map(_column, columns.split())) for table, columns in _COLUMNS.items()
}
PLACE = {"file": pl.String, "line": pl.Int64}
REFERENCES = ("concept", "head", "tail")


def empty(table: str) -> pl.DataFrame:
    """Return the table of that name with no rows."""
    return pl.DataFrame(schema={name: kind for name, (kind, _) in SCHEMAS[table].items()})


@dataclass
class Tables:
    """What a loader returns. Columns as in `SCHEMAS`; those with a default may be left out.

    Attributes:
        concepts: id (CURIE), source, retired.
        terms: concept, string, language (BCP-47), scope, preferred, type, status, source, code (the concept's code in
            that source, so that `source:code` is a CURIE), term_type (as the source calls it), reference.
        relations: head, relation, tail, source.
        definitions: concept, text, language, source, reference.
        semantic_types: concept, semantic_type, code, source.
        xrefs: concept, predicate (CURIE), object (CURIE in another terminology), source.
        aliases: concept, alias: other ids it answers to.
        replacements: concept (a retired one), predicate "replaced_by" or "consider", object (CURIE).
        properties: concept, name ("subset", "comment", ...), value.
        sources: one dict a file: name, file, version, licence, sha256.
        parent_relations: the relation labels that lead from a concept to its parents.
        dropped: what was left out on purpose, counted; it goes into the manifest.
    """

    concepts: pl.DataFrame
    terms: pl.DataFrame
    relations: pl.DataFrame = field(default_factory=lambda: empty("relations"))
    definitions: pl.DataFrame = field(default_factory=lambda: empty("definitions"))
    semantic_types: pl.DataFrame = field(default_factory=lambda: empty("semantic_types"))
    xrefs: pl.DataFrame = field(default_factory=lambda: empty("xrefs"))
    aliases: pl.DataFrame = field(default_factory=lambda: empty("aliases"))
    replacements: pl.DataFrame = field(default_factory=lambda: empty("replacements"))
    properties: pl.DataFrame = field(default_factory=lambda: empty("properties"))
    sources: list[dict[str, Any]] = field(default_factory=list)
    parent_relations: tuple[str, ...] = (IS_A,)
    dropped: dict[str, int] = field(default_factory=dict)


def too_long(string: str, limit: int = MAX_TERM_CHARACTERS) -> str:
    """Return what is wrong with a string of more than `limit` characters; "" for others."""
    return f"{len(string):,} characters; at most {limit:,} are read" if len(string) > limit else ""


def predicate(replaces: pl.Expr) -> pl.Expr:
    """Return what kind of successor an object of the table `replacements` is: one that replaces, or one to consider."""
    return pl.when(replaces).then(pl.lit(REPLACED_BY)).otherwise(pl.lit(CONSIDER)).alias("predicate")


def successors(targets: pl.DataFrame, replaces: pl.Expr) -> pl.DataFrame:
    """Return concept, predicate and object of the table `replacements`, by concept, those that replace first."""
    targets = targets.with_columns(predicate(replaces))
    targets = targets.sort("concept", pl.col("predicate") == CONSIDER, maintain_order=True)
    return targets.unique(["concept", "object"], keep="first", maintain_order=True).select(
        "concept", "predicate", "object"
    )


def complete(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return `frame` with the columns of `SCHEMAS[table]` in order, then file and line if given; defaults filled in."""
    columns = []
    for name, (kind, default) in SCHEMAS[table].items():
        if name not in frame.columns:
            if default is _REQUIRED:
                raise ValueError(f"table {table} lacks the column {name}; it has {frame.columns}")
            columns.append(pl.lit(default, dtype=kind).alias(name))
            continue
        found = frame.schema[name]
        keep = (name in REFERENCES and found.is_integer()) or isinstance(found, (pl.Categorical, pl.Enum))
        column = pl.col(name) if keep or found == kind else pl.col(name).cast(kind)
        columns.append(column if default in (None, _REQUIRED) else column.fill_null(pl.lit(default, dtype=kind)))
    place = [name for name in PLACE if name in frame.columns]
    # `select` of nothing but literals would give one row.
    return frame.with_columns(columns).select([*SCHEMAS[table], *place])


def snake_case(text: str) -> str:
    """Return "Plural form" as "plural_form"; letters keep their marks, in the composed form where there is one."""
    return _snake(unicodedata.normalize("NFC", text.strip().lower()))


def _snake(text: str) -> str:
    if text.isascii():
        return re.sub(r"[^\w]+", "_", text).strip("_")
    # Vowels of Indic scripts are marks, which \w leaves out.
    kept = (sign if sign.isalnum() or unicodedata.category(sign).startswith("M") else "_" for sign in text)
    return re.sub("_+", "_", "".join(kept)).strip("_")


def term_type(name: str) -> str | None:
    """Return a synonym type in the word used here: "plural form" -> "plural"; "" -> None."""
    word = snake_case(name)
    return TERM_TYPES.get(word, word) or None
