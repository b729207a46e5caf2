"""`alphita terminology verbalise`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita import artefact, progress
from alphita.cli._from_spec import with_options
from alphita.errors import InputError, Rejects, UsageError
from alphita.options import option

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita_lab.verbalisation.definitions import Withheld
    from alphita_lab.verbalisation.texts import Texts

DESCRIPTION = "description"
SHOWN = ("definitions", "descriptions", "generated definitions")  # the kinds of text, in their order


@dataclass(frozen=True, kw_only=True)
class VerbaliseSpec:
    """Which texts to make of which terminology, and where to."""

    terminology: Path = option(..., positional=True, metavar="X.terminology", help="Terminology folder.")
    output: Path = option(..., "--output", "-o", help="JSONL to create: concept_id, kind, text.")
    split: Path | None = option(None, metavar="X.split", help="Split whose held-out strings and triples to avoid.")
    kinds: str = option(
        "definition,description,generated", metavar="KIND,…", help="Kinds of text: definition, description, generated."
    )
    languages: tuple[str, ...] = option((), "--language", help="Language of the definitions; repeatable. [default: en]")
    descriptions: int = option(3, least=0, help="Maximum descriptions per concept.")
    generated: Path | None = option(None, metavar="G.jsonl", help="JSONL of generated definitions: concept_id, text.")
    prompts: Path | None = option(
        None, metavar="P.jsonl", help="Also write prompts for the concepts without a definition."
    )
    price: str = option(
        "", metavar="IN,OUT", help="Prices per million input and output tokens, to estimate the cost of the prompts."
    )
    seed: int = option(0, help="Seed for the descriptions.")
    strict: bool = option(False, help="Fail at the first bad line of --generated.")
    force: bool = option(False, help="Replace existing files.")


@with_options
def verbalise(spec: VerbaliseSpec) -> None:
    """Write texts that describe concepts: definitions, descriptions, generated definitions."""
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita_lab.verbalisation import definitions, generation, texts

    output, prompts = spec.output, spec.prompts
    if spec.price and prompts is None:
        raise UsageError("--price estimates the prompts: give --prompts too")
    prices = _prices(spec.price) if spec.price else None
    _apart(output=output, prompts=prompts, generated=spec.generated)
    for path in (output, prompts):
        if path is not None:
            artefact.refuse_existing(path, spec.force)
    terminology = load_terminology(spec.terminology)
    held_out = Split.load(spec.split) if spec.split is not None else Split([], [], [])
    report = output.with_name(output.name + ".rejects.csv")
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(report, strict=spec.strict) as rejects:
        brought = generation.read_generated(spec.generated, terminology, rejects) if spec.generated else None
    rejects.tell(progress.say, "line")
    pairs = held_out.triple_pairs(terminology)
    chosen = [kind.strip() for kind in spec.kinds.split(",") if kind.strip()]

    def told_of(kinds: list[str]) -> Texts:
        return texts.verbalise(
            terminology,
            exclude=held_out.cleaned,
            held_out=pairs,
            languages=spec.languages or ["en"],
            kinds=kinds,
            descriptions=spec.descriptions,
            generated=brought,
            seed=spec.seed,
        )

    made = told_of(chosen)
    _write(made, terminology, output)
    counts = [int((made.kinds == place).sum()) for place in range(len(texts.KINDS))]
    shown = ", ".join(f"{count:,} {name}" for name, count in zip(SHOWN, counts, strict=True) if count)
    print(f"{output}: {len(made):,} texts of {len(set(made.concepts.tolist())):,} concepts: {shown}")
    for reason, count in made.counts.items():
        progress.say(f"{reason}: {count:,}")
    if prompts is not None:
        # What has a definition has one whether it was asked for or not.
        defining = [kind for kind in texts.KINDS if kind != DESCRIPTION]
        defined: Texts | None = made
        if not set(defining) <= set(chosen):
            try:
                defined = told_of(defining)
            except InputError:  # there is no text of these kinds
                defined = None
        hidden = definitions.Withheld(held_out.cleaned, pairs, terminology.n_concepts)
        _ask(terminology, defined, hidden, prompts, prices)


def _apart(**paths: Path | None) -> None:
    """Refuse options that name one file: what is written last would replace the others."""
    known: dict[Path, str] = {}
    for flag, path in paths.items():
        if path is not None and (other := known.setdefault(artefact.resolved(path), flag)) != flag:
            raise UsageError(f"--{other} and --{flag} name the same file: {path}")


def _write(found: Texts, terminology: Terminology, output: Path) -> None:
    from alphita_lab.verbalisation.texts import KINDS

    with artefact.atomic_file(output, "w") as file:
        for row, kind, text in zip(found.concepts.tolist(), found.kinds.tolist(), found.strings, strict=True):
            entry = {"concept_id": terminology.concept_id(row), "kind": KINDS[kind], "text": text}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _ask(
    terminology: Terminology, found: Texts | None, withheld: Withheld, path: Path, prices: tuple[float, float] | None
) -> None:
    """Write the prompts of the live concepts that no definition was found of, written or generated; None: of any."""
    import numpy as np

    from alphita_lab.verbalisation import prompts
    from alphita_lab.verbalisation.texts import KINDS

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
