"""The training loop: gradient accumulation, clipping, warm-up and linear decay, a JSONL log, checkpoints and resuming.

The loop knows nothing of the method: a recipe hands it modules and a function that gives the loss of micro-batch number
i. Everything random in that function must follow from i (and the seed), which is what makes a resumed run equal an
unbroken one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.progress import bar
from alphita.training import checkpoints

MicroLoss = Callable[[int], dict[str, torch.Tensor]]
"""Micro-batch number -> scalars by name: "loss" is what is minimised, "rows" the number of term rows."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes:
        steps: optimiser steps.
        warmup_steps: steps over which the learning rate rises linearly to its peak; then it falls linearly to 0.
        learning_rate: the peak.
        accumulation: micro-batches a step; their gradients are averaged.
        clip: largest gradient norm.
        weight_decay: AdamW's, on every parameter but biases and layer norms.
        seed: of dropout; micro-batch i draws from seed and i.
        log_every, evaluate_every, checkpoint_every: in steps; 0 means never.
    """

    steps: int
    warmup_steps: int
    learning_rate: float
    accumulation: int
    clip: float
    weight_decay: float
    seed: int
    log_every: int
    evaluate_every: int
    checkpoint_every: int


def learning_rate_factor(step: int, warmup: int, total: int) -> float:
    """Return the share of the peak learning rate at step `step` (from 0): linear up, then linear down to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


def fit(
    modules: Mapping[str, torch.nn.Module],
    micro_loss: MicroLoss,
    plan: Plan,
    work: Path,
    *,
    fingerprint: str,
    resume: bool = False,
    evaluate: Callable[[], dict[str, float]] | None = None,
    label: str = "train",
) -> dict[str, float]:
    """Train `modules` in place.

    Args:
        modules: what is trained, by name; all their parameters that require a gradient.
        micro_loss: gives the scalars of one micro-batch.
        plan: how long and how fast.
        work: this run's folder: log.jsonl, checkpoints, run.json. Left in place; the caller removes it when the model
            is saved.
        fingerprint: hash of everything the run depends on; a resumed run must have the same.
        resume: go on from the newest checkpoint in `work`.
        evaluate: dev scores by name, called every `plan.evaluate_every` steps and at the end.
        label: of the progress bar.

    Returns:
        The last logged figures.

    Raises:
        UsageError: there is unfinished work and neither resume nor an empty folder, or nothing to resume.
        InputError: the unfinished run had other data or another config.
        AlphitaError: the loss is no longer finite.
    """
    optimizer = _adamw(modules, plan)
    log_path = work / "log.jsonl"
    start = _open_run(work, fingerprint, resume, modules, optimizer)
    _cut_log(log_path, start)
    figures: dict[str, float] = {}
    rows, clock = 0.0, time.perf_counter()
    for module in modules.values():
        module.train()
    with bar(label, plan.steps, "steps") as progress, open(log_path, "a", encoding="utf-8") as log:
        progress.advance(start)
        for step in range(start, plan.steps):
            factor = learning_rate_factor(step, plan.warmup_steps, plan.steps)
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate * factor
            scalars = _accumulate(micro_loss, step, plan)
            norm = torch.nn.utils.clip_grad_norm_(
                [p for group in optimizer.param_groups for p in group["params"]], plan.clip
            )
            if not torch.isfinite(norm):
                raise AlphitaError(f"the loss is no longer finite at step {step + 1}; try a smaller learning_rate")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            progress.advance(1)
            done, rows = step + 1, rows + scalars.pop("rows", 0.0)
            last = done == plan.steps
            if last or _due(done, plan.log_every):
                seconds = time.perf_counter() - clock
                figures = scalars | {
                    "learning_rate": plan.learning_rate * factor, "gradient_norm": float(norm),
                    "rows_per_second": rows / seconds,
                }  # fmt: skip
                rows, clock = 0.0, time.perf_counter()
                _write_line(log, {"step": done, **figures})
            if evaluate is not None and (last or _due(done, plan.evaluate_every)):
                _write_line(log, {"step": done, **evaluate()})
                for module in modules.values():
                    module.train()
                clock = time.perf_counter()
            if _due(done, plan.checkpoint_every) and not last:
                log.flush()
                checkpoints.save(work, done, modules, optimizer)
    for module in modules.values():
        module.eval()
    return figures


def _accumulate(micro_loss: MicroLoss, step: int, plan: Plan) -> dict[str, float]:
    """Add the mean gradient of a step's micro-batches; return their mean scalars ("rows": their sum)."""
    totals: dict[str, float] = {}
    for micro in range(step * plan.accumulation, (step + 1) * plan.accumulation):
        # One generator seed a micro-batch: dropout is then the same whether or not the run was resumed.
        torch.manual_seed((plan.seed << 32) + micro)
        scalars = micro_loss(micro)
        (scalars["loss"] / plan.accumulation).backward()
        for name, value in scalars.items():
            share = float(value.detach()) / (1 if name == "rows" else plan.accumulation)
            totals[name] = totals.get(name, 0.0) + share
    return totals


def _adamw(modules: Mapping[str, torch.nn.Module], plan: Plan) -> torch.optim.AdamW:
    decayed: list[torch.nn.Parameter] = []
    plain: list[torch.nn.Parameter] = []
    for module in modules.values():
        for parameter in module.parameters():
            if parameter.requires_grad:
                # Biases and layer norms are not decayed, as is the custom for BERT.
                (decayed if parameter.ndim > 1 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": plan.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=plan.learning_rate, fused=True)


def _open_run(
    work: Path,
    fingerprint: str,
    resume: bool,
    modules: Mapping[str, torch.nn.Module],
    optimizer: torch.optim.Optimizer,
) -> int:
    """Return the number of steps already done."""
    run = work / "run.json"
    if run.exists() and not resume:
        raise UsageError(f"{work} holds an unfinished run; go on with --resume, or start again with --force")
    if not run.exists():
        work.mkdir(parents=True, exist_ok=True)
        run.write_text(json.dumps({"fingerprint": fingerprint}))
        return 0
    if json.loads(run.read_text())["fingerprint"] != fingerprint:
        raise InputError(
            "the unfinished run had another config, encoder, terminology or split", file=work,
            remedy="give what it was started with, or start again with --force",
        )  # fmt: skip
    return checkpoints.load_latest(work, modules, optimizer)


def _cut_log(path: Path, step: int) -> None:
    """Drop the lines that a killed run wrote after its newest checkpoint."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except ValueError:
            break
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _due(done: int, every: int) -> bool:
    return every > 0 and done % every == 0


def _write_line(log: Any, figures: Mapping[str, float]) -> None:  # noqa: ANN401 - a text file
    rounded = {key: value if isinstance(value, int) else round(float(value), 6) for key, value in figures.items()}
    log.write(json.dumps(rounded) + "\n")
    log.flush()
