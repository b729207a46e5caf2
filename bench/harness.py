"""What the measurements share: options, HPO, mentions, rounds in turn, and a report with commit, seed and machine."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alphita import report
from alphita.calibrate.noise import noisy
from alphita.errors import Rejects
from alphita.index.store import Index
from alphita.terminology import detect, store
from alphita.terminology.loaders import obo


def parser(doc: str | None, *, rounds: int | None = None, output: bool = False) -> argparse.ArgumentParser:
    """Return a parser with the options of every measurement; `output`: the report must be written."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--output", "--out", "-o", type=Path, required=output, help="write the report here as JSON")
    made.add_argument("--seed", type=int, default=0)
    if rounds is not None:
        made.add_argument("--rounds", "--repeats", type=int, default=rounds)
    return made


def hpo(folder: Path) -> store.Terminology:
    """Import HPO from its package into a folder."""
    with Rejects(None) as rejects:
        read = obo.load([detect.find_packaged("hpo")], obo.Options(), rejects)
        store.save(read, folder / "hpo.terminology", rejects=rejects)
    return store.load_terminology(folder / "hpo.terminology")


def noisy_terms(index: Index, count: int, seed: int) -> list[str]:
    """Return `count` distinct terms of the index with noise: slips, and words lost, swapped and put before."""
    chance = random.Random(seed)
    rows = chance.choices(range(len(index)), k=2 * count)
    made: dict[str, None] = {}
    while len(made) < count:
        for row in rows:
            made[noisy(index.strings[row], chance)] = None
            if len(made) == count:
                break
    return list(made)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(works: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the figure of each work by round: each once a round, so that a machine that slows down slows all."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        for name, work in works.items():
            found[name].append(work())
        print(f"round {number + 1} of {rounds}: " + ", ".join(f"{some[-1]:.3g}" for some in found.values()), flush=True)
    return found


def write(given: argparse.Namespace, figures: Mapping[str, Any], **data: Any) -> None:  # noqa: ANN401 - plain values
    """Write the report, if it is asked for, with the options given, and hashes and versions as `data`."""
    if given.output is not None:
        config = {name: str(value) if isinstance(value, Path) else value for name, value in vars(given).items()}
        report.write(given.output, figures, provenance=report.provenance(config=config, seed=given.seed, data=data))
