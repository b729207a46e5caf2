"""Micro-steps: batches made ahead in a thread, and encoded in parts, as many tokens at once as memory holds."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NotRequired, TypedDict, TypeVar, Unpack

import numpy as np
import torch

from alphita import machine
from alphita.errors import AlphitaError
from alphita_lab.training.engine.ranks import Ranks

MIN_TOKENS = 64
MAX_TOKENS = 65_536
# Of the free memory: the rest is for weights, gradients, moments, the loss and other programs.
SHARE = 0.4
# Arrays kept for the backward pass, in widths of the hidden and of the feed-forward layer, per token and layer.
HIDDEN_ARRAYS, WIDE_ARRAYS = 16, 3
BYTES = 4
# Weight, gradient and AdamW's two moments.
STATE_ARRAYS = 4


def tokens_that_fit(module: torch.nn.Module, device: torch.device) -> int:
    """Return a guess at how many tokens can be encoded at once with gradients."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else machine.memory()
    return int(min(MAX_TOKENS, max(MIN_TOKENS, SHARE * free / token_bytes(module))))


def token_bytes(module: torch.nn.Module) -> int:
    """Return a guess at the bytes that one token holds between forward and backward pass."""
    config: Any = getattr(getattr(module, "model", module), "config", None)
    hidden = int(getattr(config, "hidden_size", 768))
    wide = int(getattr(config, "intermediate_size", 4 * hidden))
    layers = int(getattr(config, "num_hidden_layers", 12))
    return layers * (HIDDEN_ARRAYS * hidden + WIDE_ARRAYS * wide) * BYTES


def state_bytes(modules: list[torch.nn.Module]) -> int:
    """Return the bytes of trained weights, their gradients and AdamW's moments."""
    numbers = sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)
    return numbers * BYTES * STATE_ARRAYS


def is_exhausted(error: BaseException) -> bool:
    """Tell whether an error says that there is no memory left, on a GPU or a processor."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def release(module: torch.nn.Module) -> None:
    """Drop gradients and give cached memory back."""
    module.zero_grad(set_to_none=True)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def seed_dropout(*numbers: int) -> None:
    """Seed torch by some numbers: dropout is then the same when a part is encoded again, or the run resumed."""
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


DEPTH = 4
T = TypeVar("T")


class Ahead(Generic[T]):
    """Calls `make` for rising numbers in a thread, a few ahead of the one who asks."""

    def __init__(self, make: Callable[[int], T], first: int, last: int, *, until: int | None = None) -> None:
        self.waited = 0.0  # seconds that `get` waited so far
        self._made: deque[tuple[int, T | BaseException]] = deque()
        self._changed = threading.Condition()
        self._until = last if until is None else until
        self._stopped = False
        self._thread = threading.Thread(target=self._work, args=(make, first, last), daemon=True)
        self._thread.start()

    def get(self, number: int) -> T:
        """Return batch `number`; the numbers must be asked for in order."""
        start = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._made or not self._thread.is_alive())
            self.waited += time.perf_counter() - start
            made, batch = self._made.popleft()
            self._changed.notify_all()
        assert made == number, f"batch {number} was asked for, {made} comes next"
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def allow(self, until: int) -> None:
        """Let the batches before number `until` be made."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop making batches and wait for the thread to end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self, make: Callable[[int], T], first: int, last: int) -> None:
        for number in range(first, last):
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or (len(self._made) < DEPTH and number < self._until))  # noqa: B023
                if self._stopped:
                    return
            batch: T | BaseException
            try:
                batch = make(number)
            except BaseException as error:
                batch = error
            with self._changed:
                self._made.append((number, batch))
                self._changed.notify_all()
            if isinstance(batch, BaseException):
                return


class Parts(TypedDict):
    """How batches are encoded in parts."""

    seed: int
    tokens_at_once: NotRequired[int]  # with gradients; 0: what is guessed to fit the memory
    ranks: NotRequired[Ranks | None]


class PartSteps(ABC, Generic[T]):
    """Adds the gradients of micro-batches, which are made ahead in a thread and encoded in parts.

    What derives from it makes a batch, and runs it; each part has its own dropout.
    """

    ADAPTS: ClassVar[bool] = False  # whether it trains adapters too: see `lora`
    _ahead: Ahead[T] | None = None

    def __init__(self, fitting: Callable[[], int], **parts: Unpack[Parts]) -> None:
        """Take `fitting`: () -> a guess at how many tokens can be encoded at once with gradients."""
        self.seed, self.ranks = parts["seed"], parts.get("ranks") or Ranks()
        self.tokens_at_once = parts.get("tokens_at_once") or fitting()

    @property
    def kinds(self) -> list[PartSteps[Any]]:
        """Those that encode large batches in parts: itself."""
        return [self]

    @property
    def waited(self) -> float:
        """Seconds waited for batches so far."""
        return self._ahead.waited if self._ahead else 0.0

    def start(self, first: int, last: int, until: int | None = None) -> None:
        """Begin to make the batches `first` up to before `last`; those from `until` on when they are allowed."""
        self._ahead = Ahead(self._make, first, last, until=until)

    def allow(self, until: int) -> None:
        """Let the batches before number `until` be made."""
        assert self._ahead is not None, "start() comes first"
        self._ahead.allow(until)

    def stop(self) -> None:
        """Make no more batches."""
        if self._ahead is not None:
            self._ahead.stop()

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        """Add `share` times the gradient of micro-batch `number` and return its scalars, without gradients."""
        assert self._ahead is not None, "start() comes first"
        ready = self._ahead.get(number)
        try:
            return self._run(ready, number, share)
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
        # Here, where the error no longer holds what had been computed, memory can be asked for again.
        raise AlphitaError(self._remedy(ready))

    @abstractmethod
    def names(self, number: int) -> list[str]:
        """Return the contents of micro-batch `number`, for the message when the loss is no longer finite."""

    @abstractmethod
    def sizes(self, number: int) -> dict[str, float]:
        """Return the size of micro-batch `number`: {"term rows": 256, "tokens": 2048}."""

    @abstractmethod
    def _make(self, number: int) -> T:
        """Return batch `number`; called in another thread."""

    @abstractmethod
    def _run(self, ready: T, number: int, share: float) -> dict[str, torch.Tensor]:
        """Do what a call does; an error that says that there is no memory left may come out."""

    def _remedy(self, ready: T) -> str:
        """Return what to say where the memory does not do."""
        fewer = max(MIN_TOKENS, self.tokens_at_once // 2)
        return (
            f"out of memory with {self.tokens_at_once:,} tokens encoded at once; go on with --resume "
            f"--set tokens_at_once={fewer}"
        )


# The stream of random numbers that chooses.
CHOSEN = 47


class SwitchingSteps:
    """Micro-steps of two kinds, as `PartSteps` are of one."""

    def __init__(
        self,
        usual: MicroSteps,
        other: MicroSteps,
        *,
        share: float,
        steps: int,
        accumulation: int,
        seed: int,
        prefix: str,
    ) -> None:
        self._both = (usual, other)
        self._prefix = prefix
        chosen = np.random.default_rng([seed, CHOSEN]).random(steps) < share
        self._other = np.repeat(chosen, accumulation)
        # How many micro-batches of the other kind come before each number.
        self._before = np.concatenate([[0], np.cumsum(self._other)])
        self.ranks: Ranks = usual.ranks

    @property
    def shares(self) -> tuple[int, int]:
        """How many micro-batches of either kind there are."""
        return len(self._other) - int(self._before[-1]), int(self._before[-1])

    @property
    def kinds(self) -> list[PartSteps[Any]]:
        return [part for kind in self._both for part in kind.kinds]

    @property
    def tokens_at_once(self) -> int:
        """The larger of the two."""
        return max(kind.tokens_at_once for kind in self.kinds)

    @property
    def waited(self) -> float:
        """Seconds waited for batches so far."""
        return sum(kind.waited for kind in self._both)

    def start(self, first: int, last: int, until: int | None = None) -> None:
        for place, kind in enumerate(self._both):
            limit = None if until is None else self._own(until, place)
            kind.start(self._own(first, place), self._own(last, place), limit)

    def allow(self, until: int) -> None:
        for place, kind in enumerate(self._both):
            kind.allow(self._own(until, place))

    def stop(self) -> None:
        for kind in self._both:
            kind.stop()

    def sizes(self, number: int) -> dict[str, float]:
        """Return what micro-batch `number` has: tokens, whatever its kind."""
        place, own = self.of_kind(number)
        return {"tokens": self._both[place].sizes(own)["tokens"]}

    def names(self, number: int) -> list[str]:
        place, own = self.of_kind(number)
        return self._both[place].names(own)

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        """Add `share` times the gradient of micro-batch `number`; return its scalars."""
        place, own = self.of_kind(number)
        scalars = self._both[place](own, share)
        if not place:
            return scalars
        kept = {name: scalars[name] for name in ("loss", "rows")}
        return kept | {f"{self._prefix}{name}": value for name, value in scalars.items() if name != "rows"}

    def of_kind(self, number: int) -> tuple[int, int]:
        """Return the kind of micro-batch `number`, 0 or 1 for the other, and its number within its kind."""
        place = int(self._other[number])
        return place, self._own(number, place)

    def _own(self, number: int, place: int) -> int:
        """Return how many micro-batches of kind `place` come before `number`."""
        other = int(self._before[min(number, len(self._other))])
        return other if place else min(number, len(self._other)) - other


MicroSteps = PartSteps[Any] | SwitchingSteps
