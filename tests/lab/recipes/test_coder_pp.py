from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.recipes import coder_pp
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.terms.mining import AnchorSampler, MinedRows
from alphita_lab.training.terms.names import TrainingNames
from tests.reference.multi_similarity import cos, ms_loss
from tests.tiny import tiny_terminology

SMALL = {
    "anchors": 4,
    "neighbours": 6,
    "synonyms": 2,
    "refresh_every": 10,
    "steps": 40,
    "warmup_steps": 4,
    "accumulation": 2,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 1,
    "checkpoint_every": 7,
}
ONE_BATCH = SMALL | {"steps": 1, "accumulation": 1, "dropout": 0.0, "learning_rate": 1e-30}
HOMONYM = "pain of the heart"


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """32 concepts, of which each pain shares a name with the heart's: a homonym of eight meanings."""
    folder = tmp_path_factory.mktemp("data")
    tiny_terminology(folder / "tiny")
    with Rejects() as rejects:
        tables = obo.load([folder / "tiny.obo"], obo.Options(), rejects)
    pains = tables.terms.filter(pl.col("preferred") & pl.col("string").str.starts_with("pain of"))
    homonyms = pains.filter(pl.col("string") != HOMONYM).with_columns(string=pl.lit(HOMONYM), preferred=pl.lit(False))
    save(dataclasses.replace(tables, terms=pl.concat([tables.terms, homonyms])), folder / "changed")
    return load_terminology(folder / "changed")


def similarities(encoder: TermEncoder, strings: list[str]) -> np.ndarray:
    """The cosine of every name with every other."""
    vectors = encoder.encode(strings).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = np.round(vectors @ vectors.T, 6)
    np.fill_diagonal(similarity, -np.inf)
    return similarity


@pytest.mark.parametrize("mining", [True, False])
def test_loss_of_a_batch_is_over_anchors_neighbours_and_synonyms(
    terminology: Terminology, model: Path, tmp_path: Path, mining: bool, monkeypatch
) -> None:
    """The logged loss equals loops in float64 over a batch made by hand; homonyms are no pairs."""
    constants = {"alpha": 3.0, "beta": 20.0, "lam": 0.9, "eps": 0.01, "mining": mining}
    config = coder_pp.Config(**ONE_BATCH | constants | {"anchors": 12})
    mined: dict[tuple[int, ...], np.ndarray] = {}
    of = MinedRows.of

    def noted(self: MinedRows, some: np.ndarray) -> np.ndarray:
        mined[tuple(some.tolist())] = of(self, some)
        return mined[tuple(some.tolist())]

    monkeypatch.setattr(MinedRows, "of", noted)
    figures = coder_pp.train(terminology, str(model), tmp_path / "m", config)
    names = TrainingNames(terminology)
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=32)
    sampler = AnchorSampler(names.offsets, anchors=12, synonyms=2, least=2, seed=0)
    anchors = sampler.anchors(0)
    # Names that are one string have one vector, and which of them is found is chance: they are all as near.
    near, similarity = mined[tuple(anchors.tolist())], similarities(encoder, names.strings)[anchors]
    np.testing.assert_allclose(
        np.take_along_axis(similarity, near, axis=1), -np.sort(-similarity, axis=1)[:, :6], atol=2e-6
    )
    terms = sorted({*anchors.tolist(), *near.ravel().tolist(), *np.concatenate(sampler.synonyms(0, anchors)).tolist()})
    forward = TermForward(encoder, precision="fp32")
    forward.module.eval()
    with torch.no_grad():
        e = forward(encoder.tokenize([names.strings[term] for term in terms])).double().numpy()
    concept = [int(np.searchsorted(names.offsets, term, "right")) - 1 for term in terms]
    called = {
        c: set(names.strings[start:stop])
        for c, (start, stop) in enumerate(zip(names.offsets[:-1], names.offsets[1:], strict=True))
    }

    def kind(i: int, j: int) -> int | None:
        if i != j and concept[i] == concept[j]:
            return 1
        a, b = names.strings[terms[i]], names.strings[terms[j]]
        return None if any(a in own and b in own for own in called.values()) else 0

    size = len(terms)
    S = [[cos(e[i], e[j]) for j in range(size)] for i in range(size)]
    tau = [[kind(i, j) for j in range(size)] for i in range(size)]
    # The homonym stands several times, and is nobody's negative who shares a concept with it.
    assert sum(names.strings[term] == HOMONYM for term in terms) > 1
    assert sum(row.count(None) for row in tau) > size
    expected = ms_loss(S, tau, **constants)
    assert figures["loss"] == pytest.approx(expected, rel=1e-4)
    naive = [[None if i == j else int(concept[i] == concept[j]) for j in range(size)] for i in range(size)]
    assert ms_loss(S, naive, **constants) > expected + 1e-3
