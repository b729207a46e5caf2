from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from alphita_lab.objectives.multi_similarity import multi_similarity
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from tests.reference import multi_similarity as reference

KINDS = ["full", "diagonal", "low_rank"]
R, D = 3, 4
GENTLE = {"alpha": 3.0, "beta": 7.0, "lam": 0.3, "eps": 0.25}


def turned_matrices(kind: str, seed: int = 0) -> RelationMatrices:
    """Matrices some way off the identity, in float64."""
    torch.manual_seed(seed)
    matrices = RelationMatrices(R, D, kind=kind, rank=2).double()
    with torch.no_grad():
        for parameter in matrices.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return matrices


def dense(matrices: RelationMatrices) -> np.ndarray:
    """M_r of every relation, (R, d, d), from the parameters and not through `forward`."""
    state = {name: value.detach().double().numpy() for name, value in matrices.state_dict().items()}
    if "matrix" in state:
        return state["matrix"]
    if "diagonal" in state:
        return np.stack([np.diag(row) for row in state["diagonal"]])
    return np.eye(matrices.dim) + np.einsum("rik,rjk->rij", state["u"], state["v"])


def triples(k: int, seed: int, tails: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    head = torch.randn(k, D, generator=random, dtype=torch.float64)
    tail = torch.randn(k, D, generator=random, dtype=torch.float64)
    relation = torch.randint(R, (k,), generator=random)
    return head, relation, tail, torch.randint(tails, (k,), generator=random)


@pytest.mark.parametrize("kind", KINDS)
def test_starts_at_the_identity(kind) -> None:
    matrices = RelationMatrices(R, D, kind=kind, rank=2)
    e, relation = torch.randn(5, D), torch.tensor([2, 0, 1, 1, 2])
    assert torch.equal(matrices(e, relation), e)
    head, relation, tail, concept = triples(6, 0)
    loss = term_relation_term(head.float(), relation, tail.float(), concept, matrices, mining=False)
    cosines = torch.nn.functional.cosine_similarity(head[:, None], tail[None, :], dim=-1)
    same = concept[:, None] == concept[None, :]
    assert loss.item() == pytest.approx(multi_similarity(cosines, same, ~same, mining=False).item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_the_transposed_matrix_times_each_row(kind) -> None:
    matrices = turned_matrices(kind)
    e, relation, _, _ = triples(9, 3)
    expected = np.stack([dense(matrices)[r].T @ row for row, r in zip(e.numpy(), relation.tolist(), strict=True)])
    np.testing.assert_allclose(matrices(e, relation).detach().numpy(), expected, atol=1e-12)
    one = matrices(e[:1], relation[:1]).detach()
    np.testing.assert_allclose(one.numpy(), expected[:1], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mining", [False, True])
def test_value_equals_the_reference(kind, mining) -> None:
    matrices = turned_matrices(kind)
    for seed in range(5):
        head, relation, tail, concept = triples(7, seed)
        ours = term_relation_term(head, relation, tail, concept, matrices, mining=mining, **GENTLE)
        expected = reference.term_relation_term(
            head.numpy(), relation.tolist(), tail.numpy(), concept.tolist(), dense(matrices), mining=mining, **GENTLE
        )
        assert ours.item() == pytest.approx(expected, rel=1e-10)
        assert expected > 0


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_of_rows_and_matrices_equal_the_reference(kind) -> None:
    matrices = turned_matrices(kind)
    head, relation, tail, concept = triples(6, 2)
    head.requires_grad_()
    tail.requires_grad_()
    term_relation_term(head, relation, tail, concept, matrices, **GENTLE).backward()
    h, t = head.detach().numpy().copy(), tail.detach().numpy().copy()
    parameters = dict(matrices.named_parameters())
    arrays = {name: parameter.detach().numpy() for name, parameter in parameters.items()}

    def loss() -> float:
        return reference.term_relation_term(h, relation.tolist(), t, concept.tolist(), dense(matrices), **GENTLE)

    np.testing.assert_allclose(head.grad.numpy(), reference.slopes(loss, h), atol=1e-8)
    np.testing.assert_allclose(tail.grad.numpy(), reference.slopes(loss, t), atol=1e-8)
    for name, array in arrays.items():
        expected = reference.slopes(loss, array)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(parameters[name].grad.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mining", [False, True])
def test_gradcheck(kind, mining) -> None:
    matrices = turned_matrices(kind)
    names = [name for name, _ in matrices.named_parameters()]
    head, relation, tail, concept = triples(5, 4)

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrices = matrices

        def forward(self, head, tail):
            return term_relation_term(head, relation, tail, concept, self.matrices, mining=mining, **GENTLE)

    def loss(head, tail, *values):
        state = {f"matrices.{name}": value for name, value in zip(names, values, strict=True)}
        return functional_call(Loss(), state, (head, tail))

    leaves = [tensor.detach().clone().requires_grad_() for tensor in (head, tail, *matrices.parameters())]
    assert torch.autograd.gradcheck(loss, leaves)


@pytest.mark.parametrize("kind", KINDS)
def test_training_the_matrices_lowers_the_loss(kind) -> None:
    torch.manual_seed(0)
    matrices = RelationMatrices(R, D, kind=kind, rank=2)
    head, relation, tail, concept = triples(8, 6)
    optimiser = torch.optim.Adam(matrices.parameters(), lr=0.05)
    values = []
    for _ in range(60):
        loss = term_relation_term(head.float(), relation, tail.float(), concept, matrices, mining=False)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    assert values[-1] < 0.9 * values[0]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), mining=st.booleans())
def test_order_of_triples_does_not_matter(seed, kind, mining) -> None:
    matrices = turned_matrices(kind)
    head, relation, tail, concept = triples(9, seed)
    value = term_relation_term(head, relation, tail, concept, matrices, mining=mining, **GENTLE).item()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    other = term_relation_term(
        head[order], relation[order], tail[order], concept[order], matrices, mining=mining, **GENTLE
    )
    assert other.item() == pytest.approx(value, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_computes_in_float32_under_autocast(kind) -> None:
    matrices = turned_matrices(kind).float()
    head, relation, tail, concept = triples(8, 1)
    plain = term_relation_term(head.float(), relation, tail.float(), concept, matrices)
    with torch.autocast("cpu", torch.bfloat16):
        cast = term_relation_term(head.float(), relation, tail.float(), concept, matrices)
    assert cast.item() == plain.item()
    low = term_relation_term(head.bfloat16(), relation, tail.bfloat16(), concept, matrices)
    assert low.dtype == torch.float32


def test_numbers_of_each_kind_and_wrong_use() -> None:
    sizes = {
        kind: sum(parameter.numel() for parameter in RelationMatrices(5, 8, kind=kind, rank=2).parameters())
        for kind in KINDS
    }
    assert sizes == {"full": 5 * 64, "diagonal": 5 * 8, "low_rank": 2 * 5 * 8 * 2}
    with pytest.raises(
        ValueError, match=r"unknown relation matrix 'fll'; choose from \['full', 'diagonal', 'low_rank'\]"
    ):
        RelationMatrices(5, 8, kind="fll")
    with pytest.raises(ValueError, match="1 or more, not 0, 8 and 16"):
        RelationMatrices(0, 8)
