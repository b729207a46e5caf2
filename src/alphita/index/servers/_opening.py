"""Server indexes by address and name."""

from __future__ import annotations

import re
from types import ModuleType

from alphita import registry
from alphita.errors import UsageError
from alphita.index.servers import SERVERS, ServerIndex

# So that a name is the same as a PostgreSQL schema (63 bytes, with a prefix) and a part of a URL.
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def module_of(address: str) -> ModuleType:
    """Return the module of `servers` that an address is for.

    Raises:
        UsageError: none is; the message does not repeat the address, which may hold a password.
    """
    modules = [registry.load(SERVERS, name) for name in registry.names(SERVERS)]
    for module in modules:
        if address.lower().startswith(module.SCHEMES):
            return module
    known = " or ".join(module.EXAMPLE for module in modules)
    raise UsageError(f"no server is known for this address; give one like {known}")


def connect(address: str, name: str) -> ServerIndex:
    """Open the index called `name` on a server; there need be none yet.

    Raises:
        UsageError: the address or the name is not well formed.
        AlphitaError: the server cannot be reached or used; no message holds a password.
    """
    module = module_of(address)
    check_name(name)
    opened: ServerIndex = module.connect(address, name)
    return opened


def check_name(name: str) -> None:
    """Make sure that `name` may be the name of a server index.

    Raises:
        UsageError: it may not.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} cannot be the name of a server index: up to 40 of a-z, 0-9 and _, the first a letter"
        )


def check_release(release: str, before: list[str]) -> None:
    """Make sure that a release may be loaded after those before it.

    Raises:
        UsageError: its name is empty, has a NUL, or was used before.
    """
    if not release.strip() or "\0" in release:
        raise UsageError("a release needs a name, such as its date: --release 2026-03")
    if release in before:
        raise UsageError(f"release {release!r} was loaded before; loaded were {before}")
