"""InfoNCE between names and texts of concepts (van den Oord et al., arXiv:1807.03748, eq. 4; BioLORD-2023, Remy et al.
2024, "Contrastive phase").

For n pairs of a name i and a text of its concept c_i, with similarity S_ij = cos(name_i, text_j) and temperature tau:

    N_i = {j: c_j != c_i}
    L = -1/n sum_i log[ exp(S_ii / tau) / (exp(S_ii / tau) + sum_{j in N_i} exp(S_ij / tau)
                                           + sum_{h in H_i} exp(cos(name_i, extra_h) / tau)) ]

A text that stands in the batch for the same concept is no negative: it leaves the denominator, and so does another copy
of the concept's own pair. H_i are negatives given beside the batch (texts of siblings, say): none in the paper's model.
The paper sets names against texts only ("maximizing the distance between a concept and the definition of the other
concepts in the batch"); `symmetric` averages this with the loss of texts against names, where H_i plays no part.
"""

from __future__ import annotations

import torch

from alphita_lab.objectives.multi_similarity import unit

INF = float("inf")


def info_nce(
    names: torch.Tensor,
    texts: torch.Tensor,
    concept: torch.Tensor,
    *,
    temperature: float = 0.05,
    symmetric: bool = False,
    extra: torch.Tensor | None = None,
    extra_negative: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Return the loss, the mean over the n pairs, as `{"loss": scalar}`.

    One matrix of n x (n + h) numbers is kept for the backward pass.

    Args:
        names: (n, d) vectors of names, of any length but 0, n 1 or more.
        texts: (n, d) vectors of texts: row i is of the concept of name i.
        concept: (n,) integers, the concept of each pair.
        temperature: tau, above 0. Not stated; 0.05, the default of sentence-transformers'
            MultipleNegativesRankingLoss (there a scale of 20), which the authors' line of models is trained with.
        symmetric: count texts against names as well, half and half.
        extra: (h, d) vectors of further negatives; h may be 0.
        extra_negative: (n, h) bool, whether name i takes negative h. None: each takes all.
    """
    n = len(names)
    left_out = concept[:, None] == concept[None, :]
    left_out.fill_diagonal_(False)
    candidates = texts
    if extra is not None:
        if extra_negative is None:
            extra_negative = torch.ones(n, len(extra), dtype=torch.bool, device=names.device)
        candidates = torch.cat([texts, extra])
        left_out = torch.cat([left_out, ~extra_negative], dim=1)
    with torch.autocast(names.device.type, enabled=False):
        logits = (unit(names) / temperature) @ unit(candidates).T
        logits.masked_fill_(left_out, -INF)
        own = logits.diagonal()
        loss = (torch.logsumexp(logits, 1) - own).mean()
        if symmetric:
            loss = (loss + (torch.logsumexp(logits[:, :n], 0) - own).mean()) / 2
    return {"loss": loss}
