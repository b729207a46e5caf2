"""Small ontologies with definitions and a hierarchy, written as OBO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alphita.terminology.store import Terminology
from tests.tables import loaded
from tests.tiny import FINDINGS, SITES

# What a site does and how a finding shows: words that no name has.
WORK = ("moves blood", "cleans food", "makes water", "covers all", "thinks", "takes air", "holds up", "sees")
SIGNS = ("a bad feeling", "too much water", "a loss of red fluid")


@dataclass(frozen=True)
class Stanza:
    """A concept: number, names, definition ("" for none), numbers of its parents."""

    number: int
    names: Sequence[str]
    definition: str = ""
    parents: Sequence[int] = ()


def ontology(folder: Path, stanzas: Sequence[Stanza], semantic_type: str = "") -> Terminology:
    """Write and open an ontology; concept number n is T:000000n."""
    from alphita.terminology.loaders import obo

    lines = ["format-version: 1.2", "ontology: tiny", ""]
    for one in stanzas:
        lines += ["[Term]", f"id: T:{one.number:07d}", f"name: {one.names[0]}"]
        lines += [f'def: "{one.definition}" [TEST:1]'] if one.definition else []
        lines += [f'synonym: "{name}" EXACT []' for name in one.names[1:]]
        lines += [*(f"is_a: T:{parent:07d}" for parent in one.parents), ""]
    source = folder.with_suffix(".obo")
    source.write_text("\n".join(lines), encoding="utf-8")
    return loaded(obo, [source], folder, semantic_type=semantic_type)


def disorders() -> list[Stanza]:
    """Return 32 concepts: 8 disorders of two names, and below each 3 findings of three names each."""
    stanzas = []
    for place, site in enumerate(SITES):
        parent = 4 * place + 1
        stanzas.append(Stanza(parent, [f"disorder of the {site}", f"{site} disorder"], f"Harm of what {WORK[place]}."))
        for number, (plain, learned) in enumerate(FINDINGS):
            names = [f"{plain} of the {site}", f"{site} {plain}", f"{site} {learned}"]
            definition = f"There is {SIGNS[number]} in what {WORK[place]}."
            stanzas.append(Stanza(parent + 1 + number, names, definition, [parent]))
    return stanzas


def defined(folder: Path, *, definitions: bool = True, relations: bool = True) -> Terminology:
    """Write and open an ontology of the concepts of `disorders`."""
    return ontology(
        folder,
        [
            Stanza(one.number, one.names, one.definition if definitions else "", one.parents if relations else ())
            for one in disorders()
        ],
    )
