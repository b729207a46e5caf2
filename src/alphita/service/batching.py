"""Micro-batches: the questions of several requests are answered together; a lone request is answered at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
Q_in = TypeVar("Q_in", contravariant=True)
A_out = TypeVar("A_out", covariant=True)

CHARACTERS_A_TOKEN = 4
SPECIAL_TOKENS = 2
# Tokens beyond are cut by the encoders.
MAX_TOKENS = 128
# Weight of the newest batch in the rate of answering.
NEWEST = 0.2
# What waits is shared by idle workers in parts of no fewer tokens: each batch has its own expense.
MIN_SHARE = 512


class Work(Protocol[Q_in, A_out]):
    """What answers a batch."""

    def __call__(self, kind: Hashable, questions: Sequence[Q_in], /) -> Sequence[A_out]:
        """Return one answer per question, in order."""
        ...


class Batch(NamedTuple):
    """What a batch was, for the metrics; `tokens` about."""

    questions: int
    tokens: int
    requests: int
    seconds: float


class QueueFull(Exception):
    """Too much is waiting; after `seconds` there should be room again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("the queue is full")
        self.seconds = seconds


def tokens(string: str) -> int:
    """Return about how many tokens a string has."""
    return min(SPECIAL_TOKENS + -(-len(string) // CHARACTERS_A_TOKEN), MAX_TOKENS)


class Arrival:
    """A request that is being received; batches wait for it, within the window."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher: Batcher | None = batcher

    def over(self) -> None:
        """Say that it has asked, or will not; saying it again does nothing."""
        if self._batcher is not None:
            self._batcher._arrived()
            self._batcher = None

    def __enter__(self) -> Arrival:
        return self

    def __exit__(self, *_: object) -> None:
        self.over()


@dataclass(eq=False)
class _Job(Generic[Q, A]):
    """One request's questions; `answers` are those that are there, by their place; `taken` were given to workers."""

    kind: Hashable
    questions: Sequence[Q]
    costs: Sequence[int]
    done: asyncio.Future[list[A]]
    taken: int = 0
    answers: dict[int, A] = field(default_factory=dict)

    def take(self, budget: int, least: int) -> slice:
        """Return the next questions that fit the budget, and at least so many."""
        start, left = self.taken, budget
        while self.taken < len(self.costs) and (self.costs[self.taken] <= left or self.taken - start < least):
            left -= self.costs[self.taken]
            self.taken += 1
        return slice(start, self.taken)

    def give(self, part: slice, answers: Sequence[A]) -> None:
        self.answers.update(zip(range(part.start, part.stop), answers, strict=True))
        if len(self.answers) == len(self.questions) and not self.done.done():
            self.done.set_result([self.answers[place] for place in range(len(self.questions))])

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Part(NamedTuple):
    """Some questions of a request, in a batch."""

    job: _Job[Any, Any]
    places: slice

    @property
    def cost(self) -> int:
        return sum(self.job.costs[self.places])


class _Worker(Generic[Q, A]):
    """What answers one batch at a time, always in the same thread; the first is asked before the others."""

    def __init__(self, number: int, work: Work[Q, A]) -> None:
        self.number, self._work = number, work
        self._executor: ThreadPoolExecutor | None = None

    async def answer(self, kind: Hashable, questions: Sequence[Q]) -> Sequence[A]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="normalize")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, kind, questions)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


class Batcher(Generic[Q, A]):
    """Answers questions in batches, off the event loop; `waiting` are those of all requests not answered yet."""

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
        self._cost, self._observe = cost, observe
        self._budget, self._window, self._capacity = budget, window, capacity
        self._queue: deque[_Job[Q, A]] = deque()
        self._workers = [_Worker(0, work)]
        self._idle = list(self._workers)
        self._pump: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._announced = 0
        self._all_here: asyncio.Event | None = None
        self._rate = 0.0
        self.waiting = 0

    def add(self, work: Work[Q, A]) -> None:
        """Answer by `work`, too, called from a thread of its own, whatever the others are at."""
        worker = _Worker(len(self._workers), work)
        self._workers.append(worker)
        self._idle.append(worker)
        self._changed.set()

    def announce(self) -> Arrival:
        """Say that a request is being received that will ask."""
        self._announced += 1
        return Arrival(self)

    async def ask(self, kind: Hashable, questions: Sequence[Q], arrival: Arrival | None = None) -> list[A]:
        """Return the answers in order, questions of one kind together; raise `QueueFull`, or what the work raises."""
        if not questions:
            return []
        if self.waiting and self.waiting + len(questions) > self._capacity:
            raise QueueFull(self.seconds_to_wait())
        loop = asyncio.get_running_loop()
        job: _Job[Q, A] = _Job(kind, questions, [self._cost(question) for question in questions], loop.create_future())
        self._queue.append(job)
        self.waiting += len(questions)
        if arrival is not None:
            arrival.over()
        self._changed.set()
        if self._pump is None:
            # A task begins in the loop's next round: what is ready in this one comes along.
            self._pump = loop.create_task(self._run())
        try:
            return await job.done
        finally:
            self.waiting -= len(questions)

    def seconds_to_wait(self) -> float:
        """Return in how many seconds what is waiting now should be answered."""
        return self.waiting / (self._rate * len(self._workers)) if self._rate else 1.0

    async def close(self) -> None:
        """Answer what is waiting, then end the workers' threads."""
        if self._pump is not None:
            await asyncio.wait([self._pump])
        for worker in self._workers:
            worker.close()

    def _arrived(self) -> None:
        self._announced -= 1
        if not self._announced and self._all_here is not None:
            self._all_here.set()

    async def _run(self) -> None:
        """Answer batches until nothing waits and nobody works."""
        failure: Exception = RuntimeError("the server is stopping")
        try:
            while self._queue or self._running:
                self._changed.clear()
                if self._queue and self._idle:
                    await self._wait_for_announced()
                    if parts := self._take():
                        self._begin(parts)
                else:
                    await self._changed.wait()
        except Exception as error:
            failure = error
            raise
        finally:
            self._pump = None
            for task in self._running:
                task.cancel()
            for job in self._queue:
                job.fail(failure)
            self._queue.clear()

    def _begin(self, parts: list[_Part]) -> None:
        worker = min(self._idle, key=attrgetter("number"))
        self._idle.remove(worker)
        task = asyncio.get_running_loop().create_task(self._answer(worker, parts))
        self._running.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            self._idle.append(worker)
            self._changed.set()
            for part in parts:  # where nobody answered them, the server is stopping
                if task.cancelled():
                    part.job.fail(RuntimeError("the server is stopping"))

        task.add_done_callback(ended)

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
        """Return about how many tokens wait for a worker, counted up to what the idle ones may take."""
        count = 0
        for job in self._queue:
            count += sum(job.costs[job.taken :])
            if count >= self._budget * len(self._idle):
                break
        return count

    def _share(self) -> int:
        """Return the tokens of the next batch: where several workers are idle, each gets its share of what waits."""
        share = -(-self.waiting_tokens() // len(self._idle))
        return self._budget if len(self._idle) == 1 else min(self._budget, max(share, MIN_SHARE))

    def _take(self) -> list[_Part]:
        """Return the next batch, and put the requests not finished last."""
        parts: list[_Part] = []
        passed: deque[_Job[Q, A]] = deque()
        cut: list[_Job[Q, A]] = []
        left = self._share()
        while self._queue and left > 0:
            job = self._queue.popleft()
            if job.done.done():  # whoever asked has gone
                continue
            if parts and job.kind != parts[0].job.kind:
                passed.append(job)
                continue
            places = job.take(left, least=0 if parts else 1)
            if places.start == places.stop:
                passed.append(job)
                break
            parts.append(_Part(job, places))
            left -= parts[-1].cost
            if job.taken < len(job.questions):
                cut.append(job)
        self._queue.extendleft(reversed(passed))
        self._queue.extend(cut)
        return parts

    async def _answer(self, worker: _Worker[Q, A], parts: list[_Part]) -> None:
        """Answer a batch; where it fails, each request by itself, so that an error reaches only its own."""
        try:
            answers = await self._in_thread(worker, parts)
        except Exception as error:
            if len(parts) == 1:
                parts[0].job.fail(error)
                return
            for part in parts:
                await self._answer(worker, [part])
            return
        place = 0
        for job, places in parts:
            count = places.stop - places.start
            job.give(places, answers[place : place + count])
            place += count

    async def _in_thread(self, worker: _Worker[Q, A], parts: list[_Part]) -> Sequence[A]:
        questions = [question for part in parts for question in part.job.questions[part.places]]
        start = time.perf_counter()
        answers = await worker.answer(parts[0].job.kind, questions)
        seconds = time.perf_counter() - start
        if len(answers) != len(questions):
            raise RuntimeError(f"{len(questions)} questions got {len(answers)} answers")
        rate = len(questions) / max(seconds, 1e-6)
        self._rate = rate if not self._rate else NEWEST * rate + (1 - NEWEST) * self._rate
        self._observe(Batch(len(questions), sum(part.cost for part in parts), len(parts), seconds))
        return answers
