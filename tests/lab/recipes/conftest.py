"""What recipes train on here beside a small encoder and terminology, and what cuts their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from alphita.terminology.store import Terminology
from tests.lab.training.linked_texts import graph_of, mentions_of


@pytest.fixture(scope="package")
def paths(tmp_path_factory: pytest.TempPathFactory, terminology: Terminology, model: Path) -> dict[str, str]:
    """Return the settings "mentions", of the terminology in a text, and "graph", vectors of most of its concepts."""
    folder = tmp_path_factory.mktemp("graph")
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts) if row % 8]
    return {
        "mentions": str(mentions_of(terminology, model, folder / "x.mentions")),
        "graph": str(graph_of(ids, folder / "x.vectors")),
    }


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, int], AbstractContextManager[None]]:
    """Interrupt the run in the context before micro-batch `number` of steps of a kind."""

    @contextmanager
    def cut(kind: Any, number: int) -> Iterator[None]:
        step = kind.__call__

        def failing(self: Any, current: int, share: float) -> dict[str, torch.Tensor]:
            if current == number:
                raise KeyboardInterrupt
            return step(self, current, share)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "__call__", failing)
            with pytest.raises(KeyboardInterrupt):
                yield

    return cut
