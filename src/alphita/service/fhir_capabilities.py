"""What the FHIR part of the service says that it can: CapabilityStatement and TerminologyCapabilities, R4 and R5.

Specification: http://hl7.org/fhir/R4/terminology-service.html and http://hl7.org/fhir/R5/terminology-service.html.
"""

from __future__ import annotations

from typing import Any

from alphita import __version__
from alphita.index.store import Index
from alphita.review import codings
from alphita.service import fhir_expand, fhir_lookup
from alphita.service.fhir_parameters import MEDIA_TYPE, Release

VERSIONS: dict[Release, str] = {"r4": "4.0.1", "r5": "5.0.0"}
DEFINITIONS = "http://hl7.org/fhir/OperationDefinition"
CONCEPT_MAP, CODE_SYSTEM, VALUE_SET = "ConceptMap", "CodeSystem", "ValueSet"
# By resource: the operations, in the order of the alphabet.
OPERATIONS = {
    CODE_SYSTEM: ("lookup", "validate-code"),
    CONCEPT_MAP: ("translate",),
    VALUE_SET: ("expand", "validate-code"),
}
DESCRIPTION = "Alphita: reviewed mappings ($translate), and the concepts of an index"


def statement(release: Release, date: str) -> dict[str, Any]:
    """Return the CapabilityStatement; date: since when it holds, as FHIR writes it."""
    operations = {
        kind: [{"name": name, "definition": f"{DEFINITIONS}/{kind}-{name}"} for name in names]
        for kind, names in OPERATIONS.items()
    }
    return {
        "resourceType": "CapabilityStatement",
        **_common(date),
        "fhirVersion": VERSIONS[release],
        "format": ["json", MEDIA_TYPE],
        "rest": [
            {"mode": "server", "resource": [{"type": kind, "operation": listed} for kind, listed in operations.items()]}
        ],
    }


def terminology(index: Index, release: Release, date: str) -> dict[str, Any]:
    """Return the TerminologyCapabilities: the code systems that the index has concepts of, and how it answers."""
    systems = []
    for prefix in fhir_expand.prefixes_of(index):
        system: dict[str, Any] = {"uri": codings.coding_of(f"{prefix}:0")[0], "subsumption": False}
        if version := fhir_lookup.version_of(index, prefix):
            system["version"] = [{"code": version, "isDefault": True}]
        # An index may be of a part of a system.
        systems.append(system | ({"content": "fragment"} if release == "r5" else {}))
    return {
        "resourceType": "TerminologyCapabilities",
        **_common(date),
        "codeSystem": sorted(systems, key=lambda system: str(system["uri"])),
        "expansion": {
            "hierarchical": False,
            "paging": True,
            "incomplete": False,
            "parameter": [{"name": name} for name in fhir_expand.HEEDED],
            "textFilter": "the concepts that the text finds as it is typed, the best first",
        },
        "validateCode": {"translations": True},
        "translation": {"needsMap": False},
    }


def _common(date: str) -> dict[str, Any]:
    return {
        "status": "active",
        "date": date,
        "kind": "instance",
        "software": {"name": "Alphita", "version": __version__},
        "implementation": {"description": DESCRIPTION},
    }
