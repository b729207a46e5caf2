"""`alphita index`: a terminology, imported or as it is published, and a model -> an index."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import artefact, machine, progress, registry
from alphita.cli._from_spec import with_options
from alphita.errors import UsageError
from alphita.index.choice import Building, Choice
from alphita.options import CLUSTER, HOW, Cluster, Running, group, option

if TYPE_CHECKING:
    from alphita.index.store import Index

# Beside what `Choice` knows: the whole encoder is trained before it is indexed with.
FULL = "full"


@dataclass(frozen=True, kw_only=True)
class IndexSpec:
    """What to index, how and where to."""

    output: Path = option(..., "--output", "-o", help="Index folder to create, e.g. X.index.")
    source: str | None = option(
        None,
        positional=True,
        metavar="SOURCE",
        help="hpo, icd10cm, a terminology's published file or folder, or an X.terminology folder.",
    )
    terminology: Path | None = option(None, help="Terminology folder, instead of SOURCE.")
    model: str | None = option(
        None,
        help="Encoder: alphita-en, alphita-multi, minilm, a model folder or a hub name; by default alphita-en if all "
        "names are English, otherwise alphita-multi; with --update that of the old index.",
    )
    update: Path | None = option(
        None,
        help="An existing index with the same model, for example of the last release: its strings keep their vectors, "
        "and only new strings are encoded.",
    )
    building: Building = group(Building)
    exclude_split: Path | None = option(
        None, panel=HOW, help="Split whose held-out strings to leave out, to evaluate on them."
    )
    given: Choice = group(Choice, without=("model",))
    running: Running = group(Running, panel=HOW)
    cluster: Cluster = group(Cluster)
    parts: str | None = option(
        None,
        panel=CLUSTER,
        help="Folder or URL that all machines share, for encoded blocks; OUTPUT.parts by default. An interrupted job "
        "continues from it.",
    )
    force: bool = option(False, help="Move an existing index aside and create a new one.")


@with_options
def index(spec: IndexSpec) -> None:
    """Encode a terminology's strings into an index: vectors, terms and model in one folder.

    alphita index hpo -o hpo.index
    """
    spec.cluster.check(parts=spec.parts)
    if spec.cluster.engine is not None and spec.update is not None:
        raise UsageError("--update encodes on this machine; leave out --engine")
    if (spec.source is None) == (spec.terminology is None):
        raise UsageError("name one terminology: alphita index hpo -o hpo.index")
    if spec.given.learn == FULL and (spec.model is not None or spec.update is not None):
        raise UsageError(f"--learn {FULL} trains the encoder first: leave out --model and --update")
    threads = machine.set_threads(spec.running.threads)
    terminology = _checked(spec)
    if spec.given.learn == FULL:
        model = str(_trained(terminology, spec.exclude_split, spec.output))
        spec = replace(spec, model=model, given=replace(spec.given, learn="seconds"))
    built = _built(spec, terminology, threads)
    from alphita.calibrate.transfer import MIN_COMPARED, adapt_where_missing
    from alphita.index.enrichment import say_given

    if not adapt_where_missing(built, threads=threads):
        progress.say(
            f"of fewer than {MIN_COMPARED} strings and another model than Alphita's own: its answers have no "
            "confidence until 'alphita calibrate --from' gives it one"
        )
    say_given(built.manifest)
    print(_text(built, spec.output))
    progress.say(f"next: alphita normalize INPUT --to {spec.output} -o OUT.csv")


def _checked(spec: IndexSpec) -> Path:
    """Return the terminology's folder; errors are reported before the minutes of work, not after."""
    from alphita.index.sources import terminology_of

    spec.building.check()
    artefact.refuse_existing(spec.output, spec.force, " (the old one is moved aside)")
    if spec.source is not None and Path(spec.source).exists():
        artefact.refuse_same({"the source": Path(spec.source), "the output": spec.output})
    terminology = spec.terminology or terminology_of(str(spec.source))
    read = {
        "the terminology": terminology,
        "the split": spec.exclude_split,
        "the model": spec.model and Path(spec.model),
    }
    for what, path in read.items():
        # A model may also be a name that the hub knows.
        if path and path.exists():
            artefact.refuse_same({what: path, "the output": spec.output})
    return terminology


def _built(spec: IndexSpec, terminology: Path, threads: int) -> Index:
    """Build the index here, or with an engine, whose workers use the requested threads, not `threads`."""
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.choice import languages_of, model_for
    from alphita.index.sources import enrichment_of, reusing
    from alphita.index.store import Index, build
    from alphita.jobs import indexing
    from alphita.jobs.engines import open_engine
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    with nullcontext() if spec.cluster.engine is None else open_engine(*asdict(spec.cluster).values()) as engine:
        terms = load_terminology(terminology)
        options: dict[str, Any] = {
            "exclude": frozenset() if spec.exclude_split is None else Split.load(spec.exclude_split).cleaned,
            "enrichment": enrichment_of(spec.given, terms),
            "force": spec.force,
        }
        old = None if spec.update is None else Index.open(spec.update)
        model = spec.model or (str(old.model_path) if old else model_for(languages_of(terms)))
        if engine is not None:
            where = terms, model, spec.output, engine
            return indexing.build(*where, spec.building, spec.running, parts=spec.parts, **options)
        encoder = TermEncoder.load(model, **asdict(replace(spec.running, threads=threads)))
        blocks = None if old is None else reusing(old, encoder, half=spec.building.half)
        return build(terms, encoder, spec.output, spec.building, blocks=blocks, update=old, **options)


def _text(built: Index, output: Path) -> str:
    """Return what an index holds, in some lines."""
    facts = built.manifest
    counts, excluded, search = facts["counts"], facts["excluded"]["strings"], facts["search"]
    left_out = f" ({excluded:,} held-out strings left out)" if excluded else ""
    lines = [
        f"{output}: {counts['strings']:,} strings of {counts['terms']:,} terms and {counts['concepts']:,} concepts, "
        f"{built.dim} numbers each{left_out}"
    ]
    if borrowed := (facts.get("borrowed") or {}).get("names"):
        lines.append(f"{borrowed:,} of the names are borrowed from other vocabularies (--no-borrow leaves them out)")
    if head := facts.get("head"):
        lines.append(f"head: {head['reason']}")
    if "recall_at_1" in search:
        lines.append(
            f"search by {facts['backend']}: the nearest string is found for {search['recall_at_1']:.1%} of "
            f"{search['probes']:,} misspelt ones"
        )
    return "\n".join(lines)


def _trained(terminology: Path, split: Path | None, output: Path) -> Path:
    """Return an encoder trained on a terminology, next to the index; an interrupted training continues."""
    from alphita.artefact import MANIFEST
    from alphita.encoder.resolve import best_start

    model = output.with_name(output.name + ".model")
    if not (model / MANIFEST).exists():
        start = best_start()
        progress.say(f"training {start}, kept in {model}: this takes from some minutes to an hour")
        settings = registry.extension("quickstart_training").TRAINING
        registry.extension("train")("coder", terminology, model, encoder=start, split=split, resume=True, **settings)
    return model
