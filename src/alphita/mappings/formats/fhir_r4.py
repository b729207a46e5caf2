"""FHIR ConceptMap R4. Specification: http://hl7.org/fhir/R4/conceptmap.html
Version 4.0.1. The document is the same in R4B (4.3.0).

NIL is a target of equivalence `unmatched` without a code; its comment names the nearest concept. `narrower` and
`inexact` must have a comment (invariant cmd-1): where the reviewer gave none, one is written that says what the code
says. A mapping whose relation is not known is `relatedto`. Rejections have no place here and are left out, as are
further candidates and other types of target.
"""

from __future__ import annotations

from typing import Any

from alphita.errors import InputError
from alphita.mappings.formats import _conceptmap, _fields
from alphita.mappings.formats._conceptmap import COMMENTS, INEXACT, NARROWER, Target, text
from alphita.mappings.record import Mapping

DESCRIPTION = "FHIR R4 ConceptMap (JSON)"
SUFFIXES = (".conceptmap.r4.json", ".r4.json")
STREAMS = False
READS = True
PREFIXED = True
IS_MAP = True
HOLDS = _conceptmap.HOLDS
LOSSES = _fields.all_but("mention_code", "relation")

EQUIVALENCES = {"exact": "equivalent", "broad": "wider", "narrow": "narrower", "related": "inexact", None: "relatedto"}
RELATIONS = {code: relation for relation, code in EQUIVALENCES.items()} | {
    "equal": "exact",
    "subsumes": "broad",
    "specializes": "narrow",
}
UNMATCHED = ("unmatched", "disjoint")
NEEDED = {"narrower": NARROWER, "inexact": INEXACT}


class _R4:
    RELATION, RELATIONS = "equivalence", RELATIONS
    FIELDS: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @staticmethod
    def group(source: str, source_version: str, target: str, target_version: str) -> dict[str, Any]:
        facts = {"source": source, "sourceVersion": source_version, "target": target, "targetVersion": target_version}
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def target_system(group: dict[str, Any]) -> str:
        return str(group.get("target") or "")

    @staticmethod
    def target(mapping: Mapping, code: str, word: str = "") -> Target:
        equivalence = word or EQUIVALENCES[mapping.relation]
        comment = text(mapping.comment) or NEEDED.get(equivalence)
        facts = {"code": code, "display": text(mapping.concept_name), "equivalence": equivalence, "comment": comment}
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def nil(mapping: Mapping) -> Target:
        comment = text(_fields.nearest_comment(mapping))
        return {"equivalence": "unmatched"} | ({"comment": comment} if comment else {})

    @staticmethod
    def element(targets: list[Target]) -> dict[str, Any]:
        return {"target": targets}

    @staticmethod
    def facts(target: Target) -> dict[str, Any] | None:
        equivalence, comment = target.get("equivalence"), target.get("comment")
        if equivalence in UNMATCHED:
            return None
        if equivalence not in RELATIONS:
            allowed = sorted([*RELATIONS, *UNMATCHED])
            raise InputError(f"must be one of {allowed}", field="equivalence", value=equivalence)
        return {
            "relation": RELATIONS[equivalence],
            "concept_name": target.get("display"),
            "comment": None if comment in COMMENTS else comment,
        }


_DOCUMENT = _conceptmap.Document(_R4())
begin, encode, finish = _DOCUMENT.begin, _DOCUMENT.encode, _DOCUMENT.finish
validate, losses, read, said = _DOCUMENT.validate, _DOCUMENT.losses, _DOCUMENT.read, _DOCUMENT.said
split_complete = _fields.split_complete
