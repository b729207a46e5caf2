"""Simulated reviewing: how many decisions it takes until 99% of a file is right, in our order and in others.

    python bench/reviewing.py --index X.index --split S.split --seconds 6 -o OUT [--rows 2000]
    python bench/reviewing.py --index X.index --table mentions.csv --seconds 6 -o OUT

The rows are strings whose concept is known: of the split's test part, or of a table (mention, concept_id, and frequency
if there is one). A calibrated index answers them. A simulated reviewer, who knows what is right, then decides row after
row; a row that was decided is right, another as it was answered. Orders:

    risk        frequency x (1 - confidence)
    learning    the same, but similar mentions wait (`alphita.mappings.review.asking`)
    frequency   the most frequent first; confidence is not looked at
    row         as the file has them: every row is looked at, as where there is no confidence

`needed` counts decisions until the target share of occurrences is right. That moment is seen only by who knows what is
right; `known` counts decisions until a reviewer has reason to stop: with confidence, when the expected share right
reaches the target; without, when so many of the occurrences were looked at. `right then` is the true share at that
moment. Hours are of the decisions until then, and of all rows in the order `row`.

With "following", an open row takes over the decision on a mention that is nearer to it than the term it was matched to,
as it does once accepted mentions are indexed as synonyms. Nothing is fitted again.

Where the file has no frequencies they are drawn: the r-th of a random order occurs most / r^exponent times, at least
once. Everything here is simulated: no person reviewed anything, and `--seconds` is what one decision is taken to last.
Written to OUT/report.json and OUT/table.csv, and printed.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, machine
from alphita.errors import UsageError
from alphita.evaluation import report
from alphita.index.store import Index
from alphita.mappings.review import asking
from alphita.normalizer.normalizer import Normalizer
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many

TARGET = 0.99
ROWS = 2_000
EXPONENTS = (0.0, 1.0)
MOST = 1_000
SEEDS = 5
ORDERS = ("risk", "learning", "frequency", "row")
NOBODY = -1
COLUMNS = (
    "frequencies", "answers", "order", "needed", "needed_low", "needed_high", "known", "right_then", "hours",
    "hours_saved",
)  # fmt: skip


@dataclass(frozen=True)
class File:
    """n rows to review.

    Attributes:
        mentions: the strings.
        gold: (n,) number of the right concept; NOBODY: no concept fits.
        answered: (n,) number of the answer's concept; NOBODY: NIL.
        confidence: (n,) of the answer, 0 to 1.
        similarity: (n,) of the mention with the term it was matched to; -1 where there is none.
        vectors: (n, d) of the mentions, of length 1.
        frequency: (n,) how often each occurs; None: to be drawn.
    """

    mentions: list[str]
    gold: NDArray[np.int64]
    answered: NDArray[np.int64]
    confidence: NDArray[np.float64]
    similarity: NDArray[np.float64]
    vectors: NDArray[np.float32]
    frequency: NDArray[np.int64] | None

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each answer is right, (n,)."""
        return self.gold == self.answered


def order_of(name: str, file: File, frequency: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows in one of `ORDERS`, (n,); ties as in the file."""
    rows = np.arange(len(frequency))
    if name == "row":
        return rows
    if name == "frequency":
        return np.lexsort((rows, -frequency))
    if name == "risk":
        return np.lexsort((rows, -frequency * (1 - file.confidence)))
    return np.argsort(asking.rank(file.mentions, frequency, file.confidence.tolist()))


def shares(
    file: File, frequency: NDArray[np.int64], order: NDArray[np.int64], *, following: bool
) -> NDArray[np.float64]:
    """Return the share of occurrences that is right after 0, 1, ..., n decisions: (n + 1,).

    Args:
        file: the rows.
        frequency: (n,).
        order: (n,) rows as they are decided.
        following: open rows follow decisions on nearer mentions.
    """
    answered, nearest = file.answered.copy(), file.similarity.copy()
    is_open = np.ones(len(order), bool)
    found = np.empty(len(order) + 1)
    found[0] = frequency[file.right].sum()
    for count, row in enumerate(order.tolist(), 1):
        is_open[row] = False
        answered[row] = file.gold[row]
        if following and file.gold[row] != NOBODY:
            cosine = file.vectors @ file.vectors[row]
            moved = is_open & (cosine > nearest)
            answered[moved], nearest[moved] = file.gold[row], cosine[moved]
        found[count] = frequency[answered == file.gold].sum()
    return found / frequency.sum()


def expected(file: File, frequency: NDArray[np.int64], order: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    """Return the share of occurrences that a reviewer may take for right after 0, 1, ..., n decisions: (n + 1,)."""
    before = file.confidence if name in ("risk", "learning") else np.zeros(len(order))
    won = frequency[order] * (1 - before[order])
    return (frequency @ before + np.concatenate([[0.0], np.cumsum(won)])) / frequency.sum()


def first(share: NDArray[np.float64], target: float) -> int:
    """Return after how many decisions a share reaches the target, to stay there."""
    below = np.flatnonzero(share < target - 1e-12)
    return int(below[-1]) + 1 if len(below) else 0


def drawn(n: int, exponent: float, seed: int, most: int = MOST) -> NDArray[np.int64]:
    """Return n frequencies: most / r^exponent for the r-th of a random order, at least 1."""
    ranks = np.random.default_rng(seed).permutation(n) + 1
    return np.maximum(1, np.round(most / ranks**exponent)).astype(np.int64) if exponent else np.ones(n, np.int64)


def measure(file: File, *, target: float, seconds: float, seeds: int = SEEDS) -> dict[str, Any]:
    """Simulate every order under every kind of frequencies, with and without following.

    Args:
        file: the rows.
        target: share of occurrences that shall be right.
        seconds: taken for one decision.
        seeds: draws of frequencies; figures are means over them, with the lowest and the highest.
    """
    n = len(file.gold)
    if file.frequency is not None:
        kinds = {"of the file": [file.frequency]}
    else:
        kinds = {"all 1": [drawn(n, 0, 0)]} | {
            f"drawn, exponent {exponent:g}": [drawn(n, exponent, seed) for seed in range(seeds)]
            for exponent in EXPONENTS if exponent
        }  # fmt: skip
    lines = []
    for kind, draws in kinds.items():
        for following in (False, True):
            for name in ORDERS:
                runs = [_run(file, one, name, target, following=following) for one in draws]
                needed, known = ([run[at] for run in runs] for at in (0, 1))
                # Who has neither confidence nor an order sees every row.
                decisions = n if name == "row" else float(np.mean(known))
                lines.append({
                    "frequencies": kind, "answers": "following" if following else "as they were", "order": name,
                    "needed": float(np.mean(needed)), "needed_low": min(needed), "needed_high": max(needed),
                    "known": float(np.mean(known)), "right_then": float(np.mean([run[2] for run in runs])),
                    "hours": decisions * seconds / 3600, "hours_saved": (n - decisions) * seconds / 3600,
                })  # fmt: skip
    return {
        "simulated": True, "rows": n, "right_at_first": float(file.right.mean()), "target": target,
        "seconds_a_decision": seconds, "mean_confidence": float(file.confidence.mean()), "orders": lines,
    }  # fmt: skip


def _run(
    file: File, frequency: NDArray[np.int64], name: str, target: float, *, following: bool
) -> tuple[int, int, float]:
    """Return decisions needed, decisions until there is reason to stop, and the share right by then."""
    order = order_of(name, file, frequency)
    share = shares(file, frequency, order, following=following)
    known = first(expected(file, frequency, order, name), target)
    return first(share, target), known, float(share[known])


def of_index(normalizer: Normalizer, mentions: list[str], gold: list[str | None], frequency: list[int] | None) -> File:
    """Answer the rows; those whose concept the index does not have are left out.

    Raises:
        UsageError: the index is not calibrated.
    """
    if normalizer.calibration is None:
        raise UsageError(f"{normalizer.index.path} has no calibration: alphita calibrate --index … comes first")
    rows = normalizer.index.concept_rows([one or "" for one in gold])
    kept = [place for place, one in enumerate(gold) if one is None or rows[place] >= 0]
    some = [mentions[place] for place in kept]
    results = normalizer.normalize(some)
    answers = normalizer.index.concept_rows([result.concept_id or "" for result in results])
    vectors = np.asarray(normalizer.encoder().encode(clean_many(some, normalizer.index.rules)), np.float32)
    return File(
        some, np.array([NOBODY if gold[place] is None else rows[place] for place in kept], np.int64),
        np.array([NOBODY if one.concept_id is None else row for one, row in zip(results, answers, strict=True)]),
        np.array([one.confidence or 0.0 for one in results]),
        np.array([-1.0 if one.similarity is None else one.similarity for one in results]),
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9),
        None if frequency is None else np.array([frequency[place] for place in kept], np.int64),
    )  # fmt: skip


def read(path: Path) -> tuple[list[str], list[str | None], list[int] | None]:
    """Return mentions, concepts (NIL: None) and frequencies, if there are any, of a table."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    frequency = [int(row["frequency"]) for row in rows] if rows and "frequency" in rows[0] else None
    return [row["mention"] for row in rows], [_concept(row["concept_id"]) for row in rows], frequency


def _concept(cell: str) -> str | None:
    return None if cell == "NIL" else cell


def of_split(path: Path, count: int, seed: int) -> tuple[list[str], list[str | None], None]:
    """Return so many strings of a split's test part, drawn at random, and their concepts."""
    part = Split.load(path).part("test")
    chosen = np.sort(np.random.default_rng(seed).permutation(len(part))[:count])
    return [part.strings[row] for row in chosen], [part.concept_ids[row] for row in chosen], None


def text(figures: dict[str, Any]) -> str:
    """Return the figures as a table."""
    lines = [
        f"simulated reviewing of {figures['rows']:,} rows, {figures['right_at_first']:.1%} right at first; "
        f"{figures['seconds_a_decision']:g} s a decision",
        f"{'frequencies':20} {'answers':13} {'order':10} {'needed':>15} {'known':>7} {'right then':>10} {'hours':>6}"
        f" {'saved':>6}",
    ]
    for row in figures["orders"]:
        between = f"{row['needed']:.0f} [{row['needed_low']}-{row['needed_high']}]"
        lines.append(
            f"{row['frequencies']:20} {row['answers']:13} {row['order']:10} {between:>15} {row['known']:7.0f} "
            f"{row['right_then']:10.2%} {row['hours']:6.2f} {row['hours_saved']:6.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulate, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--index", type=Path, required=True, help="a calibrated index")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--split", type=Path, help="the split that the index was built without")
    given.add_argument("--table", type=Path, help="a CSV with the columns mention and concept_id, maybe frequency")
    parser.add_argument("--rows", type=int, default=ROWS, help="strings of the split's test part")
    parser.add_argument("--seconds", type=float, required=True, help="what one decision is taken to last")
    parser.add_argument("--target", type=float, default=TARGET)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", "-o", type=Path, required=True)
    arguments = parser.parse_args()
    threads = machine.set_threads(arguments.threads)
    index = Index.open(arguments.index)
    rows = read(arguments.table) if arguments.table else of_split(arguments.split, arguments.rows, arguments.seed)
    file = of_index(Normalizer(index, threads=threads), *rows)
    figures = measure(file, target=arguments.target, seconds=arguments.seconds)
    data = {"index": index.content_hash, "rows": artefact.hash_json([*rows])}
    settings = {"most": MOST, "exponents": EXPONENTS, "similar": asking.SIMILAR, "decay": asking.DECAY}
    arguments.output.mkdir(parents=True, exist_ok=True)
    origin = report.provenance(config=settings, seed=arguments.seed, data=data)
    report.write(arguments.output / "report.json", figures, provenance=origin)
    with artefact.atomic_file(arguments.output / "table.csv", "w", newline="") as table:
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(figures["orders"])
    print(text(figures))


if __name__ == "__main__":
    main()
