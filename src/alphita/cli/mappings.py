"""`alphita mappings`: files of mappings."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import typer

from alphita import textio
from alphita.cli import _mapping_options as options
from alphita.cli._commands import MappingsCommands
from alphita.cli._from_spec import Brief, with_options
from alphita.errors import AlphitaError, Rejects, UsageError
from alphita.mappings.formats import Header, TargetInfo, _sets, chosen, lost_anew
from alphita.mappings.record import Mapping, chunks
from alphita.options import ENCODING, group, option

app = typer.Typer(cls=MappingsCommands, help="Files of mappings.", no_args_is_help=True)
# Mentions that are encoded together.
CHUNK = 10_000


@app.callback()
def _mappings() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ConvertSpec:
    """What to convert, and into what."""

    input: Path = option(..., positional=True, metavar="INPUT", help="File of mappings.")
    from_: str = option("", help="Format of the input; by default from its name.")
    encoding: str = option("utf-8", like=ENCODING)
    writing: options.Writing = group(options.Writing)
    private: bool = option(False, like=options.PRIVATE)


@app.command("convert", cls=Brief)
@with_options
def convert(spec: ConvertSpec) -> None:
    """Write a file of mappings in another format.

    alphita mappings convert answers.csv -o answers.sssom.tsv

    What the new format cannot hold is counted and printed. Rows that cannot be read or written go to
    OUTPUT.rejects.csv.
    """
    reader = chosen(spec.input, spec.from_, "--from", to_read=True)
    writing, output = spec.writing, spec.writing.output
    writer = writing.writer
    if output.exists() and (not writing.force or output.samefile(spec.input)):
        raise UsageError(f"{output} already exists; choose another name or use --force")
    # A map says of nothing that it awaits a review.
    textio.check_encoding(spec.encoding)
    header = replace(writing.header(), encoding=spec.encoding)
    header = replace(header, with_review=writing.said.with_review or getattr(reader, "IS_MAP", False))
    given, header = header, _sets.said(reader, spec.input, header)
    losses = _sets.not_held(writer, given, header)
    if writing.concepts is not None:
        from alphita.mappings.formats.omop import load_concepts

        # It is read again when it is written; problems are reported then.
        unread, silent = Rejects(), replace(header, tell=lambda text: None, lost=Counter())
        read = reader.read(spec.input, silent, unread)
        ids = {concept for mapping in read for concept in (mapping.concept_id or mapping.nearest_id or "").split("|")}
        header = replace(header, target_info=load_concepts(writing.concepts, ids).get)
    part = output.with_name(output.name + ".part")
    reasons: Counter[str] = Counter()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with Rejects(options.rejects_of(output), strict=writing.strict, private=spec.private) as rejects:
            files = _Files(spec.input, part, rejects, spec.private)
            count = _write(files, reader, writer, header, losses, reasons)
            writer.finish(header, part, output)
    except OSError as error:
        raise AlphitaError(f"could not write {output}: {error.strerror or error}; nothing was changed") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    options.tell_losses(output, +losses + header.lost, rejects.count, reasons)
    print(f"{output}: {count:,} mappings read")


def _omop_facts(mappings: Sequence[Mapping]) -> dict[str, TargetInfo]:
    """Return what mappings themselves say of their targets, by CURIE."""
    every = ((one.concept_id, TargetInfo.of(one)) for one in mappings)
    return {curie: info for curie, info in every if curie is not None and info is not None}


class _Files(NamedTuple):
    """What is read, what is written, and where rows are set aside."""

    input: Path
    part: Path
    rejects: Rejects
    private: bool


def _write(
    files: _Files, reader: ModuleType, writer: ModuleType, header: Header, losses: Counter[str], reasons: Counter[str]
) -> int:
    """Write the part file, count what it lacks and why; return how many mappings were read."""
    input_, part, rejects, private = files
    count = 0
    held: Sequence[Mapping] = ()
    # An error of use comes before anything is read; whether codes are named is known afterwards.
    writer.begin(replace(header, is_coded=True))
    read = chunks(reader.read(input_, header, rejects), CHUNK)
    first = next(read, [])
    facts: dict[str, TargetInfo] = {}
    if any(mapping.omop_concept_id is not None for mapping in first):
        header = replace(header, target_info=header.target_info or facts.get)
    header = header.for_mappings(first)
    begun = writer.begin(header)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(part, flags, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(begun)
        for chunk in chain([first], read):
            count += len(chunk)
            facts |= _omop_facts(chunk)
            losses.update(lost_anew(writer, header, held, chunk))
            complete, held = writer.split_complete(header, [*held, *chunk])
            file.write(writer.encode(header, complete))
            reported: set[tuple[int, str]] = set()
            for mapping in chunk:
                # Once for all its candidates, by its number: not all formats have lines.
                if (mapping.row, mapping.mention) not in reported and (problem := writer.validate(header, mapping)):
                    reported.add((mapping.row, mapping.mention))
                    reasons[problem.problem] += 1
                    rejects.add(
                        f"row {mapping.row} cannot be written: {problem.problem}",
                        file=input_,
                        field=problem.field,
                        value=problem.value,
                    )
        if held:
            file.write(writer.encode(header, held))
    return count
