"""Which format a file has, by its name."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from alphita import registry
from alphita.errors import UsageError

PACKAGE = "alphita.mappings.formats"


def chosen(path: Path, name: str, option: str, *, to_read: bool = False) -> ModuleType:
    """Return the format called `name`, or, if that is "", the one whose suffix fits the file's name best."""
    if name in registry.names(PACKAGE):
        return registry.load(PACKAGE, name)
    modules = registry.load_all(PACKAGE)
    offered = [choice for choice, module in modules.items() if module.READS or not to_read]
    if name:
        raise UsageError(registry.unknown("format", name, offered))
    found = registry.by_suffix(PACKAGE, path.name.lower().removesuffix(".gz") if to_read else path.name)
    if found is None:
        raise UsageError(f"cannot tell the format of {path} by its name; say {option}, one of {offered}")
    if to_read and found is modules["tsv"] and not found.is_plain(path):
        return modules["sssom"]
    return found
