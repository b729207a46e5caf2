"""Which build this is: version and hash of code, for two builds of one version may give two results."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphita import __version__, artefact

# The code that decides an answer, from the row that is read to what is written, and that which decides trained weights.
ANSWERING = (
    *("annotating", "distributed", "encoder", "index", "mappings", "normalizer", "terminology"),
    *("csv_lines.py", "machine.py", "textio.py", "workbooks.py"),
)
TRAINING = ("encoder", "graph", "index", "objectives", "recipes", "terminology", "training")


def build(parts: tuple[str, ...] = ANSWERING) -> str:
    """Return the version with the hash of the code that decides a result: a job goes on with the same one only."""
    return f"{__version__}+{code_hash(*parts)[:12]}"


def other_build(begun: Mapping[str, Any], parts: tuple[str, ...]) -> str:
    """Return what to say of long work that was begun by another build, which its note names; "" if it was this one."""
    before, now = begun.get("build"), build(parts)
    if before == now:
        return ""
    return (
        f"begun by alphita {before or 'of an earlier build'}, gone on with by {now}: start again for one of this alone"
    )


@functools.cache
def code_hash(*parts: str) -> str:
    """Return the hash of the code that makes what a cache keeps: two builds of one version may make two things."""
    root = Path(__file__).parent
    files = sorted(
        file
        for part in parts
        for file in ([root / part] if (root / part).is_file() else (root / part).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )
    return artefact.hash_json([[file.relative_to(root).as_posix(), artefact.hash_file(file)] for file in files])
