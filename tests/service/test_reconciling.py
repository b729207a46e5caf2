"""The reconciliation service: by schemas of version 0.2, by the normalizer's answers, and in a browser."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import jsonschema
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita.service import app
from alphita.service.settings import Settings
from tests.answer.rich import ROWS, RichTerminology
from tests.answer.synthetic import quick_fit, synthetic_terminology
from tests.doubles import HashEncoder
from tests.service.page_service import serving
from tests.service.review_service import client_of
from tests.service.test_page_walk import CHROMIUM, browser

__all__ = ["browser"]
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def listed(item: dict, **more) -> dict:
    return {"type": "array", "items": item, **more}


def record(*required: str, **fields: dict) -> dict:
    """Return the schema of an object that has these fields and no others."""
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def keyed(item: dict) -> dict:
    return {"type": "object", "additionalProperties": item}


NAMED = record("id", "name", id=TEXT, name=TEXT, description=TEXT)
TYPES = listed(record("id", "name", id=TEXT, name=TEXT), uniqueItems=True)
TEMPLATE = {"type": "string", "pattern": r"^https?://.*\{\{id\}\}"}
SUGGEST = record("service_url", "service_path", service_url=TEXT, service_path=TEXT)
FEATURE = record("id", "value", id=TEXT, value={"type": ["number", "boolean"]})
CELL = {"oneOf": [record("str", str=TEXT), record("id", "name", id=TEXT, name=TEXT)]}
# What the specification requires, and of what it allows that which this service gives.
SCHEMAS = {
    "manifest": record(
        *("versions", "name", "identifierSpace", "schemaSpace", "view", "preview", "suggest", "extend", "defaultTypes"),
        versions={"const": ["0.2"]},
        name=TEXT,
        identifierSpace={"type": "string", "pattern": "^https?://"},
        schemaSpace={"type": "string", "pattern": "^https?://"},
        serviceVersion=TEXT,
        batchSize={"type": "integer", "minimum": 1},
        defaultTypes=TYPES,
        view=record("url", url=TEMPLATE),
        preview=record("url", "width", "height", url=TEMPLATE, width={"type": "integer"}, height={"type": "integer"}),
        suggest=record("entity", "type", "property", entity=SUGGEST, type=SUGGEST, property=SUGGEST),
        extend=record("propose_properties", propose_properties=SUGGEST, property_settings=listed({})),
    ),
    "queries": keyed(
        record(
            "result",
            result=listed(
                record(
                    *("id", "name", "type", "score", "match"),
                    id=TEXT,
                    name=TEXT,
                    description=TEXT,
                    type=TYPES,
                    score={"type": "number", "minimum": 0, "maximum": 100},
                    match={"type": "boolean"},
                    features=listed(FEATURE),
                )
            ),
        )
    ),
    "extend": record("meta", "rows", meta=listed(NAMED), rows=keyed(keyed(listed(CELL)))),
    "entity": record("result", result=listed(record("id", "name", **NAMED["properties"], notable=TYPES))),
    "type": record("result", result=listed(NAMED)),
    "property": record("result", result=listed(NAMED)),
    "properties": record("properties", properties=listed(NAMED), limit=NUMBER, type=TEXT),
}
QUERY_BATCH = {
    "q0": {"query": "headache", "limit": 2},
    "q1": {"query": "Headache", "type": "Sign", "type_strict": "should"},
    "q2": {"query": "dulorin 50 mg", "type": ["Drug", "BX:2"], "type_strict": "all"},
    "q3": {"query": "fever", "type": ["Drug"], "limit": 1},
    "q4": {"properties": [{"pid": "code", "v": "AX:4"}]},
    "q5": {"query": "sore", "properties": [{"pid": "context", "v": ["a sore toe"]}, {"pid": "ward", "v": 5}]},
    "q6": {"query": "AX:4", "properties": [{"pid": "language", "v": {"id": "en"}}]},
    "q7": {"query": "", "properties": [{"pid": "ward", "v": ""}]},
}


@pytest.fixture(scope="module")
def normalizer(tmp_path_factory, index):
    """A normalizer over an index with types, parents and a name that a page must not run."""
    harmful = [("AX:7", name, "exact", "en", "AX", "7") for name in (HARMFUL, '"&<b>bold', "plain")]
    made = build(RichTerminology([*ROWS, *harmful]), HashEncoder(), tmp_path_factory.mktemp("x") / "x.index")
    return Normalizer(made, encoder=HashEncoder())


HARMFUL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def client(normalizer):
    with client_of(normalizer, rate=0) as client:
        yield client


def asked(client, name: str, path: str = "", **form) -> dict:
    """Return an answer, which is right by its schema; a form is posted."""
    answer = client.post(f"/reconcile{path}", data=form) if form else client.get(f"/reconcile{path}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    jsonschema.validate(answer.json(), SCHEMAS[name])
    return answer.json()


def results(client, **queries) -> dict[str, list[dict]]:
    found = asked(client, "queries", queries=json.dumps(queries))
    return {key: one["result"] for key, one in found.items()}


def test_the_manifest_leads_to_every_part(client):
    found = asked(client, "manifest")
    for other in ("/", "?"):
        assert asked(client, "manifest", other) == found
    assert client.post("/reconcile").json() == found
    assert found["view"]["url"].startswith("http://127.0.0.1:8080/")
    for kind, place in {**found["suggest"], "properties": found["extend"]["propose_properties"]}.items():
        url = place["service_url"] + place["service_path"]
        answer = client.get(url, params={"prefix": "a"})
        assert answer.status_code == 200
        jsonschema.validate(answer.json(), SCHEMAS[kind])
    assert client.get(found["preview"]["url"].replace("{{id}}", "AX:2")).status_code == 200
    # A proxy that speaks TLS says so.
    behind = client.get("/reconcile", headers={"X-Forwarded-Proto": "https", "Host": "codes.example.org"}).json()
    assert behind["preview"]["url"].startswith("https://codes.example.org/reconcile/preview?id=")
    assert client.get("/reconcile", headers={"X-Forwarded-Proto": "javascript"}).json() == found
    for host in ("[", "a b", "'><script>", ""):
        strange = client.get("/reconcile", headers={"Host": host})
        assert strange.status_code < 500
        assert strange.headers["content-type"] == "application/json"


def test_answers_are_the_normalizers(tmp_path):
    index = build(synthetic_terminology(150), HashEncoder(), tmp_path / "x.index")
    normalizer = Normalizer(index, encoder=HashEncoder(), calibration=quick_fit(index, HashEncoder()))
    mentions = ["left drall swelling", "T:0004", "drall swelling, left form", "sweling of left dral", "zzzz", "unknown"]
    with client_of(normalizer, rate=0) as client:
        found = results(client, **{str(place): {"query": one, "limit": 4} for place, one in enumerate(mentions)})
    decisions = set()
    for answer, candidates in zip(normalizer.normalize(mentions, top_k=4), found.values(), strict=True):
        decisions.add(answer.decision)
        assert [one["id"] for one in candidates] == [one.concept_id for one in answer.candidates]
        # A match is what may be used without review, and nothing else.
        matches = [one["id"] for one in candidates if one["match"]]
        assert matches == ([answer.concept_id] if answer.decision == "accept" else [])
        scores = [one["score"] for one in candidates]
        assert scores == sorted(scores, reverse=True)
        if answer.concept_id is not None:
            assert scores[0] == pytest.approx(100 * answer.confidence, abs=0.01)
        elif scores:
            assert scores[0] <= 100 * (1 - answer.confidence) + 0.01
    assert decisions == {"accept", "review", "nil"}


def test_queries(client):
    found = results(client, **QUERY_BATCH)
    assert list(found) == list(QUERY_BATCH)
    assert found["q0"][0]["id"] == "AX:2"
    assert len(found["q0"]) == 2
    # "should" puts those of the type first, and leaves none out.
    assert {one["id"] for one in found["q1"]} > {"AX:2", "AX:4"}
    assert found["q1"][0]["id"] == "AX:4"
    assert {one["id"] for one in found["q2"]} == {"BX:2", "BX:3"}
    assert [{type_["id"] for type_ in one["type"]} >= {"Drug"} for one in found["q3"]] == [True]
    assert [(one["id"], one["match"]) for one in found["q4"]] == [("AX:4", False)]
    assert found["q7"] == []
    by_get = client.get("/reconcile", params={"queries": json.dumps(QUERY_BATCH)})
    assert {key: one["result"] for key, one in by_get.json().items()} == found
    assert results(client) == {}


def test_context_and_language_reach_the_normalizer(client, normalizer, monkeypatch):
    seen = []
    normalize = normalizer.normalize
    monkeypatch.setattr(normalizer, "normalize", lambda *given, **more: seen.append(more) or normalize(*given, **more))
    said = [{"pid": "context", "v": "it is a present"}, {"pid": "language", "v": ["de", "en"]}]
    results(client, a={"query": "Gift", "properties": said}, b={"query": "Gift"})
    assert [(more["contexts"], more["languages"]) for more in seen] == [(["it is a present", None], ["de", None])]


def test_extend(client):
    wanted = ["id", "name", "code", "system", "definition", "synonyms", "parents", "types", "replaced_by"]
    asked_for = {"ids": ["AX:3", "AX:4", "AX:5", "NO:1", "AX:3"], "properties": [{"id": one} for one in wanted]}
    found = asked(client, "extend", extend=json.dumps(asked_for))
    assert [one["id"] for one in found["meta"]] == wanted
    assert list(found["rows"]) == ["AX:3", "AX:4", "AX:5", "NO:1"]
    assert found["rows"]["AX:3"]["parents"] == [{"id": "AX:2", "name": "Ache of the head"}]
    assert found["rows"]["AX:4"] == {
        "id": [{"str": "AX:4"}],
        "name": [{"str": "Fever"}],
        "code": [{"str": "4"}],
        "system": [{"str": "urn:alphita:terminology:AX"}],
        "definition": [{"str": "A body that is too warm."}],
        "synonyms": [{"str": "Fever"}, {"str": "Raised temperature"}],
        "parents": [],
        "types": [{"str": "Sign"}],
        "replaced_by": [],
    }
    assert found["rows"]["AX:5"]["replaced_by"] == [{"str": "AX:4"}]
    assert found["rows"]["NO:1"] == {key: [] for key in wanted}


def test_suggestions(client):
    entities = asked(client, "entity", "/suggest/entity?prefix=head")["result"]
    assert [one["id"] for one in entities[:2]] == ["AX:2", "AX:3"]
    assert entities[0]["description"] == "Headache" or entities[0]["description"] == "Head pain"
    assert asked(client, "entity", "/suggest/entity?prefix=head&cursor=1")["result"][0] == entities[1]
    assert asked(client, "entity", "/suggest/entity?prefix=")["result"] == []
    types = asked(client, "type", "/suggest/type?prefix=")["result"]
    # Those just below the root where there is one; here the two roots, and the semantic types.
    assert [one["id"] for one in types] == ["AX:1", "BX:2", "Drug", "Event", "Finding", "Object", "Sign"]
    assert [one["id"] for one in asked(client, "type", "/suggest/type?prefix=si")["result"]] == ["Sign"]
    assert "AX:2" in [one["id"] for one in asked(client, "type", "/suggest/type?prefix=head")["result"]]
    properties = asked(client, "property", "/suggest/property?prefix=")["result"]
    assert {"code", "parents", "synonyms", "definition", "context", "language"} <= {one["id"] for one in properties}
    assert [one["id"] for one in asked(client, "property", "/suggest/property?prefix=syn")["result"]] == ["synonyms"]
    proposed = asked(client, "properties", "/properties?type=Sign&limit=3")
    assert (len(proposed["properties"]), proposed["limit"], proposed["type"]) == (3, 3, "Sign")
    for one in asked(client, "properties", "/properties")["properties"]:
        asked(client, "extend", extend=json.dumps({"ids": ["AX:2"], "properties": [{"id": one["id"]}]}))


def test_an_index_without_types_parents_or_calibration(index_path):
    plain = Normalizer(Index.open(index_path), encoder=HashEncoder())
    with client_of(plain, rate=0) as client:
        assert asked(client, "manifest")["defaultTypes"] == []
        assert asked(client, "type", "/suggest/type?prefix=s")["result"] == []
        found = results(client, q={"query": "Seizure"})["q"]
        assert (found[0]["id"], found[0]["score"], found[0]["match"]) == ("T:1", 100, False)


def test_nothing_in_a_preview_runs(client):
    answer = client.get("/reconcile/preview", params={"id": "AX:7"})
    page = answer.text
    assert not re.search("<(img|script|b)[ >]", page)
    assert all(text in page for text in ("&lt;img src=x onerror=", "&quot;&amp;&lt;b&gt;bold"))
    policy = answer.headers["content-security-policy"]
    assert {"default-src 'none'", "frame-ancestors 'none'"} < {*policy.split("; ")}
    assert "script" not in policy
    # JSON is never taken for a page.
    found = client.post("/reconcile", data={"queries": json.dumps({HARMFUL: {"query": HARMFUL}})})
    assert (found.headers["content-type"], found.headers["x-content-type-options"]) == ("application/json", "nosniff")
    retired = client.get("/reconcile/preview", params={"id": "AX:5"}).text
    assert re.search("Retired.*AX:4", retired)


def test_no_callback_is_ever_called(client):
    for name in ("jQuery123_456", "a.b", "alert(1)//", "</script><script>alert(1)</script>", ""):
        for sent in ({}, {"queries": "{}"}):
            answer = client.get("/reconcile", params={**sent, "callback": name})
            assert answer.status_code == 422
            assert answer.headers["content-type"] == "application/json"
            assert "--allow-origin" in answer.text
            assert not name or name not in answer.text
        for path in ("suggest/entity?prefix=a", "suggest/type?prefix=a", "suggest/property?prefix=a", "properties?"):
            answer = client.get(f"/reconcile/{path}&callback={quote(name)}")
            assert json.loads(answer.text)


def test_limits_of_the_others_hold(normalizer):
    with client_of(normalizer, rate=0, max_rows=2, max_body=2_000) as client:
        one = {"query": "headache"}
        assert len(results(client, a=one, b=one)) == 2
        many = client.post("/reconcile", data={"queries": json.dumps({str(n): one for n in range(3)})})
        assert (many.status_code, many.json()["error"]["code"]) == (413, "too_many")
        large = client.post("/reconcile", data={"queries": json.dumps({"q": {"query": "x" * 2_000}})})
        assert large.status_code == 413
        counted = client.get("/metrics").text
        assert re.search(r'alphita_requests_total\{method="POST",route="/reconcile",status="200"\} 1\.0', counted)
        assert re.search(r'alphita_refused_total\{code="too_many"\} 1\.0', counted)
    with client_of(normalizer, rate=0.001) as client:
        statuses = {client.get("/reconcile/suggest/property").status_code for _ in range(250)}
        assert statuses == {200, 429}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; ALPHITA_CHROMIUM names one")
def test_a_page_of_an_allowed_origin_reads_and_frames_and_another_does_neither(browser, normalizer):
    """As OpenRefine does: it asks by fetch, and shows the preview in a frame without rights."""

    async def elsewhere(scope, receive, send):
        if scope["type"] == "http":
            headers = [(b"content-type", b"text/html")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"<!doctype html><title>sheet</title>"})

    script = """async ([url, id]) => {
        const body = new URLSearchParams({queries: JSON.stringify({q: {query: 'headache'}})});
        const read = await fetch(url + '/reconcile', {method: 'POST', body}).then(
            answer => answer.json(), error => null);
        const frame = document.createElement('iframe');
        frame.setAttribute('sandbox', '');
        frame.src = url + '/reconcile/preview?id=' + id;
        document.body.append(frame);
        await new Promise(done => { frame.onload = frame.onerror = done; });
        return read && read.q.result[0].id;
    }"""
    with serving(elsewhere) as page_url, serving(elsewhere) as other_url:
        served = app.create(Settings(rate=0, origins=(page_url,)), normalizer)
        with serving(served) as url:
            for origin, answer in ((page_url, "AX:2"), (other_url, None)):
                context = browser.new_context()
                page = context.new_page()
                page.goto(origin)
                assert page.evaluate(script, [url, "AX:7"]) == answer
                shown = page.frames[1].evaluate("() => document.body.textContent") if answer else ""
                assert (HARMFUL in shown) == bool(answer)
                if not answer:
                    assert not page.frames[1].url.startswith(url)
                assert page.title() == "sheet"
                context.close()
