"""Registries: a folder's files are its choices. One new file is one new choice, and listing imports none of them.

A folder whose `__init__.py` has `PLUGINS`, a `Group`, takes choices from entry points: NAME = package.module. By
`SHARING_A_FILE` it names choices that share a file: name -> the file that holds it, as an attribute of that name.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import importlib
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from types import ModuleType
from typing import Any, NamedTuple

from alphita.errors import AlphitaError, UsageError


class Group(NamedTuple):
    """What other packages add to a folder's choices."""

    entry_points: str
    parts: tuple[str, ...]


# What the laboratory, or another package, gives the product: the name of an entry point -> what is asked for by it.
EXTENSIONS = "alphita.extensions"


# So many choices are not all listed, where some are near.
MANY = 20


class BrokenPlugin(AlphitaError):
    """A choice that another package offers cannot be used."""


def by_suffix(package: str, file: str) -> str | None:
    """Return the choice whose `SUFFIXES` fit a file's name best, or None: .usagi.csv goes before .csv.

    So does a choice's own name before one of its endings: x.omop.csv is of the format "omop".
    """
    low, fitting = file.lower(), []
    for name, given in constants(package, "SUFFIXES").items():
        endings = {suffix.rpartition(".")[2] for suffix in given}
        suffixes = {*given, *(f".{name}.{ending}" for ending in endings if ending != name)}
        fitting += [(len(suffix), name) for suffix in suffixes if low.endswith(suffix)]
    return max(fitting)[1] if fitting else None


def constants(package: str, part: str) -> dict[str, Any]:
    """Return a constant of each choice of `package`; of Alphita's own it is read from the source, not imported."""
    plugins = _load_all(package, tuple(sorted(_plugins(package))))
    values = {name: _literal(package, name, part) for name in _own(package)}
    return dict(sorted({**values, **{name: getattr(module, part) for name, module in plugins.items()}}.items()))


@functools.cache
def _literal(package: str, name: str, part: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Return what the source of a choice assigns to a name, where that is a literal; else import it."""
    spec = importlib.util.find_spec(f"{package}.{name}")
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(f"{package}.{name}")
    for node in ast.parse(source or "").body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == part for target in targets):
            with contextlib.suppress(ValueError):
                return ast.literal_eval(node.value)  # type: ignore[attr-defined]
    return getattr(load(package, name), part)


def names(package: str) -> list[str]:
    """Return the choices in `package` (e.g. "alphita_lab.recipes"), those of plug-ins too, sorted; none is imported."""
    return sorted({*_own(package), *_plugins(package)})


def load(package: str, name: str) -> ModuleType:
    """Import the choice `name` of `package`."""
    plugins = _plugins(package)
    offered = group(package)
    if name in plugins and offered is not None:
        return _load_plugin(plugins[name], offered.parts)
    choices = names(package)
    if name not in choices:
        raise UsageError(unknown(package.rsplit(".", 1)[-1].removesuffix("s"), name, choices))
    file = _sharing_a_file(package).get(name)
    module = importlib.import_module(f"{package}.{file or name}")
    if file:
        module = getattr(module, name)
    if offered is not None and (missing := _missing(module, offered.parts)):
        raise AlphitaError(f"{package}.{name} lacks {missing}; the folder's __init__.py says what each file must hold")
    return module


def group(package: str) -> Group | None:
    """Return what other packages may add to `package`, or None: nothing."""
    plugins: Group | None = getattr(importlib.import_module(package), "PLUGINS", None)
    return plugins


def extension(name: str) -> Any:  # noqa: ANN401 - whatever the entry point names
    """Return what the entry point `name` of "alphita.extensions" names, such as the laboratory's "train"."""
    for point in metadata.entry_points(group=EXTENSIONS, name=name):
        return point.load()
    raise AlphitaError(
        f"nothing installed offers {name!r}; install alphita again: pip install --force-reinstall alphita"
    )


def load_all(package: str) -> Mapping[str, ModuleType]:
    """Import all choices of `package`; a broken plug-in is skipped, and named in the log the first time."""
    return _load_all(package, tuple(names(package)))


@functools.cache
def _load_all(package: str, choices: tuple[str, ...]) -> Mapping[str, ModuleType]:
    modules = {}
    for name in choices:
        try:
            modules[name] = load(package, name)
        except BrokenPlugin as error:
            logging.getLogger(__name__).warning("skipped: %s", error)
    return modules


def origin(package: str, name: str) -> str:
    """Return where a choice is from, to be put behind it: " (of otherpackage 1.0)", or "" for one of Alphita's own."""
    plugin = _plugins(package).get(name)
    own = plugin is None or plugin.dist is None or plugin.dist.name == "alphita"
    return "" if plugin is None or own else f" (of {_package(plugin)})"


def listed(package: str) -> str:
    """Return the choices of `package` as a help page shows them, each plug-in with where it is from."""
    return ", ".join(f"{name}{origin(package, name)}" for name in names(package))


def unknown(what: str, name: str, choices: Iterable[str]) -> str:
    """Return the message for an unknown name: `unknown recipe 'codr'; did you mean 'coder'? choose from [...]`.

    Of many choices it lists the nearest.
    """
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
    if len(choices) > MANY and near:
        return f"unknown {what} {name!r}; did you mean {' or '.join(map(repr, near))}?"
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {name!r};{hint} choose from {choices}"


def _own(package: str) -> set[str]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"no package {package!r}")
    modules = pkgutil.iter_modules(list(spec.submodule_search_locations))
    return {module.name for module in modules if not module.name.startswith("_")} | set(_sharing_a_file(package))


def _sharing_a_file(package: str) -> Mapping[str, str]:
    """Return the choices that are no files of their own, and the file that holds each."""
    return getattr(importlib.import_module(package), "SHARING_A_FILE", {})


def _plugins(package: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of other packages by name."""
    offered = group(package)
    return _entry_points(package, offered.entry_points, tuple(sys.path)) if offered is not None else {}


@functools.cache
def _entry_points(package: str, entry_points: str, _path: tuple[str, ...]) -> dict[str, metadata.EntryPoint]:
    own = _own(package)
    plugins: dict[str, metadata.EntryPoint] = {}
    for plugin in metadata.entry_points(group=entry_points):
        if plugin.name in own or plugin.name in plugins:
            holder = f"{_package(plugins[plugin.name])}'s" if plugin.name in plugins else "Alphita's own"
            logging.getLogger(__name__).warning(
                "skipped: %r of %s, for %s is called so already", plugin.name, _package(plugin), holder
            )
        else:
            plugins[plugin.name] = plugin
    return plugins


def _load_plugin(plugin: metadata.EntryPoint, parts: tuple[str, ...]) -> ModuleType:
    what = f"the plug-in {plugin.name!r} of {_package(plugin)}"
    remedy = f"install another version of {_package(plugin)}, or remove it"
    try:
        module: ModuleType = plugin.load()
    except Exception as error:
        raise BrokenPlugin(f"{what} cannot be imported: {type(error).__name__}: {error}; {remedy}") from error
    if missing := _missing(module, parts):
        raise BrokenPlugin(f"{what} lacks {missing}; {remedy}")
    return module


def _missing(module: ModuleType, parts: tuple[str, ...]) -> str:
    return ", ".join(part for part in parts if not hasattr(module, part))


def _package(plugin: metadata.EntryPoint) -> str:
    return f"{plugin.dist.name} {plugin.dist.version}" if plugin.dist else plugin.module
