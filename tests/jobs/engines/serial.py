"""An engine without processes: tasks one after the other, in any order, broken off after some if asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from alphita.jobs.engines import Opening, Receipt


class Broken(Exception):
    """The power is gone."""


class Serial:
    """Does tasks itself.

    Args:
        order: puts the tasks of a step in the order in which they are done.
        most: tasks after which it breaks off; None: never.
    """

    def __init__(self, order: Callable[[Sequence[int]], Sequence[int]] = list, most: int | None = None) -> None:
        self.order, self.most = order, most
        self.done: list[tuple[str, int]] = []
        self.released_after: int | None = None

    def facts(self) -> dict[str, str | int]:
        return {"engine": "serial", "version": "1", "workers": 1}

    def check(self, opening: Opening) -> None:
        opening()

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        worker = opening()
        for task in self.order(tasks):
            if self.most is not None and len(self.done) >= self.most:
                raise Broken
            receipt = worker(task)
            self.done.append((what, task))
            yield task, receipt

    def release(self) -> None:
        self.released_after = len(self.done)

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        pass
