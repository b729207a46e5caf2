"""Options that the commands which write files of mappings have in common, and how they are read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from alphita import progress, registry

Output = Annotated[Path, typer.Option("--output", "-o", help="Output file.")]
Format = Annotated[
    str,
    typer.Option(
        "--format", help=f"Of the output: {registry.listed('alphita.mappings.formats')}; told by its name otherwise."
    ),
]
SetId = Annotated[str, typer.Option(help="URI of the mapping set (SSSOM, FHIR).")]
SetVersion = Annotated[str, typer.Option(help="Version of the mapping set.")]
Licence = Annotated[str, typer.Option(help="URI of the mapping set's licence (SSSOM).")]
Day = Annotated[str, typer.Option(help="Day of the mappings, as 2026-01-31.")]
SourceVocabulary = Annotated[
    str, typer.Option(help="Name of the input's codes: CURIE prefix in SSSOM, source_vocabulary_id in OMOP.")
]
SourceSystem = Annotated[str, typer.Option(help="URI of the input's code system (FHIR).")]
SourceVersion = Annotated[str, typer.Option(help="Version of the input's codes.")]
TargetSystem = Annotated[str, typer.Option(help="CURIE prefix of the terminology NIL was not found in.")]
Prefixes = Annotated[
    list[str] | None, typer.Option("--prefix", metavar="NAME=URI", help="Declare a CURIE prefix; may be repeated.")
]
Concepts = Annotated[Path | None, typer.Option(help="Athena's CONCEPT.csv, for the OMOP ids that usagi and omop need.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail at the first bad row.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]


def tell_losses(output: Path, losses: Counter[str], set_aside: int) -> None:
    """Print what a format does not hold, the most frequent first, and how many rows were set aside."""
    for what, number in losses.most_common():
        print(f"  not held: {number:>10,}  {what}")
    if set_aside:
        progress.say(f"{set_aside:,} rows were set aside; each is in {rejects_of(output)}")


def rejects_of(output: Path) -> Path:
    """Return the file for the rows of a file that are set aside."""
    return output.with_name(output.name + ".rejects.csv")
