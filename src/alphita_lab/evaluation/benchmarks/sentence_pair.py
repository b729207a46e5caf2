"""Sentence pairs, fine-tuned: do two questions mean the same (cMedQQ), does a product title fit a query (QTRel).

A linear layer over [CLS] of both texts, trained five times; F1 of the label 1, as Liu et al. 2022 report it: mean and
maximum of the runs. One's own files: NAME.PART.tsv with the columns query, title and label (1: relevant, 0: not).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from alphita_lab.evaluation.benchmarks import _chineseblue, about
from alphita_lab.evaluation.benchmarks._chineseblue import Data, Example, Options
from alphita_lab.evaluation.scoring.finetuning import count_columns, mean_precision, mean_recall
from alphita_lab.evaluation.scoring.results import Metric, Result

SETS = ("cMedQQ", "QTRel-easy", "QTRel-hard")
INFO, PUBLISHED = about(__name__)


def read(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read a file of pairs with labels 0 and 1; see `_chineseblue.read_pairs`."""
    return _chineseblue.read_pairs(path, counts, ("query", "title"), by_query=False)


load = _chineseblue.loader(SETS, read, _chineseblue.query_of)


def evaluate(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored pair."""
    rows, notes = _chineseblue.classify(data, system, options, lambda _: frozenset([_chineseblue.NEGATIVE]))
    columns = count_columns(options.runs)
    others = (
        Metric("accuracy", ("right",)),
        Metric("precision", columns, mean_precision),
        Metric("recall", columns, mean_recall),
    )
    return _chineseblue.f1_result(rows, options, notes, others)
