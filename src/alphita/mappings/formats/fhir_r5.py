"""FHIR ConceptMap R5. Specification: http://hl7.org/fhir/R5/conceptmap.html
Version 5.0.0.

NIL is `noMap`, beside which there is no target (invariant cmd-4), nor a place for the nearest concept. Every narrower
target has a comment (cmd-1 asks for one): where the reviewer gave none, one is written that says what the code says.
Similarity, confidence and status are properties of the target. A mapping whose relation is not known is `related-to`,
and counted. Rejections have no place here and are left out, as are further candidates and other types of target.
"""

from __future__ import annotations

from typing import Any

from alphita.errors import InputError
from alphita.mappings.formats import _conceptmap, _fields
from alphita.mappings.formats._conceptmap import COMMENTS, NARROWER, Target, text
from alphita.mappings.record import Mapping

DESCRIPTION = "FHIR R5 ConceptMap (JSON)"
SUFFIXES = (".conceptmap.json", ".conceptmap.r5.json", ".r5.json")
STREAMS = False
READS = True
PREFIXED = True
IS_MAP = True
HOLDS = _conceptmap.HOLDS
LOSSES = _fields.all_but("mention_code")

RELATIONSHIPS = {
    "exact": "equivalent",
    "broad": "source-is-narrower-than-target",
    "narrow": "source-is-broader-than-target",
    "related": "related-to",
    None: "related-to",
}
RELATIONS = {
    "equivalent": "exact",
    "source-is-narrower-than-target": "broad",
    "source-is-broader-than-target": "narrow",
    "related-to": "related",
}
UNRELATED = "not-related-to"


class _R5:
    RELATION, RELATIONS = "relationship", RELATIONS
    FIELDS: dict[str, Any] = {  # noqa: RUF012 - never changed
        "property": [
            {"code": "confidence", "description": "calibrated probability that the target is right", "type": "decimal"},
            {"code": "similarity", "description": "cosine between source and target term", "type": "decimal"},
            {"code": "status", "description": "what a person decided", "type": "string"},
        ]
    }

    @staticmethod
    def group(source: str, source_version: str, target: str, target_version: str) -> dict[str, Any]:
        facts = {"source": _canonical(source, source_version), "target": _canonical(target, target_version)}
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def target_system(group: dict[str, Any]) -> str:
        return str(group.get("target") or "").partition("|")[0]

    @staticmethod
    def target(mapping: Mapping, code: str, word: str = "") -> Target:
        comment = text(mapping.comment) or (NARROWER if mapping.relation == "narrow" else None)
        facts = {
            "code": code,
            "display": text(mapping.concept_name),
            "relationship": word or RELATIONSHIPS[mapping.relation],
            "comment": comment,
            "property": [
                *(
                    {"code": name, "valueDecimal": number}
                    for name in ("confidence", "similarity")
                    if (number := getattr(mapping, name)) is not None
                ),
                *([{"code": "status", "valueString": mapping.status}] if mapping.status != "unreviewed" else []),
            ],
        }
        return {name: value for name, value in facts.items() if value}

    @staticmethod
    def nil(mapping: Mapping) -> None:
        return None

    @staticmethod
    def element(targets: list[Target]) -> dict[str, Any]:
        return {"target": targets} if targets else {"noMap": True}

    @staticmethod
    def facts(target: Target) -> dict[str, Any] | None:
        relationship, comment = target.get("relationship"), target.get("comment")
        if relationship == UNRELATED:
            return None
        if relationship not in RELATIONS:
            allowed = sorted([*RELATIONS, UNRELATED])
            raise InputError(f"must be one of {allowed}", field="relationship", value=relationship)
        fields: dict[str, Any] = {
            "relation": RELATIONS[relationship],
            "concept_name": target.get("display"),
            "comment": None if comment in COMMENTS else comment,
        }
        for at, property_ in enumerate(target.get("property") or []):
            name, number = property_.get("code"), property_.get("valueDecimal")
            if name in ("confidence", "similarity") and isinstance(number, int | float):
                try:
                    fields[name] = _fields.value(name, number)
                except ValueError as error:
                    raise InputError(str(error), field=f"property[{at}].valueDecimal", value=number) from None
            if property_.get("code") == "status" and property_.get("valueString") == "approved":
                fields["status"] = "approved"
        return fields


def _canonical(system: str, version: str) -> str:
    return f"{system}|{version}" if system and version else system


_DOCUMENT = _conceptmap.Document(_R5())
begin, encode, finish = _DOCUMENT.begin, _DOCUMENT.encode, _DOCUMENT.finish
validate, losses, read, said = _DOCUMENT.validate, _DOCUMENT.losses, _DOCUMENT.read, _DOCUMENT.said
split_complete = _fields.split_complete
