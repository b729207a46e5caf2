from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from alphita.encoder.encoder import TermEncoder
from alphita.terminology.store import Terminology
from alphita_lab.recipes import sapbert
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.terms.samplers import PairSampler
from tests.reference import relational
from tests.tiny import tiny_terminology

SMALL = {
    "pairs": 12,
    "steps": 1,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 1,
    "dropout": 0.0,
    "learning_rate": 1e-30,
}


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """32 concepts: 24 of three names and 8 of two."""
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology", relations=False)


@pytest.mark.parametrize("margin", [0.01, 0.2, 2.0])
def test_loss_of_a_batch_is_the_papers(terminology: Terminology, model: Path, tmp_path: Path, margin: float) -> None:
    """The logged loss equals loops over all triplets in float64, with a term that two pairs show standing twice."""
    constants = {"alpha": 3.0, "beta": 20.0, "lam": 0.9, "margin": margin}
    figures = sapbert.train(terminology, str(model), tmp_path / "m", sapbert.Config(**SMALL | constants))
    names = TrainingNames(terminology)
    concept, first, second = PairSampler(names.offsets, pairs=12, most=50, seed=0).batch(0)
    terms = np.concatenate([first, second])
    assert len(np.unique(terms)) < len(terms)
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=25)
    forward = TermForward(encoder, precision="fp32")
    forward.module.eval()
    with torch.no_grad():
        e = forward(encoder.tokenize([names.strings[term] for term in terms])).double().numpy()
    expected = relational.mined_term_term(e, np.tile(concept, 2), **constants)
    assert expected > 0.05
    assert figures["loss"] == pytest.approx(expected, rel=1e-4)
