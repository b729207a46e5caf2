"""The phase that injects a graph's entities into an encoder: what `kge_injection` and `pipelined` have in common.

    inject_entities("kge_injection", phase, config, Injecting(...), Length(...), terminology, encoder, split=split)

It opens encoder and data, puts the injection into the encoder, trains it by L_MLM + L_EL, and saves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita_lab.encoder import flat_bert
from alphita_lab.encoder.injected_bert import InjectedBert, check_layer
from alphita_lab.encoder.injection import NEAREST, Injection
from alphita_lab.training.engine.run import Run
from alphita_lab.training.mentions import injection_data
from alphita_lab.training.mentions.injection_steps import InjectionSteps, linking_accuracy
from alphita_lab.training.text.corpus_vocabulary import open_tokenizer
from alphita_lab.training.text.masked_language import NAME, MaskedLanguageHead, masking_of
from alphita_lab.training.text.masked_steps import SequenceBatches

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.phases import Phase
    from alphita_lab.training.engine.settings import Length, TermTraining
    from alphita_lab.training.mentions.injection_data import LinkedMentions


def inject(
    encoder: TermEncoder,
    entities: torch.Tensor | NDArray[np.floating[Any]],
    *,
    layer: int,
    nearest: int = NEAREST,
    outside: Sequence[int] = (),
) -> InjectedBert:
    """Put an `Injection` into `encoder`, in place, and return its model, to be trained.

    Args:
        entities: (E, d) vectors of the graph.
    """
    module = encoder.module
    model: Any = module.model
    if isinstance(model, InjectedBert):
        raise InputError("the encoder has entities injected already", file=encoder.folder, remedy="give a plain one")
    check_layer(model, layer)
    vectors = torch.from_numpy(np.array(entities)) if isinstance(entities, np.ndarray) else entities
    if vectors.dtype != torch.float16:
        vectors = vectors.float()
    injection = Injection(vectors, model.config.hidden_size, nearest=nearest, eps=model.config.layer_norm_eps)
    injection.follow(model.encoder.layer[layer - 1].output.LayerNorm)
    special = sorted({*encoder.tokenize([""])[0], *outside})
    injected = InjectedBert(model, injection.to(model.device), layer=layer, outside=special)
    module.model = injected.train(module.training)
    return injected


Int64 = NDArray[np.int64]
DEV = 32
"""Which stream of random numbers chooses the dev sequences."""


@dataclass(frozen=True)
class Injecting:
    """The phase's settings.

    Attributes:
        layer: after which entities are added, from 1; 0: after two thirds of the layers.
        nearest: entities among which a mention is shared out.
        share: of the tokens drawn to be masked.
        linking: L_EL is a mean over the batch's mentions, or the sum.
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
    """Train, save the model and return the last figures; in a dry run only measure and return nothing."""
    # The encoder, still plain, and the data.
    run = Run(recipe, phase, config, encoder, label=recipe)
    data = _read(run, settings, terminology, split)
    if run.done is not None:
        return run.done
    dev, rows = _hold_out(data, settings.dev_sequences, config.seed)

    # The model: the head that guesses tokens, and entities between two layers.
    head = MaskedLanguageHead.of(run.encoder, seed=config.seed)
    tokenizer, _, specials = open_tokenizer(encoder)
    trained: Any = run.encoder.module.model
    layers = int(trained.config.num_hidden_layers)
    layer = settings.layer or max(1, round(2 * layers / 3))
    injected = inject(run.encoder, np.asarray(data.entities), layer=layer, nearest=settings.nearest)
    run.say(f"entities are added after layer {layer} of {layers}")

    # Objective, loop, and the model.
    batches = SequenceBatches(rows, batch=settings.batch, seed=config.seed)
    steps = InjectionSteps(
        injected,
        head,
        data,
        batches,
        masking_of(tokenizer, specials, share=settings.share),
        seed=config.seed,
        linking=settings.linking,
        bf16=run.forward.bf16,
        tokens_at_once=config.tokens_at_once,
        ranks=run.ranks,
    )
    epoch = f"an epoch is {batches.batches / config.accumulation:,.1f} steps"
    if not phase.dry_run:
        run.say(f"{epoch}; training takes {length.steps:,}")

    def dev_score(_: TermEncoder) -> dict[str, float]:
        return linking_accuracy(injected, data, dev, batch=settings.batch, bf16=run.forward.bf16)

    return run.fit(
        steps,
        epoch,
        length=length,
        # Of the starting weights only the encoder's are mixed in: the injection has none from before.
        parts=_parts(injected),
        modules={NAME: head},
        evaluate=dev_score if len(dev) else None,
        final=dev_score if len(dev) else None,
        fields={"layer": layer, "counts": data.counts},
    )


def _read(run: Run, settings: Injecting, terminology: Terminology, split: Split | None) -> LinkedMentions:
    """Return the data for the run's encoder, say what there is, and begin the run."""
    model = run.encoder.module.model
    if isinstance(model, InjectedBert):
        raise InputError(
            "the encoder has entities injected already", file=run.encoder.folder, remedy="give a plain one"
        )
    check_layer(model, settings.layer or 1)
    data = injection_data.read(settings.mentions, settings.graph, terminology, run.encoder.tokenizer_hash, split=split)
    _check_lengths(data, run.encoder)
    if split is not None:
        run.say(f"held out by the split: {len(split.cleaned):,} strings")
    for line in data.lines():
        run.say(line)
    run.begin(terminology=terminology.content_hash, split=split.hash if split else None, **data.made_of)
    return data


def _hold_out(data: LinkedMentions, wanted: int, seed: int) -> tuple[Int64, Int64]:
    """Return which sequences are held out to score with, and which train, both ascending."""
    shuffled = np.random.default_rng([seed, DEV]).permutation(len(data.mentions.sequences))
    dev, rows = np.sort(shuffled[:wanted]), np.sort(shuffled[wanted:])
    if not len(rows):
        raise InputError(
            f"all {len(dev):,} sequences are held out to score with",
            file=data.mentions.path,
            field="dev_sequences",
            value=wanted,
            remedy="hold out fewer, or give a larger corpus",
        )
    return dev, rows


def _parts(injected: InjectedBert) -> dict[str, torch.nn.Module]:
    """Return what is trained of the model, by name. The frozen entities are in none of it, and so in no checkpoint."""
    step = injected.injection
    between = torch.nn.ModuleDict({"down": step.down, "up": step.up, "norm": step.norm})
    return {"encoder": injected.model, "injection": between}


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
