"""`alphita server`: an index on a server that many programs search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import machine, progress
from alphita.errors import InputError, UsageError

if TYPE_CHECKING:
    from alphita.index.servers import Hit

app = typer.Typer(help="An index in PostgreSQL with pgvector, for many readers at once.", no_args_is_help=True)
Source = Annotated[Path, typer.Argument(metavar="X.index", help="Index folder, from 'alphita index'.")]
To = Annotated[
    str,
    typer.Option(
        envvar="ALPHITA_SERVER",
        help="Address: postgresql://USER@HOST/DATABASE. Others on this machine can see the command line: "
        "put a password into the variable ALPHITA_SERVER with the address, or into ~/.pgpass.",
    ),
]
Name = Annotated[str, typer.Option(help="Name of the index on the server: a-z, 0-9 and _.")]
ReleaseName = Annotated[str, typer.Option(help="Name of this release, e.g. 2026-03; each answer carries it.")]
Precision = Annotated[str, typer.Option(help="Arithmetic of the encoder: auto, fp32, bf16, ...")]
Device = Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")]


@app.command("load")
def load(
    index: Source,
    to: To,
    name: Name,
    release: ReleaseName,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the index of this name; readers see the old one until the end.")
    ] = False,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Copy an index to a server and measure how often it finds the nearest string there."""
    threads = machine.set_threads(threads)
    from alphita.index.servers import connect

    with connect(to, name) as server:
        from alphita.encoder.encoder import TermEncoder
        from alphita.index.servers._content import IndexContent, probes_of
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
    """Take a loaded index to another release: only what changed is written, and readers see the old or the new."""
    from alphita.index.servers import connect

    with connect(to, name) as server:
        from alphita.index.servers._content import IndexContent
        from alphita.index.store import Index

        change = server.update(IndexContent(Index.open(index)), release=release)
        facts = server.facts()
    print(
        f"{name}: release {release}, strings +{change.strings_added:,} -{change.strings_removed:,}, "
        f"terms +{change.terms_added:,} -{change.terms_removed:,}, {change.terms_kept:,} as before; the nearest string "
        f"is found for {facts['recall_at_1']:.1%} of {facts['probes']:,} misspelt ones"
    )


@app.command("search")
def search(
    mentions: Annotated[list[str], typer.Argument(metavar="MENTION...", help="What is sought.")],
    to: To,
    name: Name,
    model: Annotated[str, typer.Option(help="The encoder that the index was made with: X.index/model.")],
    top: Annotated[int, typer.Option(min=1, help="Strings for each mention.")] = 5,
    source: Annotated[
        list[str] | None, typer.Option(help="Concepts of this terminology only, by prefix; repeatable.")
    ] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Concepts of this type only; repeatable.")] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Terms in this language only (en, it, ...); repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each mention, a line each.")] = False,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Print the terms on the server that are nearest to each mention."""
    threads = machine.set_threads(threads)
    from alphita.index.servers import connect

    with connect(to, name) as server:
        facts = server.facts()
        from alphita.encoder.encoder import TermEncoder
        from alphita.terminology.text import clean_many

        encoder = TermEncoder.load(model, precision=precision, device=device, threads=threads)
        if encoder.content_hash != facts["model_hash"]:
            raise InputError(
                f"the server index {name!r} was made by another model: its hash is {facts['model_hash']}, this one's "
                f"{encoder.content_hash}",
                remedy="give the index's own: --model X.index/model",
            )
        cleaned = clean_many(mentions, tuple(facts["cleaning_rules"]))
        answers = server.search(
            encoder.encode(cleaned), top, sources=source or (), types=type_ or (), languages=language or ()
        )
    for mention, hits in zip(mentions, answers, strict=True):
        print(_json(mention, hits) if as_json else _text(mention, hits))


@app.command("list")
def list_(to: To) -> None:
    """Print the indexes on a server, with the releases that were loaded."""
    from alphita.index.servers import connect, module_of

    names = module_of(to).names(to)
    for name in names:
        with connect(to, name) as server:
            for release in server.releases():
                print(
                    f"{name}  release {release.release}, loaded {release.loaded}: {release.strings:,} strings, "
                    f"{release.terms:,} terms"
                )
    if not names:
        progress.say("there is no index")


@app.command("drop")
def drop(to: To, name: Name, yes: Annotated[bool, typer.Option("--yes", help="Really remove it.")] = False) -> None:
    """Remove an index from a server."""
    from alphita.index.servers import connect

    with connect(to, name) as server:
        release = server.facts()["release"]
        if not yes:
            raise UsageError(f"this removes the index {name} with release {release}; say --yes to do it")
        server.drop()
    print(f"{name}: removed")


def _json(mention: str, hits: list[Hit]) -> str:
    return json.dumps({"mention": mention, "hits": [hit._asdict() for hit in hits]}, ensure_ascii=False)


def _text(mention: str, hits: list[Hit]) -> str:
    width = max((len(hit.concept_id) for hit in hits), default=0)
    lines = [f"  {hit.similarity:.3f}  {hit.concept_id:<{width}}  {hit.concept_name}  ({hit.term})" for hit in hits]
    return "\n".join([f"{mention}  (release {hits[0].release})" if hits else mention, *lines])
