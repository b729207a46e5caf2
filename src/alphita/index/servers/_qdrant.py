"""Connections to Qdrant, and what it refuses said in our words: no message holds a key."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from alphita.errors import AlphitaError, InputError, UsageError, require, shorten

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

EXTRA = "qdrant"
KEY = "ALPHITA_QDRANT_KEY"
SECONDS = 60
SECONDS_TO_CONNECT = 10
PORT = 6333
# The first version that takes a batch of queries in one call, float16 vectors and filters on parts of a payload.
OLDEST = (1, 10)


class Connection:
    """A client with what is needed to speak about it.

    Attributes:
        client: of a server, or Qdrant's imitation of one in memory.
        where: host and port, for messages.
    """

    def __init__(self, client: QdrantClient, where: str) -> None:
        """Use `connect`."""
        self.client, self.where = client, where

    @contextlib.contextmanager
    def speaking(self, missing: str = "") -> Iterator[None]:
        """Turn the client's errors into ours.

        Args:
            missing: what to say where a collection is not there.
        """
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            yield
        except ResponseHandlingException as error:
            if isinstance(error.source, ValueError):  # no JSON, or not of the form it should have
                raise AlphitaError(f"what answers at {self.where} is no Qdrant") from None
            raise AlphitaError(
                f"cannot reach Qdrant at {self.where}: {shorten(error.source)}; is the address right and the server "
                "running?"
            ) from None
        except UnexpectedResponse as error:
            if gone(error) and missing:
                raise InputError(missing) from None
            if error.status_code in (401, 403):
                raise AlphitaError(
                    f"Qdrant at {self.where} refuses (HTTP {error.status_code}): it wants a key that allows this, in "
                    f"the environment variable {KEY}"
                ) from None
            said = shorten(" ".join(error.content.decode("utf-8", "replace").split()), 200)
            raise AlphitaError(f"Qdrant at {self.where} answers HTTP {error.status_code}: {said}") from None
        except ValueError as error:
            if gone(error) and missing:
                raise InputError(missing) from None
            raise


def gone(error: Exception) -> bool:
    """Tell whether the client said that a collection is not there."""
    status = getattr(error, "status_code", None)
    return status == 404 or (status is None and isinstance(error, ValueError) and "not found" in str(error))


def connect(address: str) -> Connection:
    """Connect to the server at an address, and make sure that it is a Qdrant.

    Raises:
        MissingExtra: qdrant-client is not installed.
        UsageError: the address is not well formed, or holds a key.
        AlphitaError: the server cannot be reached, refuses, or is none or too old a one.
    """
    require("qdrant_client", EXTRA)
    from qdrant_client import QdrantClient

    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host = None
    if not host:
        raise UsageError("this Qdrant address is not well formed; it is http://HOST:6333 or https://HOST:6333")
    if "@" in parts.netloc or parts.query:
        raise UsageError(f"the address of a Qdrant holds no key; put it into the environment variable {KEY}")
    where = f"{host}:{port}"
    key = os.environ.get(KEY)
    if key and parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(f"{KEY} is set, and http:// would send it to {where} unencrypted; use https://")

    def opened(seconds: int) -> QdrantClient:
        return QdrantClient(
            host=host, port=port, https=parts.scheme == "https", prefix=parts.path.strip("/") or None, api_key=key,
            timeout=seconds, check_compatibility=False,
        )  # fmt: skip

    first = opened(SECONDS_TO_CONNECT)
    try:
        with Connection(first, where).speaking():
            version = _version(first, where)
            first.get_aliases()  # needs a key where the server wants one
    finally:
        first.close()
    if version < OLDEST:
        raise AlphitaError(f"Qdrant at {where} has version {'.'.join(map(str, version))}; 1.10 or later is needed")
    return Connection(opened(SECONDS), where)


def _version(client: QdrantClient, where: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in client.info().version.split("-")[0].split(".")[:2])
    except ValueError:
        raise AlphitaError(f"what answers at {where} is no Qdrant") from None
