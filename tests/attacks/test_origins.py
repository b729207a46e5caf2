"""Pages of other origins (CORS): only those that are allowed, and never with a browser's own credentials."""

from __future__ import annotations

import pytest

from alphita.errors import UsageError
from alphita.service import keys
from alphita.service.settings import Settings
from tests.service.review_service import client_of, code_of

PAGE = "http://127.0.0.1:3333"
OTHERS = (
    *("http://127.0.0.1:3334", "https://127.0.0.1:3333", "http://127.0.0.1:3333.evil.example", "null", "*", ""),
    *("http://evil.example", "HTTP://127.0.0.1:3333", f"{PAGE}/", f"{PAGE}, http://evil.example", f"x{PAGE}"),
)
ASKED = [
    ("GET", "/health", None),
    ("GET", "/search?q=cold", None),
    ("POST", "/normalize", {"json": {"mentions": ["cold"]}}),
    ("GET", "/fhir/r4/metadata", None),
    ("POST", "/fhir/r4", {"json": {"resourceType": "Bundle", "type": "batch"}}),
    ("GET", "/reconcile", None),
    ("POST", "/reconcile", {"data": {"queries": '{"q": {"query": "cold"}}'}}),
]
CORS = "access-control-"


def cors(answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith(CORS)}


@pytest.mark.parametrize(("method", "path", "sent"), ASKED)
def test_off_unless_it_is_asked_for(normalizer, method, path, sent):
    with client_of(normalizer) as client:
        answer = client.request(method, path, headers={"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}, **sent or {})
        assert cors(answer) == {}
        assert answer.status_code == (200 if method == "GET" else 403)
        assert cors(client.options(path, headers={"Origin": PAGE, "Access-Control-Request-Method": method})) == {}


@pytest.mark.parametrize(("method", "path", "sent"), ASKED)
def test_an_allowed_page_reads_every_answer(normalizer, method, path, sent):
    with client_of(normalizer, origins=(PAGE, "https://example.org")) as client:
        headers = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
        answer = client.request(method, path, headers=headers, **sent or {})
        assert answer.status_code == 200
        assert cors(answer)["access-control-allow-origin"] == PAGE
        assert "origin" in answer.headers["vary"].lower()
        asked = {"Origin": PAGE, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "x"}
        before = client.options(path, headers=asked)
        assert (before.status_code, before.content) == (204, b"")
        assert {"POST", "GET"} <= {*before.headers["access-control-allow-methods"].split(", ")}
        # A browser sends no cookies and no password that it keeps.
        assert "access-control-allow-credentials" not in {**cors(before), **cors(answer)}
        for origin in OTHERS:
            answer = client.request(method, path, headers=headers | {"Origin": origin}, **sent or {})
            assert cors(answer) == {}, origin
            assert answer.status_code == (200 if method == "GET" else 403)
            if method != "GET" and not path.startswith("/fhir"):
                assert code_of(answer) == "other_site"


def test_an_allowed_page_has_no_more_rights_than_others(normalizer, tmp_path):
    """It needs a key and one of the server's own names, and reads why it is refused."""
    path = tmp_path / "keys.tsv"
    path.write_text(f"ann\t{keys.digest('secret')}\n")
    with client_of(normalizer, origins=(PAGE,), keys=path, hosts=("127.0.0.1",), max_body=100) as client:
        page = {"Origin": PAGE}
        asked = page | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        before = client.options("/normalize", headers=asked)
        assert before.status_code == 204
        assert "Authorization" in before.headers["access-control-allow-headers"]
        for headers, body, status in (
            (page, {"mentions": ["cold"]}, 401),
            (page | {"Authorization": "Bearer wrong"}, {"mentions": ["cold"]}, 401),
            (page | {"Authorization": "Bearer secret"}, {"mentions": ["cold"]}, 200),
            (page | {"Authorization": "Bearer secret"}, {"mentions": ["cold" * 100]}, 413),
        ):
            answer = client.post("/normalize", json=body, headers=headers)
            assert answer.status_code == status
            assert cors(answer)["access-control-allow-origin"] == PAGE
        for path in ("/reconcile", "/reconcile/preview?id=T:1", "/reconcile/suggest/entity?prefix=c", "/fhir/r4"):
            assert client.get(path).status_code == 401
        rebound = client.get("/health", headers=page | {"Host": "evil.example"})
        assert (rebound.status_code, cors(rebound)) == (403, {})
        assert client.options("/normalize", headers=asked | {"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:3333", "https://example.org", "http://[::1]:3333", "http://a.b:81"]
)
def test_origins(origin):
    Settings(origins=(origin,)).check()


WRONG = ("*", "null", "", "example.org", "https://example.org/", "https://*.example.org", "https://example.org:443")
WRONG += ("http://Example.org", "ftp://a", "https://a b", "https://a;b", "https://a'b", "http://a@b", "http://a:80")


@pytest.mark.parametrize("origin", WRONG)
def test_what_is_no_origin(origin):
    with pytest.raises(UsageError, match="origin of a page"):
        Settings(origins=(origin,)).check()
