"""A training step against the published scripts' loop and the sentence-transformers trainer: same model, same rows.

    python bench/train_step.py [--rounds 7] [-o report.json]

The rival is the loop that the released CODER and SapBERT scripts use: every row padded to 32 tokens, fp32, a row that
stands several times encoded again each time, pytorch-metric-learning's miner and loss, AdamW as torch gives it. Each
rung of the ladder changes one thing. Rungs run interleaved, round by round, and the medians are compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import harness
from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.terminology import store
from alphita.terminology.text import clean_many
from alphita_lab.objectives.multi_similarity import multi_similarity, term_term, unit
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.terms.samplers import TripleSampler, usable_triples

LENGTH = 32
K = 128
ALPHA, BETA, LAM, EPS = 2.0, 50.0, 0.5, 0.1
Step = Callable[[list[str], torch.Tensor], float]


def batches(terminology: store.Terminology, kind: str, count: int) -> list[tuple[list[str], torch.Tensor]]:
    """Return `count` batches of 256 names with their concepts: "distinct" rows, or "paper": k = 128, m = 8."""
    rows, offsets = terminology.training_terms()
    names = clean_many(terminology.terms["string"].take(rows).to_pylist())
    concepts = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    made = []
    if kind == "paper":
        triples = usable_triples(terminology.triples, offsets, len(terminology.relation_labels), inverse=True)
        sampler = TripleSampler(triples, offsets, k=K, m=8, seed=0)
        for number in range(count):
            batch = sampler.batch(number)
            terms = np.concatenate([batch.head_term, batch.tail_term])
            made.append(([names[term] for term in terms], torch.from_numpy(concepts[terms])))
        return made
    rng = np.random.default_rng(0)
    several = np.flatnonzero(np.diff(offsets) > 1)
    for _ in range(count):
        chosen = rng.choice(several, K, replace=False)
        terms = np.concatenate([offsets[chosen], offsets[chosen] + 1])
        made.append(([names[term] for term in terms], torch.from_numpy(concepts[terms])))
    return made


def metric_learning_loss(e: torch.Tensor, concept: torch.Tensor) -> torch.Tensor:
    """Return the MS loss by pytorch-metric-learning, with its miner, as the released scripts do."""
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    pairs = MultiSimilarityMiner(epsilon=EPS)(e, concept)
    loss: torch.Tensor = MultiSimilarityLoss(alpha=ALPHA, beta=BETA, base=LAM)(e, concept, pairs)
    return loss


def rung(*, padded: bool, repeats: bool, precision: str, own_loss: bool, fused: bool) -> Step:
    """Return a training step of its own copy of MiniLM."""
    encoder = TermEncoder.load("minilm", precision="fp32", max_length=LENGTH)
    forward = TermForward(encoder, precision=precision)
    forward.module.train()
    optimizer = torch.optim.AdamW(forward.module.parameters(), lr=2e-5, fused=fused or None)

    def embed(strings: list[str]) -> torch.Tensor:
        tokens = encoder.tokenize(strings)
        if not padded:
            return forward(tokens)
        ids = torch.zeros(len(tokens), LENGTH, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(tokens):
            ids[row, : len(one)] = torch.tensor(one)
            mask[row, : len(one)] = 1
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            vectors: torch.Tensor = forward.module(ids, mask)
        return vectors.float()

    def step(strings: list[str], concept: torch.Tensor) -> float:
        start = time.perf_counter()
        if repeats:
            e = embed(strings)
        else:
            distinct, place = np.unique(np.array(strings, dtype=object), return_inverse=True)
            e = embed(distinct.tolist())[torch.from_numpy(place)]
        if own_loss:
            loss = term_term(e, concept, alpha=ALPHA, beta=BETA, lam=LAM, eps=EPS)
        else:
            loss = metric_learning_loss(e, concept)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(forward.module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    return step


PUBLISHED: dict[str, Any] = {"padded": True, "repeats": True, "precision": "fp32", "own_loss": False, "fused": False}
UNPADDED = PUBLISHED | {"padded": False}
LADDER = {
    "published loop": PUBLISHED,
    "+ no padding": UNPADDED,
    "+ repeats once": UNPADDED | {"repeats": False},
    "+ bf16": UNPADDED | {"repeats": False, "precision": "auto"},
    "+ own loss, fused AdamW": UNPADDED | {"repeats": False, "precision": "auto", "own_loss": True, "fused": True},
    "+ own masks (the default)": UNPADDED | {"precision": "auto", "own_loss": True, "fused": True},
}


def anchors_with_gradient(drawn: Iterable[tuple[list[str], torch.Tensor]]) -> dict[str, float]:
    """Return the share of anchors that give the encoder a gradient, with "shared" and with "own" dropout masks.

    A copy with the same mask is the same vector: no gradient comes from the pair.
    """
    encoder = TermEncoder.load("minilm", precision="fp32", max_length=LENGTH)
    forward = TermForward(encoder, precision="fp32")
    forward.module.train()
    shares: dict[str, list[float]] = {"shared": [], "own": []}
    torch.manual_seed(0)
    for strings, concept in drawn:
        for masks, kept in shares.items():
            rows, once = np.array(strings, dtype=object), masks == "shared"
            terms, place = np.unique(rows, return_inverse=True) if once else (rows, np.arange(len(rows)))
            with torch.no_grad():
                e = unit(forward(encoder.tokenize(terms.tolist()))[torch.from_numpy(place)])
            similarity = (e @ e.T).requires_grad_()
            positive = (concept[:, None] == concept[None, :]).fill_diagonal_(False)
            negative = concept[:, None] != concept[None, :]
            multi_similarity(similarity, positive, negative, alpha=ALPHA, beta=BETA, lam=LAM, eps=EPS).backward()
            assert similarity.grad is not None
            kept.append(float(((similarity.grad != 0) & (similarity < 1 - 1e-5)).any(1).float().mean()))
    return {masks: float(np.mean(kept)) for masks, kept in shares.items()}


def drawing(step: Step, drawn: Iterable[tuple[list[str], torch.Tensor]]) -> Callable[[], float]:
    """Return what takes a step on the next batch."""
    batches = iter(drawn)
    return lambda: step(*next(batches))


def sentence_transformers_step() -> Step | None:
    """Return a step of the sentence-transformers trainer in bf16, with the published loss; None if it is missing."""
    try:
        import accelerate  # noqa: F401
        import datasets
        from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
        from sentence_transformers.sentence_transformer.training_args import SentenceTransformerTrainingArguments
        from transformers import TrainerCallback
    except ImportError:
        return None
    from alphita.encoder.resolve import resolve

    model = SentenceTransformer(str(resolve("minilm")), device="cpu")
    model.max_seq_length = LENGTH

    folder = tempfile.TemporaryDirectory()

    class Loss(torch.nn.Module):
        def forward(self, features: list[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
            return metric_learning_loss(model(features[0])["sentence_embedding"].float(), labels)

    class Clock(TrainerCallback):
        seconds = 0.0

        def on_step_begin(self, *_args: object, **_options: object) -> None:
            self.start = time.perf_counter()

        def on_step_end(self, *_args: object, **_options: object) -> None:
            self.seconds = time.perf_counter() - self.start

    def step(strings: list[str], concept: torch.Tensor) -> float:
        data = datasets.Dataset.from_dict({"sentence": strings, "label": concept.tolist()})
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder.name,
            per_device_train_batch_size=len(strings),
            max_steps=1,
            use_cpu=True,
            bf16=machine.fast_bf16(),
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        clock = Clock()
        trainer = SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=data, loss=Loss(), callbacks=[clock]
        )
        trainer.train()
        return clock.seconds

    return step


def main() -> None:
    """Measure and print."""
    parser = harness.parser(__doc__, rounds=7)
    given = parser.parse_args()
    machine.set_threads(None)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        terminology = harness.hpo(Path(folder))
        steps: dict[str, Step] = {name: rung(**options) for name, options in LADDER.items()}
        trainer = sentence_transformers_step()
        if trainer is not None:
            steps["sentence-transformers trainer"] = trainer
        else:
            print("without datasets and accelerate the sentence-transformers trainer is left out")
        for kind in ("distinct", "paper"):
            # The first round warms up.
            drawn = batches(terminology, kind, given.rounds + 1)
            works = {name: drawing(step, drawn) for name, step in steps.items()}
            seconds = {name: values[1:] for name, values in harness.in_turn(works, given.rounds + 1).items()}
            base = float(np.median(seconds["published loop"]))
            print(f"\n{kind} rows: {2 * K} a step, median of {given.rounds} rounds")
            figures[kind] = {}
            for name, values in seconds.items():
                median = float(np.median(values))
                figures[kind][name] = {"seconds": median, "rows_per_second": 2 * K / median, "ratio": base / median}
                print(f"  {name:<32} {median:7.3f} s  {2 * K / median:8.0f} rows/s  {base / median:6.2f}x")
        shares = anchors_with_gradient(batches(terminology, "paper", 20))
        print(
            "\nanchors with a gradient: "
            + ", ".join(f"{share:.2f} with {masks} masks" for masks, share in shares.items())
        )
    harness.write(given, figures | {"anchors_with_gradient": shares}, ontology="hpo", k=K, m=8, max_length=LENGTH)


if __name__ == "__main__":
    main()
