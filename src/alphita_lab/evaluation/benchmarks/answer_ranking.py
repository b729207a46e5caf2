"""Answers to a question, fine-tuned: which of the candidates answer it (cMedQA, cMedQNLI).

A linear layer over [CLS] of question and answer, trained five times. F1 of the label 1 over all candidates, as Liu et
al. 2022 report it; and, of the questions with a right answer among the candidates, P@1 and MRR of the candidates in
the order of their score. Of equal scores a wrong answer's goes first. One's own files: NAME.PART.tsv with the columns
query, answer and label (1: answers the question, 0: does not); lines of one query are its candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita_lab.evaluation.benchmarks import _chineseblue, about
from alphita_lab.evaluation.benchmarks._chineseblue import Data, Example, Options, Set
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.finetuning import Encoding
from alphita_lab.evaluation.scoring.results import Metric, Result

SETS = ("cMedQA", "cMedQNLI")
INFO, PUBLISHED = about(__name__)


def read(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read a file of candidates with labels 0 and 1, by question; see `_chineseblue.read_pairs`."""
    return _chineseblue.read_pairs(path, counts, ("query", "answer"), by_query=True)


load = _chineseblue.loader(SETS, read, _chineseblue.query_of)


def evaluate(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored question."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    notes = dict(data.notes)
    frames = []
    for dataset in data.sets:
        targets = [np.array([int(example.label)]) for example in dataset.train]
        train, test = (_chineseblue.encode(encoding, part) for part in (dataset.train, dataset.test))
        runs = finetuning.fine_tune(system, options.settings(), train, targets, test, 2)
        # Above 0 where the label 1 is the likelier.
        scores = np.array([[float(logits[0, 1] - logits[0, 0]) for logits in run] for run in runs])
        frames.append(_rows(dataset, scores))
        notes[f"{dataset.name}: questions without a right answer, in no P@1 or MRR"] = frames[-1]["P@1"].null_count()
    others = (Metric("P@1", ("P@1",)), Metric("MRR", ("MRR",)))
    result = _chineseblue.f1_result(pl.concat(frames), options, notes, others)
    for name in ("P@1", "MRR"):
        columns = [f"{name}_run{run}" for run in range(1, options.runs + 1)]
        rows = result.rows.drop_nulls(columns)
        result.figures += _chineseblue.maxima(rows, columns, name, _means)
    return result


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = values.mean(axis=0)
    return means


def _rows(one: Set[Example], scores: NDArray[np.float64]) -> pl.DataFrame:
    """Return one row a question from the scores of the candidates, (runs, candidates)."""
    questions: dict[str, list[int]] = {}
    for number, example in enumerate(one.test):
        questions.setdefault(example.texts[0], []).append(number)
    known = {example.texts[0] for example in one.train}
    right = np.array([example.label == _chineseblue.POSITIVE for example in one.test])
    rows: list[dict[str, Any]] = []
    for question, places in questions.items():
        gold = right[places]
        row: dict[str, Any] = {
            "dataset": one.name,
            "query": question,
            "candidates": len(places),
            "seen": question in known,
            "gold_count": int(gold.sum()),
        }
        for run, some in enumerate(scores[:, places], 1):
            row[f"right_run{run}"] = int((gold & (some > 0)).sum())
            row[f"predicted_run{run}"] = int((some > 0).sum())
            rank = first_right(some, gold)
            row[f"P@1_run{run}"] = None if rank is None else float(rank == 1)
            row[f"MRR_run{run}"] = None if rank is None else 1 / rank
        rows.append(row)
    measured = [f"{name}_run{run}" for name in ("P@1", "MRR") for run in range(1, len(scores) + 1)]
    frame = pl.DataFrame(rows, schema_overrides=dict.fromkeys(measured, pl.Float64))
    return frame.with_columns(
        pl.mean_horizontal(column for column in measured if column.startswith(name)).alias(name)
        for name in ("P@1", "MRR")
    )


def first_right(scores: Sequence[float] | NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_]) -> int | None:
    """Return the rank, from 1, of the best right candidate; of equal scores the wrong ones come first.

    Args:
        scores: (n,) higher is better.
        right: (n,) which candidates are right.
    """
    scores, right = np.asarray(scores), np.asarray(right)
    if not right.any():
        return None
    best = scores[right].max()
    return 1 + int((scores[~right] >= best).sum())
