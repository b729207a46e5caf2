"""Settings of a server: address, access and limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from alphita import options
from alphita.errors import UsageError
from alphita.options import HOW, option

# As browsers send it: lower case, no path, no port that is the scheme's own.
_ORIGIN = re.compile(r"(?!http://.*:80$|https://.*:443$)https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
MIB = 2**20
WHO, HOW_MUCH, OIDC = "Access", "Limits", "OpenID Connect"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the service; the defaults suit one machine with two cores and a team of reviewers."""

    host: str = option("127.0.0.1", help="Address to listen on.")
    socket: Path | None = option(None, help="Unix socket to listen on instead, for its owner and group.")
    port: int = option(8080, least=0, most=65_535, help="Port; 0: any free one.")
    hosts: tuple[str, ...] = option(
        (), "--allow-host", panel=WHO, help="Host name that clients may use for this server; repeatable."
    )
    origins: tuple[str, ...] = option(
        (),
        "--allow-origin",
        metavar="ORIGIN",
        panel=WHO,
        help="Origin whose web pages may use this server, e.g. http://127.0.0.1:3333 for OpenRefine; repeatable.",
    )
    keys: Path | None = option(
        None, panel=WHO, help="File of API keys: lines of name, SHA-256, expiry date and roles, separated by tabs."
    )
    rights: Path | None = option(
        None, panel=WHO, help="TOML file of roles: which rights they give to keys, users and groups, in which projects."
    )
    trust_user_header: str | None = option(
        None, metavar="NAME", panel=WHO, help="Header in which a proxy names the user, e.g. X-User."
    )
    trust_groups_header: str | None = option(
        None, metavar="NAME", panel=WHO, help="Header in which it names the user's groups, separated by commas."
    )
    proxies: tuple[str, ...] = option(
        ("127.0.0.1/32", "::1/128"),
        "--proxy",
        panel=WHO,
        help="Address or network of that proxy, which also says where requests come from; this machine by default; "
        "repeatable.",
    )
    oidc_issuer: str | None = option(
        None, metavar="URL", panel=OIDC, help="Issuer that identifies people (in the browser) and clients (by token)."
    )
    oidc_client: str | None = option(None, metavar="ID", panel=OIDC, help="This server's client id at the issuer.")
    oidc_secret: Path | None = option(
        None, panel=OIDC, help="File with the client's secret; without it this server is a public client."
    )
    oidc_url: str | None = option(
        None,
        metavar="URL",
        panel=OIDC,
        help="Address at which browsers reach this server, e.g. https://terms.example.org.",
    )
    oidc_audience: str | None = option(
        None, metavar="NAME", panel=OIDC, help="Audience of access tokens; by default the client id."
    )
    oidc_name: str = option("preferred_username", metavar="CLAIM", panel=OIDC, help="Claim that names the user.")
    oidc_groups: str = option(
        "groups", metavar="CLAIM", panel=OIDC, help="Claim that lists the user's groups, e.g. realm_access.roles."
    )
    rate: float = option(
        100.0,
        least=0,
        panel=HOW_MUCH,
        help="Requests per second per client; a body counts as one more per 10,000 bytes; 0: no limit.",
    )
    max_rows: int = option(1_000, least=1, panel=HOW_MUCH, help="Maximum mentions per request.")
    max_characters: int = option(1_000, least=1, panel=HOW_MUCH, help="Maximum characters per mention.")
    max_context: int = 10_000
    max_top: int = 100
    max_body: int = option(2 * MIB, least=1, panel=HOW_MUCH, help="Maximum bytes of a request's body.")
    max_upload: int = option(
        64 * MIB,
        least=1,
        panel=HOW_MUCH,
        help="Maximum bytes of a file imported for review, both as sent and unpacked.",
    )
    max_upload_rows: int = option(
        500_000, least=1, panel=HOW_MUCH, help="Maximum mappings in a file imported for review."
    )
    max_buffered: int = 128 * MIB
    max_requests: int = 512
    burst: int = 200
    queue: int = option(8_192, least=1, panel=HOW_MUCH, help="Maximum waiting mentions.")
    seconds: float = option(30.0, least=0.1, panel=HOW_MUCH, help="Maximum seconds per request.")
    file_seconds: float = option(
        300.0, least=0.1, panel=HOW_MUCH, help="Maximum seconds for an import or export of reviews."
    )
    processes: int | None = option(
        None,
        least=1,
        panel=HOW,
        help="Number of answering processes, which share one index in memory; by default one per core.",
    )
    batch_tokens: int = option(2_048, least=1, panel=HOW, help="Maximum tokens per batch.")
    window_ms: float = option(
        5.0, least=0, most=100, panel=HOW, help="Milliseconds to wait for further requests of a batch."
    )
    audit: Path | None = option(
        None, panel=WHO, help="Append to this file who read, decided, imported and exported what: JSON lines."
    )
    log_mentions: bool = option(False, panel=HOW, help="Log mentions, which may be patient data.")

    @property
    def max_values(self) -> int:
        """Maximum values in a body of JSON."""
        return 10 * max(1_000, self.max_rows)

    @property
    def access(self) -> Literal["oidc", "keys", "header", "local"]:
        """How it is known who asks; with "oidc" keys may be known, too."""
        if self.oidc_issuer is not None:
            return "oidc"
        return "keys" if self.keys is not None else "header" if self.trust_user_header is not None else "local"

    @property
    def url(self) -> str:
        """The address at which browsers reach this server, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.oidc_url or f"http://{host}:{self.port}").rstrip("/")

    def check(self) -> None:
        """Check that access is not open by mistake."""
        options.check(self)
        if self.trust_user_header is not None and (self.keys is not None or self.oidc_issuer is not None):
            raise UsageError("give --trust-user-header, or --keys and --oidc-issuer, not both")
        if self.trust_groups_header is not None and (self.trust_user_header is None or self.rights is None):
            raise UsageError("--trust-groups-header needs --trust-user-header, and --rights to say what groups may do")
        self._check_oidc()
        if self.access == "local" and self.socket is None and not is_loopback(self.host):
            raise UsageError(
                f"listening on {self.host} would let other machines in, and it could not be known who they are; "
                "give --keys FILE (create one with --new-key NAME), or --trust-user-header NAME behind a proxy"
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise UsageError(
                    f"{origin!r} is not the origin of a page; write it as http://127.0.0.1:3333 or https://example.org"
                )
        for network in self.proxies:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise UsageError(f"{network!r} is not a network; write it as 10.0.0.0/8 or 10.1.2.3") from None

    def _check_oidc(self) -> None:
        if self.oidc_issuer is None:
            if any((self.oidc_client, self.oidc_secret, self.oidc_url, self.oidc_audience)):
                raise UsageError("--oidc-client, --oidc-secret, --oidc-url and --oidc-audience need --oidc-issuer")
            return
        if self.oidc_client is None or self.rights is None:
            raise UsageError("--oidc-issuer needs --oidc-client, and --rights to say what users and groups may do")
        for name, url in (("--oidc-issuer", self.oidc_issuer), ("--oidc-url", self.url)):
            parts = urlsplit(url)
            if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
                raise UsageError(f"{name} {url!r} must begin with https://; http:// is only for this machine")


def is_loopback(host: str) -> bool:
    """Tell whether an address is local to this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
