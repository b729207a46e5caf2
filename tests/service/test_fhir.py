"""Capability statements and CodeSystem/$lookup, R4 and R5."""

from __future__ import annotations

import pytest
from fhir.resources.capabilitystatement import CapabilityStatement as R5Statement
from fhir.resources.R4B.capabilitystatement import CapabilityStatement as R4Statement
from fhir.resources.R4B.terminologycapabilities import TerminologyCapabilities as R4Terminology
from fhir.resources.terminologycapabilities import TerminologyCapabilities as R5Terminology

from alphita.index.store import build
from alphita.service import fhir, fhir_codes
from tests.doubles import HashEncoder, SmallTerminology
from tests.service.review_service import service
from tests.service.test_fhir_translate import checked

BOTH = ["r4", "r5"]
AX = "urn:alphita:terminology:AX"


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index)
    yield made
    made.store.close()


def values(document, name):
    """Return the values of all parameters of a name; of one with parts, the values by name."""
    found = []
    for one in document["parameter"]:
        if one["name"] == name:
            found.append({part["name"]: _value(part) for part in one["part"]} if "part" in one else _value(one))
    return found


def _value(one):
    return next(value for key, value in one.items() if key.startswith("value"))


@pytest.mark.parametrize(("release", "version", "model"), [("r4", "4.0.1", R4Statement), ("r5", "5.0.0", R5Statement)])
def test_capabilities(lab, release, version, model):
    answer = lab.as_().get(f"/fhir/{release}/metadata", headers={"Accept": "application/fhir+json"})
    assert answer.headers["content-type"] == "application/fhir+json"
    document = answer.json()
    model.model_validate(document)
    assert (document["fhirVersion"], document["status"], document["kind"]) == (version, "active", "instance")
    # An instance says where it is (R4 cpb-15, R5 cpb-16), and each type stands once (cpb-9).
    assert document["implementation"]["description"]
    (rest,) = document["rest"]
    definitions = {f"{kind}-{name}" for kind, names in fhir.OPERATIONS.items() for name in names}
    assert [one["type"] for one in rest["resource"]] == ["CodeSystem", "ConceptMap", "ValueSet"]
    listed = [operation for one in rest["resource"] for operation in one["operation"]]
    assert {one["definition"].removeprefix(f"{fhir.DEFINITIONS}/") for one in listed} == definitions
    # What it says it can, it can: without parameters something is wrong with each, but it is there.
    for kind, names in fhir.OPERATIONS.items():
        for name in names:
            checked(lab.as_().get(f"/fhir/{release}/{kind}/${name}"), release, 400)


@pytest.mark.parametrize(("release", "model"), [("r4", R4Terminology), ("r5", R5Terminology)])
def test_terminology_capabilities(lab, release, model):
    document = lab.as_().get(f"/fhir/{release}/metadata?mode=terminology").json()
    model.model_validate(document)
    assert (document["resourceType"], document["kind"]) == ("TerminologyCapabilities", "instance")
    # Every system that it names, it expands; and each parameter of an expansion is one that it takes.
    assert AX in [system["uri"] for system in document["codeSystem"]]
    for system in document["codeSystem"]:
        assert ("content" in system) == (release == "r5")
        expanded = lab.as_().get(f"/fhir/{release}/ValueSet/$expand", params={"url": system["uri"]})
        assert expanded.json()["expansion"]["contains"]
    assert {one["name"] for one in document["expansion"]["parameter"]} <= set(fhir_codes.EXPAND)


@pytest.mark.parametrize(
    ("accept", "format_", "status"),
    [
        ("application/fhir+json; fhirVersion=4.0", "", 200),
        ("text/html, */*;q=0.1", "", 200),
        ("application/fhir+xml", "", 406),
        ("application/fhir+xml", "json", 200),
        ("*/*", "xml", 406),
        ("*/*", "application/fhir json", 200),
        ("application/fhir+json; fhirVersion=5.0", "", 406),
        ("application/fhir+json; fhirVersion=5.0, application/fhir+json; q=0.5", "", 200),
        ("application/fhir+json;q=0, application/fhir+xml", "", 406),
        ("application/json;q=0.001", "", 200),
        ("", "", 200),
    ],
)
def test_only_json(lab, accept, format_, status):
    answer = lab.as_().get("/fhir/r4/metadata", params={"_format": format_}, headers={"Accept": accept})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/fhir+json"


def test_a_known_system_and_its_version(tmp_path):
    terminology = SmallTerminology([("HP:0000001", "Sore toe", "exact"), ("HP:0000001", "Toe pain", "exact")])
    terminology.manifest = {"sources": [{"name": "HPO", "version": "2026-01-01", "licence": "x"}]}
    index = build(terminology, HashEncoder(), tmp_path / "hp.index")
    asked = {"code": ["HP:0000001"], "system": ["http://human-phenotype-ontology.org"]}
    found = fhir_codes.look_up(index, asked, "r4")
    assert values(found, "name") == ["Human Phenotype Ontology"]
    assert values(found, "version") == ["2026-01-01"]
    assert [value["value"] for value in values(found, "designation")] == ["Toe pain"]
    assert fhir_codes.look_up(index, {**asked, "version": ["2026-01-01"]}, "r4") == found
    with pytest.raises(fhir_codes.Fault, match="another version") as caught:
        fhir_codes.look_up(index, {**asked, "version": ["2001"]}, "r4")
    assert caught.value.status == 404


def test_every_answer_is_documented_as_it_is_given(lab):
    document = lab.as_().get("/openapi.json").json()
    paths = {path: found for path, found in document["paths"].items() if path.startswith("/fhir/")}
    assert len(paths) == 12
    for found in paths.values():
        for operation in found.values():
            assert "_format" in [one["name"] for one in operation["parameters"]]
            assert {"200", "400", "406"} <= set(operation["responses"])
            for status, answer in operation["responses"].items():
                assert list(answer["content"]) == ["application/fhir+json"], status
