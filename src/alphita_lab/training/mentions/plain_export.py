"""An encoder with entities injected as a plain one, which learns by regression the vectors that the whole gives (ours).

Libraries other than this one know no injected entities, nor has such a model an ONNX form.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
import torch
from pydantic import Field

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.index import neighbours
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.objectives.multi_similarity import unit
from alphita_lab.objectives.regression import regression
from alphita_lab.training.engine import ranks, teachers
from alphita_lab.training.engine.run import CLEANED, Run
from alphita_lab.training.engine.runs import Mode, Phases
from alphita_lab.training.engine.settings import TermTraining
from alphita_lab.training.terms.batches import Batch, TermSteps
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.text.masked_steps import SequenceBatches

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


class Distilling(TermTraining):
    """Settings of the distillation; maximal length and pooling are the injected encoder's, whatever is given."""

    max_length: int = Field(32, ge=3, description="tokens per name (the injected encoder's)")
    pooling: Literal["cls", "mean"] = Field("mean", description="the vector (the injected encoder's)")
    batch: int = Field(128, ge=1, description="names a batch (ours)")
    steps: int = Field(10_000, ge=1, description="optimiser steps (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (ours)")
    learning_rate: float = Field(2e-5, gt=0, description="learning rate (ours)")
    warmup_steps: int = Field(500, ge=0, description="steps of linear warm-up (ours)")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="schedule after the warm-up (ours)")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (ours)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (ours)")


def without_injection(encoder: str | Path, *, device: str = "auto") -> TermEncoder:
    """Open an encoder with entities injected and take the injection out: the BERT inside, in fp32."""
    opened = TermEncoder.load(encoder, precision="fp32", device=device)
    model = opened.module.model
    if not isinstance(model, InjectedBert):
        raise InputError("has no entities injected", file=opened.folder, remedy="it is a plain encoder already")
    opened.module.model = model.model
    return opened


def distil_plain(
    injected: str | Path,
    out: Path,
    terminology: Terminology,
    config: Distilling,
    split: Split | None = None,
    **mode: Unpack[Mode],
) -> dict[str, float]:
    """Distil an injected encoder into a plain one and save it to `out`."""
    processes = ranks.connect()
    teacher = TermEncoder.load(injected, precision="fp32", device=ranks.device())
    start = without_injection(injected, device=ranks.device())
    config = config.model_copy(update={"max_length": teacher.max_length, "pooling": teacher.pooling})
    names = TrainingNames.of(config, terminology, split)
    phases = Phases(out, ["plain"], **mode)
    phases.check()
    with processes.scratch() as scratch:
        work = scratch if phases.dry_run else phases.folder
        if processes.first:
            start.save(work / "start", onnx=False)
        processes.wait()
        run = Run("plain_export", phases["plain"], config, work / "start")
        run.begin(
            **CLEANED,
            injected=teacher.content_hash,
            terminology=terminology.content_hash,
            split=split.hash if split else None,
        )
        if run.done is not None:
            return run.done
        figures = _distil(run, config, names, teacher, work)
    if processes.first and not phases.dry_run:
        shutil.rmtree(phases.folder, ignore_errors=True)
    return figures


def _distil(run: Run, config: Distilling, names: TrainingNames, teacher: TermEncoder, work: Path) -> dict[str, float]:
    """Let the encoder learn the teacher's vectors, kept in `work`, and save it; return the last figures."""
    strings = list(dict.fromkeys(names.strings))
    targets = np.zeros((len(strings), teacher.dim), np.float32)
    if not run.phase.dry_run:
        targets = teachers.taught(teacher, strings, work, run.ranks, unit=teacher.normalize)
    batches = SequenceBatches(np.arange(len(strings)), batch=config.batch, seed=config.seed)

    def draw(number: int) -> Batch:
        terms = batches.batch(number).terms
        return Batch(terms, {"target": np.asarray(targets[terms])}, rows=len(terms))

    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"loss": regression(unit(vectors) if teacher.normalize else vectors, given["target"])}

    def compare(plain: TermEncoder) -> dict[str, float]:
        if not names.dev_strings:
            return {}
        own, whole = (neighbours.unit(encoder.encode(names.dev_strings)) for encoder in (plain, teacher))
        return {
            **names.dev_accuracy(plain),
            "dev_acc1_injected": names.dev_accuracy(teacher)["dev_acc1"],
            "dev_cosine": float((own * whole).sum(1).mean()),
        }

    steps = TermSteps.of(run, strings, draw, loss)
    return run.fit(steps, f"names: {len(strings):,}", evaluate=names.dev, final=compare)
