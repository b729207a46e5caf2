"""The training loop: accumulation, clipping, schedules, averages of weights, logs, dev scores, checkpoints, resuming.

Everything random follows from the micro-batch's number and the seed, so that a resumed run equals an unbroken one.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from alphita import artefact, textio
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.progress import bar, say
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.engine.runs import Log, other_run
from alphita_lab.training.engine.settings import LoopPlan, learning_rate_factor
from alphita_lab.training.engine.soup import copy_of, mix_in
from alphita_lab.training.engine.steps import MicroSteps

CHECKPOINTS_KEPT = 2


def save_checkpoint(
    folder: Path, step: int, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer
) -> Path:
    """Write the state after `step` steps into `folder`/step-NNNNNNNN and drop all but the newest two."""
    target = folder / f"step-{step:08d}"
    aside = folder / f".{target.name}.draft"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        _write_checkpoint(aside, step, modules, optimizer)
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise AlphitaError(
            f"could not write the checkpoint {target}: {error}; make room and go on with --resume"
        ) from error
    for old in _checkpoints(folder)[:-CHECKPOINTS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def _write_checkpoint(
    aside: Path, step: int, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer
) -> None:
    names = _parameter_names(modules, optimizer)
    moments = {
        f"{name}|{key}": value.detach().clone().contiguous()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        for name in (names[id(parameter)],)
    }
    for name, module in modules.items():
        save_module(aside / f"{name}.safetensors", module)
    save_file(moments, aside / "optimizer.safetensors")
    (aside / "state.json").write_text(json.dumps({"step": step, "modules": sorted(modules)}))
    for file in aside.iterdir():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def load_checkpoint(folder: Path, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> int:
    """Put the newest checkpoint's state into `modules` and `optimizer`."""
    checkpoints = _checkpoints(folder)
    if not checkpoints:
        return 0
    newest = checkpoints[-1]
    try:
        return _restore(newest, modules, optimizer)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        shown = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        earlier = "remove it and go on with --resume from the one before" if len(checkpoints) > 1 else ""
        remedy = " or ".join(filter(None, (earlier, "start again with --force")))
        raise InputError(f"the checkpoint is damaged or of another run: {shown}", file=newest, remedy=remedy) from error


def _restore(newest: Path, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> int:
    state: dict[str, Any] = json.loads((newest / "state.json").read_text())
    if state["modules"] != sorted(modules):
        raise InputError(
            f"the checkpoint holds {state['modules']}, the run needs {sorted(modules)}",
            file=newest,
            remedy="start again with --force",
        )
    for name, module in modules.items():
        load_module(newest / f"{name}.safetensors", module)
    moments = load_file(newest / "optimizer.safetensors")
    names = _parameter_names(modules, optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    restored = {}
    for number, parameter in enumerate(parameters):
        prefix = names[id(parameter)] + "|"
        found_here = {key.removeprefix(prefix): value for key, value in moments.items() if key.startswith(prefix)}
        if found_here:
            restored[number] = found_here
    # PyTorch's own loading knows which tensors its fused kernels need on the parameter's device: "step" too.
    optimizer.load_state_dict({"state": restored, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(state["step"])


def save_module(path: Path, module: torch.nn.Module) -> None:
    """Write a module's weights."""
    weights = {key: value.detach().clone().contiguous() for key, value in module.state_dict().items()}
    save_file(weights, path)


def load_module(path: Path, module: torch.nn.Module) -> None:
    """Put weights that `save_module` wrote into the module."""
    module.load_state_dict(load_file(path))


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").exists())


def _parameter_names(modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> dict[int, str]:
    names = {
        id(parameter): f"{name}.{key}"
        for name, module in modules.items()
        for key, parameter in module.named_parameters()
    }
    missing = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in names]
    assert not missing, "the optimizer holds a parameter of no named module"
    return names


Module = torch.nn.Module
AVERAGE = "average of "
BEST = "best"


@dataclass(frozen=True)
class Refresh:
    """What is made anew as a run goes on, and may decide its batches."""

    before_step: Callable[[int], None]  # called with each step's number (from 0) before its batches are drawn
    every: int  # no batch is drawn before it was called for the last step that is a multiple of this; 1 or more


@dataclass(frozen=True)
class Training:
    """What is trained, by what, and where.

    `evaluate`: dev scores by name, greater is better, called every `plan.evaluate_every` steps and at the end; the
    first is the one that "best" goes by.
    """

    modules: Mapping[str, Module]
    micro: MicroSteps
    plan: LoopPlan
    work: Path
    fingerprint: str  # hash of everything the result depends on; a resumed run must have the same
    resume: bool = False  # go on from the newest checkpoint in `work`; where there is none, it says so and begins
    evaluate: Callable[[], dict[str, float]] | None = None
    refresh: Refresh | None = None
    ranks: Ranks = field(default_factory=Ranks)
    label: str = "train"


def fit(training: Training) -> dict[str, float]:
    """Train the modules in place, and return the last logged figures."""
    modules, plan = training.modules, training.plan
    begun = copy_of(modules["encoder"]) if plan.start_share > 0 else {}
    if plan.keep == "best" and training.evaluate is None:
        raise UsageError("keep=best needs dev scores: set dev_synonyms and evaluate_every")
    loop = _Loop(training)
    figures = loop.run()
    _take_averages(modules, loop.averages)
    if plan.keep == "best":
        training.ranks.wait()
        for name, module in modules.items():
            load_module(training.work / BEST / f"{name}.safetensors", module)
        best = json.loads((training.work / BEST / "best.json").read_text())
        figures |= {"best_step": best["step"], "best_score": best["score"]}
    if plan.start_share > 0:
        mix_in(modules["encoder"], begun, plan.start_share)
    _train_mode(modules, on=False)
    return figures


class _Loop:
    def __init__(self, training: Training) -> None:
        self.training, self.plan, self.ranks = training, training.plan, training.ranks
        self.modules, self.work = training.modules, training.work
        self.optimizer = _adamw(self.modules, self.plan)
        self.averages = _averages(self.modules, self.plan)  # the averaged modules, by `AVERAGE` and their names
        _open_run(training)
        self.start = load_checkpoint(self.work, {**self.modules, **self.averages}, self.optimizer)
        if training.resume and not self.start and self.ranks.first:
            say(f"{training.label}: nothing to resume in {self.work}; starting at step 0")
        if self.plan.warmup_steps > self.plan.steps and self.ranks.first:
            say(
                f"warning: {training.label}: of {self.plan.warmup_steps:,} steps of warm-up there are "
                f"{self.plan.steps:,}, so the learning rate never reaches {self.plan.learning_rate:g}; set warmup_steps"
            )
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.ranks.agree(list(self.modules.values()))
        self.log = Log(
            self.work,
            self.start,
            tensorboard=self.plan.tensorboard,
            first=self.ranks.first,
            trackers=self.plan.trackers,
            name=self.work.name.removesuffix(".training"),
        )
        self.meter = _Meter(self.start)
        self._saved = time.monotonic()

    def run(self) -> dict[str, float]:
        """Take all steps that are left, and return the last logged figures."""
        training, plan, micro = self.training, self.plan, self.training.micro
        figures: dict[str, float] = {}
        scores: dict[str, float] = {}
        _train_mode(self.modules, on=True)
        shown = self.ranks.first
        with bar(training.label, plan.steps, "steps", done=self.start, shown=shown) as progress, self.log:
            try:
                for step in range(self.start, plan.steps):
                    self._prepare(step)
                    scalars = self._step(step)
                    progress.advance(1)
                    done, last = step + 1, step + 1 == plan.steps
                    if last or _due(done, plan.log_every):
                        figures = self.meter.figures(done, scalars, micro.waited)
                        self.log.write({"step": done, **figures})
                        progress.note(f"loss {figures['loss']:.4g}, {figures['rows_per_second']:,.0f} terms/s")
                    if last or _due(done, plan.evaluate_every):
                        begun = time.perf_counter()
                        scores = self._score(done)
                        progress.skip(time.perf_counter() - begun)
                        self.meter.clock += time.perf_counter() - begun
                    if _due(done, plan.checkpoint_every) and not last:
                        self._checkpoint(done)
            finally:
                micro.stop()
        return figures | scores

    def _checkpoint(self, done: int) -> None:
        """Save the state, unless the last was saved so few minutes ago that the next will do."""
        if self.ranks.first and time.monotonic() - self._saved >= 60 * self.plan.checkpoint_minutes:
            self.log.flush()
            save_checkpoint(self.work, done, {**self.modules, **self.averages}, self.optimizer)
            self._saved = time.monotonic()
        self.ranks.wait()

    def _prepare(self, step: int) -> None:
        """Do what comes before a step, and let its batches be drawn."""
        micro, refresh, each, until = self.training.micro, self.training.refresh, self.plan.accumulation, None
        if refresh:
            refresh.before_step(step)
            _train_mode(self.modules, on=True)
            # The first micro-batch that must not be drawn before it is called again.
            until = (step // refresh.every + 1) * refresh.every * each
        if step == self.start:
            micro.start(step * each, self.plan.steps * each, until)
        elif refresh and until and step % refresh.every == 0:
            micro.allow(until)

    def _step(self, step: int) -> dict[str, torch.Tensor | float]:
        """Take a step, and return its scalars, learning rate and gradient's norm."""
        plan = self.plan
        rate = plan.learning_rate * learning_rate_factor(step, plan.warmup_steps, plan.steps, plan.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        scalars = self._accumulate(step)
        self.ranks.average(self.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, plan.clip)
        if not torch.isfinite(norm):
            self._stop_at(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for name, average in self.averages.items():
            average.update_parameters(self.modules[name.removeprefix(AVERAGE)])  # type: ignore[operator]
        self.meter.rows = self.meter.rows + scalars.pop("rows", 0)
        return {**scalars, "learning_rate": rate, "gradient_norm": norm}

    def _accumulate(self, step: int) -> dict[str, torch.Tensor]:
        """Add the mean gradient of a step's micro-batches; return their mean scalars ("rows": their sum)."""
        accumulation = self.plan.accumulation
        totals: dict[str, torch.Tensor] = {}
        for number in self._numbers(step):
            for name, value in self.training.micro(number, 1 / accumulation).items():
                share = value if name == "rows" else value / accumulation
                totals[name] = totals[name] + share if name in totals else share
        return totals

    def _numbers(self, step: int) -> range:
        return range(step * self.plan.accumulation, (step + 1) * self.plan.accumulation)

    def _stop_at(self, step: int) -> None:
        """Save the state before a step whose gradient is not finite, note its terms and raise."""
        if self.ranks.first:
            save_checkpoint(self.work, step, {**self.modules, **self.averages}, self.optimizer)
        note = self.work / "not_finite.txt"
        listed = [", ".join(self.training.micro.names(number)) for number in self._numbers(step)]
        if self.ranks.first:
            note.write_text("\n".join(listed) + "\n", encoding="utf-8")
        raise AlphitaError(
            f"the loss is no longer finite at step {step + 1} on the terms {listed[0]:.120} ... (all of them: {note}); "
            f"the state before it is saved in {self.work}. "
            "Start again with a smaller learning_rate, or with precision=fp32"
        )

    def _score(self, done: int) -> dict[str, float]:
        """Return and log the dev scores, of the averaged weights where there are any, and keep the best weights."""
        if self.training.evaluate is None:
            return {}
        scores: dict[str, float] = {}
        # Only the first process scores.
        if self.ranks.first:
            kept = {name: copy_of(self.modules[name]) for name in (self.modules if self.averages else ())}
            _take_averages(self.modules, self.averages)
            scores = self.training.evaluate()
            for name, state in kept.items():
                self.modules[name].load_state_dict(state)
        self.ranks.wait()
        self.log.write({"step": done, **scores})
        self._keep_best(scores, done)
        _train_mode(self.modules, on=True)
        return scores

    def _keep_best(self, scores: Mapping[str, float], done: int) -> None:
        """Save the weights if the first of the scores is the best so far."""
        if self.plan.keep != "best" or not self.ranks.first:
            return
        score = next(iter(scores.values()))
        note = self.work / BEST / "best.json"
        # What a killed run noted after its newest checkpoint comes again, with the same score.
        if note.exists() and json.loads(note.read_text())["score"] >= score:
            return
        note.parent.mkdir(exist_ok=True)
        for name, module in self.modules.items():
            shown = self.averages.get(AVERAGE + name)
            save_module(note.with_name(f"{name}.safetensors"), shown.module if shown else module)  # type: ignore[arg-type]
        with artefact.atomic_file(note) as file:
            file.write(json.dumps({"step": done, "score": score}).encode())


class _Meter:
    """How fast it goes since the last line of the log."""

    def __init__(self, start: int) -> None:
        self.rows: torch.Tensor | int = 0  # rows trained since
        self.clock, self._waited, self._logged = time.perf_counter(), 0.0, start

    def figures(self, done: int, scalars: Mapping[str, torch.Tensor | float], waited: float) -> dict[str, float]:
        """Return what the log says of a step, and begin anew."""
        seconds = time.perf_counter() - self.clock
        figures = {name: float(value) for name, value in scalars.items()} | {
            "rows_per_second": float(self.rows) / seconds,
            "idle_share": (waited - self._waited) / seconds,
            "steps_per_second": (done - self._logged) / seconds,
        }
        self.rows, self.clock, self._waited, self._logged = 0, time.perf_counter(), waited, done
        return figures


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


def _open_run(training: Training) -> None:
    """Begin the run in its folder or go on with it; the size of a batch's parts is the one that it began with."""
    run, wanted, kinds = training.work / "run.json", training.plan.tokens_at_once, training.micro.kinds
    build = artefact.build(artefact.TRAINING)
    if training.ranks.first:
        if run.exists() and not training.resume:
            raise UsageError(
                f"{training.work} holds an unfinished run; go on with --resume, or start again with --force"
            )
        begun = _begun(run) if run.exists() else {"fingerprint": training.fingerprint, "build": build}
        sizes = [wanted or kind.tokens_at_once for kind in kinds]
        if wanted or "tokens_at_once" not in begun:
            with artefact.atomic_file(run) as file:
                file.write(json.dumps({**begun, "tokens_at_once": sizes}).encode())
    training.ranks.wait()
    begun = _begun(run)
    if begun["fingerprint"] != training.fingerprint:
        raise other_run(training.work)
    if training.ranks.first and (told := artefact.other_build(begun, artefact.TRAINING)):
        say(f"{training.label}: {told} (--force)")
    for kind, size in zip(kinds, begun["tokens_at_once"], strict=True):
        kind.tokens_at_once = size


def _begun(run: Path) -> dict[str, Any]:
    try:
        begun: dict[str, Any] = textio.json_file(run)
        return {"fingerprint": begun["fingerprint"], **begun}
    except (OSError, ValueError, KeyError, TypeError):
        remedy = "start again with --force"
        raise InputError("the note of how the run began is damaged", file=run, remedy=remedy) from None


def _due(done: int, every: int) -> bool:
    return every > 0 and done % every == 0
