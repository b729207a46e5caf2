"""What a user chooses for an evaluation: the options of `alphita evaluate` beside its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alphita.options import HOW, option


@dataclass(frozen=True)
class EvaluationChoice:
    """What to score on what.

    `benchmarks` are names, or only "all": every one whose data are there; models and baselines are systems, as
    `load_system` reads them.
    """

    benchmarks: Sequence[str] = option(
        (),
        positional=True,
        metavar="[BENCHMARK...]",
        help="Names of benchmarks, or your own files; all: every benchmark whose data are available.",
    )
    models: Sequence[str] = option(
        (),
        "--model",
        "-m",
        help="System to score: alphita-en, minilm, a model folder, a hub name or a kind of baseline; repeatable.",
    )
    baselines: Sequence[str] = option(
        (), "--baseline", "-b", help="Baseline to score; differences are computed from the first one; repeatable."
    )
    data: Path | None = option(None, help="Folder with the benchmarks' files.")
    skipped: Sequence[str] = option(
        (), "--skip", metavar="BENCHMARK", help="Benchmark to leave out of all; repeatable."
    )
    settings: Sequence[str] = option(
        (), "--set", help="Option of the benchmarks: key=value or BENCHMARK.key=value; repeatable."
    )
    seed: int = option(0, least=0, panel=HOW, help="Seed for the bootstrap intervals and figures.")
    pictures: bool = option(False, panel=HOW, help="Plot the terminology's terms by their vectors (t-SNE).")
