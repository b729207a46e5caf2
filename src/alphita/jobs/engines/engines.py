"""The engines by name. A choice is loaded when it is asked for, for each needs packages of its own."""

from __future__ import annotations

import importlib
from typing import cast

from alphita.errors import UsageError
from alphita.jobs.engines.engine import Engine
from alphita.registry import unknown

ENGINES = ("processes", "ray", "spark")


def open_engine(name: str, workers: int | None = None, address: str | None = None, gpus: float = 0) -> Engine:
    """Open an engine."""
    if name not in ENGINES:
        raise UsageError(unknown("engine", name, ENGINES))
    module = importlib.import_module(f"alphita.jobs.engines.{name}")
    return cast(Engine, module.open_engine(workers, address, gpus))
