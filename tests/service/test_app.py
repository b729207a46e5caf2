from __future__ import annotations

import io
import json
import logging

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError
from alphita.index.store import Index
from alphita.review.store import ReviewStore
from alphita.service import keys, logs
from alphita.service.app import page_paths
from tests.doubles import HashEncoder
from tests.service.review_service import client_of, code_of
from tests.waiting import wait_until

SECRET = "John Doe, seizur"


@pytest.fixture
def log():
    """What is logged, line by line."""
    names = (logs.LOGGER.name, "uvicorn", "asyncio")
    before = [(logging.getLogger(name).handlers, logging.getLogger(name).propagate) for name in names]
    stream = io.StringIO()
    logs.configure(stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name, (handlers, propagate) in zip(names, before, strict=True):
        logging.getLogger(name).handlers, logging.getLogger(name).propagate = handlers, propagate


def requests_of(lines: list[dict]) -> list[dict]:
    return [line for line in lines if line["event"] == "request"]


def test_health_and_readiness(normalizer):
    with client_of(normalizer) as client:
        assert client.get("/health").json()["status"] == "ok"
        wait_until(lambda: client.get("/ready").json()["status"] != "starting")
        assert client.get("/ready").json() == {
            "status": "ready",
            "index": normalizer.index.content_hash,
            "model": normalizer.index.manifest["model_hash"],
            "assurance": None,
            "unwritable": {},
        }


def test_a_model_that_cannot_answer_is_not_ready(index_path, log):
    class Broken(HashEncoder):
        def encode(self, strings):
            raise RuntimeError("broken")

    with client_of(Normalizer(Index.open(index_path), encoder=Broken())) as client:
        wait_until(lambda: client.get("/ready").json()["status"] == "failed")
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
    assert [line["error"]["type"] for line in log() if line["event"] == "cannot answer"] == ["RuntimeError"]


def test_an_error_nobody_expected_is_told_of_in_the_log_alone(normalizer, monkeypatch, log):
    def broken(*_):
        raise RuntimeError(f"no such thing: {SECRET}")

    monkeypatch.setattr("alphita.service.concepts.find_concept", broken)
    with client_of(normalizer) as client:
        failed = client.get("/concepts/T:1")
    assert failed.status_code == 500
    assert code_of(failed) == "internal"
    assert failed.headers["x-request-id"] in failed.json()["error"]["message"]
    (line,) = [line for line in log() if line["event"] == "failed"]
    assert line["request"] == failed.headers["x-request-id"]
    assert line["error"]["type"] == "RuntimeError"
    assert any("test_app.py" in place for place in line["error"]["at"])
    assert "John" not in json.dumps(log())


def test_logs_tell_of_requests_and_not_of_mentions(normalizer, log):
    with client_of(normalizer) as client:
        answer = client.post("/normalize", json={"mentions": [SECRET, "x"]})
        client.get("/search", params={"q": SECRET})
        client.get(f"/concepts/{SECRET}")
        client.get(f"/{SECRET}")
        client.post("/normalize", json={"mentions": [SECRET], "top": 0})
        client.post("/embed", json={"texts": [SECRET]})
    lines = requests_of(log())
    assert "John" not in json.dumps(log())
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/normalize", 200),
        ("GET", "/search", 200),
        ("GET", "/concepts/{identifier:path}", 404),
        ("GET", "-", 404),
        ("POST", "/normalize", 422),
        ("POST", "/embed", 200),
    ]
    first = lines[0]
    assert first["request"] == answer.headers["x-request-id"]
    assert (first["rows"], first["reviewer"], first["level"]) == (2, "local", "info")
    assert first["ms"] >= 0
    assert lines[2]["refused"] == "unknown_concept"


def test_of_failures_of_one_kind_a_hundred_a_minute_are_logged_and_the_others_counted(log, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs.LOGGER.handlers[0]._rate, "_clock", lambda: now[0])
    for number in range(1_000):
        logging.getLogger("asyncio").error("socket.accept() out of system resource\nsocket: %d", number)
        logs.event("request", status=401, refused="wrong_key")
        logs.event("request", status=200)
    logs.warn("another kind")
    events = [line["event"].partition("\n")[0] for line in log()]
    assert events.count("socket.accept() out of system resource") == logs.MAX_PER_MINUTE
    assert events.count("another kind") == 1
    assert [sum(line.get("status") == status for line in log()) for status in (200, 401)] == [
        1_000,
        logs.MAX_PER_MINUTE,
    ]
    now[0] = 60.0
    logging.getLogger("asyncio").error("socket.accept() out of system resource\nsocket: 1")
    assert log()[-1]["left_out"] == 900


def test_mentions_are_logged_if_asked_for(normalizer, log):
    with client_of(normalizer, log_mentions=True) as client:
        client.post("/normalize", json={"mentions": [SECRET, "a\nb\u2028c"]})
        client.get("/search", params={"q": SECRET})
    assert [line.get("asked") for line in requests_of(log())] == [[SECRET, "a\nb\u2028c"], [SECRET]]


def test_figures_for_prometheus(normalizer):
    with client_of(normalizer, rate=0.001, burst=4) as client:
        client.post("/normalize", json={"mentions": ["seizur", "headach"]})
        client.get("/nothing-with-a-name")
        client.get("/search", params={"q": "a", "top": 0})
        client.request("BREW", "/health")
        client.get("/search", params={"q": "a"})
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'alphita_requests_total{method="POST",route="/normalize",status="200"} 1.0' in lines
    assert 'alphita_requests_total{method="GET",route="-",status="404"} 1.0' in lines
    assert 'alphita_requests_total{method="GET",route="/search",status="422"} 1.0' in lines
    assert any('method="other"' in line for line in lines)
    assert 'alphita_refused_total{code="invalid"} 1.0' in lines
    assert "alphita_queue_depth 0.0" in lines
    counts = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    # The warming up asks two times two strings.
    assert float(counts["alphita_batch_size_sum"]) == 6
    assert float(counts["alphita_batch_tokens_total"]) > 6
    assert float(counts['alphita_request_seconds_count{route="/normalize"}']) == 1
    assert "nothing-with-a-name" not in answer.text
    assert 1e7 < float(counts['alphita_memory_bytes{kind="anonymous",process="server"}']) < 1e11
    assert float(counts['alphita_cpu_seconds_total{process="server"}']) > 0


def test_the_page_is_served_to_everyone_and_nothing_beside_it(normalizer, tmp_path):
    path = tmp_path / "keys.tsv"
    keys.add(path, "ann")
    with (
        ReviewStore.open(tmp_path / "reviews.sqlite", create=True) as store,
        client_of(normalizer, store=store, keys=path) as client,
    ):
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        for name in page_paths() - {"/"}:
            assert client.get(name).status_code == 200
        for name in ("/../app.py", "/page/index.html", "/x"):
            assert client.get(name).status_code == 401


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError(SECRET), None),
        (
            InputError("no such column", field="mention", value=SECRET, remedy="name another"),
            "no such column; name another",
        ),
    ],
)
def test_an_errors_message_is_logged_without_the_value_unless_mentions_may_be(error, message):
    assert logs.describe(error, message=False).get("message") == message
    assert SECRET in json.dumps(logs.describe(error, message=True))


def test_the_page_of_the_openapi_document_needs_no_script_and_nothing_from_elsewhere(normalizer):
    with client_of(normalizer) as client:
        document = client.get("/openapi.json").json()
        page = client.get("/docs")
    responses = document["paths"]["/normalize"]["post"]["responses"]
    for status in ("413", "415", "422", "429", "503", "504"):
        assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("/Failure")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "http" not in page.text.split("<body>")[0]
    assert "'sha256-" in page.headers["content-security-policy"]
    assert all(path in page.text for path in document["paths"])
    assert "hart attack" in page.text
