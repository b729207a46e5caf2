"""A server that is told to reload again and again keeps the memory of one index."""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref

import pytest

from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita.service.workers import Opened
from tests.conftest import SETTLE
from tests.doubles import ROWS, HashEncoder, SmallTerminology
from tests.service.review_service import client_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    for name, rows in (("one", ROWS), ("two", ROWS[:-1])):
        build(SmallTerminology(rows), HashEncoder(), folder / name)
    return [folder / "one", folder / "two"]


def test_an_index_that_is_no_longer_in_service_is_forgotten(paths, monkeypatch):
    monkeypatch.setattr(machine, "settle", SETTLE)
    opened: list[weakref.ref[Normalizer]] = []
    following = itertools.cycle(paths)

    def reopen(_: object) -> Opened:
        normalizer = Normalizer(Index.open(next(following)), encoder=HashEncoder())
        opened.append(weakref.ref(normalizer))
        return Opened(normalizer, None, ())

    def alive() -> int:
        return sum(one() is not None for one in opened)

    first = Normalizer(Index.open(paths[1]), encoder=HashEncoder())
    with contextlib.ExitStack() as ending, client_of(first, reopen=reopen, rate=0) as client:
        ending.callback(gc.enable)
        # Nothing but the reload is to look for what refers to itself.
        gc.disable()
        for _ in range(4):
            assert client.post("/normalize", json={"mentions": ["headache"]}).status_code == 200
            assert client.get("/api/me").status_code == 200
            assert client.get("/search?q=head").status_code == 200
            assert client.post("/admin/reload").status_code == 200
        wait_until(lambda: alive() == 1)
