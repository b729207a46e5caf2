"""`alphita terminology verbalise`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, progress
from alphita.errors import InputError, Rejects, UsageError

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita.terminology.verbalisation.texts import Texts
    from alphita.terminology.verbalisation.withheld import Withheld

DESCRIPTION = "description"
SHOWN = ("definitions", "descriptions", "generated definitions")  # the kinds of text, in their order


def verbalise(
    terminology: Annotated[Path, typer.Argument(metavar="X.terminology", help="Terminology folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSONL to create: concept_id, kind, text.")],
    split: Annotated[
        Path | None, typer.Option(metavar="X.split", help="Held-out strings and triples, which no text shows.")
    ] = None,
    kinds: Annotated[
        str, typer.Option(metavar="KIND,…", help="Some of definition, description, generated.")
    ] = "definition,description,generated",
    languages: Annotated[
        list[str] | None, typer.Option("--language", help="Of the definitions; may be repeated. [default: en]")
    ] = None,
    descriptions: Annotated[int, typer.Option(min=0, help="At most so many descriptions a concept.")] = 3,
    generated: Annotated[
        Path | None, typer.Option(metavar="G.jsonl", help="Generated definitions: concept_id, text.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="P.jsonl", help="Also write prompts for the concepts without a definition.")
    ] = None,
    price: Annotated[
        str, typer.Option(metavar="IN,OUT", help="Prices of a million tokens read and written: estimate the prompts'.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Of the descriptions.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first bad line of --generated.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write what a terminology says of its concepts: definitions, descriptions, generated definitions."""
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita.terminology.verbalisation import generation, texts, withheld

    if price and prompts is None:
        raise UsageError("--price estimates the prompts: give --prompts too")
    prices = _prices(price) if price else None
    _apart(output=output, prompts=prompts, generated=generated)
    for path in (output, prompts):
        if path is not None:
            artefact.refuse_existing(path, force)
    opened = load_terminology(terminology)
    held_out = Split.load(split) if split is not None else Split([], [], [])
    pairs = held_out.triple_pairs(opened)
    report = output.with_name(output.name + ".rejects.csv")
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(report, strict=strict) as rejects:
        brought = generation.read_generated(generated, opened, rejects) if generated is not None else None
    if rejects.count:
        progress.say(f"{rejects.count:,} lines of {generated} were left out; each is in {report} with its line")
    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]

    def told_of(kinds: list[str]) -> Texts:
        return texts.verbalise(
            opened,
            exclude=held_out.cleaned,
            held_out=pairs,
            languages=languages or ["en"],
            kinds=kinds,
            descriptions=descriptions,
            generated=brought,
            seed=seed,
        )

    found = told_of(chosen)
    _write(found, opened, output)
    told = [int((found.kinds == place).sum()) for place in range(len(texts.KINDS))]
    shown = ", ".join(f"{count:,} {name}" for name, count in zip(SHOWN, told, strict=True) if count)
    print(f"{output}: {len(found):,} texts of {len(set(found.concepts.tolist())):,} concepts: {shown}")
    for reason, count in found.counts.items():
        progress.say(f"{reason}: {count:,}")
    if prompts is not None:
        # What has a definition has one whether it was asked for or not.
        defining = [kind for kind in texts.KINDS if kind != DESCRIPTION]
        defined: Texts | None = found
        if not set(defining) <= set(chosen):
            try:
                defined = told_of(defining)
            except InputError:  # there is no text of these kinds
                defined = None
        _ask(opened, defined, withheld.Withheld(held_out.cleaned, pairs, opened.n_concepts), prompts, prices)


def _apart(**paths: Path | None) -> None:
    """Refuse options that name one file: what is written last would replace the others."""
    known: dict[Path, str] = {}
    for option, path in paths.items():
        if path is not None and (other := known.setdefault(path.resolve(), option)) != option:
            raise UsageError(f"--{other} and --{option} name the same file: {path}")


def _write(found: Texts, terminology: Terminology, output: Path) -> None:
    from alphita.terminology.verbalisation.texts import KINDS

    with artefact.atomic_file(output, "w") as file:
        for row, kind, text in zip(found.concepts.tolist(), found.kinds.tolist(), found.strings, strict=True):
            entry = {"concept_id": terminology.concept_id(row), "kind": KINDS[kind], "text": text}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _ask(
    terminology: Terminology, found: Texts | None, withheld: Withheld, path: Path, prices: tuple[float, float] | None
) -> None:
    """Write the prompts of the live concepts that no definition was found of, written or generated; None: of any."""
    import numpy as np

    from alphita.terminology.verbalisation import prompts
    from alphita.terminology.verbalisation.texts import KINDS

    asked = ~np.asarray(terminology.retired)
    if found is not None:
        asked[found.concepts[found.kinds != KINDS.index(DESCRIPTION)]] = False
    rows = np.flatnonzero(asked)
    with progress.bar("prompts", len(rows), "concepts") as shown:
        count = prompts.write_prompts(_counted(prompts.prompts(terminology, rows, withheld), shown), path)
    print(f"{path}: {count:,} prompts")
    if prices is not None:
        cost = prompts.estimate(
            (text for _, text in prompts.read_prompts(path)),
            price_per_million_input=prices[0],
            price_per_million_output=prices[1],
        )
        print(f"about {cost.input_tokens:,} tokens read and {cost.output_tokens:,} written: {cost.price:,.2f}")


def _counted(found: Iterator[tuple[str, str]], shown: progress.Bar) -> Iterator[tuple[str, str]]:
    for entry in found:
        shown.advance()
        yield entry


def _prices(text: str) -> tuple[float, float]:
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--price takes two prices such as 0.15,0.60, not {text!r}") from None
    return read, written
