"""Vectors of a graph model as a system: of concepts for MCSM and relatedness, the model itself for link prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alphita.errors import InputError
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source, link_prediction
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems import ConceptSystem, System, load_system
from alphita_lab.graph import kge, models
from alphita_lab.graph.store import EntityVectors
from tests.lab.graph.graphs import ring


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return ring(tmp_path_factory.mktemp("graph") / "ring.terminology")


@pytest.fixture(scope="module")
def vectors(graph: Terminology) -> Path:
    pytest.importorskip("pykeen")
    out = graph.path.with_name("ring.vectors")
    config = models.load("complex").Config(dim=16, epochs=10, batch_size=32, negatives=20)
    kge.train(graph, "complex", out, config, work=out.with_name("work"), progress=False)
    return out


def test_concepts_have_their_vectors(vectors: Path) -> None:
    system = load_system(f"graph_vectors:{vectors},name=ring")
    assert isinstance(system, ConceptSystem)
    assert not isinstance(system, System)
    assert isinstance(system, link_prediction.LinkSystem)
    opened = EntityVectors.load(vectors)
    found = system.encode_concepts(["R:003", "R:alone", "R:000"])
    assert found.dtype == np.float32
    assert np.array_equal(found[[0, 2]], opened.vectors[opened.rows(["R:003", "R:000"])])
    assert np.isnan(found[1]).all()
    assert system.encode_concepts([]).shape == (0, 16)
    assert (system.name, system.facts["model"], system.facts["dimension"]) == ("ring", "complex", 16)


def test_link_prediction_finds_the_figures_of_training(graph: Terminology, vectors: Path) -> None:
    options = link_prediction.Options()
    data = link_prediction.load(Source(None, graph, "link_prediction", "somewhere"), options)
    result = link_prediction.evaluate(data, load_system(f"graph_vectors:{vectors}"), options)
    figures = {one.metric: one.value for one in figures_of(result) if one.subset == "all"}
    trained = EntityVectors.load(vectors).facts["figures"]["test"]
    assert {name: figures[name] for name in trained} == pytest.approx(trained)


def test_what_it_trained_on_is_not_asked_about(graph: Terminology, vectors: Path) -> None:
    options = link_prediction.Options(seed=1)
    data = link_prediction.load(Source(None, graph, "link_prediction", "somewhere"), options)
    with pytest.raises(InputError, match=r"trained on other triples.*one terminology, split, seed"):
        link_prediction.evaluate(data, load_system(f"graph_vectors:{vectors}"), options)
