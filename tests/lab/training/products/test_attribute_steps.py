from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita_lab.objectives.attribute_prediction import AttributeProjection
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.products import attribute_steps
from alphita_lab.training.products.attribute_data import NOT_THERE, Products, ProductTable
from alphita_lab.training.products.attribute_steps import AttributeSteps, load_projection
from tests.lab.training.gradients import gradients_of
from tests.reference import attribute_prediction as reference
from tests.tiny import FINDINGS, SITES, spread, tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spread(tiny_model(tmp_path_factory.mktemp("model") / "tiny", dropout=0.2))


def table_of(rows: list[tuple[str, str, str]]) -> ProductTable:
    strings = sorted({end for title, _, value in rows for end in (title, value)})
    names = sorted({name for _, name, _ in rows})
    triples = sorted((strings.index(title), names.index(name), strings.index(value)) for title, name, value in rows)
    return ProductTable(
        strings,
        strings,
        names,
        names,
        np.array(triples),
        np.zeros(len(strings), bool),
        np.empty((0, 2), np.int64),
        {"unnamed": 0, "value_is_title": 0, "repeated": 0},
    )


@pytest.fixture(scope="module")
def products() -> Products:
    """Remedies for several findings at one or two sites."""
    rows = []
    for number, site in enumerate(SITES):
        for finding, learned in FINDINGS:
            title = f"{finding} remedy {number}"
            rows += [(title, "for the", site), (title, "for the", SITES[(number + 3) % len(SITES)])]
            rows += [(title, "treats", f"{site} {learned}"), (title, "treats", f"{site} {finding}")]
    return Products(table_of(rows), dev=8, seed=0)


def steps_of(
    model: Path, products: Products, *, dropout: float = 0.0, seed: int = 3, pooling: str = "cls", **options
) -> AttributeSteps:
    encoder = TermEncoder.load(model, precision="fp32", pooling=pooling)
    forward = TermForward(encoder, precision="fp32", dropout=dropout)
    forward.module.train()
    torch.manual_seed(0)
    projection = AttributeProjection(encoder.dim)
    options = {"batch": 6} | options
    return AttributeSteps(forward, projection, products, seed=seed, **options)


def run(steps: AttributeSteps, numbers: range = range(2)) -> dict[str, torch.Tensor]:
    steps.start(numbers.start, numbers.stop)
    scalars = [steps(number, 0.5) for number in numbers]
    steps.stop()
    losses = {f"{name} {number}": one[name] for number, one in enumerate(scalars) for name in one}
    return losses | gradients(steps)


def gradients(steps: AttributeSteps) -> dict[str, torch.Tensor]:
    return gradients_of({"encoder": steps.forward.module, "projection": steps.projection})


@pytest.mark.parametrize("at_once", [30, 150])
def test_a_batch_in_parts_has_the_gradients_of_the_whole(model: Path, products: Products, at_once: int) -> None:
    whole, parts = (run(steps_of(model, products, tokens_at_once=size)) for size in (100_000, at_once))
    assert whole.keys() == parts.keys()
    assert float(whole["projection.dense.weight"].abs().max()) > 1e-2
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, atol=1e-5, rtol=1e-5, msg=name)


def test_loss_and_gradients_are_those_of_every_value_encoded_by_itself(model: Path, products: Products) -> None:
    """Against equation 3 with nothing shared or broadcast: title, name and value encoded anew for each value."""
    steps = steps_of(model, products)
    ours = run(steps, range(1))
    drawn, pairs = draw_of(steps, 0)
    plain = steps_of(model, products)
    table = products.table

    def encoded(text: str) -> torch.Tensor:
        return plain.forward(plain.forward.encoder.tokenize([text]))[0]

    total = torch.zeros(())
    for place, number in enumerate(pairs.tolist()):
        title, name = (table.strings[products.pairs[number, 0]], table.names[products.pairs[number, 1]])
        distance = {True: [], False: []}
        for value, sign in zip(drawn.value[drawn.pair == place], drawn.positive[drawn.pair == place], strict=True):
            head = encoded(f"{title} {name}")
            left, right = plain.projection(head[None]), plain.projection(encoded(table.strings[value])[None])
            distance[bool(sign)].append((left - right).pow(2).sum().sqrt())
        near = torch.stack([-torch.log(torch.sigmoid(4 - one)) for one in distance[True]]).mean()
        far = torch.stack([-torch.log(torch.sigmoid(one - 4)) for one in distance[False]]).mean()
        total = total + (near + far) / len(pairs)
    (total * 0.5).backward()
    assert float(ours["loss 0"]) == pytest.approx(float(total.detach()), rel=1e-5)
    for name, expected in gradients(plain).items():
        torch.testing.assert_close(ours[name], expected, atol=1e-5, rtol=1e-4, msg=name)


def draw_of(steps: AttributeSteps, number: int):
    """What batch `number` draws: the values, and the pairs they are drawn for."""
    seen = {}
    draw = steps.products.draw

    def spy(pairs, **options):
        seen["pairs"], seen["drawn"] = pairs, draw(pairs, **options)
        return seen["drawn"]

    steps.products.draw = spy
    try:
        steps.draw(number)
    finally:
        del steps.products.draw
    return seen["drawn"], seen["pairs"]


class OneOfTwo(Ranks):
    """A process among two whose other has the vectors that a run of one has."""

    def __init__(self, rank: int, vectors: list[torch.Tensor]) -> None:
        super().__init__(rank, 2)
        self.vectors = iter(vectors)

    def gather(self, own: torch.Tensor, shares) -> torch.Tensor:
        whole = next(self.vectors).clone()
        assert 0 < len(own) < len(whole)
        torch.testing.assert_close(whole[torch.from_numpy(shares[self.rank])], own, atol=1e-5, rtol=1e-5)
        return whole


class Kept(Ranks):
    """A run of one that keeps the vectors of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors: list[torch.Tensor] = []

    def gather(self, own: torch.Tensor, shares) -> torch.Tensor:
        self.vectors.append(own.clone())
        return own


@pytest.mark.parametrize("at_once", [100_000, 40])
def test_the_mean_of_two_processes_is_one(model: Path, products: Products, at_once: int) -> None:
    alone = Kept()
    one = run(steps_of(model, products, ranks=alone, tokens_at_once=100_000))
    two = [
        run(steps_of(model, products, ranks=OneOfTwo(rank, alone.vectors), tokens_at_once=at_once)) for rank in (0, 1)
    ]
    for name, expected in one.items():
        mean = (two[0][name] + two[1][name]) / 2
        torch.testing.assert_close(mean, expected, atol=1e-5, rtol=1e-4, msg=name)


def test_titles_that_leave_no_room_for_the_name_are_counted(model: Path) -> None:
    rows = [("heart", "of the", "pain"), ("x x x x x x x x", "of the", "ache"), ("liver", "of the", "ache")]
    for length, expected in ((64, 0), (9, 1)):
        encoder = TermEncoder.load(model, precision="fp32", pooling="cls", max_length=length)
        forward = TermForward(encoder, precision="fp32")
        steps = AttributeSteps(forward, AttributeProjection(32), Products(table_of(rows)), batch=1, seed=0)
        assert steps.cut == expected


# --- the sign does not leak ----------------------------------------------------------------------------------------


# --- scoring -------------------------------------------------------------------------------------------------------


def test_score_is_the_rank_among_the_candidates(
    model: Path, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribute_steps, "TOKENS_AT_ONCE", 50)
    steps = steps_of(model, products, dropout=0.5)
    found = steps.score()
    assert steps.forward.module.training
    table, encoder = products.table, steps.forward.encoder
    W, b = (tensor.detach().double().numpy() for tensor in (steps.projection.dense.weight, steps.projection.dense.bias))

    steps.forward.module.eval()

    def encoded(text: str) -> np.ndarray:
        with torch.no_grad():
            return encoder.module(*encoder.pad(encoder.tokenize([text])))[0].double().numpy()

    ranks = []
    assert len(products.dev) == 8
    for (title, name, _), row in zip(products.dev.triples.tolist(), products.dev.candidates.tolist(), strict=True):
        t, n = table.strings[title], table.names[name]
        head = encoded(f"{t} {n}")
        distances = [reference.d(head, encoded(table.strings[one]), W, b) for one in row if one != NOT_THERE]
        ranks.append(reference.realistic_rank(distances))
    assert found["dev_attribute_acc1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert found["dev_attribute_mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))


def test_a_projection_is_found_beside_its_model(tmp_path: Path) -> None:
    assert load_projection(tmp_path, 32) is None
    projection = AttributeProjection(32, 16)
    path = tmp_path / f"{attribute_steps.NAME}.safetensors"
    save_file(projection.state_dict(), path)
    found = load_projection(tmp_path, 32)
    assert found is not None
    assert torch.equal(found.dense.weight, projection.dense.weight)
    with pytest.raises(InputError, match="no projection of vectors of 31 numbers"):
        load_projection(tmp_path, 31)
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(InputError, match="train the model again"):
        load_projection(tmp_path, 32)
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="train the model again"):
        load_projection(tmp_path, 32)
