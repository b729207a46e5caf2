"""One phase of a recipe that trains on strings of any kind: names, definitions, sentences.

run = SentenceRun("biolord", phase, config, encoder, facts)
... the phase's data and objective: `strings`, `draw` and `loss` ...
return run.fit(strings, draw, loss, Length(...))
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from alphita.encoder.encoder import TermEncoder
from alphita.progress import say
from alphita.terminology.text import DEFAULT_RULES
from alphita.training.engine import dry_run, ranks, runs
from alphita.training.engine.forward import TermForward
from alphita.training.engine.loop import Length, LoopPlan, fit
from alphita.training.engine.phases import Dev, Phase, manifest_fields
from alphita.training.engine.settings import TermTraining, decisive
from alphita.training.engine.tokens import tokenize
from alphita.training.terms.batches import BatchLoss, Draw, TermSteps

if TYPE_CHECKING:
    from alphita.training.terms.names import TrainingNames


def steps_of(batches: float, epochs: float, accumulation: int) -> int:
    """Return the steps of `epochs` epochs of `batches` batches each, 1 at least."""
    return max(1, math.ceil(batches * epochs / accumulation))


class SentenceRun:
    """One phase: its encoder and its folder.

    Attributes:
        encoder: the encoder that is trained.
        forward: its forward pass with gradients.
        work: the folder of the unfinished run.
        done: the figures, where the phase was finished before the run was cut; else None.
    """

    def __init__(
        self,
        recipe: str,
        phase: Phase,
        config: TermTraining,
        encoder: str | Path,
        facts: Mapping[str, Any],
        *,
        seed: int | None = None,
    ) -> None:
        """Open the encoder; nothing is written yet.

        Args:
            recipe: its name.
            phase: where the model goes.
            config: the recipe's settings.
            encoder: what training starts from.
            facts: what else the result depends on: hashes of terminology, split and files.
            seed: of dropout, where it is not the config's.

        Raises:
            InputError: no such encoder, or one that gives no vector for each token; or the phase's model is of another
                run.
            UsageError: the model exists already, or there is unfinished work, and neither flag is given.
        """
        self._ranks = ranks.connect()
        self._recipe, self._phase, self._config = recipe, phase, config
        self._seed = config.seed if seed is None else seed
        torch.manual_seed(self._seed)
        self.encoder = TermEncoder.load(
            encoder,
            precision=config.precision,
            pooling=config.pooling,
            max_length=config.max_length,
            device=ranks.device(),
        )
        self.forward = TermForward(self.encoder, precision=config.precision, dropout=config.dropout)
        dry_run.check_encoder(self.forward)
        self._facts = {
            "recipe": recipe,
            "phase": phase.name,
            "config": decisive(config),
            "seed": self._seed,
            "encoder": self.encoder.content_hash,
            "cleaning_rules": list(DEFAULT_RULES),
            **facts,
        }
        self.done = phase.finished(runs.fingerprint(self._facts))
        self.work = runs.folder(phase.out)
        if self._ranks.first and not phase.dry_run:
            if self.done is not None:
                # What a kill between the model's saving and this left there.
                shutil.rmtree(self.work, ignore_errors=True)
            else:
                runs.check(phase.out, resume=phase.resume, force=phase.force)
        self._ranks.wait()

    def fit(
        self,
        strings: Sequence[str],
        draw: Draw,
        loss: BatchLoss,
        length: Length,
        *,
        sizes: str,
        modules: Mapping[str, torch.nn.Module] | None = None,
        fields: Mapping[str, Any] | None = None,
        names: TrainingNames | None = None,
        dev: Dev | None = None,
        before_step: Callable[[int], None] | None = None,
        fence: int = 0,
    ) -> dict[str, float]:
        """Train, save the model and return the last figures; in a dry run only measure and return nothing.

        Args:
            strings: what batches are made of; a batch's terms are places in it.
            draw: gives the batches.
            loss: of a batch's vectors.
            length: how long and how fast.
            sizes: a line on the data, for the dry run.
            modules: what is trained beside the encoder, by name; saved beside the model as NAME.safetensors.
            fields: what the manifest says beside.
            names: whose dev synonyms are scored while training; None for none.
            dev: scores the trained encoder; they are among the figures.
            before_step, fence: see `engine.loop.fit`.
        """
        config, extra = self._config, dict(modules or {})
        trained = {
            "encoder": self.forward.module,
            **{name: module.to(self.forward.device) for name, module in extra.items()},
        }
        watched = names if names is not None and config.dev_synonyms else None
        plan = LoopPlan.of(config, length)
        if watched is None:
            plan = replace(plan, keep="last")
        steps = TermSteps(
            self.forward,
            tokenize(self.encoder, strings),
            draw,
            loss,
            seed=self._seed,
            tokens_at_once=config.tokens_at_once,
            ranks=self._ranks,
        )
        label = f"{self._recipe}, {self._phase.name}"
        if self._phase.dry_run:
            if before_step is not None:
                before_step(0)
            told, _ = dry_run.estimate(label, sizes, steps, trained, plan, bf16=self.forward.bf16, most=fence)
            self.say(told)
            return {}
        figures = fit(
            trained,
            steps,
            plan,
            self.work,
            fingerprint=runs.fingerprint(self._facts),
            resume=self._phase.resume,
            evaluate=watched.dev_accuracy(self.encoder) if watched else None,
            describe=lambda number: ", ".join(strings[term] for term in steps.terms(number)),
            ranks=self._ranks,
            label=f"training {label}",
            before_step=before_step,
            fence=fence,
        )
        if self._ranks.first:
            if dev is not None:
                figures |= dev(self.encoder)
            runs.save_model(
                self._phase.out,
                self.encoder,
                self.work,
                force=self._phase.force,
                fields=manifest_fields(self._phase, self._facts, figures)
                | {"config": config.model_dump(), **(fields or {})},
                tensors={name: module.state_dict() for name, module in extra.items()},
            )
        self._ranks.wait()
        return figures

    def one_by_one(self, work: Callable[[], None]) -> None:
        """Do something in the first process, then in the others: see `Ranks.one_by_one`."""
        self._ranks.one_by_one(work)

    def say(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self._ranks.first:
            say(text)
