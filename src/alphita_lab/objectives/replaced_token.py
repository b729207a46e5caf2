"""Replaced token detection (ELECTRA: Clark et al., ICLR 2020, §2; equation 1 of the Chinese product system).

    L = 1/m sum_{masked i} -log p_G(x_i)  +  lambda 1/n sum_{t} -[ r_t log D_t + (1 - r_t) log(1 - D_t) ]

m tokens of a batch are masked and guessed by the generator, whose softmax is p_G; x_i is the token that stood there.
For each of them a token is drawn from p_G and put in its place. D_t is the sigmoid of the discriminator's logit for
token t of the n tokens of the batch, and r_t is 1 where another token stands there than in the text: a drawn token that
happens to be the true one counts as original. No gradient goes through the drawing, nor from the discriminator into the
generator. The n tokens are all but padding, special ones included, as in ELECTRA's released code; these are never
masked, so that they are original always. The product system prints equation 1 without a minus and without the sum over
tokens; both are meant.

Each mean is a sum divided by a number, which may be given: so that the parts of a batch add up to the whole.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from alphita_lab.objectives.entity_linking import NOT_MASKED
from alphita_lab.objectives.multi_similarity import exact

WEIGHT = 50.0
"""lambda; ELECTRA's table of hyperparameters, and the product system's."""


def guessing(logits: torch.Tensor, true: torch.Tensor, *, masked: int | None = None) -> torch.Tensor:
    """Return the generator's loss: the cross-entropy, a mean over the masked tokens; 0 where there is none.

    Args:
        logits: (p, v) of each masked token over the vocabulary.
        true: (p,) int64, the token that stood there, or NOT_MASKED: such a row does not count.
        masked: m, tokens to divide by; None: those that count here.
    """
    with torch.autocast(logits.device.type, enabled=False):
        total = functional.cross_entropy(exact(logits), true, reduction="sum", ignore_index=NOT_MASKED)
        if masked is None:
            return total / (true != NOT_MASKED).sum().clamp(min=1)
        return total / max(1, masked)


def drawn(logits: torch.Tensor, lots: torch.Tensor) -> torch.Tensor:
    """Return a token for each row, drawn from softmax(logits), (p,) int64, without a gradient.

    The token is the first of the vocabulary whose cumulative probability is not below the row's lot: rows with
    independent uniform lots are draws from the softmax, and what is drawn follows from logits and lots alone.

    Args:
        logits: (p, v).
        lots: (p,) float, uniform in (0, 1].
    """
    with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
        above = torch.softmax(exact(logits.detach()), 1).cumsum_(1)
        tokens: torch.Tensor = torch.searchsorted(above, lots[:, None].to(above.dtype) * above[:, -1:]).squeeze(1)
        return tokens


def detection(logits: torch.Tensor, replaced: torch.Tensor, *, tokens: int | None = None) -> torch.Tensor:
    """Return the discriminator's loss: the binary cross-entropy, a mean over all tokens; 0 where there is none.

    Args:
        logits: (n,) of each token, padding left out: above 0 where it looks replaced.
        replaced: (n,) bool, whether it is.
        tokens: what to divide by; None: n.
    """
    with torch.autocast(logits.device.type, enabled=False):
        own = exact(logits)
        total = functional.binary_cross_entropy_with_logits(own, replaced.to(own.dtype), reduction="sum")
        return total / max(1, len(logits) if tokens is None else tokens)


def area_under_curve(logits: torch.Tensor, replaced: torch.Tensor) -> float:
    """Return the chance that a replaced token has a higher logit than an original one; a tie counts half.

    It is the area under the ROC curve (Hanley and McNeil, Radiology 1982), computed from ranks.

    Args:
        logits: (n,) of each token.
        replaced: (n,) bool.

    Returns:
        From 0 to 1; 0.5 where all tokens are replaced, or none is.
    """
    positive = int(replaced.sum())
    negative = len(replaced) - positive
    if not positive or not negative:
        return 0.5
    _, place, counts = torch.unique(logits.double(), return_inverse=True, return_counts=True)
    # The mean rank, from 1, of the tokens of one logit.
    rank = counts.cumsum(0).double() - (counts.double() - 1) / 2
    below = rank[place][replaced].sum() - positive * (positive + 1) / 2
    return float(below / (positive * negative))
