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
from numpy.typing import NDArray
from scipy import stats

from alphita import artefact, machine, registry, report
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.encoding import STRINGS_A_BLOCK, Encoder, encode_block
from alphita.index.neighbours import Vectors
from alphita.progress import say
from alphita.report import file_name
from alphita_lab.evaluation.systems import load_system

Float = NDArray[np.float64]
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


HOLDS, FAILS, OPEN = "holds at this scale", "does not hold at this scale", "cannot be told"
POINT, RESAMPLES = 0.01, 2000
RULE = (
    "One rule for every claim, fixed before the trainings: the first must be above the second by more than a point, a "
    "hundredth of the measure's range. The 95% interval of the difference d is d ± t s: s joins the standard error of "
    "the mean over n seeds and that of a paired bootstrap over items, t is Student's quantile for the degrees of "
    "freedom of both (Welch and Satterthwaite; n - 1 where no items are kept). The claim "
    f"*{HOLDS}* where the interval lies above a point, *{FAILS}* where it lies below, and else, or "
    f"with one seed, *{OPEN}*. That two are alike holds within a point to either side, and does not beyond."
)


@dataclass(frozen=True)
class Column:
    """One column: its key in table.json and title, where its figure is in a report, and how it is printed.

    `most` is the end of the measure's range, of which a point is a hundredth.
    """

    name: str
    title: str
    benchmark: str
    metric: str
    subset: str = "all"
    scale: float = 1.0
    digits: int = 2
    most: float = 1.0


@dataclass(frozen=True)
class Ordering:
    """One row over another in the paper: on which columns, and where the paper says so."""

    first: str
    second: str
    columns: tuple[str, ...]
    source: str


def judge(first: Float, second: Float, *, point: float = POINT, seed: int = 0) -> dict[str, Any]:
    """Return the verdict on "the first is above the second", by `RULE`.

    Args:
        first: (seeds, items, 2): of each item numerator and denominator; a seed's figure is the ratio of their sums.
        second: of the same seeds and, within a seed, of the same items.
        point: the margin, in the figures' own unit.

    Raises:
        ValueError: they are of other seeds or items.
    """
    items = first.shape[1]
    if first.shape != second.shape:
        raise ValueError(f"other seeds or items: {first.shape} and {second.shape}")

    def differences(weights: Float) -> Float:
        one, other = (weights @ side[:, :, 0].T / (weights @ side[:, :, 1].T) for side in (first, second))
        return one - other

    of_seeds = differences(np.ones((1, items)))[0]
    chosen = np.random.default_rng(seed).multinomial(items, np.full(items, 1 / items), RESAMPLES)
    drawn = differences(chosen.astype(np.float64))
    return decided(of_seeds, float(drawn.mean(axis=1).std(ddof=1)), point)


def verdict(first: Mapping[int, float], second: Mapping[int, float], point: float = POINT) -> dict[str, Any] | None:
    """Return the verdict on two rows that keep one figure a seed; None where they have no seed in common.

    The items' spread is then not in the interval.
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return None
    return decided(np.array([first[seed] - second[seed] for seed in seeds]), 0.0, point)


def decided(differences: Float, of_items: float, point: float) -> dict[str, Any]:
    """Return mean, ends of the interval, number of seeds and verdict.

    Args:
        differences: (seeds,) of each seed's figures.
        of_items: standard error of their mean that comes of the items; 0 where these were not kept.
        point: the margin.
    """
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return {"n": n, "mean": mean, "low": None, "high": None, "verdict": OPEN}
    of_seeds = differences.std(ddof=1) / np.sqrt(n)
    error = np.hypot(of_seeds, of_items)
    # Welch and Satterthwaite: many items, so that all uncertainty of an error is the seeds'.
    freedom = (n - 1) * (error / of_seeds) ** 4 if of_seeds else np.inf
    half = float(stats.t.ppf(0.975, freedom) * error)
    low, high = mean - half, mean + half
    return {"n": n, "mean": mean, "low": low, "high": high, "verdict": concluded(low, high, point)}


def concluded(low: float | None, high: float | None, point: float, *, alike: bool = False) -> str:
    """Return the verdict by the ends of an interval: that the first is above the second, or that both are alike."""
    if low is None or high is None:
        return OPEN
    if alike:
        return HOLDS if -point < low and high < point else FAILS if low > point or high < -point else OPEN
    return HOLDS if low > point else FAILS if high < point else OPEN


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
    lines = ["| claim | on | difference | n | verdict | in the paper |", "|---|---|---|---:|---|---|"]
    for one in judged:
        column = forms.get(one["column"], Column("", "", "", "", digits=3))
        claim = one.get("claim") or f"{one['first']} over {one['second']}"
        numbers = [one["mean"]] + ([] if one["low"] is None else [one["low"], one["high"]])
        difference, *ends = (f"{column.scale * number:+.{column.digits}f}" for number in numbers)
        difference += f" [{', '.join(ends)}]" if ends else ""
        lines.append(f"| {claim} | {one['measure']} | {difference} | {one['n']} | {one['verdict']} | {one['paper']} |")
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
