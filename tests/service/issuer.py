"""A provider of OpenID Connect by pyop, which checks clients, return addresses, codes and PKCE, over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from Cryptodome.PublicKey import RSA
from joserfc import jwt
from joserfc.jwk import RSAKey
from jwkest.jwk import RSAKey as SigningKey
from oic.oic.message import EndSessionRequest
from pyop.authz_state import AuthorizationState
from pyop.exceptions import InvalidAuthorizationCode, InvalidClientAuthentication, InvalidTokenRequest
from pyop.provider import Provider
from pyop.subject_identifier import HashBasedSubjectIdentifierFactory
from pyop.userinfo import Userinfo
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.service.page_service import serving

CLIENT, SECRET = "alphita", "the client's secret"


class Issuer:
    """The provider.

    Attributes:
        user: who logs in at the next authorization; users: their claims, by name.
        in_id_token: claims that are in the ID token, and not only asked for at /userinfo.
        nonce: what an ID token has instead of the nonce that was sent; None: that.
        is_down: it answers nothing.
    """

    def __init__(self, url: str, returns: list[str]) -> None:
        self.url = url
        self.users: dict[str, dict[str, Any]] = {}
        self.user, self.in_id_token, self.nonce = "ann", True, None
        self.is_down, self.asked = False, list[str]()
        client = {
            "response_types": ["code"],
            "redirect_uris": returns,
            "client_secret": SECRET,
            "token_endpoint_auth_method": "client_secret_basic",
            "post_logout_redirect_uris": ["http://127.0.0.1:8080/"],
            "subject_type": "public",
        }
        facts = {
            "issuer": url,
            "jwks_uri": f"{url}/jwks",
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "userinfo_endpoint": f"{url}/userinfo",
            "end_session_endpoint": f"{url}/logout",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "scopes_supported": ["openid", "profile", "email"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        state = AuthorizationState(HashBasedSubjectIdentifierFactory("salt"))
        scopes = {"groups": ["groups"]}
        # It would itself be served by https alone.
        said = {name: f"https:{value[5:]}" if value[:5] == "http:" else value for name, value in facts.items()}
        self.provider = Provider(None, said, state, {CLIENT: client}, Userinfo(self.users), extra_scopes=scopes)
        for name in said:
            self.provider.configuration_information[name] = facts[name]
        self.rotate("first")

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on, and publish no other."""
        self.key = RSAKey.generate_key(2048, {"kid": kid})
        self.provider.signing_key = SigningKey(
            key=RSA.import_key(self.key.as_pem(private=True)), kid=kid, alg="RS256", use="sig"
        )

    def token(self, *, header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """Return an access token; a claim None is left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 300, "preferred_username": "ann"}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        head = {"alg": "RS256", "kid": "first"} | (header or {})
        return jwt.encode(head, said, key or self.key, algorithms=["RS256", "HS256", "none"])

    async def answer(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if self.is_down:
            return PlainTextResponse("down", 500)
        if request.url.path == "/jwks":
            return JSONResponse(self.provider.jwks)
        return JSONResponse(self.provider.provider_configuration.to_dict())

    async def authorize(self, request: Request) -> Response:
        asked = self.provider.parse_authentication_request(request.url.query)
        assert asked["code_challenge_method"] == "S256"
        if self.nonce is not None:
            asked["nonce"] = self.nonce
        if self.user == "nobody":
            return RedirectResponse(f"{asked['redirect_uri']}?error=access_denied&state={asked['state']}", 303)
        answer = self.provider.authorize(asked, self.user)
        return RedirectResponse(answer.request(asked["redirect_uri"]), 303)

    async def give_token(self, request: Request) -> Response:
        body, more = (await request.body()).decode(), self.users[self.user] if self.in_id_token else {}
        try:
            headers = {"Authorization": request.headers.get("authorization")}
            given = self.provider.handle_token_request(body, headers, extra_id_token_claims=dict(more))
        except (InvalidTokenRequest, InvalidAuthorizationCode, InvalidClientAuthentication) as error:
            return JSONResponse({"error": "invalid_grant", "error_description": str(error)}, 400)
        return JSONResponse(given.to_dict())

    async def userinfo(self, request: Request) -> Response:
        headers = {"Authorization": request.headers["authorization"]}
        return JSONResponse(self.provider.handle_userinfo_request("", headers).to_dict())

    async def logout(self, request: Request) -> Response:
        asked = EndSessionRequest().deserialize(request.url.query)
        self.provider.logout_user(end_session_request=asked)
        return RedirectResponse(self.provider.do_post_logout_redirect(asked), 303)


@contextmanager
def issuing(returns: list[str]) -> Iterator[Issuer]:
    """Serve a provider."""
    made: list[Issuer] = []
    ready = threading.Event()

    async def get(request: Request) -> Response:
        ready.wait()
        by_path = {"/authorize": made[0].authorize, "/userinfo": made[0].userinfo, "/logout": made[0].logout}
        return await by_path.get(request.url.path, made[0].answer)(request)

    async def post(request: Request) -> Response:
        return await made[0].give_token(request)

    app = Starlette(routes=[Route("/token", post, methods=["POST"]), Route("/{path:path}", get)])
    with serving(app) as url:
        made.append(Issuer(url, returns))
        ready.set()
        yield made[0]
