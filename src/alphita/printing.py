"""What is printed, so that a string of somebody's input cannot steer a terminal or falsify a log.

Control characters (escape sequences, a return that overwrites the line) and marks of direction (which show a text in
another order than it is) are printed as `\\u001b`, which JSON reads as what it was. Files that are written are left as
they are, and so is what goes to a program by way of `sys.stdout.buffer`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# All but tab, line feed, and the return before one.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)
# What rich draws with: colours, and the cursor of a progress bar.
_DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def visible(text: str) -> str:
    """Return a text in which nothing acts on whoever shows it."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
        """Write to `stream`; `drawn`: by rich."""
        self._stream, self._shown = stream, _drawn if drawn else visible
        if not drawn:
            # Where rich looks for what to write to.
            self.rich_proxied_file = _Guarded(stream, drawn=True)

    def write(self, text: str) -> int:
        """Write a text."""
        self._stream.write(self._shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:  # noqa: ANN401 - a stream of bytes
        """The bytes below: on a terminal they are shown too, for a program they are as they are."""
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
