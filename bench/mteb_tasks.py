"""Figures of encoders on Alphita's benchmarks as MTEB runs them, by examples/alphita_mteb.py.

    python bench/mteb_tasks.py --data DIR --out docs/results/mteb.json [--model alphita-en ...] [--task NAME ...]

DIR has a folder a benchmark, as for `alphita evaluate`. The models are opened by sentence-transformers and scored by
`mteb.evaluate`, as anyone's would be. Needs `pip install mteb` and `alphita[train]`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from pathlib import Path

from alphita import report
from alphita.encoder.resolve import resolve

ROOT = Path(__file__).parents[1]
MODELS = ("minilm", "alphita-en")
# Public, and in need of no terminology with a licence.
TASKS = ("relatedness", "psytar", "omop_exact_matching")


def main(words: list[str] | None = None) -> None:
    """Write the scores of every model on every task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", action="append")
    parser.add_argument("--task", action="append")
    given = parser.parse_args(words)
    import mteb
    from sentence_transformers import SentenceTransformer

    sys.path.append(str(ROOT / "examples"))
    from alphita_mteb import task

    scores = []
    for name in given.model or MODELS:
        # Ours brings the code that opens its int8 weights.
        model = SentenceTransformer(str(resolve(name)), trust_remote_code=True, device="cpu")
        for benchmark in given.task or TASKS:
            ours = task(benchmark, data=str(given.data / benchmark))
            (result,) = mteb.evaluate(model, [ours], cache=None).task_results
            (found,) = result.scores["test"]
            kept = {metric: round(value, 4) for metric, value in found.items() if isinstance(value, float)}
            scores.append({"model": name, "task": ours.metadata.name, **kept})
            print(scores[-1], flush=True)
    about = report.provenance(config={"mteb": importlib.metadata.version("mteb")})
    report.write(given.out, {"scores": scores}, provenance=about)


if __name__ == "__main__":
    main()
