"""Runs one job in a process of its own, to be killed: ENGINE INDEX INPUT OUT [resume]."""

from __future__ import annotations

import sys

from alphita.jobs import folder as job
from alphita.jobs.batches import NormalizerSettings
from alphita.jobs.engines.engine import open_engine
from alphita.jobs.folder import Shards, run

FEW_ROWS = 80


def shards(index: str, source: str, out: str) -> Shards:
    """Return a job of many small parts, that needs no encoder."""
    return Shards(source, out, NormalizerSettings(index, ranking="letters", top_k=2, floor=0.3), "code", part_rows=20)


def main(engine: str, index: str, source: str, out: str, resume: str = "") -> None:
    """Run it with two workers."""
    job.FEW_ROWS = FEW_ROWS
    with open_engine(engine, 2) as opened:
        run(shards(index, source, out), opened, resume=bool(resume))


if __name__ == "__main__":
    main(*sys.argv[1:])
