"""One training run of a recipe that compares term vectors: what all such recipes open, run and save alike.

run = TermRun("coder", config, terminology, encoder, out, split=split, resume=resume, force=force, dry_run=dry_run)
... the recipe's data and objective, from run.names and run.encoder: `draw` and `loss` ...
return run.fit(draw, loss, modules={"relations": matrices})
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.progress import say
from alphita.terminology.text import DEFAULT_RULES
from alphita.training import memory, ranks, runs
from alphita.training.forward import TermForward
from alphita.training.loop import Plan, fit
from alphita.training.names import TrainingNames
from alphita.training.settings import ENGINE_ONLY, TermTraining, language_weights
from alphita.training.soup import copy_of, mix_in
from alphita.training.term_batches import BatchLoss, Draw, TermSteps
from alphita.training.tokens import tokenize
from alphita.training.triples import between_pairs

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

TRIALS = 4


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
            encoder, precision=config.precision, pooling=config.pooling, max_length=config.max_length,
            device=ranks.device(),
        )  # fmt: skip
        self.forward = TermForward(self.encoder, precision=config.precision, dropout=config.dropout)
        self.device = self.forward.device
        _check_encoder(self.forward)
        decisive = {key: value for key, value in config.model_dump().items() if key not in ENGINE_ONLY}
        self._facts = {
            "recipe": recipe, "config": decisive, "seed": config.seed, "encoder": self.encoder.content_hash,
            "terminology": terminology.content_hash, "split": split.hash if split else None,
            "cleaning_rules": list(DEFAULT_RULES),
        }  # fmt: skip
        # A dry run has a folder too, for what a recipe may want to note, but not beside the model.
        self._aside = tempfile.TemporaryDirectory() if dry_run else None
        self.work = Path(self._aside.name) if self._aside is not None else runs.folder(out)
        if self._ranks.first and not dry_run:
            runs.check(out, resume=resume, force=force)
        self.names = TrainingNames(
            terminology, exclude=split.cleaned if split else frozenset(), dev=config.dev_synonyms, seed=config.seed,
            languages=language_weights(config.languages),
        )  # fmt: skip
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
        """Do something in the first process, and when it is done there in the others, which find its files."""
        if self._ranks.first:
            work()
        self._ranks.wait()
        if not self._ranks.first:
            work()

    def fit(
        self,
        draw: Draw,
        loss: BatchLoss,
        *,
        modules: Mapping[str, torch.nn.Module] | None = None,
        fields: Mapping[str, Any] | None = None,
        before_step: Callable[[int], None] | None = None,
        fence: int = 0,
    ) -> dict[str, float]:
        """Train, save the model and return the last figures; in a dry run only measure and return nothing.

        Args:
            draw: gives the batches.
            loss: of a batch's vectors.
            modules: what is trained beside the encoder, by name; saved beside the model as NAME.safetensors.
            fields: what the manifest says beside recipe, config, seed and hashes.
            before_step, fence: see `loop.fit`.
        """
        config, extra = self._config, dict(modules or {})
        trained = {"encoder": self.forward.module, **{name: module.to(self.device) for name, module in extra.items()}}
        steps = TermSteps(
            self.forward, tokenize(self.encoder, self.names.strings), draw, loss, seed=config.seed,
            tokens_at_once=config.tokens_at_once, ranks=self._ranks,
        )  # fmt: skip
        if self._dry_run:
            if before_step is not None:
                before_step(0)
            self._estimate(steps, trained, min(TRIALS, config.steps, fence or TRIALS))
            return {}
        start = copy_of(self.forward.module) if config.start_share > 0 else {}
        plan = Plan(
            config.steps, config.warmup_steps, config.learning_rate, config.accumulation, config.clip,
            config.weight_decay, config.log_every, config.evaluate_every, config.checkpoint_every, config.schedule,
            config.ema, config.keep, config.tensorboard,
        )  # fmt: skip
        figures = fit(
            trained, steps, plan, self.work, fingerprint=runs.fingerprint(self._facts), resume=self.resume,
            evaluate=self.names.dev_accuracy(self.encoder) if config.dev_synonyms else None, before_step=before_step,
            fence=fence, describe=lambda number: ", ".join(self.names.strings[term] for term in steps.terms(number)),
            ranks=self._ranks, label=f"training {self._recipe}",
        )  # fmt: skip
        # Some of the starting weights keep what names alone do not teach: misspellings, words around a term.
        if config.start_share > 0:
            mix_in(self.forward.module, start, config.start_share)
        if self._ranks.first:
            runs.save_model(
                self._out, self.encoder, self.work, force=self._force,
                fields=self._facts | {"config": config.model_dump(), **(fields or {}), "figures": figures},
                tensors={name: module.state_dict() for name, module in extra.items()},
            )  # fmt: skip
        self._ranks.wait()
        return figures

    def _estimate(self, steps: TermSteps, trained: Mapping[str, torch.nn.Module], trials: int) -> None:
        """Run a few micro-batches, throw their gradients away and say what the whole run would take."""
        config = self._config
        for module in trained.values():
            module.train()
        batches = [steps.draw(number) for number in range(trials)]
        lengths = np.diff(steps.tokens.offsets)
        optimizer = torch.optim.AdamW([p for module in trained.values() for p in module.parameters()], lr=0.0)
        steps.start(0, trials)
        seconds, updates = [], []
        for number in range(trials):
            begin = time.perf_counter()
            steps(number, 1.0)
            seconds.append(time.perf_counter() - begin)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            updates.append(time.perf_counter() - begin - seconds[-1])
        steps.stop()
        # The first ones warm up.
        second = float(np.median(seconds[1:] or seconds)) * config.accumulation + float(
            np.median(updates[1:] or updates)
        )
        state = memory.state_bytes(list(trained.values()))
        numbers = sum(p.numel() for module in trained.values() for p in module.parameters() if p.requires_grad)
        rows = [batch.rows for batch in batches]
        distinct = [len(batch.terms) for batch in batches]
        tokens = [int(lengths[batch.terms].sum()) for batch in batches]
        several = int((np.diff(self.names.offsets) > 1).sum())
        self.say(
            f"dry run of {self._recipe}: nothing is written\n"
            f"  names: {len(self.names.strings):,} of {int((np.diff(self.names.offsets) > 0).sum()):,} concepts, "
            f"{several:,} of them with several\n"
            f"  trained numbers: {numbers:,} ({state / 2**30:.2f} GB with gradients and AdamW's moments)\n"
            f"  a batch: {np.mean(rows):,.0f} term rows, {np.mean(distinct):,.0f} distinct, {np.mean(tokens):,.0f} "
            f"tokens (at most {steps.tokens_at_once:,} are encoded at once)\n"
            f"  a step: {config.accumulation} batches, {second:.2f} s on {self.device}, "
            f"{'bf16' if self.forward.bf16 else 'fp32'}, {self._ranks.size} process(es)\n"
            f"  {config.steps:,} steps: about {_duration(second * config.steps)}, without dev scores\n"
            f"  memory: about {_peak(self.device) / 2**30:.1f} GB"
        )


def _check_encoder(forward: TermForward) -> None:
    """Refuse an encoder that does not give a vector for a term."""
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
            f"{kind} does not encode a term as BERT does: {problem}", file=forward.encoder.folder,
            remedy="take an encoder such as BERT, RoBERTa, XLM-R or ELECTRA",
        )  # fmt: skip


def _peak(device: torch.device) -> int:
    """Return the most bytes held so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
