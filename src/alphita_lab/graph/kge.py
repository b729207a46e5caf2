"""Training of graph embeddings by PyKEEN's models and losses; false tails and heads are drawn anew each step.

Negatives are shared by a step's triples. The vectors with the best filtered validation MRR are kept.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.progress import Bar, bar, say
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita_lab.graph import models
from alphita_lab.graph.models import ENGINE_ONLY, GraphModel, GraphTraining, VectorScorer, all_scores, pair_scores
from alphita_lab.graph.store import EntityVectors
from alphita_lab.graph.triples import Division, divide, figures, ranks


class RowGradients:
    """The gradients of a model's look-up tables, as rows: PyTorch would write a whole table for each look-up.

    The rows are added up once, into a table that is kept from step to step: the optimiser sees the same gradient.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
        for table in tables:
            table.sparse = True
        self._weights = [table.weight for table in tables]
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def whole(self) -> None:
        """Make the gradients of the last backward whole; they stand until the next call."""
        for number, weight in enumerate(self._weights):
            if weight.grad is None or not weight.grad.is_sparse:
                continue
            sparse = weight.grad.coalesce()
            rows = sparse.indices()[0]
            if number in self._kept:
                gradient, before = self._kept[number]
                gradient.index_fill_(0, before, 0.0)
            else:
                gradient = torch.zeros_like(weight)
            weight.grad = gradient.index_copy_(0, rows, sparse.values())
            self._kept[number] = (gradient, rows)


STATE_FILE = "state.safetensors"
BEST_PREFIX = "best|"


def save_state(
    work: Path,
    facts: dict[str, Any],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    best: dict[str, torch.Tensor],
) -> None:
    """Write weights, the optimiser's moments and the best vectors so far into `work`, over an earlier state."""
    from safetensors.torch import save as as_bytes

    tensors = {f"{BEST_PREFIX}{name}": value for name, value in best.items()}
    for name, parameter in model.named_parameters():
        tensors[f"weight|{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}|{name}"] = value.detach()
    kept = {name: value.cpu().contiguous() for name, value in tensors.items()}
    with artefact.atomic_file(work / STATE_FILE) as file:
        file.write(as_bytes(kept, metadata={"facts": json.dumps(facts)}))


def load_state(
    work: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, torch.Tensor]] | None:
    """Put the state in `work` into model and optimiser."""
    from safetensors import SafetensorError, safe_open

    if not (work / STATE_FILE).exists():
        return None
    try:
        with safe_open(work / STATE_FILE, "pt") as opened:
            facts = json.loads(opened.metadata()["facts"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no dict
        numbers = {
            id(parameter): n
            for n, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"])
        }
        restored = {}
        for name, parameter in model.named_parameters():
            weight = tensors.pop(f"weight|{name}")
            if weight.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(weight.shape)}, not {tuple(parameter.shape)}")
            parameter.data.copy_(weight)
            restored[numbers[id(parameter)]] = {
                key.split("|")[0]: value for key, value in tensors.items() if key.endswith(f"|{name}")
            }
        # PyTorch's own loading knows which tensors its fused kernels need on the parameter's device: "step" too.
        optimizer.load_state_dict({"state": restored, "param_groups": optimizer.state_dict()["param_groups"]})
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise InputError(
            f"the unfinished run cannot be resumed: {error}", file=work, remedy="start again with --force"
        ) from None
    return facts, {
        name.removeprefix(BEST_PREFIX): value for name, value in tensors.items() if name.startswith(BEST_PREFIX)
    }


Vectors = dict[str, torch.Tensor]
Int = NDArray[np.int64]


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
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {device!r}: PyTorch finds no such GPU; use --device cpu")
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
    run = _Run(module, division, config, work, artefact.hash_json(depends_on), device)
    run.train(progress=progress)
    arrays = {part: value.numpy() for part, value in run.best.items()}
    tested = run.figures(run.best, division.test)
    facts: dict[str, Any] = {
        "config": config.model_dump(),
        "figures": {"test": tested, "validation": run.log},
        "best_epoch": run.best_epoch,
        "epochs": run.epoch,
        "losses": run.losses,
        "terminology_hash": terminology.content_hash,
        "split_hash": depends_on["split"],
        "train_hash": division.train_hash,
        "sources": terminology.manifest.get("sources", []),
        "triples": division.counts(),
        "concepts_without_a_vector": int((~terminology.retired).sum()) - len(division.entities),
    }
    vectors = EntityVectors(division.entities, arrays["entities"], division.relations, arrays["relations"], name, facts)
    vectors.save(out, force=force)
    shutil.rmtree(work, ignore_errors=True)
    return tested


def build(module: GraphModel, n_entities: int, n_relations: int, config: GraphTraining) -> torch.nn.Module:
    """Return PyKEEN's model with the config's loss, as it starts."""
    factory = require("pykeen.triples", "graph").CoreTriplesFactory(
        torch.zeros((1, 3), dtype=torch.long), num_entities=n_entities, num_relations=n_relations
    )
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
    options: dict[str, Any] = {"triples_factory": factory, "random_seed": config.seed, "loss": loss}
    options["regularizer"] = None
    if config.regularization:
        options["regularizer"] = require("pykeen.regularizers", "graph").PowerSumRegularizer
        options["regularizer_kwargs"] = {"weight": config.regularization, "p": 3.0}
    return module.build(config.dim // module.PARTS, options)


def parts(representations: Any, rows: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ANN401 - PyKEEN's
    """Return PyKEEN's vectors of some rows (all of them by default), parts end to end, (n, d)."""
    pieces = []
    for representation in representations:
        value = representation(rows)
        pieces += [value.real, value.imag] if value.is_complex() else [value]
    return torch.cat(pieces, dim=-1)


def vectors_of(model: Any) -> Vectors:  # noqa: ANN401 - PyKEEN's model
    """Return the vectors of a PyKEEN model as they are saved, on the CPU: "entities" and "relations"."""
    with torch.inference_mode():
        return {
            "entities": parts(model.entity_representations).float().cpu().contiguous().clone(),
            "relations": parts(model.relation_representations).float().cpu().contiguous().clone(),
        }


def loss_of(module: GraphModel, model: Any, triples: torch.Tensor, false: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Return a step's loss of tails and heads, and the regulariser's.

    triples: (b, 3); false: (2, n) entities drawn as tails and as heads of all b.
    """
    heads, tails = (parts(model.entity_representations, triples[:, end]) for end in (0, 2))
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


class _Run:
    """Training, and how far it has come: the best epoch's vectors are kept, and a line of figures for each look."""

    def __init__(
        self, module: GraphModel, division: Division, config: GraphTraining, work: Path, fingerprint: str, device: str
    ) -> None:
        self.module, self.division, self.config, self.work = module, division, config, work
        self.n = len(division.entities)
        self.model: Any = build(module, self.n, len(division.relations), config).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate, fused=True)
        self.gradients = RowGradients(self.model)
        self.triples = torch.from_numpy(division.train).to(device)
        # Of many validation triples a seeded sample is looked at.
        rng = np.random.default_rng([config.seed, 1 << 20])
        chosen = rng.permutation(len(division.validation))[: config.validation_sample]
        self.sample = division.validation[np.sort(chosen)]
        self.epoch = self.best_epoch = 0
        self.log: list[dict[str, float]] = []
        self.losses: list[float] = []  # the mean of each epoch
        self.validated = ""  # the last validation, in words
        self.best: Vectors = {}
        self.facts = {"fingerprint": fingerprint, "build": artefact.build(artefact.TRAINING)}
        self._resume()

    def _resume(self) -> None:
        state = load_state(self.work, self.model, self.optimizer)
        if state is None:
            return
        facts, self.best = state
        if facts["fingerprint"] != self.facts["fingerprint"]:
            raise InputError(
                "the unfinished run has other settings, or another terminology or split",
                file=self.work,
                remedy="give those it was started with, or start again with --force",
            )
        if told := artefact.other_build(facts, artefact.TRAINING):
            say(f"{self.work}: {told} (--force)")
        self.epoch, self.best_epoch, self.log = facts["epoch"], facts["best_epoch"], facts["log"]
        self.losses = facts.get("losses", [])

    def train(self, *, progress: bool) -> None:
        """Train until the end, or until the validation MRR grows no more."""
        config, epochs = self.config, self.config.epochs_of(len(self.triples))
        with bar(f"train {self.module.__name__.lower()}", epochs, "epochs", done=self.epoch, shown=progress) as shown:
            while self.epoch < epochs and not self._is_over():
                began = time.monotonic()
                loss = self._train_epoch()
                self.epoch += 1
                self.losses.append(round(loss, 6))
                shown.note(f"loss {loss:.4g}{self.validated}")
                if self.epoch % config.evaluate_every == 0 or self.epoch == epochs:
                    self._look({"loss": loss, "seconds": time.monotonic() - began}, shown)
                if self.epoch % config.checkpoint_every == 0:
                    course = {"epoch": self.epoch, "best_epoch": self.best_epoch, "log": self.log}
                    course["losses"] = self.losses
                    save_state(self.work, {**course, **self.facts}, self.model, self.optimizer, self.best)
                shown.advance()

    def _is_over(self) -> bool:
        """Tell whether the last `patience` looks were none of them better than the best before."""
        if self.config.schedule != "constant":
            return False
        return bool(self.log) and self.epoch - self.best_epoch >= self.config.patience * self.config.evaluate_every

    def _train_epoch(self) -> float:
        config, triples = self.config, self.triples
        steps_an_epoch = config.steps_an_epoch(len(triples))
        steps = config.epochs_of(len(triples)) * steps_an_epoch
        rng = np.random.default_rng([config.seed, self.epoch])
        order = torch.from_numpy(rng.permutation(len(triples))).to(triples.device)
        self.model.train()
        losses = []
        for place, batch in enumerate(order.split(config.batch_size)):
            for group in self.optimizer.param_groups:
                group["lr"] = config.rate_at(self.epoch * steps_an_epoch + place, steps)
            false = torch.from_numpy(rng.integers(0, self.n, (2, config.negatives))).to(triples.device)
            self.optimizer.zero_grad(set_to_none=True)
            loss = loss_of(self.module, self.model, triples[batch], false)
            loss.backward()
            self.gradients.whole()
            self.optimizer.step()
            self.model.post_parameter_update()
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not math.isfinite(mean):
            raise AlphitaError(f"training diverged in epoch {self.epoch + 1}; take a smaller learning_rate")
        return mean

    def _look(self, row: dict[str, float], shown: Bar) -> None:
        """Score the validation sample and keep the vectors if they are the best so far."""
        self.model.eval()
        vectors = vectors_of(self.model)
        best_mrr = max((line["MRR"] for line in self.log if "MRR" in line), default=-1.0)
        if len(self.sample):
            row |= self.figures(vectors, self.sample)
            self.validated = f", MRR {100 * row['MRR']:.1f}"
            shown.note(f"loss {row['loss']:.4g}{self.validated}")
        self.log.append({"epoch": self.epoch, **row})
        # Where there is nothing to validate with, the last vectors are kept.
        if not len(self.sample) or row["MRR"] > best_mrr:
            self.best, self.best_epoch = vectors, self.epoch

    def figures(self, vectors: Vectors, triples: Int) -> dict[str, float]:
        scorer = VectorScorer(self.module, vectors["entities"].numpy(), vectors["relations"].numpy())
        return figures(ranks(scorer, triples, self.n, known=self.division.known))
