"""Runs of several processes, forked by one that has imported what they need: `python rank_job.py JOB ...`.

See test_ranks.py. The jobs: `gradients MODEL OUT`, `average`, `scratch`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from alphita.encoder.encoder import TermEncoder
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita_lab.training.engine import ranks
from alphita_lab.training.engine.forward import TermForward, tokenize
from alphita_lab.training.terms.batches import Batch, TermSteps
from tests.waiting import free_port

K = 12
ACCUMULATION = 3
# Processes, and tokens that are encoded at once; the first is what the others are held against.
RUNS = ((1, 10_000), (2, 10_000), (2, 40), (1, 40), (3, 10_000))


def together(size: int, job: Callable[[], None]) -> None:
    """Do a job in `size` processes of one run, as torchrun would; leave with an error if one of them fails."""
    port = free_port()
    sys.stdout.flush()
    started = []
    for rank in range(size):
        started.append(os.fork())
        if not started[-1]:
            facts = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": size, "RANK": rank}
            os.environ.update({name: str(value) for name, value in facts.items()})
            job()
            sys.exit()
    ends = [os.waitpid(process, 0)[1] for process in started]
    if any(ends):
        sys.exit(f"{size} processes ended with {ends}")


def gradients(encoder: TermEncoder, out: Path, at_once: int) -> None:
    """Write the loss and the gradients of one batch."""
    torch.manual_seed(0)
    own = ranks.connect()
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
        found = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}
        save_file({**found, "loss": torch.tensor(total, dtype=torch.float64)}, out)
    own.wait()


def average() -> None:
    """Print what `Ranks.average` makes of gradients that two, one and none of the processes have."""
    own = ranks.connect()
    both, one, none = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    both.grad = torch.full((2,), float(own.rank))
    if own.rank == 1:
        one.grad = torch.full((2,), 4.0)
    own.average([both, one, none])
    print(f"{both.grad.tolist()} {one.grad.tolist() if one.grad is not None else None} {none.grad}\n", end="")


def scratch() -> None:
    """Print what the first process wrote into the folder of all, as each sees it, and whether it is gone later."""
    own = ranks.connect()
    with own.scratch() as folder:
        if own.first:
            (folder / "x").write_text("made by the first")
        own.wait()
        time.sleep(0.3 * own.rank)
        text = (folder / "x").read_text()
    own.wait()
    print(f"{text} {folder.exists()}\n", end="")


def main() -> None:
    """Do what the command line names."""
    torch.set_num_threads(1)
    if sys.argv[1] == "gradients":
        out = Path(sys.argv[3])
        encoder = TermEncoder.load(sys.argv[2], precision="fp32", pooling="mean")
        for size, at_once in RUNS:
            together(size, lambda: gradients(encoder, out / f"{size}-{at_once}", at_once))  # noqa: B023 - done at once
    else:
        together(2, {"average": average, "scratch": scratch}[sys.argv[1]])


if __name__ == "__main__":
    main()
