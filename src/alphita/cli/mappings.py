"""`alphita mappings`: files of mappings."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from alphita.cli import _mapping_options as options
from alphita.cli import mappings_migrate
from alphita.errors import AlphitaError, Rejects, UsageError
from alphita.mappings.formats import Header, _curies, _names, day_of, lost_anew
from alphita.mappings.record import Mapping

app = typer.Typer(help="Files of mappings.", no_args_is_help=True)
# Mentions that are encoded together.
CHUNK = 10_000


@app.callback()
def _mappings() -> None:
    pass


@app.command("convert")
def convert(
    input_: Annotated[Path, typer.Argument(metavar="INPUT", help="File of mappings.")],
    output: options.Output,
    format_: options.Format = "",
    from_: Annotated[str, typer.Option("--from", help="Format of the input; told by its name otherwise.")] = "",
    set_id: options.SetId = "",
    set_version: options.SetVersion = "",
    licence: options.Licence = "",
    date: options.Day = "",
    source_vocabulary: options.SourceVocabulary = "",
    source_system: options.SourceSystem = "",
    source_version: options.SourceVersion = "",
    target_system: options.TargetSystem = "",
    prefix: options.Prefixes = None,
    concepts: options.Concepts = None,
    strict: options.Strict = False,
    private: Annotated[
        bool, typer.Option("--private", help="Strings are patient data: rejects give line numbers only.")
    ] = False,
    force: options.Force = False,
) -> None:
    """Write a file of mappings in another format.

    What the new format cannot hold is counted and printed. Rows that cannot be read or written go to
    OUTPUT.rejects.csv.
    """
    reader = _names.chosen(input_, from_, "--from", to_read=True)
    writer = _names.chosen(output, format_, "--format")
    if output.exists() and (not force or output.samefile(input_)):
        raise UsageError(f"{output} already exists; choose another name or use --force")
    header = Header(
        set_id=set_id,
        version=set_version,
        licence=licence,
        date=day_of(date),
        source_vocabulary=source_vocabulary,
        source_system=source_system,
        source_version=source_version,
        target_system=target_system,
        prefixes=_curies.prefixes_of(prefix),
    )
    if concepts is not None:
        from alphita.mappings.concepts import load

        # It is read again to be written; what is to be told of it is told then.
        unread, silent = Rejects(), replace(header, tell=lambda text: None)
        ids = {one for found in reader.read(input_, silent, unread) for one in (found.concept_id or "").split("|")}
        header = replace(header, target_info=load(concepts, ids).get)
    part = output.with_name(output.name + ".part")
    losses: Counter[str] = Counter()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with Rejects(options.rejects_of(output), strict=strict, private=private) as rejects:
            count = _write(input_, reader, writer, header, part, rejects, losses, private=private)
            writer.finish(header, part, output)
    except OSError as error:
        raise AlphitaError(f"could not write {output}: {error.strerror or error}; nothing was changed") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    print(f"{output}: {count:,} mappings read")
    options.tell_losses(output, +losses, rejects.count)


def _write(
    input_: Path,
    reader: ModuleType,
    writer: ModuleType,
    header: Header,
    part: Path,
    rejects: Rejects,
    losses: Counter[str],
    *,
    private: bool,
) -> int:
    """Write the part file; return how many mappings were read."""
    count = 0
    held: Sequence[Mapping] = ()
    begun = writer.begin(header)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(begun)
        for chunk in _chunks(reader.read(input_, header, rejects)):
            count += len(chunk)
            losses.update(lost_anew(writer, header, held, chunk))
            closed, held = writer.closed(header, [*held, *chunk])
            file.write(writer.encode(header, closed))
            told: set[tuple[int, str]] = set()
            for mapping in chunk:
                # Once for all its candidates, by its number: not all formats have lines.
                if (mapping.row, mapping.mention) not in told and (found := writer.unfit(header, mapping)):
                    told.add((mapping.row, mapping.mention))
                    rejects.add(
                        f"row {mapping.row} cannot be written: {found.problem}",
                        file=input_,
                        field=found.field,
                        value=found.value,
                    )
        if held:
            file.write(writer.encode(header, held))
    return count


def _chunks(mappings: Iterable[Mapping]) -> Iterator[list[Mapping]]:
    """Yield the mappings of some mentions; none is cut in two."""
    mentions = (list(group) for _, group in groupby(mappings, key=lambda one: one.row))
    while chunk := [mapping for group in islice(mentions, CHUNK) for mapping in group]:
        yield chunk


app.command("migrate")(mappings_migrate.migrate)
