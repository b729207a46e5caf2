"""What every answer tells browsers, and which sites' pages may ask.

A page of another site, open in the same browser, can send requests to this machine. It may read no answer; but it could
have things written, or, by a name that it owns and points here, even read. So requests must call this server by one of
its own names, and those that change something must come from its own page or from no page at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alphita.service.failures import Refusal, refuse

SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD", "OPTIONS")
OWN_PAGES = ("same-origin", "none")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d+)?")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def secure(message: Message) -> None:
    """Add the headers to the message that begins a response; those it has stay."""
    headers = MutableHeaders(scope=message)
    for name, value in SECURITY.items():
        headers.setdefault(name, value)


class Origins:
    """A middleware that refuses what another site's page sends."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self.app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            await refuse(scope, receive, send, refusal)
        else:
            await self.app(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            return Refusal(403, "wrong_host", "this server does not go by that name; see --allow-host")
        if method in SAFE:
            return None
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            own = site in OWN_PAGES
        else:
            own = origin is None or urlsplit(origin).netloc.lower() == host.lower()
        return None if own else Refusal(403, "other_site", "another site's page may not change anything here")


def _name(host: str) -> str:
    """Return the host of a Host header, without its port; "" if it is none."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
