"""CODER: knowledge-infused cross-lingual medical term embedding (Yuan et al. 2022).

A batch of triples (h, r, t) is drawn from a terminology's knowledge graph, each several times under different names.
Terms of one concept are drawn together and others pushed apart (MS loss on term pairs); and a head seen through its
relation's matrix M_r is drawn to its tail (MS loss on term-relation-term pairs). Vectors then rank concepts by cosine.

Deviations from the paper:
- A row that stands several times in a batch is encoded once, so its copies share one dropout mask.
- M_r is `diagonal` by default; the full matrices of the paper are `relation_matrix=full`. All kinds start at the
  identity, so that S_rel starts as S; the paper does not state the start.
- `inverse_relations` adds each triple turned round, under a relation of its own. UMLS lists both directions already;
  most other terminologies list one.
- `least_head_names` above 1 draws only triples whose head has that many names, so that every anchor has a positive.
- Names are cleaned before encoding (lower case, spaces; the model's manifest lists the rules), so that training and
  normalization see the same strings.
- `start_share` averages some of the starting weights into the final ones (Wortsman et al. 2022), against forgetting.
- AdamW's weight decay and the clipping of gradients are not stated; the values here are the common ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

import alphita.config
from alphita.progress import say
from alphita.terminology.text import DEFAULT_RULES
from alphita.training.triples import relation_labels

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

CITATION = (
    "Z. Yuan, Z. Zhao, H. Sun, J. Li, F. Wang, S. Yu. CODER: Knowledge-infused cross-lingual medical term embedding "
    "for term normalization. Journal of Biomedical Informatics 126:103983, 2022."
)


class Config(alphita.config.Config):
    """CODER's settings; the defaults are the paper's for English."""

    # Data
    k: int = Field(128, ge=2, description="triples a batch, repeats counted (§4.2)")
    m: int = Field(8, ge=1, description="times each distinct triple stands in a batch (§4.2); divides k")
    least_head_names: int = Field(1, ge=1, description="draw triples whose head has so many names (ours; §3.3: all)")
    inverse_relations: bool = Field(True, description="add each triple turned round (not in the paper: UMLS has both)")
    max_length: int = Field(32, ge=3, description="tokens a term, special ones counted (§4.2)")
    pooling: Literal["cls", "mean"] = Field("cls", description="the vector: [CLS] or the mean of the tokens (§3.2)")
    # Objective
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (§4.2)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (§4.2)")
    lam: float = Field(0.5, description="MS loss: lambda, the similarity between near and far (§4.2)")
    eps: float = Field(0.1, description="MS loss: margin of the mining (§4.2)")
    mining: bool = Field(True, description="MS loss: only hard pairs count (§3.3)")
    mu: float = Field(1.0, ge=0, description="weight of the term-relation-term loss; 0 leaves it out (§4.2)")
    alpha_rel: float = Field(2.0, gt=0, description="alpha of the term-relation-term loss (§4.2)")
    beta_rel: float = Field(50.0, gt=0, description="beta of the term-relation-term loss (§4.2)")
    lam_rel: float = Field(0.5, description="lambda of the term-relation-term loss (§4.2)")
    eps_rel: float = Field(0.1, description="margin of the term-relation-term mining (§4.2)")
    relation_matrix: Literal["full", "diagonal", "low_rank"] = Field("diagonal", description="M_r (§3.3: full)")
    rank: int = Field(16, ge=1, description="rank of U V^T in M_r = I + U V^T (low_rank only; ours)")
    known_triples: bool = Field(False, description="tau_rel by the graph, not by t_i = t_j (§3.3)")
    # Optimisation
    steps: int = Field(100_000, ge=1, description="optimiser steps (§4.2: 100K English, 1M all languages)")
    accumulation: int = Field(8, ge=1, description="batches a step (§4.2)")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate (§4.2)")
    warmup_steps: int = Field(10_000, ge=0, description="steps of linear warm-up, then linear decay to 0 (§4.2)")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (not stated)")
    clip: float = Field(1.0, gt=0, description="largest gradient norm (not stated)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout (not stated; None: the encoder's own)")
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="arithmetic while training (ours)")
    start_share: float = Field(
        0.0, ge=0, lt=1, description="share of the starting weights averaged into the final ones (WiSE-FT; ours)"
    )
    seed: int = Field(0, ge=0, description="of sampling, initial values and dropout (ours)")
    # Watching
    dev_synonyms: int = Field(0, ge=0, description="synonyms held out of training to score accuracy@1 with (ours)")
    evaluate_every: int = Field(0, ge=0, description="steps between dev scores; 0: only at the end (ours)")
    log_every: int = Field(50, ge=0, description="steps between lines of log.jsonl (ours)")
    checkpoint_every: int = Field(1000, ge=0, description="steps between checkpoints (ours)")

    @model_validator(mode="after")
    def _repeats_fit(self) -> Config:
        if self.k % self.m or self.k // self.m < 2:
            raise ValueError(f"m={self.m} must divide k={self.k} and leave two distinct triples")
        return self


def train(
    terminology: Terminology,
    encoder: str,
    out: Path,
    config: Config,
    *,
    split: Split | None = None,
    resume: bool = False,
    force: bool = False,
) -> dict[str, float]:
    """Train an encoder as CODER and save it to `out`.

    Args:
        terminology: the knowledge graph: terms and relations.
        encoder: `minilm`, a folder or a hub name to start from.
        out: the model folder to create; unfinished work lies in `OUT.training` beside it.
        config: the settings.
        split: strings held out: removed from the names before training.
        resume: go on with the unfinished run.
        force: replace an existing model or unfinished run.

    Returns:
        The last logged figures.
    """
    import torch

    from alphita.encoder.encoder import TermEncoder
    from alphita.objectives.multi_similarity import term_term
    from alphita.objectives.term_relation_term import RelationMatrices, term_relation_term
    from alphita.training.forward import TermForward
    from alphita.training.loop import Plan, fit
    from alphita.training.names import TrainingNames
    from alphita.training.runs import open_run, save_model
    from alphita.training.soup import copy_of, mix_in
    from alphita.training.triples import KnownTriples, TripleSampler, usable_triples

    # Model: the term encoder and, for the relations, M_r.
    torch.manual_seed(config.seed)
    term_encoder = TermEncoder.load(encoder, precision="fp32", pooling=config.pooling, max_length=config.max_length)
    forward = TermForward(term_encoder, precision=config.precision, dropout=config.dropout)
    start = copy_of(forward.module) if config.start_share > 0 else {}
    modules: dict[str, torch.nn.Module] = {"encoder": forward.module}
    labels = relation_labels(terminology.relation_labels, inverse=config.inverse_relations)
    if config.mu > 0:
        matrices = RelationMatrices(len(labels), term_encoder.dim, kind=config.relation_matrix, rank=config.rank)
        modules["relations"] = matrices.to(forward.device)

    facts = {
        "recipe": "coder", "config": config.model_dump(), "seed": config.seed, "encoder": term_encoder.content_hash,
        "terminology": terminology.content_hash, "split": split.hash if split else None,
        "cleaning_rules": list(DEFAULT_RULES),
    }  # fmt: skip
    work, fingerprint = open_run(out, facts, resume=resume, force=force)

    # Data: names by concept, the triples between named concepts, and batches of them.
    names = TrainingNames(
        terminology, exclude=split.cleaned if split else frozenset(), dev=config.dev_synonyms, seed=config.seed
    )
    triples = usable_triples(
        terminology.triples, names.offsets, len(terminology.relation_labels),
        inverse=config.inverse_relations, least_head_names=config.least_head_names,
    )  # fmt: skip
    sampler = TripleSampler(triples, names.offsets, k=config.k, m=config.m, seed=config.seed)
    known = KnownTriples(triples) if config.known_triples else None
    tokens = term_encoder.tokenize(names.strings)
    say(f"training on {len(names.strings):,} names and {len(triples):,} triples of {len(labels)} relations")

    # Objective: L = L_MS + mu L_MS_rel.
    def micro_loss(number: int) -> dict[str, torch.Tensor]:
        batch = sampler.batch(number)
        distinct, place = np.unique(np.concatenate([batch.head_term, batch.tail_term]), return_inverse=True)
        concept = forward.tensor(np.concatenate([batch.head, batch.tail]))
        e = forward([tokens[term] for term in distinct])[forward.tensor(place)]
        term_loss = term_term(
            e, concept, alpha=config.alpha, beta=config.beta, lam=config.lam, eps=config.eps, mining=config.mining
        )
        scalars = {"loss": term_loss, "term_loss": term_loss, "rows": torch.tensor(float(len(place)))}
        if config.mu > 0:
            relation_loss = term_relation_term(
                e[: config.k], forward.tensor(batch.relation), e[config.k :], concept[config.k :], matrices,
                alpha=config.alpha_rel, beta=config.beta_rel, lam=config.lam_rel, eps=config.eps_rel,
                mining=config.mining,
                known=None if known is None else forward.tensor(known.matrix(batch.head, batch.relation, batch.tail)),
            )  # fmt: skip
            scalars |= {"loss": term_loss + config.mu * relation_loss, "relation_loss": relation_loss}
        return scalars

    # Loop.
    plan = Plan(
        config.steps, config.warmup_steps, config.learning_rate, config.accumulation, config.clip, config.weight_decay,
        config.seed, config.log_every, config.evaluate_every, config.checkpoint_every,
    )  # fmt: skip
    figures = fit(
        modules, micro_loss, plan, work, fingerprint=fingerprint, resume=resume,
        evaluate=names.dev_accuracy(term_encoder) if config.dev_synonyms else None, label="training coder",
    )  # fmt: skip

    # Some of the starting weights keep what names alone do not teach: misspellings, words around a term.
    if config.start_share > 0:
        mix_in(forward.module, start, config.start_share)

    # Save: a folder that SentenceTransformer opens; M_r and the log lie beside.
    tensors = {"relations": matrices.state_dict()} if config.mu > 0 else {}
    save_model(
        out, term_encoder, work, fields=facts | {"relation_labels": labels, "figures": figures}, tensors=tensors,
        force=force,
    )  # fmt: skip
    return figures
