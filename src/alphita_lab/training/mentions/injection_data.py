"""What training with injected entities reads: a corpus' mentions and a graph's vectors, and how they fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita_lab.graph import store
from alphita_lab.graph.store import EntityVectors
from alphita_lab.training.mentions.store import REMEDY, Mentions, check_split

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

NO_ENTITY = -1
"""Gold of a mention that names no entity of the graph, or several; see `objectives.entity_linking`."""


@dataclass(frozen=True)
class LinkedMentions:
    """Sequences whose mentions are linked to a graph's entities.

    Attributes:
        entities: (E, d) float32 vectors of all concepts of the graph.
        gold: (f,) int64 the row in `entities` of what each form of the mentions names, or NO_ENTITY.
        counts: of sequences, of mentions in them, of those without gold by reason; and of concepts.
    """

    mentions: Mentions
    entities: NDArray[np.float32]
    gold: NDArray[np.int64]
    counts: dict[str, int]
    made_of: dict[str, str]

    def lines(self) -> Iterator[str]:
        """Yield what to tell of the data."""
        counts = self.counts
        yield (
            f"sequences: {counts['sequences']:,} with {counts['mentions']:,} mentions; not linked: "
            f"{counts['without_entity']:,} whose concept the graph lacks, {counts['homonyms']:,} of several concepts"
        )
        yield (
            f"entities: {len(self.entities):,} of {self.entities.shape[1]} numbers; the graph has "
            f"{counts['concepts_with_entity']:,} of the {counts['concepts']:,} concepts mentioned"
        )


def read(
    mentions: str, graph: str, terminology: Terminology, tokenizer_hash: str, *, split: Split | None = None
) -> LinkedMentions:
    """Open both artefacts and link the one's forms to the other's entities."""
    if not mentions:
        raise UsageError(f"mentions: no mentions are given; {REMEDY} --sequence-tokens 128; then --set mentions=X")
    if not graph:
        raise UsageError(f"graph: no vectors of a graph are given; {store.REMEDY}; then --set graph=X.vectors")
    opened = Mentions.load(mentions, tokenizer_hash=tokenizer_hash)
    _check_mentions(opened, terminology, split)
    vectors = EntityVectors.load(graph)
    if split is not None and split.triples and vectors.facts.get("split_hash") != split.hash:
        raise InputError(
            "the graph was trained without this split, which holds triples out",
            file=vectors.path,
            remedy="train it with the same --split",
        )
    of_concept, _ = vectors.rows_of_terminology(terminology)
    rows = opened.rows_in(terminology)
    entity = np.where(rows >= 0, of_concept[rows], NO_ENTITY)
    if not (entity >= 0).any():
        raise InputError(
            f"none of the {len(entity):,} concepts mentioned in {opened.path} has a vector",
            file=vectors.path,
            value=opened.concept_ids[0],
            remedy="train the graph on the terminology that the mentions are of",
        )
    several = np.diff(opened.form_offsets) > 1
    gold = np.where(several, NO_ENTITY, entity[opened.form_concept]).astype(np.int64)
    met = np.bincount(opened.sequences.mentions[:, 2], minlength=len(gold))
    counts = {
        "sequences": len(opened.sequences),
        "mentions": int(met.sum()),
        "homonyms": int(met[several].sum()),
        "without_entity": int(met[~several & (gold < 0)].sum()),
        "concepts": len(entity),
        "concepts_with_entity": int((entity >= 0).sum()),
        "entities": len(vectors),
    }
    if counts["mentions"] == counts["homonyms"] + counts["without_entity"]:
        raise InputError(
            "no mention of its sequences names one concept that the graph has",
            file=opened.path,
            remedy="give a larger corpus, or a graph of more concepts",
        )
    made_of = {"mentions": opened.content_hash, "graph": artefact.open_manifest(graph, store.KIND)["content_hash"]}
    return LinkedMentions(opened, vectors.vectors, gold, counts, made_of)


def _check_mentions(found: Mentions, terminology: Terminology, split: Split | None) -> None:
    if found.manifest["terminology"] != terminology.content_hash:
        raise InputError(
            "was made with another terminology", file=found.path, remedy="make it again with the terminology given here"
        )
    check_split(found, split)
    if not len(found.sequences):
        raise InputError("has no sequences, only windows", file=found.path, remedy=f"{REMEDY} --sequence-tokens 128")
