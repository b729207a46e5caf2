"""Translations held out of training: does each find the name that it translates?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.training.terms.aligned_pairs import AlignedPairs, joined

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

HELD_OUT = "held out to score with"
BLOCK = 512


def hold_out(pairs: AlignedPairs, wanted: int, seed: int) -> tuple[AlignedPairs, AlignedPairs]:
    """Hold out the pairs of whole concepts, one concept after the other, until `wanted` pairs are.

    A pair whose concept is not known is of the concept that its source stands for. Pairs of other concepts that share a
    string with those held out do not train either.

    Args:
        pairs: all of them, one or more.
        wanted: how many at least; 0: none.
        seed: of the choice.

    Returns:
        The pairs that train, and those held out.

    Raises:
        InputError: nothing would be left to train on.
    """
    groups = concepts_of(pairs)
    order = np.random.default_rng([seed, 22]).permutation(int(groups.max()) + 1)
    sizes = np.bincount(groups)[order]
    n_held = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1 if wanted else 0
    held = np.flatnonzero(np.isin(groups, order[:n_held]))
    dev = joined([replace(pairs.take(held), counts={})])
    strings = {*dev.sources, *dev.translations}
    shares = np.array([not strings.isdisjoint(row[:2]) for row in pairs.rows()], bool)
    if shares.all():
        raise InputError(
            f"holding out {wanted:,} pairs leaves none of {len(pairs):,} to train on",
            field="dev_pairs",
            value=wanted,
            remedy="set it to a tenth of them or less",
        )
    left = pairs.take(np.flatnonzero(~shares))
    counts = pairs.counts | ({HELD_OUT: int(shares.sum())} if wanted else {})
    return joined([replace(left, counts=counts)]), dev


def concepts_of(pairs: AlignedPairs) -> NDArray[np.int64]:
    """Return a number from 0 for each pair, (n,): one a concept or, where it is not known, a source."""
    number: dict[int | str, int] = {}
    keys = (concept if concept >= 0 else source for source, _, _, concept, _ in pairs.rows())
    return np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64, len(pairs))


def accuracy(pairs: AlignedPairs, encoder: TermEncoder) -> dict[str, float]:
    """Return accuracy@1 from translation to source: of all pairs, "dev_acc1", and of each language, "dev_acc1_it".

    Each translation finds the nearest, by cosine, of the distinct sources of all pairs; one that stands in a pair of
    its concept is right.
    """
    concepts = concepts_of(pairs).tolist()
    place = {source: number for number, source in enumerate(dict.fromkeys(pairs.sources))}
    named = {(place[source], concept) for source, concept in zip(pairs.sources, concepts, strict=True)}
    among, queries = unit(encoder.encode(list(place))), unit(encoder.encode(pairs.translations))
    blocks = [queries[start : start + BLOCK] @ among.T for start in range(0, len(queries), BLOCK)]
    nearest = np.concatenate([block.argmax(1) for block in blocks]).tolist()
    right = np.array([found in named for found in zip(nearest, concepts, strict=True)], bool)
    scores = {"dev_acc1": float(right.mean())}
    for number, tag in enumerate(pairs.languages):
        scores[f"dev_acc1_{tag}"] = float(right[pairs.language == number].mean())
    return scores
