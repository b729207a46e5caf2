"""Dev scores of models of sentences and concepts: how well people's scores are met, and definitions find their names.

The definitions are held out of training; the names are not. Every choice between models is made on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.training.text.definition_pairs import subset

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.sentences.scored_pairs import ScoredPairs
    from alphita_lab.training.terms.names import TrainingNames
    from alphita_lab.verbalisation.texts import Texts

# Of the concepts with a definition, one in so many is held out at most.
MIN_SHARE = 10
BLOCK = 512
# Equal strings' similarities may differ by so much.
ROUNDING = np.float32(1e-6)


@dataclass(frozen=True)
class DevDefinitions:
    """Definitions, and the names among which each must find one of its concept.

    Attributes:
        concepts: (q,) the concept of each.
        name_concepts: (m,) the concept of each.
    """

    texts: list[str]
    concepts: NDArray[np.int64]
    names: list[str]
    name_concepts: NDArray[np.int64]

    def accuracy(self, encoder: TermEncoder) -> float:
        """Return the share of definitions whose nearest name, by cosine, is of their concept: accuracy@1."""
        names, queries = _unit(encoder.encode(self.names)), _unit(encoder.encode(self.texts))
        # A string may name several concepts: it stands once for each, and any of them will do.
        right = 0
        for start in range(0, len(queries), BLOCK):
            similarity = queries[start : start + BLOCK] @ names.T
            best = similarity.max(1, keepdims=True)
            own = self.concepts[start : start + BLOCK, None] == self.name_concepts[None, :]
            right += int(((similarity >= best - ROUNDING) & own).any(1).sum())
        return right / len(self.texts)


def hold_out(
    texts: Texts, kinds: Sequence[int], names: TrainingNames, *, wanted: int, most_names: int, seed: int
) -> tuple[Texts, DevDefinitions | None]:
    """Take the definitions of some concepts out of the texts."""
    defines = np.isin(texts.kinds, np.array(kinds, np.uint8))
    defined = np.unique(texts.concepts[defines])
    count = min(wanted, len(defined) // MIN_SHARE)
    if count == 0:
        return texts, None
    rng = np.random.default_rng([seed, 14])
    chosen = np.sort(rng.choice(defined, count, replace=False))
    taken = defines & np.isin(texts.concepts, chosen)
    places = np.flatnonzero(taken)
    first = places[np.unique(texts.concepts[places], return_index=True)[1]]
    rest = subset(texts, ~taken)
    owners = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
    own = np.isin(owners, chosen)
    others = rng.permutation(np.flatnonzero(~own))[: max(0, most_names - int(own.sum()))]
    searched = np.sort(np.concatenate([np.flatnonzero(own), others]))
    return rest, DevDefinitions(
        [texts.strings[i] for i in first.tolist()],
        texts.concepts[first].astype(np.int64),
        [names.strings[i] for i in searched.tolist()],
        owners[searched].astype(np.int64),
    )


def correlation(encoder: TermEncoder, pairs: ScoredPairs) -> float:
    """Return Pearson's correlation of the cosines of scored pairs with their scores, -1 to 1."""
    if np.ptp(pairs.scores) == 0:
        raise InputError("all dev scores are equal, so nothing correlates with them", field="score")
    left, right = (_unit(encoder.encode(side)) for side in (pairs.left, pairs.right))
    similarity = (left * right).sum(1)
    if np.ptp(similarity) == 0:
        return 0.0
    return float(np.corrcoef(similarity.astype(np.float64), pairs.scores.astype(np.float64))[0, 1])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
