"""ELECTRA's pre-training steps against a plain loop over transformers' own modules: same weights, same batches.

    python bench/electra_speed.py [--size small] [--precision auto] [--rounds 7] [--output report.json]

The rival is the loop that one writes with `ElectraForMaskedLM` as the generator and `ElectraForPreTraining` as the
discriminator, their embeddings one module: padded rows, the generator's output layer on every token, torch.multinomial.
Both start from the same weights, compute in the same precision with the same dropout, mask the same tokens, and end a
step with the same clipping and the same fused AdamW. The rival's batches are masked beforehand; ours are made in the
background, within the time that is measured. Rounds are interleaved, and the ratio is the median of the rounds'.

Tokens and spans are drawn at random: speed does not depend on the text. By default every row is full, which spares the
rival the padding; `--fill 0.75` draws lengths from three quarters up to all of a row.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphita import machine
from alphita.encoder.electra import Generator, ReplacedHead, scratch
from alphita.encoder.encoder import TermEncoder
from alphita.evaluation import report
from alphita.training.engine.forward import TermForward
from alphita.training.engine.tokens import TokenTable
from alphita.training.text.entity_masking import NOT_MASKED, Masking, mask_by_span
from alphita.training.text.masked_steps import SequenceBatches
from alphita.training.text.replaced_token_steps import MASKED, ReplacedTokenSteps
from alphita.training.text.span_sequences import Sequences

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "hidden": 36, "heads": 3, "intermediate": 72, "vocabulary": 200, "length": 24, "batch": 8},
    "small": {
        "layers": 12, "hidden": 256, "heads": 4, "intermediate": 1024, "vocabulary": 30_522, "length": 128, "batch": 32,
    },
    "base": {
        "layers": 12, "hidden": 768, "heads": 12, "intermediate": 3072, "vocabulary": 30_522, "length": 128,
        "batch": 16,
    },
}  # fmt: skip
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SEED = 0
LONGEST_SPAN = 3
# Rows and columns of the matrices that tell what the machine can do.
MATRIX = {"cpu": 2048, "cuda": 8192}
Draw = Callable[[torch.Tensor], torch.Tensor]


def random_sequences(n: int, size: dict[str, int], fill: float) -> Sequences:
    """Return n rows of random tokens, with spans of 1 to LONGEST_SPAN tokens from end to end."""
    random = np.random.default_rng(SEED)
    lengths = random.integers(max(3, round(fill * size["length"])), size["length"] + 1, n)
    rows, spans = [], []
    for length in lengths.tolist():
        rows.append(np.concatenate([[2], random.integers(len(SPECIAL), size["vocabulary"], length - 2), [3]]))
        cuts = np.concatenate([[1], 1 + np.cumsum(random.integers(1, LONGEST_SPAN + 1, length))])
        cuts = np.append(cuts[cuts < length - 1], length - 1)
        spans.append(np.stack([cuts[:-1], cuts[1:]], 1))
    offsets, starts = (np.cumsum([0, *map(len, lists)]).astype(np.int64) for lists in (rows, spans))
    tokens = TokenTable(np.concatenate(rows).astype(np.int32), offsets)
    return Sequences(tokens, starts, np.concatenate(spans).astype(np.int32), {})


def our_steps(
    size: dict[str, int], sequences: Sequences, *, precision: str, device: str, dropout: float
) -> ReplacedTokenSteps:
    """Return our steps of a new model."""
    from tokenizers import Tokenizer, models

    with tempfile.TemporaryDirectory() as folder:
        words = [*SPECIAL, *(f"t{number}" for number in range(len(SPECIAL), size["vocabulary"]))]
        tokenizer = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
        tokenizer.save(f"{folder}/tokenizer.json")
        scratch(
            Path(folder) / "model", Path(folder) / "tokenizer.json", layers=size["layers"], hidden=size["hidden"],
            heads=size["heads"], intermediate=size["intermediate"], positions=size["length"], seed=SEED,
        )  # fmt: skip
        encoder = TermEncoder.load(
            f"{folder}/model", precision="fp32", pooling="cls", max_length=size["length"], device=device
        )
        forward = TermForward(encoder, precision=precision, dropout=dropout)
        generator, head = Generator.of(encoder.module.model, seed=SEED), ReplacedHead.of(encoder, seed=SEED)
    for module in (forward.module, generator, head):
        module.train()
    masking = Masking(4, tuple(range(len(SPECIAL))), size["vocabulary"], masked=1.0, random=0.0)
    batches = SequenceBatches(np.arange(len(sequences)), batch=size["batch"], seed=SEED)
    return ReplacedTokenSteps(forward, generator, head, sequences, batches, masking, seed=SEED)


@dataclass(frozen=True)
class Padded:
    """A batch as the rival takes it, all (rows, length): tokens shown and true, labels, 1 where no padding is."""

    shown: torch.Tensor
    true: torch.Tensor
    labels: torch.Tensor
    attention: torch.Tensor


def padded_batch(steps: ReplacedTokenSteps, number: int) -> Padded:
    """Return batch `number`, masked as our steps mask it."""
    rows = np.asarray(steps.batches.batch(number).terms, np.int64)
    ids, lengths = steps.sequences.tokens.rows(rows)
    real = np.arange(lengths.max()) < lengths[:, None]
    true = np.zeros(real.shape, np.int64)
    true[real] = ids
    random = np.random.default_rng([steps.seed, MASKED, number])
    shown, labels = mask_by_span(true, steps.sequences.spans_of(rows), steps.masking, random)
    return Padded(*(steps.forward.tensor(array) for array in (shown, true, labels, real.astype(np.int64))))


class Plain:
    """The rival: transformers' generator and discriminator with the weights of our steps, and one set of embeddings."""

    def __init__(self, steps: ReplacedTokenSteps) -> None:
        """Copy the weights."""
        from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

        model: Any = steps.forward.module.model
        layer = model.encoder.layer[0]
        common = {
            "vocab_size": model.config.vocab_size, "embedding_size": model.config.hidden_size,
            "max_position_embeddings": model.config.max_position_embeddings, "hidden_act": model.config.hidden_act,
            "layer_norm_eps": model.config.layer_norm_eps, "hidden_dropout_prob": layer.output.dropout.p,
            "attention_probs_dropout_prob": layer.attention.self.dropout.p, "pad_token_id": model.config.pad_token_id,
        }  # fmt: skip
        own = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        small, large = (
            ElectraConfig(**common, **{name: getattr(part.config, name) for name in own})
            for part in (steps.generator, model)
        )
        self.weight, self.bf16, self.device = steps.weight, steps.forward.bf16, steps.forward.device
        self.discriminator = ElectraForPreTraining(large)
        self.generator = ElectraForMaskedLM(small)
        encoder = {f"electra.{name}": value for name, value in model.state_dict().items()}
        head = steps.head.state_dict()
        found = {f"discriminator_predictions.{_published(name)}": value for name, value in head.items()}
        _load(self.discriminator, encoder | found)
        names = {
            "layers": "electra.encoder.layer", "project": "electra.embeddings_project",
            "dense": "generator_predictions.dense", "norm": "generator_predictions.LayerNorm",
            "bias": "generator_lm_head.bias",
        }  # fmt: skip
        guessing = {}
        for name, value in steps.generator.state_dict().items():
            first, dot, rest = name.partition(".")
            guessing[names[first] + dot + rest] = value
        embeddings = {name: value for name, value in encoder.items() if name.startswith("electra.embeddings.")}
        guessing["generator_lm_head.weight"] = embeddings["electra.embeddings.word_embeddings.weight"]
        _load(self.generator, guessing | embeddings)
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.generator_lm_head.weight = self.discriminator.electra.embeddings.word_embeddings.weight
        for module in (self.generator, self.discriminator):
            module.to(self.device).train()

    def parameters(self) -> list[torch.nn.Parameter]:
        """Return all parameters, the shared ones once."""
        both = [*self.generator.parameters(), *self.discriminator.parameters()]
        return list({id(parameter): parameter for parameter in both}.values())

    def loss(self, batch: Padded, draw: Draw | None = None) -> torch.Tensor:
        """Return the loss of a batch; `draw` replaces torch.multinomial."""
        context: Any = torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        with context:
            guessed = self.generator(input_ids=batch.shown, attention_mask=batch.attention, labels=batch.labels)
            masked = batch.labels != NOT_MASKED
            with torch.no_grad():
                drawn = (draw or _multinomial)(guessed.logits[masked].float())
            ids = batch.shown.masked_scatter(masked, drawn)
            replaced = (ids != batch.true).long()
            found = self.discriminator(input_ids=ids, attention_mask=batch.attention, labels=replaced)
            loss: torch.Tensor = guessed.loss + self.weight * found.loss
        return loss


def _multinomial(logits: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(torch.softmax(logits, 1), 1).squeeze(1)


def _published(name: str) -> str:
    return "dense_prediction." + name.removeprefix("out.") if name.startswith("out.") else name


def _load(module: Any, state: dict[str, torch.Tensor]) -> None:  # noqa: ANN401 - a transformers model
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert not missing and not unexpected, (missing, unexpected)  # noqa: PT018


def timed(run: Callable[[], object], optimizer: torch.optim.Optimizer, device: torch.device) -> float:
    """Return the seconds of a step: `run` adds the gradients."""
    _wait(device)
    start = time.perf_counter()
    run()
    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_rate(device: torch.device, *, bf16: bool) -> float:
    """Return the floating-point operations a second of large matrix products, the best of some."""
    n = MATRIX.get(device.type, MATRIX["cpu"])
    left, right = (torch.randn(n, n, device=device, dtype=torch.bfloat16 if bf16 else torch.float32) for _ in range(2))
    best = 0.0
    for _ in range(8):
        _wait(device)
        start = time.perf_counter()
        left @ right
        _wait(device)
        best = max(best, 2 * n**3 / (time.perf_counter() - start))
    return best


def operations(steps: ReplacedTokenSteps) -> float:
    """Return the floating-point operations a token of our steps' matrix products, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    steps.start(0, 1)
    with FlopCounterMode(display=False) as counter:
        steps(0, 1.0)
    steps.stop()
    for module in (steps.forward.module, steps.generator, steps.head):
        module.zero_grad(set_to_none=True)
    return float(counter.get_total_flops()) / steps.sizes(0)["tokens"]


def measure(
    size: dict[str, int], *, rounds: int, fill: float, precision: str, device: str, dropout: float
) -> dict[str, Any]:
    """Return the figures: tokens a second of both, and the ratio of each round."""
    sequences = random_sequences((rounds + 1) * size["batch"], size, fill)
    ours = our_steps(size, sequences, precision=precision, device=device, dropout=dropout)
    plain = Plain(ours)
    where = ours.forward.device
    mine = [p for part in (ours.forward.module, ours.generator, ours.head) for p in part.parameters()]
    a_token = operations(ours)
    rate = matrix_rate(where, bf16=ours.forward.bf16)
    optimizers = [torch.optim.AdamW(parameters, lr=2e-4, fused=True) for parameters in (mine, plain.parameters())]
    seconds: dict[str, list[float]] = {"transformers": [], "alphita": []}
    tokens = []
    ours.start(0, rounds + 1)
    for number in range(rounds + 1):
        batch = padded_batch(ours, number)
        theirs = timed(lambda: plain.loss(batch).backward(), optimizers[1], where)  # noqa: B023 - run at once
        own = timed(lambda: ours(number, 1.0), optimizers[0], where)  # noqa: B023
        if number:  # the first round warms up
            seconds["transformers"].append(theirs)
            seconds["alphita"].append(own)
            tokens.append(ours.sizes(number)["tokens"])
            print(f"round {number} of {rounds}: {theirs:.3f} s, {own:.3f} s", flush=True)
    ours.stop()
    speed = {name: float(np.median(np.array(tokens) / taken)) for name, taken in seconds.items()}
    ratios = (np.array(seconds["transformers"]) / seconds["alphita"]).tolist()
    return {
        "seconds": seconds, "tokens_per_second": speed, "ratios": ratios, "ratio": float(np.median(ratios)),
        "tokens_a_step": float(np.mean(tokens)), "precision": "bf16" if ours.forward.bf16 else "fp32",
        "device": str(where), "parameters": sum(p.numel() for p in mine),
        "operations_a_token": a_token, "matrix_rate": rate, "share_of_matrix_rate": speed["alphita"] * a_token / rate,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--batch", type=int, help="sequences a step, in place of the size's own")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--fill", type=float, default=1.0, help="the shortest row's share of the length")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    machine.set_threads(None)
    size = SIZES[arguments.size] | ({"batch": arguments.batch} if arguments.batch else {})
    print(json.dumps(machine.describe()))
    torch.manual_seed(SEED)
    figures = measure(
        size, rounds=arguments.rounds, fill=arguments.fill, precision=arguments.precision, device=arguments.device,
        dropout=arguments.dropout,
    )  # fmt: skip
    print(
        f"\n{arguments.size}: {figures['parameters']:,} parameters, {figures['tokens_a_step']:,.0f} tokens a step, "
        f"{figures['precision']} on {figures['device']}, {arguments.rounds} rounds"
    )
    print("| loop | tokens/s | ratio |\n|---|---:|---:|")
    for name, ratio in (("transformers", 1.0), ("alphita", figures["ratio"])):
        print(f"| {name} | {figures['tokens_per_second'][name]:,.0f} | {ratio:.2f} |")
    print(
        f"alphita's matrix products: {figures['share_of_matrix_rate']:.0%} of the measured rate, "
        f"{figures['matrix_rate'] / 1e12:.2f} TFLOP/s"
    )
    if arguments.output:
        config = {name: value for name, value in vars(arguments).items() if name != "output"} | size
        origin = report.provenance(config=config, seed=SEED, data={"tokens": "random"})
        report.write(arguments.output, figures, provenance=origin)


if __name__ == "__main__":
    main()
