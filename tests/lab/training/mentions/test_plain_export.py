from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.training.mentions.injection import inject
from alphita_lab.training.mentions.plain_export import Distilling, distil_plain, without_injection
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.terms.names import TrainingNames
from tests.killing import cut_at
from tests.tiny import tiny_model

SMALL: dict[str, Any] = {
    "batch": 32,
    "steps": 30,
    "warmup_steps": 5,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "dev_synonyms": 8,
    "checkpoint_every": 10,
    "dropout": 0.0,
}


@pytest.fixture(scope="module")
def injected(tmp_path_factory) -> Path:
    """An encoder in whose vectors what is injected is plain to see."""
    folder = tmp_path_factory.mktemp("model")
    encoder = TermEncoder.load(tiny_model(folder / "tiny"), precision="fp32", max_length=20)
    inject(encoder, np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32), layer=1, nearest=5)
    for part in (encoder.module.model.injection.down, encoder.module.model.injection.up):
        torch.nn.init.normal_(part.weight, std=0.3, generator=torch.Generator().manual_seed(0))
    encoder.save(folder / "injected")
    return folder / "injected"


def cosines(one: TermEncoder, other: TermEncoder, strings: list[str]) -> np.ndarray:
    vectors = [encoder.encode(strings) for encoder in (one, other)]
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors]
    return (unit[0] * unit[1]).sum(1)


def test_a_plain_encoder_gives_the_injected_ones_vectors(terminology, injected, tmp_path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    before = without_injection(injected)
    teacher = TermEncoder.load(injected, precision="fp32")
    names = TrainingNames(terminology, dev=8)
    apart = cosines(before, teacher, names.dev_strings).mean()
    figures = distil_plain(injected, tmp_path / "plain", terminology, Distilling(**SMALL | {"steps": 400}))
    plain = TermEncoder.load(tmp_path / "plain", precision="fp32")
    assert not isinstance(plain.module.model, InjectedBert)
    assert (plain.max_length, plain.pooling, plain.normalize) == (20, "mean", teacher.normalize)
    near = cosines(plain, teacher, names.dev_strings)
    assert figures["dev_cosine"] == pytest.approx(near.mean(), abs=1e-5)
    assert near.mean() > 0.95 > apart
    assert cosines(plain, teacher, names.strings).min() > 0.9
    assert figures["dev_acc1"] == names.dev_accuracy(plain)["dev_acc1"]
    assert figures["dev_acc1_injected"] == names.dev_accuracy(teacher)["dev_acc1"]
    manifest = artefact.verify(tmp_path / "plain", "model")
    assert manifest["injected"] == teacher.content_hash
    assert manifest["figures"] == figures
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    np.testing.assert_allclose(opened.encode(names.strings[:5]), plain.encode(names.strings[:5]), atol=1e-5)


def test_without_injection_is_the_model_inside(injected) -> None:
    whole, inside = TermEncoder.load(injected, precision="fp32"), without_injection(injected)
    weights = dict(whole.module.model.model.named_parameters())
    assert {name: value.shape for name, value in inside.module.model.named_parameters()} == {
        name: value.shape for name, value in weights.items()
    }
    for name, value in inside.module.model.named_parameters():
        assert torch.equal(value, weights[name])


def test_a_run_that_was_cut_goes_on_to_the_same_weights(terminology, injected, tmp_path) -> None:
    settings = Distilling(**SMALL | {"dropout": 0.1})
    distil_plain(injected, tmp_path / "whole", terminology, settings)
    with cut_at(TermSteps, 14):
        distil_plain(injected, tmp_path / "cut", terminology, settings)
    with pytest.raises(UsageError, match="--resume"):
        distil_plain(injected, tmp_path / "cut", terminology, settings)
    distil_plain(injected, tmp_path / "cut", terminology, settings, resume=True)
    one, other = (artefact.hash_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert one == other


def test_what_is_held_out_is_not_learnt(terminology, injected, tmp_path, monkeypatch) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    seen: set[str] = set()
    tokenize, encode = TermEncoder.tokenize, TermEncoder.encode
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, rows: seen.update(rows) or tokenize(self, rows))
    monkeypatch.setattr(TermEncoder, "encode", lambda self, rows: seen.update(rows) or encode(self, rows))
    distil_plain(injected, tmp_path / "m", terminology, Distilling(**SMALL | {"steps": 2}), split=split)
    assert len(seen) > 20
    assert not seen & split.cleaned


def test_a_plain_encoder_needs_no_export(terminology, tmp_path) -> None:
    plain = tiny_model(tmp_path / "tiny")
    with pytest.raises(InputError, match="no entities injected"):
        distil_plain(plain, tmp_path / "m", terminology, Distilling(**SMALL))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]
