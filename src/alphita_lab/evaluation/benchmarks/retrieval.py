"""Documents for a query, fine-tuned: are they put in the order of their relevance (cMedIR).

A linear layer over [CLS] of query and title, trained five times by squared error to give the relevance, 0 to 4, as the
scripts of Liu et al. 2022 do. Scored are pairs of one query's documents of different relevance: "ordered pairs" is the
share of a query's pairs whose better document has the higher score (equal scores are half right), and PAIR, which the
paper reports, the number of rightly ordered pairs to one wrongly ordered, over all queries. That is the scripts'
definition, for the paper gives none; there a query has two documents. One's own files: NAME.PART.tsv with the columns
query, title and label (a number, greater is better); lines of one query are its documents.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import _chineseblue, about
from alphita_lab.evaluation.benchmarks._chineseblue import Data, Example, Options, Set
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.finetuning import Encoding
from alphita_lab.evaluation.scoring.results import Metric, Result

SETS = ("cMedIR",)
LAYOUT = 'expected lines of {"query": ..., "documents": [{"title": ..., "label": ...}, ...]}'
INFO, PUBLISHED = about(__name__)


def read(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read queries with their documents: .json, one query a line, or .tsv."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        queries = _chineseblue.read_examples(path, counts, ("query", "title"), by_query=True)
    else:
        queries = [_query(path, number, line, counts) for number, line in textio.lines(path)]
    for query in queries:
        for document in query:
            if not _is_number(document.label):
                raise InputError("the label is not a number", file=path, line=document.line, value=document.label)
    kept = [query for query in queries if len({float(document.label) for document in query}) > 1]
    if len(kept) < len(queries):
        counts["queries left out for want of documents of different relevance"] += len(queries) - len(kept)
    if not kept:
        raise InputError("holds no query with documents of different relevance", file=path, remedy=LAYOUT)
    return kept


def _query(path: Path, number: int, line: str, counts: Counter[str]) -> list[Example]:
    try:
        facts = textio.json_value(line)
        query = _text(facts["query"])
        documents = [(_text(document["title"]), _text(document["label"])) for document in facts["documents"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a query with documents: {error}", file=path, line=number, remedy=LAYOUT) from None
    full = [Example(label, (query, title), number) for title, label in documents if query and title and label]
    if len(full) < len(documents):
        counts["documents left out for an empty field"] += len(documents) - len(full)
    return full


def _text(value: object) -> str:
    """Return a JSON value as text; null is an empty field."""
    return "" if value is None else str(value).strip()


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def _by_string(path: Path, counts: Counter[str]) -> list[list[list[Example]]]:
    """Return the queries, those of one string together: a split must not part them."""
    queries: dict[str, list[list[Example]]] = {}
    for query in read(path, counts):
        queries.setdefault(_string(query), []).append(query)
    return list(queries.values())


def _string(query: list[Example]) -> str:
    return query[0].texts[0]


# An example is one query with its documents.
load = _chineseblue.loader(SETS, _by_string, _string, ("json", "tsv"))


def evaluate(data: Data[list[Example]], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a query."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    notes = dict(data.notes)
    frames = []
    for dataset in data.sets:
        documents = [document for query in dataset.train for document in query]
        labels = np.array([float(document.label) for document in documents])
        low, spread = labels.min(), np.ptp(labels) or 1.0
        targets = [np.array([(label - low) / spread], np.float32) for label in labels]
        train, test = (
            _chineseblue.encode(encoding, [document for query in part for document in query])
            for part in (dataset.train, dataset.test)
        )
        runs = finetuning.fine_tune(system, options.settings(), train, targets, test, 1)
        frames.append(_rows(dataset, np.array([[float(score[0, 0]) for score in run] for run in runs])))
        twice = len(dataset.test) - len({query[0].texts[0] for query in dataset.test})
        notes[f"{dataset.name}: scored queries whose string stands there before"] = twice
    rows = pl.concat(frames).with_columns(number=pl.int_range(pl.len()))
    columns = tuple(f"{what}_run{run}" for run in range(1, options.runs + 1) for what in ("ordered", "wrong"))
    metrics = (Metric("ordered pairs", ("ordered",)), Metric("PAIR", columns, mean_pair, fraction=False))
    shares = [f"share_run{run}" for run in range(1, options.runs + 1)]
    figures = [
        *_chineseblue.maxima(rows, shares, "ordered pairs", lambda values: values.mean(axis=0)),
        *_chineseblue.maxima(rows, columns, "PAIR", runs_pair),
    ]
    return Result(rows, metrics, ("dataset", "seen"), figures, {**notes, "runs": options.runs})


def _rows(one: Set[list[Example]], scores: NDArray[np.float64]) -> pl.DataFrame:
    """Return one row a query from the scores of all documents, (runs, documents)."""
    known = {query[0].texts[0] for query in one.train}
    rows: list[dict[str, Any]] = []
    start = 0
    for query in one.test:
        string, labels = query[0].texts[0], [float(document.label) for document in query]
        row: dict[str, Any] = {"dataset": one.name, "query": string, "documents": len(query), "seen": string in known}
        for run, some in enumerate(scores[:, start : start + len(query)], 1):
            ordered, pairs = ordered_pairs(some, labels)
            row |= {
                "pairs": pairs,
                f"ordered_run{run}": ordered,
                f"wrong_run{run}": pairs - ordered,
                f"share_run{run}": ordered / pairs,
            }
        rows.append(row)
        start += len(query)
    frame = pl.DataFrame(rows)
    return frame.with_columns(ordered=pl.mean_horizontal(f"share_run{run}" for run in range(1, len(scores) + 1)))


def ordered_pairs(
    scores: Sequence[float] | NDArray[np.float64], labels: Sequence[float] | NDArray[np.float64]
) -> tuple[float, int]:
    """Return how many pairs of different labels have their scores in the same order, and how many such pairs there are.

    Args:
        scores: (n,); a pair of equal scores counts as half ordered.
        labels: (n,).
    """
    by_score = np.sign(np.subtract.outer(scores, scores))
    by_label = np.sign(np.subtract.outer(labels, labels))
    better = by_label > 0
    return float((by_score[better] + 1).sum() / 2), int(better.sum())


def runs_pair(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each run's PAIR score: rightly ordered pairs to one wrongly ordered; infinite if none is wrong.

    Args:
        values: (n, 2 runs): rightly and wrongly ordered pairs of each run.
    """
    sums = values.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores: NDArray[np.float64] = sums[0::2] / sums[1::2]
    return scores


def mean_pair(values: NDArray[np.float64]) -> float:
    """Return the mean over runs of the PAIR score; see `runs_pair`."""
    return float(runs_pair(values).mean())
