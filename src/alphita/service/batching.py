"""Micro-batches: the questions of several requests are answered together; a lone request is answered at once.

Clients take turns. A batch takes `TURN` seconds at most while several of them ask, else `ALONE`, by what earlier ones
took, and a question that takes longer is never asked of the last idle worker.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
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
# Weight of the newest batch in the rate of answering.
NEWEST = 0.2
# Seconds of a batch while several clients ask, and while one does: another may come meanwhile.
TURN, ALONE = 0.04, 0.2
# For how many seconds one that has asked is counted as asking.
ACTIVE = 10.0
# What a batch costs by itself, in tokens.
EXPENSE = 64
# Tokens of a turn, however slow the machine is: a question of fewer is never a long one.
LEAST_TURN = 64
# Kinds whose speed is known.
MAX_KINDS = 64
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


class OutOfTime(Exception):
    """The deadline of a request has passed; `left` of its questions are not answered, and will not be."""

    def __init__(self, left: int) -> None:
        super().__init__("the deadline has passed")
        self.left = left


class Shared:
    """A limited thing that clients hold; where none is left, one with less than its share gets it all the same."""

    def __init__(self, limit: int) -> None:
        self.limit, self.total = limit, 0
        self._held: Counter[str] = Counter()

    def has_room(self, client: str, amount: int) -> bool:
        """Tell whether a client may take so much more."""
        share = self.limit / len({*self._held, client})
        return self.total + amount <= self.limit or self._held[client] + amount <= share

    def of(self, client: str) -> int:
        """Return how much a client holds."""
        return self._held[client]

    def take(self, client: str, amount: int) -> None:
        """Let a client hold more, or less; what it holds no more of is forgotten."""
        self.total += amount
        self._held[client] += amount
        if not self._held[client]:
            del self._held[client]


def tokens(string: str) -> int:
    """Return about how many tokens a string has."""
    return SPECIAL_TOKENS + -(-len(string) // CHARACTERS_A_TOKEN)


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
    client: str = ""
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
    """What answers one batch at a time, always in the same thread; the first, which shares an interpreter, last."""

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
    """Answers questions in batches, off the event loop."""

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
        self._budget, self._window = budget, window
        self._held = Shared(capacity)
        self._jobs_asked: set[_Job[Q, A]] = set()
        # By client; the one whose turn it is comes first.
        self._queue: dict[str, deque[_Job[Q, A]]] = {}
        self._asked: dict[str, float] = {}
        # Seconds and tokens of a kind's latest batches, of the kinds that came last.
        self._spent: dict[Hashable, tuple[float, float]] = {}
        self._workers = [_Worker(0, work)]
        self._idle = list(self._workers)
        self._pump: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._announced = 0
        self._all_here: asyncio.Event | None = None
        self._rate = 0.0

    @property
    def waiting(self) -> int:
        """The questions of all requests that are not answered yet."""
        return self._held.total

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

    async def ask(
        self,
        kind: Hashable,
        questions: Sequence[Q],
        arrival: Arrival | None = None,
        *,
        client: str = "",
        deadline: float | None = None,
    ) -> list[A]:
        """Return the answers in order, questions of one kind together.

        Raises:
            QueueFull: too much is waiting.
            OutOfTime: the deadline (of `time.monotonic`) is over; what is left is not answered.
            Exception: what the work raises.
        """
        if not questions:
            return []
        if self.waiting and not self._held.has_room(client, len(questions)):
            raise QueueFull(self.seconds_to_wait())
        loop, costs = asyncio.get_running_loop(), [self._cost(question) for question in questions]
        job: _Job[Q, A] = _Job(kind, questions, costs, loop.create_future(), client)
        self._queue.setdefault(client, deque()).append(job)
        self._held.take(client, len(questions))
        self._jobs_asked.add(job)
        self._count(client)
        if arrival is not None:
            arrival.over()
        self._changed.set()
        if self._pump is None:
            # A task begins in the loop's next round: what is ready in this one comes along.
            self._pump = loop.create_task(self._run())
        try:
            async with asyncio.timeout_at(deadline):
                return await job.done
        except TimeoutError:
            if not job.done.cancelled():  # the work's own
                raise
            raise OutOfTime(len(questions) - len(job.answers)) from None
        finally:
            self._held.take(client, -len(questions))
            self._jobs_asked.discard(job)

    async def give_way(self, client: str, seconds: float) -> None:
        """Wait while others' questions are answered; no longer than the seconds for which the client has worked."""
        if others := [job.done for job in self._jobs_asked if job.client != client]:
            await asyncio.wait(others, timeout=seconds)

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
                        continue
                if self._queue or self._running:
                    await self._changed.wait()
        except Exception as error:
            failure = error
            raise
        finally:
            self._pump = None
            for task in self._running:
                task.cancel()
            for job in self._jobs():
                job.fail(failure)
            self._queue.clear()

    def _begin(self, parts: list[_Part]) -> None:
        worker = max(self._idle, key=attrgetter("number"))
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

    def _jobs(self) -> Iterator[_Job[Q, A]]:
        return (job for jobs in self._queue.values() for job in jobs)

    def waiting_tokens(self) -> int:
        """Return about how many tokens wait for a worker, counted up to what the idle ones may take."""
        count = 0
        for job in self._jobs():
            count += sum(job.costs[job.taken :])
            if count >= self._budget * len(self._idle):
                break
        return count

    def _share(self) -> int:
        """Return the tokens of the next batch: where several workers are idle, each gets its share of what waits."""
        share = -(-self.waiting_tokens() // len(self._idle))
        return self._budget if len(self._idle) == 1 else min(self._budget, max(share, MIN_SHARE))

    def _count(self, client: str) -> None:
        """Count a client as one that asks now; the one that did so longest ago comes first."""
        self._asked.pop(client, None)
        self._asked[client] = asyncio.get_running_loop().time()

    def _turn(self, kind: Hashable, alone: float = math.inf) -> float:
        """Return the tokens that a turn has time for, which has so many seconds while nobody else asks."""
        now = asyncio.get_running_loop().time()
        while self._asked and now - (first := next(iter(self._asked.items())))[1] > ACTIVE:
            del self._asked[first[0]]
        is_alone = len(self._asked) < 2
        if kind not in self._spent:
            return math.inf if is_alone else float(LEAST_TURN)
        seconds, cost = self._spent[kind]
        return max(float(LEAST_TURN), (alone if is_alone else TURN) * cost / seconds - EXPENSE)

    def _next_of(self, jobs: deque[_Job[Q, A]], kind: Hashable | None) -> _Job[Q, A] | None:
        """Return a client's next request, of one kind if it is given, that an idle worker may answer now."""
        for job in list(jobs):
            if job.done.done():  # whoever asked has gone
                jobs.remove(job)
            elif kind in (None, job.kind) and (
                len(self._idle) > 1 or len(self._workers) == 1 or job.costs[job.taken] <= self._turn(job.kind)
            ):
                return job
        return None

    def _take(self) -> list[_Part]:
        """Return the next batch: of each client a part, then again, as long as they fit."""
        parts: list[_Part] = []
        passed: dict[str, deque[_Job[Q, A]]] = {}
        left, each = self._share(), 0
        while self._queue and left > 0:
            client = next(iter(self._queue))
            jobs = self._queue.pop(client)
            self._count(client)
            job = self._next_of(jobs, parts[0].job.kind if parts else None)
            if job is not None and not parts:
                left = int(min(left, self._turn(job.kind, ALONE)))
                each = -(-left // (1 + len(self._queue)))
            if job is None or (parts and job.costs[job.taken] > left):
                passed |= {client: jobs} if jobs else {}
                continue
            places = job.take(min(left, each), least=1)
            parts.append(_Part(job, places))
            left -= parts[-1].cost
            jobs.remove(job)
            jobs.extend([job] if job.taken < len(job.questions) else [])
            if jobs:
                self._queue[client] = jobs
        self._queue = passed | self._queue
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
        cost, kind = sum(part.cost for part in parts), parts[0].job.kind
        before = self._spent.pop(kind, (0.0, 0.0))
        self._spent[kind] = (1 - NEWEST) * before[0] + max(seconds, 1e-6), (1 - NEWEST) * before[1] + cost + EXPENSE
        if len(self._spent) > MAX_KINDS:
            del self._spent[next(iter(self._spent))]
        rate = len(questions) / max(seconds, 1e-6)
        self._rate = rate if not self._rate else NEWEST * rate + (1 - NEWEST) * self._rate
        self._observe(Batch(len(questions), cost, len(parts), seconds))
        return answers
