"""Phenopackets 2: a Phenopacket of one text, a Cohort of several. Specification:
https://phenopacket-schema.readthedocs.io/en/2.0.0/ (JSON of protobuf)

Each concept is one phenotypic feature; what is negated is `excluded`. Mentions of the family, hypothetical and possible
ones say nothing sure of the patient: they are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from alphita.annotation.formats import Finding, Header, array, findings_of, text_of_json
from alphita.annotation.spans import Annotated
from alphita.terminology import prefixes

DESCRIPTION = "Phenopackets 2: phenotypic features, with what is excluded"
SUFFIXES = (".phenopacket.json", ".phenopackets.json", ".cohort.json")
FOLDER = False
SCHEMA = "2.0.0"
# HPO's own words for side and severity.
SIDES = {"left": "HP:0012835", "right": "HP:0012834", "bilateral": "HP:0012832", "unilateral": "HP:0012833"}
SEVERITIES = {"mild": "HP:0012825", "moderate": "HP:0012826", "severe": "HP:0012828"}


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield one JSON document."""
    if header.number == 1:
        yield from (text_of_json(packet(header, document), indent=1) + b"\n" for document in documents)
        return
    start = f'{{"id": "alphita", "description": "texts annotated by {header.tool}", "members": ['
    used: dict[str, None] = {}
    yield from array(start, _members(header, documents, used), "],")
    yield b'"metaData": ' + text_of_json(_meta(header, used)) + b"}\n"


def _members(header: Header, documents: Iterable[Annotated], used: dict[str, None]) -> Iterator[dict[str, Any]]:
    for document in documents:
        used |= dict.fromkeys(annotation.concept_id.partition(":")[0] for annotation in document.annotations)
        yield packet(header, document)


def packet(header: Header, document: Annotated) -> dict[str, Any]:
    """Return the Phenopacket of one text."""
    features = [_feature(one) for one in findings_of(header, document, possible=False)]
    terms = [feature["type"] for feature in features]
    terms += chain.from_iterable(feature.get("modifiers", []) for feature in features)
    terms += [feature["severity"] for feature in features if "severity" in feature]
    used = dict.fromkeys(term["id"].partition(":")[0] for term in terms)
    name = document.document.id
    return {"id": name, "subject": {"id": name}, "phenotypicFeatures": features, "metaData": _meta(header, used)}


def _feature(finding: Finding) -> dict[str, Any]:
    first = finding.annotations[0]
    feature: dict[str, Any] = {"type": {"id": first.concept_id, "label": first.concept_name}}
    if finding.is_negated:
        feature["excluded"] = True
    said = {modifier.kind: modifier.value for annotation in finding.annotations for modifier in annotation.modifiers}
    if said.get("severity") in SEVERITIES:
        feature["severity"] = _term(SEVERITIES, said["severity"])
    if said.get("laterality") in SIDES:
        feature["modifiers"] = [_term(SIDES, said["laterality"])]
    places = ", ".join(f"{one.mention!r} at {one.start}-{one.end}" for one in finding.annotations)
    feature["description"] = places + ("; in the past" if finding.is_historical else "")
    return feature


def _term(ids: Mapping[str, str], word: str) -> dict[str, str]:
    return {"id": ids[word], "label": word.capitalize()}


def _meta(header: Header, used: Iterable[str]) -> dict[str, Any]:
    versions = {str(source.get("name", "")).upper(): str(source.get("version", "")) for source in header.sources}
    resources = []
    for prefix in used:
        known = prefixes.table().get(prefix)
        resources.append(
            {
                "id": prefix.lower(),
                "name": known.name if known else prefix,
                "url": known.uri if known else "",
                "version": versions.get(prefix.upper(), ""),
                "namespacePrefix": prefix,
                "iriPrefix": known.uri if known else "",
            }
        )
    return {
        "created": f"{header.date}T00:00:00Z",
        "createdBy": header.tool,
        "resources": resources,
        "phenopacketSchemaVersion": SCHEMA,
    }
