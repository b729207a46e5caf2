"""Which format a file has, by its name."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from alphita import registry
from alphita.errors import UsageError

PACKAGE = "alphita.mappings.formats"


def chosen(path: Path, name: str, option: str, *, to_read: bool = False) -> ModuleType:
    """Return the format called `name`, or, if that is "", the one whose suffix fits the file's name best.

    Args:
        path: the file.
        name: of the format, or "".
        option: by which a format is named.
        to_read: tell an SSSOM file that is called .tsv by its content, pass over ".gz", and do not offer formats that
            cannot be read.
            One that is asked for by name or suffix is returned all the same: its `read` says what to give instead.

    Raises:
        UsageError: there is no such format, or no suffix fits; the message names `option`.
    """
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
