"""`alphita mentions`: where a terminology's names stand in a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alphita import artefact, machine, progress
from alphita.cli._from_spec import with_options
from alphita.errors import Rejects
from alphita.options import HOW, REMAKE, THREADS, group, option
from alphita_lab.cli._shared import TEXT_FIELD
from alphita_lab.training.mentions.settings import KEPT, MentionSettings


@dataclass(frozen=True, kw_only=True)
class MentionsSpec:
    """Which names to find in which corpus, and where to keep them."""

    corpus: tuple[Path, ...] = option(
        ...,
        positional=True,
        metavar="CORPUS",
        help="Text files with one document per line, or .jsonl; each can be .gz.",
    )
    terminology: Path = option(..., "--terminology", "-t", help="Terminology whose names to find.")
    output: Path = option(..., "--output", "-o", help="The X.mentions folder to create.")
    encoder: str = option(
        "minilm", help="Encoder whose tokenizer to use: alphita-en, minilm, a model folder or a hub name."
    )
    split: Path | None = option(None, help="Split whose held-out strings to exclude, as mentions and near mentions.")
    text_field: str = option("text", like=TEXT_FIELD, panel=KEPT)
    settings: MentionSettings = group(MentionSettings)
    threads: int | None = option(None, like=THREADS, panel=HOW)
    force: bool = option(False, like=REMAKE)


@with_options
def mentions(spec: MentionsSpec) -> None:
    """Find a terminology's names in a corpus, and store contexts of each for training.

    alphita mentions notes.txt -t hpo.terminology -o notes.mentions
    """
    machine.set_threads(spec.threads)
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita_lab.training.mentions.building import build

    output = spec.output
    artefact.refuse_existing(output, spec.force, " (the old one is moved aside)")
    with Rejects(output.with_name(f"{output.name}.rejects.csv")) as rejects:
        counts = build(
            spec.corpus,
            load_terminology(spec.terminology),
            spec.encoder,
            output,
            spec.settings,
            split=Split.load(spec.split) if spec.split else None,
            text_field=spec.text_field,
            rejects=rejects,
            force=spec.force,
        )
    rejects.tell(progress.say, "line")
    print(
        f"{output}: {counts['mentions']:,} mentions of {counts['forms']:,} names of {counts['concepts']:,} concepts in "
        f"{counts['documents']:,} documents of {counts['words']:,} words"
    )
    print(f"  kept: {counts['windows']:,} windows, {counts['sequences']:,} sequences")
