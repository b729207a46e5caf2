"""Training of graph embeddings: PyKEEN's models and losses, entities drawn anew each step as false tails and heads.

Negatives are shared by the triples of a step, so that their scores are one matrix product; true triples among them are
not sought out. Everything drawn follows from the seed and the epoch, so that a run that was stopped goes on as it would
have gone (but for rounding, which differs with the number of threads). Training stops when the filtered MRR of the
validation triples has not grown for some looks; the best vectors are kept.
"""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.progress import Bar, bar, say
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita_lab.graph import models
from alphita_lab.graph.models import GraphModel
from alphita_lab.graph.ranks import figures, ranks
from alphita_lab.graph.settings import ENGINE_ONLY, GraphTraining
from alphita_lab.graph.store import EntityVectors
from alphita_lab.graph.triples import Division, divide

if TYPE_CHECKING:
    import torch

    from alphita_lab.graph.states import RowGradients

Vectors = dict[str, "torch.Tensor"]
Int = NDArray[np.int64]


@dataclass
class _Course:
    """How far training has come.

    Attributes:
        best_epoch: the epoch whose vectors are kept; 0: none was looked at yet.
        log: one row a look: epoch, loss, seconds, validation figures.
    """

    epoch: int = 0
    best_epoch: int = 0
    log: list[dict[str, float]] = field(default_factory=list)
    best: Vectors = field(default_factory=dict)

    @property
    def best_mrr(self) -> float:
        """Validation MRR of the vectors that are kept; below any before the first look."""
        return max((row["MRR"] for row in self.log if "MRR" in row), default=-1.0)

    def facts(self, fingerprint: str) -> dict[str, Any]:
        """Return what a checkpoint tells."""
        return {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "log": self.log,
            "fingerprint": fingerprint,
            "build": artefact.build(artefact.TRAINING),
        }


def train(
    terminology: Terminology,
    name: str,
    out: Path,
    config: GraphTraining,
    *,
    work: Path,
    split: Split | None = None,
    device: str = "cpu",
    force: bool = False,
    progress: bool = True,
) -> dict[str, float]:
    """Train a model on a terminology's triples and save its vectors."""
    module = models.load(name)
    if config.dim % module.PARTS:
        raise UsageError(
            f"{name} saves {module.PARTS} parts of equal length, so dim must be a multiple of {module.PARTS}, "
            f"not {config.dim}"
        )
    require("pykeen", "graph")
    _check_device(device)
    division = divide(
        terminology,
        rare=config.rare,
        inverse=config.inverse,
        test=config.test,
        validation=config.validation,
        seed=config.seed,
        held_out=split,
    )
    depends_on = {
        "model": name,
        "config": config.model_dump(exclude=set(ENGINE_ONLY)),
        "train": division.train_hash,
        "terminology": terminology.content_hash,
        "split": split.hash if split is not None else None,
    }
    course = _run(module, division, config, work, artefact.hash_json(depends_on), device=device, progress=progress)
    tested = figures(ranks(_scorer(module, course.best), division.test, len(division.entities), known=division.known))
    facts: dict[str, Any] = {
        "config": config.model_dump(),
        "figures": {"test": tested, "validation": course.log},
        "best_epoch": course.best_epoch,
        "epochs": course.epoch,
        "terminology_hash": terminology.content_hash,
        "split_hash": depends_on["split"],
        "train_hash": division.train_hash,
        "sources": terminology.manifest.get("sources", []),
        "triples": division.counts(),
        "concepts_without_a_vector": int((~terminology.retired).sum()) - len(division.entities),
    }
    arrays = {part: value.numpy() for part, value in course.best.items()}
    vectors = EntityVectors(division.entities, arrays["entities"], division.relations, arrays["relations"], name, facts)
    vectors.save(out, force=force)
    shutil.rmtree(work, ignore_errors=True)
    return tested


def _check_device(device: str) -> None:
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {device!r}: PyTorch finds no such GPU; use --device cpu")


def build(module: GraphModel, n_entities: int, n_relations: int, config: GraphTraining) -> torch.nn.Module:
    """Return PyKEEN's model with the config's loss, as it starts."""
    import torch

    factory = require("pykeen.triples", "graph").CoreTriplesFactory(
        torch.zeros((1, 3), dtype=torch.long), num_entities=n_entities, num_relations=n_relations
    )
    options: dict[str, Any] = {"triples_factory": factory, "random_seed": config.seed, "loss": _loss(config)}
    options["regularizer"] = None
    if config.regularization:
        options["regularizer"] = require("pykeen.regularizers", "graph").PowerSumRegularizer
        options["regularizer_kwargs"] = {"weight": config.regularization, "p": 3.0}
    return module.build(config.dim // module.PARTS, options)


def _loss(config: GraphTraining) -> torch.nn.Module:
    losses = require("pykeen.losses", "graph")
    loss: torch.nn.Module
    if config.loss == "infonce":
        loss = losses.InfoNCELoss(margin=config.margin, log_adversarial_temperature=math.log(config.temperature))
    elif config.loss == "nssa":
        loss = losses.NSSALoss(margin=config.margin, adversarial_temperature=1 / config.temperature)
    elif config.loss == "margin":
        loss = losses.MarginRankingLoss(margin=config.margin)
    else:
        loss = losses.SoftplusLoss()
    return loss


def parts(representations: Any, rows: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ANN401 - PyKEEN's
    """Return PyKEEN's vectors of some rows (all of them by default), parts end to end, (n, d)."""
    import torch

    pieces = []
    for representation in representations:
        value = representation(rows)
        pieces += [value.real, value.imag] if value.is_complex() else [value]
    return torch.cat(pieces, dim=-1)


def vectors_of(model: Any) -> Vectors:  # noqa: ANN401 - PyKEEN's model
    """Return the vectors of a PyKEEN model as they are saved, on the CPU: "entities" and "relations"."""
    import torch

    with torch.inference_mode():
        return {
            "entities": parts(model.entity_representations).float().cpu().contiguous().clone(),
            "relations": parts(model.relation_representations).float().cpu().contiguous().clone(),
        }


def loss_of(module: GraphModel, model: Any, triples: torch.Tensor, false: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return the loss of a step: the mean of that of the tails and that of the heads, and the regulariser's.

    Args:
        triples: (b, 3).
        false: (2, n) entities drawn as tails and as heads of all b.
    """
    import torch

    from alphita_lab.graph.scoring import all_scores, pair_scores

    heads, tails = (
        parts(model.entity_representations, triples[:, 0]),
        parts(model.entity_representations, triples[:, 2]),
    )
    relations = parts(model.relation_representations, triples[:, 1])
    total = torch.zeros((), device=heads.device)
    for queries, true, drawn in (
        (module.tail_queries(heads, relations), tails, false[0]),
        (module.head_queries(relations, tails), heads, false[1]),
    ):
        total = total + 0.5 * model.loss.process_slcwa_scores(
            positive_scores=pair_scores(module, queries, true)[:, None],
            negative_scores=all_scores(module, queries, parts(model.entity_representations, drawn)),
        )
    # PyKEEN gathers it from every vector that was taken.
    return total + model.collect_regularization_term()


def _run(
    module: GraphModel,
    division: Division,
    config: GraphTraining,
    work: Path,
    fingerprint: str,
    *,
    device: str,
    progress: bool,
) -> _Course:
    """Train until the end or until the validation MRR grows no more; see the head of this file."""
    import torch

    from alphita_lab.graph import states
    from alphita_lab.graph.states import RowGradients

    n = len(division.entities)
    model = build(module, n, len(division.relations), config).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
    gradients = RowGradients(model)
    course = _Course()
    state = states.load(work, model, optimizer)
    if state is not None:
        facts, best = state
        if facts["fingerprint"] != fingerprint:
            raise InputError(
                "the unfinished work is of other settings, or of another terminology or split",
                file=work,
                remedy="give those it was begun with, or start again with --force",
            )
        if told := artefact.other_build(facts, artefact.TRAINING):
            say(f"{work}: {told} (--force)")
        course = _Course(facts["epoch"], facts["best_epoch"], facts["log"], best)
    sample = _sample(division.validation, config)
    train = torch.from_numpy(division.train).to(device)
    name = module.__name__.rpartition(".")[2]
    epochs = config.epochs_of(len(train))
    with bar(f"train {name}", epochs, "epochs", done=course.epoch, shown=progress) as shown:
        while course.epoch < epochs and not _over(course, config):
            began = time.monotonic()
            loss = _epoch(module, model, optimizer, gradients, train, n, config, course.epoch)
            course.epoch += 1
            if course.epoch % config.evaluate_every == 0 or course.epoch == epochs:
                seconds = time.monotonic() - began
                _look(module, model, division, sample, course, {"loss": loss, "seconds": seconds}, shown)
            if course.epoch % config.checkpoint_every == 0:
                states.save(work, course.facts(fingerprint), model, optimizer, course.best)
            shown.advance()
    return course


def _over(course: _Course, config: GraphTraining) -> bool:
    """Tell whether the last `patience` looks were none of them better than the best before."""
    if config.schedule != "constant":
        return False
    return bool(course.log) and course.epoch - course.best_epoch >= config.patience * config.evaluate_every


def _epoch(
    module: GraphModel,
    model: Any,  # noqa: ANN401
    optimizer: torch.optim.Optimizer,
    gradients: RowGradients,
    train: torch.Tensor,
    n: int,
    config: GraphTraining,
    number: int,
) -> float:
    """Train one epoch; return its mean loss."""
    import torch

    steps_an_epoch = config.steps_an_epoch(len(train))
    steps = config.epochs_of(len(train)) * steps_an_epoch
    rng = np.random.default_rng([config.seed, number])
    order = torch.from_numpy(rng.permutation(len(train))).to(train.device)
    model.train()
    losses = []
    for place, batch in enumerate(order.split(config.batch_size)):
        for group in optimizer.param_groups:
            group["lr"] = config.rate_at(number * steps_an_epoch + place, steps)
        false = torch.from_numpy(rng.integers(0, n, (2, config.negatives))).to(train.device)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(module, model, train[batch], false)
        loss.backward()
        gradients.whole()
        optimizer.step()
        model.post_parameter_update()
        losses.append(loss.detach())
    mean = float(torch.stack(losses).mean())
    if not math.isfinite(mean):
        raise AlphitaError(f"training diverged in epoch {number + 1}; take a smaller learning_rate")
    return mean


def _sample(validation: Int, config: GraphTraining) -> Int:
    """Return the validation triples that are looked at, a seeded sample if there are many."""
    chosen = np.random.default_rng([config.seed, 1 << 20]).permutation(len(validation))[: config.validation_sample]
    return validation[np.sort(chosen)]


def _look(
    module: GraphModel,
    model: Any,  # noqa: ANN401
    division: Division,
    sample: Int,
    course: _Course,
    row: dict[str, float],
    shown: Bar,
) -> None:
    """Score the validation sample and keep the vectors if they are the best so far."""
    model.eval()
    vectors = vectors_of(model)
    before = course.best_mrr
    if len(sample):
        row |= figures(ranks(_scorer(module, vectors), sample, len(division.entities), known=division.known))
        shown.note(f"loss {row['loss']:.4g}, MRR {row['MRR']:.4f}")
    course.log.append({"epoch": course.epoch, **row})
    # Where there is nothing to validate with, the last vectors are kept.
    if not len(sample) or row["MRR"] > before:
        course.best, course.best_epoch = vectors, course.epoch


def _scorer(module: GraphModel, vectors: Vectors) -> Any:  # noqa: ANN401
    from alphita_lab.graph.scoring import VectorScorer

    return VectorScorer(module, vectors["entities"].numpy(), vectors["relations"].numpy())
