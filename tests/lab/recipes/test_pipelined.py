from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.graph.store import EntityVectors
from alphita_lab.recipes import kge_injection, kge_margin, pipelined

SMALL: dict[str, Any] = {
    "layer": 1,
    "nearest": 5,
    "injection_batch": 6,
    "injection_steps": 8,
    "injection_warmup_steps": 2,
    "injection_learning_rate": 2e-3,
    "prototypes": 4,
    "positives": 4,
    "negatives": 6,
    "steps": 8,
    "warmup_steps": 2,
    "accumulation": 2,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "log_every": 1,
    "checkpoint_every": 3,
    "refresh_every": 4,
}


def config(paths: dict[str, str], **changes: object) -> pipelined.Config:
    return pipelined.Config(**SMALL | paths | changes)


def weights(folder: Path) -> dict[str, str]:
    return {file.name: artefact.hash_file(file) for file in sorted(folder.glob("*.safetensors"))}


def test_its_settings_are_those_of_its_two_phases() -> None:
    found, injection, margin = pipelined.Config(), kge_injection.Config(), kge_margin.Config()
    for name in kge_margin.Config.model_fields:
        assert getattr(found, name) == getattr(margin, name), name
    for name in ("layer", "nearest", "share", "linking", "dev_sequences"):
        assert getattr(found, name) == getattr(injection, name), name
    for name in ("batch", "steps", "accumulation", "learning_rate", "warmup_steps"):
        assert getattr(found, f"injection_{name}") == getattr(injection, name), name


def test_the_phases_are_the_two_recipes_one_after_the_other(terminology, model, paths, tmp_path) -> None:
    figures = pipelined.train(terminology, str(model), tmp_path / "m", config(paths))
    assert figures["loss"] >= 0
    names = ("layer", "nearest", "precision", "log_every", "checkpoint_every")
    first = kge_injection.Config(
        **paths, batch=6, steps=8, warmup_steps=2, learning_rate=2e-3, **{name: SMALL[name] for name in names}
    )
    kge_injection.train(terminology, str(model), tmp_path / "injected", first)
    kept = tmp_path / "m.phases" / "injected"
    assert weights(kept) == weights(tmp_path / "injected")
    second = kge_margin.Config(
        **paths, **{name: value for name, value in SMALL.items() if name in kge_margin.Config.model_fields}
    )
    kge_margin.train(terminology, str(tmp_path / "injected"), tmp_path / "margins", second)
    assert weights(tmp_path / "m") == weights(tmp_path / "margins")

    manifest = artefact.verify(tmp_path / "m", "model")
    assert manifest["recipe"] == "pipelined"
    assert manifest["phases"] == {"injected": artefact.open_manifest(kept, "model")["figures"]}
    assert manifest["config"] == config(paths).model_dump()

    # All weights train in both phases but the entities.
    before, after = (TermEncoder.load(folder, precision="fp32").module.model for folder in (kept, tmp_path / "m"))
    assert isinstance(after, InjectedBert)
    entities = EntityVectors.load(paths["graph"]).vectors
    for injected in (before, after):
        np.testing.assert_array_equal(injected.injection.entities.numpy(), entities)
    other = dict(before.named_parameters())
    for name, value in after.named_parameters():
        shared = value[: len(other[name])] if value.shape != other[name].shape else value
        # A key's bias moves all similarities of a token alike, so softmax gives it no gradient.
        assert name.endswith("key.bias") or not torch.equal(shared, other[name]), name
