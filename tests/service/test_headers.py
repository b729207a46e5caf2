from __future__ import annotations

import pytest

from tests.service.asking import client_of, code_of

QUESTION = {"mentions": ["cold"]}


def test_every_answer_has_the_security_headers(normalizer):
    with client_of(normalizer, max_body=100) as client:
        answers = [
            client.get("/health"),
            client.get("/nothing"),
            client.post("/normalize", content=b"x" * 200),
            client.put("/search"),
            client.post("/normalize", json={}),
            client.get("/search?q=x"),
        ]
    assert {one.status_code for one in answers} == {200, 404, 413, 405, 422}
    for one in answers:
        assert "default-src 'none'" in one.headers["content-security-policy"]
        assert "unsafe" not in one.headers["content-security-policy"]
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["cache-control"] == "no-store"
        assert one.headers["x-request-id"]
        assert "server" not in one.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:8080"},
    ],
)
def test_another_sites_page_may_not_change_anything(normalizer, headers):
    with client_of(normalizer) as client:
        refused = client.post("/normalize", json=QUESTION, headers=headers)
        assert refused.status_code == 403
        assert code_of(refused) == "other_site"


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://127.0.0.1:8080"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
)
def test_its_own_page_and_programs_may(normalizer, headers):
    with client_of(normalizer) as client:
        assert client.post("/normalize", json=QUESTION, headers=headers).status_code == 200


def test_a_name_that_is_not_its_own_is_refused(normalizer):
    with client_of(normalizer, hosts=("localhost", "127.0.0.1", "::1")) as client:
        for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"):
            assert client.get("/health", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8080", "", "[", "a@localhost:b"):
            refused = client.get("/health", headers={"Host": host})
            assert refused.status_code == 403, host
            assert code_of(refused) == "wrong_host"
