"""Settings of all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from alphita import machine

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer

# Of several workers (pytest-xdist) each keeps to a core of its own, with what it starts: their threads would wait for
# each other, and two workers would take as long as one.
if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
    free = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {free[int(worker.removeprefix("gw")) % len(free)]})
# Beside another program, OpenMP's and OpenBLAS's threads would wait for each other most of the time: a ranker is fitted
# in a sixth of the processor time by one of the latter. Read when torch and NumPy are imported.
os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What a power cut would leave is no test's matter, and thousands of waits for the disk take minutes.
os.fsync = lambda _: None
gc.set_threshold(10_000, 20, 20)  # to look for garbage among two million objects takes a tenth of the time
# A server that starts looks through all objects of its process: for a second, among what thousands of tests have left.
SETTLE = machine.settle
machine.settle = lambda: None
# The same examples each time, so that a change is judged by itself, and a third of what a test asks for.
# ALPHITA_RANDOM_TESTS=1 draws all of them, and new ones (`make check-slow`).
MANY = bool(os.environ.get("ALPHITA_RANDOM_TESTS"))
FEW = 3
# How long examples take to draw is the machine's matter.
UNTIMED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("same", UNTIMED, derandomize=True)
hypothesis.settings.register_profile("random", UNTIMED)
hypothesis.settings.load_profile("random" if MANY else "same")


# Files of minutes: begun last, one worker would be at them while the others have nothing left to do.
LONG = (
    "lab/training/engine/test_ranks.py",
    "contracts/test_recipes.py",
    "jobs/engines/",
    "bench/",
    "runs/",
    "lab/recipes/",
    "contracts/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of long files first, and draw a third of the examples, however long each takes."""

    def place(item: pytest.Item) -> int:
        return next((number for number, part in enumerate(LONG) if f"tests/{part}" in item.path.as_posix()), len(LONG))

    items.sort(key=place)
    functions = {getattr(item.obj, "__func__", item.obj) for item in items if isinstance(item, pytest.Function)}
    for function in functions:
        if asked := getattr(function, "_hypothesis_internal_use_settings", None):
            examples = asked.max_examples if MANY else max(10, asked.max_examples // FEW)
            checks = {*asked.suppress_health_check, hypothesis.HealthCheck.too_slow}
            changed = hypothesis.settings(asked, max_examples=examples, deadline=None, suppress_health_check=checks)
            function._hypothesis_internal_use_settings = changed


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their length: workers must agree on every name, and what gzip made holds the second it was made."""
    return f"{argname}: {len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def index_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the few concepts of `doubles.small_terminology`, made once and written to by nobody."""
    from alphita.index.store import build
    from tests.doubles import HashEncoder, small_terminology

    path = tmp_path_factory.mktemp("index") / "small.index"
    build(small_terminology(), HashEncoder(), path)
    return path


@pytest.fixture
def normalizer(index_path: Path) -> Normalizer:
    """A normaliser over that index."""
    from alphita.answer.normalizer import Normalizer
    from alphita.index.store import Index
    from tests.doubles import HashEncoder

    return Normalizer(Index.open(index_path), encoder=HashEncoder())
