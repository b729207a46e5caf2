"""`alphita mappings migrate`: decisions of one release carried to the next."""

from __future__ import annotations

import csv
import getpass
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphita import artefact, clock, progress, textio
from alphita.cli._from_spec import Threads
from alphita.errors import InputError, UsageError
from alphita.jobs.spec import Concepts
from alphita.mappings.record import JOINT
from alphita.spreadsheets import Guard

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer
    from alphita.mappings import record
    from alphita.review.migrate import MigrationPlan
    from alphita.review.records import ReviewRow
    from alphita.terminology.store import Terminology

JSON, TABLE = "migration.json", "migration.csv"
EXAMPLES = 2
# Rows normalised between two lines of progress.
ROWS = 2_000


def migrate(
    reviews: Annotated[
        str, typer.Argument(metavar="STORE", help="The store of decisions: a file, or postgresql://user@host/database.")
    ],
    old: Annotated[Path, typer.Option("--from", help="Terminology folder of the existing decisions.")],
    new: Annotated[Path, typer.Option("--to", help="Terminology folder of the next release.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the signed diff; REVIEWS.migration by default.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the changes; by default only report them.")] = False,
    by: Annotated[str, typer.Option(help="Name of the signer; your account name by default.")] = "",
    index: Annotated[
        Path | None, typer.Option(help="Index of the new release, to give undecided rows new candidates.")
    ] = None,
    project: Annotated[list[str] | None, typer.Option(help="Only this project; repeatable; all by default.")] = None,
    top: Annotated[int, typer.Option(min=1, help="New candidates per row.")] = 5,
    threads: Threads = None,
) -> None:
    """Carry decisions over to a new release: they follow replaced concepts, and uncertain rows return to review.

    A decision follows its concept if one other concept replaces it. It returns to review if the concept has another
    name, is gone, or was split. All other decisions stay. Without --apply nothing is written to the store.
    """
    from alphita.review import migrate as migrating
    from alphita.review.store import ReviewStore
    from alphita.terminology.store import load_terminology

    releases = load_terminology(old), load_terminology(new)
    out = (
        output
        if output is not None
        else Path("reviews.migration" if "://" in reviews else reviews).with_suffix(".migration")
    )
    signer = by or getpass.getuser()
    with ReviewStore.open(reviews) as store:
        planned = migrating.plan(store, *releases, projects=project or ())
        earlier = _earlier(out / JSON)
        unsigned = earlier is not None and not earlier["applied"]
        if not planned.parts and not (apply and unsigned):
            print(f"nothing to do: {_listed(planned.migrated, 'is', 'are')} of {new} already")
            return
        normalizers = _normalizers(index, releases[1], planned, threads) if apply and index is not None else None
        report = _report(planned, out, signer, earlier, applied=False)
        print(_text(report, planned))
        if index is not None:
            for part in (part for part in planned.parts if part.unsettled):
                filters = str(Concepts.from_json(part.project.filters)) or "all concepts (no filters are kept with it)"
                print(f"{part.project.name}: {len(part.unsettled):,} rows get new candidates, with {filters}")
        if not apply:
            print(f"nothing was changed; look at {out / TABLE}, then run it again with --apply")
            return
        if normalizers is None:
            migrating.apply(store, planned, by=signer)
        else:
            migrating.apply(
                store,
                planned,
                by=signer,
                ranking=_ranking(normalizers, top),
                model=str(next(iter(normalizers.values())).index.manifest["model_hash"]),
                types=_types(releases[1], normalizers),
            )
        _report(planned, out, signer, earlier, applied=True)
    print(f"applied and signed by {signer}: {out / JSON}")
    if index is None and any(part.unsettled for part in planned.parts):
        progress.say("rows still to be decided show candidates of the old release; with --index they get new ones")


def _earlier(path: Path) -> dict[str, Any] | None:
    """Return the diff that an earlier run wrote; None: there is none."""
    if not path.exists():
        return None
    try:
        diff: dict[str, Any] = textio.json_file(path)
        if not {"from", "to", "projects", "changes", "applied"} <= diff.keys():
            raise ValueError("it lacks what such a diff says")
    except (OSError, ValueError, AttributeError) as error:
        remedy = "choose another folder by --output"
        raise InputError(f"no signed diff of a migration: {error}", file=path, remedy=remedy) from None
    return diff


def _report(
    planned: MigrationPlan, out: Path, by: str, earlier: dict[str, Any] | None, *, applied: bool
) -> dict[str, Any]:
    """Write the diff as JSON and table, readable only by their owner because they contain mentions; return it."""
    from alphita.review.migrate import COLUMNS

    now = clock.now().isoformat(timespec="seconds")
    report = planned.to_json(by=by, at=now, applied=applied, earlier=earlier)
    with artefact.atomic_file(out / TABLE, "w", private=True, newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(Guard()([change[name] for name in COLUMNS]) for change in report["changes"])
    with artefact.atomic_file(out / JSON, "w", private=True) as file:
        json.dump(report, file, indent=1, ensure_ascii=False)
    return report


def _text(report: dict[str, Any], planned: MigrationPlan) -> str:
    """Return one screen: how many decisions stay, follow a replacement and return to review, with examples."""
    lines = [f"{_release(report['from'])} -> {_release(report['to'])}", f"{report['standing']:>9,}  stand"]
    for fate, count in report["counts"].items():
        some = [change for change in report["changes"] if f"{change['fate']}: {change['reason']}" == fate][:EXAMPLES]
        lines.append(f"{count:>9,}  {fate}")
        lines += [f"{'':12} {_example(one)}" for one in some]
    lines.append(f"{report['reopened_rows']:>9,}  rows are open again")
    if report["lost"]:
        lines.append(
            f"{report['lost']:>9,}  forgotten decisions do not stand either: 'review restore' will pass them over"
        )
    if planned.others:
        lines.append(f"left alone: {_listed(planned.others, 'is', 'are')} of other releases")
    return "\n".join(lines)


def _example(change: dict[str, Any]) -> str:
    told = f" ({change['detail']})" if change["detail"] else ""
    return f"{_concept(change, 'old')} -> {_concept(change, 'new') or 'none'}{told}"


def _concept(change: dict[str, Any], which: str) -> str:
    """Return the concepts of a change, each with its name."""
    ids, names = (change[f"{which}_{part}"].replace(JOINT, "|").split("|") for part in ("concept", "name"))
    if len(ids) != len(names):
        ids, names = ["|".join(ids)], ["|".join(names)]
    return JOINT.join(f"{id} {name}".strip() for id, name in zip(ids, names, strict=True))


def _release(facts: dict[str, Any]) -> str:
    return f"{facts['name']} ({', '.join(facts['versions'][:2]) or 'no version'}, {facts['content_hash'][:12]})"


def _listed(names: Sequence[str], singular: str, plural: str) -> str:
    return f"{', '.join(names) or 'no project'} {plural if len(names) > 1 else singular}"


def _normalizers(path: Path, new: Terminology, planned: MigrationPlan, threads: int | None) -> dict[str, Normalizer]:
    """Open the new release's index for each project, with the filters that its rows were answered with."""
    from alphita import machine
    from alphita.answer.normalizer import Normalizer
    from alphita.index.store import Index

    threads = machine.set_threads(threads)
    index = Index.open(path)
    if index.manifest["terminology_hash"] != new.content_hash:
        raise UsageError(f"{path} is not an index of {new.path}; make one: alphita index --terminology {new.path} …")
    by_filters: dict[str, Normalizer] = {}
    by_project = {}
    for project in (part.project for part in planned.parts):
        concepts = Concepts.from_json(project.filters)
        if str(concepts) not in by_filters:
            encoder = next(iter(by_filters.values())).encoder() if by_filters else None
            by_filters[str(concepts)] = Normalizer(
                index, encoder=encoder, filters=concepts.filters(), target=concepts.target, threads=threads
            )
        by_project[project.name] = by_filters[str(concepts)]
    return by_project


def _ranking(
    normalizers: Mapping[str, Normalizer], top: int
) -> Callable[[Sequence[ReviewRow]], Mapping[int, list[record.Mapping]]]:
    """Return the function that gives rows their new candidates."""
    from alphita.answer.records import lines

    def rank(rows: Sequence[ReviewRow]) -> dict[int, list[record.Mapping]]:
        candidates = {}
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            normalizer = normalizers[some[0].project]
            types = [_domains(normalizer, row) for row in some]
            mentions = [row.mention for row in some]
            results = normalizer.normalize(mentions, top_k=top, types=types, explain=True)
            for row, result in zip(some, results, strict=True):
                candidates[row.id] = lines(
                    row.number, result, top, mention_code=row.code or None, frequency=row.frequency
                )
            progress.say(f"{start + len(some):,} of {len(rows):,} rows have new candidates")
        return candidates

    return rank


def _domains(normalizer: Normalizer, row: ReviewRow) -> str | None:
    """Return the OMOP domains of a row's candidates, joined by `|`, which stand for the domain that its list gave."""
    found = (normalizer.omop.of_id(candidate.concept_id) for candidate in row.candidates)
    domains = {concept.domain_id for concept in found if concept is not None and concept.domain_id}
    return "|".join(sorted(domains & {*normalizer.types})) or None


def _types(new: Terminology, normalizers: Mapping[str, Normalizer]) -> Callable[[str], Sequence[str]]:
    """Return a function for the types of an answer, which may be a code of a project's target."""

    def types(answer: str) -> Sequence[str]:
        for normalizer in normalizers.values():
            if (row := normalizer.allowed.row(answer)) >= 0:
                return new.concept(normalizer.index.concept(row).id).semantic_types
        return ()

    return types
