"""Text and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence


def text(value: str) -> str:
    """Return text so that Markdown prints it as it is, on one line."""
    line = " ".join(value.split())
    # Underscores inside words, lone brackets and lone ampersands mean nothing in Markdown and stay readable.
    return re.sub(r"[\\`*|~]|(?<![^\W_])_|_(?![^\W_])|<(?=[\w/!?])|&(?=#?\w+;)|\](?=[(\[:])", r"\\\g<0>", line)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *rows])
