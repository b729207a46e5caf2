"""The domain of each row: values of a column that say which concepts may answer it, as "Drug" or a local "Lab"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from alphita import textio
from alphita.errors import InputError, UsageError
from alphita.registry import unknown

HIDDEN = "not shown"


def read_map(path: Path) -> dict[str, str]:
    """Read a table of two columns, a local value and its domain; return the domains by value, in lower case.

    A value with several rows has several domains, joined by `|`.
    """
    domains: dict[str, str] = {}
    rows = textio.rows(path, how=textio.PLAIN)
    next(rows, None)
    for line, cells in rows:
        value, domain, *rest = [*cells, "", ""]
        if not value or not domain or any(rest):
            remedy = "give a header and two columns: your value, and a domain of the terminology"
            raise InputError("not a value and its domain", file=path, line=line, value=",".join(cells), remedy=remedy)
        before = domains.get(value.lower(), "").split("|")
        domains[value.lower()] = "|".join(dict.fromkeys(filter(None, [*before, domain])))
    return domains


class Domains:
    """The domains of one terminology by the values of a column; counts those that it does not know."""

    def __init__(self, types: Iterable[str], local: Mapping[str, str] | None = None, *, private: bool = False) -> None:
        known = {name.lower(): name for name in types}
        mapped = {value: domains.split("|") for value, domains in (local or {}).items()}
        for domain in (one for domains in mapped.values() for one in domains):
            if domain.lower() not in known:
                raise UsageError(f"--domain-map: {unknown('domain', domain, sorted(known.values()))}")
        self.known = known | {
            value: "|".join(known[one.lower()] for one in domains) for value, domains in mapped.items()
        }
        self.private = private
        self.unknown: Counter[str] = Counter()

    def of(self, value: str | None, times: int = 1) -> str | None:
        """Return the domain of a row; None: it says none, or one that is not known."""
        if not value or not (value := value.strip()):
            return None
        domain = self.known.get(value.lower())
        if domain is None:
            self.unknown[HIDDEN if self.private else value] += times
        return domain
