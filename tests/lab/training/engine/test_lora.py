"""Adapters: what they add is in the model's weights at the end, and nothing else has changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alphita import registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import UsageError
from alphita_lab.training.engine import lora
from tests.contracts.recipe_cases import Given, name_of
from tests.killing import cut_at
from tests.tiny import tiny_model

pytest.importorskip("peft")
STRINGS = ["pain of the heart", "eye swelling"]


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Given:
    folder = tmp_path_factory.mktemp("given")
    return Given(folder, tiny_model(folder / "model", dropout=0.0))


def train(given: Given, out: Path, **settings) -> dict[str, float]:
    recipe = registry.load("alphita_lab.recipes", "sapbert")
    assert name_of(recipe) == "sapbert"
    return given.train(
        recipe, out, **{"steps": 8, "checkpoint_every": 4, "lora_rank": 2, "learning_rate": 1e-2} | settings
    )


def test_merged_layers_give_what_adapters_do_and_go_back(given: Given) -> None:
    encoder = TermEncoder.load(given.model, precision="fp32", pooling="mean")
    before = encoder.encode(STRINGS)
    module = encoder.module
    own = {name: value.clone() for name, value in module.model.state_dict().items()}
    lora.adapt(module, 2)
    for layer in lora.adapters(module).values():
        torch.nn.init.normal_(layer.lora_B["default"].weight)
    with torch.no_grad():
        adapted = module(*encoder.pad(encoder.tokenize(STRINGS)))
    adapted = torch.nn.functional.normalize(adapted, dim=1) if encoder.normalize else adapted
    with lora.merged(module):
        np.testing.assert_allclose(encoder.encode(STRINGS), adapted.numpy(), atol=1e-5)
    encoder.module  # noqa: B018 - its weights may have changed
    np.testing.assert_array_equal(encoder.encode(STRINGS), before)
    lora.fold(module)
    assert set(module.model.state_dict()) == set(own)
    encoder.module  # noqa: B018
    np.testing.assert_allclose(encoder.encode(STRINGS), adapted.numpy(), atol=1e-5)


def test_only_linear_layers_learn_and_a_cut_run_goes_on_to_the_same_weights(given: Given, tmp_path: Path) -> None:
    figures = train(given, tmp_path / "whole", dev_synonyms=3, evaluate_every=2)
    assert "dev_acc1" in figures
    before, after = (load_file(folder / "model.safetensors") for folder in (given.model, tmp_path / "whole"))
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.endswith("weight") and after[name].ndim == 2 and "embeddings" not in name for name in changed)
    from alphita_lab.training.terms.batches import TermSteps

    with cut_at(TermSteps, 6):
        train(given, tmp_path / "cut", dev_synonyms=3, evaluate_every=2)
    train(given, tmp_path / "cut", dev_synonyms=3, evaluate_every=2, resume=True)
    for name, value in load_file(tmp_path / "cut" / "model.safetensors").items():
        assert torch.equal(value, after[name]), name
    assert json.loads((tmp_path / "cut" / "manifest.json").read_text())["config"]["lora_rank"] == 2


def test_what_adapters_do_not_go_with_is_refused(given: Given, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="start_share averages weights"):
        train(given, tmp_path / "m", start_share=0.5)
    recipe = registry.load("alphita_lab.recipes", "kge_injection")
    with pytest.raises(UsageError, match="lora_rank goes with recipes that train on terms alone"):
        given.train(recipe, tmp_path / "m", steps=2, lora_rank=2)
