"""`alphita index`: a terminology, imported or as it is published, and a model -> an index."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from alphita import artefact, machine, progress
from alphita.cli._from_spec import (
    Address,
    Device,
    Engine,
    GpusPerWorker,
    HelpAll,
    Learn,
    Names,
    NoBorrow,
    Precision,
    Threads,
    Workers,
)
from alphita.errors import UsageError
from alphita.normalizer.spec import CLUSTER, HOW, chosen, refuse_without_engine

# Beside what `Choice` knows: the whole encoder is trained before it is indexed with.
FULL = "full"


def index(
    output: Annotated[Path, typer.Option("--output", "-o", help="Index folder to create, e.g. X.index.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="hpo, icd10cm, a terminology's file or folder as it is published, or an X.terminology folder.",
        ),
    ] = None,
    terminology: Annotated[Path | None, typer.Option(help="Terminology folder; the same as SOURCE.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Encoder: alphita-en, alphita-multi, minilm, a model folder or a hub name; by default alphita-en "
            "where all names are English, else alphita-multi; with --update that index's own."
        ),
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            help="An index by the same model, say of the last release: its strings keep their vectors, and only new "
            "ones are encoded."
        ),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="What searches the vectors: auto (by their number), faiss (all are compared), ivf_pq or hnsw "
            "(approximate, with measured recall), exact (the slow reference).",
            rich_help_panel=HOW,
        ),
    ] = "auto",
    no_letters: Annotated[
        bool,
        typer.Option(
            "--no-letters",
            help="Store no character n-grams: a smaller index that misses misspellings.",
            rich_help_panel=HOW,
        ),
    ] = False,
    half: Annotated[
        bool,
        typer.Option(
            "--half",
            help="Store the vectors in half precision: half the size on disk, near the same.",
            rich_help_panel=HOW,
        ),
    ] = False,
    exclude_split: Annotated[
        Path | None,
        typer.Option(help="Leave out the strings that this split holds out, to evaluate on them.", rich_help_panel=HOW),
    ] = None,
    no_borrow: NoBorrow = False,
    names: Names = None,
    learn: Learn = "seconds",
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    parts: Annotated[
        str | None,
        typer.Option(
            help="Folder or URL, shared by all machines, for what is encoded already; OUTPUT.parts otherwise. A job "
            "that was broken off goes on with it.",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Move an existing index aside and make a new one.")] = False,
    help_all: HelpAll = False,
) -> None:
    """Encode a terminology's strings into an index: vectors, terms and model in one folder.

    alphita index hpo -o hpo.index
    """
    if engine is None:
        refuse_without_engine(
            {"--workers": workers, "--address": address, "--gpus-per-worker": gpus_per_worker, "--parts": parts}
        )
    elif update is not None:
        raise UsageError("--update encodes on this machine; leave out --engine")
    if (source is None) == (terminology is None):
        raise UsageError("name one terminology: alphita index hpo -o hpo.index")
    of_worker, threads = threads, machine.set_threads(threads)
    from alphita.distributed.engines import open_engine
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.choice import languages_of, model_for
    from alphita.index.sources import enrichment_of, reusing, terminology_of
    from alphita.index.store import Index, build, check_backend
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    # What is wrong is said before the minutes of work, not after.
    check_backend(backend)
    artefact.refuse_existing(output, force, " (the old one is moved aside)")
    if source is not None and Path(source).exists():
        artefact.refuse_same({"the source": Path(source), "the output": output})
    terminology = terminology or terminology_of(str(source))
    read = {"the terminology": terminology, "the split": exclude_split, "the model": model and Path(model)}
    for what, path in read.items():
        # A model may also be a name that the hub knows.
        if path and path.exists():
            artefact.refuse_same({what: path, "the output": output})
    if learn == FULL:
        if model is not None or update is not None:
            raise UsageError(f"--learn {FULL} trains the encoder first: leave out --model and --update")
        model, learn = str(_trained(terminology, exclude_split, output)), "seconds"
    with nullcontext() if engine is None else open_engine(engine, workers, address, gpus_per_worker) as opened:
        terms = load_terminology(terminology)
        exclude = frozenset() if exclude_split is None else Split.load(exclude_split).cleaned
        options: dict[str, Any] = {
            "exclude": exclude,
            "backend": backend,
            "letters": not no_letters,
            "half": half,
            "force": force,
            "enrichment": enrichment_of(chosen(no_borrow, names, learn)),
        }
        old = None if update is None else Index.open(update)
        model = model or (str(old.model_path) if old else model_for(languages_of(terms)))
        if opened is None:
            encoder = TermEncoder.load(model, precision=precision, device=device, threads=threads)
            blocks = None if old is None else reusing(old, encoder, half=half)
            built = build(terms, encoder, output, blocks=blocks, **options)
        else:
            from alphita.distributed import indexing

            built = indexing.build(
                terms,
                model,
                output,
                opened,
                parts=parts,
                precision=precision,
                device=device,
                threads=of_worker,
                **options,
            )
    from alphita.normalizer.calibrating.carrying import LEAST_COMPARED, lend_where_missing

    if not lend_where_missing(built, threads=threads):
        progress.say(
            f"of fewer than {LEAST_COMPARED} strings and another model than Alphita's own: its answers have no "
            "confidence until 'alphita calibrate --from' gives it one"
        )
    counts = built.manifest["counts"]
    left_out = f" ({len(exclude):,} held-out strings left out)" if exclude else ""
    print(
        f"{output}: {counts['strings']:,} strings of {counts['terms']:,} terms and {counts['concepts']:,} concepts, "
        f"{built.dim} numbers each{left_out}"
    )
    if borrowed := (built.manifest.get("borrowed") or {}).get("names"):
        print(f"{borrowed:,} of the names are borrowed from other vocabularies (--no-borrow leaves them out)")
    if head := built.manifest.get("head"):
        print(f"head: {head['reason']}")
    search = built.manifest["search"]
    if "recall_at_1" in search:
        print(
            f"search by {built.manifest['backend']}: the nearest string is found for {search['recall_at_1']:.1%} of "
            f"{search['probes']:,} misspelt ones"
        )
    progress.say(f"next: alphita normalize INPUT --to {output} -o OUT.csv")


def _trained(terminology: Path, split: Path | None, output: Path) -> Path:
    """Return an encoder trained on a terminology, beside the index; a training that was broken off goes on."""
    from alphita.artefact import MANIFEST
    from alphita.encoder.resolve import best_start
    from alphita.front import train
    from alphita.quickstart_training import TRAINING

    model = output.with_name(output.name + ".model")
    if not (model / MANIFEST).exists():
        start = best_start()
        progress.say(f"training {start}, kept in {model}: this takes from some minutes to an hour")
        train("coder", terminology, model, encoder=start, split=split, resume=True, **TRAINING)
    return model
