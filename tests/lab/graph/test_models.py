"""Each model's formula: against plain Python, against PyKEEN, and ranks by it against a loop over all entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alphita.errors import UsageError
from alphita_lab.graph import kge, models
from alphita_lab.graph.models import VectorScorer
from alphita_lab.graph.triples import TripleScorer, figures, ranks
from tests.lab.graph.graphs import MODELS
from tests.reference import graph_scores
from tests.reference.link_prediction import realistic_ranks

N, RELATIONS, DIM = 11, 3, 8
LOSSES = ["infonce", "nssa", "softplus", "margin"]


def built(name: str, **settings):
    """Return a model's file and PyKEEN's model, whose weights are those after a few steps."""
    pytest.importorskip("pykeen")
    module = models.load(name)
    config = module.Config(dim=DIM, **settings)
    model = kge.build(module, N, RELATIONS, config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        kge.loss_of(module, model, drawn_triples(), torch.randint(N, (2, 5))).backward()
        optimizer.step()
        model.post_parameter_update()
    model.eval()
    return module, model, config


def model_factory():
    """Return what PyKEEN takes for triples: the numbers of entities and relations."""
    factory = pytest.importorskip("pykeen.triples").CoreTriplesFactory
    return factory(torch.zeros((1, 3), dtype=torch.long), num_entities=N, num_relations=RELATIONS)


def drawn_triples() -> torch.Tensor:
    rng = np.random.default_rng(5)
    return torch.from_numpy(np.stack([rng.integers(0, m, 12) for m in (N, RELATIONS, N)], axis=1))


def pykeen_scores(name: str, model: torch.nn.Module, triples: torch.Tensor) -> torch.Tensor:
    """Return PyKEEN's score of each triple, (n, 1)."""
    if name != "simple":
        return model.score_hrt(triples)
    h, r, t = triples.T
    take = [(model.entity_representations, h), (model.relation_representations, r), (model.entity_representations, t)]
    head, relation, tail = (tuple(one(rows) for one in representations) for representations, rows in take)
    return model.interaction(h=head, r=relation, t=tail[::-1])[:, None]


def test_the_models() -> None:
    assert MODELS == ["complex", "rotate", "simple", "transe"]
    with pytest.raises(UsageError, match="unknown model 'rotat'; did you mean 'rotate'"):
        models.load("rotat")


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_saved_vectors_are_pykeens(name: str) -> None:
    module, model, _ = built(name)
    vectors = {part: value.numpy() for part, value in kge.vectors_of(model).items()}
    assert {part: value.shape for part, value in vectors.items()} == {
        "entities": (N, DIM),
        "relations": (RELATIONS, DIM),
    }
    score = getattr(graph_scores, name)
    entities, relations = vectors["entities"].astype(np.float64).tolist(), vectors["relations"].astype(float).tolist()
    slow = np.array([[[score(h, r, t) for t in entities] for r in relations] for h in entities])
    every = torch.cartesian_prod(torch.arange(N), torch.arange(RELATIONS), torch.arange(N))
    with torch.inference_mode():
        theirs = pykeen_scores(name, model, every).view(N, RELATIONS, N).numpy()
    np.testing.assert_allclose(theirs, slow, rtol=1e-4, atol=1e-5)
    scorer = VectorScorer(module, vectors["entities"], vectors["relations"])
    assert isinstance(scorer, TripleScorer)
    heads, labels = np.divmod(np.arange(N * RELATIONS), RELATIONS)
    tails = scorer.score_tails(heads, labels).reshape(N, RELATIONS, N)
    turned = scorer.score_heads(labels, heads).reshape(N, RELATIONS, N)
    # A distance by a matrix product is exact to about the root of a float's precision where it is near 0.
    np.testing.assert_allclose(tails, slow, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(turned.transpose(2, 1, 0), slow, rtol=1e-4, atol=2e-3)
    test = drawn_triples().numpy()
    rows = [tuple(row) for row in test.tolist()]
    for known in (None, test):
        slow_ranks = realistic_ranks(lambda h, r, t: slow[h, r, t], rows, N, None if known is None else set(rows))
        found = ranks(scorer, test, N, known=known)
        for side in ("tail", "head"):
            assert found[side].tolist() == slow_ranks[side]


def test_transe_constrains_entities_as_pykeen_does() -> None:
    pykeen = pytest.importorskip("pykeen.models")
    _, model, config = built("transe")
    theirs = pykeen.TransE(
        embedding_dim=DIM, scoring_fct_norm=2, triples_factory=model_factory(), random_seed=config.seed
    )
    numbers = torch.randn(N, DIM, generator=torch.Generator().manual_seed(1))
    tables = [one.entity_representations[0]._embeddings.weight for one in (model, theirs)]
    for one, table in zip((model, theirs), tables, strict=True):
        table.data = numbers.clone()
        lies = table.data_ptr()
        one.post_parameter_update()
        assert (table.data_ptr() == lies) == (one is model)
        assert table.requires_grad
    torch.testing.assert_close(tables[0], tables[1], rtol=0, atol=0)
    assert torch.linalg.vector_norm(tables[0], dim=1).tolist() == pytest.approx([1.0] * N)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_steps_loss_is_pykeens_of_its_own_scores(name: str, loss: str) -> None:
    module, model, _ = built(name, loss=loss, margin=0.3, temperature=0.5)
    triples, false = drawn_triples(), torch.randint(N, (2, 6), generator=torch.Generator().manual_seed(3))
    true = pykeen_scores(name, model, triples)
    terms = []
    for column, drawn in ((2, false[0]), (0, false[1])):
        wrong = triples[:, None, :].repeat(1, len(drawn), 1)
        wrong[..., column] = drawn
        scores = pykeen_scores(name, model, wrong.view(-1, 3)).view(len(triples), -1)
        terms.append(model.loss.process_slcwa_scores(positive_scores=true, negative_scores=scores))
    ours = kge.loss_of(module, model, triples, false)
    assert float(ours) == pytest.approx(float(sum(terms) / 2), rel=1e-3)


def test_infonce_is_the_printed_one() -> None:
    module, model, _ = built("complex", margin=0.3, temperature=0.5)
    triples, false = drawn_triples(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    vectors = {part: value.double().tolist() for part, value in kge.vectors_of(model).items()}
    total = 0.0
    for head, relation, tail in triples.tolist():
        for side in (0, 1):
            wrong = [(head, entity) if side == 0 else (entity, tail) for entity in false[side].tolist()]
            logits = [
                (
                    graph_scores.complex(vectors["entities"][h], vectors["relations"][relation], vectors["entities"][t])
                    - (0.3 if place == 0 else 0)
                )
                / 0.5
                for place, (h, t) in enumerate([(head, tail), *wrong])
            ]
            total += np.logaddexp.reduce(logits) - logits[0]
    assert float(kge.loss_of(module, model, triples, false)) == pytest.approx(total / (2 * len(triples)), rel=1e-4)


def test_the_regulariser_adds_to_the_loss_of_the_same_step_only() -> None:
    module, model, _ = built("complex", regularization=0.1)
    triples, false = drawn_triples(), torch.tensor([[1, 2], [4, 5]])
    plain = float(kge.loss_of(module, model, triples, false))
    model.train()
    first, second = (float(kge.loss_of(module, model, triples, false)) for _ in range(2))
    vectors = {part: value.double().numpy() for part, value in kge.vectors_of(model).items()}

    def cubes(rows: np.ndarray) -> float:
        real, imaginary = np.split(rows, 2, axis=1)
        return float((np.hypot(real, imaginary) ** 3).sum(axis=1).mean())

    h, r, t = triples.T.numpy()
    used = [vectors["entities"][h], vectors["entities"][t], vectors["relations"][r]]
    used += [vectors["entities"][rows] for rows in false.numpy()]
    assert first == pytest.approx(plain + 0.1 * sum(map(cubes, used)), rel=1e-5)
    assert second == pytest.approx(first)


def test_figures_of_nothing_and_of_some() -> None:
    assert figures({"tail": np.empty(0), "head": np.empty(0)}) == {}
    found = figures({"tail": np.array([1.0, 4.0]), "head": np.array([2.5, 20.0])})
    assert found == pytest.approx(
        {"MRR": (1 + 1 / 4 + 1 / 2.5 + 1 / 20) / 4, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 0.75, "MR": 27.5 / 4}
    )
