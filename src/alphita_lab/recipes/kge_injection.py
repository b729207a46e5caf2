"""Entities of a knowledge graph injected into a BERT (the Italian system, "KGE-injected").

Amore Bondarenko, Ferrod and Di Caro inject a graph's vectors into the upper layers of an encoder. After layer i each
mention of a text is projected to the graph's space, linked there to its nearest entities, and their mean, weighted by
a softmax, is projected back and added to the mention's tokens. A masked language model and an entity linker train it
together, on texts whose mentions were matched with a terminology's names:

    h_m = W mean(states of m) + b;   e_m = sum_j a_j e_j,  a the softmax over the n nearest entities            (4)
    L_EL = -log( exp(h_m . e) / sum_{e_j in E} exp(h_m . e_j) )                                                 (5)
    L = L_MLM + L_EL                                                                                            (6)

It needs mentions with sequences and a graph's vectors, which are frozen:

    alphita graph train complex -t X.terminology -o X.vectors
    alphita mentions CORPUS -t X.terminology --encoder ENCODER --sequence-tokens 128 -o X.mentions
    alphita train kge_injection -t X.terminology --encoder ENCODER --set mentions=X.mentions --set graph=X.vectors

The trained encoder works on bare terms, each its own mention; `TermEncoder.load` opens it, other libraries do not.

Deviations from the paper, and what it leaves open:
- n is not stated; KeBioLM's code, which the method follows, has 100. Nor is it stated how long a sequence is.
- Equation (5) sums over mentions where L_MLM is a mean over tokens, so a batch of many mentions is ruled by L_EL;
  linking=mean weighs both alike, and the tables of docs/results/italian.md are made with it.
- A mention is linked whether or not it is masked, by one forward pass, as in KeBioLM.
- Masked as BERT's: 80% become [MASK], 10% another token and 10% stay, a mention's tokens alike.
- A mention whose concept the graph lacks, and one that several concepts share, is injected and masked like others, but
  has no part in L_EL; how many there are is printed.
- E are all concepts of the graph, those that the terminology has no more too.
- The entities are added after layer 8 of 12. An encoder of fewer layers needs another layer: layer=0 takes two thirds.
- The layer norm is new and starts as near to doing nothing as it can; see `encoder.injected_bert`.
- Accumulation and clipping are not stated for this phase. Biases and layer norms are not decayed, as in all recipes.
- The dev score is the share of mentions in sequences held out of training whose nearest entity is the right one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from pydantic import Field, model_validator

from alphita_lab.training.engine.settings import TermTraining

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode

CITATION = (
    "D. Amore Bondarenko, R. Ferrod, L. Di Caro. Combining contrastive learning and knowledge graph embeddings to "
    "develop medical word embeddings for the Italian language."
)

EXPORTS = ("distilled",)
"""What its models can be turned into: see `training.mentions.plain_export`."""


class Config(TermTraining):
    """Settings of the injection; the defaults are the paper's where it states them."""

    # Data
    mentions: str = Field("", description="mentions with sequences, of alphita mentions (§3.1)")
    graph: str = Field("", description="vectors of alphita graph train (§3.2; the best: ComplEx)")
    max_length: int = Field(32, ge=3, description="tokens per term after training (§3.1: windows of 32)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (§3.1)")
    # Model
    layer: int = Field(8, ge=0, description="layer after which entities are added; 0: two thirds of all layers (§4: 8)")
    nearest: int = Field(100, ge=1, description="n, candidate entities per mention (not stated; KeBioLM's code: 100)")
    # Objective
    share: float = Field(0.15, gt=0, le=1, description="share of tokens to mask, together with their mentions (§3.2)")
    linking: Literal["mean", "sum"] = Field(
        "sum", description="L_EL: sum over a batch's mentions (eq. 5), or their mean (ours)"
    )
    # Optimisation
    batch: int = Field(6, ge=1, description="sequences per batch (§4)")
    steps: int = Field(40_000, ge=1, description="optimiser steps (§4)")
    accumulation: int = Field(1, ge=1, description="batches per step (not stated for the injection)")
    learning_rate: float = Field(1e-5, gt=0, description="learning rate (§4)")
    warmup_steps: int = Field(4_000, ge=0, description="steps of linear warm-up (§4)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up (not stated)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (§4)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated for the injection; §4's 1)")
    # Dev score
    dev_sequences: int = Field(0, ge=0, description="sequences held out to score linking (not stated; ours)")

    @model_validator(mode="after")
    def _trains_on_text(self) -> Config:
        if self.dev_synonyms:
            raise ValueError("dev_synonyms: mentions are scored here, not synonyms; set dev_sequences")
        if self.languages:
            raise ValueError("languages: the mentions decide; make them with --language")
        if self.keep == "best" and not self.dev_sequences:
            raise ValueError("keep=best needs dev scores: set dev_sequences and evaluate_every")
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Inject entities into `encoder`, train it and save it to `out`."""
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.engine.settings import Length
    from alphita_lab.training.mentions.injection import inject_entities

    return inject_entities(
        "kge_injection",
        Phase("injected", out, **mode),
        config,
        config.batch,
        Length(config.steps, config.warmup_steps, config.learning_rate),
        terminology,
        encoder,
        split=split,
    )
