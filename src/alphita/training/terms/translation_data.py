"""What cross-lingual distillation trains on: pairs of all kinds together, names without translation, and dev pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alphita import artefact
from alphita.errors import InputError, Rejects
from alphita.terminology.language_ranges import among
from alphita.training.terms.aligned_pairs import AlignedPairs, joined
from alphita.training.terms.pair_files import read
from alphita.training.terms.terminology_pairs import of_editions, source_names
from alphita.training.terms.translation_dev import hold_out

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

# What `concept_splits` calls its splits.
WHOLE_CONCEPTS = "hold_out_concepts"


@dataclass(frozen=True)
class Translations:
    """The data of one run.

    Attributes:
        pairs: those that train; their `counts` say what was left out, and why.
        names: the source-language names that are a source of none of them: they train without translation.
        dev: pairs to score with.
        made_of: file or folder -> content hash of what pairs come from beside the terminology.
        lacking: terminologies that gave no pair, and why.
    """

    pairs: AlignedPairs
    names: list[str]
    dev: AlignedPairs
    made_of: dict[str, str]
    lacking: list[str]

    def lines(self) -> list[str]:
        """Return what to tell of it."""
        told = [f"pairs: {len(self.pairs):,} ({_listed(self.pairs.by_language())})"]
        if self.pairs.counts:
            told.append(f"pairs left out: {_listed(self.pairs.counts)}")
        told.append(f"names without translation: {len(self.names):,}")
        if len(self.dev):
            told.append(f"dev pairs: {len(self.dev):,} ({_listed(self.dev.by_language())})")
        return [*told, *self.lacking]

    def counts(self) -> dict[str, Any]:
        """Return how much it is, for the manifest."""
        return {
            "pairs": self.pairs.by_language(),
            "pairs_left_out": self.pairs.counts,
            "names": len(self.names),
            "dev_pairs": self.dev.by_language(),
        }


@dataclass(frozen=True)
class Wanted:
    """Which pairs are wanted.

    Attributes:
        source: BCP-47 tag of the source language.
        languages: take these languages only; all by default.
        pairing: see `terminology_pairs`.
        machine: also take a terminology's machine translations.
        editions: terminology folders; their translations are paired with the names of the terminology.
        files: see `pair_files`.
        dev: pairs to hold out at least; see `translation_dev.hold_out`.
        seed: of their choice.
    """

    source: str
    languages: Sequence[str] = ()
    pairing: str = "labels"
    machine: bool = False
    editions: Sequence[str] = ()
    files: Sequence[str] = ()
    dev: int = 0
    seed: int = 0


def gather(
    terminology: Terminology, wanted: Wanted, *, split: Split | None = None, rejects: Rejects | None = None
) -> Translations:
    """Gather the pairs of a terminology, of editions that share its ids and of files, and hold some out to score with.

    No string that a split holds out stands in a pair, in whatever language. Of a split that holds out whole concepts
    neither does any name that an edition or a file gives to them.

    Args:
        terminology: whose names in the source language train; it need not have translations if others have.
        wanted: which pairs.
        split: what must not train.
        rejects: takes the files' bad rows.

    Raises:
        InputError: no pair is left, or none in one of the languages; a file or an edition cannot be read.
        UsageError: an unknown language or pairing.
    """
    exclude, concepts = frozenset[str](), frozenset[str]()
    if split is not None:
        exclude = split.cleaned
        if split.facts.get("method") == WHOLE_CONCEPTS:
            concepts = frozenset(split.concept_ids)
    pairs, made_of, lacking = _pairs(terminology, wanted, exclude, concepts, rejects or Rejects())
    if not len(pairs):
        left_out = f"; left out: {_listed(pairs.counts)}" if pairs.counts else ""
        raise InputError(
            "no pair of a name and its translation to train on" + left_out,
            file=terminology.path,
            remedy="; ".join([*lacking, "set pairs=FILE or editions=FOLDER, or take a terminology with translations"]),
        )
    for tag in wanted.languages:
        if not among(pairs.languages, [tag]):
            raise InputError(
                "no translation is in this language",
                field="languages",
                value=tag,
                remedy=f"choose from {', '.join(pairs.languages)}",
            )
    pairs, held_out = hold_out(pairs, wanted.dev, wanted.seed)
    names = source_names(
        terminology,
        source=wanted.source,
        exclude=exclude.union(held_out.sources),
        exclude_concepts=concepts,
        beside=pairs,
    )
    return Translations(pairs, names, held_out, made_of, lacking)


def _pairs(
    terminology: Terminology, wanted: Wanted, exclude: frozenset[str], concepts: frozenset[str], rejects: Rejects
) -> tuple[AlignedPairs, dict[str, str], list[str]]:
    """Return all pairs without what is excluded, and `made_of` and `lacking` of `Translations`."""
    from alphita.terminology.store import load_terminology

    opened = [load_terminology(folder) for folder in wanted.editions]
    made_of = {folder: edition.content_hash for folder, edition in zip(wanted.editions, opened, strict=True)}
    parts, lacking = [], []
    for edition in (terminology, *opened):
        try:
            pairs = of_editions(
                terminology,
                edition,
                source=wanted.source,
                languages=wanted.languages or None,
                pairing=wanted.pairing,
                machine=wanted.machine,
                exclude=exclude,
                exclude_concepts=concepts,
            )
            parts.append(pairs)
        except InputError as error:
            # No matter, if others have translations.
            lacking.append(str(error))
    for file in wanted.files:
        pairs = read(
            file, rejects, source=wanted.source, terminology=terminology, exclude=exclude, exclude_concepts=concepts
        )
        made_of[file] = artefact.hash_file(file)
        parts.append(_in_languages(pairs, wanted.languages) if wanted.languages else pairs)
    return joined(parts), made_of, lacking


def _in_languages(pairs: AlignedPairs, languages: Sequence[str]) -> AlignedPairs:
    wanted = np.isin(pairs.languages, among(pairs.languages, languages))
    return joined([pairs.take(np.flatnonzero(wanted[pairs.language]))])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
