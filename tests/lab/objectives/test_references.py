"""Every objective against slow, plain Python: its value, its slopes at every input, and its arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call

from alphita_lab.objectives.attribute_prediction import AttributeProjection, attribute_distance, attribute_prediction
from alphita_lab.objectives.entity_linking import NOT_MASKED, entity_linking, masked_language_model
from alphita_lab.objectives.info_nce import info_nce
from alphita_lab.objectives.kept_nearness import kept_nearness
from alphita_lab.objectives.kge_margin import ms_v1, ms_v2, ms_v3
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.objectives.regression import regression
from alphita_lab.objectives.replaced_token import detection, guessing
from alphita_lab.objectives.scored_pairs import scored_pairs, triples
from alphita_lab.objectives.semantic_type import SemanticTypeHead, semantic_type
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita_lab.objectives.transe import RelationVectors, transe_margin, transe_similarity
from alphita_lab.objectives.triplet_mining import mined_term_term
from tests.reference import attribute_prediction as attribute_reference
from tests.reference import info_nce as info_nce_reference
from tests.reference import kge, multi_similarity, relational, replaced_token

D, R, T = 4, 3, 3
MS = {"alpha": 3.0, "beta": 7.0, "lam": 0.3, "eps": 0.25}
MARGINS = {"alpha": 3.0, "beta": 7.0, "eps": 0.25}
DISTANCES = {"alpha": 0.7, "beta": 1.3, "lam": -2.5, "eps": 0.4}


@dataclass
class Case:
    """A loss of some tensors (float64) with a gradient and some without, and its reference of the former's arrays."""

    loss: Callable[..., torch.Tensor]
    reference: Callable[..., float]
    vectors: list[torch.Tensor]
    parameters: list[torch.Tensor] = field(default_factory=list)  # what has a gradient too, but is float32 in training
    fixed: list[torch.Tensor] = field(default_factory=list)

    def run(
        self, convert: Callable[[torch.Tensor], torch.Tensor], vectors: torch.dtype, *, autocast: bool = False
    ) -> tuple[Any, list[Any]]:
        leaves = [tensor.detach().clone().to(vectors).requires_grad_() for tensor in self.vectors]
        leaves += [convert(tensor.detach().clone()).requires_grad_() for tensor in self.parameters]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = self.loss(*leaves, *map(convert, self.fixed))
        loss.backward()
        return loss.detach(), [leaf.grad if leaf.grad is not None else torch.zeros_like(leaf) for leaf in leaves]


class Draw:
    """Random inputs and settings of one seed."""

    def __init__(self, seed: int) -> None:
        self.torch, self.numpy = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
        torch.manual_seed(seed)

    def rows(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.torch, dtype=torch.float64)

    def numbers(self, n: int, most: int, least: int = 0) -> torch.Tensor:
        return torch.randint(least, most, (n,), generator=self.torch)

    def one_of(self, *options: Any) -> Any:
        return options[int(self.numpy.integers(len(options)))]

    def near(self, n: int, concepts: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of a concept lie near each other, so that mining finds some pairs and not all."""
        concept = self.numbers(n, concepts)
        return self.rows(concepts, D)[concept] + self.rows(n, D), concept

    def mask(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=self.torch) < 0.5


def attributes(draw: Draw) -> Case:
    pairs, margin = draw.one_of(1, 3, 5), draw.one_of(0.5, 2.0, 4.0)
    counts = draw.numpy.integers([[1, 0]] * pairs, [[4, 7]] * pairs)
    pair = np.repeat(np.arange(pairs), counts.sum(1))
    positive = np.concatenate([np.arange(sum(row)) < row[0] for row in counts.tolist()])
    projection = AttributeProjection(D, draw.one_of(3, D)).double()

    def loss(title, value, weight, bias):
        state = {"dense.weight": weight, "dense.bias": bias}
        left, right = (functional_call(projection, state, tensor) for tensor in (title[torch.from_numpy(pair)], value))
        distance = attribute_distance(left, right)
        return attribute_prediction(distance, torch.from_numpy(pair), torch.from_numpy(positive), margin=margin)

    def reference(title, value, weight, bias):
        return attribute_reference.l_pap(title, value, pair.tolist(), positive.tolist(), weight, bias, margin)

    return Case(loss, reference, [2 * draw.rows(pairs, D), 2 * draw.rows(len(pair), D)], [*projection.parameters()])


def linking(draw: Draw) -> Case:
    total, block, count = draw.one_of(True, False), draw.one_of(1, 3, 20, 99), draw.one_of(1, 8, 20)
    gold, entities = draw.numbers(7, count, -1), draw.rows(count, D)
    divisor = 1 if total else max(1, int((gold >= 0).sum()))
    return Case(
        lambda projected, entities: entity_linking(projected, gold, entities, total=total, block=block),
        lambda projected: kge.linking(projected, gold.tolist(), entities.numpy()) / divisor,
        [draw.rows(7, D)],
        fixed=[entities],
    )


def language(draw: Draw) -> Case:
    labels = torch.where(draw.mask(2, 5), NOT_MASKED, draw.numbers(10, 7).reshape(2, 5))
    return Case(
        lambda scores: masked_language_model(scores, labels),
        lambda scores: kge.language(scores.reshape(10, 7), labels.flatten().tolist()),
        [draw.rows(2, 5, 7)],
    )


def contrasts(draw: Draw) -> Case:
    n, h, tau, symmetric = draw.one_of(1, 6), draw.one_of(0, 3), draw.one_of(0.05, 0.2, 1.0), draw.one_of(True, False)
    concept, takes = draw.numbers(n, 4), draw.one_of(None, draw.mask(n, h))
    settings = {"temperature": tau, "symmetric": symmetric, "extra_negative": takes}

    def reference(names, texts, extra):
        allowed = None if takes is None else takes.tolist()
        return info_nce_reference.info_nce(names, texts, concept.tolist(), tau, symmetric, extra, allowed)

    return Case(
        lambda names, texts, extra: info_nce(names, texts, concept, extra=extra, **settings)["loss"],
        reference,
        [draw.rows(n, D), draw.rows(n, D), draw.rows(h, D)],
    )


def nearness(draw: Draw) -> Case:
    def reference(v, b) -> float:
        """1/k^2 sum_ij (cos(v_i, v_j) - cos(b_i, b_j))^2."""
        cos, k = multi_similarity.cos, len(v)
        return sum((cos(v[i], v[j]) - cos(b[i], b[j])) ** 2 for i in range(k) for j in range(k)) / k**2

    base = draw.rows(5, 3)
    return Case(kept_nearness, lambda v: reference(v, base.numpy()), [draw.rows(5, D)], fixed=[base])


def squares(draw: Draw) -> Case:
    targets = draw.rows(4, D)

    def reference(o) -> float:
        """1/(n k) sum_i sum_m (o_im - t_im)^2."""
        return sum((float(o[i][m]) - float(targets[i][m])) ** 2 for i in range(4) for m in range(D)) / (4 * D)

    return Case(regression, reference, [draw.rows(4, D)], fixed=[targets])


def terms(draw: Draw, *, mining: bool) -> Case:
    e, concept = draw.near(draw.one_of(1, 8, 12), 3)
    settings = {**MS, "mining": mining}
    return Case(
        lambda e: term_term(e, concept, **settings),
        lambda e: multi_similarity.term_term(e, concept.tolist(), **settings),
        [e],
    )


def margins(draw: Draw, version: str, *, mining: bool) -> Case:
    """Detached margins stay where they are while the similarities move."""
    e, concept = draw.near(8, 3)
    options, names, start = {**MARGINS, "mining": mining}, concept.tolist(), e.numpy().copy()
    if version in ("v1", "v2"):
        fast, slow = {"v1": (ms_v1, kge.v1), "v2": (ms_v2, kge.v2)}[version]
        return Case(lambda e: fast(e, concept, **options), lambda e: slow(e, names, **options), [e])
    graph = draw.one_of(draw.rows(3, 3), torch.complex(draw.rows(3, 3), draw.rows(3, 3)))[concept]
    known = torch.arange(8) % 4 != 1 if version == "unknown" else None
    detached = version == "detached"

    def slow(e):
        some = None if known is None else known.tolist()
        return kge.v3(e, names, graph.numpy(), some, margins_of=start if detached else None, **options)

    return Case(
        lambda e, graph: ms_v3(e, concept, graph, known, detach_margin=detached, **options), slow, [e], fixed=[graph]
    )


def triplets(draw: Draw) -> Case:
    e, concept = draw.rows(7, D), draw.numbers(7, 3)
    settings = {"alpha": 1.5, "beta": 4.0, "lam": 0.4, "margin": draw.one_of(0.05, 0.2, 0.7)}
    return Case(
        lambda e: mined_term_term(e, concept, **settings),
        lambda e: relational.mined_term_term(e, concept.numpy(), **settings),
        [e],
    )


def guesses(draw: Draw) -> Case:
    true = torch.where(draw.mask(6), NOT_MASKED, draw.numbers(6, 5))
    return Case(
        lambda logits: guessing(logits, true),
        lambda logits: replaced_token.guessing(logits, true.tolist())[0],
        [3 * draw.rows(6, 5)],
    )


def detections(draw: Draw) -> Case:
    replaced = draw.mask(draw.one_of(0, 9))
    return Case(
        lambda logits: detection(logits, replaced),
        lambda logits: replaced_token.detection(logits.tolist(), replaced.tolist())[0],
        [3 * draw.rows(len(replaced))],
    )


def scored(draw: Draw, objective: str) -> Case:
    """Scores in fifths, so that some are equal."""
    n = draw.one_of(1, 6)
    score, slow = draw.numbers(n, 6).double() / 5, getattr(info_nce_reference, objective)
    return Case(
        lambda left, right, score: scored_pairs(left, right, score, objective=objective),
        lambda left, right: slow(left, right, score.numpy()),
        [draw.rows(n, D), draw.rows(n, D)],
        fixed=[score],
    )


def inference(draw: Draw) -> Case:
    n, tau = draw.one_of(1, 5), draw.one_of(0.05, 0.2)
    premise = draw.one_of(None, draw.numbers(n, 3))
    groups = list(range(n)) if premise is None else premise.tolist()
    return Case(
        lambda *rows: triples(*rows, premise=premise, temperature=tau),
        lambda *rows: info_nce_reference.triples(*rows, groups, tau),
        [draw.rows(n, D) for _ in range(3)],
    )


def types(draw: Draw) -> Case:
    present = torch.rand(7, T, generator=draw.torch) < 0.4
    head = SemanticTypeHead(D, T).double()

    def loss(e, weight, bias):
        turned = SemanticTypeHead(D, T)
        del turned.linear.weight, turned.linear.bias
        turned.linear.weight, turned.linear.bias = weight, bias
        return semantic_type(e, present, turned)

    return Case(
        loss,
        lambda e, weight, bias: relational.semantic_type(e, present.numpy(), weight, bias),
        [draw.rows(7, D)],
        [*head.parameters()],
    )


def relations(draw: Draw, kind: str, *, mining: bool) -> Case:
    relation, concept = draw.numbers(6, R), draw.numbers(6, 4)
    matrices = RelationMatrices(R, D, kind=kind, rank=2).double()
    names = [name for name, _ in matrices.named_parameters()]
    options = {**MS, "mining": mining}

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrices = matrices

        def forward(self, head, tail):
            return term_relation_term(head, relation, tail, concept, self.matrices, **options)

    def loss(head, tail, *values):
        state = {f"matrices.{name}": value for name, value in zip(names, values, strict=True)}
        return functional_call(Loss(), state, (head, tail))

    def reference(head, tail, *values):
        state = dict(zip(names, values, strict=True))
        if kind == "full":
            dense = state["matrix"]
        elif kind == "diagonal":
            dense = np.stack([np.diag(row) for row in state["diagonal"]])
        else:
            dense = np.eye(D) + np.einsum("rik,rjk->rij", state["u"], state["v"])
        return multi_similarity.term_relation_term(head, relation.tolist(), tail, concept.tolist(), dense, **options)

    # Some way off the identity.
    turned = [value + 0.5 * torch.randn_like(value) for value in matrices.parameters()]
    return Case(loss, reference, [draw.rows(6, D), draw.rows(6, D)], turned)


def vectors_of(draw: Draw) -> tuple[Callable[[torch.Tensor], Any], torch.Tensor]:
    """What looks up rows of given relation vectors, and such vectors."""
    made = RelationVectors(R, D).double()
    return lambda values: lambda relation: functional_call(made, {"vectors": values}, relation), made.vectors


def translation(draw: Draw) -> Case:
    k, margin = draw.one_of(1, 6), draw.one_of(0.1, 1.0, 6.0)
    relation, (look_up, start) = draw.numbers(k, R), vectors_of(draw)
    return Case(
        lambda h, t, c, values: transe_margin(h, relation, t, c, look_up(values), margin=margin),
        lambda h, t, c, values: relational.transe_margin(h, relation.numpy(), t, c, values, margin),
        [draw.rows(k, D) for _ in range(3)],
        [start],
    )


def distances(draw: Draw, *, mining: bool) -> Case:
    relation, concept, (look_up, start) = draw.numbers(6, R), draw.numbers(6, 3), vectors_of(draw)
    options = {**DISTANCES, "mining": mining}
    return Case(
        lambda h, t, values: transe_similarity(h, relation, t, concept, look_up(values), **options),
        lambda h, t, values: relational.transe_similarity(h, relation.numpy(), t, concept.numpy(), values, **options),
        [draw.rows(6, D), draw.rows(6, D)],
        [start],
    )


CASES: dict[str, Callable[[Draw], Case]] = {
    "attribute prediction": attributes,
    "entity linking": linking,
    "masked language model": language,
    "infonce": contrasts,
    "kept nearness": nearness,
    "regression": squares,
    "mined triplets": triplets,
    "guessing": guesses,
    "detection": detections,
    "cosine of scored pairs": lambda draw: scored(draw, "cosine"),
    "cosent": lambda draw: scored(draw, "cosent"),
    "inference": inference,
    "semantic type": types,
    "transe margin": translation,
}
for mining in (True, False):
    name = "mined" if mining else "all pairs"
    CASES |= {
        f"terms, {name}": lambda draw, mining=mining: terms(draw, mining=mining),
        f"transe similarity, {name}": lambda draw, mining=mining: distances(draw, mining=mining),
        **{
            f"{version}, {name}": lambda draw, version=version, mining=mining: margins(draw, version, mining=mining)
            for version in ("v1", "v2", "detached", "attached", "unknown")
        },
        **{
            f"{kind} relations, {name}": lambda draw, kind=kind, mining=mining: relations(draw, kind, mining=mining)
            for kind in ("full", "diagonal", "low_rank")
        },
    }


@pytest.mark.parametrize("name", CASES)
def test_value_and_slopes_equal_the_printed_equation(name: str) -> None:
    steepest = 0.0
    for seed in range(8):
        case = CASES[name](Draw(seed))
        loss, gradients = case.run(lambda tensor: tensor, torch.float64)
        arrays = [tensor.detach().numpy().copy() for tensor in (*case.vectors, *case.parameters)]

        def value(case=case, arrays=arrays) -> float:
            return case.reference(*arrays)

        assert loss.item() == pytest.approx(value(), rel=1e-9, abs=1e-12)
        for gradient, array in zip(gradients, arrays, strict=True):
            expected = multi_similarity.slopes(value, array, 1e-7)
            np.testing.assert_allclose(gradient.numpy(), expected, atol=2e-6, rtol=1e-6)
            steepest = max(steepest, float(np.abs(expected).max(initial=0)))
    assert steepest > 1e-3


def lowered(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex64)
    return tensor.float() if tensor.is_floating_point() else tensor


@pytest.mark.parametrize("name", CASES)
def test_it_computes_in_float32_under_autocast_and_of_low_precision(name: str) -> None:
    for seed in range(3):
        case = CASES[name](Draw(seed))
        plain, slopes = case.run(lowered, torch.float32)
        assert plain.dtype == torch.float32
        if "mined" not in name:
            exact, _ = case.run(lambda tensor: tensor, torch.float64)
            assert plain.item() == pytest.approx(exact.item(), rel=1e-4, abs=1e-5)
        cast, cast_slopes = case.run(lowered, torch.float32, autocast=True)
        assert cast.item() == plain.item()
        assert all(torch.equal(one, other) for one, other in zip(cast_slopes, slopes, strict=True))
        low, gradients = case.run(lowered, torch.bfloat16)
        assert low.dtype == torch.float32
        assert torch.isfinite(low)
        for gradient, vectors in zip(gradients, [*case.vectors, *case.parameters], strict=False):
            assert torch.isfinite(gradient).all()
            assert gradient.shape == vectors.shape
        assert all(gradient.dtype == torch.bfloat16 for gradient in gradients[: len(case.vectors)])
