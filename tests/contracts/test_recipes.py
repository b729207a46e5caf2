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

from alphita import artefact, registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.training import loop
from alphita.training.names import TrainingNames
from alphita.training.term_batches import TermSteps
from tests.killing import train_command, whole_and_resumed
from tests.tiny import tiny_model, tiny_terminology

# What learns from more than names and relations (translations, text, graph vectors): held to the same by its own tests.
OF_MORE = ("ext_bert", "kge_injection", "multilingual", "pipelined")
RECIPES = [name for name in registry.names("alphita.recipes") if name not in OF_MORE]
COMMON: dict[str, Any] = {
    "steps": 80, "warmup_steps": 5, "accumulation": 1, "learning_rate": 2e-3, "pooling": "mean", "precision": "fp32",
    "log_every": 5, "checkpoint_every": 10, "schedule": "linear",
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "coder": {"k": 16, "m": 4},
    "coder_transe": {"batch_terms": 48, "most_names": 4, "semantic_type_weight": 0.1},
    "sapbert": {"pairs": 16},
    "coder_pp": {"anchors": 4, "neighbours": 6, "synonyms": 3, "refresh_every": 15},
    "biolord": {"phases": "contrast", "batch": 16, "max_length": 48},
    "kge_margin": {"version": "v2", "prototypes": 4, "positives": 4, "negatives": 8},
}

# Those that train on texts beside names.
TEXTS = ("biolord",)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology", types=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def config(recipe: ModuleType, **changes: object) -> Any:
    return recipe.Config(**COMMON | SMALL[_name(recipe)] | changes)


def _name(recipe: ModuleType) -> str:
    return recipe.__name__.rsplit(".", 1)[-1]


@pytest.fixture(params=RECIPES)
def recipe(request) -> ModuleType:
    return registry.load("alphita.recipes", request.param)


def test_every_recipe_is_small_enough_to_be_tried() -> None:
    assert sorted(SMALL) == RECIPES


def test_every_setting_says_what_it_is_and_where_it_comes_from(recipe: ModuleType) -> None:
    assert recipe.CITATION
    for name, field in recipe.Config.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name
    own = {name: recipe.Config.model_fields[name].description for name in recipe.Config.__annotations__}
    for name, description in own.items():
        assert "(" in description, f"{name}: {description} names no source"


def test_it_learns_the_synonyms_of_a_few_concepts(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    names = TrainingNames(terminology)
    concepts = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))

    def nearest_is_synonym(folder: Path) -> float:
        vectors = TermEncoder.load(folder, precision="fp32", pooling="mean").encode(names.strings)
        similarity = vectors @ vectors.T
        np.fill_diagonal(similarity, -1)
        return float((concepts[similarity.argmax(1)] == concepts).mean())

    figures = recipe.train(terminology, str(model), tmp_path / "m", config(recipe))
    assert nearest_is_synonym(tmp_path / "m") > max(0.8, nearest_is_synonym(model) + 0.3)
    assert figures["loss"] >= 0
    assert figures["rows_per_second"] > 0
    manifest = artefact.verify(tmp_path / "m", "model")
    assert manifest["recipe"] == _name(recipe)
    assert manifest["config"] == config(recipe).model_dump()
    assert manifest["terminology"] == terminology.content_hash


@pytest.mark.parametrize("stop_at", [13, 34])
def test_a_run_that_was_cut_goes_on_to_the_same_weights(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch, stop_at: int
) -> None:
    settings = config(recipe, steps=40, log_every=1)
    recipe.train(terminology, str(model), tmp_path / "whole", settings)
    step = TermSteps.__call__

    def cut(self: TermSteps, number: int, share: float) -> dict[str, torch.Tensor]:
        if number == stop_at:
            raise KeyboardInterrupt
        return step(self, number, share)

    monkeypatch.setattr(TermSteps, "__call__", cut)
    with pytest.raises(KeyboardInterrupt):
        recipe.train(terminology, str(model), tmp_path / "cut", settings)
    monkeypatch.undo()
    assert not (tmp_path / "cut").exists()
    recipe.train(terminology, str(model), tmp_path / "cut", settings, resume=True)
    assert not (tmp_path / "cut.training").exists()
    for file in sorted((tmp_path / "whole").glob("*.safetensors")):
        assert artefact.hash_file(file) == artefact.hash_file(tmp_path / "cut" / file.name), file.name

    def losses(name: str) -> list[tuple[int, float]]:
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [(entry["step"], entry["loss"]) for entry in map(json.loads, lines)]

    assert losses("cut") == losses("whole")


def test_kill_9_and_resume_give_the_unbroken_run(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    settings = config(recipe, steps=150, checkpoint_every=5).model_dump(exclude_unset=True)
    runs = whole_and_resumed(train_command(_name(recipe), terminology.path, model, settings), tmp_path)
    for file in sorted(runs.whole.glob("*.safetensors")):
        assert artefact.hash_file(file) == artefact.hash_file(runs.resumed / file.name), file.name


def test_the_log_can_be_read_by_tensorboard(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe.train(terminology, str(model), tmp_path / "m", config(recipe, steps=10, tensorboard=True))
    events = EventAccumulator(str(tmp_path / "m" / "tensorboard")).Reload()
    lines = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert [event.step for event in events.Scalars("loss")] == [line["step"] for line in lines] == [5, 10]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(
        [line["loss"] for line in lines], rel=1e-4
    )


def test_another_seed_draws_other_batches(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    losses = {
        recipe.train(terminology, str(model), tmp_path / f"{number}", config(recipe, steps=2, seed=seed))["loss"]
        for number, seed in enumerate([0, 0, 1])
    }
    assert len(losses) == 2


def test_what_is_held_out_does_not_train(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    assert len(split) > 3
    seen: set[str] = set()
    tokenize = TermEncoder.tokenize
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, rows: seen.update(rows) or tokenize(self, rows))
    recipe.train(terminology, str(model), tmp_path / "m", config(recipe, steps=2), split=split)
    assert len(seen) > 20
    assert not seen & split.cleaned
    assert artefact.open_manifest(tmp_path / "m", "model")["split"] == split.hash


def test_a_dry_run_tells_sizes_and_time_and_writes_nothing(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, capsys
) -> None:
    assert recipe.train(terminology, str(model), tmp_path / "m", config(recipe), dry_run=True) == {}
    told = capsys.readouterr().err
    for part in ("names: 88 of 32 concepts", "trained numbers:", "term rows", "80 steps: about", "memory: about"):
        assert part in told
    assert list(tmp_path.iterdir()) == []


def test_another_recipe_or_config_cannot_take_a_run_over(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    def cut(self: TermSteps, number: int, share: float) -> dict[str, torch.Tensor]:
        raise KeyboardInterrupt

    monkeypatch.setattr(TermSteps, "__call__", cut)
    with pytest.raises(KeyboardInterrupt):
        recipe.train(terminology, str(model), tmp_path / "m", config(recipe))
    monkeypatch.undo()
    other = registry.load("alphita.recipes", RECIPES[(RECIPES.index(_name(recipe)) + 1) % len(RECIPES)])
    with pytest.raises(InputError, match="another recipe, config"):
        other.train(terminology, str(model), tmp_path / "m", config(other), resume=True)
    with pytest.raises(InputError, match="another recipe, config"):
        recipe.train(terminology, str(model), tmp_path / "m", config(recipe, learning_rate=1e-3), resume=True)
    # How it is run may change: the weights do not depend on it.
    recipe.train(
        terminology, str(model), tmp_path / "m", config(recipe, tokens_at_once=64, log_every=7), resume=True
    )  # fmt: skip


def test_a_loss_that_is_not_finite_stops_the_run_and_names_its_terms(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    encode = TermSteps._encode

    def broken(self: TermSteps, ready: Any, part: int, number: int) -> torch.Tensor:
        vectors = encode(self, ready, part, number)
        return vectors * float("nan") if number == 12 else vectors

    monkeypatch.setattr(TermSteps, "_encode", broken)
    with pytest.raises(
        AlphitaError, match=r"no longer finite at step 13 on the terms .*smaller learning_rate"
    ) as caught:
        recipe.train(terminology, str(model), tmp_path / "m", config(recipe))
    work = tmp_path / "m.training"
    terms = (work / "not_finite.txt").read_text().strip().split(", ")
    names = set(TrainingNames(terminology).strings)
    assert set(terms) & names
    assert set(terms) <= names or _name(recipe) in TEXTS
    assert terms[0] in str(caught.value)
    assert (work / "step-00000012" / "state.json").exists()


def test_an_encoder_that_is_not_like_bert_is_refused(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    from transformers import T5Config, T5Model

    folder = tmp_path / "t5"
    T5Model(T5Config(vocab_size=100, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    with pytest.raises(InputError, match="T5Model does not encode a term as BERT does"):
        recipe.train(terminology, str(folder), tmp_path / "m", config(recipe))


NEEDS = {
    "coder": ("relations",),
    "coder_transe": ("relations", "synonyms", "types"),
    "sapbert": ("synonyms",),
    "coder_pp": ("synonyms",),
    "biolord": ("relations",),
    "kge_margin": ("synonyms",),
}


@pytest.mark.parametrize("lacking", ["relations", "synonyms", "types"])
def test_a_terminology_without_what_it_needs_is_a_clear_error(
    recipe: ModuleType, lacking: str, model: Path, tmp_path: Path
) -> None:
    name = _name(recipe)
    terminology = tiny_terminology(
        tmp_path / "poor.terminology", types=lacking != "types", relations=lacking != "relations",
        synonyms=lacking != "synonyms",
    )  # fmt: skip
    settings = config(recipe, steps=2)
    if lacking in NEEDS[name]:
        told = {"relations": "relation", "synonyms": "name", "types": "semantic type"}[lacking]
        with pytest.raises(InputError, match=told) as caught:
            recipe.train(terminology, str(model), tmp_path / "m", settings)
        assert ";" in str(caught.value), "an error says what to do"
    else:
        assert recipe.train(terminology, str(model), tmp_path / "m", settings)["loss"] >= 0


def test_the_best_weights_are_kept(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    scores = iter([0.2, 0.9, 0.1, 0.3])
    monkeypatch.setattr(TrainingNames, "dev_accuracy", lambda *_: lambda: {"dev_acc1": next(scores)})
    settings = {"dev_synonyms": 4, "evaluate_every": 5, "schedule": "constant"}
    recipe.train(terminology, str(model), tmp_path / "best", config(recipe, steps=20, keep="best", **settings))
    # A run that ends where the score was best; the learning rate is constant, so its length decides nothing else.
    scores = iter([0.2, 0.9])
    recipe.train(terminology, str(model), tmp_path / "ten", config(recipe, steps=10, **settings))
    best, ten = (TermEncoder.load(tmp_path / name, precision="fp32").content_hash for name in ("best", "ten"))
    assert best == ten


def test_the_average_of_the_weights_is_the_exponential_one(
    recipe: ModuleType, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    """After two steps with decay 0.5 the average is half the first step's weights and half the second's."""
    for name, changes in (("average", {"steps": 2, "ema": 0.5}), ("one", {"steps": 1}), ("two", {"steps": 2})):
        recipe.train(
            terminology, str(model), tmp_path / name, config(recipe, schedule="constant", warmup_steps=0, **changes)
        )
    average, one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("average", "one", "two"))
    for name, value in average.items():
        torch.testing.assert_close(value, 0.5 * one[name] + 0.5 * two[name], atol=1e-6, rtol=1e-5, msg=name)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) > 1e-4


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
