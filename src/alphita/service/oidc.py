"""OpenID Connect: access tokens of an issuer, and its login in a browser, whose session is known by a cookie.

Specifications: OpenID Connect Core 1.0, Discovery 1.0 and RP-Initiated Logout 1.0; PKCE (RFC 7636).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from html import escape
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.datastructures import Headers
from starlette.responses import Response

from alphita import clock, textio
from alphita.errors import AlphitaError, require
from alphita.service import audit, logs, pages
from alphita.service.failures import Refusal
from alphita.service.limits import OWN_PAGES
from alphita.service.settings import Settings

# A secret that both sides know is no signature of the issuer's.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
TYPES = ("jwt", "at+jwt", "application/at+jwt")
SCOPES = ("openid", "profile", "email", "groups")
# Seconds that the issuer's documents are kept, and before they are asked for again; that clocks may differ.
KEPT, AGAIN, LEEWAY = 3_600.0, 5.0, 60
TIMEOUT = 10.0
# Seconds of a session and of a login, and how many sessions are remembered, in all and of one user.
SESSION_SECONDS, LOGIN_SECONDS, MAX_SESSIONS, MAX_SESSIONS_EACH = 8 * 3_600, 600, 10_000, 20
SESSION, LOGIN = "alphita", "alphita-login"
CALLBACK = "/login/callback"
_OWN_PATH = re.compile(r"/(?![/\\])[!-~]*")


class Person(NamedTuple):
    """Whom the issuer names, and their groups."""

    name: str
    groups: frozenset[str]


class Session(NamedTuple):
    """A login; `until` in seconds of `time.monotonic`."""

    person: Person
    until: float
    id_token: str


class Issuer:
    """An issuer, the sessions that were begun there, and what it says of itself, asked for when it is needed."""

    def __init__(self, settings: Settings) -> None:
        require("authlib", "oidc")
        self.settings = settings
        self._is_https = settings.url.startswith("https:")
        self._metadata: dict[str, Any] = {}
        self._keys: Any = None
        self._asked, self._lock = -KEPT, asyncio.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    async def metadata(self, *, anew: bool = False) -> dict[str, Any]:
        """Return what the issuer says of itself, as it was read within the hour; `anew`: within seconds.

        While one request waits for the issuer, those that need nothing new go on by what is known.
        """
        if anew or not self._metadata or (self._is_due() and not self._lock.locked()):
            async with self._lock:
                if self._is_due(anew):
                    await self._ask()
        if not self._metadata:
            problem = "the OpenID Connect issuer does not answer"
            raise Refusal(503, "issuer_unreachable", problem, retry_after=AGAIN)
        return self._metadata

    def _is_due(self, anew: bool = False) -> bool:
        return time.monotonic() - self._asked >= (KEPT if self._metadata and not anew else AGAIN)

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.read()
        except (AlphitaError, TimeoutError) as error:
            logs.LOGGER.error("the issuer does not answer", exc_info=error)
        finally:
            # Of those that waited meanwhile, none asks again.
            self._asked = time.monotonic()

    async def read(self) -> None:
        """Read what the issuer says of itself, and its keys."""
        from httpx2 import HTTPError
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        issuer = str(self.settings.oidc_issuer)
        try:
            async with self._client() as client:
                found = await _json(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != issuer:
                    raise AlphitaError(f"{issuer} calls itself {found.get('issuer')!r}: use that as --oidc-issuer")
                keys: Any = await _json(client, found["jwks_uri"])
            self._keys, self._metadata = KeySet.import_key_set(keys), found
        except (HTTPError, JoseError, ValueError, KeyError, TypeError) as error:
            why = str(error).partition("\n")[0] if isinstance(error, HTTPError) else repr(error)
            raise AlphitaError(f"{issuer} does not answer as an OpenID Connect issuer: {why}") from None

    async def of_token(self, token: str) -> Person:
        """Return whom an access token names."""
        settings = self.settings
        claims = await self._claims(token, settings.oidc_audience or str(settings.oidc_client))
        if _is_of_login(claims):
            raise Refusal(401, "wrong_token", "this is an ID token; send an access token")
        return self._person(claims)

    def of_session(self, headers: Headers) -> Person:
        """Return who logged in, by the cookie of a request of our own page."""
        found = self._sessions.get(_digest(self._sent(headers, SESSION)))
        if found is None or found.until < time.monotonic() or headers.get("sec-fetch-site", "none") not in OWN_PAGES:
            raise Refusal(401, "no_session", "log in at /login, or give a token or a key: Authorization: Bearer TOKEN")
        return found.person

    async def begin(self, back_to: str) -> Response:
        """Send a browser to the issuer; its cookie holds what state, nonce and verifier are derived from."""
        metadata, secret = await self.metadata(), secrets.token_urlsafe(32)
        said = {name: _derived(secret, name) for name in ("state", "nonce", "code_verifier")}
        supported = metadata.get("scopes_supported") or SCOPES[:3]
        async with self._client(scope=" ".join(scope for scope in SCOPES if scope in supported)) as client:
            url, _ = client.create_authorization_url(metadata["authorization_endpoint"], **said)
        response = RedirectResponse(url, 303)
        self._set(response, LOGIN, f"{secret}.{quote(back_to, safe='')}", LOGIN_SECONDS)
        return response

    async def finish(self, request: Request) -> Response:
        """Take the browser's return from the issuer, and begin a session under a new name."""
        from authlib.integrations.base_client import OAuthError
        from httpx2 import HTTPError

        metadata, query = await self.metadata(), request.query_params
        secret, _, back_to = self._sent(request.headers, LOGIN).partition(".")
        told = hmac.compare_digest(query.get("state", "").encode(), _derived(secret, "state").encode())
        if not secret or not told:
            raise Refusal(401, "login_failed", "this login was not begun in this browser, or has ended already")
        if "code" not in query:
            raise Refusal(401, "login_failed", "the issuer did not let you in")
        try:
            async with self._client() as client:
                verifier = _derived(secret, "code_verifier")
                token = await client.fetch_token(metadata["token_endpoint"], code=query["code"], code_verifier=verifier)
                client_id, nonce = str(self.settings.oidc_client), _derived(secret, "nonce")
                claims = await self._claims(token.get("id_token", ""), client_id, nonce)
                wanted = [_claim(claims, name) for name in (self.settings.oidc_name, self.settings.oidc_groups)]
                if None in wanted and "userinfo_endpoint" in metadata:
                    more = await _json(client, metadata["userinfo_endpoint"], withhold_token=False)
                    claims = more | claims if more.get("sub") == claims["sub"] else claims
        except (HTTPError, OAuthError, ValueError, TypeError) as error:
            logs.LOGGER.error("a login failed", exc_info=error)
            raise Refusal(401, "login_failed", "the issuer did not confirm this login; log in again") from None
        person = self._person(claims)
        audit.note(user=person.name)
        session = Session(person, time.monotonic() + SESSION_SECONDS, token["id_token"])
        name = secrets.token_urlsafe(32)
        self._sessions.pop(_digest(self._sent(request.headers, SESSION)), None)
        self._sessions[_digest(name)] = session
        theirs = [one for one, of in self._sessions.items() if of.person.name == person.name]
        for one in theirs[:-MAX_SESSIONS_EACH] or [*self._sessions][:-MAX_SESSIONS]:
            del self._sessions[one]
        own = unquote(back_to) if _OWN_PATH.fullmatch(unquote(back_to)) else "/"
        response = RedirectResponse(self.settings.url + own, 303)
        self._set(response, SESSION, name, SESSION_SECONDS)
        self._set(response, LOGIN, "", 0)
        return response

    def end(self, request: Request) -> Response:
        """End a session, and tell where to end it at the issuer, too."""
        session = self._sessions.pop(_digest(self._sent(request.headers, SESSION)), None)
        ending, url = self._metadata.get("end_session_endpoint"), self.settings.url + "/"
        if session is not None and ending:
            said = {"id_token_hint": session.id_token, "client_id": self.settings.oidc_client}
            url = f"{ending}?{urlencode(said | {'post_logout_redirect_uri': url})}"
        response = JSONResponse({"url": url})
        self._set(response, SESSION, "", 0)
        return response

    def _client(self, **more: Any) -> Any:  # noqa: ANN401 - Authlib has no types
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        settings = self.settings
        secret = (
            textio.read_text(textio.plain(settings.oidc_secret)).strip() if settings.oidc_secret is not None else None
        )
        methods = self._metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        by = "none" if secret is None else next((one for one in BY_SECRET if one in methods), BY_SECRET[0])
        url = settings.url + CALLBACK
        how = {"code_challenge_method": "S256", "token_endpoint_auth_method": by, "timeout": TIMEOUT}
        return AsyncOAuth2Client(settings.oidc_client, secret, redirect_uri=url, **how, **more)

    async def _claims(self, token: str, audience: str, nonce: str | None = None) -> dict[str, Any]:
        """Return what a token of the issuer's claims, for this audience and (an ID token) this login."""
        from joserfc import errors, jwt
        from joserfc.jws import JWSRegistry

        await self.metadata()
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        values = {"iss": self.settings.oidc_issuer, "aud": audience} | ({"nonce": nonce} if nonce else {})
        needed: dict[str, Any] = {name: {"essential": True, "value": value} for name, value in values.items()}
        needed |= {name: {"essential": True} for name in ("exp", "sub")}
        rules = jwt.JWTClaimsRegistry(now=int(clock.now().timestamp()), leeway=LEEWAY, **needed)
        try:
            try:
                decoded = jwt.decode(token, self._keys, registry=registry)
            except errors.InvalidKeyIdError:
                # The issuer may have new keys.
                await self.metadata(anew=True)
                decoded = jwt.decode(token, self._keys, registry=registry)
            rules.validate(decoded.claims)
        except (errors.JoseError, ValueError) as error:
            why = getattr(error, "error", "") or type(error).__name__
            raise Refusal(401, "wrong_token", f"this token of the issuer is not valid here: {why}") from None
        if str(decoded.header.get("typ", "JWT")).lower() not in TYPES:
            raise Refusal(401, "wrong_token", "this token is not for access")
        return dict(decoded.claims)

    def _person(self, claims: dict[str, Any]) -> Person:
        name, groups = (_claim(claims, one) for one in (self.settings.oidc_name, self.settings.oidc_groups))
        if not isinstance(name, str):
            raise Refusal(401, "no_user", f"the issuer says no {self.settings.oidc_name!r}; see --oidc-name")
        several = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Person(name, frozenset(group for group in several if isinstance(group, str)))

    def _named(self, cookie: str) -> str:
        """Return a cookie's name; with the prefix no other host and no http page can set it."""
        return f"__Host-{cookie}" if self._is_https else cookie

    def _sent(self, headers: Headers, cookie: str) -> str:
        """Return a cookie's value; "" if it was not sent.

        No other blanks are cut off than those that browsers put there, for a name with one before it has no prefix.
        """
        pairs = (pair.strip(" \t").partition("=") for pair in headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self._named(cookie)), "")

    def _set(self, response: Response, cookie: str, value: str, seconds: int) -> None:
        response.set_cookie(self._named(cookie), value, seconds, secure=self._is_https, httponly=True, samesite="lax")


BY_SECRET = ("client_secret_basic", "client_secret_post")


def router(issuer: Issuer) -> APIRouter:
    """Return the routes of the login."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/login")
    async def login(back_to: Annotated[str, Query(alias="next", max_length=1_000)] = "/") -> Response:
        return await issuer.begin(back_to)

    @routes.get(CALLBACK)
    async def logged_in(request: Request) -> Response:
        try:
            return await issuer.finish(request)
        except Refusal as refusal:
            again = "<p><a href='/login'>Log in again</a></p>"
            page = pages.respond("Alphita", [f"<h1>Not logged in</h1><p>{escape(refusal.message)}</p>", again])
            request.state.refused, page.status_code = refusal.code, refusal.status
            return page

    @routes.post("/logout")
    async def logout(request: Request) -> Response:
        return issuer.end(request)

    return routes


async def _json(client: Any, url: str, *, withhold_token: bool = True) -> dict[str, Any]:  # noqa: ANN401
    response = await client.request("GET", url, withhold_token=withhold_token)
    found = response.raise_for_status().json()
    if not isinstance(found, dict):
        raise TypeError("not an object")
    return found


def _claim(claims: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a claim by its name, or by its path through others."""
    found: Any = claims
    for part in [name] if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _is_of_login(claims: dict[str, Any]) -> bool:
    """Tell whether claims are an ID token's, which passes through the browser's addresses; Keycloak says in `typ`."""
    kind = claims.get("typ")
    return kind == "ID" or (kind != "Bearer" and not claims.keys().isdisjoint(("nonce", "at_hash", "c_hash")))


def _derived(secret: str, name: str) -> str:
    """Return one of several values that only who has the secret can tell."""
    made = hmac.digest(secret.encode("utf-8", "surrogateescape"), name.encode(), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
