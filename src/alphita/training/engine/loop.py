"""The training loop: accumulation, clipping, schedules, averages of weights, logs, dev scores, checkpoints, resuming.

The loop knows nothing of the method: it is handed modules and something that adds the gradient of micro-batch number i.
Everything random in that must follow from i (and the seed), which is what makes a resumed run equal an unbroken one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.progress import bar, say
from alphita.training.engine import checkpoints
from alphita.training.engine.memory import InParts
from alphita.training.engine.ranks import Ranks
from alphita.training.engine.soup import copy_of, mix_in

if TYPE_CHECKING:
    from alphita.training.engine.settings import TermTraining

Module = torch.nn.Module


class MicroSteps(Protocol):
    """What adds gradients: see `terms.batches.TermSteps`.

    Attributes:
        kinds: those that encode large batches in parts, at most `tokens_at_once` tokens each; itself, as a rule.
    """

    @property
    def kinds(self) -> Sequence[InParts]:
        """See above."""
        ...

    def start(self, first: int, last: int, until: int | None = None) -> None:
        """Hear that the micro-batches `first` up to before `last` will be asked for, and those before `until` first."""

    def allow(self, until: int) -> None:
        """Hear that the micro-batches before number `until` may be made ready."""

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        """Add `share` times the gradient of micro-batch `number`; return its scalars without gradients."""
        ...

    def stop(self) -> None:
        """Hear that no more will be asked for."""

    @property
    def waited(self) -> float:
        """Seconds spent waiting for batches."""
        ...


@dataclass(frozen=True)
class Length:
    """How long and how fast a run or phase trains, where the config leaves that open: see `LoopPlan`."""

    steps: int
    warmup_steps: int
    learning_rate: float

    @classmethod
    def of(cls, steps: int, warmup_steps: int, learning_rate: float, *, share: float = 0.05) -> Length:
        """Return a length whose warm-up is `share` of the steps where `warmup_steps` is below 0."""
        return cls(steps, round(share * steps) if warmup_steps < 0 else warmup_steps, learning_rate)


@dataclass(frozen=True)
class LoopPlan:
    """How long and how fast to train.

    Attributes:
        steps: optimiser steps.
        warmup_steps: steps over which the learning rate rises linearly to its peak.
        learning_rate: the peak.
        accumulation: micro-batches a step; their gradients are averaged.
        clip: largest gradient norm.
        weight_decay: AdamW's, on every parameter but biases and layer norms.
        log_every, evaluate_every, checkpoint_every: in steps; 0 means never.
        schedule: what follows the warm-up: "linear" to 0, "cosine" to 0, or "constant".
        ema: decay of the exponential average of the weights that is kept in the end; 0: none.
        keep: "last", or "best": the weights of the best dev score.
        tensorboard: also write the log for TensorBoard.
        start_share: share of the starting weights of the module "encoder" that is averaged into the final ones: they
            keep what names alone do not teach, such as misspellings and words around a term.
        tokens_at_once: as asked for; 0: what the run began with, or what fits the memory when it begins.
    """

    steps: int
    warmup_steps: int
    learning_rate: float
    accumulation: int
    clip: float
    weight_decay: float
    log_every: int
    evaluate_every: int
    checkpoint_every: int
    schedule: str = "linear"
    ema: float = 0.0
    keep: str = "last"
    tensorboard: bool = False
    start_share: float = 0.0
    tokens_at_once: int = 0

    @classmethod
    def of(cls, config: TermTraining, length: Length | None = None) -> LoopPlan:
        """Return the plan of a recipe's config; `length` replaces the config's own."""
        own = length or Length(config.steps, config.warmup_steps, config.learning_rate)
        return cls(
            own.steps,
            own.warmup_steps,
            own.learning_rate,
            config.accumulation,
            config.clip,
            config.weight_decay,
            config.log_every,
            config.evaluate_every,
            config.checkpoint_every,
            config.schedule,
            config.ema,
            config.keep,
            config.tensorboard,
            config.start_share,
            config.tokens_at_once,
        )


def learning_rate_factor(step: int, warmup: int, total: int, schedule: str = "linear") -> float:
    """Return the share of the peak learning rate at step `step` (from 0): linear up, then as `schedule` says."""
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    left = max(0.0, (total - step) / max(1, total - warmup))
    return left if schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)


def fit(
    modules: Mapping[str, Module],
    micro: MicroSteps,
    plan: LoopPlan,
    work: Path,
    *,
    fingerprint: str,
    resume: bool = False,
    evaluate: Callable[[], dict[str, float]] | None = None,
    before_step: Callable[[int], None] | None = None,
    fence: int = 0,
    describe: Callable[[int], str] | None = None,
    ranks: Ranks | None = None,
    label: str = "train",
) -> dict[str, float]:
    """Train `modules` in place.

    Args:
        modules: what is trained, by name; all their parameters that require a gradient.
        micro: adds the gradient of one micro-batch.
        plan: how long and how fast.
        work: this run's folder: log.jsonl, checkpoints, run.json. Left in place; the caller removes it when the model
            is saved.
        fingerprint: hash of everything the result depends on; a resumed run must have the same.
        resume: go on from the newest checkpoint in `work`; where there is none, it says so and begins.
        evaluate: dev scores by name, greater is better, called every `plan.evaluate_every` steps and at the end; the
            first is the one that "best" goes by.
        before_step: called with each step's number (from 0) before its batches are drawn; what it changes may decide
            them.
        fence: no batch is drawn before `before_step` was called for the last step that is a multiple of this; 0: none.
        describe: micro-batch number -> its terms, for the message when the loss is no longer finite.
        ranks: the processes of this run.
        label: of the progress bar.

    Returns:
        The last logged figures.

    Raises:
        UsageError: there is unfinished work and neither resume nor an empty folder; "best" without dev scores.
        InputError: the unfinished run had other data or another config.
        AlphitaError: the loss is no longer finite, or there is no memory left.
    """
    ranks = ranks or Ranks()
    begun = copy_of(modules["encoder"]) if plan.start_share > 0 else {}
    if plan.keep == "best" and evaluate is None:
        raise UsageError("keep=best needs dev scores: set dev_synonyms and evaluate_every")
    optimizer = _adamw(modules, plan)
    averages = _averages(modules, plan)
    _open_run(work, fingerprint, resume, micro, plan, ranks)
    start = checkpoints.load_latest(work, {**modules, **averages}, optimizer)
    if resume and not start and ranks.first:
        say(f"{label}: nothing to resume in {work}; starting at step 0")
    if plan.warmup_steps > plan.steps and ranks.first:
        say(
            f"warning: {label}: of {plan.warmup_steps:,} steps of warm-up there are {plan.steps:,}, so the learning "
            f"rate never reaches {plan.learning_rate:g}; set warmup_steps"
        )
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    ranks.agree(list(modules.values()))
    log = _Log(work, start, plan, ranks)
    figures: dict[str, float] = {}
    totals: dict[str, torch.Tensor] = {}
    clock, waited, logged = time.perf_counter(), 0.0, start
    _train_mode(modules, on=True)

    def fenced(step: int) -> int | None:
        """Return the first micro-batch that must not be drawn before `before_step` is called again."""
        return ((step // fence + 1) * fence) * plan.accumulation if fence else None

    with bar(label, plan.steps, "steps", done=start, shown=ranks.first) as progress, log:
        try:
            for step in range(start, plan.steps):
                if before_step is not None:
                    before_step(step)
                    _train_mode(modules, on=True)
                if step == start:
                    micro.start(step * plan.accumulation, plan.steps * plan.accumulation, fenced(step))
                elif fence and step % fence == 0:
                    until = fenced(step)
                    assert until is not None
                    micro.allow(until)
                factor = learning_rate_factor(step, plan.warmup_steps, plan.steps, plan.schedule)
                for group in optimizer.param_groups:
                    group["lr"] = plan.learning_rate * factor
                scalars = _accumulate(micro, step, plan)
                ranks.average(parameters)
                norm = torch.nn.utils.clip_grad_norm_(parameters, plan.clip)
                if not torch.isfinite(norm):
                    _stop_at(step, work, modules, averages, optimizer, plan, describe, ranks)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                for name, average in averages.items():
                    average.update_parameters(modules[name.removeprefix(AVERAGE)])  # type: ignore[operator]
                progress.advance(1)
                for name, value in scalars.items():
                    totals[name] = totals.get(name, torch.zeros_like(value)) + value
                done = step + 1
                last = done == plan.steps
                if last or _due(done, plan.log_every):
                    seconds = time.perf_counter() - clock
                    figures = _means(scalars) | {
                        "learning_rate": plan.learning_rate * factor,
                        "gradient_norm": float(norm),
                        "rows_per_second": float(totals["rows"]) / seconds if "rows" in totals else 0.0,
                        "idle_share": (micro.waited - waited) / seconds,
                        "steps_per_second": (done - logged) / seconds,
                    }
                    totals, clock, waited, logged = {}, time.perf_counter(), micro.waited, done
                    log.write({"step": done, **figures})
                    progress.note(f"loss {figures['loss']:.4g}, {figures['rows_per_second']:,.0f} terms/s")
                if evaluate is not None and (last or _due(done, plan.evaluate_every)):
                    before = time.perf_counter()
                    scores = _evaluate(evaluate, modules, averages, ranks)
                    log.write({"step": done, **scores})
                    _keep_best(work, scores, done, modules, averages, plan, ranks)
                    _train_mode(modules, on=True)
                    clock += time.perf_counter() - before
                if _due(done, plan.checkpoint_every) and not last:
                    log.flush()
                    if ranks.first:
                        checkpoints.save(work, done, {**modules, **averages}, optimizer)
                    ranks.wait()
        finally:
            micro.stop()
    _take_averages(modules, averages)
    if plan.keep == "best":
        ranks.wait()
        for name, module in modules.items():
            checkpoints.load_module(work / BEST / f"{name}.safetensors", module)
    if plan.start_share > 0:
        mix_in(modules["encoder"], begun, plan.start_share)
    _train_mode(modules, on=False)
    return figures


AVERAGE = "average of "
BEST = "best"


class _Log:
    """log.jsonl and, if asked, TensorBoard's event file; written by the first process only."""

    def __init__(self, work: Path, start: int, plan: LoopPlan, ranks: Ranks) -> None:
        self.first = ranks.first
        self.board: Any = None
        if self.first:
            _cut_log(work / "log.jsonl", start)
            self.file = open(work / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed in __exit__
            if plan.tensorboard:
                require("tensorboard", "tensorboard")
                from torch.utils.tensorboard import SummaryWriter

                self.board = SummaryWriter(str(work / "tensorboard"), purge_step=start + 1)

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_arguments: object) -> None:
        if self.first:
            self.file.close()
            if self.board is not None:
                self.board.close()

    def write(self, figures: Mapping[str, float]) -> None:
        if not self.first:
            return
        rounded = {key: value if isinstance(value, int) else round(float(value), 6) for key, value in figures.items()}
        self.file.write(json.dumps(rounded) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in figures.items():
                if name != "step":
                    self.board.add_scalar(name, value, int(figures["step"]))

    def flush(self) -> None:
        if self.first:
            self.file.flush()
            if self.board is not None:
                self.board.flush()


def _accumulate(micro: MicroSteps, step: int, plan: LoopPlan) -> dict[str, torch.Tensor]:
    """Add the mean gradient of a step's micro-batches; return their mean scalars ("rows": their sum)."""
    totals: dict[str, torch.Tensor] = {}
    for number in range(step * plan.accumulation, (step + 1) * plan.accumulation):
        for name, value in micro(number, 1 / plan.accumulation).items():
            share = value if name == "rows" else value / plan.accumulation
            totals[name] = totals[name] + share if name in totals else share
    return totals


def _means(scalars: Mapping[str, torch.Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in scalars.items() if name != "rows"}


def _train_mode(modules: Mapping[str, Module], *, on: bool) -> None:
    for module in modules.values():
        module.train(on)


def _averages(modules: Mapping[str, Module], plan: LoopPlan) -> dict[str, Module]:
    if plan.ema == 0:
        return {}
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    average = get_ema_multi_avg_fn(plan.ema)
    return {AVERAGE + name: AveragedModel(module, multi_avg_fn=average) for name, module in modules.items()}


def _take_averages(modules: Mapping[str, Module], averages: Mapping[str, Module]) -> None:
    for name, average in averages.items():
        modules[name.removeprefix(AVERAGE)].load_state_dict(average.module.state_dict())  # type: ignore[union-attr]


def _evaluate(
    evaluate: Callable[[], dict[str, float]],
    modules: Mapping[str, Module],
    averages: Mapping[str, Module],
    ranks: Ranks,
) -> dict[str, float]:
    """Return the dev scores: of the averaged weights where there are any. Only the first process scores."""
    scores: dict[str, float] = {}
    if ranks.first:
        kept = {
            name: {key: value.clone() for key, value in modules[name].state_dict().items()}
            for name in (modules if averages else ())
        }
        _take_averages(modules, averages)
        scores = evaluate()
        for name, state in kept.items():
            modules[name].load_state_dict(state)
    ranks.wait()
    return scores


def _keep_best(
    work: Path,
    scores: Mapping[str, float],
    done: int,
    modules: Mapping[str, Module],
    averages: Mapping[str, Module],
    plan: LoopPlan,
    ranks: Ranks,
) -> None:
    """Save the weights if the first of the scores is the best so far."""
    if plan.keep != "best" or not ranks.first:
        return
    score = next(iter(scores.values()))
    note = work / BEST / "best.json"
    # What a killed run noted after its newest checkpoint comes again, with the same score.
    if note.exists() and json.loads(note.read_text())["score"] >= score:
        return
    note.parent.mkdir(exist_ok=True)
    for name, module in modules.items():
        shown = averages.get(AVERAGE + name)
        checkpoints.save_module(note.with_name(f"{name}.safetensors"), shown.module if shown else module)  # type: ignore[arg-type]
    with artefact.atomic_file(note) as file:
        file.write(json.dumps({"step": done, "score": score}).encode())


def _stop_at(
    step: int,
    work: Path,
    modules: Mapping[str, Module],
    averages: Mapping[str, Module],
    optimizer: torch.optim.Optimizer,
    plan: LoopPlan,
    describe: Callable[[int], str] | None,
    ranks: Ranks,
) -> None:
    """Save the state before a step whose gradient is not finite, note its terms and raise."""
    if ranks.first:
        checkpoints.save(work, step, {**modules, **averages}, optimizer)
    terms = ""
    if describe is not None:
        numbers = range(step * plan.accumulation, (step + 1) * plan.accumulation)
        listed = [describe(number) for number in numbers]
        if ranks.first:
            (work / "not_finite.txt").write_text("\n".join(listed) + "\n", encoding="utf-8")
        terms = f" on the terms {listed[0]:.120} ... (all of them: {work / 'not_finite.txt'})"
    raise AlphitaError(
        f"the loss is no longer finite at step {step + 1}{terms}; the state before it is saved in {work}. "
        "Start again with a smaller learning_rate, or with precision=fp32"
    )


def _adamw(modules: Mapping[str, Module], plan: LoopPlan) -> torch.optim.AdamW:
    decayed: list[torch.nn.Parameter] = []
    plain: list[torch.nn.Parameter] = []
    for module in modules.values():
        for parameter in module.parameters():
            if parameter.requires_grad:
                # Biases and layer norms are not decayed, as is the custom for BERT.
                (decayed if parameter.ndim > 1 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": plan.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=plan.learning_rate, fused=True)


def _open_run(work: Path, fingerprint: str, resume: bool, micro: MicroSteps, plan: LoopPlan, ranks: Ranks) -> None:
    """Begin a run in `work` or go on with it; the size of a batch's parts is the one that it began with."""
    run = work / "run.json"
    if ranks.first:
        if run.exists() and not resume:
            raise UsageError(f"{work} holds an unfinished run; go on with --resume, or start again with --force")
        begun = json.loads(run.read_text()) if run.exists() else {"fingerprint": fingerprint}
        sizes = [plan.tokens_at_once or kind.tokens_at_once for kind in micro.kinds]
        if plan.tokens_at_once or "tokens_at_once" not in begun:
            with artefact.atomic_file(run) as file:
                file.write(json.dumps({**begun, "tokens_at_once": sizes}).encode())
    ranks.wait()
    begun = json.loads(run.read_text())
    if begun["fingerprint"] != fingerprint:
        raise InputError(
            "the unfinished run had another recipe, config, encoder, terminology or split",
            file=work,
            remedy="give what it was started with, or start again with --force",
        )
    for kind, size in zip(micro.kinds, begun["tokens_at_once"], strict=True):
        kind.tokens_at_once = size


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
