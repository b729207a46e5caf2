"""ConceptMap/$translate, R4 and R5: by fhir.resources, and by the codes and invariants that it does not check."""

from __future__ import annotations

import pytest
from fhir.resources.operationoutcome import OperationOutcome as R5Outcome
from fhir.resources.parameters import Parameters as R5
from fhir.resources.R4B.operationoutcome import OperationOutcome as R4Outcome
from fhir.resources.R4B.parameters import Parameters as R4
from starlette.testclient import TestClient

from alphita.review.files import coding_of, curie_of, source_system
from alphita.review.records import Decision
from tests.mappings.test_fhir import EQUIVALENCES, RELATIONSHIPS
from tests.service.review_service import service

BOTH = ["r4", "r5"]
SYSTEM, AX = "urn:alphita:source:LAB", "urn:alphita:terminology:AX"
URL = "urn:alphita:review:lab"
SAID = "https://github.com/alphita/alphita/StructureDefinition/normalizer-"
# http://hl7.org/fhir/issue-type
_ISSUE_TYPES = (
    "invalid structure required value invariant security login unknown expired forbidden suppressed processing "
    "not-supported duplicate multiple-matches not-found deleted too-long code-invalid extension too-costly "
    "business-rule conflict transient lock-error no-store exception timeout incomplete throttled informational"
)
ISSUE_TYPES = frozenset(_ISSUE_TYPES.split())


@pytest.fixture
def lab(tmp_path, index):
    """L1 is reviewed as broad, L2 as narrow, L3 as NIL; the row without a code is open."""
    made = service(tmp_path, index)
    rows = made.ids()
    for place, kind, concept, relation in (
        (0, "accept", "AX:2", "broad"),
        (1, "accept", "AX:4", "narrow"),
        (2, "nil", None, None),
    ):
        made.store.decide(Decision(f"d{place}", "lab", rows[place], "ann", kind, concept, relation))
    yield made
    made.store.close()


def faults(document: dict, release: str) -> list[str]:
    """Return what breaks a required binding, the operation's definition or an invariant."""
    if document["resourceType"] == "OperationOutcome":
        issues = document["issue"]
        found = [] if issues else ["no issue"]
        found += [f"issue {issue['code']}" for issue in issues if issue["code"] not in ISSUE_TYPES]
        return found + [issue["severity"] for issue in issues if issue["severity"] not in ("fatal", "error", "warning")]
    # inv-1: one of value, resource and part, and only one.
    entries = document["parameter"]
    for parent in entries:
        entries = [*entries, *parent.get("part", [])]
        entries += [part for child in parent.get("part", []) for part in child.get("part", [])]
    found = [
        "inv-1"
        for entry in entries
        if sum(key.startswith("value") or key in ("part", "resource") for key in entry) != 1
    ]
    names = [one["name"] for one in document["parameter"]]
    if "result" not in names:
        allowed = {"name", "version", "display", "designation", "property"}
        allowed |= {"definition"} if release == "r5" else set()
        return [*found, *({"name", "display"} - set(names)), *(set(names) - allowed)]
    if names.count("result") != 1 or names.count("message") > 1 or set(names) - {"result", "message", "match"}:
        found.append(f"names {names}")
    matched = False
    for one in document["parameter"]:
        if one["name"] == "match":
            parts = {part["name"]: part for part in one["part"] if part["name"] != "property"}
            properties = [part["part"] for part in one["part"] if part["name"] == "property"]
            if properties and release == "r4":
                found.append("R4 has no properties")
            if any([part["name"] for part in parts] != ["uri", "value"] for parts in properties):
                found.append(f"properties {properties}")
            key, codes = ("equivalence", EQUIVALENCES) if release == "r4" else ("relationship", RELATIONSHIPS)
            code = parts[key]["valueCode"]
            if code not in codes:
                found.append(f"code {code}")
            if set(parts) - {key, "concept", "source" if release == "r4" else "originMap"}:
                found.append(f"parts {sorted(parts)}")
            matched |= code not in ("unmatched", "disjoint", "not-related-to")
    result = next(one["valueBoolean"] for one in document["parameter"] if one["name"] == "result")
    return found if result == matched else [*found, "result"]


def checked(answer, release, status=200):
    """Return a resource, which is right by fhir.resources and by `faults`."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/fhir+json"
    document = answer.json()
    if document["resourceType"] == "OperationOutcome":
        (R4Outcome if release == "r4" else R5Outcome).model_validate(document)
    else:
        (R4 if release == "r4" else R5).model_validate(document)
    assert faults(document, release) == []
    return document


def get(lab, release, status=200, **query):
    return checked(lab.as_().get(f"/fhir/{release}/ConceptMap/$translate", params=query), release, status)


def result(document):
    """Return the result, and of each match its code and its concept."""
    matches = [{part["name"]: part for part in one["part"]} for one in document["parameter"] if one["name"] == "match"]
    said = [
        ((one.get("equivalence") or one["relationship"])["valueCode"], one.get("concept", {}).get("valueCoding"))
        for one in matches
    ]
    return document["parameter"][0]["valueBoolean"], said


@pytest.mark.parametrize("release", BOTH)
def test_only_what_is_settled_is_served_and_at_once(lab, release):
    # Without a code of its own, the string is the code.
    assert result(get(lab, release, code="dulorin", system=SYSTEM)) == (False, [])
    row = lab.ids()[3]
    lab.store.decide(Decision("x", "lab", row, "ann", "reject"))
    assert result(get(lab, release, code="dulorin", system=SYSTEM)) == (False, [])
    lab.store.decide(Decision("y", "lab", row, "ann", "accept", "BX:2"))
    found = result(get(lab, release, code="dulorin", system=SYSTEM))
    concept = {"system": "urn:alphita:terminology:BX", "code": "2", "display": "Dulorin"}
    assert found == (True, [("equivalent", concept)])
    # Two who disagree have settled nothing.
    lab.store.decide(Decision("z", "lab", row, "bob", "nil"))
    assert result(get(lab, release, code="dulorin", system=SYSTEM)) == (False, [])


def test_who_is_not_let_in(lab):
    client = TestClient(lab.app, client=("127.0.0.1", 1))
    checked(client.get("/fhir/r4/ConceptMap/$translate", params={"code": "L1", "system": SYSTEM}), "r4", 401)


def test_codings():
    assert coding_of("HP:0001250") == ("http://human-phenotype-ontology.org", "HP:0001250")
    assert coding_of("SNOMEDCT:5") == ("http://snomed.info/sct", "5")
    assert coding_of("NCIT:C3262") == ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl", "C3262")
    assert curie_of("http://purl.obolibrary.org/obo/NCIT_", "C3262") == "NCIT:C3262"
    for curie in ("HP:0001250", "SNOMEDCT:5", "NCIT:C3262", "MONDO:0005148", "MINE:a b/c"):
        assert curie_of(*coding_of(curie)) == curie
    assert curie_of("http://nowhere.example.org", "1") is None
    assert source_system("https://example.org/codes") == "https://example.org/codes"
    assert source_system("Lab of A/B") == "urn:alphita:source:Lab%20of%20A%2FB"
    assert source_system("ICD10CM") == "http://hl7.org/fhir/sid/icd-10-cm"
