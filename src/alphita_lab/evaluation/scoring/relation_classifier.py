"""The relation of two concepts from their vectors: softmax(W [e_h, e_t] + b), section 4.6 of Yuan et al. 2022.

Trained with the papers' settings: 50 epochs; vectors as they are, learning rate 1e-3 and batches of 512; an encoder
trained along, 2e-5 and 96; vectors of concepts trained along, 1e-3 and 512 (Yuan et al. 2022, appendix A.4). The
optimiser and the schedule are those of the released code: Adam without weight decay; for encoders 10% warm-up, then
linear decay to 0; for other vectors a constant rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import AlphitaError, require

if TYPE_CHECKING:
    from torch import Tensor

    from alphita.encoder.encoder import TermEncoder

WARMUP = 0.1
FROZEN_RATE, FROZEN_BATCH = 1e-3, 512
TUNED_RATE, TUNED_BATCH = 2e-5, 96

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Triples of numbered concepts and relations.

    Attributes:
        heads: (n,) int64.
        tails: (n,) int64.
        relations: (n,) int64.
    """

    heads: Int
    tails: Int
    relations: Int

    def __len__(self) -> int:
        """Return n."""
        return len(self.heads)


@dataclass(frozen=True)
class ClassifierSettings:
    """How to train.

    Attributes:
        seed: of the first weights and of the order.
    """

    epochs: int
    seed: int
    classes: int


def filled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, d) with the mean of the others in place of rows of NaN, as the released code has it."""
    known = np.asarray(np.isfinite(vectors).all(axis=1))
    if not known.any():
        raise AlphitaError("the system has a vector for none of the concepts")
    mean = vectors[known].mean(axis=0)
    return np.where(known[:, None], vectors, mean).astype(np.float32)


def rescaled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, d) times one factor, so that their mean square length is d: numbers of about 1."""
    size = float(np.sqrt((vectors.astype(np.float64) ** 2).mean()))
    scaled: NDArray[np.float32] = (vectors / max(size, 1e-12)).astype(np.float32)
    return scaled


def classify_vectors(
    vectors: NDArray[np.float32],
    train: Examples,
    test: Examples,
    settings: ClassifierSettings,
    *,
    decay: bool,
    tune: bool,
) -> Int:
    """Train on vectors of concepts; return the predicted relation of each test triple, (m,).

    Args:
        vectors: (n_concepts, d), finite.
    """
    torch = require("torch", "train")
    torch.manual_seed(settings.seed)
    table = torch.nn.Embedding.from_pretrained(torch.from_numpy(np.array(vectors)), freeze=not tune)
    linear = torch.nn.Linear(2 * vectors.shape[1], settings.classes)

    def logits(heads: Tensor, tails: Tensor) -> Tensor:
        out: Tensor = linear(torch.cat([table(heads), table(tails)], dim=1))
        return out

    parameters = [*linear.parameters(), *(table.parameters() if tune else ())]
    _fit(logits, parameters, train, settings, FROZEN_RATE, FROZEN_BATCH, decay=decay)
    return _predict(logits, test, 8192)


def classify_terms(
    encoder: TermEncoder, terms: Sequence[str], train: Examples, test: Examples, settings: ClassifierSettings
) -> Int:
    """Train a classifier and the encoder under it; return the predicted relation of each test triple, (m,).

    Args:
        terms: (n_concepts,) the term of each concept, cleaned.
    """
    torch = require("torch", "train")
    from alphita_lab.training.engine.forward import TermForward

    torch.manual_seed(settings.seed)
    forward = TermForward(encoder)
    linear = torch.nn.Linear(2 * encoder.dim, settings.classes).to(forward.device)
    tokens = encoder.tokenize(terms)

    def logits(heads: Tensor, tails: Tensor) -> Tensor:
        rows, places = torch.cat([heads, tails]).unique(return_inverse=True)
        vectors = forward([tokens[row] for row in rows.tolist()])[places.to(forward.device)]
        out: Tensor = linear(torch.cat([vectors[: len(heads)], vectors[len(heads) :]], dim=1))
        return out

    forward.module.train()
    parameters = [*linear.parameters(), *(p for p in forward.module.parameters() if p.requires_grad)]
    _fit(logits, parameters, train, settings, TUNED_RATE, TUNED_BATCH, decay=True)
    forward.module.eval()
    return _predict(logits, test, 512)


def _fit(
    logits: Callable[[Any, Any], Any],
    parameters: list[Any],
    train: Examples,
    settings: ClassifierSettings,
    rate: float,
    batch: int,
    *,
    decay: bool,
) -> None:
    torch = require("torch", "train")
    optimizer = torch.optim.Adam(parameters, lr=rate)
    steps_an_epoch = -(-len(train) // batch)
    total = settings.epochs * steps_an_epoch
    warmup = int(WARMUP * total)
    heads, tails, relations = (torch.from_numpy(column) for column in (train.heads, train.tails, train.relations))
    order = np.random.default_rng(settings.seed)
    with progress.bar("Relations", total, "steps") as bar:
        for epoch in range(settings.epochs):
            shuffled = torch.from_numpy(order.permutation(len(train)))
            for number, rows in enumerate(shuffled.split(batch)):
                if decay:
                    step = epoch * steps_an_epoch + number
                    up, down = step / max(1, warmup), (total - step) / max(1, total - warmup)
                    for group in optimizer.param_groups:
                        group["lr"] = rate * min(up, down)
                scores = logits(heads[rows], tails[rows])
                loss = torch.nn.functional.cross_entropy(scores, relations[rows].to(scores.device))
                if not torch.isfinite(loss):
                    raise AlphitaError(f"the loss is no longer finite in epoch {epoch + 1}")
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                bar.advance(1)


def _predict(logits: Callable[[Any, Any], Any], test: Examples, batch: int) -> Int:
    torch = require("torch", "train")
    parts = []
    with torch.inference_mode():
        for start in range(0, len(test), batch):
            rows = slice(start, start + batch)
            scores = logits(torch.from_numpy(test.heads[rows]), torch.from_numpy(test.tails[rows]))
            parts.append(scores.argmax(dim=1).cpu().numpy())
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def macro_f1(values: NDArray[np.float64]) -> float:
    """Return the mean F1 of the classes, from columns gold and predicted class number."""
    gold, predicted = values.astype(np.int64).T
    size = int(values.max()) + 1
    right = np.bincount(gold[gold == predicted], minlength=size)
    both = np.bincount(gold, minlength=size) + np.bincount(predicted, minlength=size)
    return float((2 * right[both > 0] / both[both > 0]).mean())
