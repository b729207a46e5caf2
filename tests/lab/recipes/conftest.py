"""What recipes train on here: a small encoder, and a small terminology with relations; neither is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.terminology.store import Terminology
from tests.lab.training.linked_texts import graph_of, mentions_of
from tests.tiny import tiny_model, tiny_terminology


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="package")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology")


@pytest.fixture(scope="package")
def paths(tmp_path_factory: pytest.TempPathFactory, terminology: Terminology, model: Path) -> dict[str, str]:
    """Return the settings "mentions", of the terminology in a text, and "graph", vectors of most of its concepts."""
    folder = tmp_path_factory.mktemp("graph")
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts) if row % 8]
    return {
        "mentions": str(mentions_of(terminology, model, folder / "x.mentions")),
        "graph": str(graph_of(ids, folder / "x.vectors")),
    }
