"""How time and memory grow: names of a terminology, and rows of a job, in powers of ten.

    python bench/growth.py [--names 1e4,1e5,1e6] [--rows 1e3,1e4,1e5,1e6] -o growth.json --picture growth.png
    python bench/growth.py --from names.json rows.json -o growth.json --picture growth.png

Names are made with the seed: words of 1 to 4 syllables, drawn with a long tail from a vocabulary that grows with the
root of their number, as those of real terminologies do, 1 to 4 names a concept. Rows repeat such names with slips, a
tenth of them distinct. The encoder is a cheap one of hashed 3-grams (128 numbers): the time of a real one is linear.

Each step is a process of its own, which did it with 500 before. Its time is processor seconds, so that other programs
count little; its memory the most that it held, what it held before the step taken off. Where a step needs what another
makes, that is made first and not counted. The slope is that of the logarithms between the two largest sizes: 1 is
linear, n log n has 1.07 to 1.1 here.
A step whose slope of time is above 1.2 is named as too steep, unless it takes less than half a second.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import Rejects
from alphita.index.strings import cut

STEEP, SMALL = 1.2, 0.5
ROWS_NAMES = 10_000
MENTIONS = 1_000
WARM = 500
SYLLABLES = [first + vowel + last for first in "bcdfglmnprst" for vowel in "aeiou" for last in ("", "n", "r", "s")]


class Hashed:
    """An encoder of hashed 3-grams."""

    dim, content_hash, tokenizer_hash = 128, "hashed 3-grams", "3-grams"

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, 128) float32 of length 1."""
        grams, owner = cut(strings)
        mixed = grams * np.uint64(0x9E3779B97F4A7C15)
        place = owner * self.dim + (mixed >> np.uint64(57)).astype(np.int64)
        sign = np.where(mixed & np.uint64(1 << 40), 1.0, -1.0)
        vectors = np.bincount(place, sign, len(strings) * self.dim).reshape(-1, self.dim).astype(np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def save(self, path: Path) -> None:
        """Write a folder."""
        path.mkdir()
        (path / "config.json").write_text("{}")


def names(count: int, seed: int, prefix: str = "MADE") -> list[tuple[str, str]]:
    """Return rows of a concept's id and a name, `count` of them, made with the seed."""
    chance = random.Random(seed)
    words = sorted({"".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(40 * math.isqrt(count))})
    chance.shuffle(words)
    weights = np.cumsum(1 / np.arange(1, len(words) + 1)).tolist()
    rows, concept, left = [], 0, 0
    for _ in range(count):
        if not left:
            concept, left = concept + 1, chance.randint(1, 4)
        left -= 1
        rows.append(
            (f"{prefix}:{concept}", " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(2, 6))))
        )
    return rows


def slipped(name: str, chance: random.Random) -> str:
    """Return a name with a letter gone, and another twice."""
    letters = list(name)
    del letters[chance.randrange(len(letters))]
    place = chance.randrange(len(letters))
    letters.insert(place, letters[place])
    return "".join(letters)


# --- what steps need --------------------------------------------------------------------------------------------------


def table(folder: Path, count: int, seed: int, prefix: str = "MADE") -> Path:
    """Return the file of so many names, made if it is not there."""
    path = folder / f"{prefix}-{count}.tsv"
    if not path.exists():
        lines = ["id\tterm\n", *(f"{concept}\t{name}\n" for concept, name in names(count, seed, prefix))]
        path.write_text("".join(lines))
    return path


def terminology(folder: Path, count: int, seed: int, prefix: str = "MADE") -> Any:  # noqa: ANN401
    """Return the terminology of so many names, made if it is not there."""
    from alphita.terminology.loaders import table as loader
    from alphita.terminology.store import load_terminology
    from alphita.terminology.writing import save

    path = folder / f"{prefix}-{count}.terminology"
    if not path.exists():
        with Rejects(folder / f"{prefix}-{count}.rejects.csv") as rejects:
            tables = loader.load([table(folder, count, seed, prefix)], loader.Options(), rejects)
            save(tables, path, rejects=rejects)
    return load_terminology(path)


def index(folder: Path, count: int, seed: int) -> Any:  # noqa: ANN401
    """Return the index of so many names, made if it is not there."""
    from alphita.index.store import Index, build

    path = folder / f"made-{count}.index"
    return Index.open(path) if path.exists() else build(terminology(folder, count, seed), Hashed(), path)


def mentions(folder: Path, rows: int, seed: int) -> Path:
    """Return a file of so many rows, a tenth of them distinct, made if it is not there."""
    path = folder / f"rows-{rows}.csv"
    if not path.exists():
        chance = random.Random(seed)
        known = names(ROWS_NAMES, seed)
        distinct = [slipped(chance.choice(known)[1], chance) for _ in range(max(1, rows // 10))]
        path.write_text("code,mention\n" + "".join(f"{row},{chance.choice(distinct)}\n" for row in range(rows)))
    return path


def answers(folder: Path, rows: int, seed: int) -> Path:
    """Return the answers to so many rows, made if they are not there."""
    from alphita.answer.normalizer import Normalizer
    from alphita.jobs.run import run
    from alphita.jobs.spec import Spec

    path = folder / f"answers-{rows}.csv"
    if not path.exists():
        spec = Spec(
            input=str(mentions(folder, rows, seed)), to="", output=str(path), column="mention", code_column="code"
        )
        run(Normalizer(index(folder, ROWS_NAMES, seed), encoder=Hashed(), ranking="vectors"), spec.job())
    return path


def store(folder: Path, rows: int, seed: int) -> Any:  # noqa: ANN401
    """Return a review of so many rows, filled if it is not there."""
    from alphita.mappings.formats import csv
    from alphita.review import files
    from alphita.review.store import ReviewStore
    from alphita.service import review_files

    path = folder / f"reviews-{rows}.sqlite"
    if path.exists():
        return ReviewStore.open(path)
    with Rejects(folder / "review.rejects.csv") as rejects:
        found = files.read(answers(folder, rows, seed), csv, "made", rejects)
        opened = ReviewStore.open(path, create=True)
        review_files.add(opened, review_files.project_of("made", "MADE", "mention", None), found, None)
    return opened


# --- steps: each makes what it needs, and returns what is counted ----------------------------------------------

Step = Callable[[Path, int, int], Callable[[], object]]


def importing(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Read a table into a terminology."""
    table(folder, count, seed)
    return lambda: terminology(folder, count, seed)


def merging(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Join two terminologies of half the size by their names."""
    from alphita.terminology import merge

    halves = [terminology(folder, count // 2, seed + part, f"HALF{part}") for part in range(2)]
    return lambda: merge.merge(halves)


def splitting(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Divide its strings into train, calibration and test."""
    from alphita.terminology import splits

    made = terminology(folder, count, seed)
    return lambda: splits.hold_out_synonyms(made, calibration=0.1, seed=seed)


def indexing(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Build the index, the strings' vectors and letters included."""
    terminology(folder, count, seed)
    return lambda: index(folder, count, seed)


def letters(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Build the letters alone."""
    from alphita.index import ngrams
    from alphita.index.strings import SortedStrings

    strings = SortedStrings(index(folder, count, seed).strings.array)
    return lambda: ngrams.build(strings, folder / f"letters-{count}")


def words(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Gather the words of its names, as the first misspelt mention needs them."""
    from alphita.mention.spelling import Speller

    strings = index(folder, count, seed).strings.array
    return lambda: Speller(strings, ()).readings(["lonbasen"])


def opening(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Open the index and answer a mention."""
    from alphita.answer.normalizer import Normalizer
    from alphita.index.store import Index

    path = index(folder, count, seed).path
    return lambda: Normalizer(Index.open(path, verify=False), encoder=Hashed()).normalize(["banana lonbase"])


def answering(folder: Path, count: int, seed: int) -> Callable[[], object]:
    """Answer a thousand mentions."""
    from alphita.answer.normalizer import Normalizer

    opened = index(folder, count, seed)
    chance = random.Random(seed)
    asked = [slipped(opened.strings[chance.randrange(len(opened))], chance) for _ in range(2 * MENTIONS)]
    normalizer = Normalizer(opened, encoder=Hashed(), ranking="vectors")
    normalizer.normalize(asked[:MENTIONS], top_k=5)
    return lambda: normalizer.normalize(asked[MENTIONS:], top_k=5)


def job(folder: Path, rows: int, seed: int) -> Callable[[], object]:
    """Answer a file."""
    mentions(folder, rows, seed)
    index(folder, ROWS_NAMES, seed)
    return lambda: answers(folder, rows, seed)


def reviewing(folder: Path, rows: int, seed: int) -> Callable[[], object]:
    """Put the answers into a review."""
    answers(folder, rows, seed)
    return lambda: store(folder, rows, seed)


def bulk(folder: Path, rows: int, seed: int) -> Callable[[], object]:
    """See the queue and the progress of a review, and write its mappings."""
    opened = store(folder, rows, seed)

    def done() -> None:
        opened.queue("made")
        opened.progress("made")
        for _ in opened.mappings("made"):
            pass

    return done


def converting(folder: Path, rows: int, seed: int) -> Callable[[], object]:
    """Read the answers, and write them as SSSOM."""
    from alphita.cli import main

    source, out = answers(folder, rows, seed), folder / f"answers-{rows}.sssom.tsv"

    def done() -> None:
        sys.argv = ["alphita", "mappings", "convert", str(source), "-o", str(out), "--force"]
        sys.argv += ["--prefix", "MADE=https://example.org/"]
        sys.argv += ["--set-id", "https://example.org/made.sssom.tsv", "--licence", "https://example.org/licence"]
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise

    return done


OF_NAMES: dict[str, Step] = {
    "import": importing, "merge": merging, "split": splitting, "index": indexing, "letters": letters, "words": words,
    "open": opening, "answer": answering,
}  # fmt: skip
OF_ROWS: dict[str, Step] = {"job": job, "review": reviewing, "bulk": bulk, "convert": converting}


def measured(name: str, folder: Path, size: int, seed: int) -> dict[str, float]:
    """Do one step here; return its processor seconds and the bytes of memory that it added at most."""
    machine.set_threads(1)
    step = {**OF_NAMES, **OF_ROWS}[name]
    with tempfile.TemporaryDirectory(dir=folder) as small:
        step(Path(small), WARM, seed)()  # what is imported is not counted
    work = step(folder, size, seed)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = _memory("VmRSS"), resource.getrusage(resource.RUSAGE_SELF)
    work()
    end = resource.getrusage(resource.RUSAGE_SELF)
    seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
    return {"size": size, "seconds": seconds, "bytes": max(0, _memory("VmHWM") - before)}


def _memory(kind: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    raise SystemExit("the memory of a process is told on Linux alone")


def slope(points: Sequence[dict[str, float]], what: str) -> float | None:
    """Return the slope of the logarithms between the two largest sizes; None where one is too small to tell."""
    if len(points) < 2 or min(point[what] for point in points[-2:]) <= 0:
        return None
    (first, second) = points[-2:]
    return round(math.log(second[what] / first[what]) / math.log(second["size"] / first["size"]), 2)


def report(steps: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return the points of each step with their slopes."""
    return {
        name: {
            "by": "names" if name in OF_NAMES else "rows",
            "points": points,
            "slope_of_seconds": (steep := slope(points, "seconds")),
            "slope_of_bytes": slope(points, "bytes"),
            "too_steep": steep is not None and steep > STEEP and points[-1]["seconds"] > SMALL,
        }
        for name, points in steps.items()
    }


def draw(steps: dict[str, Any], path: Path) -> None:
    """Draw seconds above and memory below, over names at the left and rows at the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(12, 8), sharex="col", layout="constrained")
    for column, by in enumerate(("names", "rows")):
        for row, (what, scale) in enumerate((("seconds", 1.0), ("bytes", 1e-6))):
            axis = axes[row][column]
            for name, step in steps.items():
                if step["by"] == by:
                    points = [(each["size"], each[what] * scale) for each in step["points"] if each[what] > 0]
                    steep = step[f"slope_of_{what}"]
                    label = name if steep is None else f"{name} ({steep:.2f})"
                    axis.loglog(*zip(*points, strict=True), marker="o", label=label)
            axis.set_ylabel("processor seconds" if what == "seconds" else "memory added, MB")
            axis.set_xlabel(by)
            axis.grid(alpha=0.3)
            # Beside the lines, for some begin low and others high.
            axis.legend(title="slope at the end", fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=80, metadata={"Software": None})


def show(figures: dict[str, Any], given: argparse.Namespace) -> None:
    """Print the slopes, and write and draw what is asked for."""
    for name, step in figures["steps"].items():
        print(f"{name}: slope {step['slope_of_seconds']}{' TOO STEEP' if step['too_steep'] else ''}")
    if given.output:
        given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if given.picture:
        draw(figures["steps"], given.picture)


def main() -> None:
    """Measure each step at each size, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default="1e4,1e5,1e6")
    parser.add_argument("--rows", default="1e3,1e4,1e5,1e6")
    parser.add_argument("--steps", default=",".join([*OF_NAMES, *OF_ROWS]))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where there is room (5 GB for a million); a temporary one")
    parser.add_argument("--output", "-o", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--from", dest="sources", nargs="+", type=Path, help="put figures together, measure nothing")
    parser.add_argument("--one", nargs=2, metavar=("STEP", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], given.folder, int(given.one[1]), given.seed)))
        return
    if given.sources:
        parts = [json.loads(source.read_text()) for source in given.sources]
        together = {name: step for part in parts for name, step in part["steps"].items()}
        show({**parts[0], "steps": together, "command": [part["command"] for part in parts]}, given)
        return
    wanted = given.steps.split(",")
    steps: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for known, sizes in ((OF_NAMES, given.names), (OF_ROWS, given.rows)):
            for name in known:
                if name not in wanted:
                    continue
                for size in (str(int(float(each))) for each in sizes.split(",")):
                    command = [sys.executable, __file__, "--one", name, size, "--folder", str(folder)]
                    command += ["--seed", str(given.seed)]
                    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                    told = told.splitlines()[-1]
                    steps.setdefault(name, []).append(json.loads(told))
                    print(name, told, flush=True)
    figures = {"steps": report(steps), "machine": machine.describe(), "command": ["bench/growth.py", *sys.argv[1:]]}
    show(figures, given)


if __name__ == "__main__":
    main()
