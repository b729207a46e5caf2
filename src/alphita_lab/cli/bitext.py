"""`alphita bitext`: translations mined from the strings of two languages."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from alphita import artefact, machine, progress
from alphita.cli._from_spec import with_options
from alphita.errors import InputError, Rejects, UsageError
from alphita.options import HOW, Running, group, option


@dataclass(frozen=True, kw_only=True)
class BitextSpec:
    """Whose strings to align, how, and where to."""

    sources: Path = option(
        ...,
        positional=True,
        metavar="A",
        help="Strings in the source language: a terminology, or a file with one per line.",
    )
    targets: Path = option(
        ...,
        positional=True,
        metavar="B",
        help="Strings in the other language: a terminology, or a file with one per line.",
    )
    encoder: str = option(..., help="Encoder for both languages: alphita-en, minilm, a model folder or a hub name.")
    output: Path = option(..., "--output", "-o", help="TSV: source, translation, language, margin.")
    language: tuple[str, ...] = option(
        (), help="Language of B: it, pt-BR, …; repeatable; by default all languages of a terminology."
    )
    source: str = option("en", help="Language of A.")
    k: int = option(4, least=1, panel=HOW, help="Neighbours that each cosine is compared with.")
    threshold: float = option(1.06, help="Minimum margin: a cosine by the mean of those around it.")
    split: Path | None = option(None, help="Split whose held-out strings to leave out.")
    running: Running = group(Running, panel=HOW)
    force: bool = option(False, help="Replace an existing file.")


@with_options
def bitext(spec: BitextSpec) -> None:
    """Mine translations: mutual nearest neighbours by margin, with an encoder that knows both languages.

    alphita bitext en.txt it.txt --encoder alphita-multi --language it -o pairs.tsv
    """
    running = replace(spec.running, threads=machine.set_threads(spec.running.threads))
    import numpy as np

    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology import languages
    from alphita.terminology.splits import Split
    from alphita_lab.training.terms import aligned_pairs, terminology_pairs
    from alphita_lab.training.terms import bitext as mining

    artefact.refuse_existing(spec.output, spec.force, " to replace it")
    source, *others = map(languages.known, [spec.source, *spec.language])
    known = _strings(spec.sources, [source])[source]
    by_language = _strings(spec.targets, others, besides=source)
    how: dict[str, Any] = {
        "source_language": source,
        "k": spec.k,
        "threshold": spec.threshold,
        "exclude": frozenset() if spec.split is None else Split.load(spec.split).cleaned,
    }
    encoder = TermEncoder.load(spec.encoder, **asdict(running))
    parts, margins = [], []
    for tag, strings in by_language.items():
        pairs, margins_of = mining.mine_strings(encoder, known, strings, tag, **how)
        print(f"{tag}: {len(pairs):,} pairs of {len(known):,} and {len(strings):,} strings")
        parts.append(pairs)
        margins.extend(margins_of.tolist())
    joined = aligned_pairs.joined(parts)
    terminology_pairs.write(spec.output, joined, np.array(margins))
    for problem, count in joined.counts.items():
        progress.say(f"left out: {count:,} {problem}")
    print(f"{spec.output}: {len(joined):,} pairs")


def _strings(path: Path, tags: list[str], *, besides: str = "") -> dict[str, list[str]]:
    """Return the strings of each language in a terminology or a text file; without tags, of all but `besides`."""
    from alphita.terminology.loaders import _files
    from alphita.terminology.store import load_terminology
    from alphita_lab.training.terms.aligned_pairs import NO_LANGUAGE
    from alphita_lab.training.terms.terminology_pairs import names_in

    if not path.is_dir():
        if len(tags) != 1:
            raise UsageError(f"{path} is a file of strings: say in which one language they are, --language it, say")
        with Rejects(strict=True) as rejects:
            found = {tags[0]: [line for _, line in _files.lines(path, "utf-8", rejects) if line.strip()]}
    else:
        terminology = load_terminology(path)
        # The languages of its terms, but for one and for those not stated.
        spoken = {tag.split("-")[0] for tag in terminology.terms["language"].unique().to_pylist() if tag}
        wanted = tags or sorted(spoken - {besides.split("-")[0], *NO_LANGUAGE})
        found = {tag: names_in(terminology, tag) for tag in wanted}
    for tag, strings in found.items():
        if not strings:
            raise InputError(f"no name in the language {tag!r}", file=path)
    if not found:
        raise InputError(f"no name in another language than {besides!r}", file=path)
    return found
