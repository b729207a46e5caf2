"""Tables of products, for search among them: title, attribute name, attribute values.

Each product is a concept, and so is each value of an attribute; the name of the attribute is the relation from one to
the other, and the semantic type of the value. Two shapes are read: one attribute a row (columns title, attribute_name,
attribute_values), and one product a row with a column for each attribute (option `attributes` names them). Several
values in one cell are joined by `|`.

Such tables have no ids. A concept's id is made of its cleaned string, so it is the same in the next release.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Columns, commonest
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables
from alphita.terminology.text import clean

DESCRIPTION = "products with attributes: CSV, TSV, Excel or Parquet with title, attribute name, attribute values"


class Options(_tables.Format):
    """Options of the products loader: how columns are called, and how ids are made."""

    title_column: str = Field("title", description="title of the product")
    attribute_column: str = Field(
        "attribute_name", description="name of the attribute whose values are in the same row"
    )
    values_column: str = Field("attribute_values", description="values of that attribute")
    attributes: str = Field("", description="instead: columns that are attributes, joined by ','; * means all")
    id_column: str = Field("id", description="product id, if there is such a column: a CURIE or a bare code")
    separator: str = Field("|", description="separator of values in a cell; empty: a cell is one value")
    empty: str = Field("", description="marker of empty cells, such as _ or n/a")
    prefix: str = Field("PRODUCT", pattern=r"[^\s:]+", description="prefix of the ids of products")
    value_prefix: str = Field("VALUE", pattern=r"[^\s:]+", description="prefix of the ids of values")
    language: Language = Field("en", description="BCP-47 tag of titles and values")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: columns of titles, attribute names and values, under their default names."""
    defaults = Options()
    wanted = {defaults.title_column, defaults.attribute_column, defaults.values_column}
    return seen.settings(lambda file: wanted <= {*map(model.snake_case, file.columns)}, _tables.ENDINGS)


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read tables of products."""
    reader = _Reader(options, rejects)
    files = _tables.chosen(paths, options, reader.columns.dropped)
    sources = [reader.read(file) for file in files]
    if not reader.ids:
        raise InputError("no usable row of products in these files", file=paths[0] if paths else None)
    tables = reader.columns.tables(sources)
    name = pl.col("concept").replace_strict(commonest(reader.uses))
    tables.terms = tables.terms.with_columns(preferred=pl.col("string") == name)
    return tables


class _Reader:
    """Reads files one after another into columns."""

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.columns = options, Columns(rejects)
        self.ids: set[str] = set()
        # Of a concept and a string that it is written by.
        self.uses: Counter[tuple[str, str]] = Counter()
        # How each attribute is written where it comes first, by its label.
        self.written: dict[str, str] = {}

    def read(self, member: Member) -> dict[str, Any]:
        self.columns.file = member.place
        table = _tables.opened(member, self.options, self.columns.rejects, fractions=True)
        header = table.names
        # "Attribute Name" and attribute_name are the same column.
        names = self.names = [model.snake_case(name) for name in header]
        self.places = {name: place for place, name in reversed(list(enumerate(names)))}
        self.places |= {name: place for place, name in reversed(list(enumerate(header)))}
        title = self._place("title_column")
        id_place = self._place_of(self.options.id_column)
        wide = self._wide(header, {title, id_place})
        attribute, values = (-1, -1) if wide else (self._place("attribute_column"), self._place("values_column"))
        used = {title, attribute, values, *(place for _, place in wide)} - {-1} | ({id_place} - {None})
        for place, name in enumerate(header):
            if place not in used:
                self.columns.dropped[f"column {name!r} of {member.name}"] += 1
        places = sorted(place for place in used if place is not None)
        for line, row in table.rows(places):
            cells = {place: cell.strip() for place, cell in zip(places, row, strict=True)}
            product = self._product(line, cells[title], "" if id_place is None else self._filled(cells[id_place]))
            if product is None:
                continue
            if wide:
                for name, place in wide:
                    self._attribute(line, product, name, cells[place])
            elif not self._attribute(line, product, self._filled(cells[attribute]), cells[values]):
                self.columns.refuse("no value", line, self.options.values_column, cells[values])
        return _files.source(member, name=member.name.split(".")[0])

    def _place_of(self, name: str) -> int | None:
        """Return the place of a column: the one of this very name, or else the first that is written alike."""
        return self.places.get(name.strip(), self.places.get(model.snake_case(name)))

    def _filled(self, cell: str) -> str:
        return "" if cell == self.options.empty else cell

    def _place(self, option: str) -> int:
        name = getattr(self.options, option)
        place = self._place_of(name)
        if place is None:
            raise UsageError(
                f"{self.columns.file}: no column {name!r} (option {option}); its columns are {self.names}; where each "
                "attribute has a column of its own, name them: --set attributes=ingredient,company"
            )
        return place

    def _wide(self, header: Sequence[str], others: set[int | None]) -> list[tuple[str, int]]:
        """Return names and places of the columns that are attributes."""
        if not self.options.attributes:
            return []
        columns = []
        if self.options.attributes.strip() == "*":
            columns = [(name, at) for at, name in enumerate(header) if at not in others and model.snake_case(name)]
        else:
            for name in _columns.listed(self.options.attributes):
                place = self._place_of(name)
                if place is None:
                    raise UsageError(
                        f"{self.columns.file}: no column {name!r} (option attributes); its columns are {self.names}"
                    )
                columns += [(name, at) for at, written in enumerate(header) if written == header[place]]
        # Columns of one name are one attribute; those that only look so as a relation's label are not.
        first: dict[str, str] = {}
        for name, place in columns:
            written = first.setdefault(model.snake_case(name), header[place])
            if _spaced(written) != _spaced(header[place]):
                raise UsageError(
                    f"{self.columns.file}: the columns {written!r} and {header[place]!r} would both be the attribute "
                    f"{model.snake_case(name)!r}; rename one of them"
                )
        return columns

    def _product(self, line: int, title: str, code: str) -> str | None:
        """Return the id of the row's product, made new where it is seen for the first time."""
        if not self._is_term(title, line, self.options.title_column):
            return None
        if not code:
            concept = _made_id(self.options.prefix, title)
        else:
            concept = prefixes.normalize(code if prefixes.parse_curie(code) else f"{self.options.prefix}:{code}")
        if not _columns.is_id(concept):
            self.columns.refuse("not an id: too long, or with a space in it", line, self.options.id_column, code)
            return None
        self._concept(line, concept, title, model.PRODUCT)
        return concept

    def _attribute(self, line: int, product: str, name: str, cell: str) -> bool:
        """Add the relations of one attribute; return whether it has a value."""
        label = model.snake_case(name)
        if not label or len(label) > _columns.MAX_ID_CHARACTERS:
            self.columns.refuse("not a name of an attribute", line, self.options.attribute_column, name)
            return True
        parts = cell.split(self.options.separator) if self.options.separator else [cell]
        values = [part.strip() for part in parts]
        filled = [value for value in values if value and value != self.options.empty]
        # "Rh +" and "rh -" only look alike as a relation's label.
        if filled and _spaced(written := self.written.setdefault(label, name)) != _spaced(name):
            problem = f"would be the attribute {label!r}, as {written!r} before it is; rename one of them"
            self.columns.refuse(problem, line, self.options.attribute_column, name)
            return True
        for value in filled:
            if self._is_term(value, line, label):
                concept = _made_id(self.options.value_prefix, value)
                self._concept(line, concept, value, label)
                if self.columns.is_new("relation", product, label, concept):
                    self._add("relations", line, product, head=product, relation=label, tail=concept)
        return bool(filled)

    def _concept(self, line: int, concept: str, string: str, semantic_type: str) -> None:
        if concept not in self.ids:
            self.ids.add(concept)
            self._add("concepts", line, concept, id=concept, retired=False)
        self.uses[concept, string] += 1
        if self.uses[concept, string] == 1:
            self._add(
                "terms",
                line,
                concept,
                concept=concept,
                string=string,
                language=self.options.language,
                code=concept.partition(":")[2],
            )
        if self.columns.is_new("semantic type", concept, semantic_type):
            self._add("semantic_types", line, concept, concept=concept, semantic_type=semantic_type)

    def _add(self, name: str, line: int, owner: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        self.columns.put(name, line, source=owner.partition(":")[0], **values)

    def _is_term(self, string: str, line: int, field: str) -> bool:
        is_empty = not string or string == self.options.empty
        if problem := "an empty cell" if is_empty else model.too_long(string):
            self.columns.refuse(problem, line, field, string)
        return not problem


def _spaced(name: str) -> str:
    """Return a column's name so that writings of one name are equal."""
    return re.sub(r"[\s_]+", " ", unicodedata.normalize("NFC", name).casefold()).strip()


def _made_id(prefix: str, string: str) -> str:
    """Return an id that two spellings of one string share, and that stays from release to release."""
    digest = hashlib.sha256((clean(string) or string).encode()).hexdigest()
    return f"{prefix}:{digest[:16]}"
