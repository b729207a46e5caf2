"""Threads: how many there are to use, and work done in several."""

from __future__ import annotations

import threading

import pytest

from alphita import machine


def test_work_is_done_in_several_threads_with_one_native_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    together = threading.Barrier(3, timeout=10)

    def work(item: int) -> tuple[int, int, str]:
        # Nobody passes unless three are at work at once.
        together.wait()
        return item * item, machine.threads(), threading.current_thread().name

    done = machine.in_threads(work, list(range(6)))
    assert [square for square, _, _ in done] == [0, 1, 4, 9, 16, 25]
    assert {native for _, native, _ in done} == {1}
    assert len({name for _, _, name in done}) == 3
    assert machine.threads() == 3


def test_torch_has_its_threads_again_afterwards(monkeypatch):
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)
    try:
        assert machine.in_threads(lambda _: torch.get_num_threads(), [0, 1, 2]) == [1, 1, 1]
        assert torch.get_num_threads() == 2
        assert machine.in_threads(lambda _: torch.get_num_threads(), [0]) == [2]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_first_failure_is_raised_and_the_rest_is_left(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            raise ValueError("item 1")

    with pytest.raises(ValueError, match="item 1"):
        machine.in_threads(work, list(range(10_000)))
    assert len(begun) < 10_000
