"""`alphita server`: an index on a server that many programs search."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import machine, printing, progress
from alphita.cli._from_spec import JSON, AsJson, Device, Precision, Threads, with_options
from alphita.errors import InputError, UsageError
from alphita.options import Option, Running, group, option

if TYPE_CHECKING:
    from alphita.index.servers import Hit

app = typer.Typer(help="An index in PostgreSQL with pgvector, for many readers at once.", no_args_is_help=True)
Source = Annotated[Path, typer.Argument(metavar="X.index", help="Index folder, from 'alphita index'.")]
TO = Option(
    envvar="ALPHITA_SERVER",
    help="Address: postgresql://USER@HOST/DATABASE. Other users of this machine can see the command line: put an "
    "address with a password into the variable ALPHITA_SERVER, or the password into ~/.pgpass.",
)
NAME = Option(help="Name of the index on the server: a-z, 0-9 and _.")
To = Annotated[str, typer.Option(envvar=TO.envvar, help=TO.help)]
Name = Annotated[str, typer.Option(help=NAME.help)]
ReleaseName = Annotated[str, typer.Option(help="Name of this release, e.g. 2026-03; each answer carries it.")]


@app.command("load")
def load(
    index: Source,
    to: To,
    name: Name,
    release: ReleaseName,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the index with this name; readers see the old one until the end.")
    ] = False,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Copy an index to a server, and measure how often the server finds the nearest string."""
    threads = machine.set_threads(threads)
    from alphita.index.servers import connect

    with connect(to, name) as server:
        from alphita.encoder.encoder import TermEncoder
        from alphita.index.servers import IndexContent, probes_of
        from alphita.index.store import Index

        opened = Index.open(index)
        encoder = TermEncoder.load(opened.model_path, precision=precision, device=device, threads=threads)
        facts = server.load(IndexContent(opened), release=release, probes=probes_of(opened, encoder), force=force)
        last = server.releases()[-1]
    print(
        f"{name}: release {release}, {last.strings:,} strings of {last.terms:,} terms; the nearest string is found for "
        f"{facts['recall_at_1']:.1%} of {facts['probes']:,} misspelt ones"
    )


@app.command("update")
def update(index: Source, to: To, name: Name, release: ReleaseName) -> None:
    """Update a loaded index to another release: it writes only changes; readers see one or the other."""
    from alphita.index.servers import connect

    with connect(to, name) as server:
        from alphita.index.servers import IndexContent
        from alphita.index.store import Index

        change = server.update(IndexContent(Index.open(index)), release=release)
        facts = server.facts()
    print(
        f"{name}: release {release}, strings +{change.strings_added:,} -{change.strings_removed:,}, "
        f"terms +{change.terms_added:,} -{change.terms_removed:,}, {change.terms_kept:,} as before; the nearest string "
        f"is found for {facts['recall_at_1']:.1%} of {facts['probes']:,} misspelt ones"
    )


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """What to search, where, and which terms may be found."""

    mentions: tuple[str, ...] = option(..., positional=True, metavar="MENTION...", help="What to search for.")
    to: str = option(..., like=TO)
    name: str = option(..., like=NAME)
    model: str = option(..., help="Encoder that the index was built with: X.index/model.")
    top: int = option(5, least=1, help="Strings per mention.")
    sources: tuple[str, ...] = option((), "--source", help="Only concepts of this terminology, by prefix; repeatable.")
    types: tuple[str, ...] = option((), "--type", help="Only concepts with this type; repeatable.")
    languages: tuple[str, ...] = option((), "--language", help="Only terms in this language (en, it, ...); repeatable.")
    json: bool = option(False, help=JSON)
    running: Running = group(Running)


@app.command("search")
@with_options
def search(spec: SearchSpec) -> None:
    """Print the nearest terms on the server for each mention."""
    running = replace(spec.running, threads=machine.set_threads(spec.running.threads))
    from alphita.index.servers import connect

    with connect(spec.to, spec.name) as server:
        facts = server.facts()
        from alphita.encoder.encoder import TermEncoder
        from alphita.terminology.text import clean_many

        encoder = TermEncoder.load(spec.model, **asdict(running))
        if encoder.content_hash != facts["model_hash"]:
            raise InputError(
                f"the server index {spec.name!r} was made by another model: its hash is {facts['model_hash']}, this "
                f"one's {encoder.content_hash}",
                remedy="give the index's own: --model X.index/model",
            )
        vectors = encoder.encode(clean_many(spec.mentions, tuple(facts["cleaning_rules"])))
        answers = server.search(vectors, spec.top, sources=spec.sources, types=spec.types, languages=spec.languages)
    for mention, hits in zip(spec.mentions, answers, strict=True):
        if spec.json:
            printing.print_rows([{"mention": mention, "hits": [hit._asdict() for hit in hits]}])
        else:
            print(_text(mention, hits))


@app.command("list")
def list_(to: To, as_json: AsJson = False) -> None:
    """Print the indexes on a server, with their loaded releases."""
    from alphita.index.servers import connect, module_of

    names = module_of(to).names(to)
    for name in names:
        with connect(to, name) as server:
            if as_json:
                printing.print_rows({"name": name, **release._asdict()} for release in server.releases())
                continue
            for release in server.releases():
                print(
                    f"{name}  release {release.release}, loaded {release.loaded}: {release.strings:,} strings, "
                    f"{release.terms:,} terms"
                )
    if not names:
        progress.say("there is no index")


@app.command("drop")
def drop(to: To, name: Name, yes: Annotated[bool, typer.Option("--yes", help="Confirm the removal.")] = False) -> None:
    """Remove an index from a server."""
    from alphita.index.servers import connect

    with connect(to, name) as server:
        release = server.facts()["release"]
        if not yes:
            raise UsageError(f"this removes the index {name} with release {release}; say --yes to do it")
        server.drop()
    print(f"{name}: removed")


def _text(mention: str, hits: list[Hit]) -> str:
    width = max((len(hit.concept_id) for hit in hits), default=0)
    lines = [f"  {hit.similarity:.3f}  {hit.concept_id:<{width}}  {hit.concept_name}  ({hit.term})" for hit in hits]
    return "\n".join([f"{mention}  (release {hits[0].release})" if hits else mention, *lines])
