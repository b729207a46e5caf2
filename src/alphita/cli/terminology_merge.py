"""`alphita terminology merge`."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from alphita import artefact, machine, printing, progress
from alphita.cli._from_spec import JSON, with_options
from alphita.errors import Rejects, UsageError, counted
from alphita.options import REMAKE, THREADS, option
from alphita.spreadsheets import Guard

SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class MergeSpec:
    """What to join, by what, and where to."""

    terminologies: tuple[Path, ...] = option(
        (), positional=True, metavar="X.terminology…", help="Terminologies; a merged concept takes the id of the first."
    )
    output: Path | None = option(None, "--output", "-o", help="Folder to create: OUT.terminology.")
    mappings: tuple[Path, ...] = option((), "--mappings", "-m", help="SSSOM/TSV file of mappings; repeatable.")
    settings: tuple[str, ...] = option((), "--set", metavar="KEY=VALUE", help="An option of the policy; repeatable.")
    config: Path | None = option(None, help="TOML file with these options.")
    strict: bool = option(False, help="Fail at the first bad row of a mapping file.")
    list: bool = option(False, help="List the options of the policy, and exit.")
    json: bool = option(False, help=JSON)
    threads: int | None = option(None, like=THREADS)
    force: bool = option(False, like=REMAKE)


@with_options
def merge(spec: MergeSpec) -> None:
    """Join several terminologies by their cross-references and by mapping files.

    The command also writes OUT.terminology.joined.tsv (joined concepts, with evidence), .conflicts.tsv (rejected
    statements, with the chain that would have joined two concepts of one source) and .merge.json (all counts).
    """
    from alphita import config

    machine.set_threads(spec.threads)
    from alphita.terminology import merge as merging
    from alphita.terminology import store

    if spec.list and spec.json:
        printing.print_rows(asdict(setting) for setting in config.options(merging.Options))
        return
    if spec.list:
        for setting in config.options(merging.Options):
            print(f"--set {setting.name}={setting.default}  {setting.description}")
        return
    output, terminologies, mappings, force = spec.output, spec.terminologies, spec.mappings, spec.force
    if not terminologies or output is None:
        raise UsageError("give at least two terminologies (or one and --mappings FILE) and -o OUT.terminology")
    options = config.resolve(merging.Options, file=spec.config, sets=spec.settings)
    artefact.refuse_existing(output, force, " (the old one is moved aside)")
    besides = ("rejects.csv", "joined.tsv", "conflicts.tsv", "merge.json")
    files = {name: output.with_name(f"{output.name}.{name}") for name in besides}
    for read in (*terminologies, *mappings):
        artefact.refuse_same({"the input": read, "the output": output, **files})
    opened = [store.load_terminology(path) for path in terminologies]
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(files["rejects.csv"], strict=spec.strict) as rejects:
        merged = merging.merge(opened, list(mappings), options, rejects)
        used = {
            "merged": [
                {"name": terminology.path.name, "content_hash": terminology.content_hash} for terminology in opened
            ],
            "mappings": [path.name for path in mappings],
            **options.model_dump(),
        }

        def write_beside(saved: dict[str, int]) -> None:
            _write_tsv(files["joined.tsv"], merging.JOINED_COLUMNS, merged.joined)
            _write_tsv(files["conflicts.tsv"], merging.CONFLICT_COLUMNS, merged.conflicts)
            with artefact.atomic_file(files["merge.json"], "w") as file:
                json.dump({"config": used, "saved": saved, **merged.counts}, file, indent=1, ensure_ascii=False)

        store.save(merged.tables, output, config=used, rejects=rejects, force=force, before=write_beside)
    if spec.json:
        rows = ((title, name, count) for title, numbers in merged.counts.items() for name, count in numbers.items())
        printing.print_rows({"table": title, "name": name, "count": count} for title, name, count in rows)
    else:
        _show(merged.counts)
        print(f"{output}: {store.load_terminology(output).summary}")
    progress.say(f"what was joined is in {files['joined.tsv']}")
    if merged.conflicts:
        progress.say(f"{counted(len(merged.conflicts), 'claim')} refused; see {files['conflicts.tsv']}")
    rejects.tell(progress.say)


def _write_tsv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    with artefact.atomic_file(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(Guard()([row[name] for name in columns]) for row in rows)


def _show(counts: Mapping[str, Mapping[str, int]]) -> None:
    for title, numbers in filter(lambda pair: pair[1], counts.items()):
        print(title)
        for name, number in list(numbers.items())[:SHOWN]:
            print(f"  {number:>10,}  {name}")
        if len(numbers) > SHOWN:
            print(f"  {sum(list(numbers.values())[SHOWN:]):>10,}  in {len(numbers) - SHOWN} more")
