"""Fine-tuning an encoder on a small labelled task: a linear layer over token states, several runs, each from the start.

As ELECTRA is fine-tuned (Clark et al. 2020, appendix B), which Liu et al. 2022 follow (section 4.2.1): Adam with
epsilon 1e-6, 10% warm-up and linear decay, a learning rate that falls by a factor with each layer below the head,
gradients clipped at 1, dropout 0.1 under the head; sentences by the state of [CLS]. No epoch is chosen on a development
part: neither paper nor released code says so. Weight decay is the released code's 0.01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine, progress
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, UsageError, require
from alphita_lab.evaluation.systems.encoder import EncoderSystem

if TYPE_CHECKING:
    from torch import Tensor

WARMUP = 0.1
DROPOUT = 0.1
WEIGHT_DECAY = 0.01
EPSILON = 1e-6
CLIP = 1.0
# Deviation of the head's first weights.
HEAD_SCALE = 0.02
# Examples a batch when nothing is learnt.
SCORED_AT_ONCE = 64


@dataclass(frozen=True)
class FineTuningSettings:
    """How to train: `runs` times, with seeds seed, seed + 1, ...; `layer_decay`: from one layer to the one below."""

    runs: int
    epochs: int
    learning_rate: float
    batch_size: int
    max_length: int
    layer_decay: float
    seed: int


@dataclass(frozen=True)
class Encoded:
    """One example: token ids, types (0 and 1 for two sentences), and the tokens over whose states the head is."""

    ids: list[int]
    types: list[int]
    places: list[int]


class Encoding:
    """Turns texts into tokens for one encoder."""

    def __init__(self, encoder: TermEncoder) -> None:
        ends = encoder.tokenize([""])[0]
        if len(ends) != 2:
            raise UsageError(
                "fine-tuning needs a tokenizer that puts one token before a text and one behind, as BERT's"
            )
        (self.before, self.behind), self.length = ends, encoder.max_length
        self._encoder = encoder

    def _inner(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[1:-1] for ids in self._encoder.tokenize(texts)]

    def sentences(self, texts: Sequence[str]) -> list[Encoded]:
        """Return [CLS] text [SEP] for each text, cut at the end."""
        return [Encoded([self.before, *ids, self.behind], [0] * (len(ids) + 2), [0]) for ids in self._inner(texts)]

    def pairs(self, left: Sequence[str], right: Sequence[str]) -> list[Encoded]:
        """Return [CLS] left [SEP] right [SEP] for each pair; where it is too long, the longer text is cut."""
        encoded = []
        for first, second in zip(self._inner(left), self._inner(right), strict=True):
            room = self.length - 3
            # The shorter text keeps all of itself up to half of the room.
            kept = max(room - len(second), min(len(first), room - room // 2))
            first = first[:kept]
            second = second[: room - len(first)]
            ids = [self.before, *first, self.behind, *second, self.behind]
            encoded.append(Encoded(ids, [0] * (len(first) + 2) + [1] * (len(second) + 1), [0]))
        return encoded

    def words(self, words: Sequence[str]) -> list[tuple[slice, Encoded]]:
        """Return a sequence of words as windows that fit, each with the slice of the words in it."""
        tokens = self._inner(words)
        room = self.length - 2
        windows: list[tuple[slice, Encoded]] = []
        start = 0
        while start < len(words):
            ids, places, end = [self.before], [], start
            while end < len(words) and len(ids) - 1 + len(tokens[end]) <= room:
                places.append(len(ids) if tokens[end] else len(ids) - 1)
                ids += tokens[end]
                end += 1
            if end == start:  # a word that fills a window by itself
                ids, places, end = [self.before, *tokens[start][:room]], [1], start + 1
            elif end < len(words):
                full = end
                end = next(
                    (at + 1 for at in range(full - 1, start + (full - start) // 2, -1) if ends_here(words, at)), full
                )
                places = places[: end - start]
                ids = ids[: 1 + sum(map(len, tokens[start:end]))]
            ids = [*ids, self.behind]
            windows.append((slice(start, end), Encoded(ids, [0] * len(ids), places)))
            start = end
        return windows


def ends_here(words: Sequence[str], at: int) -> bool:
    """Tell whether a sentence ends with the word at a place."""
    if words[at] != ".":
        return words[at] in ("。", "！", "？", "；", "!", "?", ";")
    before, behind = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    initial = len(before) == 1 and before.lower() != before.upper()
    return not initial and not behind[:1].isdigit()


def encoder_of(system: object, max_length: int) -> TermEncoder:
    """Return a system's encoder anew from its folder, in full precision, to be trained; its own stays as it is."""
    if not isinstance(system, EncoderSystem):
        raise UsageError(f"fine-tuning needs an encoder; {getattr(system, 'name', system)} is none")
    # The pooling is not used: heads stand on token states.
    return TermEncoder.load(system.encoder.folder, precision="fp32", pooling="cls", max_length=max_length)


def fine_tune(
    system: object,
    settings: FineTuningSettings,
    train: Sequence[Encoded],
    targets: Sequence[NDArray[Any]],
    test: Sequence[Encoded],
    outputs: int,
) -> list[list[NDArray[np.float32]]]:
    """Train on labelled examples, several times, and return what each run says of the test examples."""
    runs = []
    # ceil(n / batch) steps an epoch
    total = settings.runs * settings.epochs * -(-len(train) // settings.batch_size)
    with progress.bar("Fine-tuning", total, "steps") as bar:
        for run in range(settings.runs):
            trained = _Run(encoder_of(system, settings.max_length), settings, settings.seed + run, outputs)
            trained.fit(train, targets, bar)
            runs.append(trained.predict(test))
    return runs


class _Run:
    def __init__(self, encoder: TermEncoder, settings: FineTuningSettings, seed: int, outputs: int) -> None:
        torch = require("torch", "train")
        from alphita_lab.encoder import injected_bert

        torch.manual_seed(seed)
        self.settings, self.seed, self.encoder = settings, seed, encoder
        self.model: Any = encoder.module.model
        self.device = next(self.model.parameters()).device
        self.bf16 = self.device.type == "cuda" or machine.fast_bf16()
        machine.keep_freed_memory()
        self.packs = injected_bert.packs(self.model)
        self.typed = getattr(self.model.config, "type_vocab_size", 0) > 1
        self.head = torch.nn.Linear(encoder.dim, outputs)
        torch.nn.init.normal_(self.head.weight, std=HEAD_SCALE)
        torch.nn.init.zeros_(self.head.bias)
        self.head.to(self.device)
        self.dropout = torch.nn.Dropout(DROPOUT)

    def __call__(self, examples: Sequence[Encoded]) -> Tensor:
        """Return the head's output at every place of every example, one after the other, (places, outputs)."""
        torch = require("torch", "train")
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            states, first = self._packed(examples) if self.packs else self._padded(examples)
        places = np.array([start + place for start, one in zip(first, examples, strict=True) for place in one.places])
        chosen = states.index_select(0, torch.from_numpy(places).to(self.device))
        output: Tensor = self.head(self.dropout(chosen.float()))
        return output

    def _packed(self, examples: Sequence[Encoded]) -> tuple[Tensor, list[int]]:
        """Return the states of all tokens, one a row, and where each example's first token is; nothing is padded."""
        from alphita_lab.encoder import bert, injected_bert

        ids = np.array([token for example in examples for token in example.ids])
        types = np.array([number for example in examples for number in example.types])
        packing = bert.Packing(ids, np.array([len(example.ids) for example in examples]), self.device)
        types_laid = packing.lay_out(types) if self.typed else None
        states = injected_bert.packed_states(self.model, packing, types=types_laid)
        return states, packing.first.tolist()

    def _padded(self, examples: Sequence[Encoded]) -> tuple[Tensor, list[int]]:
        """Return the same of a model that has its own forward only."""
        torch = require("torch", "train")
        ids, mask = self.encoder.pad([example.ids for example in examples])
        typed: dict[str, Tensor] = {}
        if self.typed:
            types = np.zeros(tuple(ids.shape), np.int64)
            for row, one in enumerate(examples):
                types[row, : len(one.types)] = one.types
            typed["token_type_ids"] = torch.from_numpy(types).to(self.device)
        states = self.model(input_ids=ids, attention_mask=mask, **typed).last_hidden_state
        return states.flatten(0, 1), list(range(0, ids.numel(), int(ids.shape[1])))

    def fit(self, train: Sequence[Encoded], targets: Sequence[NDArray[Any]], bar: progress.Bar) -> None:
        """Train encoder and head by AdamW with warm-up and linear decay; `targets` are of each example's places."""
        torch = require("torch", "train")
        functional, settings = torch.nn.functional, self.settings
        optimizer = torch.optim.AdamW(self._groups(), eps=EPSILON)
        rates = [group["lr"] for group in optimizer.param_groups]
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        total = settings.epochs * -(-len(train) // settings.batch_size)
        warmup = int(WARMUP * total)
        self.model.train()
        self.dropout.train()
        for step, rows in enumerate(_batches(len(train), settings, self.seed)):
            factor = min((step + 1) / max(1, warmup), (total - step) / max(1, total - warmup))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            wanted = torch.from_numpy(np.concatenate([targets[row] for row in rows])).to(self.device)
            output = self([train[row] for row in rows])
            if wanted.dtype == torch.int64:
                loss = functional.cross_entropy(output, wanted)
            else:
                loss = functional.mse_loss(output[:, 0], wanted)
            if not torch.isfinite(loss):
                raise AlphitaError(f"the loss is no longer finite in step {step + 1}; try a lower learning_rate")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            bar.advance(1)

    def predict(self, test: Sequence[Encoded]) -> list[NDArray[np.float32]]:
        """Return the head's output for each example, (places, outputs) float32, in the order given."""
        torch = require("torch", "train")
        self.model.eval()
        self.dropout.eval()
        found: list[NDArray[np.float32]] = [np.empty((0, 0), np.float32)] * len(test)
        # Like lengths together, for less padding.
        order = sorted(range(len(test)), key=lambda row: len(test[row].ids))
        with torch.inference_mode():
            for start in range(0, len(order), SCORED_AT_ONCE):
                rows = order[start : start + SCORED_AT_ONCE]
                output = self([test[row] for row in rows]).cpu().numpy()
                ends = np.cumsum([len(test[row].places) for row in rows])
                for row, part in zip(rows, np.split(output, ends[:-1]), strict=True):
                    found[row] = part
        return found

    def _groups(self) -> list[dict[str, Any]]:
        """Return the parameters by learning rate and weight decay; biases and norms do not decay."""
        layers = int(self.model.config.num_hidden_layers)
        groups: dict[tuple[int, bool], list[Any]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                groups.setdefault((depth(name, layers), parameter.ndim > 1), []).append(parameter)
        for parameter in self.head.parameters():
            groups.setdefault((layers + 2, parameter.ndim > 1), []).append(parameter)
        settings = self.settings
        return [
            {
                "params": parameters,
                "weight_decay": WEIGHT_DECAY if decays else 0.0,
                "lr": settings.learning_rate * settings.layer_decay ** (layers + 2 - height),
            }
            for (height, decays), parameters in groups.items()
        ]


def depth(name: str, layers: int) -> int:
    """Return how high a parameter stands: embeddings 0, the first layer 1, ..., what is above all layers `layers` +
    1."""
    layer = re.search(r"(?:^|\.)layers?\.(\d+)\.", name)
    if layer is not None:
        return int(layer.group(1)) + 1
    return 0 if "embed" in name else layers + 1


def _batches(n: int, settings: FineTuningSettings, seed: int) -> Iterator[NDArray[np.int64]]:
    order = np.random.default_rng(seed)
    for _ in range(settings.epochs):
        shuffled = order.permutation(n)
        for start in range(0, n, settings.batch_size):
            yield shuffled[start : start + settings.batch_size]


# Measures over several runs. Columns: what is gold, then each run's; the number is the mean over runs of the measure.


def mean_f1(values: NDArray[np.float64]) -> float:
    """Return the mean over runs of F1 = 2 right / (gold + predicted), from counts; a run's is 0 if there is nothing.

    Args:
        values: (n, 1 + 2 runs): gold, then right and predicted for each run.
    """
    return float(np.mean(runs_f1(values)))


def mean_precision(values: NDArray[np.float64]) -> float:
    """Return the mean over runs of right / predicted; see `mean_f1`."""
    sums = values.sum(axis=0)
    return float(np.mean(sums[1::2] / np.maximum(sums[2::2], 1)))


def mean_recall(values: NDArray[np.float64]) -> float:
    """Return the mean over runs of right / gold; see `mean_f1`."""
    sums = values.sum(axis=0)
    return float(np.mean(sums[1::2] / max(sums[0], 1)))


def runs_f1(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each run's F1, (runs,); see `mean_f1`."""
    sums = values.sum(axis=0)
    f1: NDArray[np.float64] = 2 * sums[1::2] / np.maximum(sums[0] + sums[2::2], 1)
    return f1


def count_columns(runs: int) -> tuple[str, ...]:
    """Return the names of the columns for `mean_f1`: gold_count, right_run1, predicted_run1, right_run2, ..."""
    return ("gold_count", *(f"{what}_run{run}" for run in range(1, runs + 1) for what in ("right", "predicted")))
