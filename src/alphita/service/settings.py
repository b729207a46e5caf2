"""What a server is told when it starts: where it listens, who may ask, and how much."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field

from alphita.config import Config
from alphita.errors import UsageError

MIB = 2**20


class Settings(Config):
    """Settings of the service; the defaults suit one machine with two cores and a team of reviewers."""

    host: str = Field("127.0.0.1", description="address to listen on; others than this machine's own need keys")
    port: int = Field(8080, ge=0, le=65_535, description="port; 0: any free one")
    hosts: tuple[str, ...] = Field((), description="names that a request may call this server; empty: any")
    keys: Path | None = Field(None, description="TSV file of API keys: name, SHA-256 of the key, last day")
    trust_user_header: str | None = Field(None, description="header in which a proxy says who asks")
    proxies: tuple[str, ...] = Field(
        ("127.0.0.1/32", "::1/128"), description="networks of the proxies whose header is believed"
    )
    log_mentions: bool = Field(False, description="log the strings asked for, which may be patient data")

    max_rows: int = Field(1_000, ge=1, description="mentions or texts a request")
    max_characters: int = Field(1_000, ge=1, description="characters a mention or text")
    max_context: int = Field(10_000, ge=1, description="characters a context, or a text to annotate")
    max_top: int = Field(100, ge=1, description="candidates a mention, concepts a search")
    max_body: int = Field(2 * MIB, ge=1, description="bytes of a request's body")
    max_upload: int = Field(64 * MIB, ge=1, description="bytes of a file that is imported for review")
    max_buffered: int = Field(128 * MIB, ge=1, description="bytes of all bodies that are held at once")
    max_requests: int = Field(512, ge=1, description="requests answered at once")
    seconds: float = Field(30.0, gt=0, description="seconds a request may take until its answer begins")
    file_seconds: float = Field(300.0, gt=0, description="seconds likewise, of a file imported or exported for review")
    rate: float = Field(100.0, ge=0, description="requests a second of one client; 0: any number")
    burst: int = Field(200, ge=1, description="requests that a client may send at once after a pause")

    batch_tokens: int = Field(2_048, ge=1, description="tokens normalised together, about")
    window: float = Field(0.002, ge=0, le=0.1, description="seconds waited for requests that are arriving")
    queue: int = Field(8_192, ge=1, description="mentions and texts waiting at most")

    @property
    def access(self) -> Literal["keys", "header", "local"]:
        """How it is known who asks."""
        return "keys" if self.keys is not None else "header" if self.trust_user_header is not None else "local"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def check(self) -> None:
        """Make sure that nobody is let in by mistake.

        Raises:
            UsageError: it would listen to other machines without knowing who asks, or two ways to know are given, or a
                network is none.
        """
        if self.keys is not None and self.trust_user_header is not None:
            raise UsageError("give --keys or --trust-user-header, not both")
        if self.access == "local" and not self.is_loopback:
            raise UsageError(
                f"listening on {self.host} would let other machines in, and it could not be known who they are; "
                "give --keys FILE (make one by --new-key NAME), or --trust-user-header NAME behind a proxy"
            )
        for network in self.proxies:
            try:
                ipaddress.ip_network(network)
            except ValueError:
                raise UsageError(f"{network!r} is no network of proxies; write it as 10.0.0.0/8 or 10.1.2.3") from None


def is_loopback(host: str) -> bool:
    """Tell whether an address is one of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
