"""One training run of a recipe that compares term vectors: what all such recipes open, run and save alike.

run = TermRun("coder", config, terminology, encoder, out, split=split, resume=resume, force=force, dry_run=dry_run)
... the recipe's data and objective, from run.names and run.encoder: `draw` and `loss` ...
return run.fit(draw, loss, modules={"relations": matrices})
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from alphita.encoder.encoder import TermEncoder
from alphita.progress import say
from alphita.terminology.text import DEFAULT_RULES
from alphita.training.engine import ranks, runs
from alphita.training.engine.dry_run import check_encoder, estimate
from alphita.training.engine.forward import TermForward
from alphita.training.engine.loop import Length, LoopPlan, fit
from alphita.training.engine.settings import NameTraining, TermTraining, decisive, language_weights
from alphita.training.engine.tokens import TokenTable, tokenize
from alphita.training.terms.batches import BatchLoss, Draw, TermSteps
from alphita.training.terms.names import TrainingNames
from alphita.training.terms.triples import between_pairs

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


class TermRun:
    """A run: its encoder, its names, its folder.

    Attributes:
        names: the names that train.
        encoder: the encoder that is trained.
        forward: its forward pass with gradients.
        held_out: (p, 2) pairs of concepts whose triples must not train.
        device: where it runs.
        work: the folder of unfinished work; made when `fit` begins.
        resume: whether an unfinished run is gone on with.
    """

    def __init__(
        self,
        recipe: str,
        config: TermTraining,
        terminology: Terminology,
        encoder: str,
        out: Path,
        *,
        split: Split | None,
        resume: bool,
        force: bool,
        dry_run: bool,
    ) -> None:
        """Open encoder and names; nothing is written yet.

        Raises:
            InputError: no such encoder, or one that gives no vector for each token; no name in the languages asked for.
            UsageError: the model exists already, or there is unfinished work, and neither flag is given.
        """
        self._ranks = ranks.connect()
        self._recipe, self._config, self._out, self._force, self._dry_run = recipe, config, out, force, dry_run
        self.resume = resume
        torch.manual_seed(config.seed)
        self.encoder = TermEncoder.load(
            encoder,
            precision=config.precision,
            pooling=config.pooling,
            max_length=config.max_length,
            device=ranks.device(),
        )
        self.forward = TermForward(self.encoder, precision=config.precision, dropout=config.dropout)
        self.device = self.forward.device
        check_encoder(self.forward)
        self._facts = {
            "recipe": recipe,
            "config": decisive(config),
            "seed": config.seed,
            "encoder": self.encoder.content_hash,
            "terminology": terminology.content_hash,
            "split": split.hash if split else None,
            "cleaning_rules": list(DEFAULT_RULES),
        }
        # A dry run has a folder too, for what a recipe may want to note, but not beside the model.
        self._aside = tempfile.TemporaryDirectory() if dry_run else None
        self.work = Path(self._aside.name) if self._aside is not None else runs.folder(out)
        if self._ranks.first and not dry_run:
            runs.check(out, resume=resume, force=force)
        self.names = TrainingNames(
            terminology,
            exclude=split.cleaned if split else frozenset(),
            dev=config.dev_synonyms,
            seed=config.seed,
            languages=language_weights(config.languages),
            noise=config.noise if isinstance(config, NameTraining) else 0.0,
        )
        self.held_out = np.empty((0, 2), np.int32) if split is None else split.triple_pairs(terminology)
        if split is not None:
            triples = 0
            if len(self.held_out):
                triples = int(between_pairs(np.asarray(terminology.triples), self.held_out).sum())
            self.say(f"held out by the split: {len(split.cleaned):,} strings and {triples:,} triples")

    def say(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self._ranks.first:
            say(text)

    def one_by_one(self, work: Callable[[], None]) -> None:
        """Do something in the first process, then in the others: see `Ranks.one_by_one`."""
        self._ranks.one_by_one(work)

    def fit(
        self,
        draw: Draw,
        loss: BatchLoss,
        *,
        modules: Mapping[str, torch.nn.Module] | None = None,
        fields: Mapping[str, Any] | None = None,
        before_step: Callable[[int], None] | None = None,
        fence: int = 0,
        length: Length | None = None,
        tokens: TokenTable | None = None,
        name: Callable[[int], str] | None = None,
    ) -> dict[str, float]:
        """Train, save the model and return the last figures; in a dry run only measure and return nothing.

        Args:
            draw: gives the batches.
            loss: of a batch's vectors.
            modules: what is trained beside the encoder, by name; saved beside the model as NAME.safetensors.
            fields: what the manifest says beside recipe, config, seed and hashes.
            before_step, fence: see `engine.loop.fit`.
            length: how long and how fast; None: as the config says.
            tokens: what the batches' terms are rows of; None: the names' tokens.
            name: the name of such a row, for messages; None: that of the name of this number.
        """
        config, extra = self._config, dict(modules or {})
        trained = {"encoder": self.forward.module, **{name: module.to(self.device) for name, module in extra.items()}}
        steps = TermSteps(
            self.forward,
            tokenize(self.encoder, self.names.strings) if tokens is None else tokens,
            draw,
            loss,
            seed=config.seed,
            tokens_at_once=config.tokens_at_once,
            ranks=self._ranks,
        )
        named = name or self.names.strings.__getitem__
        plan = LoopPlan.of(config, length)
        if self._dry_run:
            if before_step is not None:
                before_step(0)
            told, _ = estimate(self._recipe, self._sizes(), steps, trained, plan, bf16=self.forward.bf16, most=fence)
            self.say(told)
            return {}
        figures = fit(
            trained,
            steps,
            plan,
            self.work,
            fingerprint=runs.fingerprint(self._facts),
            resume=self.resume,
            evaluate=self.names.dev_accuracy(self.encoder) if config.dev_synonyms else None,
            before_step=before_step,
            fence=fence,
            describe=lambda number: ", ".join(map(named, steps.terms(number).tolist())),
            ranks=self._ranks,
            label=f"training {self._recipe}",
        )
        if self._ranks.first:
            runs.save_model(
                self._out,
                self.encoder,
                self.work,
                force=self._force,
                fields=self._facts | {"config": config.model_dump(), **(fields or {}), "figures": figures},
                tensors={name: module.state_dict() for name, module in extra.items()},
            )
        self._ranks.wait()
        return figures

    def _sizes(self) -> str:
        """Return a line on the names."""
        return self.names.told()
