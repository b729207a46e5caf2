"""What loaders share: rows gathered into columns line by line, rows taken out of frames, options of several values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.errors import Rejects, UsageError
from alphita.terminology import languages, model, prefixes, reading
from alphita.terminology.store import Terminology
from alphita.terminology.text import whole_characters

_SCHEMAS: dict[str, dict[str, Any]] = {
    table: {name: kind for name, (kind, _) in columns.items()} | model.PLACE for table, columns in model.SCHEMAS.items()
}
# A row as a Python dict takes ten times the memory that it takes in a frame.
ROWS_AT_ONCE = 20_000
MAX_ID_CHARACTERS = 1_000
# Column, the rows in which it is bad, and the problem.
Check = tuple[str, pl.Expr, str]


def listed(option: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    return [part.strip() for part in option.split(",") if part.strip()]


def is_id(identifier: str) -> bool:
    """Tell whether an id can be stored: not empty, not too long, without white space."""
    return 0 < len(identifier) <= MAX_ID_CHARACTERS and not any(map(str.isspace, identifier))


class Columns:
    """Rows of the tables of `model.SCHEMAS`, gathered one by one, with the rejects of a file and what is left out.

    Rows that are appended to `rows` may still be changed; a table that is filled so must not be given to `add`.
    """

    def __init__(self, rejects: Rejects) -> None:
        self.rejects = rejects
        self.dropped: Counter[str] = Counter()
        # The file that is being read.
        self.file = ""
        self._seen: set[tuple[str, ...]] = set()
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _SCHEMAS}
        self._packed: dict[str, list[pl.DataFrame]] = {table: [] for table in _SCHEMAS}

    def add(self, table: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        rows = self.rows[table]
        rows.append(values)
        if len(rows) >= ROWS_AT_ONCE:
            self._packed[table].append(_packed(table, rows))
            rows.clear()

    def put(self, table: str, line: int, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        self.add(table, line=line, file=self.file, **values)

    def refuse(self, problem: str, line: int, field: str | None, value: str | None = None) -> None:
        self.rejects.add(problem, file=self.file, line=line, field=field, value=value)

    def fits(self, string: str, line: int, field: str, limit: int = model.MAX_TERM_CHARACTERS) -> bool:
        """Tell whether a string is neither blank nor too long; report one that is."""
        problem = model.too_long(string, limit) if string.strip() else "an empty string"
        if problem:
            self.refuse(problem, line, field, string if string.strip() else None)
        return not problem

    def is_new(self, *values: str) -> bool:
        n_seen = len(self._seen)
        self._seen.add(values)
        return len(self._seen) > n_seen

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table; columns that no row has are left out."""
        frames, rows = self._packed[table], self.rows[table]
        if rows or not frames:
            frames = [*frames, _packed(table, rows)]
        return pl.concat(frames, how="diagonal")

    def tables(self, sources: list[dict[str, Any]]) -> model.Tables:
        frames = {table: self.frame(table) for table in _SCHEMAS}
        return model.Tables(**frames, sources=sources, dropped=dict(self.dropped))  # type: ignore[arg-type]


def added_to(base: Terminology, columns: Columns, sources: list[dict[str, Any]]) -> model.Tables:
    """Return the tables of a terminology with the rows of `columns` below its own."""
    tables = reading.tables_of(base)
    for table in _SCHEMAS:
        setattr(tables, table, reading.added(getattr(tables, table), columns.frame(table)))
    tables.sources += sources
    tables.dropped = dict(Counter(tables.dropped) + columns.dropped)
    return tables


def terms_of(base: Terminology, row: int, *columns: str) -> list[dict[str, Any]]:
    """Return some columns of the terms of a concept of a terminology."""
    start, end = (int(place) for place in base.concept_terms[row : row + 2])
    return base.terms.select(list(columns)).slice(start, end - start).to_pylist()


def _packed(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = _SCHEMAS[table]
    given = set().union(*rows) if rows else set(schema)
    columns = {name: [row.get(name) for row in rows] for name in schema if name in given}
    types = {name: schema[name] for name in columns}
    try:
        return pl.DataFrame(columns, schema=types)
    except UnicodeEncodeError:
        # A cell that its loader did not look at, such as a reference.
        whole = {
            name: [whole_characters(cell) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in columns.items()
        }
        return pl.DataFrame(whole, schema=types)


def commonest(uses: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """Return the string that each concept is called by most often; of equal ones, the first of the alphabet."""
    return dict(sorted(sorted(uses, reverse=True), key=uses.__getitem__))


# --- frames ----------------------------------------------------------------------------------------------------------


def text(field: str, what: str, limit: int = model.MAX_TERM_CHARACTERS) -> tuple[Check, Check]:
    """Return the checks of a column that must not be blank nor longer than `limit` characters."""
    cell = pl.col(field)
    # Bytes are there already, characters must be counted.
    long = (cell.str.len_bytes() > limit) & (cell.str.len_chars() > limit)
    return (
        (field, cell.str.strip_chars() == "", f"an empty {what}"),
        (field, long, f"longer than {limit:,} characters"),
    )


def date(field: str) -> Check:
    """Return the check of a column of dates in the form YYYYMMDD."""
    cell = pl.col(field)
    # The calendar alone would also accept fewer digits.
    bad = ~cell.str.contains(r"^[0-9]{8}$") | cell.str.to_date("%Y%m%d", strict=False).is_null()
    return field, bad, "not a date of the form YYYYMMDD"


def one_of(field: str, values: Sequence[str], problem: str) -> Check:
    return field, ~pl.col(field).is_in(list(values)), problem


def none_of(field: str, values: Sequence[str], problem: str) -> Check:
    return field, pl.col(field).is_in(list(values)), problem


def matching(field: str, pattern: str, problem: str) -> Check:
    return field, ~pl.col(field).str.contains(pattern), problem


class Sieve:
    """Takes rows out of frames with the columns `file` and `line`: reports the bad ones, counts the unwanted ones."""

    def __init__(self, rejects: Rejects) -> None:
        self.rejects = rejects
        self.dropped: Counter[str] = Counter()

    def check(self, frame: pl.DataFrame, *checks: Check) -> pl.DataFrame:
        """Report the rows that a check finds bad, or null, with the value of its field; return the others."""
        for field, bad, problem in checks:
            mask = frame.select(bad.fill_null(True).alias("bad"))["bad"]
            if not mask.any():
                continue
            for value, line, file in frame.filter(mask).select(field, "line", "file").iter_rows():
                self.rejects.add(problem, file=file, line=line, field=field, value=value)
            frame = frame.filter(~mask)
        return frame

    def count(self, reason: str, number: int) -> None:
        if number:
            self.dropped[reason] += number

    def drop(self, frame: pl.DataFrame, unwanted: pl.Expr | pl.Series, reason: str) -> pl.DataFrame:
        """Leave rows out on purpose, and count them under `reason`."""
        kept = frame.filter(~unwanted)
        self.count(reason, len(frame) - len(kept))
        return kept

    def once(self, frame: pl.DataFrame, columns: Sequence[str], reason: str) -> pl.DataFrame:
        """Keep the first of the rows that are alike in some columns, in order; count the others under `reason`."""
        kept = frame.unique(columns, keep="first", maintain_order=True)
        self.count(reason, len(frame) - len(kept))
        return kept

    def at_concepts(
        self,
        frame: pl.DataFrame,
        fields: Sequence[str],
        ids: NDArray[np.int64],
        left_out: NDArray[np.int64],
        reason: str,
    ) -> pl.DataFrame:
        """Replace the numbers of concepts by their rows, and refuse rows with a number that no concept has."""
        for field in fields:
            wanted = frame[field].cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
            rows = np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)).astype(np.int32)
            known = ids[rows] == wanted
            frame = frame.with_columns(_row=pl.Series(rows), _known=pl.Series(known))
            if not known.all():
                frame = self.drop(frame, pl.Series(np.isin(wanted, left_out) & ~known), reason)
                frame = self.check(frame, (field, ~pl.col("_known"), "no concept has this id"))
            frame = frame.with_columns(pl.col("_row").alias(field)).drop("_row", "_known")
        return frame


def only_languages(option: str, *, regions: bool = True) -> frozenset[str] | None:
    """Return the tags of an option `languages`, or the word "none", in lower case; None for all."""
    words = [word.lower().replace("_", "-") for word in listed(option)]
    for word in words:
        language = word.partition("-")[0] if regions else word
        if language not in languages.table() and not (regions and word == "none"):
            raise UsageError(f"option languages: {word!r} is not a language, such as en, de or fr")
    return frozenset(words) if words else None


# --- ontologies ------------------------------------------------------------------------------------------------------


def semantic_type(example: str, why: str = "") -> str:
    """Return the setting of a loader that names semantic types."""
    option: str = Field(
        "",
        pattern=r"^(|namespace|[^,\s]+:[^,\s]+(,[^,\s]+:[^,\s]+)*)$",
        description=f"semantic types: 'namespace', or ids ({example},...) whose children are the types of everything "
        f"below them; empty: none{why}",
    )
    return option


def relation_labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return the snake_case name of each relation that has one which no other relation has: BFO:0000050 -> part_of.

    Args:
        names: relation -> its name, "" where it has none.
    """
    words = {label: model.snake_case(name) for label, name in names.items()}
    taken = Counter(words.values())
    return {label: word for label, word in words.items() if word and taken[word] == 1 and word not in names}


def type_by_branches(columns: Columns, option: str) -> None:
    """Give every concept below a root the semantic types that are the root's children above it, or itself."""
    if option in ("", "namespace"):
        return
    roots = [prefixes.normalize(root) for root in option.split(",")]
    terms = model.complete("terms", columns.frame("terms")).filter("preferred")
    names = dict(terms.unique("concept", keep="first").select("concept", "string").iter_rows())
    known = set(columns.frame("concepts")["id"])
    children = defaultdict(list)
    relations = columns.frame("relations").filter(pl.col("relation") == model.IS_A)
    for parent, child in relations.select("tail", "head").iter_rows():
        children[parent].append(child)
    branches: dict[str, None] = {}
    for root in roots:
        if root not in known:
            raise UsageError(f"semantic_type: no concept has the id {root!r}")
        # A root that lies below another root is divided itself, not a type.
        branches |= dict.fromkeys(branch for branch in children[root] if branch not in roots)
    for branch in branches:
        below, waiting = {branch}, [branch]
        while waiting:
            new = [child for child in children[waiting.pop()] if child not in below]
            below.update(new)
            waiting.extend(new)
        prefix, _, code = branch.rpartition(":")
        for concept in sorted(below & known):
            name = names.get(branch, branch)
            columns.add("semantic_types", concept=concept, semantic_type=name, code=code, source=prefix)
