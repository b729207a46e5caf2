"""The axes of the laboratory tests in an index, columns of concepts.arrow: null for what is no test.

component, property, time, system, scale, method   see `terminology.laboratory.Axes`; "" for what is not stated
test_rank   int32, 1 for the most common test; above `MAX_RANK` by orders alone; null if there is none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.terminology.laboratory import Axes, from_name, property_code, system_code

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

LOINC = "LOINC"
# Field -> the property of a LOINC release, and the relation of an OMOP vocabulary.
FIELDS = {
    "component": ("component", "has_component"),
    "property": ("property", "has_property"),
    "time": ("time_aspct", "has_time_aspect"),
    "system": ("system", "has_system"),
    "scale": ("scale_typ", "has_scale_type"),
    "method": ("method_typ", "has_method"),
}
RANKS = ("common_test_rank", "common_order_rank")
# The tests that only rank among those ordered follow those that rank among those performed.
MAX_RANK = 1_000_000
TEST_CLASSES = ("Lab Test", "Clinical Observation")
CODES = {"property": property_code, "system": system_code}


def columns(terminology: Terminology, used: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns of some concepts, (n,) their rows in the terminology; none if none is a test."""
    properties = _properties(terminology, {name for name, _ in FIELDS.values()} | {*RANKS})
    axes: dict[int, Axes] = {}
    stated = {field: properties.get(name, {}) for field, (name, _) in FIELDS.items()}
    for row in stated["component"]:
        axes[row] = Axes(**{field: values.get(row, "") for field, values in stated.items()})
    if not axes:
        axes = _of_omop(terminology)
    rows = used.tolist()
    if not any(row in axes for row in rows):
        return {}
    found: dict[str, pa.Array] = {}
    for place, field in enumerate(Axes._fields):
        code = CODES.get(field, str)
        values = [code(axes[row][place]) if row in axes else None for row in rows]
        found[field] = pa.array(values, pa.string()).dictionary_encode()
    ranks = [_rank(*(properties.get(name, {}).get(row) for name in RANKS)) for row in rows]
    found["test_rank"] = pa.array(ranks, pa.int32())
    return found


def _properties(terminology: Terminology, wanted: set[str]) -> dict[str, dict[int, str]]:
    """Return the values of some properties by concept."""
    side_table = getattr(terminology, "side_table", None)
    table = side_table("properties") if side_table is not None else pa.table({})
    found: dict[str, dict[int, str]] = {}
    if not len(table):
        return found
    names = table.column("name").cast(pa.string())
    for name in wanted & {*pc.unique(names).to_pylist()}:
        some = table.filter(pc.equal(names, name))
        values = some.column("value").cast(pa.string()).to_pylist()
        found[name] = dict(zip(some.column("concept").to_pylist(), values, strict=True))
    return found


def _of_omop(terminology: Terminology) -> dict[int, Axes]:
    """Return the axes of LOINC's tests in OMOP vocabularies: by name, or by relation where the name does not tell."""
    types = terminology.side_table("semantic_types") if hasattr(terminology, "side_table") else pa.table({})
    if len(types):
        is_test = pc.is_in(types.column("semantic_type").cast(pa.string()), value_set=pa.array(TEST_CLASSES))
        types = types.filter(is_test)
    if not len(types):
        return {}
    rows = np.unique(types.column("concept").to_numpy())
    sources = terminology.concept_sources.take(pa.array(rows)).to_pylist()
    names = terminology.concept_names.take(pa.array(rows)).to_pylist()
    of_row = zip(rows.tolist(), sources, names, strict=True)
    axes = {row: from_name(name) for row, source, name in of_row if source == LOINC}
    for field, (_, relation) in FIELDS.items():
        if relation in terminology.relation_labels:
            triples = np.asarray(terminology.triples)
            triples = triples[triples[:, 1] == terminology.relation_labels.index(relation)]
            for head, _, tail in triples.tolist():
                if head in axes and not getattr(axes[head], field):
                    axes[head] = axes[head]._replace(**{field: terminology.concept_names[tail].as_py()})
    return axes


def _rank(test: str | None, order: str | None) -> int | None:
    numbers = [int(rank) if rank and rank.isdecimal() else 0 for rank in (test, order)]
    return numbers[0] or (MAX_RANK + numbers[1] if numbers[1] else None)


def is_there(concepts: pa.Table) -> bool:
    """Tell whether the concepts of an index have the columns."""
    return all(name in concepts.column_names for name in (*Axes._fields, "test_rank"))
