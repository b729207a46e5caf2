"""How a normaliser answers: its options, each once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from alphita.answer.calibration_store import Calibration
from alphita.answer.filters import Filters
from alphita.answer.records import DEFAULT_FLOOR
from alphita.errors import UsageError
from alphita.registry import unknown

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class NormalizerOptions:
    """How a normaliser answers; each option may also be given to `Normalizer` by its name.

    Attributes:
        ranking: a module of `answering.rankings`; "auto": `learned` if there is a calibration, else `vectors`.
        calibration: what `alphita calibrate` made, or its folder; by default the one inside the index, else the
            general one that came with its model, if any.
        floor: similarity, -1 to 1, below which the best term is no answer (NIL); a learned ranking has its own.
        error: the allowed error, 0 to 1, at which answers are accepted unseen; needs a calibration. By default 0.05
            with one, and without one nothing is accepted.
        target: give concepts' codes in this code system, a prefix such as "SNOMEDCT", where they have one.
        filters: which concepts may be answered; all by default.
        abbreviations: your own list: a CSV or TSV with the columns short and long.
        precision: see `TermEncoder.load`.
        device: see `TermEncoder.load`.
        threads: see `TermEncoder.load`.
    """

    ranking: str = AUTO
    calibration: Calibration | Path | str | None = None
    floor: float = DEFAULT_FLOOR
    error: float | None = None
    target: str | None = None
    filters: Filters | None = None
    abbreviations: Path | str | None = None
    precision: str = "auto"
    device: str = "auto"
    threads: int | None = None

    def changed(self, options: dict[str, Any]) -> NormalizerOptions:
        """Return these options with others for some, by their names."""
        for name in options.keys() - set(NAMES):
            raise UsageError(unknown("option", name, NAMES))
        made = replace(self, **options)
        if not -1.0 <= made.floor <= 1.0:
            raise UsageError(f"floor must be between -1 and 1, not {made.floor}")
        return made


NAMES = tuple(each.name for each in fields(NormalizerOptions))
