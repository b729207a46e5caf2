"""`alphita search`: products ranked for queries, with the reasons."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import machine, printing, progress, textio
from alphita.cli._from_spec import JSON, Device, Force, Precision, Threads, with_options
from alphita.errors import InputError, UsageError
from alphita.options import Running, group, option

if TYPE_CHECKING:
    from alphita.search.routes import Product

app = typer.Typer(help="Products ranked for a query, by their titles and attributes.", no_args_is_help=True)


@app.command("build")
def build(
    model: Annotated[str, typer.Option(help="Encoder: alphita-en, minilm, a model folder or a hub name.")],
    terminology: Annotated[
        Path, typer.Option("--terminology", "-t", help="Products, from 'alphita terminology import products'.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Search folder to create, e.g. X.search.")],
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A relation that is an attribute; repeatable; by default all except those to parents."),
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Only names in this language (en, zh, ...); repeatable.")
    ] = None,
    exclude_split: Annotated[
        Path | None, typer.Option(help="Split whose held-out strings and triples to leave out, to evaluate on them.")
    ] = None,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
    force: Force = False,
) -> None:
    """Encode the titles and attribute values of a terminology's products into one folder."""
    threads = machine.set_threads(threads)
    from alphita.encoder.encoder import TermEncoder
    from alphita.search import store
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    products = load_terminology(terminology)
    split = None if exclude_split is None else Split.load(exclude_split)
    encoder = TermEncoder.load(model, precision=precision, device=device, threads=threads)
    counts = store.build(
        products, encoder, output, attributes=attribute or (), languages=language or (), split=split, force=force
    )
    left_out = f" ({counts['held_out_triples']:,} held-out ones left out)" if split is not None else ""
    unnamed = counts["unnamed_triples"], counts["unnamed_products"]
    if any(unnamed):
        spoken = f" in {', '.join(language)}" if language else ""
        left_out += f"; without a usable name{spoken}: {unnamed[0]:,} triples and {unnamed[1]:,} products left out"
    print(
        f"{output}: {counts['products']:,} products, {counts['values']:,} values of {counts['attributes']:,} "
        f"attributes, {counts['triples']:,} triples{left_out}"
    )
    if counts["auc"] is not None:
        heeded = "heeds it" if counts["auc"] >= store.MIN_AUC else "leaves it out"
        progress.say(
            f"predicted attributes: a product that has a value is nearer to it than one that lacks it in "
            f"{counts['auc']:.0%} of pairs, so that 'fused' {heeded} (from {store.MIN_AUC:.0%})"
        )
    progress.say(f'next: alphita search query {output} "what you seek"')


@dataclass(frozen=True, kw_only=True)
class QuerySpec:
    """What to seek, where, and how."""

    path: Path = option(..., positional=True, metavar="X.search", help="Search folder, from 'alphita search build'.")
    queries: tuple[str, ...] = option((), positional=True, metavar="[QUERY...]", help="What to search for.")
    file: str | None = option(None, help="Text file with one query per line; '-' is stdin.")
    top: int = option(10, least=1, help="Products per query.")
    route: str = option(
        "fused",
        help="Route: titles, values (of attributes), predicted (values that the table lacks, with a model of "
        "electra_em_pap), or fused: all of them, but predicted only if 'build' found it useful.",
    )
    where: tuple[str, ...] = option(
        (),
        metavar="ATTRIBUTE=VALUE",
        help="Only products with this value; repeatable; values of one attribute are alternatives.",
    )
    json: bool = option(False, help=JSON)
    verify: bool = option(False, help="Verify the hashes of the whole folder first.")
    running: Running = group(Running)


@app.command("query")
@with_options
def query(spec: QuerySpec) -> None:
    """Print the best products for each query, with the matching title or attribute value."""
    if bool(spec.queries) == (spec.file is not None):
        raise UsageError("give queries, or a file of them by --file")
    running = replace(spec.running, threads=machine.set_threads(spec.running.threads))
    from alphita.search import ProductSearch

    queries = list(spec.queries) if spec.file is None else _lines(spec.file)
    search = ProductSearch.load(spec.path, verify=spec.verify or None, **asdict(running))
    answers = search.stream(queries, top=spec.top, route=spec.route, where=spec.where)
    for text, products in zip(queries, answers, strict=True):
        if spec.json:
            printing.print_rows(
                [{"query": text, "products": [asdict(product) | {"why": product.why} for product in products]}]
            )
        else:
            print(_text(text, products), flush=True)


def _lines(file: str) -> list[str]:
    """Return the queries of a file; lines that are empty after cleaning are counted and left out."""
    from alphita.terminology.text import clean

    try:
        text = textio.whole(sys.stdin, "stdin") if file == "-" else textio.read_text(Path(file))
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as UTF-8 text: {error}", file=file) from None
    # Lines end as in every text file; U+2028 and its like stand within one.
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    kept = [line.strip() for line in lines if clean(line)]
    if not kept:
        raise InputError("holds no query", file=file, remedy="one a line")
    if len(kept) < len(lines):
        progress.say(f"{len(lines) - len(kept):,} empty lines left out")
    return kept


def _text(query: str, products: list[Product]) -> str:
    lines = [query]
    width = max((len(product.title) for product in products), default=0)
    for rank, product in enumerate(products, 1):
        lines.append(f"{rank:>4}  {product.title:<{width}}  {product.score:5.2f}  {product.why}")
    return "\n".join(lines if products else [*lines, "      nothing found"])
