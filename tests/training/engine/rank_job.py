"""One process of a run of several: `python rank_job.py MODEL OUT [TOKENS_AT_ONCE]`; see test_ranks.py."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from alphita.encoder.encoder import TermEncoder
from alphita.objectives.multi_similarity import term_term
from alphita.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita.training.engine import ranks
from alphita.training.engine.forward import TermForward
from alphita.training.engine.tokens import tokenize
from alphita.training.terms.batches import Batch, TermSteps

K = 12
ACCUMULATION = 3


def main() -> None:
    model, out, at_once = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    own = ranks.connect()
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")
    forward = TermForward(encoder, precision="fp32", dropout=0.0)
    rng = np.random.default_rng(0)
    words = ["heart", "liver", "pain", "of", "the", "abcd", "x", "bleeding"]
    strings = [" ".join(rng.choice(words, rng.integers(1, 9))) + f" {number}" for number in range(60)]
    matrices = RelationMatrices(3, encoder.dim, kind="low_rank", rank=2)

    def draw(number: int) -> Batch:
        chance = np.random.default_rng([1, number])
        terms, place = np.unique(chance.integers(0, len(strings), 2 * K), return_inverse=True)
        concept = place // 2
        return Batch(terms, {"place": place, "concept": concept, "relation": chance.integers(0, 3, K)}, 2 * K)

    def loss(distinct: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        e, concept = distinct[given["place"]], given["concept"]
        relation_loss = term_relation_term(e[:K], given["relation"], e[K:], concept[K:], matrices, mining=False)
        return {"loss": term_term(e, concept, mining=False) + 0.5 * relation_loss}

    steps = TermSteps(forward, tokenize(encoder, strings), draw, loss, seed=0, tokens_at_once=at_once, ranks=own)
    steps.start(0, ACCUMULATION)
    total = sum(float(steps(number, 1 / ACCUMULATION)["loss"]) / ACCUMULATION for number in range(ACCUMULATION))
    steps.stop()
    parameters = {
        f"{name}.{key}": parameter
        for name, module in (("encoder", forward.module), ("relations", matrices))
        for key, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    own.average(list(parameters.values()))
    if own.first:
        gradients = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}
        save_file({**gradients, "loss": torch.tensor(total, dtype=torch.float64)}, out)
    own.wait()


if __name__ == "__main__":
    main()
