"""OpenID Connect against a provider that checks what it is sent (pyop): tokens, the login, and what must not pass."""

from __future__ import annotations

import base64
import hmac
import json
import time
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey
from starlette.testclient import TestClient

from alphita.errors import UsageError
from alphita.service import app, keys, oidc
from alphita.service.settings import Settings
from tests.service.issuer import CLIENT, SECRET, issuing
from tests.service.review_service import HERE, client_of, code_of

HTTPS = "https://terms.example.org"
RIGHTS = '[coders]\nrights = ["read", "review"]\n["/heads"]\nrights = ["metrics"]\n'


@pytest.fixture(scope="module")
def issuer():
    with issuing([HERE + oidc.CALLBACK, HTTPS + oidc.CALLBACK]) as made:
        yield made


@pytest.fixture(autouse=True)
def as_new(issuer, monkeypatch):
    issuer.user, issuer.in_id_token, issuer.nonce, issuer.is_down = "ann", True, None, False
    issuer.users.update(
        ann={"preferred_username": "ann", "groups": ["coders"], "realm_access": {"roles": ["/heads"]}},
        eve={"preferred_username": "eve"},
    )
    monkeypatch.setattr(oidc, "AGAIN", 0.0)


@pytest.fixture
def options(issuer, tmp_path):
    (tmp_path / "rights.toml").write_text(RIGHTS)
    (tmp_path / "secret").write_text(SECRET + "\n")
    known = {"oidc_issuer": issuer.url, "oidc_client": CLIENT, "oidc_secret": tmp_path / "secret"}
    return {**known, "oidc_url": HERE, "rights": tmp_path / "rights.toml", "rate": 0}


@contextmanager
def server(normalizer, options, **more):
    with client_of(normalizer, **options | more) as client:
        yield client


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def begin(client, path="/login"):
    """Return the address at which the issuer sends the browser back."""
    sent = client.get(path, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    back = httpx.get(sent.headers["location"])
    assert back.status_code == 303, back.text
    return back.headers["location"]


def log_in(client, path="/login"):
    back = begin(client, path)
    assert back.startswith(HERE + oidc.CALLBACK)
    return client.get(back, follow_redirects=False)


SHARED = OctKey.import_key("x" * 32)
WHO = {"preferred_username": "ann", "groups": ["coders", 5]}
NOW = int(time.time())


@pytest.mark.parametrize(
    ("token", "status"),
    [
        pytest.param({"claims": WHO}, 200, id="as it should be"),
        pytest.param({"claims": WHO, "header": {"typ": "at+jwt"}}, 200, id="of RFC 9068"),
        pytest.param({"claims": WHO | {"aud": ["other", CLIENT]}}, 200, id="several audiences"),
        pytest.param({"claims": WHO | {"groups": "coders"}}, 200, id="one group"),
        pytest.param({"claims": WHO | {"groups": ["others"]}}, 403, id="another group"),
        pytest.param({"claims": WHO | {"groups": None}}, 403, id="no groups"),
        pytest.param({"claims": WHO | {"groups": ["*"]}}, 403, id="everyone is no group"),
        pytest.param({"claims": WHO | {"iss": "https://evil.example"}}, 401, id="another issuer"),
        pytest.param({"claims": WHO | {"iss": None}}, 401, id="no issuer"),
        pytest.param({"claims": WHO | {"aud": "other"}}, 401, id="another audience"),
        pytest.param({"claims": WHO | {"aud": None}}, 401, id="no audience"),
        pytest.param({"claims": WHO | {"exp": NOW - 3600}}, 401, id="expired"),
        pytest.param({"claims": WHO | {"exp": None}}, 401, id="for ever"),
        pytest.param({"claims": WHO | {"nbf": NOW + 3600}}, 401, id="not yet"),
        pytest.param({"claims": WHO | {"sub": None}}, 401, id="no subject"),
        pytest.param({"claims": WHO | {"preferred_username": None}}, 401, id="no name"),
        pytest.param({"claims": WHO | {"preferred_username": "a\tb"}}, 401, id="no valid name"),
        pytest.param({"claims": WHO, "header": {"alg": "none"}, "key": SHARED}, 401, id="unsigned"),
        pytest.param({"claims": WHO, "header": {"typ": "logout+jwt"}}, 401, id="of a logout"),
        pytest.param({"claims": WHO, "key": RSAKey.generate_key(2048, {"kid": "first"})}, 401, id="another key"),
        pytest.param({"claims": WHO, "header": {"kid": "unknown"}}, 401, id="unknown key"),
    ],
)
def test_a_token_of_the_issuer(normalizer, issuer, options, token, status):
    issuer.rotate("first")
    made = issuer.token(header=token.get("header"), key=token.get("key"), **token["claims"])
    with server(normalizer, options) as client:
        answer = client.get("/search?q=cold", headers=bearer(made))
        assert answer.status_code == status, answer.text
        if status == 200:
            assert client.get("/api/me", headers=bearer(made)).json()["reviewer"] == "ann"
            assert client.get("/metrics", headers=bearer(made)).status_code == 403
        for part in made.split("."):
            assert not part or part not in answer.text


def test_the_public_key_is_no_shared_secret(normalizer, issuer, options):
    issuer.rotate("first")
    said, _ = issuer.token(header={"alg": "HS256"}, key=SHARED, **WHO).rsplit(".", 1)
    with server(normalizer, options) as client:
        for secret in (issuer.key.as_pem(private=False), issuer.key.as_der(private=False), b"x", b""):
            signed = base64.urlsafe_b64encode(hmac.digest(secret, said.encode(), "sha256")).decode().rstrip("=")
            assert code_of(client.get("/search?q=cold", headers=bearer(f"{said}.{signed}"))) == "wrong_token"


def test_new_keys_of_the_issuer_are_found_and_old_ones_forgotten(normalizer, issuer, options):
    issuer.rotate("first")
    with server(normalizer, options) as client:
        old = issuer.token(**WHO)
        assert client.get("/search?q=cold", headers=bearer(old)).status_code == 200
        asked = len(issuer.asked)
        assert client.get("/search?q=cold", headers=bearer(old)).status_code == 200
        assert len(issuer.asked) == asked
        issuer.rotate("second")
        new = issuer.token(header={"kid": "second"}, **WHO)
        assert client.get("/search?q=cold", headers=bearer(new)).status_code == 200
        assert client.get("/search?q=cold", headers=bearer(old)).status_code == 401


def test_unknown_keys_do_not_make_it_ask_the_issuer_again_and_again(normalizer, issuer, options, monkeypatch):
    issuer.rotate("first")
    monkeypatch.setattr(oidc, "AGAIN", 60.0)
    with server(normalizer, options) as client:
        assert client.get("/search?q=cold", headers=bearer(issuer.token(**WHO))).status_code == 200
        asked = len(issuer.asked)
        for kid in "abc":
            assert client.get("/search?q=cold", headers=bearer(issuer.token(header={"kid": kid}))).status_code == 401
        assert len(issuer.asked) == asked


def test_an_issuer_that_does_not_answer_keeps_no_key_from_working(normalizer, issuer, options, tmp_path):
    key = keys.add(tmp_path / "keys.tsv", "etl", roles=["reader"])
    issuer.is_down = True
    with server(normalizer, options, keys=tmp_path / "keys.tsv") as client:
        answer = client.get("/search?q=cold", headers=bearer(issuer.token(**WHO)))
        assert (answer.status_code, code_of(answer)) == (503, "issuer_unreachable")
        assert client.get("/login", follow_redirects=False).status_code == 503
        assert client.get("/search?q=cold", headers=bearer(key)).status_code == 200
        assert client.get("/health").status_code == 200
        issuer.is_down = False
        assert client.get("/search?q=cold", headers=bearer(issuer.token(**WHO))).status_code == 200


@pytest.mark.parametrize("in_id_token", [True, False])
def test_who_logs_in_has_the_rights_of_their_groups_until_they_log_out(
    normalizer, issuer, options, in_id_token, tmp_path
):
    issuer.in_id_token, log = in_id_token, tmp_path / "audit.jsonl"
    with server(normalizer, options | {"audit": log}) as client:
        assert code_of(client.get("/api/me")) == "no_session"
        done = log_in(client, "/login?next=/%23lab")
        assert (done.status_code, done.headers["location"]) == (303, f"{HERE}/#lab")
        set_now = [cookie for cookie in done.headers.get_list("set-cookie") if cookie.startswith("alphita=")]
        assert all(f"; {part}" in set_now[0] for part in ("HttpOnly", "SameSite=lax", "Path=/"))
        assert "Secure" not in set_now[0]
        me = client.get("/api/me").json()
        assert (me["reviewer"], me["rights"], me["login"]) == ("ann", ["read", "review"], True)
        assert client.get("/metrics").status_code == 403
        # The cookie is for our own page alone.
        for site in ("cross-site", "same-site"):
            assert client.get("/api/me", headers={"Sec-Fetch-Site": site}).status_code == 401
        assert client.post("/logout", headers={"Origin": "https://evil.example"}).status_code == 403
        cookie = client.cookies["alphita"]
        ended = client.post("/logout").json()["url"]
        assert {"id_token_hint", "post_logout_redirect_uri"} <= parse_qs(urlsplit(ended).query).keys()
        back = httpx.get(ended)
        assert (back.status_code, back.headers["location"].rstrip("?")) == (303, f"{HERE}/")
        assert "alphita" not in client.cookies
        assert client.get("/api/me", headers={"Cookie": f"alphita={cookie}"}).status_code == 401
    told = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "answered"]
    ins_and_outs = [(line["route"], line.get("user"), line["status"]) for line in told if "/log" in line["route"]]
    assert ins_and_outs == [("/login/callback", "ann", 303), ("/logout", "ann", 200)]


def test_groups_may_be_a_claim_within_another(normalizer, issuer, options):
    with server(normalizer, options, oidc_groups="realm_access.roles") as client:
        log_in(client)
        assert client.get("/api/me").json()["rights"] == ["metrics"]


def test_the_rights_follow_the_file_and_a_session_ends(normalizer, issuer, options, monkeypatch):
    monkeypatch.setattr(keys, "LOOK", 0.0)
    with server(normalizer, options) as client:
        log_in(client)
        assert client.get("/metrics").status_code == 403
        options["rights"].write_text(RIGHTS.replace('"review"', '"metrics"'))
        assert client.get("/metrics").status_code == 200
        late = time.monotonic() + oidc.SESSION_SECONDS + 1
        monkeypatch.setattr(oidc.time, "monotonic", lambda: late)
        assert client.get("/metrics").status_code == 401


def test_behind_https_the_cookies_are_of_this_host_alone(normalizer, issuer, options):
    made = app.create(Settings(**options | {"oidc_url": HTTPS}), normalizer)
    with TestClient(made, base_url=HTTPS) as client:
        back = begin(client)
        assert back.startswith(HTTPS + oidc.CALLBACK)
        done = client.get(back, follow_redirects=False)
        cookies = [cookie for cookie in done.headers.get_list("set-cookie") if "Max-Age=0" not in cookie]
        assert [cookie.split("=")[0] for cookie in cookies] == ["__Host-alphita"]
        assert "; Secure" in cookies[0]
        assert client.get("/api/me").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("//evil.example", "https://evil.example", "/\\evil.example", "@evil.example", ".evil.example", ":80@evil"),
        *("javascript:alert(1)", "/\t/evil.example", "\n//evil.example", "", " /", "/a\r\nSet-Cookie: a=b"),
    ],
)
def test_a_login_leads_back_to_this_server_alone(normalizer, issuer, options, path):
    with server(normalizer, options) as client:
        done = log_in(client, str(httpx.URL("/login", params={"next": path})))
        assert done.headers["location"] == f"{HERE}/"


def refused(client, address):
    answer = client.get(address, follow_redirects=False)
    assert answer.status_code == 401, answer.text
    assert "Not logged in" in answer.text
    assert "alphita" not in client.cookies
    assert client.get("/api/me").status_code == 401


def test_a_login_that_another_browser_began_is_refused(normalizer, issuer, options):
    with server(normalizer, options) as client:
        back = begin(client)
        client.cookies.clear()
        refused(client, back)
        begin(client)
        refused(client, back)


def test_a_login_counts_once(normalizer, issuer, options):
    with server(normalizer, options) as client:
        back = begin(client)
        cookie = client.cookies["alphita-login"]
        assert client.get(back, follow_redirects=False).status_code == 303
        client.cookies.clear()
        refused(client, back)
        # Nor if the browser had kept the cookie.
        client.cookies.set("alphita-login", cookie)
        refused(client, back)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda back: back.replace("state=", "state=x"), id="state"),
        pytest.param(lambda back: back.replace("state=", "other="), id="no state"),
        pytest.param(lambda back: back.replace("code=", "code=x"), id="code"),
        pytest.param(lambda back: back.replace("code=", "other="), id="no code"),
    ],
)
def test_a_return_that_was_changed_is_refused(normalizer, issuer, options, change):
    with server(normalizer, options) as client:
        refused(client, change(begin(client)))


def test_a_token_of_another_login_is_refused(normalizer, issuer, options):
    issuer.nonce = "another"
    with server(normalizer, options) as client:
        refused(client, begin(client))


def test_whom_the_issuer_refuses_is_told(normalizer, issuer, options):
    issuer.user = "nobody"
    with server(normalizer, options) as client:
        refused(client, begin(client))


def test_the_code_is_for_who_has_the_verifier_and_the_secret(normalizer, issuer, options, tmp_path, monkeypatch):
    with server(normalizer, options) as client:
        back = begin(client)
        own = oidc._derived
        monkeypatch.setattr(oidc, "_derived", lambda secret, name: own(secret, name + "x" * (name == "code_verifier")))
        refused(client, back)
    monkeypatch.undo()
    (tmp_path / "secret").write_text("wrong")
    with server(normalizer, options) as client:
        refused(client, begin(client))


def test_a_session_is_of_nobody_who_knew_the_cookie_before_or_made_it_up(normalizer, issuer, options):
    with server(normalizer, options) as client, server(normalizer, options) as other:
        client.cookies.set("alphita", "fixed", domain="127.0.0.1", path="/")
        log_in(client)
        cookie = client.cookies["alphita"]
        assert cookie != "fixed"
        assert client.get("/api/me").status_code == 200
        first = cookie
        log_in(client)
        # A new login is a new session, and ends the one before.
        for made_up in ("fixed", "", first, client.cookies["alphita"] + "x"):
            answer = other.get("/api/me", headers={"Cookie": f"alphita={made_up}"})
            assert answer.status_code == 401
        current = client.cookies["alphita"]
        client.cookies.clear()
        assert client.get("/api/me", headers={"Cookie": f"alphita={first}"}).status_code == 401
        assert client.get("/api/me", headers={"Cookie": f"alphita={current}"}).status_code == 200
        # Nor one of another server.
        assert other.get("/api/me", headers={"Cookie": f"alphita={current}"}).status_code == 401


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"oidc_client": None}, "needs --oidc-client"),
        ({"rights": None}, "--rights to say"),
        ({"oidc_issuer": None}, "need --oidc-issuer"),
        ({"oidc_issuer": "http://sso.example.org"}, "must begin with https://"),
        ({"oidc_url": "http://terms.example.org"}, "must begin with https://"),
        ({"trust_user_header": "X-User"}, "not both"),
    ],
)
def test_options_that_do_not_go_together(options, given, problem):
    with pytest.raises(UsageError, match=problem):
        Settings(**options | given).check()
