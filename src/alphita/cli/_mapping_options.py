"""What the commands that write files of mappings have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from alphita import progress, registry
from alphita.errors import counted
from alphita.mappings.formats import PREFIXES, Header, _curies, chosen, day_of
from alphita.options import STRICT, Option, group, option

SET = "Details of the mapping set"
PRIVATE = Option(help="Treat strings as patient data: rejects give only line numbers.")
FORMATS = registry.listed("alphita.mappings.formats")


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A file of mappings to write."""

    output: Path = option(..., "--output", "-o", help="Output file.")
    format: str = option("", help=f"Format of the output: {FORMATS}; by default from its name.")
    said: Header = group(Header, panel=SET)
    prefixes: tuple[str, ...] = option((), like=PREFIXES, panel=SET)
    concepts: Path | None = option(
        None, panel=SET, help="Athena's CONCEPT.csv, or its zip, for the OMOP ids that usagi and omop need."
    )
    strict: bool = option(False, like=STRICT)
    force: bool = option(False, help="Replace an existing output.")

    @property
    def writer(self) -> ModuleType:
        return chosen(self.output, self.format, "--format")

    def header(self) -> Header:
        return replace(self.said, date=day_of(self.said.date), prefixes=_curies.prefixes_of(self.prefixes))


def tell_losses(output: Path, losses: Counter[str], set_aside: int, reasons: Counter[str] | None = None) -> None:
    """Print how many rows were left out, and why, and what a format does not hold, the most frequent first."""
    if set_aside:
        why = "".join(f"; {number:,}: {reason}" for reason, number in (reasons or Counter()).most_common())
        progress.say(f"warning: {counted(set_aside, 'row')} left out; see {rejects_of(output)}{why}")
    if losses:
        print("  not in this format: " + ", ".join(f"{what} ({number:,})" for what, number in losses.most_common()))


def rejects_of(output: Path) -> Path:
    """Return the file for the rows of a file that are set aside."""
    return output.with_name(output.name + ".rejects.csv")
