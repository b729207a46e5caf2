"""Who asks: API keys, each of one named reviewer; a header that a proxy sets; an issuer's tokens; or this machine.

A keys file has lines `name <tab> SHA-256 of the key, hexadecimal [<tab> last day, YYYY-MM-DD [<tab> roles]]`, several
per name; the last day may be empty, and roles are separated by commas.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from alphita import clock, textio
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.service import access, logs, oidc
from alphita.service.access import Identity
from alphita.service.failures import Gate, Refusal, anonymous, client_of
from alphita.service.limits import TOO_MANY, Pause, Rate
from alphita.service.settings import Settings

UNKNOWN = 401
HOW_TO_GIVE = "give your key in one header, Authorization: Bearer KEY"
# What everyone may see: whether it runs. The review page's files are added.
OPEN = ("/health", "/ready")
LOCAL = "local"
KEY_BYTES = 32
MAX_NAME_LENGTH = 100
_HASH = re.compile(r"[0-9a-f]{64}")
# Wrong keys that one address may send at once, and a second.
WRONG_AT_ONCE, WRONG_A_SECOND = 20, 1.0
# Seconds between two looks at the files.
LOOK = 60.0


@dataclass(frozen=True, slots=True)
class Key:
    """One line of a keys file: `digest` is hexadecimal SHA-256, `last_day` (UTC) the last on which it may be used."""

    name: str
    digest: str
    last_day: date | None = None
    roles: tuple[str, ...] = ()


def load(path: Path) -> list[Key]:
    """Read a keys file."""
    remedy = (
        "a line has name, SHA-256 of the key, last day and roles, separated by tabs; create one with --new-key NAME"
    )
    try:
        lines = list(textio.lines(textio.plain(path)))
    except InputError as error:
        # Without the value, which might be a key itself.
        raise InputError(error.problem, file=path, line=error.line, remedy=remedy) from None
    keys: dict[str, Key] = {}

    def wrong(problem: str, field: str | None = None, **more: str | None) -> InputError:
        return InputError(problem, file=path, line=number, field=field, **{"remedy": remedy} | more)

    for number, line in lines:
        if line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if not 2 <= len(cells) <= 4:
            raise wrong(f"{len(cells)} cells")
        name, digest = check_name(cells[0], path, number), cells[1].lower()
        # Not shown: it might be the key itself, put there by mistake.
        if not _HASH.fullmatch(digest):
            raise wrong("not a SHA-256 of 64 hexadecimal digits", "sha256")
        if digest in keys:
            raise wrong("the same key is there twice", "sha256", remedy=None)
        try:
            last_day = date.fromisoformat(cells[2]) if len(cells) > 2 and cells[2] else None
        except ValueError:
            raise wrong("not a date", "last day", value=cells[2], remedy="write it as 2030-12-31") from None
        roles = tuple(role.strip() for role in cells[3].split(",") if role.strip()) if len(cells) > 3 else ()
        keys[digest] = Key(name, digest, last_day, roles)
    if not keys:
        raise InputError("has no key", file=path, remedy=remedy)
    return list(keys.values())


def usable(path: Path, held: Sequence[Key], today: date) -> list[Key]:
    """Return the keys of a file that are not over."""
    valid = [key for key in held if key.last_day is None or key.last_day >= today]
    if not valid:
        problem = "all keys have expired, so nobody could use the server"
        raise InputError(problem, file=path, remedy=renewal(path, held[-1]))
    return valid


def renewal(path: Path, key: Key) -> str:
    """Return how to make a new key in place of one."""
    roles = "".join(f" --role {role}" for role in key.roles)
    return f"create a new one: alphita serve --keys {path} --new-key {key.name} --key-days 90{roles}"


def check_name(name: str, path: Path | None = None, line: int | None = None) -> str:
    """Return the name of a reviewer."""
    if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip() or name.startswith("#"):
        raise InputError(
            "not a valid reviewer name",
            file=path,
            line=line,
            field="name",
            value=name,
            remedy=f"1 to {MAX_NAME_LENGTH} printable characters, the first no #",
        )
    return name


def add(path: Path, name: str, last_day: date | None = None, roles: Sequence[str] = ()) -> str:
    """Make a new key, append its hash to a keys file, and return it: it is nowhere else."""
    check_name(name)
    # An empty one is what a kill left of the first key.
    if path.exists() and path.stat().st_size:
        load(path)
    key = secrets.token_urlsafe(KEY_BYTES)
    line = "\t".join([name, digest(key), last_day.isoformat() if last_day else "", ",".join(roles)]).rstrip("\t")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            unended = size > 0 and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n"
            content = (b"\n" if unended else b"") + line.encode() + b"\n"
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            except OSError:
                # Half a line would keep the server from starting.
                file.truncate(size)
                raise
    except OSError as error:
        raise AlphitaError(f"the keys {path} cannot be written: {error.strerror or error}") from None
    return key


def digest(key: str) -> str:
    """Return the SHA-256 of a key, as a keys file has it."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def find(keys: Sequence[Key], key: str, today: date) -> Key | None:
    """Return the entry of a key, or None; how long it takes does not tell which entry is near."""
    wanted = digest(key).encode()
    found = None
    for one in keys:
        if hmac.compare_digest(one.digest.encode(), wanted):
            found = one
    if found is not None and found.last_day is not None and today > found.last_day:
        raise Refusal(401, "expired_key", f"the key's last day was {found.last_day.isoformat()}; ask for a new one")
    return found


class KeyRing:
    """The keys and roles of the files, as they were read last.

    `written` is when the keys were, for the clock may have been set back since.
    """

    def __init__(self, path: Path | None, rights: Path | None = None) -> None:
        self.path, self.written = path, 0.0
        self.keys: list[Key] = []
        self.roles = access.Roles(rights)
        self._looked, self._stamp = time.monotonic(), self._stamps()
        self.read()

    def read(self) -> None:
        """Read the keys anew; a file that is not as it should be changes nothing."""
        if self.path is not None:
            self.keys, self.written = load(self.path), self.path.stat().st_mtime

    def reload(self) -> None:
        """Read both files anew, and log it; an error in one does not keep a key that is gone from the other valid."""
        self._looked, self._stamp = time.monotonic(), self._stamps()
        are_read = True
        for name, read in (("keys", self.read), ("roles", self.roles.read)):
            try:
                read()
            except (AlphitaError, OSError) as error:
                where = {"file": getattr(error, "file", None), "line": getattr(error, "line", None)}
                logs.LOGGER.error(f"the {name} stay as they were", exc_info=error, extra={"fields": where})
                are_read = False
        logs.event("reloaded" if are_read else "reloaded in part", keys=len(self.keys), roles=len(self.roles.own))

    def refresh(self) -> None:
        """Read the files anew if they have changed; it looks once a minute."""
        if time.monotonic() >= self._looked + LOOK:
            self._looked = time.monotonic()
            if self._stamps() != self._stamp:
                self.reload()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Return what tells whether a file has changed."""
        stamps = []
        for path in (self.path, self.roles.path):
            try:
                found = path.stat() if path is not None else None
            except OSError:
                found = None
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino) if found is not None else None)
        return stamps


class Authentication(Gate):
    """A middleware that lets in who may ask, and notes who it is in the request's state."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        open_paths: Collection[str] = (),
        ring: KeyRing | None = None,
        issuer: oidc.Issuer | None = None,
    ) -> None:
        super().__init__(app)
        self.settings = settings
        self._open = {*OPEN, *open_paths}
        self._ring = ring or KeyRing(settings.keys, settings.rights)
        self._issuer = issuer
        self._proxies = [ipaddress.ip_network(network) for network in settings.proxies]
        self._header, self._groups = settings.trust_user_header or "", settings.trust_groups_header or ""
        self._wrong, self._pause = Rate(WRONG_A_SECOND, WRONG_AT_ONCE), Pause()

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer who may ask, and anyone what is open."""
        state = scope.setdefault("state", {})
        state["identity"] = state["reviewer"] = None
        self._ring.refresh()
        try:
            state["identity"] = await self.identify(scope)
            state["reviewer"] = state["identity"].name
        except Refusal as refusal:
            if scope["path"] not in self._open or scope["method"] not in ("GET", "HEAD"):
                if refusal.status == UNKNOWN and (wait := self._wrong.take(anonymous(scope))):
                    await self._pause()
                    problem = "too many requests without a key"
                    raise Refusal(TOO_MANY, "too_many_requests", problem, retry_after=wait) from None
                raise
        await self.app(scope, receive, send)

    async def identify(self, scope: Scope) -> Identity:
        """Return who asks, with their roles."""
        headers = Headers(scope=scope)
        if self.settings.access == "local":
            return Identity(LOCAL, (access.ROLES["administrator"],))
        if self.settings.access == "header":
            given = headers.getlist(self._header), headers.getlist(self._groups) if self._groups else []
            return self._by_header(*given, client_of(scope))
        return await self._by_key(headers)

    async def _by_key(self, headers: Headers) -> Identity:
        """Return whose the key, or the issuer's token or session, is."""
        given = headers.getlist("authorization")
        if self._issuer is not None and not given:
            return self._by_issuer(self._issuer.of_session(headers))
        if len(given) != 1:
            raise Refusal(UNKNOWN, "no_key", HOW_TO_GIVE)
        scheme, _, key = given[0].partition(" ")
        key = key.strip() if scheme.lower() == "bearer" else ""
        # A token has three parts, and no key has a dot.
        if self._issuer is not None and key.count(".") == 2:
            return self._by_issuer(await self._issuer.of_token(key))
        found = find(self._ring.keys, key, clock.today(self._ring.written)) if key else None
        if found is None:
            raise Refusal(UNKNOWN, "wrong_key", "unknown key; send it as Authorization: Bearer KEY")
        return self._ring.roles.identity(found.name, key=found.roles)

    def _by_issuer(self, person: oidc.Person) -> Identity:
        try:
            return self._ring.roles.identity(check_name(person.name), groups=person.groups)
        except InputError:
            raise Refusal(UNKNOWN, "no_user", "the issuer does not give a valid user name; see --oidc-name") from None

    def _by_header(self, given: list[str], groups: list[str], peer: str) -> Identity:
        try:
            address = ipaddress.ip_address(peer)
            # How a socket of both families names an address of IPv4.
            address = getattr(address, "ipv4_mapped", None) or address
        except ValueError:
            address = None
        # Whoever may open the socket is the proxy.
        is_socket = self.settings.socket is not None and not peer
        if not is_socket and (address is None or not any(address in network for network in self._proxies)):
            raise Refusal(UNKNOWN, "not_the_proxy", "this server answers only requests from its proxy")
        if len(given) != 1 or len(groups) > 1:
            raise Refusal(UNKNOWN, "no_user", "the proxy must name the user in exactly one header, and groups in one")
        try:
            # Header bytes come as Latin-1; proxies write UTF-8.
            name, listed = (text.encode("latin-1").decode("utf-8") for text in (given[0], *(groups or [""])))
            return self._ring.roles.identity(
                check_name(name.strip()), groups={group.strip() for group in listed.split(",")}
            )
        except (InputError, UnicodeError):
            raise Refusal(UNKNOWN, "no_user", "the proxy's headers do not hold a valid user name and groups") from None


def reviewer(request: Request) -> str:
    """Return the name of who asks: a FastAPI dependency."""
    return access.identity(request).name


def days_from_today(days: int) -> date:
    """Return the last day of a key that holds for `days` days from today on."""
    try:
        return date.fromordinal(clock.today().toordinal() + days)
    except (ValueError, OverflowError):
        raise UsageError(f"{days} days from today is not a valid date") from None
