"""Errors in one shape, under /fhir an OperationOutcome. No message repeats what was sent: it may be patient data."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.review.records import Away, OfStore, Unknown

FHIR_JSON = "application/fhir+json"
# Fields of one query or form.
MAX_FIELDS = 1_000
FORM = "application/x-www-form-urlencoded"
# HTTP status -> code of an OperationOutcome's issue (FHIR: http://hl7.org/fhir/issue-type).
ISSUES = {
    401: "login",
    403: "forbidden",
    404: "not-found",
    405: "not-supported",
    408: "timeout",
    409: "conflict",
    413: "too-long",
    415: "not-supported",
    422: "invalid",
    429: "throttled",
    503: "transient",
    504: "timeout",
}


class Problem(BaseModel):
    """What went wrong."""

    code: str = Field(description="for programs", examples=["invalid"])
    message: str = Field(description="for people", examples=["Field required"])
    field: str | None = Field(None, description="the field at fault, if one is", examples=["mentions"])


class Failure(BaseModel):
    """The body of every answer that is an error."""

    error: Problem


class Refusal(Exception):
    """A request that is answered by an error."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field, self.retry_after = status, code, message, field, retry_after

    def headers(self) -> dict[str, str]:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


class Fault(Refusal):
    """A refusal whose code is an issue type of FHIR."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(status, code, message)


def outcome(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as FHIR's OperationOutcome."""
    code = refusal.code if isinstance(refusal, Fault) else ISSUES.get(refusal.status, "exception")
    issue = {"severity": "error", "code": code, "details": {"text": refusal.message}, "diagnostics": refusal.message}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def respond(path: str, refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a refusal, in the shape that the path has."""
    headers = {**refusal.headers(), **(headers or {})}
    if path == "/fhir" or path.startswith("/fhir/"):
        content, media = outcome(refusal), FHIR_JSON
    else:
        content = {"error": {"code": refusal.code, "message": refusal.message, "field": refusal.field}}
        media = "application/json"
    return Response(json.dumps(content), refusal.status, headers, media)


async def refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    """Answer a request with a refusal, from inside a middleware."""
    scope.setdefault("state", {})["refused"] = refusal.code
    # What a client still sends is dropped, so that it comes to read the answer; but not waited for for ever.
    headers = {"Connection": "close"} if refusal.status == HTTPStatus.REQUEST_TIMEOUT else {}
    await respond(scope["path"], refusal, headers)(scope, receive, send)


class Gate:
    """A middleware of requests alone; a refusal that its `pass_on` raises is the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self.pass_on(scope, receive, send)
        except Refusal as refusal:
            await refuse(scope, receive, send, refusal)

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer a request, or refuse it."""
        raise NotImplementedError


def client_of(scope: Scope) -> str:
    """Return the address that a request comes from."""
    return str((scope.get("client") or ("",))[0])


def anonymous(scope: Scope) -> str:
    """Return what tells clients without a name apart: their address, behind a proxy as the proxy says it."""
    return str(scope.get("state", {}).get("client") or client_of(scope))


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# How far a chain of proxies is followed.
MAX_PROXIES = 20


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Tell whether an address is in one of the networks."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    # How a socket of both families names an address of IPv4.
    known = getattr(known, "ipv4_mapped", None) or known
    return any(known in network for network in networks)


def forwarded_client(scope: Scope, proxies: Sequence[Network]) -> str:
    """Return the address that a request comes from: what a proxy says of it, if it comes from a proxy.

    Of a chain, the last address that is no proxy's: what stands before that, anybody may have made up. So may be one of
    two headers that differ.
    """
    headers, peer = Headers(scope=scope), client_of(scope)
    chains = [",".join(headers.getlist(name)).split(",") for name in FORWARDED if name in headers]
    found = {_client(peer, chain, proxies) for chain in chains}
    return found.pop() if len(found) == 1 else peer


FORWARDED = ("x-forwarded-for", "forwarded")
# An address as both headers have it: with a port, in brackets, or as `for="..."`. IPv6 may have any text after "%".
_FORWARDED = re.compile(
    r'(?:[^,]*;)?(?:\s*for=)?\s*"?(?:\[([\w:.]+)|([\d.]+)|([\w:.]+))(?:[\]:;%"\s].*)?', re.IGNORECASE
)


def _client(peer: str, chain: Sequence[str], proxies: Sequence[Network]) -> str:
    client = peer
    for part in reversed(chain[-MAX_PROXIES:]):
        found = _FORWARDED.fullmatch(part.strip())
        if found is None or (client and not is_within(client, proxies)):
            break
        try:
            client = str(ipaddress.ip_address(found[1] or found[2] or found[3]))
        except ValueError:
            break
    return client


def media_type(request: Request) -> str:
    """Return the media type of a request's body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return names and values of a query or a form."""
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Refusal(422, "too_many", f"more than {MAX_FIELDS:,} fields") from None


def check_values(json: bytes | bytearray, most: int) -> None:
    """Refuse JSON of more values than any request has: each that is wrong takes its time to be told of.

    It is counted without being read; what is in strings does not count.
    """
    bare = json if json.count(b",") > most else b""
    bare = bare.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 4 * most or sum(part.count(b",") for part in bare.split(b'"')[::2]) > most:
        raise Refusal(413, "too_many", f"the body has more than {most:,} values")


def unknown(error: Unknown, code: str = "not_found", field: str | None = None) -> Refusal:
    """Return the refusal for what a store does not know; what it has instead may not be for everyone to know."""
    return Refusal(404, code, str(error).partition(";")[0], field=field)


def refusal_of(error: AlphitaError) -> Refusal:
    """Return the refusal for one of the package's errors; a value that it names is left out."""
    if isinstance(error, Unknown):
        return unknown(error)
    if isinstance(error, InputError):
        message = error.problem + (f"; {error.remedy}" if error.remedy else "")
        return Refusal(422, "invalid", message, field=error.field)
    if isinstance(error, UsageError):
        return Refusal(422, "invalid", str(error))
    if isinstance(error, Away):
        return Refusal(503, "unavailable", "the database does not answer; try again later", retry_after=1)
    message = f"the reviews: {error.problem}" if isinstance(error, OfStore) else str(error)
    return Refusal(503, "unavailable", message, retry_after=1)


def install(app: FastAPI) -> None:
    """Let an app answer all errors in this shape."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(AlphitaError, _package)
    app.add_exception_handler(OSError, _system)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    request.state.refused = error.code
    return respond(request.url.path, error)


async def _package(request: Request, error: Exception) -> Response:
    assert isinstance(error, AlphitaError)
    request.app.state.parts.failed(error)
    return await _refusal(request, refusal_of(error))


async def _system(request: Request, error: Exception) -> Response:
    """Answer that the disk is full; any other error is the server's."""
    if not request.app.state.parts.failed(error):
        raise error
    return await _refusal(request, Refusal(503, "unavailable", "the server's disk is full", retry_after=1))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return await _refusal(request, Refusal(422, "invalid_json", "the body is not JSON"))
    field = ".".join(str(part) for part in first["loc"][1:]) or None
    # A validator's own message could repeat the value; pydantic's do not.
    message = "the value is not allowed" if first["type"].endswith("value_error") else str(first["msg"])
    return await _refusal(request, Refusal(422, "invalid", message, field=field))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # FastAPI's for a body that is not even text
        return await _refusal(request, Refusal(422, "invalid_json", "the body is not JSON"))
    detail: Any = error.detail
    known = detail if isinstance(detail, dict) else {"message": str(detail)}
    phrase = HTTPStatus(error.status_code).phrase
    refusal = Refusal(
        error.status_code,
        str(known.get("code") or phrase.lower().replace(" ", "_").replace("-", "_")),
        str(known.get("message") or phrase),
        field=known.get("field"),
    )
    request.state.refused = refusal.code
    return respond(request.url.path, refusal, error.headers)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the errors that an endpoint may answer with."""
    return {status: {"model": Failure, "description": HTTPStatus(status).phrase} for status in statuses}
