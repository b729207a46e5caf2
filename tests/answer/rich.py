"""A made-up terminology with what the small one lacks: graph, types, definitions, languages, sources, a retired one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.doubles import SmallTerminology

# concept, string, scope, language, source, code
ROWS = [
    ("AX:1", "Ache", "exact", "en", "AX", "1"),
    ("AX:1", "Soreness", "related", "en", "MSH", "D900"),
    ("AX:2", "Ache of the head", "exact", "en", "AX", "2"),
    ("AX:2", "Headache", "exact", "en", "MSH", "D901"),
    ("AX:2", "Head pain", "exact", "en", "MSH", "D902"),
    ("AX:2", "Kopfschmerz", "exact", "de-AT", "AX", "2"),
    ("AX:3", "Ache of the left side of the head", "exact", "en", "AX", "3"),
    ("AX:4", "Fever", "exact", "en", "AX", "4"),
    ("AX:4", "Raised temperature", "broad", "en", "AX", "4"),
    ("AX:5", "Ague", "exact", "en", "AX", "5"),
    ("AX:6", "Poisoning", "exact", "en", "AX", "6"),
    ("AX:6", "Gift", "exact", "de", "AX", "6"),
    ("BX:1", "Gift", "exact", "en", "BX", "b1"),
    ("BX:1", "Present", "exact", "en", "BX", "b1"),
    ("BX:2", "Dulorin", "exact", "en", "BX", "b2"),
    ("BX:3", "Dulorin 50 mg tablet", "exact", "en", "BX", "b3"),
]
PARENTS = [("AX:2", "AX:1"), ("AX:3", "AX:2"), ("BX:3", "BX:2")]
TYPES = {
    "AX:1": "Finding",
    "AX:2": "Finding",
    "AX:3": "Finding",
    "AX:4": "Sign",
    "AX:6": "Event",
    "BX:1": "Object",
    "BX:2": "Drug",
    "BX:3": "Drug",
}
DEFINITIONS = {"AX:2": "An ache that is felt in the head. " * 10, "AX:4": "A body that is too warm."}
STANDARD = {"BX:1": "C", "BX:2": "S", "BX:3": "S"}


class RichTerminology(SmallTerminology):
    """`ROWS` and what belongs to them; AX:5 is retired and replaced by AX:4; the concepts of BX are OMOP's."""

    def __init__(self, rows=ROWS) -> None:
        ids = list(dict.fromkeys(row[0] for row in rows))
        rows = sorted(rows, key=lambda row: ids.index(row[0]))
        super().__init__([row[:3] for row in rows], retired=["AX:5"])
        self._row = {one: row for row, one in enumerate(self.concept_ids.to_pylist())}
        for name, place in (("language", 3), ("source", 4), ("code", 5)):
            column = pa.array([row[place] for row in rows]).dictionary_encode()
            self.terms = self.terms.set_column(self.terms.column_names.index(name), name, column)
        self.concept_sources = pa.array([one.partition(":")[0] for one in self._row]).dictionary_encode()
        self.parent_relations = [0]
        self.triples = np.array([(self._row[child], 0, self._row[parent]) for child, parent in PARENTS], np.int32)

    def side_table(self, name: str) -> pa.Table:
        tables = {
            "definitions": (("concept", "text"), DEFINITIONS.items()),
            "semantic_types": (
                ("concept", "semantic_type", "code"),
                [(one, kind, "domain_id" if one in STANDARD else None) for one, kind in TYPES.items()],
            ),
            "replacements": (("concept", "predicate", "object"), [("AX:5", "replaced_by", "AX:4")]),
            "aliases": (("concept", "alias"), [(one, f"OMOP:{place}") for place, one in enumerate(STANDARD)]),
            "properties": (
                ("concept", "name", "value"),
                [(one, "standard_concept", value) for one, value in STANDARD.items()],
            ),
        }
        if name not in tables:
            return pa.table({})
        names, rows = tables[name]
        columns = list(zip(*((self._row[one], *rest) for one, *rest in rows), strict=True))
        return pa.table(dict(zip(names, map(list, columns), strict=True)))
