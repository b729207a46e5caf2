"""Classification of a text, fine-tuned: intents of queries (cMedIC, QIC) and kinds of trial criteria (cMedTC).

A linear layer over [CLS], trained five times. F1 is the micro-averaged one; where every label counts it equals
accuracy. In cMedIC the label 0, "no intention", does not count, as in the scripts of Liu et al. 2022. One's own files:
NAME.PART.tsv with the columns query and label.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita_lab.evaluation.benchmarks import _chineseblue, about
from alphita_lab.evaluation.benchmarks._chineseblue import Data, Example, Options, maxima
from alphita_lab.evaluation.scoring.relation_classifier import macro_f1
from alphita_lab.evaluation.scoring.results import Metric, Result

SETS = ("cMedIC", "cMedTC", "QIC")
# Labels that F1 does not count.
UNCOUNTED = {"cMedIC": frozenset(["0"])}
INFO, PUBLISHED = about(__name__)


def read(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read a file of labelled texts; see `_chineseblue.read_examples`."""
    return _chineseblue.read_examples(path, counts, ("query",), by_query=False)


load = _chineseblue.loader(SETS, read, _chineseblue.query_of)


def evaluate(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored text."""
    rows, notes = _chineseblue.classify(data, system, options, lambda name: UNCOUNTED.get(name, frozenset()))
    columns = ("gold_number", *(f"predicted_number_run{run}" for run in range(1, options.runs + 1)))
    others = (Metric("accuracy", ("right",)), Metric("macro F1", columns, mean_macro_f1))
    result = _chineseblue.f1_result(rows, options, notes, others)
    result.figures += maxima(rows, columns, "macro F1", runs_macro_f1)
    return result


def runs_macro_f1(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each run's macro F1: the mean over the labels that are gold or predicted somewhere.

    Args:
        values: (n, 1 + runs): the gold label's number, and each run's.
    """
    return np.array([macro_f1(values[:, [0, run]]) for run in range(1, values.shape[1])])


def mean_macro_f1(values: NDArray[np.float64]) -> float:
    """Return the mean over runs of macro F1; see `runs_macro_f1`."""
    return float(runs_macro_f1(values).mean())
