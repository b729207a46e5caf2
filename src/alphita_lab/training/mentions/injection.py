"""The phase that injects a graph's entities into an encoder, by L_MLM + L_EL: data, steps, run.

Of each batch of sequences some tokens are masked, and the mentions that hold one whole; all mentions are linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.encoder import bert
from alphita_lab.encoder.injected_bert import NEAREST, InjectedBert, Injection, check_layer
from alphita_lab.graph import store
from alphita_lab.graph.store import EntityVectors
from alphita_lab.objectives.entity_linking import entity_linking, masked_language_model
from alphita_lab.training.engine.run import Run
from alphita_lab.training.engine.steps import Parts, PartSteps, seed_dropout, tokens_that_fit
from alphita_lab.training.mentions.store import REMEDY, Mentions, check_split
from alphita_lab.training.text.corpora import open_tokenizer
from alphita_lab.training.text.masked_language import (
    NAME,
    NOT_MASKED,
    MaskedLanguageHead,
    Masking,
    mask_by_token,
    masking_of,
)
from alphita_lab.training.text.masked_steps import SequenceBatches
from alphita_lab.training.text.sequences import hold_out

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.engine.settings import Length
    from alphita_lab.training.mentions.store import MentionBatch, TokenSets

NO_ENTITY = -1
"""Gold of a mention that names no entity of the graph, or several; see `objectives.entity_linking`."""


@dataclass(frozen=True)
class LinkedMentions:
    """Sequences whose mentions are linked to a graph's entities."""

    mentions: Mentions
    entities: NDArray[np.float32]  # (E, d) float32 vectors of all concepts of the graph
    gold: NDArray[np.int64]  # (f,) int64 the row in `entities` of what each form of the mentions names, or NO_ENTITY
    counts: dict[str, int]  # of sequences, of mentions in them, of those without gold by reason; and of concepts
    made_of: dict[str, str]

    def lines(self) -> Iterator[str]:
        """Yield what to tell of the data."""
        counts = self.counts
        yield (
            f"sequences: {counts['sequences']:,} with {counts['mentions']:,} mentions; not linked: "
            f"{counts['without_entity']:,} whose concept the graph lacks, {counts['homonyms']:,} of several concepts"
        )
        yield (
            f"entities: {len(self.entities):,} of {self.entities.shape[1]} numbers; the graph has "
            f"{counts['concepts_with_entity']:,} of the {counts['concepts']:,} concepts mentioned"
        )


def read_linked(
    mentions: str, graph: str, terminology: Terminology, tokenizer_hash: str, *, split: Split | None = None
) -> LinkedMentions:
    """Open both artefacts and link the one's forms to the other's entities."""
    if not mentions:
        raise UsageError(f"mentions: no mentions are given; {REMEDY} --sequence-tokens 128; then --set mentions=X")
    if not graph:
        raise UsageError(f"graph: no vectors of a graph are given; {store.REMEDY}; then --set graph=X.vectors")
    opened = Mentions.load(mentions, tokenizer_hash=tokenizer_hash)
    if opened.manifest["terminology"] != terminology.content_hash:
        raise InputError(
            "was made with another terminology",
            file=opened.path,
            remedy="make it again with the terminology given here",
        )
    check_split(opened, split)
    if not len(opened.sequences):
        raise InputError("has no sequences, only windows", file=opened.path, remedy=f"{REMEDY} --sequence-tokens 128")
    vectors = EntityVectors.load(graph)
    if split is not None and split.triples and vectors.facts.get("split_hash") != split.hash:
        raise InputError(
            "the graph was trained without this split, which holds triples out",
            file=vectors.path,
            remedy="train it with the same --split",
        )
    of_concept, _ = vectors.rows_of_terminology(terminology)
    rows = opened.rows_in(terminology)
    entity = np.where(rows >= 0, of_concept[rows], NO_ENTITY)
    if not (entity >= 0).any():
        raise InputError(
            f"none of the {len(entity):,} concepts mentioned in {opened.path} has a vector",
            file=vectors.path,
            value=opened.concept_ids[0],
            remedy="train the graph on the terminology that the mentions are of",
        )
    several = np.diff(opened.form_offsets) > 1
    gold = np.where(several, NO_ENTITY, entity[opened.form_concept]).astype(np.int64)
    met = np.bincount(opened.sequences.mentions[:, 2], minlength=len(gold))
    counts = {
        "sequences": len(opened.sequences),
        "mentions": int(met.sum()),
        "homonyms": int(met[several].sum()),
        "without_entity": int(met[~several & (gold < 0)].sum()),
        "concepts": len(entity),
        "concepts_with_entity": int((entity >= 0).sum()),
        "entities": len(vectors),
    }
    if counts["mentions"] == counts["homonyms"] + counts["without_entity"]:
        raise InputError(
            "no mention of its sequences names one concept that the graph has",
            file=opened.path,
            remedy="give a larger corpus, or a graph of more concepts",
        )
    made_of = {"mentions": opened.content_hash, "graph": artefact.open_manifest(graph, store.KIND)["content_hash"]}
    return LinkedMentions(opened, vectors.vectors, gold, counts, made_of)


Int64 = NDArray[np.int64]
MASKED = 31
"""The stream of random numbers that masks."""


@dataclass(frozen=True)
class MaskedSequences:
    """Sequences side by side."""

    input_ids: Int64  # (b, t) int64, masked
    attention_mask: Int64  # (b, t) int64, 0 where padded
    mentions: Int64  # (m, 3) int64 rows [sequence, start, end)
    gold: Int64  # (m,) int64 the entity of each, or -1
    labels: Int64  # (b, t) int64 the true token where it is to be guessed, else NOT_MASKED

    def some(self, rows: Int64) -> MaskedSequences:
        """Return some of them, (k,) rows ascending, as long as the longest of these."""
        length = int(self.attention_mask[rows].sum(1).max())
        inside = np.isin(self.mentions[:, 0], rows)
        mentions = self.mentions[inside].copy()
        mentions[:, 0] = np.searchsorted(rows, mentions[:, 0])
        ids, mask, labels = (array[rows, :length] for array in (self.input_ids, self.attention_mask, self.labels))
        return MaskedSequences(ids, mask, mentions, self.gold[inside], labels)


def mask_sequences(
    sequences: TokenSets, rows: Int64, gold: Int64, masking: Masking, random: np.random.Generator
) -> MaskedSequences:
    """Put sequences side by side and mask them, mentions whole.

    rows: (b,) which; gold: (f,) the entity of each form, or -1.
    """
    batch = sequences.batch(rows)
    shown, labels = mask_by_token(batch.input_ids, apart(batch.mentions[:, :3]), masking, random)
    return MaskedSequences(shown, batch.attention_mask, batch.mentions[:, :3], gold[batch.mentions[:, 3]], labels)


def apart(spans: Int64) -> Int64:
    """Return spans, (m, 3) rows [sequence, start, end), with those that share a token made one."""
    spans_apart: list[list[int]] = []
    for row, start, end in spans[np.lexsort((spans[:, 1], spans[:, 0]))].tolist():
        if spans_apart and spans_apart[-1][0] == row and start < spans_apart[-1][2]:
            spans_apart[-1][2] = max(spans_apart[-1][2], end)
        else:
            spans_apart.append([row, start, end])
    return np.array(spans_apart, np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class _Part:
    packing: bert.Packing  # where their tokens lie
    mentions: torch.Tensor  # (m, 3) rows [sequence, start, end)
    gold: torch.Tensor  # (m,) the entity of each, or -1
    places: torch.Tensor  # (p,) where the tokens to be guessed lie
    true: torch.Tensor  # (p,) what they are


@dataclass(frozen=True)
class _Ready:
    """This process' share of a batch, as the device takes it."""

    parts: list[_Part]  # of sequences that are encoded at once
    guessed: int  # tokens to be guessed and mentions with gold in the whole batch, 1 at least
    linked: int  # tokens to be guessed and mentions with gold in the whole batch, 1 at least
    mentions: int
    tokens: int


class InjectionSteps(PartSteps[_Ready]):
    """Runs micro-batches of sequences with mentions; see `PartSteps`.

    A batch of more tokens than fit the memory goes in parts; the gradients are those of the whole (but for dropout, of
    which each part has its own draws), for both losses are sums over tokens and mentions, divided by their numbers in
    the whole batch. Nothing is padded.

    They return "loss"; "language", L_MLM; "linking", L_EL; "linked", the share of mentions whose nearest entity is the
    gold one; and "rows", the number of mentions.
    """

    def __init__(
        self,
        injected: InjectedBert,
        head: torch.nn.Module,
        data: LinkedMentions,
        batches: SequenceBatches,
        masking: Masking,
        *,
        linking: Literal["mean", "sum"] = "mean",
        bf16: bool = False,
        **parts: Unpack[Parts],
    ) -> None:
        """Take `head`: (p, hidden) states -> (p, v) scores over the vocabulary."""
        self.injected, self.head, self.data, self.batches, self.masking = injected, head, data, batches, masking
        self.linking, self.bf16, self.device = linking, bf16, injected.device
        super().__init__(lambda: tokens_that_fit(injected, injected.device), **parts)

    def draw(self, number: int) -> MaskedSequences:
        """Return batch `number`."""
        random = np.random.default_rng([self.seed, MASKED, number])
        rows = self._rows(number)
        return mask_sequences(self.data.mentions.sequences, rows, self.data.gold, self.masking, random)

    def names(self, number: int) -> list[str]:
        """Return the names that batch `number` mentions."""
        batch = self.data.mentions.sequences.batch(self._rows(number))
        return [self.data.mentions.strings[form].as_py() for form in dict.fromkeys(batch.mentions[:, 3].tolist())]

    def sizes(self, number: int) -> dict[str, float]:
        """Return how many sequences, mentions and tokens batch `number` has."""
        batch = self.draw(number)
        tokens = int(batch.attention_mask.sum())
        return {"sequences": len(batch.input_ids), "mentions": len(batch.mentions), "tokens": tokens}

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        own: dict[str, torch.Tensor] = {}
        for place, part in enumerate(ready.parts):
            seed_dropout(self.seed, number, self.ranks.rank, place)
            scalars = self._losses(part, ready)
            # The processes' gradients are averaged in the end, and each has only its own part of the sum.
            (scalars["loss"] * share * self.ranks.size).backward()
            for name, value in scalars.items():
                own[name] = own[name] + value.detach() if name in own else value.detach()
        return self._of_all(own) | {"rows": torch.tensor(float(ready.mentions))}

    def _remedy(self, ready: _Ready) -> str:
        return (
            f"out of memory with {ready.tokens:,} tokens encoded at once; go on with --resume --set "
            f"tokens_at_once={max(1, ready.tokens // 2)}: slower, with the same gradients but for dropout's draws"
        )

    def _rows(self, number: int) -> Int64:
        return self.batches.batch(number).terms.astype(np.int64)

    def _losses(self, part: _Part, ready: _Ready) -> dict[str, torch.Tensor]:
        """Return what a part adds to the batch's scalars; equation (6)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            output = self.injected.packed(part.packing, part.mentions)
            scores = self.head(output.last_hidden_state.index_select(0, part.places))
        language = masked_language_model(scores, part.true) * (len(part.true) / ready.guessed)
        linking = entity_linking(output.projected, part.gold, self.injected.injection.entities, total=True)
        if self.linking == "mean":
            linking = linking / ready.linked
        linked = (output.candidates[:, 0] == part.gold).sum() / ready.linked
        return {"loss": language + linking, "language": language, "linking": linking, "linked": linked}

    def _of_all(self, own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the sum of every process' scalars."""
        names = ("loss", "language", "linking", "linked")
        zero = torch.zeros((), device=self.device)
        values = torch.stack([own.get(name, zero).float() for name in names])
        every = self.ranks.gather(values[None], [np.array([rank]) for rank in range(self.ranks.size)])
        return dict(zip(names, every.sum(0), strict=True))

    def _make(self, number: int) -> _Ready:
        batch = self.draw(number)
        lengths = batch.attention_mask.sum(1)
        own = self.ranks.share(lengths)[self.ranks.rank]
        parts = [self._part(batch.some(np.sort(rows))) for rows in bert.within(own, lengths, self.tokens_at_once)]
        return _Ready(
            parts,
            max(1, int((batch.labels != NOT_MASKED).sum())),
            max(1, int((batch.gold >= 0).sum())),
            len(batch.mentions),
            max((part.packing.tokens for part in parts), default=0),
        )

    def _part(self, batch: MaskedSequences) -> _Part:
        packing = _packing(batch, self.device)
        labels = packing.lay_out(batch.labels[batch.attention_mask > 0])[: packing.tokens]
        places = (labels != NOT_MASKED).nonzero()[:, 0]
        mentions, gold = (torch.from_numpy(array).to(self.device) for array in (batch.mentions, batch.gold))
        return _Part(packing, mentions, gold, places, labels[places])


def _packing(batch: MaskedSequences | MentionBatch, device: torch.device) -> bert.Packing:
    real = batch.attention_mask > 0
    return bert.Packing(batch.input_ids[real], real.sum(1), device)


def linking_accuracy(
    injected: InjectedBert, data: LinkedMentions, rows: Int64, *, batch: int, bf16: bool = False
) -> dict[str, float]:
    """Return the share of the linked mentions of some sequences, unmasked, whose nearest entity is the gold one."""
    injected.eval()
    right = total = 0
    with torch.no_grad(), torch.autocast(injected.device.type, torch.bfloat16, enabled=bf16):
        for start in range(0, len(rows), batch):
            block = data.mentions.sequences.batch(rows[start : start + batch])
            spans = torch.from_numpy(block.mentions[:, :3].copy()).to(injected.device)
            nearest = injected.packed(_packing(block, injected.device), spans).candidates[:, 0].cpu().numpy()
            gold = data.gold[block.mentions[:, 3]]
            right, total = right + int((nearest == gold).sum()), total + int((gold >= 0).sum())
    return {"dev_linking_acc1": right / max(1, total)}


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


def inject_entities(
    recipe: str,
    phase: Phase,
    config: Any,  # noqa: ANN401 - see below
    batch: int,
    length: Length,
    terminology: Terminology,
    encoder: str | Path,
    *,
    split: Split | None = None,
) -> dict[str, float]:
    """Train, save the model and return the last figures; in a dry run only measure and return nothing.

    `config`: a `TermTraining` with the settings mentions, graph, layer (0: after two thirds of the encoder's), nearest,
    share, linking and dev_sequences of the recipe kge_injection.
    """
    # The encoder, still plain, and the data.
    run = Run(recipe, phase, config, encoder, label=recipe)
    data = _read(run, terminology, split)
    if run.done is not None:
        return run.done
    n = len(data.mentions.sequences)
    rows, dev = hold_out(n, config.dev_sequences, [config.seed, 32], file=data.mentions.path)

    # The model: the head that guesses tokens, and entities between two layers.
    head = MaskedLanguageHead.of(run.encoder, seed=config.seed)
    tokenizer, _, specials = open_tokenizer(encoder)
    trained: Any = run.encoder.module.model
    layers = int(trained.config.num_hidden_layers)
    layer = config.layer or max(1, round(2 * layers / 3))
    injected = inject(run.encoder, np.asarray(data.entities), layer=layer, nearest=config.nearest)
    run.say(f"entities are added after layer {layer} of {layers}")

    # Objective, loop, and the model.
    batches = SequenceBatches(rows, batch=batch, seed=config.seed)
    steps = InjectionSteps(
        injected,
        head,
        data,
        batches,
        masking_of(tokenizer, specials, share=config.share),
        linking=config.linking,
        bf16=run.forward.bf16,
        **run.parts,
    )
    epoch = f"an epoch is {batches.batches / config.accumulation:,.1f} steps"
    if not phase.dry_run:
        run.say(f"{epoch}; training takes {length.steps:,}")

    # The frozen entities are in no part that is trained, and so in no checkpoint.
    step = injected.injection
    between = torch.nn.ModuleDict({"down": step.down, "up": step.up, "norm": step.norm})

    def dev_score(_: TermEncoder) -> dict[str, float]:
        return linking_accuracy(injected, data, dev, batch=batch, bf16=run.forward.bf16)

    return run.fit(
        steps,
        epoch,
        length=length,
        # Of the starting weights only the encoder's are mixed in: the injection has none from before.
        parts={"encoder": injected.model, "injection": between},
        modules={NAME: head},
        evaluate=dev_score if len(dev) else None,
        final=dev_score if len(dev) else None,
        fields={"layer": layer, "counts": data.counts},
    )


def _read(run: Run, terminology: Terminology, split: Split | None) -> LinkedMentions:
    """Return the data for the run's encoder, say what there is, and begin the run."""
    model = run.encoder.module.model
    config: Any = run.config
    if isinstance(model, InjectedBert):
        raise InputError(
            "the encoder has entities injected already", file=run.encoder.folder, remedy="give a plain one"
        )
    check_layer(model, config.layer or 1)
    data = read_linked(config.mentions, config.graph, terminology, run.encoder.tokenizer_hash, split=split)
    _check_lengths(data, run.encoder)
    if split is not None:
        run.say(f"held out by the split: {len(split.cleaned):,} strings")
    for line in data.lines():
        run.say(line)
    run.begin(terminology=terminology.content_hash, split=split.hash if split else None, **data.made_of)
    return data


def _check_lengths(data: LinkedMentions, encoder: TermEncoder) -> None:
    """Refuse sequences that are longer than the encoder has positions."""
    model: Any = encoder.module.model
    positions = int(model.config.max_position_embeddings) - bert.first_position(model)
    special = len(encoder.tokenize([""])[0])
    longest = int(np.diff(data.mentions.sequences.offsets).max()) + special
    if longest > positions:
        raise InputError(
            f"its longest sequence has {longest} tokens, and the encoder has {positions} positions",
            file=data.mentions.path,
            remedy=f"make it again with --sequence-tokens {positions - special}",
        )
