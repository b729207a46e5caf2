"""Cases, as table 6 of Liu, Jiang and Lyu 2022: what two models say of some titles for a query.

Both are fine-tuned on the training part of QTRel-hard as bench/qtrel.py does it; the score is the probability that the
title fits the query, the mean of the runs. The label is the table's: + if the title has a value of that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qtrel
from alphita import config
from alphita.errors import UsageError
from alphita.registry import unknown
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.report.markdown import table as markdown_table
from alphita_lab.evaluation.report.markdown import text
from alphita_lab.evaluation.scoring.finetuning import Encoding, encoder_of, fine_tune
from alphita_lab.evaluation.systems import load_system
from qtrel import HARD, Pair


@dataclass(frozen=True)
class Case:
    """A pair with the score of each model, 0 to 1."""

    pair: Pair
    scores: tuple[float, ...]


def pairs_of(sets: Path, table: qtrel.Table, queries: Sequence[str], titles: Sequence[str], most: int) -> list[Pair]:
    """Return pairs of queries and titles, with the table's label.

    Args:
        sets: the folder of the sets.
        table: the products.
        queries: names of values; none: the two that the test part asks most often.
        titles: as written; none: those that the test part of QTRel-hard has with the query.
        most: titles of a query at most; as many that have the value as others, while there are.

    Raises:
        UsageError: no value or title has that name, or the test part does not ask it and no titles are given.
    """
    lines = (sets / f"{HARD}.test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    tested: dict[str, list[str]] = {}
    for query, title, _ in (line.split("\t") for line in lines):
        tested.setdefault(query, []).append(title)
    chosen = list(queries) or sorted(tested, key=lambda query: (-len(tested[query]), query))[:2]
    pairs = []
    for query in map(clean, chosen):
        if query not in table.having:
            raise UsageError(unknown("value", query, list(table.having)))
        if not titles and query not in tested:
            raise UsageError(f"the test part does not ask {query!r}; give titles with --title")
        for title in titles:
            if clean(title) not in table.titles:
                raise UsageError(unknown("title", title, list(table.titles.values())))
        found = [
            Pair(query, one, str(int(clean(one) in table.having[query]))) for one in titles or tested.get(query, [])
        ]
        if not titles:
            having, others = ([one for one in found if one.label == label] for label in ("1", "0"))
            found = having[: most - min(len(others), most // 2)]
            found += others[: most - len(found)]
        pairs += found
    return pairs


def scores(model: Path, sets: Path, pairs: Sequence[Pair], settings: Sequence[str]) -> NDArray[np.float64]:
    """Return the probability that each title fits its query, (pairs,), after fine-tuning.

    Args:
        model: the folder of an encoder.
        sets: the folder of the sets.
        pairs: what is asked.
        settings: "key=value" of the benchmark sentence_pair.
    """
    module = load_benchmark("sentence_pair")
    options = config.resolve(module.Options, sets=[f"datasets={HARD}", *settings])
    (one,) = module.load(Source(sets, None, "sentence_pair", module.INFO.where), options).sets
    system = load_system(str(model))
    encoding = Encoding(encoder_of(system, options.max_length))
    train = encoding.pairs([example.texts[0] for example in one.train], [example.texts[1] for example in one.train])
    targets = [np.array([int(example.label)]) for example in one.train]
    asked = encoding.pairs([pair.query for pair in pairs], [pair.title for pair in pairs])
    runs = fine_tune(system, options.settings(), train, targets, asked, 2)
    logits = np.array([[example[0] for example in run] for run in runs], np.float64)
    # Of two classes the softmax is the logistic function of their difference.
    found: NDArray[np.float64] = (1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))).mean(axis=0)
    return found


def markdown(cases: Sequence[Case], titles: Sequence[str], origin: Mapping[str, Any]) -> str:
    """Return the cases as Markdown, a table a query.

    Args:
        cases: those of a query one behind the other.
        titles: the models' names.
        origin: where the figures come from.
    """
    lines = ["# Query-title relevance, case by case", ""]
    for query in dict.fromkeys(case.pair.query for case in cases):
        rows = [
            [*(f"{score:.2f}" for score in case.scores), "+" if case.pair.label == "1" else "−", text(case.pair.title)]
            for case in cases
            if case.pair.query == query
        ]
        lines += [f"Query: {text(query)}", "", markdown_table([*titles, "label", "title"], rows), ""]
    right = [
        sum((case.scores[place] >= 0.5) == (case.pair.label == "1") for case in cases) for place in range(len(titles))
    ]
    told = "; ".join(f"{title} {number} of {len(cases)}" for title, number in zip(titles, right, strict=True))
    lines += [f"On the right side of 0.5: {told}. Seed {origin['seed']}, commit {origin['commit']}.", ""]
    return "\n".join(lines)
