"""Some steps of every recipe: how many tensors there are, how long all weights are together, and how far they went.

Weights are never the same on two processors to the last bit, so that there is no hash: the numbers are compared to one
part in ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from alphita import registry
from tests.contracts.recipe_cases import Given
from tests.goldens.golden import Table
from tests.tiny import tiny_model

RECIPES = registry.names("alphita_lab.recipes")
STEPS, CLOSE = 10, 1e-4


@pytest.fixture(scope="module")
def golden() -> Table:
    return Table("recipes", ("recipe", "tensors", "weights", "change"), RECIPES)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Iterator[Given]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Given(tmp_path_factory.mktemp("data"), tiny_model(tmp_path_factory.mktemp("model") / "tiny"))
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", RECIPES)
def test_some_steps(golden: Table, given: Given, tmp_path: Path, name: str) -> None:
    def weights(folder: str, **changes: object) -> dict[str, torch.Tensor]:
        given.train(registry.load("alphita_lab.recipes", name), tmp_path / folder, warmup_steps=0, seed=0, **changes)
        files = sorted((tmp_path / folder).glob("*.safetensors"))
        return {f"{file.name}: {one}": value.double() for file in files for one, value in load_file(file).items()}

    # A step so small that nothing moves: how a recipe starts is its own affair.
    start, end = weights("start", steps=1, learning_rate=1e-30), weights("end", steps=STEPS)
    assert start.keys() == end.keys()
    found = (
        len(end),
        float(torch.cat([one.flatten() for one in end.values()]).norm()),
        float(torch.cat([(end[one] - start[one]).flatten() for one in end]).norm()),
    )
    known = golden.row(name, tuple(f"{one:.9g}" for one in found))
    assert found == pytest.approx(tuple(map(float, known)), rel=CLOSE)


def test_the_table_is_complete(golden: Table) -> None:
    golden.check_complete()
