"""The tables of a store, on every database, and the few expressions that SQLite and PostgreSQL write differently.

`decision`, `batch` and `forgetting` are append-only; `in_force` and the columns `state` and `settled_by` of `row` are
derived from them in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    func,
    select,
    tuple_,
)
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement, FunctionElement, UnaryExpression

METADATA, VERSION = MetaData(), 3
# Texts are compared by their bytes, whatever language the database is set up for.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")
WHOLE = BigInteger().with_variant(Integer(), "sqlite")


def _texts(*names: str) -> list[Column[Any]]:
    return [Column(name, TEXT, nullable=False) for name in names]


def _of(name: str, table: str, **more: Any) -> Column[Any]:  # noqa: ANN401 - options of a column
    key = ForeignKey(f"{table}.id", use_alter=table == "decision", name=f"{name}_of_{table}")
    return Column(name, WHOLE, key, **{"nullable": False} | more)


project = Table(
    "project",
    METADATA,
    Column("id", WHOLE, primary_key=True),
    Column("name", TEXT, nullable=False, unique=True),
    *_texts("source", "column_name", "terminology", "release", "model", "created_at"),
    Column("blind", Integer, nullable=False),
    Column("filters", TEXT, nullable=False, server_default="{}"),
)
row = Table(
    "row",
    METADATA,
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    _of("project", "project"),
    Column("number", WHOLE, nullable=False),
    *_texts("code", "mention", "cleaned", "searched"),
    Column("frequency", WHOLE, nullable=False),
    Column("confidence", Double),
    Column("risk", Double, nullable=False),
    Column("learning", Double),
    Column("state", TEXT, nullable=False, server_default="open"),
    _of("settled_by", "decision", nullable=True),
    Unique("project", "code", "mention").ddl_if(dialect="sqlite"),
    Index("row_by_state", "project", "state", "frequency"),
    Index("row_by_cleaned", "cleaned", postgresql_using="hash"),
)
detail = Table("detail", METADATA, _of("row", "row", primary_key=True), *_texts("context", "candidates", "types"))
row_type = Table(
    "row_type",
    METADATA,
    _of("row", "row", primary_key=True),
    Column("type", TEXT, primary_key=True),
    sqlite_with_rowid=False,
)
decision = Table(
    "decision",
    METADATA,
    Column("id", WHOLE, primary_key=True),
    Column("uid", TEXT, nullable=False, unique=True),
    _of("project", "project"),
    _of("row", "row"),
    *_texts("reviewer", "kind"),
    Column("concept_id", TEXT),
    Column("relation", TEXT),
    *_texts("comment", "at"),
    _of("undoes", "decision", nullable=True),
    *_texts("bulk"),
    Column("confidence", Double),
    *_texts("shown", "terminology", "release", "model"),
    Column("concept_name", TEXT),
    Index("decision_by_row", "row", "reviewer"),
    Index("decision_by_reviewer", "project", "reviewer"),
    sqlite_autoincrement=True,
)
for _name, _column, _is_unique, _given in (
    ("decision_by_bulk", decision.c.bulk, False, decision.c.bulk != ""),
    ("decision_undone", decision.c.undoes, True, decision.c.undoes.is_not(None)),
):
    Index(_name, _column, unique=_is_unique, sqlite_where=_given, postgresql_where=_given)
batch = Table(
    "batch",
    METADATA,
    Column("uid", TEXT, primary_key=True),
    *_texts("kind"),
    _of("project", "project"),
    *_texts("reviewer", "at"),
    Column("upto", WHOLE, nullable=False),
    *_texts("asked"),
    sqlite_with_rowid=False,
)
# The newest line of a name says up to which decision its are forgotten; 0: none. What was purged is told here too.
forgetting = Table(
    "forgetting",
    METADATA,
    Column("id", WHOLE, primary_key=True),
    *_texts("what", "name"),
    Column("upto", WHOLE, nullable=False),
    *_texts("reviewer", "at"),
)
# One line a reviewer who has decided, skipped or flagged the row, and one of slot '' for the adjudication.
in_force = Table(
    "in_force",
    METADATA,
    _of("row", "row", primary_key=True),
    Column("slot", TEXT, primary_key=True),
    _of("decision", "decision"),
    Column("kind", TEXT, nullable=False),
    Column("meaning", TEXT),
    sqlite_with_rowid=False,
)
APPENDED = (decision, batch, forgetting)
# In which order rows are asked; each is an index.
TIES = (row.c.number, row.c.id)
ORDERS: dict[str, tuple[ColumnElement[Any], ...]] = {
    "risk": (row.c.risk.desc(), *TIES),
    "frequency": (row.c.frequency.desc(), *TIES),
    "confidence": (row.c.confidence.nulls_first(), *TIES),
    "row": TIES,
    "learning": (row.c.learning.desc().nulls_last(), row.c.risk.desc(), *TIES),
}


def _without_nulls(key: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a key of an order without where nulls are, which SQLite has there by itself."""
    is_said = isinstance(key, UnaryExpression) and "nulls" in getattr(key.modifier, "__name__", "")
    return key.element if is_said else key


for _name, _keys in ORDERS.items():
    _index = f"row_by_{'number' if _name == 'row' else _name}"
    Index(_index, row.c.project, *_keys).ddl_if(dialect="postgresql")
    Index(_index, row.c.project, *map(_without_nulls, _keys)).ddl_if(dialect="sqlite")
# A page of PostgreSQL's indexes holds no long text, but a digest of it.
HASHED = (func.md5(row.c.code), func.md5(row.c.mention))
Index("row_once", row.c.project, *HASHED, unique=True).ddl_if(dialect="postgresql")
Index("row_by_code", row.c.code, postgresql_using="hash").ddl_if(dialect="postgresql")
for _column in (row.c.settled_by, in_force.c.decision):
    Index(f"{_column.table.name}_by_{_column.name}", _column).ddl_if(dialect="postgresql")

NUMBERS = JSON().with_variant(ARRAY(BigInteger), "postgresql")
STRINGS = JSON().with_variant(ARRAY(TEXT), "postgresql")


class _Among(FunctionElement[bool]):
    # Without a type, for SQLite would compare a truth value with 1, and use no index.
    name, inherit_cache = "among", True


@compiles(_Among, "sqlite")
def _(element: _Among, compiler: Any, **how: Any) -> str:  # noqa: ANN401 - SQLAlchemy's
    column, values = (compiler.process(clause, **how) for clause in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"


@compiles(_Among, "postgresql")
def _(element: _Among, compiler: Any, **how: Any) -> str:  # noqa: ANN401
    column, values = (compiler.process(clause, **how) for clause in element.clauses)
    return f"{column} = ANY ({values})"


def among(column: ColumnElement[Any], name: str, kind: Any = NUMBERS) -> ColumnElement[bool]:  # noqa: ANN401
    """Return that a column is one of a list, however long, which is given under a name."""
    return _Among(column, bindparam(name, type_=kind))


def with_pairs(dialect: str, pairs: Collection[tuple[str, str]]) -> tuple[Select[Any], dict[str, Any]]:
    """Return what selects rows of these codes and mentions by the index that keeps them apart, and its values."""
    found = select(row.c.code, row.c.mention, row.c.id)
    if dialect == "sqlite":
        return found.where(tuple_(row.c.code, row.c.mention).in_(list(pairs))), {}
    codes, mentions = (list(some) for some in zip(*pairs, strict=True))
    given = func.unnest(bindparam("codes", type_=STRINGS), bindparam("mentions", type_=STRINGS))
    pair = given.table_valued("code", "mention").render_derived(name="pair")
    is_equal = [digest == func.md5(of) for digest, of in zip(HASHED, (pair.c.code, pair.c.mention), strict=True)]
    return found.join_from(pair, row, and_(*is_equal)), {"codes": codes, "mentions": mentions}
