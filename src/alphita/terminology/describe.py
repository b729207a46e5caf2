"""What is in a terminology, counted: for people, and as report.json."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

NONE = "(none)"
MOST = 15


@dataclass(frozen=True)
class Description:
    """Counts over one terminology: of live concepts and their terms, but for totals and cross-references.

    `concepts_by_terms` counts concepts by their distinct exact strings ("1", "2", ..., "5+"); `homonyms` are cleaned
    strings that name several concepts (any scope), and those that are exact in all; `examples` name the most concepts.
    """

    path: str
    content_hash: str
    sources: list[dict[str, Any]]
    totals: dict[str, int]
    terms_by_language: dict[str, int]
    terms_by_kind: dict[str, int]
    concepts_by_source: dict[str, int]
    concepts_by_semantic_type: dict[str, int]
    relations: dict[str, int]
    xrefs_by_prefix: dict[str, int]
    concepts_by_terms: dict[str, int]
    homonyms: dict[str, int]
    examples: list[dict[str, Any]]
    left_out: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def describe(terminology: Terminology) -> Description:
    """Count what is in a terminology."""
    live = ~np.asarray(terminology.retired)
    live_terms = live[terminology.term_concept]
    defined = terminology.side_table("definitions").column("concept").to_numpy()
    totals = {
        "concepts": terminology.n_concepts,
        "live concepts": int(live.sum()),
        "retired concepts": int((~live).sum()),
        "terms": terminology.n_terms,
        "terms of live concepts": int(live_terms.sum()),
        "distinct cleaned strings": terminology.n_keys,
        "relations": terminology.n_relations,
        "definitions of live concepts": int(live[defined].sum()),
        **{name: len(terminology.side_table(name)) for name in ("xrefs", "aliases", "replacements", "properties")},
    }
    terms = terminology.terms.filter(pa.array(live_terms))
    homonyms, examples = _homonyms(terminology, live)
    sizes = np.diff(terminology.training_terms()[1])[live]
    uses = np.bincount(terminology.triples[:, 1], minlength=len(terminology.relation_labels))
    objects = terminology.side_table("xrefs").column("object").to_pylist()
    by_size = Counter(np.minimum(sizes, 5).tolist())
    return Description(
        path=str(terminology.path),
        content_hash=terminology.content_hash,
        sources=list(terminology.manifest.get("sources", [])),
        totals=totals,
        terms_by_language=_counts(terms.column("language")),
        terms_by_kind=_kinds(terms),
        concepts_by_source=_counts(terminology.concept_sources.filter(pa.array(live))),
        concepts_by_semantic_type=_semantic_types(terminology, live),
        relations=_ordered(Counter(dict(zip(terminology.relation_labels, uses.tolist(), strict=True)))),
        xrefs_by_prefix=_ordered(Counter(str(curie).partition(":")[0] for curie in objects)),
        concepts_by_terms={f"{n}+" if n == 5 else str(n): by_size[n] for n in sorted(by_size)},
        homonyms=homonyms,
        examples=examples,
        left_out=dict(terminology.manifest.get("dropped", {})),
    )


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _counts(column: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    counts = Counter({row["values"] or NONE: row["counts"] for row in pc.value_counts(column).to_pylist()})
    return _ordered(counts)


def _kinds(terms: pa.Table) -> dict[str, int]:
    keys = ["preferred", "scope", "type", "status"]
    plain = pa.table({name: terms.column(name).cast(pa.string()) for name in keys})
    grouped = plain.group_by(keys).aggregate([([], "count_all")]).to_pylist()
    by_kind: Counter[str] = Counter()
    for row in grouped:
        kind = "preferred name" if row["preferred"] == "true" else f"{row['scope']} synonym"
        extra = [row["type"]] if row["type"] else []
        extra += [row["status"]] if row["status"] != "official" else []
        by_kind[", ".join([kind, *extra])] += row["count_all"]
    return _ordered(by_kind)


def _semantic_types(terminology: Terminology, live: np.ndarray) -> dict[str, int]:
    table = terminology.side_table("semantic_types")
    concepts = table.column("concept").to_numpy()
    by_type = _counts(table.column("semantic_type").filter(pa.array(live[concepts]))) if len(table) else {}
    without = int(live.sum() - live[np.unique(concepts)].sum())
    return by_type | ({NONE: without} if without else {})


def _homonyms(terminology: Terminology, live: np.ndarray) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Count the cleaned strings of several live concepts, and show those of most."""
    rows = np.flatnonzero(live[terminology.term_concept])
    keys = _keys_of_several(terminology, rows)
    scopes = terminology.terms.column("scope").take(rows).cast(pa.string())
    exact = rows[pc.equal(scopes, "exact").to_numpy()]
    counts = {"all scopes": len(keys[0]), "exact in several concepts": len(_keys_of_several(terminology, exact)[0])}
    strings = terminology.terms.column("string")
    most = np.lexsort((keys[0], -keys[1]))[:MOST]
    examples = []
    for key in keys[0][most].tolist():
        terms = terminology.terms_of_key(key)
        concepts = [row for row in np.unique(terminology.term_concept[terms]).tolist() if live[row]]
        ids = [f"{terminology.concept_id(row)} {terminology.concept_names[row].as_py()}" for row in concepts]
        examples.append({"string": clean(strings[int(terms[0])].as_py()), "concepts": ids})
    return counts, examples


def _keys_of_several(terminology: Terminology, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys that terms `rows` of several concepts share, and of how many."""
    named = terminology.term_key[rows].astype(np.int64) * terminology.n_concepts + terminology.term_concept[rows]
    pairs = np.unique(named)
    keys, counts = np.unique(pairs // terminology.n_concepts, return_counts=True)
    return keys[counts > 1], counts[counts > 1]
