"""$validate-code of CodeSystem and ValueSet, and ValueSet/$expand, R4 and R5."""

from __future__ import annotations

import pytest
from fhir.resources.operationoutcome import OperationOutcome
from fhir.resources.parameters import Parameters as R5Parameters
from fhir.resources.R4B.parameters import Parameters as R4Parameters
from fhir.resources.R4B.valueset import ValueSet as R4ValueSet
from fhir.resources.valueset import ValueSet as R5ValueSet

from tests.service.review_service import index_of, service

BOTH = ["r4", "r5"]
AX, BX = "urn:alphita:terminology:AX", "urn:alphita:terminology:BX"
MODELS = {
    ("r4", "Parameters"): R4Parameters,
    ("r5", "Parameters"): R5Parameters,
    ("r4", "ValueSet"): R4ValueSet,
    ("r5", "ValueSet"): R5ValueSet,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = service(tmp_path_factory.mktemp("store"), index_of(tmp_path_factory.mktemp("index")))
    yield made
    made.store.close()


def ask(lab, release, path, status=200, body=None, **query):
    client = lab.as_()
    answer = (
        client.get(f"/fhir/{release}/{path}", params=query)
        if body is None
        else client.post(f"/fhir/{release}/{path}", json={"resourceType": "Parameters", "parameter": body})
    )
    assert answer.status_code == status, answer.text
    document = answer.json()
    MODELS.get((release, document["resourceType"]), OperationOutcome).model_validate(document)
    return document


def said(document):
    """Return the parameters of an answer by name."""
    return {one["name"]: next(value for key, value in one.items() if key != "name") for one in document["parameter"]}


@pytest.mark.parametrize("release", BOTH)
@pytest.mark.parametrize(
    ("query", "result", "message"),
    [
        ({"code": "2"}, True, None),
        ({"code": "2", "display": "Ache of the head"}, True, None),
        ({"code": "2", "display": "  HEADACHE "}, True, None),
        ({"code": "2", "display": "Kopfschmerz"}, True, None),
        ({"code": "2", "display": "Fever"}, False, "the display is not a name of this code"),
        ({"code": "999"}, False, "this service's index has no concept with this code"),
    ],
)
def test_a_code_of_a_system(lab, release, query, result, message):
    for path, url in (("CodeSystem", AX), ("ValueSet", f"{AX}?fhir_vs"), ("ValueSet", f"{AX}/vs"), ("ValueSet", AX)):
        found = said(ask(lab, release, f"{path}/$validate-code", url=url, **query))
        assert (found["result"], found.get("message")) == (result, message)
        known = query["code"] == "2"
        assert found.get("display") == ("Ache of the head" if known else None)
        more = {"code": query["code"], "system": AX} if release == "r5" else {}
        assert {name: value for name, value in found.items() if name in ("code", "system", "version")} == more


@pytest.mark.parametrize("release", BOTH)
def test_codings_and_concepts(lab, release):
    def valid(name, value, **more):
        entry = {"name": name, ("valueCoding" if name == "coding" else "valueCodeableConcept"): value}
        body = [entry, *({"name": key, "valueUri": url} for key, url in more.items())]
        return said(ask(lab, release, "CodeSystem/$validate-code", body=body))

    head, other = {"system": AX, "code": "2"}, {"system": BX, "code": "2"}
    assert valid("coding", head)["result"] is True
    assert valid("coding", {**head, "display": "Fever"})["result"] is False
    assert valid("coding", other, url=AX)["message"] == "the code is of another system"
    elsewhere = valid("coding", {"system": "http://none.example", "code": "2"})
    assert elsewhere["message"].startswith("this service has no concepts")
    # Of a concept's codings one is enough.
    assert valid("codeableConcept", {"coding": [{"system": AX, "code": "999"}, head]})["result"] is True
    assert valid("codeableConcept", {"coding": [{"system": AX, "code": "999"}]})["result"] is False


def codes(document):
    return [one["code"] for one in document["expansion"].get("contains", [])]


@pytest.mark.parametrize("release", BOTH)
def test_expand_by_text(lab, release):
    found = ask(lab, release, "ValueSet/$expand", url=f"{AX}?fhir_vs", filter="head", count="2")
    first = found["expansion"]["contains"][0]
    assert first == {"system": AX, "code": "2", "display": "Ache of the head"}
    assert len(codes(found)) == 2
    assert {"name": "filter", "valueString": "head"} in found["expansion"]["parameter"]
    # The rest, in the same order, and none of another system.
    whole = ask(lab, release, "ValueSet/$expand", url=AX, filter="head")
    rest = ask(lab, release, "ValueSet/$expand", url=AX, filter="head", offset="1", count="3")
    assert codes(rest) == codes(whole)[1:4]
    assert {one["system"] for one in whole["expansion"]["contains"]} == {AX}
    assert "total" not in whole["expansion"]
    nothing = ask(lab, release, "ValueSet/$expand", url=BX, filter="zzzz", count="0")
    assert codes(nothing) == []


@pytest.mark.parametrize("release", BOTH)
def test_expand_the_whole_system_in_pages(lab, release):
    ids = lab.index.segment.concepts.column("id").to_pylist()
    own = [id_.partition(":")[2] for id_ in ids if id_.startswith("AX:")]
    whole = ask(lab, release, "ValueSet/$expand", url=AX)
    assert codes(whole) == own
    assert whole["expansion"]["total"] == len(own)
    pages = [ask(lab, release, "ValueSet/$expand", url=AX, offset=str(start), count="2") for start in (0, 2, 4)]
    assert [code for page in pages for code in codes(page)] == own[:6]


@pytest.mark.parametrize("release", BOTH)
def test_too_many_codes_are_not_sent(lab, release, monkeypatch):
    monkeypatch.setattr("alphita.service.fhir_codes.MAX_CODES", 2)
    (issue,) = ask(lab, release, "ValueSet/$expand", 400, url=AX)["issue"]
    assert issue["code"] == "too-costly"
    assert "give 'filter', or 'count'" in issue["details"]["text"]


@pytest.mark.parametrize("release", BOTH)
def test_designations_and_languages(lab, release):
    asked = {"url": AX, "filter": "headache", "count": "1"}
    (found,) = ask(lab, release, "ValueSet/$expand", includeDesignations="true", **asked)["expansion"]["contains"]
    assert {(one.get("language"), one["value"]) for one in found["designation"]} == {
        ("en", "Headache"),
        ("en", "Head pain"),
        ("de-AT", "Kopfschmerz"),
    }
    (found,) = ask(lab, release, "ValueSet/$expand", displayLanguage="de", **asked)["expansion"]["contains"]
    assert (found["display"], found.get("designation")) == ("Kopfschmerz", None)
