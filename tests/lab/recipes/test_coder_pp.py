from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from alphita import artefact
from alphita.config import resolve
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.recipes import coder_pp
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.engine.loop import load_module
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.terms.mining import AnchorSampler, MinedNeighbours
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


def cut_at(monkeypatch, step: int, config: coder_pp.Config) -> None:
    run = TermSteps.__call__

    def failing(self: TermSteps, number: int, share: float) -> dict[str, torch.Tensor]:
        if number == step * config.accumulation:
            raise KeyboardInterrupt
        return run(self, number, share)

    monkeypatch.setattr(TermSteps, "__call__", failing)


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
    of = MinedNeighbours.of

    def noted(self: MinedNeighbours, some: np.ndarray) -> np.ndarray:
        mined[tuple(some.tolist())] = of(self, some)
        return mined[tuple(some.tolist())]

    monkeypatch.setattr(MinedNeighbours, "of", noted)
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


def test_neighbours_are_mined_anew_with_the_weights_of_their_step(
    terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    config = coder_pp.Config(**SMALL | {"checkpoint_every": 10, "anchors": 8})
    cut_at(monkeypatch, 15, config)
    with pytest.raises(KeyboardInterrupt):
        coder_pp.train(terminology, str(model), tmp_path / "m", config)
    work = tmp_path / "m.training"
    assert sorted(path.name for path in (work / "mined").iterdir()) == [
        "neighbours-00000000.npy",
        "neighbours-00000010.npy",
    ]
    names = TrainingNames(terminology)
    sampler = AnchorSampler(names.offsets, anchors=8, synonyms=2, least=2, seed=0)
    kept = []
    for step in (0, 10):
        encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=32)
        if step:
            load_module(
                work / f"step-{step:08d}" / "encoder.safetensors", TermForward(encoder, precision="fp32").module
            )
        anchors = np.unique(sampler.anchors_of(2 * step, 20))
        found = np.load(work / "mined" / f"neighbours-{step:08d}.npy")
        # Names of one vector may stand for one another, so what is compared is how near the names are: all of them.
        near = similarities(encoder, names.strings)[anchors]
        expected = -np.sort(-near, axis=1)[:, :6]
        assert [len(set(row)) for row in found.tolist()] == [6] * len(anchors)
        np.testing.assert_allclose(np.take_along_axis(near, found, axis=1), expected, atol=1e-5)
        kept.append({anchor: set(row) for anchor, row in zip(anchors.tolist(), found.tolist(), strict=True)})
    both = kept[0].keys() & kept[1].keys()
    assert len(both) > 20
    assert np.mean([len(kept[0][anchor] & kept[1][anchor]) / 6 for anchor in both]) < 0.9


@pytest.fixture(scope="module")
def whole(terminology: Terminology, model: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "m"
    coder_pp.train(terminology, str(model), out, coder_pp.Config(**SMALL))
    return out


@pytest.mark.parametrize("step", [3, 10, 24])
def test_a_run_cut_between_two_minings_goes_on_to_the_same_weights(
    terminology: Terminology, model: Path, whole: Path, tmp_path: Path, monkeypatch, step: int
) -> None:
    """Cut before a checkpoint, at a mining, and where the last checkpoint lies behind the last mining."""
    config = coder_pp.Config(**SMALL)
    cut_at(monkeypatch, step, config)
    with pytest.raises(KeyboardInterrupt):
        coder_pp.train(terminology, str(model), tmp_path / "cut", config)
    monkeypatch.undo()
    coder_pp.train(terminology, str(model), tmp_path / "cut", config, resume=True)
    assert artefact.hash_file(tmp_path / "cut" / "model.safetensors") == artefact.hash_file(whole / "model.safetensors")
    losses = [
        [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]
        for folder in (whole, tmp_path / "cut")
    ]
    assert losses[0] == losses[1]


def test_a_run_whose_findings_are_gone_does_not_go_on_with_others(
    terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    config = coder_pp.Config(**SMALL)
    cut_at(monkeypatch, 18, config)
    with pytest.raises(KeyboardInterrupt):
        coder_pp.train(terminology, str(model), tmp_path / "m", config)
    monkeypatch.undo()
    # The checkpoint is of step 14; the weights of step 10 are gone.
    (tmp_path / "m.training" / "mined" / "neighbours-00000010.npy").unlink()
    with pytest.raises(InputError, match="mined at step 10 is gone"):
        coder_pp.train(terminology, str(model), tmp_path / "m", config, resume=True)


def test_findings_of_long_ago_are_dropped(terminology: Terminology, model: Path, tmp_path: Path, monkeypatch) -> None:
    config = coder_pp.Config(**SMALL | {"refresh_every": 3})
    cut_at(monkeypatch, 31, config)
    with pytest.raises(KeyboardInterrupt):
        coder_pp.train(terminology, str(model), tmp_path / "m", config)
    work = tmp_path / "m.training"
    steps = sorted(int(path.stem[-8:]) for path in (work / "mined").iterdir())
    # The checkpoints are of steps 21 and 28: what they go on with is there, and little else.
    assert sorted(path.name for path in work.glob("step-*")) == ["step-00000021", "step-00000028"]
    assert steps == [21, 24, 27, 30]


@pytest.mark.parametrize("changes", [{"least_names": 1}, {"exact_up_to": 10}, {"neighbours": 500, "synonyms": 500}])
def test_other_ways_to_make_batches_train_too(
    terminology: Terminology, model: Path, tmp_path: Path, changes: dict[str, int]
) -> None:
    coder_pp.train(terminology, str(model), tmp_path / "m", coder_pp.Config(**SMALL | changes))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert np.mean(losses[-8:]) < 0.8 * np.mean(losses[:8])


def test_languages_cannot_be_weighted() -> None:
    assert resolve(coder_pp.Config, sets=["languages=en,it"]).languages == "en,it"
    with pytest.raises(UsageError, match="anchors are drawn alike; give languages without weights"):
        resolve(coder_pp.Config, sets=["languages=en:1,it:4"])
