"""The vector of a mention: the mean over its tokens, in every way in which rows are laid out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphita.encoder.encoder import TermEncoder
from alphita_lab.encoder.vocabulary import with_tags
from alphita_lab.training.engine.forward import TermForward, TokenTable
from alphita_lab.training.mentions import rows as mention_steps
from alphita_lab.training.mentions.injection import inject
from alphita_lab.training.mentions.rows import MentionForward, within
from alphita_lab.training.terms.batches import Batch, TermSteps
from tests.tiny import tiny_model

# Rows with a context, and names by themselves.
TEXTS = [
    "the [M_s] heart pain [M_e] of the liver",
    "[M_s] skin [M_e]",
    "liver ache",
    "skin [M_s] bleeding of bone [M_e]",
    "pain",
    "swelling of the [M_s] eye [M_e] and of the [PAD] heart",
]


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    (folder / "tagged").mkdir()
    return with_tags(tiny_model(folder / "tiny", dropout=0.0), folder / "tagged")


def opened(tagged, pooling: str = "mean") -> TermEncoder:
    return TermEncoder.load(tagged.encoder, precision="fp32", pooling=pooling, device="cpu")


def forward_of(encoder: TermEncoder, tagged, *, packed: bool = True) -> MentionForward:
    forward = MentionForward(encoder, tagged.ids, precision="fp32")
    assert forward._pack
    forward._pack = packed
    forward.module.eval()
    return forward


def by_loops(encoder: TermEncoder, ids: list[int], tags: tuple[int, int]) -> np.ndarray:
    """Mean over the tokens between the tags of one row by itself; over all tokens where there are none."""
    with torch.no_grad():
        hidden = encoder.module.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    if tags[0] in ids:
        hidden = hidden[ids.index(tags[0]) + 1 : ids.index(tags[1])]
    return sum(hidden) / len(hidden)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 4), st.booleans()), min_size=1))
def test_what_stands_between_the_tags(shapes) -> None:
    """Rows end to end, with and without a mention: the tags of one row say nothing of the next."""
    ids: list[int] = []
    expected: list[bool] = []
    for before, inside, behind, has in shapes:
        ids += [1] * before + ([8] + [1] * inside + [9] if has else [1] * inside) + [1] * behind
        expected += [False] * before + ([False] + [True] * inside + [False] if has else [False] * inside)
        expected += [False] * behind
    assert within(torch.tensor(ids), (8, 9)).tolist() == expected


@pytest.mark.parametrize("packed", [True, False])
def test_vectors_are_means_over_the_mentions_tokens(tagged, packed: bool) -> None:
    """Beside other rows and by itself alike: neither padding nor neighbours are in it."""
    encoder = opened(tagged)
    forward = forward_of(encoder, tagged, packed=packed)
    rows = encoder.tokenize(TEXTS)
    with torch.no_grad():
        together = forward(rows).numpy()
        alone = np.concatenate([forward([row]).numpy() for row in rows])
    expected = np.stack([by_loops(encoder, row, tagged.ids) for row in rows])
    np.testing.assert_allclose(together, expected, atol=1e-5)
    np.testing.assert_allclose(alone, expected, atol=1e-5)
    whole = by_loops(encoder, rows[0], (-1, -1))
    assert np.abs(whole - expected[0]).max() > 1e-2


@pytest.mark.parametrize("packed", [True, False])
def test_with_cls_pooling_the_first_state_is_the_vector(tagged, packed: bool) -> None:
    encoder = opened(tagged, "cls")
    rows = encoder.tokenize(TEXTS)
    with torch.no_grad():
        found = forward_of(encoder, tagged, packed=packed)(rows).numpy()
        states = [encoder.module.model(torch.tensor([row])).last_hidden_state[0, 0].numpy() for row in rows]
    np.testing.assert_allclose(found, np.stack(states), atol=1e-5)


def test_in_an_injected_encoder_the_mention_is_where_entities_are_added(tagged) -> None:
    encoder = opened(tagged)
    injected = inject(encoder, np.random.default_rng(0).normal(size=(7, 5)), layer=1, nearest=3)
    with torch.no_grad():
        injected.injection.up.weight.normal_(generator=torch.Generator().manual_seed(0))
    forward = MentionForward(encoder, tagged.ids, precision="fp32")
    forward.module.eval()
    rows = encoder.tokenize(TEXTS)
    with torch.no_grad():
        found = forward(rows).numpy()
        for row, ids in enumerate(rows):
            start, end = 1, len(ids) - 1
            if tagged.ids[0] in ids:
                start, end = ids.index(tagged.ids[0]) + 1, ids.index(tagged.ids[1])
            hidden = injected(torch.tensor([ids]), None, torch.tensor([[0, start, end]])).last_hidden_state[0]
            expected = hidden[start:end].mean(0) if tagged.ids[0] in ids else hidden.mean(0)
            np.testing.assert_allclose(found[row], expected.numpy(), atol=1e-5)


def table_of(encoder: TermEncoder) -> TokenTable:
    rows = encoder.tokenize(TEXTS)
    return TokenTable(
        np.array([token for row in rows for token in row], np.int32), np.cumsum([0, *map(len, rows)]).astype(np.int64)
    )


@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_vectors_without_gradients_in_any_order_and_any_blocks(tagged, monkeypatch, budget: int) -> None:
    encoder = opened(tagged)
    forward = forward_of(encoder, tagged)
    forward.module.train()
    monkeypatch.setattr(mention_steps.MentionForward, "BUDGET", {"cpu": budget})
    rows = np.array([4, 0, 5, 0, 3])
    found = forward.vectors(table_of(encoder), rows)
    assert forward.module.training
    forward.module.eval()
    tokens = encoder.tokenize(TEXTS)
    expected = np.stack([by_loops(encoder, tokens[row], tagged.ids) for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_gradients_in_parts_are_those_of_the_whole_batch(tagged) -> None:
    """With dropout off; the loss mixes all vectors of the batch."""

    def gradients(tokens_at_once: int, packed: bool) -> list[torch.Tensor]:
        encoder = opened(tagged)
        forward = forward_of(encoder, tagged, packed=packed)

        def draw(number: int) -> Batch:
            return Batch(np.array([0, 1, 2, 3, 5]), {}, rows=5)

        def loss(e: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"loss": (e @ e.T).pow(2).mean()}

        steps = TermSteps(forward, table_of(encoder), draw, loss, seed=0, tokens_at_once=tokens_at_once)
        steps.start(0, 1)
        steps(0, 1.0)
        steps.stop()
        return [p.grad for p in forward.module.parameters() if p.grad is not None]

    whole, parts, padded = gradients(10_000, True), gradients(12, True), gradients(10_000, False)
    assert len(whole) > 20
    for one, *others in zip(whole, parts, padded, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_without_tags_it_is_the_forward_pass_of_names(tagged) -> None:
    encoder = opened(tagged)
    plain, same = TermForward(encoder, precision="fp32"), MentionForward(encoder, None, precision="fp32")
    rows = encoder.tokenize(["liver ache", "pain"])
    encoder.module.eval()
    torch.testing.assert_close(plain(rows), same(rows), atol=0, rtol=0)
