"""Logins and tokens: an issuer that hangs, tokens made for something else, one who logs in without end."""

from __future__ import annotations

import asyncio
import time

import pytest

from alphita.service import keys, oidc
from alphita.service.failures import Refusal
from alphita.service.settings import Settings
from tests.service.review_service import code_of
from tests.service.test_oidc import WHO, as_new, bearer, issuer, log_in, options, server

__all__ = ["as_new", "issuer", "options"]


@pytest.mark.parametrize("is_known", [True, False], ids=["keys are known", "nothing is known"])
def test_an_issuer_that_hangs_holds_only_who_needs_something_new(issuer, options, monkeypatch, is_known):
    issuer.rotate("first")
    monkeypatch.setattr(oidc, "TIMEOUT", 1.0)
    made, hung = oidc.Issuer(Settings(**options)), asyncio.Event()
    known, unknown = issuer.token(**WHO), issuer.token(header={"kid": "made up"}, **WHO)

    async def hang() -> None:
        hung.set()
        await asyncio.sleep(20)

    async def attack() -> tuple[float, float]:
        if is_known:
            await made.of_token(known)
        monkeypatch.setattr(made, "read", hang)
        monkeypatch.setattr(oidc, "AGAIN", 0.2)
        await asyncio.sleep(0.2)
        began = time.monotonic()
        attackers = [asyncio.create_task(made.of_token(unknown)) for _ in range(50)]
        await hung.wait()
        (told,) = await asyncio.gather(made.of_token(known), return_exceptions=True)
        assert (told.name if is_known else told.code) == ("ann" if is_known else "issuer_unreachable")
        user = time.monotonic() - began
        refused = await asyncio.gather(*attackers, return_exceptions=True)
        assert {type(one) for one in refused} == {Refusal}
        return user, time.monotonic() - began

    user, all_ = asyncio.run(attack())
    assert user < (0.9 if is_known else 3.0)
    assert all_ < 3.0


OF_LOGINS = {
    "what only an ID token has": {"nonce": "n"},
    "a hash of the access token": {"at_hash": "x"},
    "Keycloak's ID token": {"typ": "ID"},
    "Keycloak's access token": {"typ": "Bearer", "nonce": "n"},
}


@pytest.mark.parametrize("claims", OF_LOGINS.values(), ids=OF_LOGINS)
def test_a_token_of_a_login_is_no_access_token(normalizer, issuer, options, claims):
    issuer.rotate("first")
    with server(normalizer, options) as client:
        answer = client.get("/search?q=cold", headers=bearer(issuer.token(**WHO | claims)))
        assert answer.status_code == (200 if claims.get("typ") == "Bearer" else 401), answer.text


def test_who_logs_in_without_end_ends_nobody_elses_session(normalizer, issuer, options, monkeypatch):
    monkeypatch.setattr(oidc, "MAX_SESSIONS", 4)
    monkeypatch.setattr(oidc, "MAX_SESSIONS_EACH", 2)
    with server(normalizer, options) as client:
        assert log_in(client).status_code == 303
        ann = client.cookies[oidc.SESSION]
        issuer.user = "eve"
        for _ in range(4):
            client.cookies.clear()
            assert log_in(client).status_code == 303
        client.cookies.clear()
        client.cookies[oidc.SESSION] = ann
        assert client.get("/api/me").json()["reviewer"] == "ann"


@pytest.mark.parametrize(
    "sent", ["alphita=", " alphita=", "x=y;\talphita=", "\xa0alphita=", "\x85alphita=", "=alphita="]
)
def test_a_name_that_browsers_do_not_take_for_the_cookie_is_not_it(normalizer, issuer, options, sent):
    with server(normalizer, options) as client:
        assert log_in(client).status_code == 303
        cookie = sent.encode("latin-1") + client.cookies[oidc.SESSION].encode()
        client.cookies.clear()
        answer = client.get("/api/me", headers={b"Cookie": cookie})
        assert answer.status_code == (200 if sent.strip(" \t").startswith(("a", "x")) else 401)


@pytest.mark.parametrize(("path", "count"), [("/login", 3), ("/api/me", 21)])
def test_behind_a_proxy_one_stranger_leaves_the_others_their_turn(
    normalizer, issuer, options, monkeypatch, path, count
):
    monkeypatch.setattr(keys, "WRONG_A_SECOND", 0.01)
    with server(normalizer, options, rate=0.01, burst=2) as client:
        for _ in range(count):
            answer = client.get(path, headers={"X-Forwarded-For": "10.6.6.6"}, follow_redirects=False)
        assert code_of(answer) == "too_many_requests"
        answer = client.get(path, headers={"X-Forwarded-For": "10.1.1.1"}, follow_redirects=False)
        assert answer.status_code in (303, 401)
