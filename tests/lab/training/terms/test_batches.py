from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.training.engine import forward
from alphita_lab.training.engine.forward import TermForward, tokenize
from alphita_lab.training.engine.steps import DEPTH, MIN_TOKENS, Ahead, is_exhausted
from alphita_lab.training.terms import batches as term_batches
from alphita_lab.training.terms.batches import Batch, TermSteps
from tests.tiny import tiny_model

WORDS = ["heart", "liver", "pain", "of", "the", "abcd", "x", "bleeding"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny", dropout=0.2)


def strings(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 9))) + f" {number}" for number in range(count)]


def draw(number: int) -> Batch:
    terms, place = np.unique(np.random.default_rng([1, number]).integers(0, 60, 40), return_inverse=True)
    return Batch(terms, {"place": place, "concept": place // 2}, rows=40)


def loss(distinct: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # A hundredfold, so that the gradients of the random model stand well above the tolerances.
    return {"loss": 100 * term_term(distinct[given["place"]], given["concept"], mining=False)}


def run(model: Path, *, at_once: int, dropout: float, numbers: range = range(2)) -> dict[str, torch.Tensor]:
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")
    forward = TermForward(encoder, precision="fp32", dropout=dropout)
    forward.module.train()
    steps = TermSteps(forward, tokenize(encoder, strings(60)), draw, loss, seed=3, tokens_at_once=at_once)
    steps.start(numbers.start, numbers.stop)
    losses = [steps(number, 0.5)["loss"] for number in numbers]
    steps.stop()
    gradients = {name: p.grad.clone() for name, p in forward.module.named_parameters() if p.grad is not None}
    return gradients | {"loss": torch.stack(losses)}


@pytest.mark.parametrize("at_once", [30, 100, 300])
def test_a_batch_in_parts_has_the_gradients_of_the_whole(model: Path, at_once: int) -> None:
    whole, parts = (run(model, at_once=size, dropout=0.0) for size in (100_000, at_once))
    assert whole.keys() == parts.keys()
    assert float(whole["model.encoder.layer.0.output.dense.weight"].abs().max()) > 1e-2
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, atol=1e-5, rtol=1e-5, msg=name)


def test_gradients_are_those_of_autograd_over_all_rows(model: Path) -> None:
    ours = run(model, at_once=50, dropout=0.0, numbers=range(1))
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")
    forward = TermForward(encoder, precision="fp32", dropout=0.0)
    batch = draw(0)
    names = strings(60)
    rows = [encoder.tokenize([names[term]])[0] for term in batch.terms[batch.arrays["place"]]]
    plain = 100 * term_term(forward(rows), torch.from_numpy(batch.arrays["concept"]), mining=False)
    (plain * 0.5).backward()
    assert float(ours["loss"][0]) == pytest.approx(float(plain.detach()), rel=1e-5)
    for name, parameter in forward.module.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-4, msg=name)


def test_dropout_is_the_same_in_both_passes_and_differs_between_batches(model: Path) -> None:
    """The loss comes from the first pass, the gradients from the second: they fit if both dropped the same."""
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")
    forward = TermForward(encoder, precision="fp32", dropout=0.5)
    forward.module.train()
    seen: list[torch.Tensor] = []
    encode = forward.run
    forward.run = lambda rows: seen.append(encode(rows)) or seen[-1]  # type: ignore[method-assign, func-returns-value]
    table = tokenize(encoder, strings(60))
    steps = TermSteps(forward, table, lambda _: draw(0), loss, seed=3, tokens_at_once=100)
    steps.start(0, 2)
    steps(0, 1.0)
    steps(1, 1.0)
    steps.stop()
    parts = len(seen) // 4
    assert parts > 1
    for part in range(parts):
        assert torch.equal(seen[part], seen[parts + part])
        assert not torch.equal(seen[part], seen[2 * parts + part])


@given(st.lists(st.integers(1, 40), max_size=50), st.integers(1, 100))
def test_parts_hold_each_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    own = np.array(lengths, np.int64)
    parts = term_batches._parts(own, budget)
    assert sorted(np.concatenate([*parts, np.empty(0, np.int64)]).tolist()) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or own[part].sum() <= budget


class Small:
    """A forward pass that runs out of memory above so many tokens."""

    def __init__(self, forward: TermForward, limit: int) -> None:
        self._forward, self._limit = forward, limit

    def __getattr__(self, name: str) -> object:
        return getattr(self._forward, name)

    def run(self, rows) -> torch.Tensor:
        if rows.tokens > self._limit and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self._forward.run(rows)


@pytest.mark.parametrize(("limit", "message"), [(150, r"--set tokens_at_once=\d+"), (1, "smaller encoder")])
def test_out_of_memory_says_what_fits(model: Path, limit: int, message: str) -> None:
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean")
    forward = Small(TermForward(encoder, precision="fp32", dropout=0.0), limit)
    table = tokenize(encoder, strings(60))
    steps = TermSteps(forward, table, draw, loss, seed=3, tokens_at_once=100_000)  # type: ignore[arg-type]
    steps.start(0, 1)
    with pytest.raises(AlphitaError, match=message) as caught:
        steps(0, 1.0)
    steps.stop()
    if limit > 1:
        fits = int(str(caught.value).split("tokens_at_once=")[1].split(":")[0])
        assert MIN_TOKENS <= fits <= limit
        assert limit < 4 * fits
        again = TermSteps(forward, table, draw, loss, seed=3, tokens_at_once=fits)  # type: ignore[arg-type]
        again.start(0, 1)
        assert torch.isfinite(again(0, 1.0)["loss"])
        again.stop()


def test_a_real_lack_of_memory_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**52)
    assert is_exhausted(caught.value)


# --- tokens --------------------------------------------------------------------------------------------------------


def test_token_rows_are_those_of_the_tokenizer(model: Path) -> None:
    encoder = TermEncoder.load(model, precision="fp32")
    names = strings(50)
    table = tokenize(encoder, names)
    chosen = np.array([7, 3, 3, 49])
    ids, lengths = table.rows(chosen)
    assert [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])] == encoder.tokenize(
        [names[number] for number in chosen]
    )
    ids, lengths = table.rows(np.empty(0, np.int64))
    assert len(ids) == len(lengths) == 0
    assert len(tokenize(encoder, [])) == 0


def test_many_strings_are_tokenized_once_and_mapped(model: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path))
    monkeypatch.setattr(forward, "MIN_CACHED", 10)
    monkeypatch.setattr(forward, "AT_ONCE", 7)
    monkeypatch.setattr(forward, "TABLES_KEPT", 2)
    encoder = TermEncoder.load(model, precision="fp32")
    first = tokenize(encoder, strings(40))
    calls = []
    real = TermEncoder.tokenize
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, rows: calls.append(1) or real(self, rows))
    again = tokenize(encoder, strings(40))
    assert not calls
    assert isinstance(again.ids, np.memmap)
    assert np.array_equal(first.ids, again.ids)
    assert np.array_equal(first.offsets, again.offsets)
    assert np.array_equal(again.ids, np.concatenate([np.array(row) for row in real(encoder, strings(40))]))
    shorter = TermEncoder.load(model, precision="fp32", max_length=4)
    assert tokenize(shorter, strings(40)).offsets[-1] < first.offsets[-1]
    tokenize(encoder, strings(41))
    assert len(list((tmp_path / "tokens").iterdir())) == 2


@pytest.mark.parametrize("name", ["ids", "offsets"])
@pytest.mark.parametrize("left", [None, 0, 40, 200])
def test_a_cache_cut_short_is_made_anew(model: Path, tmp_path: Path, monkeypatch, name: str, left: int | None) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path))
    monkeypatch.setattr(forward, "MIN_CACHED", 10)
    encoder = TermEncoder.load(model, precision="fp32")
    first = tokenize(encoder, strings(40)).ids.tolist()
    (file,) = tmp_path.glob(f"tokens/*/{name}.npy")
    if left is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:left])
    assert tokenize(encoder, strings(40)).ids.tolist() == first
    assert isinstance(tokenize(encoder, strings(40)).ids, np.memmap)


# --- batches made ahead --------------------------------------------------------------------------------------------


def test_batches_come_in_order_and_only_a_few_ahead() -> None:
    made: list[int] = []
    ahead = Ahead(lambda number: made.append(number) or number * number, 5, 40)  # type: ignore[func-returns-value]
    for number in range(5, 40):
        assert ahead.get(number) == number * number
        assert len(made) <= number - 5 + DEPTH + 2
    ahead.stop()
    assert made == list(range(5, 40))
    assert ahead.waited >= 0


def test_no_batch_is_made_beyond_the_fence() -> None:
    made: list[int] = []
    ahead = Ahead(lambda number: made.append(number), 0, 10, until=2)
    ahead.get(0)
    ahead.get(1)
    time.sleep(0.05)
    assert made == [0, 1]
    ahead.allow(10)
    ahead.get(2)
    ahead.stop()


def test_an_error_in_making_a_batch_is_raised_where_it_is_asked_for() -> None:
    def make(number: int) -> int:
        if number == 2:
            raise ValueError("no such triple")
        return number

    ahead = Ahead(make, 0, 5)
    assert [ahead.get(0), ahead.get(1)] == [0, 1]
    with pytest.raises(ValueError, match="no such triple"):
        ahead.get(2)
    ahead.stop()
