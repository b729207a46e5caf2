"""Runs of several processes, forked by one that has imported what they need: `python rank_job.py MODEL OUT WORDS...`.

See test_ranks.py. `WORDS` are those of a training command, without its output.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from alphita.cli import main as alphita
from alphita.encoder.encoder import TermEncoder
from alphita.terminology import store  # noqa: F401 - imported once, before the forks
from alphita_lab.cli import train as _train  # noqa: F401
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita_lab.recipes import coder  # noqa: F401
from alphita_lab.training.engine import ranks, run  # noqa: F401
from alphita_lab.training.engine.forward import TermForward, tokenize
from alphita_lab.training.terms.batches import Batch, TermSteps
from tests.waiting import free_port

K = 12
ACCUMULATION = 3
# Tokens that are encoded at once, by the number of processes; the first is what the others are held against.
AT_ONCE = {1: 10_000, 2: 40, 3: 10_000}
# Before this micro-batch the second process of a run dies, after the first checkpoint.
DEATH = 14


def together(size: int, job: Callable[[], None], said: Path, *, ends: tuple[int, ...] | None = None) -> None:
    """Do a job in `size` processes of one run, as torchrun would; `said` is a folder for what each prints.

    Leave with an error if they do not end as told: by default, all of them well.
    """
    port = free_port()
    said.mkdir()
    started = []
    for rank in range(size):
        started.append(os.fork())
        if not started[-1]:
            facts = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": size, "RANK": rank}
            os.environ.update({name: str(value) for name, value in facts.items()})
            for place, stream in enumerate(("out", "err"), 1):
                os.dup2(os.open(said / f"{stream}-{rank}", os.O_WRONLY | os.O_CREAT), place)
            code = 0
            try:
                job()
            except SystemExit as end:
                code = int(end.code or 0)
            sys.stdout.flush()
            # To take all modules down would take longer than the job.
            os._exit(code)
    found = tuple(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started)
    if found != (ends or (0,) * size):
        sys.exit("\n".join([f"{said.name}: {found}", *(file.read_text() for file in sorted(said.iterdir()))]))


def gradients(encoder: TermEncoder, out: Path) -> None:
    """Write the loss and the gradients of one batch, into a file named by the number of processes."""
    torch.manual_seed(0)
    encoder.module.zero_grad()
    own = ranks.connect()
    at_once = AT_ONCE[own.size]
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
        save_file({**found, "loss": torch.tensor(total, dtype=torch.float64)}, out / str(own.size))
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


def train(words: list[str], *, dying: bool = False) -> None:
    """Run a training command; the second process may be killed in it."""
    if dying and os.environ["RANK"] == "1":
        step = TermSteps.__call__

        def killed(self: TermSteps, number: int, share: float) -> dict[str, torch.Tensor]:
            if number == DEATH:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, number, share)

        TermSteps.__call__ = killed  # type: ignore[method-assign]
    sys.argv[1:] = words
    alphita()


def main() -> None:
    """Do all jobs."""
    torch.set_num_threads(1)
    model, out, words = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")

    def several() -> None:
        gradients(encoder, out)
        if os.environ["WORLD_SIZE"] == "2":
            average()
            scratch()

    gradients(encoder, out)
    together(2, several, out / "two processes")
    together(3, several, out / "three processes")
    together(2, lambda: train([*words, "-o", str(out / "two")]), out / "trained")
    together(2, lambda: train([*words, "-o", str(out / "died")], dying=True), out / "lost", ends=(1, -9))


if __name__ == "__main__":
    main()
