"""Which format a file has, by its name."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from alphita import registry
from alphita.errors import UsageError

PACKAGE = "alphita.mappings.formats"


def chosen(path: Path, name: str, option: str) -> ModuleType:
    """Return the format called `name`, or, if that is "", the one whose suffix fits the file's name best.

    Raises:
        UsageError: there is no such format, or no suffix fits; the message names `option`.
    """
    choices = registry.names(PACKAGE)
    if name:
        return registry.load(PACKAGE, name)
    modules = [registry.load(PACKAGE, choice) for choice in choices]
    fitting = [
        (len(suffix), module) for module in modules for suffix in module.SUFFIXES if path.name.lower().endswith(suffix)
    ]
    if not fitting:
        raise UsageError(f"cannot tell the format of {path} by its name; say {option}, one of {choices}")
    found: ModuleType = max(fitting, key=lambda one: one[0])[1]
    return found
