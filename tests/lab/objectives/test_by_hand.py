"""What the objectives give for inputs small enough to work out, at the edges, and for wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner, TripletMarginMiner
from sklearn.metrics import roc_auc_score

from alphita_lab.objectives.attribute_prediction import AttributeProjection, attribute_distance, attribute_prediction
from alphita_lab.objectives.entity_linking import NO_ENTITY, NOT_MASKED, entity_linking, masked_language_model
from alphita_lab.objectives.info_nce import info_nce
from alphita_lab.objectives.kge_margin import mined, ms_v2, ms_v3, with_margins
from alphita_lab.objectives.multi_similarity import multi_similarity, term_term
from alphita_lab.objectives.regression import regression
from alphita_lab.objectives.replaced_token import area_under_curve, detection, drawn, guessing
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita_lab.objectives.transe import RelationVectors, transe_margin, transe_similarity
from alphita_lab.objectives.triplet_mining import mined_term_term
from alphita_lab.training.text.masked_language import NOT_MASKED as NOT_MASKED_IN_TRAINING
from tests.reference import replaced_token

SIXTY = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2]], dtype=torch.float64)
Loss = Callable[[torch.Tensor], torch.Tensor]


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def numbers(n: int, most: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(most, (n,), generator=torch.Generator().manual_seed(seed))


def slope_of(loss: Loss, x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    loss(leaf).backward()
    assert leaf.grad is not None
    return leaf.grad


def contrast(*given: torch.Tensor, **settings: object) -> torch.Tensor:
    return info_nce(*given, **settings)["loss"]


# --- multi-similarity ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("concept", "expected"), [([4, 4], math.log(2) / 2), ([4, 9], math.log(2) / 50)])
def test_two_terms_at_60_degrees(concept: list[int], expected: float) -> None:
    assert term_term(SIXTY, torch.tensor(concept), mining=False).item() == pytest.approx(expected, abs=1e-12)


def test_pairs_that_are_mined() -> None:
    # Positives .9 and .6; negatives .55 (above .6 - .1: mined) and .4 (not). Of the positives only .6 is below .65.
    similarity = torch.tensor([[0.9, 0.6, 0.55, 0.4]], dtype=torch.float64)
    positive = torch.tensor([[True, True, False, False]])
    expected = math.log1p(math.exp(-2 * 0.1)) / 2 + math.log1p(math.exp(50 * 0.05)) / 50
    assert multi_similarity(similarity, positive, ~positive).item() == pytest.approx(expected, abs=1e-14)
    # A pair that is neither does not count, however near.
    neither = torch.tensor([[False, False, False, True]])
    value = multi_similarity(similarity, positive, neither, mining=False).item()
    pulled = math.log1p(math.exp(-2 * 0.4) + math.exp(-2 * 0.1)) / 2
    assert value == pytest.approx(pulled + math.log1p(math.exp(-50 * 0.1)) / 50, abs=1e-14)
    # Margins do not decide what is mined.
    kept, pushed = mined(similarity, positive, ~positive, 0.1)
    assert (kept.tolist(), pushed.tolist()) == ([[False, True, False, False]], [[False, False, True, False]])
    margin = torch.tensor([[0.0, 0.3, 0.7, -9.0]], dtype=torch.float64)
    expected = math.log1p(math.exp(-2 * 0.3)) / 2 + math.log1p(math.exp(50 * -0.15)) / 50
    assert with_margins(similarity, margin, positive, ~positive).item() == pytest.approx(expected, abs=1e-14)
    # Two far concepts of two near terms each: no triplet is mined.
    far = torch.tensor([[1.0, 0.0], [1.0, 0.01], [-1.0, 0.0], [-1.0, 0.01]])
    assert mined_term_term(far, torch.tensor([0, 0, 1, 1])).item() == 0
    assert mined_term_term(far, torch.tensor([0, 1, 0, 1])).item() > 0.1


@pytest.mark.parametrize(
    ("n", "concepts", "miner"),
    [(n, c, m) for n, c in ((16, 12), (24, 6), (9, 1)) for m in (None, "pairs")] + [(40, 12, "triplets")],
)
def test_pytorch_metric_learning_agrees(n: int, concepts: int, miner: str | None) -> None:
    """It averages over all anchors too; but it gives 0 when its miner leaves one pair of each kind or none at all."""
    oracle = MultiSimilarityLoss(alpha=2, beta=50, base=0.5)
    mine = {"pairs": MultiSimilarityMiner(epsilon=0.1), "triplets": TripletMarginMiner(0.2, "all"), None: None}[miner]
    for seed in range(3):
        concept = numbers(n, concepts, seed)
        # Directions of a concept near each other, and near enough to others for the margin to tell.
        e = torch.ones(6) * 0.6 + rows(concepts, 6, seed=seed)[concept] * 0.8 + rows(n, 6, seed=seed + 50) * 0.6

        def theirs(x: torch.Tensor, concept=concept) -> torch.Tensor:
            return oracle(x, concept, mine(x, concept) if mine else None)

        def ours(x: torch.Tensor, concept=concept) -> torch.Tensor:
            if miner == "triplets":
                return mined_term_term(x, concept, alpha=2, beta=50, lam=0.5, margin=0.2)
            return term_term(x, concept, mining=miner is not None)

        assert ours(e).item() == pytest.approx(theirs(e).item(), rel=1e-9, abs=1e-15)
        torch.testing.assert_close(slope_of(ours, e), slope_of(theirs, e), rtol=1e-6, atol=1e-11)


def test_anchors_with_nothing_mined_add_zero_and_count() -> None:
    e, concept, alone = rows(10, 5).abs(), numbers(10, 3), torch.arange(100, 110)
    for loss in (term_term, mined_term_term):
        for few, names in ((e, alone), (e, torch.zeros(10, dtype=torch.int64)), (e[:1], concept[:1])):
            assert loss(few, names).item() == 0.0
    # Five lone rows at right angles to all others: no row's mined sets change, but the mean is over 15 anchors.
    wide = torch.zeros(15, 10, dtype=torch.float64)
    wide[:10, :5], wide[10:, 5:] = e, torch.eye(5, dtype=torch.float64)
    together, apart = term_term(wide, torch.cat([concept, alone[:5]])).item(), term_term(e, concept).item()
    assert together == pytest.approx(apart * 10 / 15, rel=1e-12)
    assert apart > 0


@pytest.mark.parametrize("shift", [-28.0, 0.0, 500.0])
def test_unbounded_similarities_neither_overflow_nor_vanish(shift: float) -> None:
    similarity = torch.tensor([[30.0, -40.0, 20.0], [1.0, 2.0, 3.0]]) + shift
    positive = torch.tensor([[True, False, False], [False, True, False]])

    def loss(x: torch.Tensor) -> torch.Tensor:
        return multi_similarity(x, positive, ~positive, lam=shift, mining=False)

    # log(1 + exp(1000)) / 50 is 20; the second anchor gives 2.96 and, by its positive, a little.
    expected = (20 + 3 + math.log1p(math.exp(-4)) / 2) / 2
    assert loss(similarity).item() == pytest.approx(expected, rel=1e-5)
    slope = slope_of(loss, similarity)
    assert slope[0, 2].item() == pytest.approx(0.5)
    assert torch.isfinite(slope).all()


# --- margins by a graph --------------------------------------------------------------------------------------------


def test_unknown_concepts_get_the_fixed_margin_whatever_their_rows_hold() -> None:
    e, concept, graph = rows(12, 5), numbers(12, 6, 4), rows(12, 3, seed=4)
    known = concept % 2 == 0
    value = ms_v3(e, concept, graph, known).item()
    for filler in (0.0, math.nan, math.inf, 7.0):
        other = torch.where(known[:, None], graph, filler)
        assert ms_v3(e, concept, other, known).item() == pytest.approx(value, rel=1e-12)
        assert torch.isfinite(slope_of(lambda x, other=other: ms_v3(x, concept, other, known), e)).all()
    nothing, negatives_only = torch.zeros(12, dtype=torch.bool), torch.arange(12)
    for options in ({}, {"lambda_n": 0.2}):
        expected = ms_v2(e, negatives_only, mining=False, **options).item()
        moved = ms_v3(e, negatives_only, graph, nothing, mining=False, **options).item()
        assert moved == pytest.approx(expected, rel=1e-12)


# --- InfoNCE, pairs with scores and vectors to keep ----------------------------------------------------------------


def test_targets_get_no_gradient() -> None:
    targets = rows(3, 4).requires_grad_()
    regression(rows(3, 4, seed=1).requires_grad_(), targets).backward()
    assert targets.grad is None


# --- relations and types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), [("full", 5 * 64), ("diagonal", 5 * 8), ("low_rank", 2 * 5 * 8 * 2)])
def test_relation_matrices_start_at_the_identity(kind: str, size: int) -> None:
    matrices = RelationMatrices(5, 8, kind=kind, rank=2)
    assert sum(parameter.numel() for parameter in matrices.parameters()) == size
    head, tail, relation, concept = rows(6, 8).float(), rows(6, 8, seed=1).float(), numbers(6, 5), numbers(6, 4)
    assert torch.equal(matrices(head, relation), head)
    loss = term_relation_term(head, relation, tail, concept, matrices, mining=False)
    cosines = torch.nn.functional.cosine_similarity(head[:, None], tail[None, :], dim=-1)
    same = concept[:, None] == concept[None, :]
    assert loss.item() == pytest.approx(multi_similarity(cosines, same, ~same, mining=False).item(), rel=1e-5)


def test_relation_vectors_start_standard_normal() -> None:
    torch.manual_seed(0)
    values = RelationVectors(50, 400).vectors.detach()
    assert abs(float(values.mean())) < 0.02
    assert float(values.std()) == pytest.approx(1.0, abs=0.02)


# --- attributes ----------------------------------------------------------------------------------------------------


# --- entities and masked tokens ------------------------------------------------------------------------------------


def test_mentions_that_are_linked() -> None:
    entities = torch.eye(3, dtype=torch.float64)
    projected = torch.tensor([[math.log(2), 0.0, 0.0], [0.0, 0.0, math.log(6)]], dtype=torch.float64)
    gold = torch.tensor([0, 1])
    expected = math.log(2) + math.log(8)  # -log 2/4, -log 1/8
    assert entity_linking(projected, gold, entities, total=True).item() == pytest.approx(expected)
    # The entity furthest from the mention is as good a label as any: the sum is over all entities, not the nearest.
    assert entity_linking(projected[1:], gold[1:], entities).item() == pytest.approx(math.log(8))
    nothing = torch.full((2,), NO_ENTITY)
    assert (slope_of(lambda x: entity_linking(x, nothing, entities), projected) == 0).all()
    assert entity_linking(projected[:0], nothing[:0], entities).item() == 0
    none = masked_language_model(rows(2, 5, 7), torch.full((2, 5), NOT_MASKED))
    assert none.item() == 0
    assert NOT_MASKED == NOT_MASKED_IN_TRAINING


@pytest.mark.parametrize("scale", [30.0, 1.0, 1e-4])
@pytest.mark.parametrize("block", [4, 30])
def test_linking_is_torchs_cross_entropy_however_large_the_logits(scale: float, block: int) -> None:
    projected, gold, entities = scale * rows(5, 4), numbers(5, 30), scale * rows(30, 4, seed=1)
    theirs = torch.nn.functional.cross_entropy(projected @ entities.T, gold).item()
    assert entity_linking(projected, gold, entities, block=block).item() == pytest.approx(theirs, rel=1e-10)
    single = entity_linking(projected.float(), gold, entities.float(), block=block)
    assert single.item() == pytest.approx(theirs, rel=1e-4)
    assert torch.isfinite(slope_of(lambda x: entity_linking(x, gold, entities, block=block), projected)).all()
    # Entities in half precision are read in float32.
    half = (entities / scale).half()
    expected = entity_linking(projected, gold, half.double(), block=block).item()
    assert entity_linking(projected.float(), gold, half, block=block).item() == pytest.approx(expected, rel=1e-5)


def test_parts_of_guesses_add_up_to_the_whole() -> None:
    logits, true = rows(7, 5), torch.tensor([0, 1, NOT_MASKED, 4, 2, 2, 0])
    parts = guessing(logits[:3], true[:3], masked=6) + guessing(logits[3:], true[3:], masked=6)
    torch.testing.assert_close(parts, guessing(logits, true))
    flat, replaced = rows(9), torch.arange(9) % 4 == 0
    parts = detection(flat[:2], replaced[:2], tokens=9) + detection(flat[2:], replaced[2:], tokens=9)
    torch.testing.assert_close(parts, detection(flat, replaced))
    far = torch.tensor([200.0, -200.0])
    assert float(detection(far, torch.tensor([True, False]))) == 0.0
    assert float(detection(far, torch.tensor([False, True]))) == pytest.approx(200.0)


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 99))
def test_a_lot_draws_the_token_of_the_loop(p: int, v: int, seed: int) -> None:
    logits, lots = 2 * rows(p, v, seed=seed), torch.from_numpy(1 - np.random.default_rng(seed).random(p))
    assert drawn(logits.requires_grad_(), lots).tolist() == replaced_token.drawn(logits.tolist(), lots.tolist())


def test_even_lots_draw_each_token_as_often_as_it_is_likely() -> None:
    logits, n = 3 * rows(1, 8, seed=3).float(), 100_000
    lots = (torch.arange(n) + 0.5) / n
    tokens = drawn(logits.expand(n, 8), lots)
    assert float((torch.bincount(tokens, minlength=8) - n * torch.softmax(logits[0], 0)).abs().max()) < 2.0
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(drawn(logits.expand(n, 8), lots), tokens)
    never = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(4, 5)
    assert drawn(never, torch.tensor([2.0**-24, 0.5, 0.5 + 2.0**-20, 1.0])).tolist() == [1, 1, 3, 3]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=25))
def test_the_area_counts_pairs_in_order(tokens: list[tuple[int, bool]]) -> None:
    logits, replaced = [float(score) for score, _ in tokens], [there for _, there in tokens]
    area = area_under_curve(torch.tensor(logits), torch.tensor(replaced, dtype=torch.bool))
    assert area == pytest.approx(replaced_token.area_under_curve(logits, replaced))
    if len(set(replaced)) == 2:
        assert area == pytest.approx(roc_auc_score(replaced, logits))


# --- edges ---------------------------------------------------------------------------------------------------------

ONES, SIX, RELATION = torch.ones(6, 4), torch.arange(6), torch.zeros(6, dtype=torch.int64)
ONE_ZERO = torch.cat([ONES[:5], torch.zeros(1, 4)])
STILL = RelationVectors(1, 4)
torch.nn.init.zeros_(STILL.vectors)
PROJECTION = AttributeProjection(4)
FINITE: dict[str, tuple[Loss, torch.Tensor]] = {
    **{
        f"equal rows, {name}, concepts {concept.tolist()}": (lambda x, f=loss, c=concept: f(x, c), ONES)
        for name, loss in {
            "terms mined": lambda x, c: term_term(x, c),
            "terms": lambda x, c: term_term(x, c, mining=False),
            "margins": lambda x, c: ms_v3(x, c, torch.ones(6, 3)),
            "attached": lambda x, c: ms_v3(x, c, torch.ones(6, 3), detach_margin=False),
        }.items()
        for concept in (SIX, RELATION, SIX // 3)
    },
    "opposite rows": (lambda x: term_term(x, torch.arange(12) % 2), torch.cat([ONES, -ONES])),
    "many rows": (lambda x: term_term(x, numbers(1024, 200)), rows(1024, 8).float()),
    **{
        # exp(1 / temperature) overflows float32.
        f"infonce {name}": (lambda x, t=texts: contrast(x, t, SIX % 2, temperature=0.002, symmetric=True), names)
        for name, (names, texts) in {
            "equal": (ONES, ONES),
            "opposite": (ONES, -ONES),
            "a zero among names": (ONE_ZERO, ONES),
            "a zero among texts": (ONES, ONE_ZERO),
        }.items()
    },
    "no distance": (lambda x: transe_margin(x, RELATION, x, x, STILL), ONES),
    "no distance between terms": (lambda x: transe_similarity(x, RELATION, x, SIX, STILL), ONES),
    "far terms": (lambda x: transe_margin(x, RELATION, 2 * x, 3 * x, STILL), 1e3 * rows(6, 4).float()),
    "equal values": (
        lambda x: attribute_prediction(attribute_distance(PROJECTION(x), PROJECTION(x)), SIX // 2, SIX % 2 == 0),
        ONES,
    ),
    "far values": (
        lambda x: attribute_prediction(attribute_distance(PROJECTION(x), PROJECTION(-x)), SIX // 2, SIX % 2 == 0),
        1e4 * ONES,
    ),
}


@pytest.mark.parametrize("name", FINITE)
def test_slopes_stay_finite(name: str) -> None:
    loss, given = FINITE[name]
    assert math.isfinite(loss(given).item())
    assert torch.isfinite(slope_of(loss, given)).all()
