"""What is printed, so that a string of somebody's input cannot steer a terminal or falsify a log.

Control characters and marks of direction become `\\u001b`. Files and `sys.stdout.buffer` stay as they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# All but tab, line feed, and the return before one.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)
# What rich draws with: colours, and the cursor of a progress bar.
_DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def visible(text: str) -> str:
    """Return a text in which nothing acts on whoever shows it."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _drawn(text: str) -> str:
    """Return what rich drew, with nothing else that acts."""
    pieces, place = [], 0
    for drawing in _DRAWING.finditer(text):
        pieces += [visible(text[place : drawing.start()]), drawing[0]]
        place = drawing.end()
    return "".join((*pieces, visible(text[place:])))


class _Guarded:
    """A stream of text to which only what is visible is written; all else is the stream's own."""

    def __init__(self, stream: Any, *, drawn: bool = False) -> None:  # noqa: ANN401 - a stream of text
        self._stream, self._shown = stream, _drawn if drawn else visible
        if not drawn:
            # Where rich looks for what to write to.
            self.rich_proxied_file = _Guarded(stream, drawn=True)

    def write(self, text: str) -> int:
        self._stream.write(self._shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:  # noqa: ANN401 - a stream of bytes
        return _Shown(self) if self._stream.isatty() else self._stream.buffer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)


class _Shown:
    """A stream of bytes that are shown on a terminal."""

    def __init__(self, stream: _Guarded) -> None:
        self._stream = stream

    def write(self, content: bytes) -> int:
        self._stream.write(content.decode("utf-8", "replace"))
        return len(content)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Let all that the block prints, on standard output and error, be visible."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and _Guarded(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


# The one scheme, by what a piece of text is: what is best or can be told apart, heads of tables, what is aside. Help
# pages have typer's colours; rich leaves colours out where NO_COLOR is set, and all of it where there is no terminal.
STYLES = {"best": "bold", "head": "bold", "aside": "dim"}


def console(*, stderr: bool = False, **how: Any) -> Console:  # noqa: ANN401 - rich's own options
    """Return what draws tables and progress, in the one scheme of colours."""
    from rich.console import Console
    from rich.theme import Theme

    return Console(stderr=stderr, theme=Theme(STYLES), **how)


def print_rows(rows: Iterable[Mapping[str, object]]) -> None:
    """Print a table for programs, the one shape of `--json`: a JSON object a row, a line each."""
    for row in rows:
        print(json.dumps(row, ensure_ascii=False, default=str), flush=True)
