"""What recipes train on here beside a small encoder and terminology, and which strings they trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alphita.terminology.store import Terminology
from alphita_lab.training.engine.run import Run
from alphita_lab.training.terms.batches import TermSteps
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
def trained(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Note the strings that each run trains on, in a list that fills."""
    found: list[list[str]] = []
    of = TermSteps.of

    def spy(run: Run, strings: list[str], *rest: Any) -> TermSteps:
        found.append(strings)
        return of(run, strings, *rest)

    monkeypatch.setattr(TermSteps, "of", spy)
    return found
