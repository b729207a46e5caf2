"""One run of training, or one phase of a run: what every recipe opens, trains and saves alike.

run = Run("coder", Phase("", out, **mode), config, encoder); run.begin(...); run.fit(steps, ...)
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from alphita import machine, progress
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.training.engine import lora, ranks, runs
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.engine.loop import Refresh, Training, fit
from alphita_lab.training.engine.runs import Dev, Phase, manifest_fields
from alphita_lab.training.engine.settings import Length, LoopPlan, TermTraining, decisive
from alphita_lab.training.engine.steps import MicroSteps, Parts, state_bytes

TRIALS = 4
# Of a GPU, in operations a second: a third of what an A100 does at most in bf16.
GPU_SPEED = 1e14


def estimate(
    what: str,
    sizes: str,
    steps: MicroSteps,
    trained: Mapping[str, torch.nn.Module],
    plan: LoopPlan,
    *,
    bf16: bool,
    most: int = 0,
) -> tuple[str, float]:
    """Run a few micro-batches, throw their gradients away, and return what to tell and the seconds of the whole."""
    trials = max(1, min(TRIALS, plan.steps, most or TRIALS))
    for module in trained.values():
        module.train()
    batches = [steps.sizes(number) for number in range(trials)]
    optimizer = torch.optim.AdamW([p for module in trained.values() for p in module.parameters()], lr=0.0)
    steps.start(0, trials)
    seconds, updates = [], []
    work = FlopCounterMode(display=False)
    for number in range(trials):
        begin = time.perf_counter()
        # Counting takes time of its own; the first batch warms up and is not among the times.
        with work if number == 0 else nullcontext():
            steps(number, 1.0)
        seconds.append(time.perf_counter() - begin)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        updates.append(time.perf_counter() - begin - seconds[-1])
    steps.stop()
    batch, update = (float(np.median(taken[1:] or taken)) for taken in (seconds, updates))
    second = batch * plan.accumulation + update
    numbers = sum(p.numel() for module in trained.values() for p in module.parameters() if p.requires_grad)
    operations = work.get_total_flops() * plan.accumulation * plan.steps
    mean = {name: np.mean([batch[name] for batch in batches]) for name in batches[0]}
    device = next(parameter.device for module in trained.values() for parameter in module.parameters())
    return (
        f"dry run of {what}: nothing is written\n"
        f"  {sizes}\n"
        f"  trained numbers: {numbers:,} ({state_bytes(list(trained.values())) / 2**30:.2f} GB with gradients "
        "and AdamW's moments)\n"
        f"  a batch: {', '.join(f'{value:,.0f} {name}' for name, value in mean.items())} (at most "
        f"{steps.tokens_at_once:,} are encoded at once)\n"
        f"  a step: {plan.accumulation} batches, {second:.2f} s on {device}, "
        f"{'bf16' if bf16 else 'fp32'}, {steps.ranks.size} process(es)\n"
        f"  {plan.steps:,} steps: about {duration(second * plan.steps)}, without dev scores\n"
        f"  work: {operations / 1e15:,.3g} PFLOP; at least {duration(operations / GPU_SPEED)} on a GPU that "
        "does 100 TFLOP/s, a third of an A100's most in bf16: short terms keep it less busy\n"
        f"  memory: about {_peak(device) / 2**30:.1f} GB",
        second * plan.steps,
    )


def duration(seconds: float) -> str:
    """Return a time as one reads it: 90 seconds, 3.5 hours."""
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def check_encoder(forward: TermForward) -> None:
    """Refuse an encoder that does not give a vector for a string."""
    with torch.no_grad():
        try:
            vectors = forward([forward.encoder.tokenize(["term"])[0]])
            fits = vectors.shape == (1, forward.encoder.dim)
        except Exception as error:  # models fail in many ways when they want other inputs
            problem = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            fits = False
        else:
            problem = f"its vectors have the shape {tuple(vectors.shape)}"
    if not fits:
        kind = type(getattr(forward.module, "model", forward.module)).__name__
        raise InputError(
            f"{kind} does not encode a term as BERT does: {problem}",
            file=forward.encoder.folder,
            remedy="take an encoder such as BERT, RoBERTa, XLM-R or ELECTRA",
        )


def _peak(device: torch.device) -> int:
    """Return the most bytes held so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


CLEANED = {"cleaning_rules": list(DEFAULT_RULES)}
"""What a run also depends on where its strings are cleaned."""


class Run:
    """A run: its encoder, its folder, and what its result depends on."""

    def __init__(
        self,
        recipe: str,
        phase: Phase,
        config: TermTraining,
        encoder: str | Path,
        *,
        seed: int | None = None,
        label: str = "",
    ) -> None:
        self.ranks = ranks.connect()
        self.phase, self.config = phase, config
        self.seed = config.seed if seed is None else seed
        torch.manual_seed(self.seed)
        self.encoder = TermEncoder.load(
            encoder,
            precision=config.precision,
            pooling=config.pooling,
            max_length=config.max_length,
            device=ranks.device(),
        )
        encoder_hash = self.encoder.content_hash
        if config.lora_rank:
            lora.adapt(self.encoder.module, config.lora_rank)
        self.forward = TermForward(self.encoder, precision=config.precision, dropout=config.dropout)
        check_encoder(self.forward)
        named = {"phase": phase.name} if phase.name else {}
        self._label = label or ", ".join([recipe, *named.values()])
        self.facts: dict[str, Any] = {
            "recipe": recipe,
            **named,
            "config": decisive(config),
            "seed": self.seed,
            "encoder": encoder_hash,
        }
        self.work = runs.folder(phase.out)
        self.done: dict[str, float] | None = None  # the figures, where the phase was finished before the run was cut

    def begin(self, **facts: object) -> None:
        """Note what else the result depends on, such as hashes of data, and make sure that the run may begin."""
        self.facts |= facts
        if self.phase.name:
            self.done = self.phase.finished(runs.fingerprint(self.facts))
        if self.ranks.first and not self.phase.dry_run:
            if self.done is not None:
                # What a kill between the model's saving and this left there.
                shutil.rmtree(self.work, ignore_errors=True)
            else:
                runs.check(self.phase.out, resume=self.phase.resume, force=self.phase.force)
        self.ranks.wait()

    def _scored(self, evaluate: Dev) -> dict[str, float]:
        with lora.merged(self.forward.module):
            return evaluate(self.encoder)

    def computed(self) -> dict[str, Any]:
        """Return what the rounding depends on: with others of these, weights differ in their last digits."""
        return {
            "device": str(self.forward.device),
            "arithmetic": "bf16" if self.forward.bf16 else "fp32",
            "threads": torch.get_num_threads(),
            "processes": self.ranks.size,
            "torch": torch.__version__,
            **machine.describe(),
        }

    @property
    def parts(self) -> Parts:
        """How its batches are encoded in parts."""
        return {"seed": self.seed, "tokens_at_once": self.config.tokens_at_once, "ranks": self.ranks}

    def say(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.ranks.first:
            progress.say(text)

    def fit(
        self,
        steps: MicroSteps,
        sizes: str,
        *,
        length: Length | None = None,
        modules: Mapping[str, torch.nn.Module] | None = None,
        parts: Mapping[str, torch.nn.Module] | None = None,
        evaluate: Dev | None = None,
        final: Dev | None = None,
        fields: Mapping[str, Any] | None = None,
        refresh: Refresh | None = None,
    ) -> dict[str, float]:
        """Train, save the model and return the last figures; in a dry run only measure and return nothing."""
        if self.config.lora_rank and (parts or not all(kind.ADAPTS for kind in steps.kinds)):
            raise UsageError("lora_rank goes with recipes that train on terms alone; set lora_rank=0")
        extra = {name: module.to(self.forward.device) for name, module in (modules or {}).items()}
        trained = {**(parts or {"encoder": self.forward.module}), **extra}
        plan = LoopPlan.of(self.config, length)
        if self.phase.name and evaluate is None:
            # Only some phases of a run have dev scores to go by.
            plan = replace(plan, keep="last")
        if self.phase.dry_run:
            if refresh:
                refresh.before_step(0)
            most = refresh.every if refresh else 0
            told, _ = estimate(self._label, sizes, steps, trained, plan, bf16=self.forward.bf16, most=most)
            self.say(told)
            return {}
        training = Training(
            trained,
            steps,
            plan,
            self.work,
            runs.fingerprint(self.facts),
            self.phase.resume,
            None if evaluate is None else lambda: self._scored(evaluate),
            refresh,
            self.ranks,
            f"training {self._label}",
        )
        figures = fit(training)
        lora.fold(self.forward.module)
        if self.ranks.first:
            figures |= final(self.encoder) if final is not None else {}
            tensors = {name: module.state_dict() for name, module in extra.items()}
            manifest = {**self.facts, "figures": figures}
            if self.phase.name:
                manifest = manifest_fields(self.phase, self.facts, figures)
            manifest |= {"config": self.config.model_dump(), **(fields or {})}
            runs.save_model(
                self.phase.out,
                self.encoder,
                self.work,
                fields=manifest,
                tensors=tensors,
                computed=self.computed(),
                force=self.phase.force,
            )
        self.ranks.wait()
        return figures
