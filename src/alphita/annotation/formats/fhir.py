"""A FHIR R4 bundle: an Observation for each phenotype (HPO), a Condition for each other concept. Specification:
http://hl7.org/fhir/R4/bundle.html (type `collection`)

A Condition that is negated is `refuted`, a possible one `provisional`; an Observation has the value true or false, and
one that is only possible is left out, as are mentions of the family and hypothetical ones. All are counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from alphita.annotation.formats import Finding, Header, array, findings_of, system_of
from alphita.annotation.spans import Annotated

DESCRIPTION = "FHIR R4 bundle of Conditions and Observations"
SUFFIXES = (".fhir.json", ".bundle.json")
FOLDER = False
CLINICAL = "http://terminology.hl7.org/CodeSystem/condition-clinical"
VERIFICATION = "http://terminology.hl7.org/CodeSystem/condition-ver-status"


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield one JSON document."""
    start = f'{{"resourceType": "Bundle", "type": "collection", "timestamp": "{header.date}T00:00:00Z", "entry": ['
    yield from array(start, _entries(header, documents), "]}")


def _entries(header: Header, documents: Iterator[Annotated]) -> Iterator[dict[str, Any]]:
    for document in documents:
        patient = f"urn:uuid:{_uuid('patient', document.document.id)}"
        resource: dict[str, Any] = {"resourceType": "Patient"}
        if document.document.id.strip():
            resource["identifier"] = [{"value": document.document.id}]
        yield {"fullUrl": patient, "resource": resource}
        for finding in findings_of(header, document, possible=True):
            is_phenotype = finding.annotations[0].concept_id.startswith("HP:")
            if is_phenotype and finding.is_possible:
                header.lose("possible mentions", len(finding.annotations))
                continue
            made = _observation(finding) if is_phenotype else _condition(finding)
            concept = finding.annotations[0].concept_id
            made |= {"subject": {"reference": patient}, "note": [{"text": _note(finding)}]}
            yield {"fullUrl": f"urn:uuid:{_uuid(document.document.id, concept)}", "resource": made}


def _observation(finding: Finding) -> dict[str, Any]:
    made = {"resourceType": "Observation", "status": "preliminary", "code": _code(finding)}
    return made | {"valueBoolean": not finding.is_negated}


def _condition(finding: Finding) -> dict[str, Any]:
    status = "refuted" if finding.is_negated else "provisional" if finding.is_possible else "unconfirmed"
    condition = {
        "resourceType": "Condition",
        "verificationStatus": {"coding": [{"system": VERIFICATION, "code": status}]},
        "code": _code(finding),
    }
    if not finding.is_negated:
        code = "inactive" if finding.is_historical else "active"
        condition["clinicalStatus"] = {"coding": [{"system": CLINICAL, "code": code}]}
    return condition


def _code(finding: Finding) -> dict[str, Any]:
    first = finding.annotations[0]
    system, code = system_of(first.concept_id)
    return {"coding": [{"system": system, "code": code, "display": first.concept_name}], "text": first.mention}


def _note(finding: Finding) -> str:
    return "; ".join(f"{one.mention!r}, characters {one.start} to {one.end}" for one in finding.annotations)


def _uuid(*parts: str) -> str:
    """Return a UUID (of version 8) that is the same for the same parts, so that the same text gives the same bytes."""
    found = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{found[:8]}-{found[8:12]}-8{found[13:16]}-9{found[17:20]}-{found[20:32]}"
