"""Registries: a folder's files are its choices. One new file is one new choice, and listing imports none of them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from types import ModuleType

from alphita.errors import UsageError


def names(package: str) -> list[str]:
    """Return the choices in `package` (e.g. "alphita.recipes"), sorted, without importing them."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"no package {package!r}")
    modules = pkgutil.iter_modules(list(spec.submodule_search_locations))
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def load(package: str, name: str) -> ModuleType:
    """Import the choice `name` of `package`.

    Raises:
        UsageError: there is no such choice; the message names the nearest and all of them.
    """
    choices = names(package)
    if name not in choices:
        raise UsageError(unknown(package.rsplit(".", 1)[-1].removesuffix("s"), name, choices))
    return importlib.import_module(f"{package}.{name}")


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Return the message for an unknown name: `unknown recipe 'codr'; did you mean 'coder'? choose from [...]`."""
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {name!r};{hint} choose from {choices}"
