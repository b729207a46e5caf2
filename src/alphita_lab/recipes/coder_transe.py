"""CODER, first version: MS loss on synonyms and TransE on relations (Yuan, Zhao and Yu 2020, arXiv:2011.02947v1).

Triples (h, r, t) are drawn from a terminology's knowledge graph, both ends under several of their names, and each with
a corrupted tail t'. Terms of one concept are drawn together and others pushed apart (MS loss); h + r comes nearer to t
than to t' (TransE). A head that tells semantic types from the vectors may be added (§5).

Deviations from the paper:
- P_i and N_i are printed swapped; N_i are pairs of different concepts here, as in Yuan et al. 2022.
- The released code's batches are followed where the text is silent: min(names of h, names of t, 8) names of both ends
  side by side, and as many corrupted tails, which count in the MS loss too. Unlike there, a corrupted tail may be any
  concept, not one of a fixed window of a shuffled list; and triples are drawn with replacement, not in shuffled epochs.
- Padding is not attended, and the vector is [CLS] of the last layer as the text says; the released code takes BERT's
  pooler (tanh) and attends padding. `pooling=legacy_coder` evaluates weights so trained, but does not train.
- The optimiser is not stated: AdamW with linear warm-up and decay, as Yuan et al. 2022.
- A concept of several semantic types has its target shared among them; the released code keeps one.
- `inverse_relations` adds each triple turned round, and names are cleaned, as in the recipe coder.
- `dropout_masks=shared` encodes a name that stands several times in a batch once: faster, but its copies are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    "Z. Yuan, Z. Zhao, S. Yu. CODER: Knowledge infused cross-lingual medical term embedding for term normalization. "
    "arXiv:2011.02947v1, 2020."
)


class Config(CoderNames):
    """Settings of CODER's first version; the defaults are the paper's for English."""

    # Data
    batch_terms: int = Field(256, ge=6, description="maximum term rows per batch: heads, tails, corrupted tails (§B.1)")
    most_names: int = Field(8, ge=2, description="maximum names of a concept for one triple (§3.2)")
    inverse_relations: bool = Field(
        True, description="add the inverse of each triple (not in the paper: UMLS has both)"
    )
    max_length: int = Field(32, ge=3, description="tokens per term, including special ones (§B.1)")
    pooling: Literal["cls", "mean"] = Field("cls", description="vector: [CLS] or the mean of the tokens (§3.2)")
    # Objective
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (§B.1)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (§B.1)")
    lam: float = Field(0.5, description="MS loss: lambda, the similarity threshold (§B.1)")
    eps: float = Field(0.1, description="MS loss: margin of the mining (§B.1)")
    mining: bool = Field(True, description="MS loss: only hard pairs count (§3.2)")
    mu: float = Field(1.0, ge=0, description="weight of the TransE loss; 0 leaves it out (§B.1)")
    margin: float = Field(1.0, gt=0, description="m of the TransE loss (§B.1)")
    semantic_type_weight: float = Field(0.0, ge=0, description="weight of the semantic type loss (§5: 0.1 if used)")
    # Optimisation
    steps: int = Field(
        1_000_000, ge=1, description="optimiser steps (§B.1; the released loop counts each batch: 125,000)"
    )
    accumulation: int = Field(8, ge=1, description="batches per step (§B.1)")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate (§B.1)")
    warmup_steps: int = Field(10_000, ge=0, description="steps of linear warm-up (not stated; as Yuan et al. 2022)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up: linear or cosine to 0, or constant (not stated)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (not stated)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated)")

    @model_validator(mode="after")
    def _names_fit(self) -> Config:
        if 3 * self.most_names > self.batch_terms:
            raise ValueError(
                f"most_names={self.most_names}: batch_terms={self.batch_terms} must hold three times as many"
            )
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder as CODER's first version and save it to `out`."""
    from alphita_lab.objectives.semantic_type import SemanticTypeHead
    from alphita_lab.objectives.transe import RelationVectors
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import Batch, TermSteps, to_encode
    from alphita_lab.training.terms.names import begin
    from alphita_lab.training.terms.samplers import NameGroupSampler, SemanticTypes, usable_triples

    run = Run("coder_transe", Phase("", out, **mode), config, encoder)
    names, held_out = begin(run, terminology, split)

    # Data: triples between named concepts, in groups of names, with corrupted tails.
    labels = relation_labels(terminology.relation_labels, inverse=config.inverse_relations)
    triples = usable_triples(
        terminology.triples,
        names.offsets,
        len(terminology.relation_labels),
        inverse=config.inverse_relations,
        held_out=held_out,
    )
    sampler = NameGroupSampler(
        triples, names.offsets, rows=config.batch_terms, most=config.most_names, seed=config.seed, weights=names.weights
    )
    types = SemanticTypes(terminology) if config.semantic_type_weight > 0 else None
    run.say(f"training on {len(names.strings):,} names and {len(triples):,} triples of {len(labels)} relations")

    def draw(number: int) -> Batch:
        drawn = sampler.batch(number)
        rows = np.concatenate([drawn.head_term, drawn.tail_term, drawn.corrupted_term])
        terms, place = to_encode(rows, once=not config.copies_differ)
        concept = np.concatenate([drawn.head, drawn.tail, drawn.corrupted])
        arrays = {"place": place, "concept": concept, "relation": drawn.relation}
        if types is not None:
            arrays["types"] = types.matrix(concept)
        return Batch(terms, arrays, rows=len(rows))

    # Loop, and the model: a folder that SentenceTransformer opens; r, W and b and the log lie beside.
    modules: dict[str, torch.nn.Module] = {}
    if config.mu > 0:
        modules["relations"] = RelationVectors(len(labels), run.encoder.dim)
    if types is not None:
        modules["semantic_types"] = SemanticTypeHead(run.encoder.dim, len(types.names))
    return run.fit(
        TermSteps.of(run, names.strings, draw, objective(config, modules)),
        names.describe(),
        modules=modules,
        evaluate=names.dev,
        fields={"relation_labels": labels, "semantic_types": types.names if types is not None else []},
    )


def objective(config: Config, modules: Mapping[str, Any]) -> BatchLoss:
    """Return the loss of a batch, L = L_MS + mu L_TransE (+ weight L_sty); `modules` are those that train."""
    from alphita_lab.objectives.multi_similarity import Constants, term_term
    from alphita_lab.objectives.semantic_type import semantic_type
    from alphita_lab.objectives.transe import transe_margin

    constants = Constants(alpha=config.alpha, beta=config.beta, lam=config.lam, eps=config.eps, mining=config.mining)

    def loss(distinct: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return L = L_MS(e) + mu mean max(0, m + |h + r - t| - |h + r - t'|) + weight L_sty(e)."""
        e = distinct[given["place"]]
        total = term_loss = term_term(e, given["concept"], **constants)
        scalars = {"term_loss": term_loss}
        if "relations" in modules:
            head, tail, corrupted = e.chunk(3)
            scalars["transe_loss"] = transe_margin(
                head, given["relation"], tail, corrupted, modules["relations"], margin=config.margin
            )
            total = total + config.mu * scalars["transe_loss"]
        if "semantic_types" in modules:
            scalars["type_loss"] = semantic_type(e, given["types"], modules["semantic_types"])
            total = total + config.semantic_type_weight * scalars["type_loss"]
        return {"loss": total, **scalars}

    return loss
