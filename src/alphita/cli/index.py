"""`alphita index`: a model and a terminology -> an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alphita import machine, progress


def index(
    model: Annotated[str, typer.Option(help="Encoder: a model folder, a hub name, or 'minilm'.")],
    terminology: Annotated[Path, typer.Option(help="Terminology folder, from 'alphita terminology import'.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Index folder to create, e.g. X.index.")],
    backend: Annotated[
        str,
        typer.Option(
            help="What searches the vectors: auto (by their number), faiss (all are compared), ivf_pq or hnsw "
            "(approximate, with measured recall), exact (the slow reference)."
        ),
    ] = "auto",
    no_letters: Annotated[
        bool, typer.Option("--no-letters", help="Store no character n-grams: a smaller index that misses misspellings.")
    ] = False,
    exclude_split: Annotated[
        Path | None, typer.Option(help="Leave out the strings that this split holds out, to evaluate on them.")
    ] = None,
    precision: Annotated[str, typer.Option(help="Arithmetic of the encoder: auto, fp32, bf16, ...")] = "auto",
    device: Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Move an existing index aside and make a new one.")] = False,
) -> None:
    """Encode a terminology's strings into an index: vectors, terms and model in one folder."""
    threads = machine.set_threads(threads)
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import build, check_backend
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    check_backend(backend)  # said before the minutes of work, not after
    terms = load_terminology(terminology)
    exclude = frozenset() if exclude_split is None else Split.load(exclude_split).cleaned
    encoder = TermEncoder.load(model, precision=precision, device=device, threads=threads)
    built = build(terms, encoder, output, exclude=exclude, backend=backend, letters=not no_letters, force=force)
    counts = built.manifest["counts"]
    left_out = f" ({len(exclude):,} held-out strings left out)" if exclude else ""
    print(
        f"{output}: {counts['strings']:,} strings of {counts['terms']:,} terms and {counts['concepts']:,} concepts, "
        f"{built.dim} numbers each{left_out}"
    )
    search = built.manifest["search"]
    if "recall_at_1" in search:
        print(
            f"search by {built.manifest['backend']}: the nearest string is found for {search['recall_at_1']:.1%} of "
            f"{search['probes']:,} misspelt ones"
        )
    progress.say(f"next: alphita normalize INPUT --index {output} -o OUT.csv")
