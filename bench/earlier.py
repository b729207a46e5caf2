"""What the benches that take over the cells of an earlier table.json have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alphita.errors import InputError


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Open the JSON of an earlier table; what goes wrong in looking for its parts says that it is none.

    Raises:
        InputError: it cannot be read, or has other parts.
    """
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(
            f"is no table of this program's ({type(error).__name__}: {error})", file=path,
            remedy="give the table.json of an earlier run",
        ) from None  # fmt: skip


def check_alike(path: Path, made_with: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse a table that was made with something else than `facts`.

    Raises:
        InputError: it was.
    """
    if different := sorted(key for key in {*facts, *made_with} if facts.get(key) != made_with.get(key)):
        raise InputError(
            f"was made with other values of {', '.join(different)}", file=path,
            remedy="rows of one table share them: leave that file out, or make these rows as those were made",
        )  # fmt: skip
