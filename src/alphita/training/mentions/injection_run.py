"""The phase that injects a graph's entities into an encoder: what `kge_injection` and `pipelined` have in common.

    inject_entities("kge_injection", phase, config, Injecting(...), Length(...), terminology, encoder, split=split)

It opens encoder and data, puts the injection into the encoder, trains it by L_MLM + L_EL, and saves it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from alphita.encoder import flat_bert
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.injected_bert import InjectedBert, check_layer
from alphita.encoder.injecting import inject
from alphita.errors import InputError
from alphita.progress import say
from alphita.training.engine import dry_run, ranks, runs
from alphita.training.engine.forward import TermForward
from alphita.training.engine.loop import Length, LoopPlan, fit
from alphita.training.engine.phases import Phase, manifest_fields
from alphita.training.engine.settings import TermTraining, decisive
from alphita.training.mentions import injection_data
from alphita.training.mentions.injection_steps import InjectionSteps, linking_accuracy
from alphita.training.text.masked_language import NAME, MaskedLanguageHead, masking_of
from alphita.training.text.masked_steps import SequenceBatches
from alphita.training.text.tokenizer import open_tokenizer

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita.training.mentions.injection_data import LinkedMentions

DEV = 32
"""Which stream of random numbers chooses the dev sequences."""


@dataclass(frozen=True)
class Injecting:
    """The phase's settings.

    Attributes:
        mentions: path of the mentions, with sequences.
        graph: path of the graph's vectors.
        layer: after which entities are added, from 1; 0: after two thirds of the layers.
        nearest: entities among which a mention is shared out.
        batch: sequences a batch.
        share: of the tokens drawn to be masked.
        linking: L_EL is a mean over the batch's mentions, or the sum.
        dev_sequences: sequences held out of training to score with.
    """

    mentions: str
    graph: str
    layer: int
    nearest: int
    batch: int
    share: float
    linking: Literal["mean", "sum"]
    dev_sequences: int


def inject_entities(
    recipe: str,
    phase: Phase,
    config: TermTraining,
    settings: Injecting,
    length: Length,
    terminology: Terminology,
    encoder: str | Path,
    *,
    split: Split | None = None,
) -> dict[str, float]:
    """Train, save the model and return the last figures; in a dry run only measure and return nothing.

    Args:
        recipe: its name.
        phase: where the model goes.
        config: the recipe's settings of the engine.
        settings: this phase's.
        length: how long and how fast.
        terminology: of which the mentions were made.
        encoder: what training starts from, a BERT or RoBERTa.
        split: what is held out; the mentions were made with it.

    Raises:
        InputError: see `injection_data.read` and `injecting.inject`; or the sequences are longer than the encoder
            has positions, or all of them are held out to score with; or the phase's model is of another run.
        UsageError: the model exists already, or there is unfinished work, and neither flag is given; or a setting is
            out of range.
    """
    processes = ranks.connect()

    def tell(text: str) -> None:
        if processes.first:
            say(text)

    # The encoder, still plain.
    torch.manual_seed(config.seed)
    trained = TermEncoder.load(
        encoder, precision=config.precision, pooling=config.pooling, max_length=config.max_length, device=ranks.device()
    )
    forward = TermForward(trained, precision=config.precision, dropout=config.dropout)
    dry_run.check_encoder(forward)
    if isinstance(trained.module.model, InjectedBert):
        raise InputError("the encoder has entities injected already", file=trained.folder, remedy="give a plain one")
    check_layer(trained.module.model, settings.layer or 1)

    # Data.
    data = injection_data.read(settings.mentions, settings.graph, terminology, trained.tokenizer_hash, split=split)
    _check_lengths(data, trained)
    if split is not None:
        tell(f"held out by the split: {len(split.cleaned):,} strings")
    for line in data.lines():
        tell(line)
    deciding = {key: value for key, value in decisive(config).items() if key not in ("mentions", "graph")}
    facts = {
        "recipe": recipe,
        "phase": phase.name,
        "config": deciding,
        "seed": config.seed,
        "encoder": trained.content_hash,
        "terminology": terminology.content_hash,
        "split": split.hash if split else None,
        **data.made_of,
    }
    work = runs.folder(phase.out)
    done = phase.finished(runs.fingerprint(facts))
    if processes.first and not phase.dry_run:
        if done is not None:
            # What a kill between the model's saving and this left there.
            shutil.rmtree(work, ignore_errors=True)
        else:
            runs.check(phase.out, resume=phase.resume, force=phase.force)
    processes.wait()
    if done is not None:
        return done
    shuffled = np.random.default_rng([config.seed, DEV]).permutation(len(data.mentions.sequences))
    dev, rows = np.sort(shuffled[: settings.dev_sequences]), np.sort(shuffled[settings.dev_sequences :])
    if not len(rows):
        raise InputError(
            f"all {len(dev):,} sequences are held out to score with",
            file=data.mentions.path,
            field="dev_sequences",
            value=settings.dev_sequences,
            remedy="hold out fewer, or give a larger corpus",
        )

    # The model: the head that guesses tokens, and entities between two layers.
    head = MaskedLanguageHead.of(trained, seed=config.seed)
    tokenizer, _, specials = open_tokenizer(encoder)
    masking = masking_of(tokenizer, specials, share=settings.share)
    model: Any = trained.module.model
    layers = int(model.config.num_hidden_layers)
    layer = settings.layer or max(1, round(2 * layers / 3))
    injected = inject(trained, np.asarray(data.entities), layer=layer, nearest=settings.nearest)
    tell(f"entities are added after layer {layer} of {layers}")

    # Objective and loop.
    batches = SequenceBatches(rows, batch=settings.batch, seed=config.seed)
    steps = InjectionSteps(
        injected,
        head,
        data,
        batches,
        masking,
        seed=config.seed,
        linking=settings.linking,
        bf16=forward.bf16,
        tokens_at_once=config.tokens_at_once,
        ranks=processes,
    )
    # Of the starting weights only the encoder's are mixed in: the injection has none from before.
    plan = LoopPlan.of(config, length)
    modules = _modules(injected, head)
    per_epoch = batches.batches / config.accumulation
    if phase.dry_run:
        told, _ = dry_run.estimate(
            recipe, f"an epoch is {per_epoch:,.1f} steps", steps, modules, plan, bf16=forward.bf16
        )
        tell(told)
        return {}
    tell(f"an epoch is {per_epoch:,.1f} steps; training takes {plan.steps:,}")

    def dev_score() -> dict[str, float]:
        return linking_accuracy(injected, data, dev, batch=settings.batch, bf16=forward.bf16)

    figures = fit(
        modules,
        steps,
        plan,
        work,
        fingerprint=runs.fingerprint(facts),
        resume=phase.resume,
        evaluate=dev_score if len(dev) else None,
        describe=lambda number: ", ".join(steps.names(number)),
        ranks=processes,
        label=f"training {recipe}",
    )

    # The model.
    if processes.first:
        if len(dev):
            figures |= dev_score()
        runs.save_model(
            phase.out,
            trained,
            work,
            force=phase.force,
            fields=manifest_fields(phase, facts, figures)
            | {"config": config.model_dump(), "layer": layer, "counts": data.counts},
            tensors={NAME: head.state_dict()},
        )
    processes.wait()
    return figures


def _modules(injected: InjectedBert, head: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return what is trained, by name. The frozen entities are in none of it, and so in no checkpoint."""
    step = injected.injection
    between = torch.nn.ModuleDict({"down": step.down, "up": step.up, "norm": step.norm})
    return {"encoder": injected.model, "injection": between, NAME: head}


def _check_lengths(data: LinkedMentions, encoder: TermEncoder) -> None:
    """Refuse sequences that are longer than the encoder has positions."""
    model: Any = encoder.module.model
    positions = int(model.config.max_position_embeddings) - flat_bert.first_position(model)
    special = len(encoder.tokenize([""])[0])
    longest = int(np.diff(data.mentions.sequences.offsets).max()) + special
    if longest > positions:
        raise InputError(
            f"its longest sequence has {longest} tokens, and the encoder has {positions} positions",
            file=data.mentions.path,
            remedy=f"make it again with --sequence-tokens {positions - special}",
        )
