"""`alphita bitext`: translations mined from the strings of two languages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, machine, progress
from alphita.errors import InputError, Rejects, UsageError

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

# As is usual on web text; see alphita.training.terms.bitext.
RATIO_THRESHOLD = 1.06


def bitext(
    sources: Annotated[
        Path, typer.Argument(metavar="A", help="Strings of the source language: a terminology, or a file, one a line.")
    ],
    targets: Annotated[
        Path, typer.Argument(metavar="B", help="Strings of the other language: a terminology, or a file, one a line.")
    ],
    encoder: Annotated[
        str, typer.Option(help="Encoder of both languages: alphita-en, minilm, a model folder or a hub name.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="TSV: source, translation, language, margin.")],
    language: Annotated[
        list[str] | None,
        typer.Option(help="Language of B: it, pt-BR, …; of a terminology all by default; may be repeated."),
    ] = None,
    source: Annotated[str, typer.Option(help="Language of A.")] = "en",
    k: Annotated[int, typer.Option("--k", min=1, help="Neighbours that a cosine is measured against.")] = 4,
    margin: Annotated[str, typer.Option(help="ratio, distance or absolute.")] = "ratio",
    threshold: Annotated[
        float | None, typer.Option(help=f"Least margin; {RATIO_THRESHOLD} for ratio, the others need one.")
    ] = None,
    split: Annotated[Path | None, typer.Option(help="Leave out the strings that this split holds out.")] = None,
    precision: Annotated[str, typer.Option(help="Arithmetic of the encoder: auto, fp32, bf16, ...")] = "auto",
    device: Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Mine translations: mutual nearest neighbours of an encoder that knows both languages, by margin."""
    threads = machine.set_threads(threads)
    import numpy as np

    from alphita.encoder.encoder import TermEncoder
    from alphita.registry import unknown
    from alphita.terminology import languages
    from alphita.terminology.splits import Split
    from alphita.training.terms import aligned_pairs, terminology_pairs
    from alphita.training.terms import bitext as mining

    artefact.refuse_existing(output, force, " to replace it")
    if margin not in mining.MARGINS:
        raise UsageError(unknown("margin", margin, mining.MARGINS))
    if threshold is None and margin != "ratio":
        raise UsageError(f"--margin {margin} needs a --threshold, for none is usual")
    least = RATIO_THRESHOLD if threshold is None else threshold
    tags = []
    for given in [source, *(language or [])]:
        tag = languages.normalize(given)
        if tag is None:
            raise UsageError(f"{given!r}: {languages.UNKNOWN}")
        tags.append(tag)
    exclude = frozenset() if split is None else Split.load(split).cleaned
    known = _strings(sources, [tags[0]])[tags[0]]
    by_language = _strings(targets, tags[1:], besides=tags[0])
    opened = TermEncoder.load(encoder, precision=precision, device=device, threads=threads)
    parts, margins = [], []
    for tag, strings in by_language.items():
        found, margins_of = mining.mine_strings(
            opened, known, strings, tag, source_language=tags[0], k=k, margin=margin, threshold=least, exclude=exclude
        )
        print(f"{tag}: {len(found):,} pairs of {len(known):,} and {len(strings):,} strings")
        parts.append(found)
        margins.extend(margins_of.tolist())
    pairs = aligned_pairs.joined(parts)
    terminology_pairs.write(output, pairs, np.array(margins))
    for problem, count in pairs.counts.items():
        progress.say(f"left out: {count:,} {problem}")
    print(f"{output}: {len(pairs):,} pairs")


def _strings(path: Path, tags: list[str], *, besides: str = "") -> dict[str, list[str]]:
    """Return the strings of each language in a terminology or a text file; without tags, of all but `besides`."""
    from alphita.terminology.loaders import _files
    from alphita.terminology.store import load_terminology
    from alphita.training.terms.terminology_pairs import names_in

    if not path.is_dir():
        if len(tags) != 1:
            raise UsageError(f"{path} is a file of strings: say in which one language they are, --language it, say")
        with Rejects(strict=True) as rejects:
            found = {tags[0]: [line for _, line in _files.lines(path, "utf-8", rejects) if line.strip()]}
    else:
        terminology = load_terminology(path)
        wanted = tags or _languages(terminology, besides)
        found = {tag: names_in(terminology, tag) for tag in wanted}
    for tag, strings in found.items():
        if not strings:
            raise InputError(f"no name in the language {tag!r}", file=path)
    if not found:
        raise InputError(f"no name in another language than {besides!r}", file=path)
    return found


def _languages(terminology: Terminology, besides: str) -> list[str]:
    """Return the languages of a terminology's terms, each with its variants, but for one and for those not stated."""
    from alphita.training.terms.aligned_pairs import NO_LANGUAGE

    spoken = {tag.split("-")[0] for tag in terminology.terms["language"].unique().to_pylist() if tag}
    return sorted(spoken - {besides.split("-")[0], *NO_LANGUAGE})
