"""The options of `alphita train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alphita.options import option

EXPORT = "Export of a plain encoder"


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """What to train on, from which encoder on, and where to."""

    terminology: Path | None = option(None, "--terminology", "-t", help="Terminology to learn from; pairs needs none.")
    output: Path = option(..., "--output", "-o", help="Model folder to create.")
    encoder: str = option("minilm", help="Encoder to start from: alphita-en, minilm, a folder or a hub name.")
    split: Path | None = option(None, help="Split whose held-out strings to exclude from training.")
    settings: tuple[str, ...] = option((), "--set", help="A setting, key=value; repeatable.")
    config: Path | None = option(None, help="TOML file with settings.")
    threads: int | None = option(None, help="Size of every thread pool; by default one thread per core.")
    from_mappings: str | None = option(
        None,
        metavar="STORE",
        help="Review store: accepted mentions become synonyms (in OUTPUT.terminology), wrong candidates become hard "
        "negatives if the recipe uses them; the newest fifth is held out.",
    )
    resume: bool = option(False, help="Continue the unfinished run.")
    force: bool = option(False, help="Replace an existing model and, without --resume, an unfinished run.")
    seeds: str = option(
        "", metavar="1,2,3", help="Train with each seed, into OUTPUT/seed-N; evaluate all, and print mean and sd."
    )
    evaluate: tuple[str, ...] = option(
        (), metavar="BENCHMARK[,key=value]", help="Benchmark for --seeds; held_out_synonyms if there is a --split."
    )
    data: Path | None = option(None, help="Folder with the benchmarks' files, for --seeds.")
    push: str = option("", metavar="OWNER/NAME", help="Then upload the model to this repository of the hub; private.")
    dry_run: bool = option(False, help="Run a few batches, estimate the cost of the whole run, and write nothing.")
    export: str = option(
        "", panel=EXPORT, help="distilled: also create OUTPUT.distilled, a plain encoder that other libraries can open."
    )
    export_settings: tuple[str, ...] = option(
        (), "--export-set", panel=EXPORT, help="A setting of the export, key=value; repeatable."
    )

    def how(self) -> dict[str, bool]:
        """Return whether a run goes on, replaces what is there, or is only tried."""
        return {"resume": self.resume, "force": self.force, "dry_run": self.dry_run}
