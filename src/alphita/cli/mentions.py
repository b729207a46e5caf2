"""`alphita mentions`: where a terminology's names stand in a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alphita import artefact, machine
from alphita.cli._corpora import TextField, tell_unreadable
from alphita.errors import Rejects


def mentions(
    corpus: Annotated[
        list[Path],
        typer.Argument(metavar="CORPUS", help="Files of text, a document a line, or .jsonl; each may be .gz."),
    ],
    terminology: Annotated[Path, typer.Option("--terminology", "-t", help="Whose names are searched.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The X.mentions folder to create.")],
    encoder: Annotated[
        str, typer.Option(help="Whose tokenizer makes the tokens: alphita-en, minilm, a model folder or a hub name.")
    ] = "minilm",
    language: Annotated[
        list[str] | None, typer.Option(help="Search names of this language, such as it; may be repeated; all if none.")
    ] = None,
    split: Annotated[Path | None, typer.Option(help="Its held-out strings are no mentions, nor near one.")] = None,
    text_field: TextField = "text",
    window: Annotated[int, typer.Option(min=1, help="Tokens of a context.")] = 32,
    contexts: Annotated[int, typer.Option(min=1, help="Contexts kept of each name.")] = 4,
    sequence_tokens: Annotated[
        int, typer.Option(min=0, help="Keep whole documents too, in pieces of so many tokens; 0: none.")
    ] = 0,
    most_mentions: Annotated[int, typer.Option(min=1, help="Mentions of such a piece.")] = 119,
    ambiguous: Annotated[
        str, typer.Option(help="Names of several concepts: leave_out, or keep as a mention of each.")
    ] = "leave_out",
    accents: Annotated[str, typer.Option(help="keep, or strip those of Latin letters.")] = "keep",
    acronyms: Annotated[bool, typer.Option(help="Find names of 2 to 4 capitals in capitals only.")] = True,
    least_characters: Annotated[int, typer.Option(min=1, help="Characters of a name that is searched.")] = 3,
    stop: Annotated[
        list[str] | None, typer.Option(help="A name not to search, beside common words; may be repeated.")
    ] = None,
    held_out_text: Annotated[
        bool, typer.Option("--held-out-text", help="Keep texts in which a held-out string stands.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of contexts.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Move an existing folder aside and make a new one.")] = False,
) -> None:
    """Find a terminology's names in a corpus, and keep contexts of each to train with."""
    machine.set_threads(threads)
    from alphita import config
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita.training.mentions import building as mentions_of

    artefact.refuse_existing(output, force, " (the old one is moved aside)")
    settings = config.resolve(
        mentions_of.MentionSettings,
        base={
            "languages": language or [],
            "accents": accents,
            "acronyms": acronyms,
            "ambiguous": ambiguous,
            "least_characters": least_characters,
            "window": window,
            "contexts": contexts,
            "sequence_tokens": sequence_tokens,
            "most_mentions": most_mentions,
            "held_out_text": held_out_text,
            "seed": seed,
            "stop": stop or [],
        },
    )
    with Rejects(output.with_name(f"{output.name}.rejects.csv")) as rejects:
        counts = mentions_of.build(
            corpus,
            load_terminology(terminology),
            encoder,
            output,
            settings,
            split=Split.load(split) if split else None,
            text_field=text_field,
            rejects=rejects,
            force=force,
        )
    tell_unreadable(rejects)
    print(
        f"{output}: {counts['mentions']:,} mentions of {counts['forms']:,} names of {counts['concepts']:,} concepts in "
        f"{counts['documents']:,} documents of {counts['words']:,} words"
    )
    print(f"  kept: {counts['windows']:,} windows, {counts['sequences']:,} sequences")
