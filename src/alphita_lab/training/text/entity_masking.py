"""Masked tokens for a masked language model that does not tear entities apart.

Two ways, each on its own sequence of tokens, with spans that lie apart (mentions, or words and mentions):

    by token  15% of the tokens are drawn, and an entity that holds one of them is masked whole (the Italian system,
              after KnowBERT, Peters et al., EMNLP 2019): more than 15% are masked in the end.
    by span   spans, and tokens outside any, are drawn, each with the chance of 15% (the Chinese product system, which
              trains ELECTRA so): a span always whole, 15% of the tokens on average.

All tokens of a sequence are as likely to be drawn, wherever they stand, and by span in spans of whatever length. Then,
as in BERT (Devlin et al., NAACL 2019, appendix A.1), 80% become [MASK], 10% a token drawn at random and 10% stay; all
have to be guessed. An entity has one lot: all its tokens become [MASK], or all random, or all stay, for one that shows
would give the others away.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOT_MASKED = -100
"""Label of a token that is not to be guessed, as torch's cross-entropy has it."""

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Masking:
    """How tokens are masked.

    Attributes:
        special_ids: tokens that are never masked, nor put in for others: [CLS], [SEP], [PAD], tags.
        vocabulary: number of token ids, from which random tokens are drawn.
        share: of the tokens to be drawn, above 0 up to 1.
        masked: share of what is drawn that becomes [MASK].
        random: share that becomes a random token; the rest stays.
    """

    mask_id: int
    special_ids: tuple[int, ...]
    vocabulary: int
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        """Check the shares."""
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1 + 1e-9:
            raise ValueError(
                f"masked and random must be 0 or more and 1 at most together: {self.masked}, {self.random}"
            )
        if self.random > 0 and not len(self.ordinary):
            raise ValueError("the vocabulary holds special tokens only; there is none to put in at random")

    @functools.cached_property
    def ordinary(self) -> Int64:
        """The ids that may stand in for others: all but the special ones and [MASK]."""
        return np.setdiff1d(np.arange(self.vocabulary), [*self.special_ids, self.mask_id])


def mask_by_token(ids: Int64, spans: Int64, masking: Masking, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Draw 15% of the tokens of each sequence and mask whole the entities that hold one.

    Args:
        ids: (n, length) token ids.
        spans: (m, 3) rows [sequence, start, end), the entities.

    Returns:
        (n, length) ids to be shown, and (n, length) labels: the true id where it has to be guessed, else NOT_MASKED.
    """
    shown, labels = ids.copy(), np.full_like(ids, NOT_MASKED)
    for row, owner in enumerate(_owners(ids, spans, masking)):
        places = np.flatnonzero(owner >= 0)
        if len(places):
            number = max(1, round(masking.share * len(places)))
            drawn = np.unique(owner[random.choice(places, number, replace=False)])
            _mask(row, owner, drawn, shown, labels, masking, random)
    return shown, labels


def mask_by_span(ids: Int64, spans: Int64, masking: Masking, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Draw 15% of the spans, and of the tokens outside any, of each sequence; all are as likely.

    Args:
        spans: (m, 3) rows [sequence, start, end), the words and entities.
    """
    shown, labels = ids.copy(), np.full_like(ids, NOT_MASKED)
    for row, owner in enumerate(_owners(ids, spans, masking)):
        units = np.unique(owner[owner >= 0])
        if len(units):
            # To go by tokens, until 15% are masked, would leave out the long spans that do not fit in.
            number = max(1, int(masking.share * len(units) + random.random()))
            _mask(row, owner, np.sort(random.choice(units, number, replace=False)), shown, labels, masking, random)
    return shown, labels


def _owners(ids: Int64, spans: Int64, masking: Masking) -> Int64:
    """Return (n, length): the number of the unit that each token belongs to, -1 for special tokens."""
    if ids.ndim != 2 or spans.ndim != 2 or spans.shape[1] != 3:
        raise ValueError(f"ids must be (n, length) and spans (m, 3), not {ids.shape} and {spans.shape}")
    n, length = ids.shape
    row, start, end = spans[:, 0], spans[:, 1], spans[:, 2]
    outside = (row < 0) | (row >= n) | (start < 0) | (start >= end) | (end > length)
    if outside.any():
        number = int(outside.argmax())
        span = spans[number].tolist()
        raise ValueError(f"span {number}, {span}, does not lie in {n} sequences of {length} tokens")
    sizes = end - start
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.repeat(row * length + start, sizes) + within
    if len(np.unique(places)) < len(places):
        taken = np.sort(places)
        number = int(np.repeat(np.arange(len(spans)), sizes)[places == taken[:-1][taken[1:] == taken[:-1]][0]][1])
        raise ValueError(f"span {number}, {spans[number].tolist()}, lies over another")
    owner = len(spans) + np.arange(n * length)
    owner[places] = np.repeat(np.arange(len(spans)), sizes)
    owner = owner.reshape(n, length)
    owner[np.isin(ids, masking.special_ids)] = -1
    return owner


def _mask(
    row: int, owner: Int64, drawn: Int64, shown: Int64, labels: Int64, masking: Masking, random: np.random.Generator
) -> None:
    """Mask the units `drawn`, (k,) sorted, of sequence `row`, whose units `owner` (length,) names, in place."""
    places = np.flatnonzero(np.isin(owner, drawn))
    labels[row, places] = shown[row, places]
    lots = random.random(len(drawn))[np.searchsorted(drawn, owner[places])]
    shown[row, places[lots < masking.masked]] = masking.mask_id
    others = places[(lots >= masking.masked) & (lots < masking.masked + masking.random)]
    if len(others):
        shown[row, others] = random.choice(masking.ordinary, len(others))
