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

from alphita.terminology.laboratory import Axes, code_of, from_name

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


def columns(
    terminology: Terminology, used: NDArray[np.int64], properties: pa.Table, types: pa.Table
) -> dict[str, pa.Array]:
    """Return the columns of some concepts, (n,) their rows in the terminology; none if none is a test."""
    stated = {name: _values(properties, name) for name in (*(name for name, _ in FIELDS.values()), *RANKS)}
    of_fields = {field: stated[name] for field, (name, _) in FIELDS.items()}
    axes = {
        row: Axes(**{field: values.get(row, "") for field, values in of_fields.items()})
        for row in of_fields["component"]
    }
    if not axes and len(types):
        axes = _of_omop(terminology, types)
    rows = used.tolist()
    every = [axes.get(row) for row in rows]
    if not any(every):
        return {}
    found: dict[str, pa.Array] = {}
    for field in Axes._fields:
        values = [None if one is None else code_of(field, getattr(one, field)) for one in every]
        found[field] = pa.array(values, pa.string()).dictionary_encode()
    ranks = [_rank(*(stated[name].get(row) for name in RANKS)) for row in rows]
    return found | {"test_rank": pa.array(ranks, pa.int32())}


def _values(properties: pa.Table, name: str) -> dict[int, str]:
    """Return the values of a property by concept."""
    if not len(properties):
        return {}
    some = properties.filter(pc.equal(properties.column("name").cast(pa.string()), name))
    return dict(zip(some.column("concept").to_pylist(), some.column("value").to_pylist(), strict=True))


def _of_omop(terminology: Terminology, types: pa.Table) -> dict[int, Axes]:
    """Return the axes of LOINC's tests in OMOP vocabularies: by name, or by relation where the name does not tell."""
    is_test = pc.is_in(types.column("semantic_type").cast(pa.string()), value_set=pa.array(TEST_CLASSES))
    if not len(rows := np.unique(types.filter(is_test).column("concept").to_numpy())):
        return {}
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
    return {*Axes._fields, "test_rank"} <= {*concepts.column_names}
