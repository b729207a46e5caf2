"""The FHIR operations as clients ask for them: fhirclient, fhirpy, and the requests that HAPI's client sends."""

from __future__ import annotations

import pytest

from alphita.review.records import Decision
from tests.service.page_service import serving
from tests.service.review_service import HEADER, service
from tests.service.test_fhir import AX, BOTH, checked

LAB = "urn:alphita:source:LAB"
BATCH = {
    "resourceType": "Bundle",
    "type": "batch",
    "entry": [
        {"request": {"method": "GET", "url": f"CodeSystem/$lookup?system={AX}&code=2"}},
        {"request": {"method": "GET", "url": "Patient/1"}},
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("clients"), index)
    made.store.decide(Decision("one", "lab", made.ids()[0], "ann", "accept", "AX:2", "exact"))
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def url(made):
    """The address of a server that is asked through a proxy which has named the reviewer."""

    async def named(scope, receive, send):
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (HEADER.lower().encode(), b"ann")]}
        await made.app(scope, receive, send)

    with serving(named) as address:
        yield address


def test_fhirclient(url):
    """It reads every answer into models of R4, which refuse what they do not know."""
    pytest.importorskip("fhirclient", reason="pip install fhirclient")
    from fhirclient.client import FHIRClient
    from fhirclient.models import bundle, parameters, valueset
    from fhirclient.server import FHIRNotFoundException

    client = FHIRClient({"app_id": "alphita", "api_base": f"{url}/fhir/r4"})
    assert client.prepare()
    statement = client.server.capabilityStatement
    assert statement.fhirVersion == "4.0.1"
    assert [one.code for one in statement.rest[0].interaction] == ["batch"]
    found = client.server.request_json(f"ValueSet/$expand?url={AX}&filter=head&count=1")
    expansion = valueset.ValueSet(found).expansion
    assert (expansion.total, expansion.offset, [one.code for one in expansion.contains]) == (2, 0, ["2"])
    asked = parameters.Parameters({"parameter": [{"name": "coding", "valueCoding": {"system": LAB, "code": "L1"}}]})
    answer = client.server.post_json("ConceptMap/$translate", asked.as_json())
    match = parameters.Parameters(answer.json()).parameter[1]
    assert {part.name: part for part in match.part}["concept"].valueCoding.code == "2"
    answer = client.server.post_json("", bundle.Bundle(BATCH).as_json())
    assert [one.response.status for one in bundle.Bundle(answer.json()).entry] == ["200 OK", "404 Not Found"]
    with pytest.raises(FHIRNotFoundException):
        client.server.request_json(f"CodeSystem/$lookup?system={AX}&code=404")


@BOTH
def test_fhirpy(url, release):
    pytest.importorskip("fhirpy", reason="pip install fhirpy")
    from fhirpy import SyncFHIRClient
    from fhirpy.base.exceptions import OperationOutcome, ResourceNotFound

    client = SyncFHIRClient(f"{url}/fhir/{release}")
    found = client.resources("ValueSet").execute("$expand", method="get", params={"url": AX, "filter": "ache hea"})
    assert [one["code"] for one in found["expansion"]["contains"]] == ["2", "3"]
    asked = {"resourceType": "Parameters", "parameter": [{"name": "system", "valueUri": AX}]}
    asked["parameter"] += [{"name": "codeA", "valueCode": "3"}, {"name": "codeB", "valueCode": "1"}]
    assert client.execute("CodeSystem/$subsumes", data=asked)["parameter"][0]["valueCode"] == "subsumed-by"
    found = client.execute("/", data=BATCH)
    assert [one["response"]["status"] for one in found["entry"]] == ["200 OK", "404 Not Found"]
    with pytest.raises(OperationOutcome, match="transactions"):
        client.execute("/", data=BATCH | {"type": "transaction"})
    with pytest.raises(ResourceNotFound):
        client.resources("CodeSystem").execute("$lookup", method="get", params={"system": AX, "code": "404"})


# The headers of HAPI's generic client by its source (7.x): before it has been told to use JSON, and after.
HAPI = {
    "User-Agent": "HAPI-FHIR/7.4.0 (FHIR Client; FHIR 4.0.1/R4; apache)",
    "Accept-Charset": "utf-8",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/fhir+json; charset=UTF-8",
}
ANY = "application/fhir+xml;q=1.0, application/fhir+json;q=1.0, application/xml+fhir;q=0.9, application/json+fhir;q=0.9"
ONLY_JSON = "application/fhir+json;q=1.0, application/json+fhir;q=0.9"
NEWER = "application/fhir+json; fhirVersion=4.0"


def parameters_of(**given):
    """Return Parameters as HAPI's remote terminology support writes them: codes and displays as strings."""
    members = {"url": "valueUri", "system": "valueUri", "coding": "valueCoding"}
    listed = [{"name": name, members.get(name, "valueString"): value} for name, value in given.items()]
    return {"resourceType": "Parameters", "parameter": listed}


@pytest.mark.parametrize("accept", [ANY, ONLY_JSON, NEWER])
@pytest.mark.parametrize(
    ("path", "body", "name", "value"),
    [
        ("CodeSystem/$validate-code", parameters_of(url=AX, code="2", display="Headache"), "result", True),
        ("CodeSystem/$validate-code", parameters_of(url=AX, code="2", display="Fever"), "result", False),
        ("ValueSet/$validate-code", parameters_of(url=f"{AX}?fhir_vs", code="2", system=AX), "result", True),
        ("CodeSystem/$lookup", parameters_of(code="2", system=AX), "display", "Ache of the head"),
        ("CodeSystem/$lookup", parameters_of(coding={"system": AX, "code": "2"}), "display", "Ache of the head"),
        ("CodeSystem/$subsumes", parameters_of(codeA="1", codeB="2", system=AX), "outcome", "subsumes"),
        ("ConceptMap/$translate", parameters_of(code="L1", system=LAB), "result", True),
    ],
)
def test_what_hapi_posts(made, path, body, name, value, accept):
    headers = HAPI | {"Accept": accept}
    for query in ({}, {"_format": "json"}, {"_format": "application/fhir+json", "_pretty": "true"}):
        answer = made.as_().post(f"/fhir/r4/{path}", params=query, json=body, headers=headers)
        first = next(one for one in checked(answer, "r4")["parameter"] if one["name"] == name)
        assert value in first.values()


@pytest.mark.parametrize("accept", [ANY, ONLY_JSON, NEWER])
def test_what_hapi_gets(made, accept):
    headers = {name: text for name, text in HAPI.items() if name != "Content-Type"} | {"Accept": accept}
    # The client looks for the version first, and for a batch posts to the base.
    statement = checked(made.as_().get("/fhir/r4/metadata", headers=headers), "r4")
    assert statement["fhirVersion"] == "4.0.1"
    query = {"url": f"{AX}?fhir_vs", "filter": "head", "offset": "0", "count": "10", "_format": "json"}
    found = checked(made.as_().get("/fhir/r4/ValueSet/$expand", params=query, headers=headers), "r4")
    assert found["expansion"]["total"] == 2
    checked(made.as_().post("/fhir/r4?_format=json", json=BATCH, headers=HAPI | {"Accept": accept}), "r4")
