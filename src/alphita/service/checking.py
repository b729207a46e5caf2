"""`alphita serve --check`: whether a server would start as it is told to, each part by itself."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from alphita import clock
from alphita.answer.calibration_store import FOLDER
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, InputError, counted
from alphita.review import database
from alphita.review.store import ReviewStore
from alphita.review.tables import VERSION
from alphita.service import access, keys, oidc
from alphita.service.settings import Settings
from alphita.terminology.store import load_terminology

# So long before its last day a key is told of.
SOON = timedelta(days=14)
ASKED = "heart attack"
# What others than its owner may do with a file.
OTHERS = stat.S_IRWXG | stat.S_IRWXO
# That are waited for another program which writes the store.
SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """What was found of one part; "wrong" keeps the server from serving, "note" is to be looked at."""

    part: str
    text: str
    state: str = "ok"


@dataclass(frozen=True)
class Parts:
    """What a server is made of: the normaliser opens the index, which is built where it is not there yet.

    Attributes:
        unread: whether the file that may name any of them cannot be read.
    """

    settings: Settings
    listen: Callable[[Settings], socket.socket]
    normalizer: Callable[[], Normalizer] | None
    terminology: Path | None = None
    mappings: str | None = None
    wrong: tuple[str, ...] = ()
    unread: bool = False

    def is_known(self, part: str) -> bool:
        """Tell whether it is known what a part is, where the file that may name it cannot be read."""
        settings = self.settings
        given = {
            "options": True,
            "keys": settings.keys,
            "rights": settings.rights,
            "issuer": settings.oidc_issuer,
            "index": self.normalizer,
            "terminology": self.terminology,
            "reviews": self.mappings,
            "audit": settings.audit,
        }
        return not self.unread or bool(given.get(part))


def check(parts: Parts) -> Iterator[Finding]:
    """Yield what is found of each part; what is wrong with one does not keep the others from being looked at."""
    opened: list[Normalizer] = []

    def options() -> Iterator[Finding]:
        yield from (Finding("options", problem, "wrong") for problem in parts.wrong)
        parts.settings.check()

    def index() -> Iterator[Finding]:
        assert parts.normalizer is not None
        opened.append(parts.normalizer())
        yield from _index(opened[0])

    for name, findings in (
        ("options", options),
        ("keys", lambda: _keys(parts.settings)),
        ("rights", lambda: _rights(parts.settings, _projects(parts.mappings))),
        ("issuer", lambda: _issuer(parts.settings)),
        ("address", lambda: _address(parts)),
        ("index", index),
        ("terminology", lambda: _terminology(parts.terminology, opened)),
        ("reviews", lambda: _reviews(parts.mappings)),
        ("audit", lambda: _audit(parts.settings.audit)),
    ):
        if not parts.is_known(name):
            yield Finding(name, "not checked: the file of options, which may name it, cannot be read", "note")
            continue
        try:
            yield from findings()
        except AlphitaError as error:
            yield Finding(name, str(error), "wrong")


def _audit(path: Path | None) -> Iterator[Finding]:
    if path is None:
        return
    if path.is_dir() or not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
        remedy = "name a file in a folder that exists, and that this user may write to"
        raise InputError("the audit log cannot be written", file=path, remedy=remedy)
    yield Finding("audit", str(path))


def _keys(settings: Settings) -> Iterator[Finding]:
    if settings.keys is None:
        who = {"header": f"users that {settings.trust_user_header} names", "local": "users of this machine"}
        users = who.get(settings.access, f"users of {settings.oidc_issuer}")
        yield Finding("keys", f"none: only {users} can use the server")
        return
    held = keys.load(settings.keys)
    today = clock.today(settings.keys.stat().st_mtime)
    for key in held:
        renew = keys.renewal(settings.keys, key)
        if key.last_day is not None and key.last_day < today:
            yield Finding("keys", f"{key.name}'s key expired on {key.last_day}; {renew}, and remove its line", "note")
        elif key.last_day is not None and key.last_day <= today + SOON:
            yield Finding("keys", f"{key.name}'s key expires on {key.last_day}; {renew}", "note")
        elif key.last_day is None:
            yield Finding("keys", f"{key.name}'s key never expires; {renew}, and remove its line", "note")
    valid = keys.usable(settings.keys, held, today)
    yield Finding("keys", f"{len(valid)} valid, of {', '.join(sorted({key.name for key in valid}))}")


def _rights(settings: Settings, known: set[str] | None) -> Iterator[Finding]:
    roles = access.Roles(settings.rights)
    held: list[keys.Key] = []
    if settings.keys is not None:
        with suppress(AlphitaError):  # the part "keys" reports it
            held = keys.load(settings.keys)
    of_keys = {role for key in held for role in key.roles}
    for name in sorted(of_keys - roles.of_keys.keys()):
        yield Finding("rights", f"{settings.keys} names the unknown role {name!r}, which gives no rights", "note")
    # The groups of whom a proxy or an issuer names are not known here.
    if settings.trust_groups_header is None and settings.oidc_issuer is None:
        for name, role in roles.own.items():
            if name not in of_keys and not role.users and name != access.EVERYONE:
                yield Finding("rights", f"nobody has the role {name!r} of {settings.rights}", "note")
    if known is not None:
        for name, role in roles.own.items():
            for project in sorted((role.projects or set()) - known):
                yield Finding(
                    "rights", f"{name!r} of {settings.rights} names the project {project!r}, not there yet", "note"
                )
    if settings.rights is not None:
        yield Finding("rights", f"{settings.rights}: {', '.join(sorted(roles.own))}")


def _issuer(settings: Settings) -> Iterator[Finding]:
    secret = settings.oidc_secret
    if secret is not None and secret.exists() and secret.stat().st_mode & OTHERS:
        yield Finding("issuer", f"others than its owner can read {secret}: chmod 600 {secret}", "note")
    if settings.oidc_issuer is not None:
        asyncio.run(oidc.Issuer(settings).read())
        yield Finding("issuer", f"{settings.oidc_issuer}; register the return address {settings.url}{oidc.CALLBACK}")


def _address(parts: Parts) -> Iterator[Finding]:
    with parts.listen(parts.settings) as listening:
        name = listening.getsockname()
    yield Finding("address", f"{name if isinstance(name, str) else f'{name[0]}:{name[1]}'} is free")


def _index(normalizer: Normalizer) -> Iterator[Finding]:
    manifest = normalizer.index.manifest
    (answer,) = normalizer.normalize([ASKED])
    found = f"{ASKED!r} is nearest to {answer.matched_term!r}" if answer.matched_term else f"{ASKED!r} finds nothing"
    yield Finding("index", f"{normalizer.index.path}, model {manifest['model_hash'][:12]}: {found}")
    yield confidence(normalizer)


def confidence(normalizer: Normalizer) -> Finding:
    """Return where the confidence is from, to be looked at where the index has no calibration of its own."""
    path = normalizer.index.path / FOLDER
    if path.exists():
        return Finding("calibration", f"{path}, {normalizer.assurance}")
    what = "answers have no confidence" if normalizer.calibration is None else "confidence is estimated"
    remedy = f"run alphita calibrate --index {normalizer.index.path}, or put it back if it was lost"
    return Finding("calibration", f"{path} does not exist, so {what}; {remedy}", "note")


def _terminology(path: Path | None, opened: list[Normalizer]) -> Iterator[Finding]:
    if path is None:
        return
    terminology = load_terminology(path)
    if opened and terminology.content_hash != opened[0].index.manifest["terminology_hash"]:
        text = f"the index was not built from {path} as it is; give the index's own terminology, or build it again"
        yield Finding("terminology", f"{text}: alphita index {path} -o X.index", "note")
    else:
        yield Finding("terminology", f"{path}, from which the index was built")


def _projects(address: str | None) -> set[str] | None:
    """Return the names of a store's projects; None where there is none that can be read."""
    with suppress(AlphitaError):
        if address is not None and database.look(address, SECONDS).version == VERSION:
            with ReviewStore.open(address) as store:
                return {project.name for project in store.projects()}
    return None


def _reviews(address: str | None) -> Iterator[Finding]:
    if address is None:
        return
    found = database.look(address, SECONDS)
    if found.version is None:
        yield Finding("reviews", f"{found.name} does not exist yet; the server creates it")
        return
    yield Finding("reviews", f"{found.name}, {counted(found.projects, 'project')}")
