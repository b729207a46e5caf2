"""Arguments that the benches with rows and seeds have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from alphita import registry
from alphita.errors import AlphitaError, UsageError


def listed(text: str) -> list[str]:
    """Return the distinct parts of a text with commas between."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def chosen(what: str, text: str, known: Sequence[str]) -> list[str]:
    """Return the names in a text with commas between.

    Raises:
        UsageError: one is not known; near ones are offered.
    """
    for name in (wanted := listed(text)):
        if name not in known:
            raise UsageError(registry.unknown(what, name, list(known)))
    return wanted


def seeds(text: str) -> list[int]:
    """Return the whole numbers in a text with commas between.

    Raises:
        UsageError: a part is none.
    """
    try:
        return [int(part) for part in listed(text)]
    except ValueError:
        raise UsageError(f"--seeds {text!r} are not whole numbers with commas between") from None


def setting(text: str) -> str:
    """Return a text of the form key=value, as argparse's `type` takes it."""
    if not text.partition("=")[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return text


def status(action: Callable[[], None]) -> int:
    """Do something and return the exit status; an error of Alphita's is printed."""
    try:
        action()
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0
