"""ConceptMap/$translate, R4 and R5: by fhir.resources, and by the codes and invariants that it does not check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fhir.resources.operationoutcome import OperationOutcome as R5Outcome
from fhir.resources.parameters import Parameters as R5
from fhir.resources.R4B.operationoutcome import OperationOutcome as R4Outcome
from fhir.resources.R4B.parameters import Parameters as R4
from starlette.testclient import TestClient

from alphita.review.files import coding_of, curie_of, source_system
from alphita.review.records import Decision, Project
from tests.mappings.test_fhir import EQUIVALENCES, RELATIONSHIPS
from tests.service.review_service import rows_of, service

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


def post(lab, release, *parameters, status=200):
    body = {"resourceType": "Parameters", "parameter": list(parameters)}
    headers = {"Content-Type": "application/fhir+json"}
    answer = lab.as_().post(f"/fhir/{release}/ConceptMap/$translate", json=body, headers=headers)
    return checked(answer, release, status)


def result(document):
    """Return the result, and of each match its code and its concept."""
    matches = [{part["name"]: part for part in one["part"]} for one in document["parameter"] if one["name"] == "match"]
    said = [
        ((one.get("equivalence") or one["relationship"])["valueCode"], one.get("concept", {}).get("valueCoding"))
        for one in matches
    ]
    return document["parameter"][0]["valueBoolean"], said


def test_forward(lab):
    concept = {"system": AX, "code": "2", "display": "Ache of the head"}
    assert get(lab, "r4", code="L1", system=SYSTEM) == {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "result", "valueBoolean": True},
            {
                "name": "match",
                "extension": [{"url": f"{SAID}confidence", "valueDecimal": 0.9}],
                "part": [
                    {"name": "equivalence", "valueCode": "wider"},
                    {"name": "concept", "valueCoding": concept},
                    {"name": "source", "valueUri": URL},
                ],
            },
        ],
    }
    assert get(lab, "r5", sourceCode="L1", system=SYSTEM)["parameter"][1]["part"] == [
        {"name": "relationship", "valueCode": "source-is-narrower-than-target"},
        {"name": "concept", "valueCoding": concept},
        {"name": "originMap", "valueUri": URL},
        {
            "name": "property",
            "part": [{"name": "uri", "valueUri": f"{SAID}confidence"}, {"name": "value", "valueDecimal": 0.9}],
        },
    ]


def said(entry):
    """Return what the normaliser had said, by name, of extensions or properties."""
    properties = [part["part"] for part in entry.get("part", ()) if part["name"] == "property"]
    found = [
        (uri["valueUri"], value["value" + kind])
        for uri, value in properties
        for kind in ("Decimal", "Code")
        if "value" + kind in value
    ]
    for one in entry.get("extension", ()):
        found.append((one["url"], one.get("valueDecimal", one.get("valueCode"))))
    return {uri.removeprefix(SAID): value for uri, value in found}


@pytest.mark.parametrize("release", BOTH)
def test_what_the_normaliser_had_said_comes_along(lab, release):
    lab.store.add_project(Project("more", "MORE", "", "", "", "", ""))
    rows = rows_of([("M1", "headach", 1, ["AX:2"], 0.9), ("M2", "fevr", 1, ["AX:4"], 0.6), ("M3", "x", 1, [None], 0.8)])
    lab.store.add_rows(
        "more",
        [
            replace(row, candidates=(replace(row.candidates[0], decision=decision),))
            for row, decision in zip(rows, ("accept", "review", "nil"), strict=True)
        ],
    )
    decided = (("accept", "AX:2"), ("choose", "AX:3"), ("nil", None))
    for row, (kind, concept) in zip(lab.ids("more"), decided, strict=True):
        lab.store.decide(Decision(f"m{row}", "more", row, "ann", kind, concept))
    first, second, nil = (
        get(lab, release, code=code, system="urn:alphita:source:MORE")["parameter"] for code in ("M1", "M2", "M3")
    )
    assert said(first[1]) == {"confidence": 0.9, "decision": "accept"}
    # People chose another concept: of that one nothing was said.
    assert said(second[1]) == {}
    assert said(nil[0 if release == "r5" else 2]) == {"confidence": 0.8, "decision": "nil"}


@pytest.mark.parametrize("release", BOTH)
def test_every_way_to_ask(lab, release):
    expected = result(get(lab, release, code="L1", system=SYSTEM))
    assert expected[0]
    one = {"system": SYSTEM, "code": "L1"}
    other = {"system": "http://nowhere.example.org", "code": "L1"}
    for name in ("code", "sourceCode"):
        assert result(get(lab, release, **{name: "L1"}, system=SYSTEM)) == expected
        asked = [{"name": name, "valueCode": "L1"}, {"name": "system", "valueUri": SYSTEM}]
        assert result(post(lab, release, *asked)) == expected
    for name in ("coding", "sourceCoding"):
        assert result(post(lab, release, {"name": name, "valueCoding": one})) == expected
    for name in ("codeableConcept", "sourceCodeableConcept"):
        asked = {"name": name, "valueCodeableConcept": {"coding": [other, one]}}
        assert result(post(lab, release, asked)) == expected
    for beside in ({"code": "L1"}, {"display": "headach"}, {"system": 5, "code": "L1"}):
        asked = {"name": "codeableConcept", "valueCodeableConcept": {"coding": [beside, one]}}
        assert result(post(lab, release, asked)) == expected
    # The source is known by its name, too.
    assert result(get(lab, release, code="L1", system="LAB")) == expected


@pytest.mark.parametrize("release", BOTH)
def test_in_reverse(lab, release):
    code = "narrower" if release == "r4" else "source-is-narrower-than-target"
    found = {"system": SYSTEM, "code": "L1", "display": "headach"}
    expected = (True, [(code, found)])
    assert result(get(lab, release, code="2", system=AX, reverse="true")) == expected
    assert result(get(lab, release, targetCode="2", system=AX)) == expected
    assert result(get(lab, release, targetCode="2", targetSystem=AX)) == expected
    assert result(get(lab, release, targetCode="2", system=AX, sourceSystem=SYSTEM)) == expected
    assert not result(get(lab, release, targetCode="2", system=AX, sourceSystem="urn:other"))[0]
    asked = {"name": "targetCoding", "valueCoding": {"system": AX, "code": "2"}}
    assert result(post(lab, release, asked)) == expected
    asked = {"name": "targetCodeableConcept", "valueCodeableConcept": {"coding": [asked["valueCoding"]]}}
    assert result(post(lab, release, asked)) == expected
    asked = [{"name": "coding", "valueCoding": {"system": AX, "code": "2"}}, {"name": "reverse", "valueBoolean": True}]
    assert result(post(lab, release, *asked)) == expected
    assert not result(get(lab, release, code="2", system=AX))[0]
    assert not result(get(lab, release, code="2", system=AX, reverse="false"))[0]


def test_what_is_wider_is_narrower_the_other_way(lab):
    assert result(get(lab, "r4", code="L2", system=SYSTEM))[1][0][0] == "narrower"
    assert result(get(lab, "r4", code="4", system=AX, reverse="true"))[1][0][0] == "wider"


@pytest.mark.parametrize("release", BOTH)
def test_filters(lab, release):
    asked = {"code": "L1", "system": SYSTEM}
    for name in ("targetsystem", "targetSystem", "target", "targetScope"):
        assert result(get(lab, release, **asked, **{name: AX}))[0]
        assert not result(get(lab, release, **asked, **{name: "http://snomed.info/sct"}))[0]
    assert result(get(lab, release, **asked, target=f"{AX}?fhir_vs"))[0]
    assert result(get(lab, release, **asked, sourceScope=f"{SYSTEM}?fhir_vs"))[0]
    assert not result(get(lab, release, **asked, sourceScope="urn:other?fhir_vs"))[0]
    get(lab, release, 400, **asked, sourceScope="http://example.org/ValueSet/x")
    assert result(get(lab, release, **asked, source="http://example.org/ValueSet/x"))[0]
    assert result(get(lab, release, **asked, url=URL, version="2"))[0]
    get(lab, release, 404, **asked, url="urn:other")
    get(lab, release, 404, **asked, conceptMapVersion="1")
    get(lab, release, 400, **asked, target="http://snomed.info/sct?fhir_vs=isa/1")
    get(lab, release, 400, **asked, target="http://hl7.org/fhir/ValueSet/x")


def test_nil_is_said(lab):
    r4 = get(lab, "r4", code="L3", system=SYSTEM)
    assert result(r4) == (False, [("unmatched", None)])
    r5 = get(lab, "r5", code="L3", system=SYSTEM)
    assert result(r5) == (False, [])
    assert r5["parameter"][1]["valueString"] == "reviewed: no concept of the target fits"


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


@pytest.mark.parametrize("release", BOTH)
def test_several_maps_and_several_targets(lab, release):
    lab.store.add_project(Project("other", "LAB", "", "", "", "", ""))
    lab.store.add_rows("other", rows_of([("L1", "headach", 1, ["AX:2"], 0.9), ("L9", "x", 1, ["BX:2|AX:2"], 0.9)]))
    for place, row in enumerate(lab.ids("other")):
        concept = ["AX:2", "BX:2|AX:2"][place]
        lab.store.decide(Decision(f"o{place}", "other", row, "ann", "accept", concept, "exact"))
    both = result(get(lab, release, code="L1", system=SYSTEM))[1]
    assert len(both) == 2
    assert result(get(lab, release, code="L1", system=SYSTEM, url=URL))[1] == both[:1]
    assert result(get(lab, release, code="L1", system=SYSTEM, url="urn:alphita:review:other"))[1] == both[1:]
    two = result(get(lab, release, code="L9", system=SYSTEM))[1]
    assert [concept["system"] for _, concept in two] == ["urn:alphita:terminology:BX", AX]
    assert [concept["code"] for _, concept in result(get(lab, release, targetCode="2", system=AX))[1]] == [
        "L1",
        "L1",
        "L9",
    ]


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
