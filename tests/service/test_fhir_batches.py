"""Filters against a naive search, batches, and forms, R4 and R5."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.index.store import build
from alphita.service import access, failures, fhir, fhir_batch
from alphita.service.access import ROLES, Identity
from alphita.service.batching import Batcher
from alphita.service.normalizing import Work, cost
from alphita.service.settings import Settings
from tests.answer.synthetic import synthetic_terminology
from tests.doubles import HashEncoder
from tests.service.review_service import service
from tests.service.test_fhir import AX, BOTH, checked

JSON = {"Content-Type": "application/fhir+json; charset=UTF-8"}
NAMES = "urn:alphita:terminology:T"
FILTERS = (
    "swell",
    "le dr",
    "left drall swelling",
    "swelling left",
    "form",
    "algia",
    "s",
    "0007",
    "T:0007",
    "zzz",
    "(LEFT)",
)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A client of the FHIR routes over an index of 150 concepts, and their names by code."""
    terminology = synthetic_terminology(150)
    index = build(terminology, HashEncoder(), tmp_path_factory.mktemp("many") / "x.index")
    app = FastAPI()
    failures.install(app)
    batcher = Batcher(Work(Normalizer(index, encoder=HashEncoder())), cost=cost, budget=9, window=0.0, capacity=9)
    app.include_router(fhir.router(None, index, Settings(), batcher))
    names: dict[str, list[str]] = {}
    for concept, string in zip(terminology.term_concept, terminology.terms["string"].to_pylist(), strict=True):
        names.setdefault(terminology.concept_ids[int(concept)].as_py().partition(":")[2], []).append(string.lower())
    app.dependency_overrides[access.identity] = lambda: Identity("ann", (ROLES["reader"],))
    return TestClient(app), names


def naive(names: dict[str, list[str]], text: str) -> dict[str, tuple[bool, int]]:
    """Return the codes that a filter finds, and how well the best name of each fits, the lowest best."""
    words = re.findall(r"\w+", text.lower())

    def fits(name: str) -> bool:
        return all(any(own.startswith(word) for own in re.findall(r"\w+", name)) for word in words)

    found = {}
    for code, own in names.items():
        fitting = [(not name.startswith(text.lower()), len(name)) for name in own if fits(name)]
        if fitting or text in (code, f"T:{code}"):
            found[code] = min(fitting, default=(False, 0))
    return found


@BOTH
@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_gives_exactly_its_codes_in_pages_of_any_size(many, release, text):
    client, names = many

    def expansion(**query):
        answer = client.get(f"/fhir/{release}/ValueSet/$expand", params={"url": NAMES, "filter": text, **query})
        return checked(answer, release)["expansion"]

    def codes(found):
        return [one["code"] for one in found.get("contains", [])]

    whole = expansion()
    assert set(codes(whole)) == set(naive(names, text))
    assert len(codes(whole)) == whole["total"]
    for size in (1, 7):
        pages = [expansion(count=size, offset=start) for start in range(0, min(whole["total"], 20) + size, size)]
        assert [code for page in pages for code in codes(page)] == codes(whole)[: len(pages) * size]
        assert {page["total"] for page in pages} == {whole["total"]}
    assert codes(expansion(offset=whole["total"])) == []
    # A name that begins with the filter comes first; of the others the shortest.
    order = [naive(names, text)[code] for code in codes(whole)]
    assert order == sorted(order)


def test_more_than_one_answer_holds_says_how_many_there_are(many, monkeypatch):
    client, names = many
    monkeypatch.setattr("alphita.service.fhir_expand.MAX_CODES", 3)
    expansion = client.get("/fhir/r4/ValueSet/$expand", params={"url": NAMES, "filter": "left"}).json()["expansion"]
    assert (expansion["total"], expansion["offset"], len(expansion["contains"])) == (len(naive(names, "left")), 0, 3)


def entry(url: str, method: str = "GET", **more) -> dict:
    return {"request": {"method": method, "url": url}, **more}


LOOKUP = f"CodeSystem/$lookup?system={AX}&code=2"
BY_POST = [{"name": "system", "valueUri": AX}, {"name": "codeA", "valueCode": "1"}, {"name": "codeB", "valueCode": "2"}]
ENTRIES = [
    (entry(LOOKUP), "200 OK", "display"),
    (entry(f"http://fhir.example.org/fhir/RELEASE/{LOOKUP}"), "200 OK", "display"),
    (entry(f"/{LOOKUP}"), "200 OK", "display"),
    (entry("metadata?mode=full"), "200 OK", "CapabilityStatement"),
    (
        entry("CodeSystem/$subsumes", "POST", resource={"resourceType": "Parameters", "parameter": BY_POST}),
        "200 OK",
        "subsumes",
    ),
    (entry(f"ValueSet/$expand?url={AX}&filter=head%20pain"), "200 OK", '"total": 1'),
    (entry(f"CodeSystem/$lookup?system={AX}&code=secret"), "404 Not Found", "not-found"),
    (entry("CodeSystem/$lookup?code=2"), "400 Bad Request", "'system'"),
    (entry("Patient/secret"), "404 Not Found", "list what it has"),
    (entry("CodeSystem/$lookup", "DELETE"), "405 Method Not Allowed", "not-supported"),
    (entry("", "POST", resource={"resourceType": "Bundle", "type": "batch"}), "404 Not Found", "list what it has"),
    (entry("CodeSystem/$lookup", "POST", resource=["secret"]), "400 Bad Request", "Parameters"),
    (entry("http://[secret"), "400 Bad Request", "not a url"),
    ({"request": {"method": "GET"}}, "400 Bad Request", "Bundle.entry[13]"),
    ({"request": "secret"}, "400 Bad Request", "Bundle.entry[14]"),
    ("secret", "400 Bad Request", "Bundle.entry[15]"),
]


def batch(client, release, entries, status=200, path=""):
    body = {"resourceType": "Bundle", "type": "batch", "entry": entries}
    return checked(client.post(f"/fhir/{release}{path}", json=body, headers=JSON), release, status)


@BOTH
@pytest.mark.parametrize("path", ["", "/"])
def test_each_entry_of_a_batch_is_answered_by_itself(lab, release, path):
    entries = [one for one, _, _ in ENTRIES]
    entries[1] = entry(ENTRIES[1][0]["request"]["url"].replace("RELEASE", release))
    bundle = batch(lab.as_(), release, entries, path=path)
    assert bundle["type"] == "batch-response"
    for found, (_, status, text) in zip(bundle["entry"], ENTRIES, strict=True):
        assert found["response"]["status"] == status
        is_good = status == "200 OK"
        assert ("resource" in found, "outcome" in found["response"]) == (is_good, not is_good)
        assert text.replace('"total": 1', "'total': 1") in str(found)
        assert "secret" not in str(found)
    # What comes alone has the same answer.
    alone = checked(lab.as_().get(f"/fhir/{release}/{LOOKUP}"), release)
    assert [found["resource"] for found in bundle["entry"][:3]] == [alone] * 3
    assert batch(lab.as_(), release, []) == {"resourceType": "Bundle", "type": "batch-response"}


def test_a_batch_with_too_many_entries_is_refused(tmp_path, index):
    made = service(tmp_path, index, max_rows=3)
    assert batch(made.as_(), "r4", [entry(LOOKUP)] * 3)["entry"][2]["response"]["status"] == "200 OK"
    assert batch(made.as_(), "r4", [entry(LOOKUP)] * 4, 413)["issue"][0]["code"] == "too-long"
    made.store.close()


@pytest.mark.parametrize(("seconds", "most"), [(0.1, 10**9), (60, 10)])
def test_a_batch_ends_when_its_time_is_over_or_its_answers_are_large(monkeypatch, seconds, most):
    """What is left is answered by its status, so that a client asks for it again."""
    monkeypatch.setattr(fhir_batch, "MAX_BYTES", most)
    asked = []

    def slow(method, path, pairs, resource):
        asked.append(path)
        fhir_batch.time.sleep(0.11)
        return {"resourceType": "Parameters"}

    bundle = {"resourceType": "Bundle", "type": "batch", "entry": [entry("x")] * 5}
    answers = fhir_batch.answers(bundle, "/fhir/r4", slow, 5, fhir_batch.time.monotonic() + seconds)
    found = json.loads(fhir_batch.bundle_of([*answers]))["entry"]
    assert [one["response"]["status"][:3] for one in found] == ["200", *["413"] * 4]
    assert len(asked) == 1


def test_a_batch_asks_for_a_key_as_its_operations_do(lab):
    unknown = TestClient(lab.app, client=("127.0.0.1", 1))
    checked(unknown.post("/fhir/r4", json={"resourceType": "Bundle", "type": "batch"}, headers=JSON), "r4", 401)


@BOTH
def test_a_form_is_answered_as_a_query_is(lab, release):
    for path, given in (
        ("CodeSystem/$lookup", {"system": AX, "code": "2", "property": "parent"}),
        ("CodeSystem/$subsumes", {"system": AX, "codeA": "1", "codeB": "2"}),
        ("CodeSystem/$validate-code", {"url": AX, "code": "2", "display": "Kopfschmerz"}),
        ("ValueSet/$validate-code", {"url": f"{AX}?fhir_vs", "system": AX, "code": "2"}),
        ("ConceptMap/$translate", {"system": "urn:alphita:source:LAB", "code": "L1"}),
    ):
        url = f"/fhir/{release}/{path}"
        by_query = checked(lab.as_().get(url, params=given), release)
        assert checked(lab.as_().post(url, data=given), release) == by_query
        # Some clients put all in the address, and post nothing.
        assert checked(lab.as_().post(f"{url}?{urlencode(given)}"), release) == by_query
