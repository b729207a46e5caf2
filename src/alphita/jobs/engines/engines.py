"""The engines by name. A choice is loaded when it is asked for, for each needs packages of its own."""

from __future__ import annotations

import importlib
from typing import cast

from alphita.errors import UsageError
from alphita.jobs.engines.engine import Engine
from alphita.registry import unknown

ENGINES = ("processes", "ray", "spark")


def open_engine(name: str, workers: int | None = None, address: str | None = None, gpus: float = 0) -> Engine:
    """Open an engine.

    Args:
        name: one of `ENGINES`.
        workers: how many processes do tasks; by default as many as the engine has room for.
        address: of the cluster; by default one on this machine.
        gpus: of each worker, or a share of one.

    Raises:
        UsageError: there is no such engine, or it has no such option.
        MissingExtra: its package is not installed.
        AlphitaError: its cluster cannot be reached.
    """
    if name not in ENGINES:
        raise UsageError(unknown("engine", name, ENGINES))
    module = importlib.import_module(f"alphita.jobs.engines.{name}")
    return cast(Engine, module.open_engine(workers, address, gpus))
