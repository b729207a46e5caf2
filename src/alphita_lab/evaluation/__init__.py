"""Evaluation: rankings of concepts, their accuracy with intervals, baselines, figures and reports.

Rooms, each of which builds on those before it alone: `systems` (what answers), `scoring` (what the answers are worth),
and on these, apart from each other, `benchmarks` and `report`. `run` brings all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alphita.options import HOW, option


@dataclass(frozen=True)
class EvaluationChoice:
    """What to score on what: the options of `alphita evaluate` beside its files."""

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
        (), "--skip", metavar="BENCHMARK", help="Benchmark to exclude from all; repeatable."
    )
    settings: Sequence[str] = option(
        (), "--set", help="Option of the benchmarks: key=value or BENCHMARK.key=value; repeatable."
    )
    seed: int = option(0, least=0, panel=HOW, help="Seed for the bootstrap intervals and figures.")
    pictures: bool = option(False, panel=HOW, help="Plot the terminology's terms by their vectors (t-SNE).")
