"""FHIR ConceptMap R4. Specification: http://hl7.org/fhir/R4/conceptmap.html
Version 4.0.1. The document is the same in R4B (4.3.0).

NIL is a target of equivalence `unmatched` without a code. `narrower` and `inexact` must have a comment (invariant
cmd-1): where the reviewer gave none, one is written that says what the code says. A mapping whose relation is not known
is `relatedto`. Rejections have no place here and are left out, as are further candidates and other types of target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, Problem, _conceptmap
from alphita.mappings.formats._conceptmap import COMMENTS, INEXACT, NARROWER, Target, text
from alphita.mappings.record import Mapping

DESCRIPTION = "FHIR R4 ConceptMap (JSON)"
SUFFIXES = (".conceptmap.r4.json", ".r4.json")
STREAMS = False
LOSSES = (
    "mention", "frequency", "rank", "concept_name", "matched_term", "similarity", "confidence", "decision", "method",
    "routes", "scope", "language", "source", "code", "homonyms", "expansion", "contradictions",
    "retired_concept", "explanation", "status", "mapping_type", "reviewer", "reviewed_at", "comment",
)  # fmt: skip

EQUIVALENCES = {"exact": "equivalent", "broad": "wider", "narrow": "narrower", "related": "inexact", None: "relatedto"}
RELATIONS = {code: relation for relation, code in EQUIVALENCES.items()} | {
    "equal": "exact", "subsumes": "broad", "specializes": "narrow",
}  # fmt: skip
UNMATCHED = ("unmatched", "disjoint")
NEEDED = {"narrower": NARROWER, "inexact": INEXACT}


def begin(header: Header) -> bytes:
    """Return nothing: the document is made at the end.

    Raises:
        UsageError: no url, or codes of a vocabulary that has no URI.
    """
    _conceptmap.check(header)
    return b""


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the mappings as JSON Lines."""
    return _conceptmap.encode(_RELEASE, header, mappings)


def finish(header: Header, part: Path, out: Path) -> None:
    """Write the document aside, rename it, and remove the part."""
    _conceptmap.finish(_RELEASE, header, part, out)


def unfit(header: Header, mapping: Mapping) -> Problem | None:
    """Return why a mapping cannot be written, or None."""
    return _conceptmap.unfit(mapping)


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what the document does not hold."""
    return _conceptmap.losses(_RELEASE, header, mappings)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a document; what has no meaning is set aside."""
    return _conceptmap.read(_RELEASE, path, header, rejects)


class _R4:
    FIELDS: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @staticmethod
    def group(source: str, source_version: str, target: str, target_version: str) -> dict[str, Any]:
        facts = {"source": source, "sourceVersion": source_version, "target": target, "targetVersion": target_version}
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def target_system(group: dict[str, Any]) -> str:
        return str(group.get("target") or "")

    @staticmethod
    def target(mapping: Mapping, code: str) -> Target:
        equivalence = EQUIVALENCES[mapping.relation]
        comment = text(mapping.comment) or NEEDED.get(equivalence)
        facts = {"code": code, "display": text(mapping.concept_name), "equivalence": equivalence, "comment": comment}
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def element(targets: list[Target]) -> dict[str, Any]:
        return {"target": targets or [{"equivalence": "unmatched"}]}

    @staticmethod
    def facts(target: Target) -> dict[str, Any] | None:
        equivalence, comment = target.get("equivalence"), target.get("comment")
        if equivalence in UNMATCHED:
            return None
        if equivalence not in RELATIONS:
            allowed = sorted([*RELATIONS, *UNMATCHED])
            raise InputError(f"must be one of {allowed}", field="equivalence", value=equivalence)
        return {
            "relation": RELATIONS[equivalence], "concept_name": target.get("display"),
            "comment": None if comment in COMMENTS else comment,
        }  # fmt: skip


_RELEASE = _R4()
