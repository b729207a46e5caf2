"""`alphita normalize --engine`: Parquet -> a folder of Parquet, by several processes or machines."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from alphita import artefact, machine
from alphita.cli._summary import text_of
from alphita.errors import UsageError

if TYPE_CHECKING:
    from alphita.normalizer.writing.batches import NormalizerSettings

# Options of one file's job and the values they may have beside an engine.
ALLOWED: dict[str, tuple[object, ...]] = {
    "input_format": ("", "parquet"),
    "encoding": ("utf-8",),
    "format_": ("", "parquet"),
}


def refuse_of_one_file(input_: str, output: str, **given: object) -> None:
    """Refuse what does not go with an engine.

    Raises:
        UsageError: one of the options given, by name; or stdin or stdout.
    """
    if input_ == "-":
        raise UsageError("--engine reads Parquet files, not stdin")
    if output == "-":
        raise UsageError("--engine writes a folder, not stdout; give -o FOLDER")
    for name, value in given.items():
        if value and value not in ALLOWED.get(name, ()):
            option = "--" + name.strip("_").replace("_", "-")
            raise UsageError(
                f"{option} {value} does not go with --engine, which reads Parquet and writes a folder of Parquet; "
                "leave it out, or leave out --engine"
            )


def normalize_shards(
    input_: str,
    output: str,
    settings: NormalizerSettings,
    *,
    code: str | None,
    frequency: str | None,
    private: bool,
    verify: bool,
    engine: str,
    workers: int | None,
    address: str | None,
    gpus: float,
    resume: bool,
    force: bool,
    report: Path | None,
) -> None:
    """Run the job and print its counts; the options are those of the command."""
    from alphita.distributed.engines import open_engine
    from alphita.distributed.job import Shards, run
    from alphita.normalizer.calibrating.audit import WRITTEN

    if report is not None:
        artefact.refuse_unwritable(report)
    if verify:
        artefact.verify(settings.index, "index")
    with open_engine(engine, workers, address, gpus) as opened:
        done = run(Shards(input_, output, settings, code, frequency, private), opened, resume=resume, force=force)
    if report is not None:
        facts = asdict(done.summary) | {"parts": done.parts, "distinct": done.distinct, "steps": done.seconds}
        facts |= {"engine": done.engine, "command": sys.argv[1:], "machine": machine.describe()}
        with artefact.atomic_file(report, "w", so_far=WRITTEN) as file:
            json.dump(facts, file, indent=1)
    print(text_of(done.summary))
    told = ", ".join(f"{name} {value}" for name, value in done.engine.items())
    print(f"{done.distinct:,} distinct strings answered; {done.parts:,} parts; {told}")
