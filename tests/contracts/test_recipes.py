"""What every recipe must do, whichever it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from alphita import artefact, registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita_lab.training.engine import loop
from tests.contracts.recipe_cases import CASES, Given, name_of
from tests.killing import cut_at, train_command, whole_and_resumed

RECIPES = registry.names("alphita_lab.recipes")
STRINGS = ["pain of the heart", "eye swelling", "something else"]


@pytest.fixture(params=RECIPES)
def recipe(request) -> ModuleType:
    return registry.load("alphita_lab.recipes", request.param)


def test_every_recipe_is_small_enough_to_be_tried() -> None:
    assert sorted(CASES) == RECIPES


def test_every_setting_says_what_it_is_and_where_it_comes_from(recipe: ModuleType) -> None:
    assert recipe.CITATION
    for name, field in recipe.Config.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name
        if name in recipe.Config.__annotations__:
            assert "(" in field.description, f"{name}: {field.description} names no source"


def test_a_run_that_was_cut_twice_goes_on_to_the_same_weights(recipe: ModuleType, given: Given, tmp_path: Path) -> None:
    # The refreshes of what is mined lie between the cuts too.
    mined = {name for name in ("refresh_every", "mine_every") if name in recipe.Config.model_fields}
    changes: dict[str, Any] = {"steps": 16, "log_every": 1, "checkpoint_every": 4} | dict.fromkeys(mined, 6)
    given.train(recipe, tmp_path / "whole", **changes)
    steps = CASES[name_of(recipe)].steps
    for stop_at, resume in ((7, False), (14, True)):
        with cut_at(steps, stop_at):
            given.train(recipe, tmp_path / "cut", resume=resume, **changes)
        assert not (tmp_path / "cut").exists()
        with pytest.raises(UsageError, match="--resume"):
            given.train(recipe, tmp_path / "cut", **changes)
    given.train(recipe, tmp_path / "cut", resume=True, **changes)
    assert not (tmp_path / "cut.training").exists()
    for file in sorted((tmp_path / "whole").glob("*.safetensors")):
        assert artefact.hash_file(file) == artefact.hash_file(tmp_path / "cut" / file.name), file.name

    def losses(name: str) -> list[tuple[int, float]]:
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [(entry["step"], entry["loss"]) for entry in map(json.loads, lines)]

    assert losses("cut") == losses("whole")


# Of the others only the slow tests.
QUICKLY = ("coder",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICKLY else [pytest.mark.slow]) for name in RECIPES]
)
def test_kill_9_and_resume_give_the_unbroken_run(name: str, given: Given, tmp_path: Path) -> None:
    recipe = registry.load("alphita_lab.recipes", name)
    settings = given.config(recipe, steps=20, checkpoint_every=5).model_dump(exclude_unset=True)
    command = train_command(name_of(recipe), given.to(recipe).path, given.model, settings)
    whole, resumed = whole_and_resumed(command, tmp_path)
    for file in sorted(whole.glob("*.safetensors")):
        assert artefact.hash_file(file) == artefact.hash_file(resumed / file.name), file.name


@pytest.mark.parametrize("name", QUICKLY)
def test_the_log_can_be_read_by_tensorboard(name: str, given: Given, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    given.train(registry.load("alphita_lab.recipes", name), tmp_path / "m", steps=10, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "m" / "tensorboard")).Reload()
    lines = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert [event.step for event in events.Scalars("loss")] == [line["step"] for line in lines] == [5, 10]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(
        [line["loss"] for line in lines], rel=1e-4, abs=1e-6
    )


def test_a_model_says_what_made_it_and_other_libraries_open_it(
    recipe: ModuleType, given: Given, tmp_path: Path
) -> None:
    out = tmp_path / "m"
    given.train(recipe, out, steps=1)
    manifest = artefact.verify(out, "model")
    assert manifest["recipe"] == name_of(recipe)
    assert manifest["config"] == given.config(recipe, steps=1).model_dump()
    assert manifest["terminology"] == given.to(recipe).content_hash
    # Where entities are injected, other libraries open it by our own code, as `load` does where it is not told how.
    injected = "graph" in CASES[name_of(recipe)].files
    own = TermEncoder.load(out, **({} if injected else {"precision": "fp32"})).encode(STRINGS)
    opened = SentenceTransformer(str(out), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(opened.encode(STRINGS), own, atol=1e-5)
    with pytest.raises(UsageError, match="already exists"):
        given.train(recipe, out, steps=1)
    given.train(recipe, out, steps=1, force=True)
    assert (tmp_path / "m.old-1").is_dir()


def test_held_out_strings_are_not_tokenized(recipe: ModuleType, given: Given, tmp_path: Path, monkeypatch) -> None:
    split = hold_out_synonyms(given.to(recipe), fraction=0.3, seed=1)
    if "mentions" in CASES[name_of(recipe)].files:
        with pytest.raises(InputError, match="made without a split, and training has one"):
            given.train(recipe, tmp_path / "m", split=split)
        return
    seen: set[str] = set()
    tokenize = TermEncoder.tokenize
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, rows: seen.update(rows) or tokenize(self, rows))
    given.train(recipe, tmp_path / "m", steps=2, split=split)
    assert len(split) > 3
    assert not seen & split.cleaned
    assert artefact.open_manifest(tmp_path / "m", "model")["split"] == split.hash


def test_another_seed_draws_other_batches(recipe: ModuleType, given: Given, tmp_path: Path) -> None:
    losses = {
        given.train(recipe, tmp_path / f"{number}", steps=2, seed=seed)["loss"] for number, seed in enumerate([0, 0, 1])
    }
    assert len(losses) == 2


def test_a_dry_run_tells_sizes_and_time_and_writes_nothing(
    recipe: ModuleType, given: Given, tmp_path: Path, capsys
) -> None:
    assert given.train(recipe, tmp_path / "m", dry_run=True) == {}
    told = capsys.readouterr().err
    own = CASES[name_of(recipe)].told
    for part in (
        f"dry run of {name_of(recipe)}",
        "trained numbers:",
        "80 steps: about",
        "PFLOP; ",
        "memory: about",
        *own,
    ):
        assert part in told
    assert list(tmp_path.iterdir()) == []


def test_another_recipe_or_config_cannot_take_a_run_over(recipe: ModuleType, given: Given, tmp_path: Path) -> None:
    with cut_at(CASES[name_of(recipe)].steps, 0):
        given.train(recipe, tmp_path / "m", steps=6)
    other = registry.load("alphita_lab.recipes", RECIPES[(RECIPES.index(name_of(recipe)) + 1) % len(RECIPES)])
    with pytest.raises(InputError, match="another recipe, config"):
        given.train(other, tmp_path / "m", resume=True, steps=6)
    with pytest.raises(InputError, match="another recipe, config"):
        given.train(recipe, tmp_path / "m", resume=True, steps=6, learning_rate=1e-3)
    # How it is run may change: the weights do not depend on it.
    given.train(recipe, tmp_path / "m", resume=True, steps=6, tokens_at_once=64, log_every=7)


@pytest.mark.parametrize("name", [*QUICKLY, "kge_injection", "pipelined"])
def test_the_average_of_the_weights_is_the_exponential_one(name: str, given: Given, tmp_path: Path) -> None:
    """After two steps with decay 0.5 the average is half the first step's weights and half the second's."""
    recipe = registry.load("alphita_lab.recipes", name)
    for name, changes in (("average", {"steps": 2, "ema": 0.5}), ("one", {"steps": 1}), ("two", {"steps": 2})):
        given.train(recipe, tmp_path / name, schedule="constant", warmup_steps=0, **changes)
    for file in sorted((tmp_path / "average").glob("*.safetensors")):
        average, one, two = (load_file(tmp_path / name / file.name) for name in ("average", "one", "two"))
        for name, value in average.items():
            torch.testing.assert_close(value, 0.5 * one[name] + 0.5 * two[name], atol=1e-6, rtol=1e-5, msg=name)
        # What is beside the model may have no part in one of the steps.
        assert file.stem != "model" or max(float((one[name] - two[name]).abs().max()) for name in one) > 1e-4


def test_the_learning_rate_follows_its_schedule() -> None:
    linear, cosine, constant = (
        [loop.learning_rate_factor(step, 2, 10, schedule) for step in range(11)]
        for schedule in ("linear", "cosine", "constant")
    )
    assert linear[:3] == cosine[:3] == constant[:3] == [0.5, 1.0, 1.0]
    assert linear[-1] == cosine[-1] == 0.0
    assert cosine[6] == pytest.approx(0.5)
    assert set(constant[1:]) == {1.0}
    assert cosine[4] > linear[4] > 0


def test_adapters_are_trained_and_folded_in_or_refused(recipe: ModuleType, given: Given, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    out = tmp_path / "m"
    if CASES[name_of(recipe)].steps.__dict__.get("ADAPTS") and "graph" not in CASES[name_of(recipe)].files:
        given.train(recipe, out, steps=2, lora_rank=2)
        assert set(load_file(out / "model.safetensors")) == set(load_file(given.model / "model.safetensors"))
    else:
        with pytest.raises(UsageError, match="lora_rank goes with recipes that train on terms alone"):
            given.train(recipe, out, steps=2, lora_rank=2)


def modern(folder: Path, model: Path) -> Path:
    """Write a ModernBERT of two small layers with the tiny model's tokenizer."""
    from transformers import ModernBertConfig, ModernBertModel

    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        cls_token_id=2,
        sep_token_id=3,
    )
    ModernBertModel(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    return folder


# What these change lies inside BERT's own layers or heads.
OF_BERT = ("ext_bert", "kge_injection", "pipelined", "electra_em_pap")


def test_a_modernbert_trains_or_is_refused(recipe: ModuleType, given: Given, tmp_path: Path) -> None:
    encoder = modern(tmp_path / "modern", given.model)
    out, settings = tmp_path / "m", given.config(recipe, steps=2, warmup_steps=1)
    if name_of(recipe) == "electra_em_pap":
        settings = settings.model_copy(update={"scratch": False, "vocabulary": 0})
    if name_of(recipe) in OF_BERT:
        with pytest.raises((InputError, UsageError), match=r";|BERT"):
            recipe.train(given.to(recipe), str(encoder), out, settings)
        return
    recipe.train(given.to(recipe), str(encoder), out, settings)
    own = TermEncoder.load(out, precision="fp32").encode(STRINGS)
    opened = SentenceTransformer(str(out), device="cpu")
    np.testing.assert_allclose(opened.encode(STRINGS), own, atol=1e-5)
