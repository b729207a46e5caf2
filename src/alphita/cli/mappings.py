"""`alphita mappings`: files of mappings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from alphita import progress
from alphita.cli import mappings_migrate
from alphita.errors import AlphitaError, Rejects, UsageError
from alphita.mappings.formats import Header, _names
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
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file.")],
    format_: Annotated[
        str,
        typer.Option("--format", help="Of the output: csv, jsonl, parquet, sssom, usagi, omop, fhir_r4 or fhir_r5; "
                     "told by its name otherwise."),
    ] = "",
    from_: Annotated[str, typer.Option("--from", help="Format of the input; told by its name otherwise.")] = "",
    set_id: Annotated[str, typer.Option(help="URI of the mapping set (SSSOM, FHIR).")] = "",
    set_version: Annotated[str, typer.Option(help="Version of the mapping set.")] = "",
    licence: Annotated[str, typer.Option(help="URI of the mapping set's licence (SSSOM).")] = "",
    date: Annotated[str, typer.Option(help="Day of the mappings, as 2026-01-31.")] = "",
    source_vocabulary: Annotated[
        str, typer.Option(help="Name of the input's codes: CURIE prefix in SSSOM, source_vocabulary_id in OMOP.")
    ] = "",
    source_system: Annotated[str, typer.Option(help="URI of the input's code system (FHIR).")] = "",
    source_version: Annotated[str, typer.Option(help="Version of the input's codes.")] = "",
    target_system: Annotated[str, typer.Option(help="CURIE prefix of the terminology NIL was not found in.")] = "",
    prefix: Annotated[
        list[str] | None, typer.Option(metavar="NAME=URI", help="Declare a CURIE prefix; may be repeated.")
    ] = None,
    concepts: Annotated[
        Path | None, typer.Option(help="Athena's CONCEPT.csv, for the OMOP ids that usagi and omop need.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first bad row.")] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Strings are patient data: rejects give line numbers only.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
) -> None:  # fmt: skip
    """Write a file of mappings in another format.

    What the new format cannot hold is counted and printed. Rows that cannot be read or written go to
    OUTPUT.rejects.csv.
    """
    reader, writer = _names.chosen(input_, from_, "--from"), _names.chosen(output, format_, "--format")
    if output.exists() and (not force or output.samefile(input_)):
        raise UsageError(f"{output} already exists; choose another name or use --force")
    if date and not _is_day(date):
        raise UsageError(f"--date {date!r} is no day; write it as 2026-01-31")
    header = Header(
        set_id=set_id, version=set_version, licence=licence, date=date, source_vocabulary=source_vocabulary,
        source_system=source_system, source_version=source_version, target_system=target_system,
        prefixes=dict(map(_prefix, prefix or [])),
    )  # fmt: skip
    if concepts is not None:
        from alphita.mappings.concepts import load

        unread = Rejects()
        ids = {one for found in reader.read(input_, header, unread) for one in (found.concept_id or "").split("|")}
        header = replace(header, target_info=load(concepts, ids).get)
    part = output.with_name(output.name + ".part")
    losses: Counter[str] = Counter()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with Rejects(_rejects(output), strict=strict, private=private) as rejects:
            count = _write(input_, reader, writer, header, part, rejects, losses, private=private)
            writer.finish(header, part, output)
    except OSError as error:
        raise AlphitaError(f"could not write {output}: {error.strerror or error}; nothing was changed") from error
    finally:
        part.unlink(missing_ok=True)
    print(f"{output}: {count:,} mappings read")
    for what, number in losses.most_common():
        print(f"  not held: {number:>10,}  {what}")
    if rejects.count:
        progress.say(f"{rejects.count:,} rows were set aside; each is in {_rejects(output)}")


def _write(
    input_: Path, reader: ModuleType, writer: ModuleType, header: Header, part: Path, rejects: Rejects,
    losses: Counter[str], *, private: bool,
) -> int:  # fmt: skip
    """Write the part file; return how many mappings were read."""
    count = 0
    begun = writer.begin(header)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(begun)
        for chunk in _chunks(reader.read(input_, header, rejects)):
            count += len(chunk)
            file.write(writer.encode(header, chunk))
            losses.update(writer.losses(header, chunk))
            for mapping in chunk:
                if found := writer.unfit(header, mapping):
                    rejects.add(
                        f"cannot be written: {found.problem}", file=input_, line=mapping.row, field=found.field,
                        value=found.value,
                    )  # fmt: skip
    return count


def _chunks(mappings: Iterable[Mapping]) -> Iterator[list[Mapping]]:
    """Yield the mappings of some mentions; none is cut in two."""
    mentions = (list(group) for _, group in groupby(mappings, key=lambda one: one.row))
    while chunk := [mapping for group in islice(mentions, CHUNK) for mapping in group]:
        yield chunk


def _prefix(text: str) -> tuple[str, str]:
    name, equals, uri = text.partition("=")
    if not equals or not name or ":" not in uri:
        raise UsageError(f"--prefix {text!r} is not of the form LOCAL=https://example.org/codes/")
    return name, uri


def _is_day(text: str) -> bool:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _rejects(output: Path) -> Path:
    return output.with_name(output.name + ".rejects.csv")


app.command("migrate")(mappings_migrate.migrate)
