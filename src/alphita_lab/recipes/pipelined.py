"""Injection of the graph first, then margins from it (the Italian system, "pipelined").

Amore Bondarenko, Ferrod and Di Caro train one encoder twice. First entities of the graph are injected between two of
its layers, on texts, by L_MLM + L_EL (6); then the injected encoder learns by the MS loss whose margins follow the
graph (3), on names and mentions. Both phases take the same mentions and the same graph:

    alphita graph train complex -t X.terminology -o X.vectors
    alphita mentions CORPUS -t X.terminology --encoder ENCODER --sequence-tokens 128 -o X.mentions
    alphita train pipelined -t X.terminology --encoder ENCODER --set mentions=X.mentions --set graph=X.vectors

The phases are `kge_injection` and `kge_margin`, of which they keep the deviations: `training.mentions.injection`,
`training.mentions.margin_phase`. Settings of the first begin with `injection_`. Its model is kept, OUT.phases/injected;
with --resume a run that was cut goes on in the phase it was in.

What the paper leaves open:
- That both phases have the settings that each has alone is not stated, but nothing else is.
- In the second phase all weights train, those of the injection too; the entities stay frozen. L_EL has no part in it.
- `start_share` mixes in weights of the injected encoder, and `ema` averages, in the second phase alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from pydantic import Field, model_validator

from alphita_lab.training.mentions.margin_phase import MarginTraining

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode

CITATION = (
    "D. Amore Bondarenko, R. Ferrod, L. Di Caro. Combining contrastive learning and knowledge graph embeddings to "
    "develop medical word embeddings for the Italian language. 2022."
)

EXPORTS = ("distilled",)
"""What its models can be turned into: see `training.mentions.plain_export`."""


class Config(MarginTraining):
    """Settings of both phases: those of the injection, then those of the margins as `kge_margin` has them."""

    # Data
    mentions: str = Field("", description="mentions with sequences, of alphita mentions (§3.1)")
    graph: str = Field("", description="vectors of alphita graph train (§3.2; the best: ComplEx)")
    # Phase 1
    layer: int = Field(8, ge=0, description="layer after which entities are added; 0: two thirds of all layers (§4: 8)")
    nearest: int = Field(100, ge=1, description="n, candidate entities per mention (not stated; KeBioLM's code: 100)")
    share: float = Field(0.15, gt=0, le=1, description="share of tokens to mask, together with their mentions (§3.2)")
    linking: Literal["mean", "sum"] = Field(
        "sum", description="L_EL: sum over a batch's mentions (eq. 5), or their mean (ours)"
    )
    injection_batch: int = Field(6, ge=1, description="sequences per batch (§4)")
    injection_steps: int = Field(40_000, ge=1, description="optimiser steps (§4)")
    injection_accumulation: int = Field(1, ge=1, description="batches per step (not stated for the injection)")
    injection_learning_rate: float = Field(1e-5, gt=0, description="peak learning rate (§4)")
    injection_warmup_steps: int = Field(4_000, ge=0, description="steps of linear warm-up (§4)")
    dev_sequences: int = Field(0, ge=0, description="sequences held out to score linking (not stated; ours)")

    @model_validator(mode="after")
    def _margins_follow_the_graph(self) -> Config:
        if self.version != "v3":
            raise ValueError(
                f"version={self.version}: the second phase takes its margins from the graph; for other losses train "
                "kge_injection, and kge_margin from its model"
            )
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Inject entities, train with margins and save the model to `out`."""
    from alphita_lab.training.engine.runs import Phases
    from alphita_lab.training.engine.settings import Length
    from alphita_lab.training.mentions.injection import inject_entities
    from alphita_lab.training.mentions.margin_phase import train_margins

    phases = Phases(out, ["injected", "margins"], **mode)
    phases.check()

    # Phase 1: entities between two layers, by L_MLM + L_EL. Names are no dev set here, and nothing is averaged.
    own = {
        "accumulation": config.injection_accumulation,
        "dev_synonyms": 0,
        "keep": "last",
        "start_share": 0.0,
        "ema": 0.0,
    }
    injected = inject_entities(
        "pipelined",
        phases["injected"],
        config.model_copy(update=own),
        config.injection_batch,
        Length(config.injection_steps, config.injection_warmup_steps, config.injection_learning_rate),
        terminology,
        encoder,
        split=split,
    )
    start = phases.add("injected", injected, encoder)

    # Phase 2: the MS loss with the graph's margins (3).
    return train_margins("pipelined", phases["margins"], config, terminology, start, split=split)
