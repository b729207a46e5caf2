from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.training.engine.runs import Phase
from alphita_lab.training.engine.settings import TermTraining
from alphita_lab.training.engine.soup import SoupRun, copy_of, greedy, mix_in, uniform
from tests.reference import soup as reference
from tests.tiny import tiny_model


def members(count: int, seed: int, dtype: torch.dtype = torch.float32) -> dict[str, dict[str, torch.Tensor]]:
    """Models around one, as fine-tuning leaves them, with a buffer of integers."""
    random = torch.Generator().manual_seed(seed)
    base = {"layer.weight": torch.randn(3, 4, generator=random), "layer.bias": torch.randn((), generator=random)}
    return {
        f"seed {number}": {
            key: (value + torch.randn(value.shape, generator=random) / 3).to(dtype) for key, value in base.items()
        }
        | {"position_ids": torch.arange(5)}
        for number in range(count)
    }


def plain(state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {key: value.double().numpy() for key, value in state.items() if value.is_floating_point()}


def score_like(seed: int):
    """A made-up dev score: near a point, with ridges, so that averages may gain or lose; in steps, so that some tie."""
    rng = np.random.default_rng(seed)
    goal, wave = rng.normal(size=13), rng.normal(size=13) * 3

    def score(state) -> float:
        flat = np.concatenate([np.asarray(state[key], np.float64).ravel() for key in ("layer.weight", "layer.bias")])
        return round(float(np.sin(wave @ flat) - 0.1 * np.square(flat - goal).sum()), 1)

    return score


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_uniform_equals_the_reference(count: int, seed: int) -> None:
    given = members(count, seed)
    made = uniform(given)
    expected = reference.average([plain(one) for one in given.values()])
    assert set(made) == set(expected) | {"position_ids"}
    for key, value in expected.items():
        assert made[key].dtype == torch.float32
        # Rounded once from the float64 mean.
        np.testing.assert_allclose(made[key].numpy(), value.astype(np.float32), rtol=1e-7)
    assert torch.equal(made["position_ids"], torch.arange(5))


@settings(max_examples=80, deadline=None)
@given(count=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_greedy_equals_recipe_1_and_is_no_worse_than_its_best_member(count: int, seed: int) -> None:
    given, score = members(count, seed, torch.float64), score_like(seed)
    made = greedy(given, score)
    ingredients = reference.greedy([plain(one) for one in given.values()], score)
    names = list(given)
    assert [name for name, kept in zip(made.order, made.kept, strict=True) if kept] == [names[i] for i in ingredients]
    assert made.score == score(made.weights) >= max(score(one) for one in given.values())
    for key, value in uniform({names[i]: given[names[i]] for i in ingredients}).items():
        assert torch.equal(made.weights[key], value)
    # What is printed adds up.
    assert sorted(made.order) == sorted(given)
    assert list(made.scores) == [score(given[name]) for name in made.order] == sorted(made.scores, reverse=True)
    assert made.gains[0] == 0
    assert made.kept[0]
    gained = sum(gain for gain, kept in zip(made.gains, made.kept, strict=True) if kept)
    assert made.score == pytest.approx(made.scores[0] + gained, abs=1e-12)
    assert all(kept == (gain >= 0) for gain, kept in zip(made.gains, made.kept, strict=True))


def test_members_in_files_give_the_same(tmp_path) -> None:
    given = members(3, 5)
    paths = {}
    for name, state in given.items():
        folder = tmp_path / name
        folder.mkdir()
        save_file(state, folder / "model.safetensors")
        paths[name] = folder
    paths["seed 1"] = paths["seed 1"] / "model.safetensors"
    mixed = paths | {"seed 2": given["seed 2"]}
    expected = uniform(given)
    for made in (uniform(paths), uniform(mixed)):
        assert all(torch.equal(made[key], value) for key, value in expected.items())
    score = score_like(2)
    one, other = greedy(given, score), greedy(paths, score)
    assert (one.order, one.gains, one.kept) == (other.order, other.gains, other.kept)


def test_models_that_do_not_match_are_named_with_the_tensor() -> None:
    never = pytest.fail
    for change, message in (
        (
            {"layer.weight": torch.zeros(3, 5)},
            r"'b' has another shape of 'layer.weight' \(\(3, 5\)\) than 'a' \(\(3, 4\)",
        ),
        ({"layer.bias": torch.zeros((), dtype=torch.float16)}, "'b' has another precision of 'layer.bias'"),
        ({"position_ids": torch.arange(5) + 1}, "'b' has another 'position_ids', which is no weight, than 'a'"),
        ({"more": torch.zeros(1)}, "'a' has no tensor 'more', which 'b' has"),
    ):
        one, other = members(2, 0).values()
        pair = {"a": one, "b": other | change}
        for make in (uniform, lambda given: greedy(given, lambda _: never("scored before the check"))):
            with pytest.raises(InputError, match=message) as error:
                make(pair)
            assert error.value.remedy
    one, other = members(2, 0).values()
    del other["layer.bias"]
    with pytest.raises(InputError, match=r"'b' has no tensor 'layer\.bias', which 'a' has"):
        uniform({"a": one, "b": other})


def test_nothing_to_average_and_unreadable_weights_are_errors(tmp_path) -> None:
    with pytest.raises(InputError, match="one model at least"):
        uniform({})
    with pytest.raises(InputError, match="one model at least"):
        greedy({}, lambda _: 0.0)
    with pytest.raises(InputError, match="cannot be read as weights"):
        uniform({"a": tmp_path / "none.safetensors"})
    (tmp_path / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read as weights"):
        uniform({"a": tmp_path})
    with pytest.raises(InputError, match=r"dev score is not a number .*'seed 0'"):
        greedy(members(2, 0), lambda _: float("nan"))


def test_two_models_mixed_by_share() -> None:
    module = torch.nn.Linear(3, 2)
    start = copy_of(module)
    other = {key: torch.ones_like(value) for key, value in start.items()}
    mix_in(module, other, 0.25)
    for key, value in module.state_dict().items():
        torch.testing.assert_close(value, 0.75 * start[key] + 0.25)


CONFIG = TermTraining(
    max_length=32,
    pooling="mean",
    steps=1,
    accumulation=1,
    learning_rate=1e-3,
    warmup_steps=0,
    schedule="linear",
    weight_decay=0.0,
    clip=1.0,
    precision="fp32",
)
WORD = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Four models around one, as seeds leave them: far, near, near on the other side, and the furthest."""
    folder = tmp_path_factory.mktemp("folders")
    tiny_model(folder / "base")
    made = {}
    for name, shift in (("far", 0.4), ("near", 0.1), ("other", -0.12), ("furthest", 0.9)):
        TermEncoder.load(folder / "base", precision="fp32", pooling="mean").save(folder / name)
        weights = load_file(folder / name / "model.safetensors")
        weights[WORD] = weights[WORD] + shift
        save_file(weights, folder / name / "model.safetensors", metadata={"format": "pt"})
        made[name] = folder / name
    made["base"] = folder / "base"
    return made


def only(folders: dict[str, Path], *names: str) -> dict[str, Path]:
    return {name: folders[name] for name in names}


def nearness(folders: dict[str, Path]):
    """A dev score: minus the distance of the word vectors from the base's."""
    goal = load_file(folders["base"] / "model.safetensors")[WORD]

    def dev(encoder: TermEncoder) -> dict[str, float]:
        return {"dev": -float((encoder.module.model.state_dict()[WORD] - goal).abs().mean()), "dev_other": 1.0}

    return dev


def test_a_greedy_soup_keeps_what_helps_and_tells_order_and_gains(
    folders: dict[str, Path], tmp_path: Path, capsys
) -> None:
    four = only(folders, "far", "near", "other", "furthest")
    run = SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, four, {})
    assert run.done is None
    figures = run.cook(nearness(folders), greedy=True)
    # near alone 0.1; with other 0.01; far and furthest take it away again.
    assert figures["members"] == 2
    assert figures["dev"] == pytest.approx(-0.01, abs=1e-4)
    assert figures["best_member"] == pytest.approx(-0.1, abs=1e-4)
    told = artefact.verify(tmp_path / "m", "model")["soup"]
    assert [(one["member"], one["kept"]) for one in told] == [
        ("near", True),
        ("other", True),
        ("far", False),
        ("furthest", False),
    ]
    assert told[1]["gain"] == pytest.approx(0.09, abs=1e-4)
    printed = capsys.readouterr().err
    assert "1. near: alone -0.1000, adds +0.0000: kept" in printed
    assert "2. other: alone -0.1200, adds +0.0900: kept" in printed
    assert "4. furthest: alone -0.9000" in printed
    assert "the soup of 2 of 4 models, dev -0.0100" in printed
    lines = (tmp_path / "m" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["member"] for line in lines] == ["near", "other", "far", "furthest"]
    found = load_file(tmp_path / "m" / "model.safetensors")
    both = [load_file(folders[name] / "model.safetensors") for name in ("near", "other")]
    for name, value in found.items():
        torch.testing.assert_close(value, (both[0][name] + both[1][name]) / 2, msg=name)
    assert not (tmp_path / "m.training").exists()


def test_a_finished_soup_is_known_by_its_members(folders: dict[str, Path], tmp_path: Path) -> None:
    two = only(folders, "far", "near")
    figures = SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, two, {}).cook(lambda _: {}, greedy=False)
    resumed = Phase("soup", tmp_path / "m", resume=True)
    assert SoupRun("r", resumed, CONFIG, two, {}).done == figures
    with pytest.raises(InputError, match="another recipe, config"):
        SoupRun("r", resumed, CONFIG, only(folders, "far", "other"), {})
    with pytest.raises(UsageError, match="already exists"):
        SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, two, {})


def test_members_that_make_vectors_otherwise_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    for name, changes in (("cls", {"pooling": "cls"}), ("short", {"max_length": 16})):
        TermEncoder.load(folders["far"], precision="fp32", **changes).save(tmp_path / name)
    TermEncoder.load(folders["far"], precision="fp32").save(tmp_path / "words")
    file = tmp_path / "words" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["heart"], vocabulary["a"] = vocabulary["a"], vocabulary["heart"]
    file.write_text(json.dumps(tokenizer))
    for name, problem in (
        ("cls", "pooling cls instead of mean"),
        ("short", "max_length 16 instead of 64"),
        ("words", "tokenizer [0-9a-f]{12} instead of [0-9a-f]{12}"),
    ):
        with pytest.raises(InputError, match=rf"the member '{name}' differs from 'far': {problem}; average models"):
            SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, {**only(folders, "far"), name: tmp_path / name}, {})
