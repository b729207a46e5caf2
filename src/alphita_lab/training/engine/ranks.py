"""The processes of one run, one a device, started by `torchrun --nproc-per-node N -m alphita train ...`.

Every process draws the same batch, encodes its share, and computes the loss over all vectors: N processes give the
gradients of one. Nothing on disk depends on their number.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from alphita import drafts
from alphita.errors import AlphitaError

# As long as one process may be busy with what the others wait for: a vocabulary or sequences of a large corpus, a
# teacher's vectors. That a process has died is not learned from this: torchrun ends the others.
TIMEOUT = timedelta(days=7)
# Gradients travel in parcels of so many numbers: few messages, and no second copy of all of them.
PARCEL = 8_000_000
LOST = (
    "another process of this run has ended (its own message is above, if it left one); start again with --resume, on "
    "as many processes as you like"
)


class Ranks:
    """This process among those of the run.

    `rank`: its number, from 0.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def first(self) -> bool:
        """Whether this process writes logs, checkpoints and the model."""
        return self.rank == 0

    def one_by_one(self, work: Callable[[], None]) -> None:
        """Do something in the first process, and when it is done there in the others, which find its files."""
        if self.first:
            work()
        self.wait()
        if not self.first:
            work()

    def share(self, lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the rows that each process encodes: near equal numbers of tokens, the same answer everywhere.

        Args:
            lengths: (n,) tokens a row.
        """
        # Dealt out longest first, there and back, as teams are chosen.
        turn = np.arange(len(lengths)) % (2 * self.size)
        owner = np.empty(len(lengths), np.int64)
        owner[np.argsort(-lengths, kind="stable")] = np.minimum(turn, 2 * self.size - 1 - turn)
        return [np.flatnonzero(owner == rank) for rank in range(self.size)]

    def gather(self, own: torch.Tensor, shares: Sequence[NDArray[np.int64]]) -> torch.Tensor:
        """Return the vectors of all rows, (n, d), from each process's own, (rows of its share, d). No gradient."""
        if self.size == 1:
            return own
        longest = max(len(rows) for rows in shares)
        mine = own.new_zeros(longest, own.shape[1])
        mine[: len(own)] = own
        parts = [torch.empty_like(mine) for _ in shares]
        with _lost():
            distributed.all_gather(parts, mine)
        whole = own.new_empty(sum(len(rows) for rows in shares), own.shape[1])
        for rows, part in zip(shares, parts, strict=True):
            whole[torch.from_numpy(rows).to(own.device)] = part[: len(rows)]
        return whole

    def average(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace each gradient by its mean over the processes; a process without one has zeros."""
        if self.size == 1 or not parameters:
            return
        there = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int32)
        there = there.to(parameters[0].device)
        with _lost():
            distributed.all_reduce(there)
        for parameter, some in zip(parameters, there.tolist(), strict=True):
            if some and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        parcel: list[torch.Tensor] = []
        for gradient in gradients:
            parcel.append(gradient)
            if sum(part.numel() for part in parcel) >= PARCEL or gradient is gradients[-1]:
                flat = torch.cat([part.reshape(-1) for part in parcel])
                with _lost():
                    distributed.all_reduce(flat)
                flat /= self.size
                for part, mean in zip(parcel, flat.split([part.numel() for part in parcel]), strict=True):
                    part.copy_(mean.view_as(part))
                parcel = []

    def agree(self, modules: Sequence[torch.nn.Module]) -> None:
        """Give every process the weights of the first."""
        if self.size > 1:
            for module in modules:
                for value in module.state_dict().values():
                    with _lost():
                        distributed.broadcast(value, 0)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give every process the same folder for files that nobody needs afterwards."""
        with drafts.scratch() as own:
            of_all = [own]
            if self.size > 1:
                with _lost():
                    distributed.broadcast_object_list(of_all, 0)
            yield Path(of_all[0])
            self.wait()

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.size > 1:
            with _lost():
                distributed.barrier()


def connect() -> Ranks:
    """Join the processes that torchrun started, or return a run of one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks()
    if not distributed.is_initialized():
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        signal.signal(signal.SIGTERM, _ended)
        try:
            distributed.init_process_group("nccl" if cuda else "gloo", timeout=TIMEOUT)
        except (RuntimeError, ValueError) as error:
            raise AlphitaError(f"the processes of this run cannot be connected: {error}") from None
        # gloo's threads, left to the end of the process, may abort it after its work is done.
        atexit.register(distributed.destroy_process_group)
    return Ranks(distributed.get_rank(), distributed.get_world_size())


def device() -> str:
    """Return the device of this process: its own GPU under torchrun, else what `TermEncoder.load` chooses."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and torch.cuda.is_available():
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return "auto"


def _ended(_number: int, _frame: Any) -> None:  # noqa: ANN401 - a frame
    """Say why we stop when torchrun ends us because another process died."""
    print(f"error: {LOST}", file=sys.stderr, flush=True)
    os._exit(1)


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise AlphitaError(LOST) from error
