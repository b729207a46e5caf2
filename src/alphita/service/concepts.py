"""One concept, as the service shows it: from the terminology where it is at hand, else from the index."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from alphita.errors import InputError
from alphita.index.store import Index
from alphita.terminology import prefixes
from alphita.terminology.store import Terminology


class Named(BaseModel):
    """A concept by its id and name."""

    id: str = Field(description="CURIE", examples=["HP:0012638"])
    name: str = Field(examples=["Abnormal nervous system physiology"])


class Synonym(BaseModel):
    """A term of a concept."""

    string: str = Field(examples=["Epileptic seizure"])
    language: str | None = Field(examples=["en"])
    scope: str | None = Field(description="exact, broad, narrow or related", examples=["exact"])


class Concept(BaseModel):
    """A concept."""

    id: str = Field(description="CURIE", examples=["HP:0001250"])
    name: str = Field(description="the preferred term", examples=["Seizure"])
    definition: str | None
    synonyms: list[Synonym] = Field(description="all terms, the preferred one first")
    parents: list[Named]
    types: list[str] = Field(description="semantic types")
    retired: bool = Field(description="no longer to be used")
    replaced_by: list[str] = Field(description="what to use instead of it, if it is retired")


def find(identifier: str, index: Index, terminology: Terminology | None) -> Concept | None:
    """Return the concept that an id or alias names, or None."""
    if terminology is not None:
        try:
            row = terminology.resolve(identifier)
        except InputError:
            return None
        return _of_terminology(row, terminology)
    row = int(index.concept_rows([identifier])[0])
    return None if row < 0 else _of_index(prefixes.normalize(identifier), row, index)


def _of_terminology(row: int, terminology: Terminology) -> Concept:
    found = terminology.concept(row)
    parents = [Named(id=parent, name=_name(parent, terminology)) for parent in found.parents]
    return Concept(
        id=found.id,
        name=found.name,
        definition=found.definitions[0].text if found.definitions else None,
        synonyms=[Synonym(string=term.string, language=term.language, scope=term.scope) for term in found.terms],
        parents=parents,
        types=found.semantic_types,
        retired=found.retired,
        replaced_by=found.replaced_by,
    )


def _name(identifier: str, terminology: Terminology) -> str:
    return str(terminology.concept_names[terminology.resolve(identifier)].as_py())


def _of_index(asked: str, row: int, index: Index) -> Concept:
    segment = index.segment
    concept = index.concept(row)
    terms = segment.terms.take(np.flatnonzero((segment.term_concept == row) & ~segment.borrowed))
    former = terms.column("retired_concept") if "retired_concept" in terms.column_names else None
    retired = asked != concept.id and former is not None and bool(pc.any(pc.equal(former, asked)).as_py())
    if former is not None:
        terms = terms.filter(pc.equal(former, asked) if retired else pc.is_null(former))
    order = sorted(terms.to_pylist(), key=lambda term: (not term.get("preferred"), term["string"]))
    synonyms = [Synonym(string=one["string"], language=one.get("language"), scope=one.get("scope")) for one in order]
    if retired:
        return Concept(
            id=asked,
            name=synonyms[0].string,
            definition=None,
            synonyms=synonyms,
            parents=[],
            types=[],
            retired=True,
            replaced_by=[concept.id],
        )
    parents = [index.concept(parent) for parent in segment.parents_of(row).tolist()]
    return Concept(
        id=concept.id,
        name=concept.name,
        definition=concept.definition,
        synonyms=synonyms,
        parents=[Named(id=parent.id, name=parent.name) for parent in parents],
        types=list(concept.semantic_types),
        retired=False,
        replaced_by=[],
    )
