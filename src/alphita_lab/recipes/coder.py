"""CODER: knowledge-infused cross-lingual medical term embedding (Yuan et al. 2022).

A batch of triples (h, r, t) is drawn from a terminology's knowledge graph, each several times under different names.
Terms of one concept are drawn together and others pushed apart (MS loss on term pairs); and a head seen through its
relation's matrix M_r is drawn to its tail (MS loss on term-relation-term pairs). Vectors then rank concepts by cosine.

Deviations from the paper:
- `dropout_masks=shared` encodes a name that stands several times in a batch once: faster, but its copies are alike.
- All kinds of M_r start at the identity, so that S_rel starts as S; the paper does not state the start. Its full
  matrices take 16 d^2 bytes a relation, of which UMLS has some 1,000; `diagonal` takes almost none, and where it was
  measured found 58.1% of held-out synonyms for 58.9% and told 74.2% of relations for 78.7% (docs/results/ablations.md).
- `relation_similarity=transe` is the TransE-like similarity of the ablation (§5.1), with constants of its own. Its
  lambda of 28 is of 768 numbers a vector; with fewer, distances are smaller, and lam_rel=-(their mean) is its like.
- `inverse_relations` adds each triple turned round, under a relation of its own. UMLS lists both directions already;
  most other terminologies list one.
- `least_head_names` above 1 draws only triples whose head has that many names, so that every anchor has a positive.
- Names are cleaned before encoding: as the released code does (`name_rule`), then by the rules that normalization has
  too (lower case, spaces). The model's manifest lists them.
- `start_share` averages some of the starting weights into the final ones (Wortsman et al. 2022), against forgetting.
- AdamW's weight decay and the clipping of gradients are not stated; the values here are the common ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from pydantic import Field, model_validator

from alphita_lab.training.engine.settings import CoderNames
from alphita_lab.training.terms.samplers import relation_labels

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch, BatchLoss

CITATION = (
    "Z. Yuan, Z. Zhao, H. Sun, J. Li, F. Wang, S. Yu. CODER: Knowledge-infused cross-lingual medical term embedding "
    "for term normalization. Journal of Biomedical Informatics 126:103983, 2022."
)
# The constants of the TransE-like similarity (appendix A.5). lambda is printed as 28; the similarity is minus a
# distance of about 28, and with +28 every negative pair would count exp(-280), so the printed sign is read as a slip.
TRANSE = {"alpha_rel": 0.2, "beta_rel": 5.0, "lam_rel": -28.0, "eps_rel": 0.1, "mu": 0.1}


class Config(CoderNames):
    """CODER's settings; the defaults are the paper's for English."""

    # Data
    k: int = Field(128, ge=2, description="triples per batch, including repeats (§4.2)")
    m: int = Field(8, ge=1, description="occurrences of each distinct triple in a batch (§4.2); divides k")
    least_head_names: int = Field(
        1, ge=1, description="draw only triples whose head has at least this many names (ours; §3.3: all)"
    )
    inverse_relations: bool = Field(
        True, description="add the inverse of each triple (not in the paper: UMLS has both)"
    )
    max_length: int = Field(32, ge=3, description="tokens per term, including special ones (§4.2)")
    pooling: Literal["cls", "mean"] = Field("cls", description="vector: [CLS] or the mean of the tokens (§3.2)")
    # Objective
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (§4.2)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (§4.2)")
    lam: float = Field(0.5, description="MS loss: lambda, the similarity threshold (§4.2)")
    eps: float = Field(0.1, description="MS loss: margin of the mining (§4.2)")
    mining: bool = Field(True, description="MS loss: only hard pairs count (§3.3)")
    mu: float = Field(1.0, ge=0, description="weight of the term-relation-term loss; 0 leaves it out (§4.2)")
    relation_similarity: Literal["cosine", "transe"] = Field(
        "cosine", description="S_rel: the cosine with M_r (§3.3), or minus the distance between e_i + r and e_j (§5.1)"
    )
    alpha_rel: float = Field(2.0, gt=0, description="alpha of the term-relation-term loss (§4.2; transe: 0.2, A.5)")
    beta_rel: float = Field(50.0, gt=0, description="beta of the term-relation-term loss (§4.2; transe: 5, A.5)")
    lam_rel: float = Field(0.5, description="lambda of the term-relation-term loss (§4.2; transe: -28, A.5)")
    eps_rel: float = Field(0.1, description="margin of the term-relation-term mining (§4.2; transe: 0.1, A.5)")
    relation_matrix: Literal["full", "diagonal", "low_rank"] = Field("full", description="M_r (§3.3: full)")
    rank: int = Field(16, ge=1, description="rank of U V^T in M_r = I + U V^T (low_rank only; ours)")
    # Optimisation
    steps: int = Field(100_000, ge=1, description="optimiser steps (§4.2: 100K English, 1M all languages)")
    accumulation: int = Field(8, ge=1, description="batches per step (§4.2)")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate (§4.2)")
    warmup_steps: int = Field(10_000, ge=0, description="steps of linear warm-up (§4.2)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up: linear or cosine to 0, or constant (§4.2: linear)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (not stated)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated)")

    @model_validator(mode="before")
    @classmethod
    def _constants_of_the_similarity(cls, given: Any) -> Any:  # noqa: ANN401 - pydantic's
        if isinstance(given, dict) and given.get("relation_similarity") == "transe":
            return TRANSE | given
        return given

    @model_validator(mode="after")
    def _repeats_fit(self) -> Config:
        if self.k % self.m or self.k // self.m < 2:
            raise ValueError(f"m={self.m} must divide k={self.k} and leave two distinct triples")
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder as CODER and save it to `out`."""
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import Batch, TermSteps, to_encode
    from alphita_lab.training.terms.names import begin
    from alphita_lab.training.terms.samplers import TripleSampler, usable_triples

    run = Run("coder", Phase("", out, **mode), config, encoder)
    names, held_out = begin(run, terminology, split)

    # Data: the triples between named concepts, and batches of them, each end under some of its names.
    labels = relation_labels(terminology.relation_labels, inverse=config.inverse_relations)
    triples = usable_triples(
        terminology.triples,
        names.offsets,
        len(terminology.relation_labels),
        inverse=config.inverse_relations,
        least_head_names=config.least_head_names,
        held_out=held_out,
    )
    sampler = TripleSampler(triples, names.offsets, k=config.k, m=config.m, seed=config.seed, weights=names.weights)
    run.say(f"training on {len(names.strings):,} names and {len(triples):,} triples of {len(labels)} relations")

    def draw(number: int) -> Batch:
        drawn = sampler.batch(number)
        terms, place = to_encode(np.concatenate([drawn.head_term, drawn.tail_term]), once=not config.copies_differ)
        arrays = {
            "place": place,
            "concept": np.concatenate([drawn.head, drawn.tail]),
            "relation": drawn.relation,
            "tail": drawn.tail,
        }
        return Batch(terms, arrays, rows=2 * config.k)

    # Loop, and the model: a folder that SentenceTransformer opens; M_r and the log lie beside.
    relations, loss = objective(config, len(labels), run.encoder.dim)
    return run.fit(
        TermSteps.of(run, names.strings, draw, loss),
        names.describe(),
        modules={"relations": relations} if config.mu > 0 else {},
        evaluate=names.dev,
        fields={"relation_labels": labels},
    )


def objective(config: Config, relations: int, dim: int) -> tuple[torch.nn.Module, BatchLoss]:
    """Return what holds the relations, M_r or r of each, and the loss of a batch, L = L_MS + mu L_MS_rel."""
    from alphita_lab.objectives.multi_similarity import Constants, term_term
    from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
    from alphita_lab.objectives.transe import RelationVectors, transe_similarity

    held: torch.nn.Module
    relation_loss_of: Any
    if config.relation_similarity == "cosine":
        held = RelationMatrices(relations, dim, kind=config.relation_matrix, rank=config.rank)
        relation_loss_of = term_relation_term
    else:
        held, relation_loss_of = RelationVectors(relations, dim), transe_similarity

    constants = Constants(alpha=config.alpha, beta=config.beta, lam=config.lam, eps=config.eps, mining=config.mining)
    of_relations = Constants(
        alpha=config.alpha_rel, beta=config.beta_rel, lam=config.lam_rel, eps=config.eps_rel, mining=config.mining
    )

    def loss(distinct: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return L = L_MS(S) + mu L_MS_rel(S_rel): S_ij = cos(e_i, e_j), S_rel_ij = cos(M_r_i^T e_i, e_j)."""
        e = distinct[given["place"]]
        term_loss = term_term(e, given["concept"], **constants)
        if config.mu == 0:
            return {"loss": term_loss, "term_loss": term_loss}
        relation_loss = relation_loss_of(
            e[: config.k], given["relation"], e[config.k :], given["tail"], held, **of_relations
        )
        total = term_loss + config.mu * relation_loss
        return {"loss": total, "term_loss": term_loss, "relation_loss": relation_loss}

    return held, loss
