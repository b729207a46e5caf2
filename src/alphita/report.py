"""Reports: one shape of report.json: {"format_version": 1, "provenance": {...}, and then the figures by name}.

A figure is a fraction; its 95% interval is NAME_interval: [low, high].
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import alphita
from alphita import machine
from alphita.artefact import atomic_file

if TYPE_CHECKING:
    pass

KIND = "report"
FORMAT_VERSION = 1
RESERVED = ("format_version", "provenance")
# The packages whose version can change a figure.
PACKAGES = (
    *("faiss-cpu", "numpy", "onnxruntime", "openTSNE", "polars", "pyarrow", "scikit-learn", "sentence-transformers"),
    *("sparse_dot_topn", "tokenizers", "torch", "transformers"),
)


def provenance(
    *, config: Mapping[str, Any] | None = None, seed: int | None = None, data: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return where a report's figures come from."""
    return {
        "commit": _commit(),
        "command": machine.command(),
        "config": dict(config or {}),
        "seed": seed,
        "data": dict(data or {}),
        "machine": machine.describe(),
        "alphita_version": alphita.__version__,
        "packages": _versions(),
    }


def write(path: Path | str, figures: Mapping[str, Any], *, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Write a report, whole or not at all."""
    if taken := sorted(set(RESERVED) & set(figures)):
        raise ValueError(f"a report's own names cannot be figures: {taken}")
    report = {"format_version": FORMAT_VERSION, "provenance": dict(provenance), **figures}
    text = as_json(report)
    with atomic_file(path, "w") as file:
        file.write(text + "\n")
    written: dict[str, Any] = json.loads(text)
    return written


def as_json(figures: Mapping[str, Any]) -> str:
    """Return figures as a report writes them."""
    return json.dumps(figures, indent=1, ensure_ascii=False, allow_nan=False, default=_plain)


def percent(figure: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a fraction as a table's cell: "61.0 [59.2, 62.7]", or "–" if there is none."""
    if figure is None:
        return "–"
    ends = "" if interval is None else f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"
    return f"{100 * figure:.1f}{ends}"


def file_name(system: str) -> str:
    """Return a system's name as part of a file name; names that differ only in what cannot stand there become one."""
    return re.sub(r"[^\w.=-]+", "_", system)


def _commit() -> str | None:
    """Return the commit of the checkout this package lies in; not of one that it merely was installed within."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or not (root / "src" / "alphita").is_dir():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    return commit and commit + ("-dirty" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a report cannot hold a {type(value).__name__}")
