"""Settings of a server: address, access and limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alphita import options
from alphita.errors import UsageError
from alphita.options import HOW, option

# As browsers send it: lower case, no path, no port that is the scheme's own.
_ORIGIN = re.compile(r"(?!http://.*:80$|https://.*:443$)https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
MIB = 2**20
WHO, HOW_MUCH = "Access", "Limits"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the service; the defaults suit one machine with two cores and a team of reviewers."""

    host: str = option("127.0.0.1", help="Address to listen on.")
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
        None, panel=WHO, help="File of API keys, one reviewer per key: lines of name, tab, SHA-256, tab, expiry date."
    )
    trust_user_header: str | None = option(
        None, metavar="NAME", panel=WHO, help="Header in which a proxy names the user, e.g. X-User."
    )
    proxies: tuple[str, ...] = option(
        ("127.0.0.1/32", "::1/128"),
        "--proxy",
        panel=WHO,
        help="Address or network of that proxy; this machine by default; repeatable.",
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
    log_mentions: bool = option(False, panel=HOW, help="Log mentions, which may be patient data.")

    @property
    def max_values(self) -> int:
        """Maximum values in a body of JSON."""
        return 10 * max(1_000, self.max_rows)

    @property
    def access(self) -> Literal["keys", "header", "local"]:
        return "keys" if self.keys is not None else "header" if self.trust_user_header is not None else "local"

    def check(self) -> None:
        """Check that access is not open by mistake."""
        options.check(self)
        if self.keys is not None and self.trust_user_header is not None:
            raise UsageError("give --keys or --trust-user-header, not both")
        if self.access == "local" and not is_loopback(self.host):
            raise UsageError(
                f"listening on {self.host} would let other machines in, and it could not be known who they are; "
                "give --keys FILE (make one by --new-key NAME), or --trust-user-header NAME behind a proxy"
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


def is_loopback(host: str) -> bool:
    """Tell whether an address is local to this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
