"""A run's log: log.jsonl and, if asked for, TensorBoard's event file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphita.errors import require


class Log:
    """log.jsonl and, if asked, TensorBoard's event file; written by the first process only."""

    def __init__(self, work: Path, start: int, *, tensorboard: bool, first: bool) -> None:
        """Open it behind step `start`; what a killed run wrote after that goes.

        Args:
            work: the run's folder.
            start: steps done.
            tensorboard: write for TensorBoard too.
            first: whether this process is the one that writes.
        """
        self.first = first
        self.board: Any = None
        if self.first:
            _cut(work / "log.jsonl", start)
            self.file = open(work / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed in __exit__
            if tensorboard:
                require("tensorboard", "tensorboard")
                from torch.utils.tensorboard import SummaryWriter

                self.board = SummaryWriter(str(work / "tensorboard"), purge_step=start + 1)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_arguments: object) -> None:
        if self.first:
            self.file.close()
            if self.board is not None:
                self.board.close()

    def write(self, figures: Mapping[str, float]) -> None:
        """Add a line: "step" and the figures of that step."""
        if not self.first:
            return
        rounded = {key: value if isinstance(value, int) else round(float(value), 6) for key, value in figures.items()}
        self.file.write(json.dumps(rounded) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in figures.items():
                if name != "step":
                    self.board.add_scalar(name, value, int(figures["step"]))

    def flush(self) -> None:
        """Leave nothing unwritten."""
        if self.first:
            self.file.flush()
            if self.board is not None:
                self.board.flush()


def _cut(path: Path, step: int) -> None:
    """Drop the lines that a killed run wrote after its newest checkpoint."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except ValueError:
            break
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
