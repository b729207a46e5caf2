"""Batches made ahead, in a thread of their own, so that the device never waits for the next one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
DEPTH = 4


class Ahead(Generic[T]):
    """Calls `make` for rising numbers in a thread, a few ahead of the one who asks.

    Attributes:
        waited: seconds that `get` waited so far.
    """

    def __init__(self, make: Callable[[int], T], first: int, last: int, *, until: int | None = None) -> None:
        """Start.

        Args:
            make: number -> batch; called for first, first + 1, ... up to last - 1, by one thread.
            first: the number to begin with.
            last: the number to stop before.
            until: go no further than before this number until `allow` is called; None: as far as there is room.
        """
        self.waited = 0.0
        self._made: deque[tuple[int, T | BaseException]] = deque()
        self._changed = threading.Condition()
        self._until = last if until is None else until
        self._stopped = False
        self._thread = threading.Thread(target=self._work, args=(make, first, last), daemon=True)
        self._thread.start()

    def get(self, number: int) -> T:
        """Return batch `number`; the numbers must be asked for in order.

        Raises:
            BaseException: what `make` raised for it.
        """
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
