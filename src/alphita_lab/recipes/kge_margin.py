"""Contrastive learning with margins from the graph (the Italian system: Amore Bondarenko, Ferrod and Di Caro, 2022).

Where a language has few synonyms, the contexts of a name in a corpus are positives too. A batch holds some prototypes,
each with k mentions of its concept, of other synonyms first, and with the m mentions of other concepts that the encoder
takes for nearest; the MS loss over all of them (1) has one margin, (2) one for positive and one for negative pairs, or
(3) margins that follow the similarity of the two concepts in the graph, so that what the graph calls near is not pushed
far. `training.mentions.margin_phase` has data, objective and loop in the paper's order, `objectives.kge_margin` the
equations.

Deviations from the paper, and what it leaves open:
- A step draws 4 prototypes, and gradients of 8 are added: 50k such steps are 6,250 optimiser steps, which are counted
  here. So read, 4 epochs have 50,000 prototypes, 2.4 a concept; were they optimiser steps, it would be 400,000, four
  times the contexts that 26,432 terms have at 4 each.
- A mention in context has the tags [M_s] and [M_e] around it, and its vector is the mean over the tokens between. How
  terms without context are encoded is not stated. Here they have no tags and get the mean over all their tokens, so
  that the saved encoder, and SentenceTransformer, encode a string as any other model does; names train so too, beside
  their contexts. `bare=false` trains contexts alone, as in the paper.
- The m nearest mentions are those of other concepts; there those of the prototype's own may be among them. A mention
  that several prototypes bring stands once in a batch.
- Strings that name several concepts do not train.
- lambda of v1 and prototypes a concept are not stated; see the settings. Gradients flow through v3's margin, as its
  equation is printed; `detach_margin=true` holds them back.
- A concept without a vector in the graph: its negative pairs get v2's lambda_n, its positive ones need no vector.
- Names are cleaned before encoding (lower case, spaces), as in all recipes here; contexts are as they were written.
- Biases and layer norms are not decayed, as in all recipes here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from alphita_lab.training.mentions.margin_phase import MarginTraining

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode

CITATION = (
    "D. Amore Bondarenko, R. Ferrod, L. Di Caro. Combining contrastive learning and knowledge graph embeddings to "
    "develop medical word embeddings for the Italian language. 2022."
)


class Config(MarginTraining):
    """The settings of `training.mentions.margin_phase.MarginTraining`."""


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder with margins from the graph and save it to `out`."""
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.mentions.margin_phase import train_margins

    phase = Phase("margins", out, **mode)
    return train_margins("kge_margin", phase, config, terminology, encoder, split=split)
