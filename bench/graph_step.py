"""A training step of the graph models: gradients by rows, as they are, beside PyTorch's own whole ones.

    python bench/graph_step.py --terminology X.terminology [--models transe,complex,rotate,simple] [--steps 30]
                               [--out graph_step.json]

Both train a model of their own on the same triples; steps are timed in turn, and the medians count. The first five are
left out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphita import config, machine
from alphita.graph import kge, models
from alphita.graph.models import GraphModel
from alphita.graph.row_gradients import RowGradients
from alphita.graph.settings import GraphTraining
from alphita.graph.triples import divide
from alphita.terminology.store import load_terminology

WARM = 5


class Trained:
    """A model with its optimiser.

    Attributes:
        seconds: of every step.
    """

    def __init__(self, module: GraphModel, settings: GraphTraining, sizes: tuple[int, int], *, by_rows: bool) -> None:
        self.module = module
        self.model: Any = kge.build(module, *sizes, settings)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.learning_rate, fused=True)
        self.gradients = RowGradients(self.model) if by_rows else None
        self.seconds: list[float] = []

    def step(self, triples: torch.Tensor, false: torch.Tensor) -> float:
        """Train one step and return its loss."""
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = kge.loss_of(self.module, self.model, triples, false)
        loss.backward()
        if self.gradients is not None:
            self.gradients.whole()
        self.optimizer.step()
        self.model.post_parameter_update()
        self.seconds.append(time.perf_counter() - start)
        return float(loss.detach())


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--terminology", type=Path, required=True)
    parser.add_argument("--models", default=",".join(models.names()))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    threads = machine.set_threads(None)
    terminology = load_terminology(options.terminology)
    division = divide(terminology)
    triples, n = torch.from_numpy(division.train), len(division.entities)
    rows: list[dict[str, Any]] = []
    for name in options.models.split(","):
        module = models.load(name)
        settings = config.resolve(module.Config)
        sizes = (n, len(division.relations))
        ours, theirs = (Trained(module, settings, sizes, by_rows=by_rows) for by_rows in (True, False))
        rng = np.random.default_rng(0)
        losses = np.zeros(2)
        for _ in range(options.steps):
            batch = triples[torch.from_numpy(rng.integers(0, len(triples), settings.batch_size))]
            false = torch.from_numpy(rng.integers(0, n, (2, settings.negatives)))
            losses += [one.step(batch, false) for one in (ours, theirs)]
        by_rows, whole = (1e3 * float(np.median(one.seconds[WARM:])) for one in (ours, theirs))
        rows.append({
            "model": name, "ms a step, by rows": round(by_rows, 1), "ms a step, whole": round(whole, 1),
            "times": round(whole / by_rows, 2), "mean loss": (losses / options.steps).round(5).tolist(),
        })  # fmt: skip
        print(rows[-1], flush=True)
    report = {
        "entities": n, "triples": len(triples), "steps": options.steps, "threads": threads, "rows": rows,
        "terminology": terminology.content_hash, "machine": machine.describe(),
    }  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
