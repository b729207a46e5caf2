"""SapBERT: self-alignment of synonyms (Liu et al., NAACL 2021).

Pairs of synonyms are drawn from a terminology; in each batch the triplets that are not yet told apart are mined, and
the MS loss over their pairs draws synonyms together and pushes other terms away. No relations are needed.

Deviations from the paper:
- Steps are counted, not epochs; how many steps an epoch has is printed at the start.
- The released code's alpha 1 and beta 60 differ from the paper's 2 and 50; the defaults are the paper's.
- Names are cleaned before encoding (lower case, spaces), as in all recipes here; the released code lower-cases.
- As there, equal strings of two concepts that meet in a batch are negatives of each other; among 256 pairs of a large
  terminology they hardly meet.
- Gradients are clipped, and biases and layer norms are not decayed, as in all recipes here.
- Pairs are drawn alike, so that `languages` chooses names but cannot weight them.
- `dropout_masks=shared` encodes a name that stands several times in a batch once: faster, but its copies are alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

import numpy as np
from pydantic import Field

from alphita_lab.training.engine.settings import RepeatedNames

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch

CITATION = (
    "F. Liu, E. Shareghi, Z. Meng, M. Basaldella, N. Collier. Self-alignment pretraining for biomedical entity "
    "representations. NAACL-HLT 2021."
)


class Config(RepeatedNames):
    """SapBERT's settings; the defaults are the paper's."""

    # Data
    pairs: int = Field(
        256, ge=2, description="pairs of synonyms per batch, with twice as many rows (released code: 256)"
    )
    most_pairs: int = Field(50, ge=1, description="maximum pairs per concept (§3)")
    max_length: int = Field(25, ge=3, description="tokens per term, including special ones (released code)")
    pooling: Literal["cls", "mean"] = Field("cls", description="vector: [CLS] or the mean of the tokens (§2)")
    # Objective
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (appendix; released code 1)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (appendix; released code 60)")
    lam: float = Field(0.5, description="MS loss: lambda, the similarity threshold (released code)")
    margin: float = Field(0.2, description="margin of the triplet mining, in distance (appendix)")
    # Optimisation
    steps: int = Field(50_000, ge=1, description="optimiser steps (released code: one epoch of UMLS's pairs)")
    accumulation: int = Field(1, ge=1, description="batches per step (released code: no accumulation)")
    learning_rate: float = Field(2e-5, gt=0, description="learning rate (appendix)")
    warmup_steps: int = Field(0, ge=0, description="steps of linear warm-up (released code: none)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "constant",
        description="schedule after the warm-up: linear or cosine to 0, or constant (released code: constant)",
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (appendix)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (released code: none)")

    ALIKE: ClassVar[str] = "pairs are drawn"


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder as SapBERT and save it to `out`."""
    from alphita_lab.objectives.triplet_mining import mined_term_term
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import Batch, TermSteps, to_encode
    from alphita_lab.training.terms.names import begin
    from alphita_lab.training.terms.samplers import PairSampler

    run = Run("sapbert", Phase("", out, **mode), config, encoder)
    names, _ = begin(run, terminology, split)

    # Data: pairs of synonyms.
    sampler = PairSampler(names.offsets, pairs=config.pairs, most=config.most_pairs, seed=config.seed)
    run.say(
        f"training on {len(names.strings):,} names and {sampler.pairs:,} pairs; an epoch is "
        f"{sampler.pairs / config.pairs / config.accumulation:,.1f} steps"
    )

    def draw(number: int) -> Batch:
        concept, first, second = sampler.batch(number)
        terms, place = to_encode(np.concatenate([first, second]), once=not config.copies_differ)
        return Batch(terms, {"place": place, "concept": np.concatenate([concept, concept])}, rows=2 * config.pairs)

    # Objective: the MS loss over the pairs of mined triplets.
    def loss(distinct: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return L_MS, with S_ij = cos(e_i, e_j), over the pairs (a, p), (a, n) of triplets S_an > S_ap - margin."""
        e, constants = distinct[given["place"]], {"alpha": config.alpha, "beta": config.beta, "lam": config.lam}
        return {"loss": mined_term_term(e, given["concept"], margin=config.margin, **constants)}

    # Loop, and the model.
    return run.fit(TermSteps.of(run, names.strings, draw, loss), names.describe(), evaluate=names.dev)
