"""What the benches of rows and seeds share: a folder's plan, commands of `alphita`, figures by seed, and the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alphita import artefact, report
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.progress import say

TABLE, MODEL, PLAN = "table", "model", "plan.json"


def whole(path: Path, kind: str) -> bool:
    """Tell whether an artefact is there, whole."""
    try:
        artefact.open_manifest(path, kind)
    except InputError:
        return False
    return True


def caller(threads: int | None) -> Callable[..., None]:
    """Return what runs a command of alphita; it raises AlphitaError where that fails, which has said why."""

    def alphita(*arguments: str | Path) -> None:
        command = [sys.executable, "-m", "alphita", *map(str, arguments)]
        command += [] if threads is None else ["--threads", str(threads)]
        say(" ".join(["alphita", *command[3:]]))
        if subprocess.run(command, check=False).returncode:
            raise AlphitaError(f"this failed: {' '.join(command[2:])}")

    return alphita


def begin(facts: Mapping[str, Any], out: Path) -> None:
    """Write down what a folder is made with.

    Raises:
        UsageError: it was begun with something else.
    """
    out.mkdir(parents=True, exist_ok=True)
    note = out / PLAN
    if note.exists() and read(note) != json.loads(json.dumps(facts)):
        raise UsageError(f"{out} was begun with other data or settings ({PLAN}); choose another --output")
    with atomic_file(note, "w") as file:
        file.write(json.dumps(facts, indent=1) + "\n")


def begun(out: Path) -> dict[str, Any]:
    """Return what a folder is made with.

    Raises:
        UsageError: nothing was begun in it.
    """
    if not (out / PLAN).is_file():
        raise UsageError(f"nothing was begun in {out}: it has no {PLAN}")
    return read(out / PLAN)


def read(file: Path) -> dict[str, Any]:
    """Return what a file of JSON holds."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def seeds_in(folder: Path) -> dict[int, Path]:
    """Return the folders of a row's seeds, in order."""
    return dict(sorted((int(path.name), path) for path in folder.glob("*") if path.name.isdigit()))


def by_column(cells: Mapping[int, Mapping[str, float]]) -> dict[str, dict[int, float]]:
    """Return column -> seed -> figure, of the figures of each seed."""
    figures: dict[str, dict[int, float]] = {}
    for seed, of_seed in cells.items():
        for name, value in of_seed.items():
            figures.setdefault(name, {})[seed] = value
    return figures


def report_figures(path: Path) -> dict[str, dict[tuple[str, str, str], float]]:
    """Return a report's figures: system -> (benchmark, metric, subset) -> value."""
    found: dict[str, dict[tuple[str, str, str], float]] = {}
    for benchmark in read(path / "report.json")["benchmarks"]:
        for system in benchmark["systems"]:
            for figure in system.get("figures", []):
                if figure["value"] is not None:
                    place = (benchmark["name"], figure["metric"], figure["subset"])
                    found.setdefault(system["name"], {})[place] = float(figure["value"])
    return found


def made_by(path: Path) -> dict[str, str]:
    """Return what made a report's figures: commit and processor."""
    origin = read(path / "report.json")["provenance"]
    return {"commit": origin["commit"], "processor": origin["machine"]["processor"]}


def write_table(out: Path, figures: Mapping[str, Any], facts: Mapping[str, Any], text: str) -> None:
    """Write table.json and table.md."""
    report.write(out / f"{TABLE}.json", figures, provenance=report.provenance(config=facts))
    with atomic_file(out / f"{TABLE}.md", "w") as file:
        file.write(text)


def show(file: Path) -> None:
    """Print a file of text."""
    print(file.read_text(encoding="utf-8"), end="")
