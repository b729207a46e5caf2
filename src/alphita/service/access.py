"""Who may do what: rights, the roles that give them, and the right that each route needs.

A file of roles is TOML, one table a role: its `rights`, the `projects` in which they hold, and `users` who have it by
name. A role is also had by keys that name it, and by members of the group of its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import pydantic
from fastapi import Depends, Request

from alphita import config, textio
from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.review.store import ReviewStore
from alphita.service.failures import Refusal

Right = Literal["read", "review", "adjudicate", "administer", "metrics"]
RIGHTS: tuple[Right, ...] = get_args(Right)
# What a route needs that is open to all, and one that is open to everyone who is known.
OPEN, KNOWN = "open", "known"
# In a file of roles, the one that everyone has.
EVERYONE = "*"


# What pydantic says in Python's words.
SHAPES = {"frozen_set_type": "must be a list", "model_type": "must be a table", "dict_type": "must be a table"}


class Role(pydantic.BaseModel):
    """Rights, and where they hold; `projects` None: in all."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    rights: frozenset[Right]
    projects: frozenset[str] | None = None
    users: frozenset[str] = frozenset()


ROLES = {
    "reader": Role(rights=frozenset({"read"})),
    "reviewer": Role(rights=frozenset({"read", "review"})),
    "adjudicator": Role(rights=frozenset({"read", "review", "adjudicate"})),
    "administrator": Role(rights=frozenset(RIGHTS)),
    "monitor": Role(rights=frozenset({"metrics"})),
}
# Of a key without a role, and of a proxy's users where there is no file of roles.
USUAL = "adjudicator"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, with their roles."""

    name: str
    roles: tuple[Role, ...]

    def may(self, right: str, project: str | None = None) -> bool:
        """Tell whether they have a right in a project; None: in any."""
        return any(
            right in role.rights and (project is None or role.projects is None or project in role.projects)
            for role in self.roles
        )

    def need(self, right: str, project: str | None = None) -> None:
        """Refuse what they have no right to; a project that there is not is refused like one of others."""
        if not self.may(right, project):
            where = "" if project is None else " in this project"
            raise Refusal(403, "no_right", f"this needs the right {right!r}{where}; ask whoever runs the server for it")

    def rights(self, project: str | None = None) -> list[str]:
        return [right for right in RIGHTS if self.may(right, project)]

    def sees(self, store: ReviewStore, project: str, row: int) -> bool:
        """Tell whether they may see the final decision about a row: not while they have to decide it blindly."""
        if self.may("administer", project) or not self.may("review", project):
            return self.may("read", project)
        return store.standing(row, reviewer=self.name).settled


class Roles:
    """The roles of a file, if there is one; `own` by name."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.own = path, dict[str, Role]()
        self.read()

    def read(self) -> None:
        """Read the file anew; one that is not as it should be changes nothing."""
        if self.path is not None:
            self.own = load(self.path)

    @property
    def of_keys(self) -> dict[str, Role]:
        return ROLES | self.own

    def check(self, names: Iterable[str]) -> None:
        """See that keys can have these roles."""
        for name in names:
            if name not in self.of_keys:
                raise UsageError(unknown("role", name, self.of_keys))

    def identity(self, name: str, *, key: Collection[str] | None = None, groups: Collection[str] = ()) -> Identity:
        """Return who has a name, with the roles of their key (None: they have none), groups and name."""
        found = [role for title, role in self.own.items() if title == EVERYONE or title in groups or name in role.users]
        if key is not None:
            found += [role for title, role in self.of_keys.items() if title in (key or (USUAL,))]
        elif self.path is None:
            found.append(ROLES[USUAL])
        return Identity(name, tuple(found))


def load(path: Path) -> dict[str, Role]:
    """Read a file of roles."""
    remedy = 'write it as [coders], below it rights = ["read", "review"] and perhaps projects = ["lab"]'
    try:
        roles = pydantic.TypeAdapter(dict[str, Role]).validate_python(config.read_toml(textio.plain(path)))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = SHAPES.get(first["type"], first["msg"])
        raise InputError(problem, file=path, field=field, value=first["input"], remedy=remedy) from None
    if not roles:
        raise InputError("holds no role", file=path, remedy=remedy)
    return roles


# Method and path of every route -> what it needs; a route that is not here is refused.
ROUTES: dict[str, str] = {
    **dict.fromkeys(("GET /health", "GET /ready", "GET /login", "GET /login/callback"), OPEN),
    **dict.fromkeys(("GET /api/me", "POST /logout"), KNOWN),
    **dict.fromkeys(("GET /docs", "GET /openapi.json", "GET /search", "GET /concepts/{identifier:path}"), "read"),
    **dict.fromkeys(("POST /normalize", "POST /annotate", "POST /embed", "POST /mappings"), "read"),
    **dict.fromkeys(("GET /api/{path:path}", "POST /api/{path:path}"), "read"),
    "GET /metrics": "metrics",
    "POST /admin/reload": "administer",
    "GET /api/projects": "read",
    "GET /api/projects/{name}": "read",
    "GET /api/projects/{name}/progress": "read",
    "GET /api/projects/{name}/rows": "read",
    "GET /api/projects/{name}/rows/{row}": "read",
    "POST /api/projects/{name}/rows/{row}/decisions": "review",
    "POST /api/projects/{name}/undo": "review",
    "POST /api/projects/{name}/bulk": "review",
    "GET /api/projects/{name}/disagreements": "adjudicate",
    "POST /api/projects/{name}/rows/{row}/adjudicate": "adjudicate",
    "GET /api/projects/{name}/export": "administer",
    "POST /api/projects": "administer",
}
OPEN_PATHS = {route.partition(" ")[2] for route, right in ROUTES.items() if right == OPEN}
# What is below these only reads.
READ_BELOW = ("/fhir", "/reconcile")
# The query that names a project, where the path does not.
PROJECT_NAMED_BY = {"/api/projects": "name", "/search": "project"}


def needed(method: str, path: str) -> str | None:
    """Return what a route needs; None: it is in no table, and nobody may use it."""
    below = any(path == base or path.startswith(base + "/") for base in READ_BELOW)
    return ROUTES.get(f"{method} {path}", "read" if below else None)


def identity(request: Request) -> Identity:
    """Return who asks: a FastAPI dependency."""
    found = getattr(request.state, "identity", None)
    if not isinstance(found, Identity):
        raise Refusal(401, "no_key", "give your key in one header, Authorization: Bearer KEY")
    return found


Asker = Annotated[Identity, Depends(identity)]


def check(request: Request) -> None:
    """Refuse who has not the right that the route needs: a FastAPI dependency of the whole app."""
    path = request.scope["route"].path
    right = needed(request.method, path)
    if right == OPEN:
        return
    asker = identity(request)
    if right is None:
        raise Refusal(403, "no_right", "nobody has a right to this yet")
    if right != KNOWN:
        named_by = PROJECT_NAMED_BY.get(path)
        asker.need(right, request.query_params.get(named_by) if named_by else request.path_params.get("name"))
