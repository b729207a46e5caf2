"""Alphita's benchmarks as tasks of MTEB (https://github.com/embeddings-benchmark/mteb, 2.x), for any of its models.

    import mteb
    from alphita_mteb import task

    model = mteb.get_model("sentence-transformers/all-MiniLM-L6-v2")
    results = mteb.evaluate(model, [task("held_out_synonyms", terminology="hpo.terminology")])

The scores are the benchmark's own metrics, as `alphita evaluate` has them; the main one is MTEB's main score.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from mteb.abstasks.abstask import AbsTask
from mteb.abstasks.task_metadata import TaskMetadata
from torch.utils.data import DataLoader

from alphita.config import resolve
from alphita.terminology.store import load_terminology
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems.encoder import EncoderSystem

KINDS = {"normalization": "Retrieval", "similarity": "STS", "clustering": "Clustering"}


def task(benchmark: str, *, data: str | None = None, terminology: str | None = None, **settings: object) -> AbsTask:
    """Return a benchmark as a task.

    Args:
        benchmark: its name in `alphita evaluate --list`, or a file of your own.
        data: the folder of its files, as for `alphita evaluate --data`.
        terminology: a .terminology folder, as for `--terminology`.
        settings: its options.

    Raises:
        AlphitaError: the benchmark is not known, an option is wrong, or its data are missing.
        ValueError: it needs more of a system than vectors of strings.
    """
    module = load_benchmark(benchmark)
    if module.INFO.task not in KINDS:
        raise ValueError(f"{benchmark} scores more than vectors of strings: run it by `alphita evaluate`")
    name = f"Alphita-{Path(benchmark).stem}"
    held = load_terminology(terminology) if terminology else None
    source = Source(Path(data) if data else None, held, benchmark, module.INFO.where)
    options = resolve(module.Options, base=settings)
    loaded = module.load(source, options)

    class Task(AbsTask):
        """One benchmark."""

        metadata = TaskMetadata(
            name=name,
            description=module.INFO.title,
            reference=None,
            dataset={"path": name, "revision": held.content_hash if held else "local"},
            type=KINDS[module.INFO.task],
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score=module.INFO.main_metric,
            domains=["Medical"],
            bibtex_citation="",
        )

        def load_data(self, **_: Any) -> None:
            """Take what was read: the rows are the benchmark's own."""
            self.dataset, self.data_loaded = {"default": {"test": loaded}}, True

        def _evaluate_subset(self, model: Any, data_split: Any, *, hf_split: str, hf_subset: str, **more: Any) -> Any:
            encoder = _Encoder(model, self.metadata, hf_split, hf_subset, more.get("encode_kwargs") or {})
            system = EncoderSystem(encoder, "mteb", rules=DEFAULT_RULES, facts={})  # type: ignore[arg-type]
            figures = figures_of(module.evaluate(data_split, system, options))
            return {one.metric: one.value for one in figures if one.subset == "all" and one.value is not None}

        def _calculate_descriptive_statistics_from_split(self, *_: Any, **__: Any) -> Any:
            return {}

    return Task()


class _Encoder:
    """A model of MTEB, asked as a `TermEncoder` is."""

    pooling = "of the model"

    def __init__(self, model: Any, metadata: TaskMetadata, split: str, subset: str, options: dict[str, Any]) -> None:
        self._model, self._options = model, options
        self._about = {"task_metadata": metadata, "hf_split": split, "hf_subset": subset}

    def encode(self, strings: list[str], **_: Any) -> np.ndarray:
        # MTEB's own models ask a dataset for its columns.
        rows = DataLoader(Dataset.from_dict({"text": strings}), batch_size=self._options.get("batch_size", 64))
        return np.asarray(self._model.encode(rows, **self._about, **self._options), dtype=np.float32)
