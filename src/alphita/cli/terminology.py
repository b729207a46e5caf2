"""`alphita terminology import | describe | split | changes | subset`."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphita import artefact, machine, printing, progress, registry
from alphita.cli._commands import TerminologyCommands
from alphita.cli._from_spec import JSON, AsJson, Brief, Force, with_options
from alphita.errors import Rejects, UsageError, counted
from alphita.options import REMAKE, STRICT, THREADS, option

if TYPE_CHECKING:
    from alphita import config
    from alphita.terminology.describe import Description

LOADERS = "alphita.terminology.loaders"
app = typer.Typer(cls=TerminologyCommands, no_args_is_help=True, help="Import, describe and split terminologies.")


@dataclass(frozen=True, kw_only=True)
class ImportSpec:
    """What to import, how it is read, and where to."""

    format: str = option("", positional=True, metavar="FORMAT", help="obo, icd10cm, table, ...; --list shows all.")
    paths: tuple[str, ...] = option((), positional=True, metavar="PATH…", help="Files; see --packaged.")
    output: Path | None = option(None, "--output", "-o", help="Folder to create: X.terminology.")
    settings: tuple[str, ...] = option((), "--set", metavar="KEY=VALUE", help="An option of the format; repeatable.")
    config: Path | None = option(None, help="TOML file with these options.")
    onto: Path | None = option(None, metavar="BASE.terminology", help="Base terminology, for babelon and hpoa.")
    packaged: bool = option(False, help="PATH is a name: hpo or icd10cm, found inside an installed package.")
    rejects: Path | None = option(None, help="CSV for rejected rows; by default OUTPUT.rejects.csv.")
    strict: bool = option(False, like=STRICT)
    list: bool = option(False, help="List the formats and their options, and exit.")
    json: bool = option(False, help=JSON)
    threads: int | None = option(None, like=THREADS)
    force: bool = option(False, like=REMAKE)


@app.command("import")
@with_options
def import_(spec: ImportSpec) -> None:
    """Read a terminology's files into a .terminology folder."""
    from alphita import config
    from alphita.terminology.detect import find_packaged

    machine.set_threads(spec.threads)
    if spec.list:
        _list(spec.format, spec.json)
        return
    if not spec.format or not spec.paths or spec.output is None:
        raise UsageError("give a format, at least one file and -o OUTPUT.terminology; --list shows the formats")
    output, loader = spec.output, registry.load(LOADERS, spec.format)
    sets = [*spec.settings, *_onto(spec.format, spec.onto, loader.Options)]
    options = config.resolve(loader.Options, file=spec.config, sets=sets)
    files = [find_packaged(path) if spec.packaged else Path(path) for path in spec.paths]
    artefact.refuse_existing(output, spec.force, " (the old one is moved aside)")
    from alphita.terminology import store

    report = spec.rejects or output.with_name(output.name + ".rejects.csv")
    for read in filter(None, (*files, spec.onto, spec.config)):
        artefact.refuse_same({"the input": read, "the output": output, "the rejects": report})
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(report, strict=spec.strict) as rejects:
        used = {"format": spec.format, **options.model_dump()}
        if "onto" in used:  # of a path only its last part, which says nothing private
            used["onto"] = Path(used["onto"]).name
        # Not held by a name here, so that saving frees each table once it is written.
        store.save(loader.load(files, options, rejects), output, config=used, rejects=rejects, force=spec.force)
    print(f"{output}: {store.load_terminology(output).summary}")
    rejects.tell(progress.say)
    progress.say(f"next: alphita terminology describe {output}")


@app.command("describe")
def describe_(
    terminology: Annotated[Path, typer.Argument(metavar="X.terminology", help="Terminology folder.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Also write the counts to a JSON file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the contents of a terminology: by language, kind, semantic type, relation; homonyms."""
    from alphita.terminology.describe import describe
    from alphita.terminology.store import load_terminology

    description = describe(load_terminology(terminology))
    if output is not None:
        with artefact.atomic_file(output, "w") as file:
            json.dump(description.as_json(), file, indent=1, ensure_ascii=False)
    if as_json:
        printing.print_rows([description.as_json()])
    else:
        _show(description)


@app.command("split")
def split_(
    terminology: Annotated[Path, typer.Argument(metavar="X.terminology", help="Terminology folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create: X.split.")],
    fraction: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Share of the concepts with several synonyms for which to hold out one."),
    ] = 0.3,
    calibration: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of further such concepts, for 'calibrate'.")
    ] = 0.0,
    assign: Annotated[
        str, typer.Option(help="Instead: shares of all synonyms for training, calibration and test: 0.8,0.1,0.1.")
    ] = "",
    concepts: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Instead: all names, in any language, of this share of concepts.")
    ] = 0.0,
    triples: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Also hold out the triples of this share of the related concepts.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed for the choice.")] = 0,
    force: Force = False,
) -> None:
    """Hold out synonyms and triples, chosen by a seeded hash, from training and from indexes for evaluation."""
    from alphita.terminology import splits
    from alphita.terminology.store import load_terminology

    artefact.refuse_same({"the terminology": terminology, "the output": output})
    if assign and concepts > 0:
        raise UsageError("--assign and --concepts exclude each other")
    terms = load_terminology(terminology)
    if concepts > 0:
        split = splits.hold_out_concepts(terms, fraction=concepts, seed=seed)
    elif assign:
        try:
            train, calibrate, test = (float(share) for share in assign.split(","))
        except ValueError:
            raise UsageError(f"--assign takes three shares such as 0.8,0.1,0.1, not {assign!r}") from None
        split = splits.assign(terms, train=train, calibration=calibrate, test=test, seed=seed)
    else:
        split = splits.hold_out_synonyms(terms, fraction=fraction, calibration=calibration, seed=seed)
    if triples > 0:
        split = splits.with_triples(split, terms, fraction=triples, seed=seed)
    split.save(output, force=force)
    parts = ", ".join(f"{len(split.part(name)):,} {name}" for name in splits.PARTS if len(split.part(name)))
    what = f"{output}: {len(split):,} strings held out ({parts or 'none'})"
    if concepts > 0:
        others = split.facts["other_concepts_that_lose_a_name"]
        print(f"{what}, all names of {split.facts['held_out_concepts']:,} concepts; {others:,} others share one")
    else:
        print(f"{what}; {split.facts['dropped_as_equal_to_a_kept_term']:,} dropped as equal to a kept term")
    if triples > 0:
        needed = split.facts["pairs_kept_for_a_concept_or_relation_needs_them"]
        print(
            f"{len(split.triples):,} triples between {split.facts['pairs_held_out']:,} pairs of concepts held out; "
            f"{needed:,} chosen pairs kept, without which a concept or relation would have no triple left"
        )


def _onto(format_: str, onto: Path | None, options: type[config.Config]) -> list[str]:
    """Return `--onto` as a setting of the formats that have it."""
    if onto is None:
        return []
    if "onto" not in options.model_fields:
        raise UsageError(f"{format_} makes a terminology of its own; --onto is for formats that add to one")
    return [f"onto={onto}"]


def _list(only: str, as_json: bool) -> None:
    from alphita import config

    loaders = {only: registry.load(LOADERS, only)} if only else registry.load_all(LOADERS)
    if as_json:
        printing.print_rows(
            {
                "name": name,
                "what": loader.DESCRIPTION,
                "settings": [asdict(each) for each in config.options(loader.Options)],
            }
            for name, loader in loaders.items()
        )
        return
    for name, loader in loaders.items():
        print(f"{name}: {loader.DESCRIPTION}{registry.origin(LOADERS, name)}")
        for setting in config.options(loader.Options):
            print(f"  --set {setting.name}={setting.default or repr('')}  {setting.description}")


def _show(description: Description) -> None:
    from rich.table import Table

    console = printing.console(soft_wrap=False)
    files: dict[tuple[Any, ...], list[Any]] = {}
    for source in description.sources:
        said = tuple(source.get(key) for key in ("name", "version", "licence"))
        files.setdefault(said, []).append(source.get("file"))
    for (name, *facts), given in files.items():
        console.print(f"{name}: {', '.join(map(str, filter(None, [*given, *facts])))}", highlight=False, markup=False)

    def table(title: str, counts: dict[str, int], most: int = 15) -> None:
        if not counts:
            return
        shown = Table("", title, box=None, header_style="head", pad_edge=False)
        shown.columns[0].justify = "right"
        for name, count in list(counts.items())[:most]:
            shown.add_row(f"{count:,}", name)
        if len(counts) > most:
            shown.add_row(f"{sum(list(counts.values())[most:]):,}", f"in {len(counts) - most} more")
        console.print(shown)
        console.print()

    table("in all", description.totals)
    table("terms by language", description.terms_by_language)
    table("terms by kind", description.terms_by_kind)
    table("live concepts by source", description.concepts_by_source)
    table("live concepts by semantic type", description.concepts_by_semantic_type)
    table("live concepts by number of distinct exact strings", description.concepts_by_terms)
    table("relations", description.relations)
    table("cross-references by prefix", description.xrefs_by_prefix)
    table("homonyms: strings that name several live concepts", description.homonyms)
    for example in description.examples[:5]:
        console.print(f"    {example['string']!r}: {'; '.join(example['concepts'][:4])}", highlight=False, markup=False)
    table("left out on purpose", description.left_out)


@app.command("changes", cls=Brief)
def changes(
    old: Annotated[Path, typer.Argument(metavar="OLD.terminology", help="The older release.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.terminology", help="The newer release.")],
    outputs: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Write every change to this .csv, .tsv or .json file; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two releases: concepts added and retired, names, synonyms, parents."""
    from alphita.terminology import changes as comparing
    from alphita.terminology.store import load_terminology

    for output in outputs or []:
        if output.suffix.lower() not in comparing.SUFFIXES:
            raise UsageError(f"{output}: the name must end in one of {list(comparing.SUFFIXES)}")
    comparison = comparing.changes(load_terminology(old), load_terminology(new))
    for output in outputs or []:
        comparison.write(output)
        progress.say(f"{output}: {counted(len(comparison.table), 'change')}")
    if as_json:
        printing.print_rows(comparison.table.iter_rows(named=True))
    else:
        print(comparison.summary())


@app.command("subset", cls=Brief)
def subset(
    terminology: Annotated[Path, typer.Argument(metavar="X.terminology", help="Terminology folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create: Y.terminology.")],
    sources: Annotated[
        list[str] | None, typer.Option("--source", help="Only statements of this source: HP, DOID, …; repeatable.")
    ] = None,
    languages: Annotated[
        list[str] | None, typer.Option("--language", help="Only terms in this language: en, it, …; repeatable.")
    ] = None,
    semantic_types: Annotated[
        list[str] | None,
        typer.Option("--semantic-type", help="Only concepts with this type, by name or code; repeatable."),
    ] = None,
    descendants_of: Annotated[
        list[str] | None,
        typer.Option("--descendants-of", metavar="CURIE", help="Only this concept and all below it; repeatable."),
    ] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", help="File of ids, one per line, or the first column of a table.")
    ] = None,
    retired: Annotated[bool, typer.Option("--retired/--no-retired", help="Keep matching retired concepts.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first unknown id of the list.")] = False,
    force: Force = False,
) -> None:
    """Keep part of a terminology: concepts must match all options; values of one option are alternatives."""
    from alphita.terminology import store
    from alphita.terminology import subset as choosing

    if not (sources or languages or semantic_types or descendants_of or list_file or not retired):
        raise UsageError(
            "say what to keep: --source, --language, --semantic-type, --descendants-of, --list, --no-retired"
        )
    artefact.refuse_existing(output, force, " (the old one is moved aside)")
    report = output.with_name(output.name + ".rejects.csv")
    for what, read in {"the terminology": terminology, "the list": list_file}.items():
        if read is not None:
            artefact.refuse_same({what: read, "the output": output, "the rejects": report})
    opened = store.load_terminology(terminology)
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(report, strict=strict) as rejects:
        listed = choosing.read_list(list_file, opened, rejects) if list_file is not None else None
        choice = choosing.SubsetChoice(
            sources or (), languages or (), semantic_types or (), descendants_of or (), listed, retired
        )
        tables = choosing.subset(opened, choice)
        left_out = tables.dropped
        used = {
            "subset_of": {"name": opened.path.name, "content_hash": opened.content_hash},
            "sources": list(choice.sources),
            "languages": list(choice.languages),
            "semantic_types": list(choice.semantic_types),
            "descendants_of": list(choice.descendants_of),
            "listed": None if listed is None else len(listed),
            "retired": retired,
        }
        store.save(tables, output, config=used, rejects=rejects, force=force)
    print(f"{output}: {store.load_terminology(output).summary}")
    for name, count in left_out.items():
        progress.say(f"left out: {count:,} {name}")
    rejects.tell(progress.say)
