"""Term-relation-term similarity and its MS loss (CODER, Yuan et al. 2022, §3.3).

    S_rel_ij = cos(M_r_i^T e_i, e_j),   1 <= i <= k heads, k + 1 <= j <= 2k tails
    tau_rel_ij = 1 if (h_i, r_i, t_{j-k}) is in the graph; in a batch: if t_i = t_{j-k}
    L_MS_rel = the MS loss of S_rel and tau_rel, averaged over the k heads

The paper's M_r is a full matrix. For some 900 relations at 768 dimensions that is 531 M numbers, and AdamW keeps four
arrays of them (weights, slopes, two moments: 8.5 GB), so lighter forms are offered. All start at the identity, which
the paper does not state, so that S_rel starts as S.
"""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from torch.nn import functional

from alphita_lab.objectives.multi_similarity import Constants, exact, multi_similarity, unit

Kind = Literal["full", "diagonal", "low_rank"]


class RelationMatrices(torch.nn.Module):
    """M_r of every relation.

    `full`: R d^2 numbers. `diagonal` (DistMult proper): R d. `low_rank`, I + U V^T: 2 R d rank.
    """

    def __init__(self, relations: int, dim: int, *, kind: Kind = "diagonal", rank: int = 16) -> None:
        """Start at the identity.

        Args:
            relations: number of relation labels, R, 1 or more.
            dim: length of a term vector, d.
            kind: form of the matrices.
            rank: columns of U and V; for low_rank only.
        """
        super().__init__()
        self.relations, self.dim, self.kind = relations, dim, kind
        if kind == "full":
            self.matrix = torch.nn.Parameter(torch.eye(dim).repeat(relations, 1, 1))
        elif kind == "diagonal":
            self.diagonal = torch.nn.Parameter(torch.ones(relations, dim))
        else:
            # V starts at 0, so M_r starts at I; U does not, or no gradient would ever reach either.
            self.u = torch.nn.Parameter(torch.randn(relations, dim, rank) * dim**-0.5)
            self.v = torch.nn.Parameter(torch.zeros(relations, dim, rank))

    def forward(self, e: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
        """Return M_r^T e for each row.

        Args:
            e: (k, d) vectors.
            relation: (k,) relation labels, 0 to R - 1.

        Returns:
            (k, d).
        """
        if self.kind == "diagonal":
            return e * functional.embedding(relation, self.diagonal)
        # One product a relation, not one matrix a row: a batch has few relations. The rows go through sorted by
        # relation, and each parameter is indexed once, or every relation would cost a gradient of the size of all.
        order = torch.argsort(relation, stable=True)
        labels, counts = torch.unique_consecutive(relation[order], return_counts=True)
        groups = e[order].split(counts.tolist())
        if self.kind == "full":
            turned = [rows @ m for rows, m in zip(groups, self.matrix[labels], strict=True)]
        else:
            pairs = zip(groups, self.u[labels], self.v[labels], strict=True)
            turned = [rows + (rows @ u) @ v.T for rows, u, v in pairs]
        return torch.cat(turned)[torch.argsort(order)]


def term_relation_term(
    head: torch.Tensor,
    relation: torch.Tensor,
    tail: torch.Tensor,
    tail_concept: torch.Tensor,
    matrices: RelationMatrices,
    **constants: Unpack[Constants],
) -> torch.Tensor:
    """Return L_MS_rel of k triples; row i of heads and tails is triple i.

    Args:
        head: (k, d) vectors of the head terms, of any length but 0.
        relation: (k,) integers, relation labels.
        tail: (k, d) vectors of the tail terms.
        tail_concept: (k,) integers, the concept of each tail.
        matrices: M_r.
        constants: alpha, beta, lam, eps and mining of `multi_similarity`; the paper gives them apart from the terms'.

    Returns:
        A scalar, the mean over the heads.
    """
    with torch.autocast(head.device.type, enabled=False):
        turned = unit(matrices(exact(head), relation))
        positive = tail_concept[:, None] == tail_concept[None, :]
        return multi_similarity(turned @ unit(tail).T, positive, ~positive, **constants)
