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
        help="Their names, or files of your own; all: those whose data are there.",
    )
    models: Sequence[str] = option(
        (), "--model", "-m", help="alphita-en, minilm, a model folder, a hub name or a baseline's kind; repeatable."
    )
    baselines: Sequence[str] = option(
        (), "--baseline", "-b", help="The same; the first one is what others are laid beside."
    )
    data: Path | None = option(None, help="The folder of the benchmarks' files.")
    skipped: Sequence[str] = option((), "--skip", metavar="BENCHMARK", help="Leave one out of all; repeatable.")
    settings: Sequence[str] = option((), "--set", help="key=value or BENCHMARK.key=value; repeatable.")
    seed: int = option(0, least=0, panel=HOW, help="Of the bootstrap intervals and pictures.")
    pictures: bool = option(False, panel=HOW, help="Draw the terminology's terms as the encoders place them (t-SNE).")
