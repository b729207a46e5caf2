from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from alphita.errors import InputError
from alphita_lab.training.engine.soup import copy_of, greedy, mix_in, uniform
from tests.reference import soup as reference


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_soup_of_one_model_is_that_model_bit_for_bit(dtype) -> None:
    (one,) = members(1, 3, dtype).values()
    one["odd"] = torch.tensor([1e-40, -0.0, 3.4e38, 1 / 3]).to(dtype)
    for made in (uniform({"a": one}), greedy({"a": one}, lambda _: -1.0).weights, uniform(dict.fromkeys("abc", one))):
        assert set(made) == set(one)
        for key, value in one.items():
            assert made[key].dtype == value.dtype
            assert torch.equal(*(tensor.reshape(-1).view(torch.uint8) for tensor in (made[key], value)))
            assert made[key].data_ptr() != value.data_ptr()


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


def test_each_member_is_scored_alone_once_and_but_the_first_once_in_the_soup() -> None:
    asked = []
    greedy(members(4, 1), lambda state: asked.append(state) or 0.5)
    assert len(asked) == 4 + 3


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
