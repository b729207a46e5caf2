"""Micro-batches: the questions of several requests are answered together, by one worker thread.

A request whose questions are alone is answered at once. While others are arriving (announced, their bodies not yet
read) the batch waits for them, a window of some milliseconds at most; while the worker is busy, what comes in gathers
by itself. A batch holds about `budget` tokens; a request with more is cut, and the others get their turn between its
parts. Only questions of one kind go into one batch, so that no answer depends on who else asks.

Everything but `work` runs on the event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
Q_in = TypeVar("Q_in", contravariant=True)
A_out = TypeVar("A_out", covariant=True)

CHARACTERS_A_TOKEN = 4
SPECIAL_TOKENS = 2
# Tokens beyond are cut by the encoders.
MOST_TOKENS = 128
# Weight of the newest batch in the rate of answering.
NEWEST = 0.2


class Work(Protocol[Q_in, A_out]):
    """What answers a batch."""

    def __call__(self, kind: Hashable, questions: Sequence[Q_in], /) -> Sequence[A_out]:
        """Return one answer per question, in order."""
        ...


class Batch(NamedTuple):
    """What a batch was, for the metrics.

    Attributes:
        questions: in it.
        tokens: about.
        requests: that they came from.
        seconds: that they took.
    """

    questions: int
    tokens: int
    requests: int
    seconds: float


class QueueFull(Exception):
    """Too much is waiting.

    Attributes:
        seconds: after which there should be room again.
    """

    def __init__(self, seconds: float) -> None:
        """Say when to come again."""
        super().__init__("the queue is full")
        self.seconds = seconds


def tokens(string: str) -> int:
    """Return about how many tokens a string has."""
    return min(SPECIAL_TOKENS + -(-len(string) // CHARACTERS_A_TOKEN), MOST_TOKENS)


class Arrival:
    """A request that is being received; batches wait for it, within the window."""

    def __init__(self, batcher: Batcher) -> None:
        """Use `Batcher.announce`."""
        self._batcher: Batcher | None = batcher

    def over(self) -> None:
        """Say that it has asked, or will not; saying it again does nothing."""
        if self._batcher is not None:
            self._batcher._arrived()
            self._batcher = None

    def __enter__(self) -> Arrival:
        """Use as a context manager."""
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """See `over`."""
        self.over()


@dataclass(eq=False)
class _Job(Generic[Q, A]):
    """One request's questions.

    Attributes:
        kind: of them.
        questions: all.
        costs: their tokens.
        done: gets the answers.
        answers: those that are there.
    """

    kind: Hashable
    questions: Sequence[Q]
    costs: Sequence[int]
    done: asyncio.Future[list[A]]
    answers: list[A] = field(default_factory=list)

    def take(self, budget: int) -> int:
        """Return how many further questions fit the budget."""
        count = 0
        for cost in self.costs[len(self.answers) :]:
            if cost > budget:
                break
            budget -= cost
            count += 1
        return count

    def give(self, answers: Sequence[A]) -> None:
        self.answers.extend(answers)
        if len(self.answers) == len(self.questions) and not self.done.done():
            self.done.set_result(self.answers)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Batcher(Generic[Q, A]):
    """Answers questions in batches, off the event loop.

    Attributes:
        waiting: questions of all requests that are not answered yet.
    """

    def __init__(
        self,
        work: Work[Q, A],
        *,
        cost: Callable[[Q], int],
        budget: int,
        window: float,
        capacity: int,
        observe: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        """Answer by `work`, called from one thread.

        Args:
            work: answers questions of one kind.
            cost: tokens of a question.
            budget: tokens of a batch; a single question may have more.
            window: seconds to wait for announced requests.
            capacity: questions that may wait; more are refused, but for a request that is alone.
            observe: is told of each batch.
        """
        self._work, self._cost, self._observe = work, cost, observe
        self._budget, self._window, self._capacity = budget, window, capacity
        self._queue: deque[_Job[Q, A]] = deque()
        self._answering: list[tuple[_Job[Q, A], int]] = []
        self._executor: ThreadPoolExecutor | None = None
        self._pump: asyncio.Task[None] | None = None
        self._announced = 0
        self._all_here: asyncio.Event | None = None
        self._rate = 0.0
        self.waiting = 0

    def announce(self) -> Arrival:
        """Say that a request is being received that will ask."""
        self._announced += 1
        return Arrival(self)

    async def ask(self, kind: Hashable, questions: Sequence[Q], arrival: Arrival | None = None) -> list[A]:
        """Return the answers, in the order of the questions.

        Args:
            kind: questions of one kind are answered together.
            questions: any number.
            arrival: what `announce` gave, if it was announced.

        Raises:
            QueueFull: there is no room.
            Exception: what `work` raised for these questions.
        """
        if not questions:
            return []
        if self.waiting and self.waiting + len(questions) > self._capacity:
            raise QueueFull(self.seconds_to_wait())
        loop = asyncio.get_running_loop()
        job: _Job[Q, A] = _Job(kind, questions, [self._cost(one) for one in questions], loop.create_future())
        self._queue.append(job)
        self.waiting += len(questions)
        if arrival is not None:
            arrival.over()
        if self._pump is None:
            # A task begins in the loop's next round: what is ready in this one comes along.
            self._pump = loop.create_task(self._run())
        try:
            return await job.done
        finally:
            self.waiting -= len(questions)

    def seconds_to_wait(self) -> float:
        """Return in how many seconds what is waiting now should be answered."""
        return self.waiting / self._rate if self._rate else 1.0

    async def close(self) -> None:
        """Answer what is waiting, then end the worker."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    def _arrived(self) -> None:
        self._announced -= 1
        if not self._announced and self._all_here is not None:
            self._all_here.set()

    async def _run(self) -> None:
        """Answer batches until nothing waits."""
        failure: Exception = RuntimeError("the server is stopping")
        try:
            while self._queue:
                await self._wait_for_announced()
                if parts := self._take():
                    self._answering = parts
                    await self._answer(parts)
        except Exception as error:
            failure = error
            raise
        finally:
            self._pump = None
            for job in [*self._queue, *(job for job, _ in self._answering)]:
                job.fail(failure)
            self._queue.clear()
            self._answering = []

    async def _wait_for_announced(self) -> None:
        if not self._announced or self.waiting_tokens() >= self._budget:
            return
        self._all_here = asyncio.Event()
        try:
            async with asyncio.timeout(self._window):
                await self._all_here.wait()
        except TimeoutError:
            pass
        finally:
            self._all_here = None

    def waiting_tokens(self) -> int:
        """Return about how many tokens wait, counted up to the budget."""
        count = 0
        for job in self._queue:
            count += sum(job.costs[len(job.answers) :])
            if count >= self._budget:
                break
        return count

    def _take(self) -> list[tuple[_Job[Q, A], int]]:
        """Return the next batch, as requests and how many of their questions, and put those not finished last."""
        parts: list[tuple[_Job[Q, A], int]] = []
        passed: deque[_Job[Q, A]] = deque()
        cut: list[_Job[Q, A]] = []
        left = self._budget
        while self._queue and left > 0:
            job = self._queue.popleft()
            if job.done.done():  # whoever asked has gone
                continue
            if parts and job.kind != parts[0][0].kind:
                passed.append(job)
                continue
            count = job.take(left) if parts else max(1, job.take(left))
            if not count:
                passed.append(job)
                break
            start = len(job.answers)
            left -= sum(job.costs[start : start + count])
            parts.append((job, count))
            if start + count < len(job.questions):
                cut.append(job)
        self._queue.extendleft(reversed(passed))
        self._queue.extend(cut)
        return parts

    async def _answer(self, parts: list[tuple[_Job[Q, A], int]]) -> None:
        """Answer a batch; where it fails, each request by itself, so that an error reaches only its own."""
        try:
            answers = await self._in_thread(parts)
        except Exception as error:
            if len(parts) == 1:
                parts[0][0].fail(error)
                return
            for part in parts:
                await self._answer([part])
            return
        place = 0
        for job, count in parts:
            job.give(answers[place : place + count])
            place += count

    async def _in_thread(self, parts: list[tuple[_Job[Q, A], int]]) -> Sequence[A]:
        questions = [one for job, count in parts for one in job.questions[len(job.answers) : len(job.answers) + count]]
        cost = sum(sum(job.costs[len(job.answers) : len(job.answers) + count]) for job, count in parts)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="normalize")
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._executor, self._work, parts[0][0].kind, questions)
        seconds = time.perf_counter() - start
        if len(answers) != len(questions):
            raise RuntimeError(f"{len(questions)} questions got {len(answers)} answers")
        rate = len(questions) / max(seconds, 1e-6)
        self._rate = rate if not self._rate else NEWEST * rate + (1 - NEWEST) * self._rate
        self._observe(Batch(len(questions), cost, len(parts), seconds))
        return answers
