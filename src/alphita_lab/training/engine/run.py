"""One run of training, or one phase of a run: what every recipe opens, trains and saves alike.

run = Run("coder", Phase("", out, resume, force, dry_run), config, encoder)
run.begin(terminology=terminology.content_hash, ...)
... the recipe's data and objective, from run.encoder and run.forward: `steps` ...
return run.fit(steps, "names: 80,000", modules={"relations": matrices})
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from alphita import progress
from alphita.encoder.encoder import TermEncoder
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.training.engine import dry_run, ranks, runs
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.engine.loop import Training, fit
from alphita_lab.training.engine.phases import Dev, Phase, manifest_fields
from alphita_lab.training.engine.settings import Length, LoopPlan, TermTraining, decisive

CLEANED = {"cleaning_rules": list(DEFAULT_RULES)}
"""What a run also depends on where its strings are cleaned."""


class Run:
    """A run: its encoder, its folder, and what its result depends on.

    Attributes:
        done: the figures, where the phase was finished before the run was cut; else None.
    """

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
        self.forward = TermForward(self.encoder, precision=config.precision, dropout=config.dropout)
        dry_run.check_encoder(self.forward)
        named = {"phase": phase.name} if phase.name else {}
        self._label = label or ", ".join([recipe, *named.values()])
        self.facts: dict[str, Any] = {
            "recipe": recipe,
            **named,
            "config": decisive(config),
            "seed": self.seed,
            "encoder": self.encoder.content_hash,
        }
        self.work = runs.folder(phase.out)
        self.done: dict[str, float] | None = None

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

    def say(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.ranks.first:
            progress.say(text)

    def fit(
        self,
        steps: dry_run.Timed,
        sizes: str,
        *,
        length: Length | None = None,
        modules: Mapping[str, torch.nn.Module] | None = None,
        parts: Mapping[str, torch.nn.Module] | None = None,
        evaluate: Dev | None = None,
        final: Dev | None = None,
        fields: Mapping[str, Any] | None = None,
        before_step: Callable[[int], None] | None = None,
        fence: int = 0,
    ) -> dict[str, float]:
        """Train, save the model and return the last figures; in a dry run only measure and return nothing."""
        extra = {name: module.to(self.forward.device) for name, module in (modules or {}).items()}
        trained = {**(parts or {"encoder": self.forward.module}), **extra}
        plan = LoopPlan.of(self.config, length)
        if self.phase.name and evaluate is None:
            # Only some phases of a run have dev scores to go by.
            plan = replace(plan, keep="last")
        if self.phase.dry_run:
            if before_step is not None:
                before_step(0)
            told, _ = dry_run.estimate(self._label, sizes, steps, trained, plan, bf16=self.forward.bf16, most=fence)
            self.say(told)
            return {}
        training = Training(
            trained,
            steps,
            plan,
            self.work,
            runs.fingerprint(self.facts),
            self.phase.resume,
            None if evaluate is None else lambda: evaluate(self.encoder),
            before_step,
            fence,
            self.ranks,
            f"training {self._label}",
        )
        figures = fit(training)
        if self.ranks.first:
            figures |= final(self.encoder) if final is not None else {}
            tensors = {name: module.state_dict() for name, module in extra.items()}
            told_too = {"config": self.config.model_dump(), **(fields or {})}
            runs.save_model(
                self.phase.out,
                self.encoder,
                self.work,
                fields=self._manifest(told_too, figures),
                tensors=tensors,
                force=self.phase.force,
            )
        self.ranks.wait()
        return figures

    def _manifest(self, fields: Mapping[str, Any], figures: Mapping[str, float]) -> dict[str, Any]:
        """Return what the model's manifest says."""
        if self.phase.name:
            return manifest_fields(self.phase, self.facts, figures) | dict(fields)
        return {**self.facts, **fields, "figures": figures}
