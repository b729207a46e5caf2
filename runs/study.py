"""What the studies of rows and seeds share: command line, a folder's plan, commands of `alphita`, figures, tables."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alphita import artefact, machine, registry, report
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.encoding import STRINGS_A_BLOCK, Encoder, encode_block
from alphita.index.neighbours import Vectors
from alphita.progress import say
from alphita.report import file_name
from alphita_lab.evaluation.systems import load_system

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

    gpus = int(os.environ.get("GPUS") or 1)

    def alphita(*arguments: str | Path) -> None:
        words = [*map(str, arguments), *([] if threads is None else ["--threads", str(threads)])]
        several = ["-m", "torch.distributed.run", f"--nproc-per-node={gpus}"]
        command = [sys.executable, *(several if gpus > 1 and words[0] == "train" else []), "-m", "alphita", *words]
        say(" ".join(["alphita", *words]))
        if subprocess.run(command, check=False).returncode:
            raise AlphitaError(f"this failed: {' '.join(command[2:])}")

    return alphita


def begin(facts: Mapping[str, Any], out: Path) -> None:
    """Write down what a folder is made with."""
    out.mkdir(parents=True, exist_ok=True)
    note = out / PLAN
    if note.exists() and read(note) != json.loads(json.dumps(facts)):
        raise UsageError(f"{out} was begun with other data or settings ({PLAN}); choose another --output")
    with atomic_file(note, "w") as file:
        file.write(json.dumps(facts, indent=1) + "\n")


def begun(out: Path) -> dict[str, Any]:
    """Return what a folder is made with."""
    if not (out / PLAN).is_file():
        raise UsageError(f"nothing was begun in {out}: it has no {PLAN}")
    return read(out / PLAN)


def read(file: Path) -> dict[str, Any]:
    """Return what a file of JSON holds."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


BESIDE = "beside.json"


def look_for(systems: Sequence[str], out: Path) -> None:
    """Find out which systems to lay beside the rows can be had, before anything trains, and write it down."""
    found = {}
    for system in systems:
        found[f"beside_{file_name(system)}"] = {"system": system, "missing": None}
        try:
            load_system(system)
        except AlphitaError as error:
            say(f"{system}: not scored: {error}")
            found[f"beside_{file_name(system)}"]["missing"] = str(error)
    with atomic_file(out / BESIDE, "w") as file:
        file.write(json.dumps(found, indent=1) + "\n")


def beside(out: Path) -> dict[str, dict[str, Any]]:
    """Return the systems that `look_for` wrote down, by the name of their row: "system", and why one is "missing"."""
    return read(out / BESIDE) if (out / BESIDE).is_file() else {}


def not_scored(out: Path) -> list[dict[str, Any]]:
    """Return the rows of the systems that cannot be had."""
    return [
        {"name": name, "title": f"{one['system']}: not scored, {one['missing']}", "seeds": [], "figures": {}}
        for name, one in beside(out).items()
        if one["missing"]
    ]


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


def write_table(out: Path, figures: Mapping[str, Any], provenance: Mapping[str, Any], text: str) -> None:
    """Write table.json and table.md."""
    report.write(out / f"{TABLE}.json", figures, provenance=provenance)
    with atomic_file(out / f"{TABLE}.md", "w") as file:
        file.write(text)


def show(file: Path) -> None:
    """Print a file of text."""
    print(file.read_text(encoding="utf-8"), end="")


def listed(text: str) -> list[str]:
    """Return the distinct parts of a text with commas between."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def chosen(what: str, text: str, known: Sequence[str]) -> list[str]:
    """Return the names in a text with commas between."""
    for name in (wanted := listed(text)):
        if name not in known:
            raise UsageError(registry.unknown(what, name, list(known)))
    return wanted


def seeds(text: str) -> list[int]:
    """Return the whole numbers in a text with commas between."""
    try:
        return [int(part) for part in listed(text)]
    except ValueError:
        raise UsageError(f"--seeds {text!r} are not whole numbers with commas between") from None


def setting(text: str) -> str:
    """Return a text of the form key=value, as argparse's `type` takes it."""
    if not text.partition("=")[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return text


def add_settings(parser: argparse.ArgumentParser, flag: str, of: str, dest: str = "") -> None:
    """Add an option that takes key=value and can be repeated."""
    told: dict[str, Any] = {"dest": dest} if dest else {}
    parser.add_argument(
        flag, action="append", default=[], type=setting, help=f"of {of}: key=value; can be repeated", **told
    )


def add_command(commands: Any, action: Callable[..., None]) -> argparse.ArgumentParser:  # noqa: ANN401 - argparse's own
    """Add a subcommand named as its function, without `do_`, with the function's docstring as its help."""
    name, told = action.__name__.removeprefix("do_"), (action.__doc__ or "").rstrip(".")
    one: argparse.ArgumentParser = commands.add_parser(name, help=told)
    one.set_defaults(action=action)
    return one


def add_beside(parser: argparse.ArgumentParser) -> None:
    """Add the option that names systems to lay beside the rows."""
    told = "a system to lay beside the rows: a hub name, a folder; can be repeated. What cannot be had is not scored"
    parser.add_argument("--beside", action="append", default=[], help=told)


def act(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> int:
    """Do what a command line asks and return the exit status."""
    given = parser.parse_args(words)
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)
    return status(lambda: given.action(given))


Plan = TypeVar("Plan")


def plan_of(kind: type[Plan], given: argparse.Namespace, **more: Any) -> Plan:  # noqa: ANN401 - what its fields are
    """Return a plan whose fields are the options of the same name; lists become tuples."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    found = {name: getattr(given, name) for name in names if name in given} | more
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


def status(action: Callable[[], None]) -> int:
    """Do something and return the exit status; an error of Alphita's is printed."""
    try:
        action()
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


HOLDS, FAILS, SPREAD, ONE = "holds", "does not hold", "within the spread", "one seed"


@dataclass(frozen=True)
class Column:
    """One column: its key in table.json and title, where its figure is in a report, and how it is printed."""

    name: str
    title: str
    benchmark: str
    metric: str
    subset: str = "all"
    scale: float = 1.0
    digits: int = 2


@dataclass(frozen=True)
class Ordering:
    """One row over another in the paper: on which columns, and where the paper says so."""

    first: str
    second: str
    columns: tuple[str, ...]
    source: str


def verdict(first: Mapping[int, float], second: Mapping[int, float]) -> dict[str, Any] | None:
    """Return whether the first row is above the second, seed by seed; None where they have no seed in common.

    It holds if the mean difference is above its standard deviation (n - 1), and does not if it is below minus that;
    between, they are within the spread of the seeds. One seed tells nothing of the spread.
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return None
    differences = [first[seed] - second[seed] for seed in seeds]
    mean = float(np.mean(differences))
    if len(seeds) == 1:
        return {"n": 1, "mean": mean, "sd": None, "verdict": ONE}
    sd = float(np.std(differences, ddof=1))
    said = HOLDS if mean > sd else FAILS if mean < -sd else SPREAD
    return {"n": len(seeds), "mean": mean, "sd": sd, "verdict": said}


def cell(values: Sequence[float], column: Column) -> str:
    """Return "17.4 ± 0.5": mean and standard deviation over the seeds (n - 1), none of one seed; "–" for no value."""
    if not values:
        return "–"
    scaled = [column.scale * value for value in values]
    spread = f" ± {np.std(scaled, ddof=1):.{column.digits}f}" if len(scaled) > 1 else ""
    return f"{np.mean(scaled):.{column.digits}f}{spread}"


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """Return the lines of a Markdown table with the columns that any row has."""
    shown = [one for one in columns if any(row["figures"].get(one.name) for row in rows)]
    lines = ["| row | n | " + " | ".join(one.title for one in shown) + " |", "|---|" + "---:|" * (len(shown) + 1)]
    for row in rows:
        cells = [cell(list(row["figures"].get(one.name, {}).values()), one) for one in shown]
        lines.append(f"| {row['title']} | {len(row['seeds'])} | " + " | ".join(cells) + " |")
    return lines


def table_of_orderings(judged: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """Return the lines of a Markdown table of what was judged, as `orderings` gives it, in the form of `columns`."""
    forms = {one.name: one for one in columns}
    lines = ["| first over second | on | difference | n | verdict | in the paper |", "|---|---|---:|---:|---|---|"]
    for one in judged:
        column = forms.get(one["column"], Column("", "", "", "", digits=3))
        ends = "" if one["sd"] is None else f" ± {column.scale * one['sd']:.{column.digits}f}"
        difference = f"{column.scale * one['mean']:+.{column.digits}f}{ends}"
        lines.append(
            f"| {one['first']} over {one['second']} | {one['measure']} | {difference} | {one['n']} | {one['verdict']} "
            f"| {one['paper']} |"
        )
    return lines


class Encoded:
    """Remembers the vector of each string, for one encoder.

    Attributes:
        seconds: the processor-seconds that encoding took so far.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._kept: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {}
        self.seconds = 0.0

    def __call__(self, strings: Any, encoder: Encoder) -> Iterator[Vectors]:  # noqa: ANN401 - see `encoding.Blocks`
        """Yield the vectors of the strings' blocks; see `encoding.Blocks`."""
        for start in range(0, len(strings), STRINGS_A_BLOCK):
            block = strings.slice(start, STRINGS_A_BLOCK).to_pylist()
            new = [string for string in block if string not in self._kept]
            if new:
                began = time.process_time()
                self._kept.update(zip(new, encode_block(new, encoder), strict=True))
                self.seconds += time.process_time() - began
            yield np.array([self._kept[string] for string in block])
