"""Training and scoring of product attribute prediction: batches of products to gradients.

E(t + n) is encoded once a pair (Liu, Jiang and Lyu 2022, §3.2: title and name are one text); so is each string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from alphita.errors import InputError
from alphita_lab.objectives.attribute_prediction import AttributeProjection, attribute_distance, attribute_prediction
from alphita_lab.training.engine.forward import evaluating, tokenize
from alphita_lab.training.products.attribute_data import NOT_THERE, Products, Questions
from alphita_lab.training.terms.batches import Batch, TermSteps
from alphita_lab.training.terms.samplers import EpochWalk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alphita_lab.training.engine.forward import TermForward
    from alphita_lab.training.engine.steps import Parts

NAME = "attribute_projection"
"""Name of f among a run's modules: it is kept as NAME.safetensors beside the model, and found there again."""
# Streams of random numbers.
ORDER, DRAWN = 5, 6
# Tokens encoded at once without gradients.
TOKENS_AT_ONCE = 16_384


def joined(title: str, name: str) -> str:
    """Return the text t + n of a title and an attribute's name."""
    return f"{title} {name}"


class AttributeSteps(TermSteps):
    """Runs micro-batches of products; see `TermSteps`. Every pair comes once an epoch, in another order each time."""

    def __init__(
        self,
        forward: TermForward,
        projection: AttributeProjection,
        products: Products,
        *,
        batch: int,
        margin: float = 4.0,
        negatives: int = 2,
        most: int = 32,
        **parts: Unpack[Parts],
    ) -> None:
        self.products, self.projection = products, projection
        self.margin, self._negatives, self._most = margin, negatives, most
        table = products.table
        heads = [joined(table.strings[title], table.names[name]) for title, name in products.pairs.tolist()]
        self.texts = [*table.strings, *heads]
        self.batches = len(products.pairs) / batch
        self._walk = EpochWalk(len(products.pairs), batch, [parts["seed"], ORDER])
        super().__init__(forward, tokenize(forward.encoder, self.texts), self._batch, self._loss, **parts)
        lengths = np.diff(self.tokens.offsets)[len(table.strings) :]
        self.cut = int((lengths >= forward.encoder.max_length).sum())

    def names(self, number: int) -> list[str]:
        """Return the texts that batch `number` encodes."""
        return [self.texts[row] for row in self.terms(number).tolist()]

    def score(self) -> dict[str, float]:
        """Return how well the held-out values are found among others of their attribute."""
        if not len(self.products.dev):
            return {}
        table = self.products.table
        measured = distances(self.forward, self.projection, self.products.dev, table.strings, table.names)
        ranks = self.products.dev.ranks(measured)
        return {"dev_attribute_acc1": float((ranks == 1).mean()), "dev_attribute_mrr": float((1 / ranks).mean())}

    def _batch(self, number: int) -> Batch:
        """Return batch `number`; it follows from the number and the seed alone."""
        pairs = self._walk.places(number)
        drawn = self.products.draw(
            pairs, most=self._most, negatives=self._negatives, random=np.random.default_rng([self.seed, DRAWN, number])
        )
        strings = len(self.products.table.strings)
        rows = np.concatenate([strings + pairs, drawn.value])
        terms, place = np.unique(rows, return_inverse=True)
        arrays: dict[str, NDArray[Any]] = {
            "title": place[: len(pairs)],
            "value": place[len(pairs) :],
            "pair": drawn.pair,
            "positive": drawn.positive,
            "missing": np.array(drawn.missing, np.float32),
        }
        return Batch(terms, arrays, rows=len(rows))

    def _loss(self, encoded: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        heads = encoded[given["title"]]
        values = self.projection(encoded)[given["value"]]
        distance = attribute_distance(self.projection(heads)[given["pair"]], values)
        positive = given["positive"]
        return {
            "loss": attribute_prediction(distance, given["pair"], positive, margin=self.margin),
            "near": distance[positive].mean(),
            "far": distance[~positive].sum() / (~positive).sum().clamp(min=1),
            "missing_negatives": given["missing"],
        }


def distances(
    forward: TermForward,
    projection: AttributeProjection,
    questions: Questions,
    strings: Sequence[str],
    names: Sequence[str],
) -> NDArray[np.float32]:
    """Return d(t, n, v) of each question's candidates, (q, c), without dropout; inf where there is none."""
    titles, attributes = questions.triples[:, 0].tolist(), questions.triples[:, 1].tolist()
    there = questions.candidates != NOT_THERE
    values, place = np.unique(questions.candidates[there], return_inverse=True)
    with evaluating(forward.module, projection):
        heads = _encoded(forward, [joined(strings[t], names[n]) for t, n in zip(titles, attributes, strict=True)])
        left = projection(heads)
        right = projection(_encoded(forward, [strings[value] for value in values.tolist()]))
        measured = np.full(there.shape, np.inf, np.float32)
        column = np.zeros(there.shape, np.int64)
        column[there] = place
        for row in range(len(questions)):
            own = torch.from_numpy(column[row][there[row]]).to(right.device)
            measured[row, there[row]] = attribute_distance(left[row], right[own]).cpu().numpy()
    return measured


def load_projection(folder: Path, dim: int) -> AttributeProjection | None:
    """Return the projection that was saved beside a model; None where there is none."""
    path = folder / f"{NAME}.safetensors"
    if not path.is_file():
        return None
    try:
        state = load_file(path)
        projection = AttributeProjection(dim, len(state["dense.bias"]))
        projection.load_state_dict(state)
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise InputError(
            f"no projection of vectors of {dim} numbers: {error}", file=path, remedy="train the model again"
        ) from error
    return projection.eval()


def _encoded(forward: TermForward, texts: list[str]) -> torch.Tensor:
    """Return the vectors of `texts`, (n, dim) float32 on the device; each distinct text is encoded once."""
    number = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    tokens = forward.encoder.tokenize(list(number))
    lengths = np.array([len(row) for row in tokens], np.int64)
    vectors = torch.empty(len(number), forward.encoder.dim, device=forward.device)
    order = np.argsort(lengths, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(np.cumsum(lengths[order]) // TOKENS_AT_ONCE)) + 1):
        vectors[torch.from_numpy(rows)] = forward([tokens[row] for row in rows.tolist()])
    return vectors[[number[text] for text in texts]]
