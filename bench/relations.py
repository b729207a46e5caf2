"""Does the relation loss earn its place? `coder` on HPO with and without it: same steps, several seeds, mean, spread.

    python bench/relations.py [--steps 200] [--seeds 0 1 2]

Settings and split are the quickstart's but for the steps, and without noise; accuracy over concepts on the held-out
synonyms.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from alphita import machine
from alphita import quickstart_training as quickstart
from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.evaluation.scoring.metrics import score
from alphita.evaluation.scoring.ranking import ranking_of
from alphita.index.store import build
from alphita.normalizer.normalizer import Normalizer
from alphita.recipes import coder
from alphita.terminology import splits, store
from alphita.terminology.loaders import obo
from alphita.terminology.packaged import find_packaged


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    machine.set_threads(None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Rejects() as rejects:
            store.save(obo.load([find_packaged("hpo")], obo.Options(), rejects), folder / "hpo.terminology")
        terminology = store.load_terminology(folder / "hpo.terminology")
        split = splits.hold_out_synonyms(terminology, fraction=quickstart.HELD_OUT_FRACTION, seed=quickstart.SPLIT_SEED)
        for mu in (1.0, 0.0):
            reached = []
            for seed in arguments.seeds:
                settings = quickstart.TRAINING | {
                    "steps": arguments.steps, "warmup_steps": arguments.steps // 10, "checkpoint_every": 0,
                    "noise": 0.0, "mu": mu, "seed": seed,
                }  # fmt: skip
                model = folder / f"model-{mu:g}-{seed}"
                coder.train(terminology, "minilm", model, coder.Config(**settings), split=split)
                index = folder / f"{model.name}.index"
                build(terminology, TermEncoder.load(model), index, exclude=split.cleaned)
                figures = score(ranking_of(Normalizer.load(index), split.strings, 5), split.concept_ids)
                reached.append(figures["acc1"])
                print(f"mu {mu:g}, seed {seed}: " + ", ".join(f"acc{k} {figures[f'acc{k}']:.2%}" for k in (1, 3, 5)))
            spread = statistics.stdev(reached) if len(reached) > 1 else 0.0
            print(f"mu {mu:g}: acc1 {statistics.mean(reached):.2%}, standard deviation {100 * spread:.2f} points")


if __name__ == "__main__":
    main()
