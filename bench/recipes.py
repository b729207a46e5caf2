"""Every recipe's training step and its loader against the published loop: same batches, same model, side by side.

    python bench/recipes.py [--rounds 5] [--recipes coder sapbert] [--output report.json]

The published loop is what the released CODER, CODER++ and SapBERT scripts have in common: strings tokenized one by one
with transformers' tokenizer, every row padded to 32 tokens, fp32, a row that stands several times encoded each time,
pytorch-metric-learning's miner and loss, AdamW as torch gives it. Ours is the recipe itself, as `alphita train` runs
it. Both get the very batches that the recipe draws, 256 term rows or near it, and run interleaved, round by round; the
first round warms up, the medians of the others are compared. "rows" of both are the recipe's term rows, repeats
counted; "distinct" is the share of them that differ.

The loader alone: how many batches a second are made ready for the device, tokens and all, without any training; ours
draws the batch too, the published one is given its terms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from alphita import machine, registry
from alphita.encoder.resolve import resolve
from alphita.errors import Rejects
from alphita.evaluation import report
from alphita.terminology import store
from alphita.terminology.loaders import obo
from alphita.terminology.packaged import find_packaged
from alphita.terminology.store import Terminology
from alphita.training.engine.tokens import tokenize
from alphita.training.terms.batches import Batch, BatchLoss, Draw, TermSteps
from alphita.training.terms.run import TermRun

LENGTH = 32
LOADS = 40
ALPHA, BETA, LAM, EPS, MARGIN = 2.0, 50.0, 0.5, 0.1, 0.2
COMMON = {"pooling": "mean", "accumulation": 1, "max_length": LENGTH, "seed": 0, "steps": 1000}
SETTINGS: dict[str, dict[str, Any]] = {
    "coder": {"k": 128, "m": 2},
    "coder_transe": {"batch_terms": 256},
    "sapbert": {"pairs": 128},
    "coder_pp": {"anchors": 6},
}


@dataclass(frozen=True)
class Opened:
    """A recipe as its `train` hands it to the engine.

    Attributes:
        run: its run: encoder, names, forward pass.
        draw: gives its batches.
        loss: of a batch's vectors.
        modules: what trains beside the encoder.
    """

    run: TermRun
    draw: Draw
    loss: BatchLoss
    modules: dict[str, torch.nn.Module]


def opened(name: str, terminology: Terminology, folder: Path) -> Opened:
    """Run a recipe up to where training would begin."""
    recipe: ModuleType = registry.load("alphita.recipes", name)
    taken: list[Opened] = []

    def fit(self: TermRun, draw: Draw, loss: BatchLoss, **options: Any) -> dict[str, float]:  # noqa: ANN401
        if (before := options.get("before_step")) is not None:
            before(0)
        taken.append(Opened(self, draw, loss, dict(options.get("modules") or {})))
        return {}

    kept, TermRun.fit = TermRun.fit, fit  # type: ignore[method-assign]
    try:
        # A dry run: CODER++ then takes names at random for the nearest, which changes nothing in the work of a step.
        recipe.train(terminology, "minilm", folder / name, recipe.Config(**COMMON | SETTINGS[name]), dry_run=True)
    finally:
        TermRun.fit = kept  # type: ignore[method-assign]
    return taken[0]


class Published:
    """The published loop on a copy of MiniLM."""

    def __init__(self, recipe: Opened, name: str) -> None:
        """Load model and tokenizer."""
        from pytorch_metric_learning.losses import MultiSimilarityLoss
        from pytorch_metric_learning.miners import MultiSimilarityMiner, TripletMarginMiner
        from transformers import AutoModel, AutoTokenizer

        self.recipe, self.name = recipe, name
        self.model = AutoModel.from_pretrained(resolve("minilm"))
        self.tokenizer = AutoTokenizer.from_pretrained(resolve("minilm"))
        self.ms = MultiSimilarityLoss(alpha=ALPHA, beta=BETA, base=LAM)
        self.miner = TripletMarginMiner(margin=MARGIN) if name == "sapbert" else MultiSimilarityMiner(epsilon=EPS)
        dim = self.model.config.hidden_size
        relations = 2 + max((m.numel() for module in recipe.modules.values() for m in module.parameters()), default=0)
        self.relations = torch.nn.Embedding(relations // dim + 1, dim)
        self.model.train()
        self.optimizer = torch.optim.AdamW([*self.model.parameters(), *self.relations.parameters()], lr=2e-5)

    def rows(self, batch: Batch) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the term of each row, repeats and all."""
        place = batch.arrays.get("place")
        return np.asarray(batch.terms if place is None else batch.terms[place], np.int64)

    def load(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and mask of the rows: one call of the tokenizer a string, all padded to 32."""
        strings = self.recipe.run.names.strings
        found = [
            self.tokenizer(strings[term], max_length=LENGTH, truncation=True, padding="max_length")
            for term in self.rows(batch)
        ]
        return torch.tensor([one["input_ids"] for one in found]), torch.tensor([one["attention_mask"] for one in found])

    def step(self, batch: Batch) -> None:
        """Load, encode, lose, go back."""
        ids, mask = self.load(batch)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        e = (hidden * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
        given = {key: torch.from_numpy(value) for key, value in batch.arrays.items()}
        concept = given["concept"]
        loss = self.ms(e, concept, self.miner(e, concept))
        if self.name == "coder":
            head, tail = e.chunk(2)
            turned, labels = head * self.relations(given["relation"]), given["tail"]
            # A copy: of the same tensor the library would leave out the diagonal, which is the very triples.
            of_tails = labels.clone()
            pairs = self.miner(turned, labels, tail, of_tails)
            loss = loss + self.ms(turned, labels, pairs, ref_emb=tail, ref_labels=of_tails)
        if self.name == "coder_transe":
            head, tail, corrupted = e.chunk(3)
            moved = head + self.relations(given["relation"])
            near, far = (moved - tail).norm(dim=1), (moved - corrupted).norm(dim=1)
            loss = loss + torch.relu(1 + near - far).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


class Ours:
    """The recipe's own step, with batches made ahead."""

    def __init__(self, recipe: Opened, rounds: int) -> None:
        """Prepare as `TermRun.fit` does."""
        run = recipe.run
        self.steps = TermSteps(
            run.forward, tokenize(run.encoder, run.names.strings), recipe.draw, recipe.loss, seed=0
        )  # fmt: skip
        modules = [run.forward.module, *recipe.modules.values()]
        self.parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=2e-5, fused=True)
        for module in modules:
            module.train()
        self.steps.start(0, rounds)

    def step(self, number: int) -> None:
        """Take a batch, go forth and back."""
        self.steps(number, 1.0)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(name: str, terminology: Terminology, folder: Path, rounds: int) -> dict[str, float]:
    """Return rows a second of both loops and both loaders, and the share of our time that waited for batches."""
    recipe = opened(name, terminology, folder)
    ours, published = Ours(recipe, rounds + 1), Published(recipe, name)
    taken: dict[str, list[float]] = {"ours": [], "published": [], "our_loader": [], "published_loader": []}
    rows, distinct, waited = [], [], 0.0
    for number in range(rounds + 1):
        batch = recipe.draw(number)
        before = ours.steps.waited
        our_seconds = seconds_of(lambda: ours.step(number))  # noqa: B023
        their_seconds = seconds_of(lambda: published.step(batch))  # noqa: B023
        if number == 0:
            continue
        waited += ours.steps.waited - before
        rows.append(batch.rows)
        distinct.append(len(batch.terms))
        taken["ours"].append(our_seconds)
        taken["published"].append(their_seconds)
    ours.steps.stop()
    # The loaders alone, without training between.
    for number in range(rounds + 1, rounds + 1 + LOADS):
        batch = recipe.draw(number)
        taken["published_loader"].append(seconds_of(lambda: published.load(batch)))  # noqa: B023
    for number in range(rounds + 1, rounds + 1 + LOADS):
        taken["our_loader"].append(seconds_of(lambda: ours.steps._make(number)))  # noqa: B023
    median = {key: statistics.median(values) for key, values in taken.items()}
    size = statistics.mean(rows)
    return {
        "rows": size, "distinct_share": statistics.mean(distinct) / size,
        "rows_per_second": size / median["ours"], "published_rows_per_second": size / median["published"],
        "ratio": median["published"] / median["ours"],
        "loader_rows_per_second": size / median["our_loader"],
        "published_loader_rows_per_second": size / median["published_loader"],
        "loader_ratio": median["published_loader"] / median["our_loader"],
        "idle_share": waited / sum(taken["ours"]),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipes", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    machine.set_threads(None)
    print(json.dumps(machine.describe()))
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Rejects() as rejects:
            store.save(obo.load([find_packaged("hpo")], obo.Options(), rejects), folder / "hpo.terminology")
        terminology = store.load_terminology(folder / "hpo.terminology")
        for recipe in arguments.recipes:
            found = figures[recipe] = measure(recipe, terminology, folder, arguments.rounds)
            print(
                f"{recipe:<14} {found['rows']:.0f} rows, {found['distinct_share']:.0%} distinct: published "
                f"{found['published_rows_per_second']:,.0f} rows/s, ours {found['rows_per_second']:,.0f}, "
                f"{found['ratio']:.1f}x; loader {found['loader_ratio']:.0f}x; waited {found['idle_share']:.2%}"
            )
    if arguments.output:
        config = {"common": COMMON, "settings": {name: SETTINGS[name] for name in arguments.recipes},
                  "rounds": arguments.rounds}  # fmt: skip
        report.write(
            arguments.output, figures, provenance=report.provenance(config=config, seed=0, data={"ontology": "hpo"})
        )


if __name__ == "__main__":
    main()
