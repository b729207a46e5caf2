"""What the fine-tuned tasks of Liu et al. 2022 share: ChineseBLUE's files, those of product search, runs, numbers.

Files of a data set NAME, for the parts train, dev and test, gzipped or not: NAME.PART.ENDING or NAME/PART.ENDING, also
in a folder chineseblue/.

- .txt, as ChineseBLUE is distributed: a label, a tab, a text, and for pairs a tab and the other text; no header.
- .tsv, for one's own product search (the paper's QTRel, QIC and QNER are not public): a header, and columns by name.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.finetuning import Encoding, FineTuningSettings, count_columns, mean_f1, runs_f1
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result

SPLIT = "where a set has no training file, --set split_dev=true trains on four fifths of what there is"
# Share of the queries that is scored where `split_dev` makes two parts of one.
SCORED_SHARE = 0.2
POSITIVE, NEGATIVE = "1", "0"

T = TypeVar("T")


class Options(Config):
    """How to fine-tune; the defaults are ELECTRA's settings for a base-size model, which the paper says it follows."""

    datasets: str | None = Field(
        None, description="names of sets, e.g. cMedQQ,QTRel-easy; by default all known sets with files"
    )
    part: Literal["dev", "test"] | None = Field(
        None, description="part to score; by default test (Liu et al. 2022) if there is such a file, otherwise dev"
    )
    split_dev: bool = Field(
        False, description="where a set has no training file: train on 4/5 of the scored part's queries, score the rest"
    )
    limit: int | None = Field(
        None,
        ge=2,
        description="size of a random sample of queries or texts from each part, for a trial; not for reported numbers",
    )
    runs: int = Field(
        5, ge=1, description="number of fine-tuning runs (Liu et al. 2022: 5; mean and maximum are reported)"
    )
    epochs: int = Field(3, ge=1, description="passes over the training part (ELECTRA: 3)")
    learning_rate: float = Field(
        1e-4, gt=0, description="learning rate of the head (ELECTRA base: 1e-4; the paper's scripts: 3e-4)"
    )
    batch_size: int = Field(
        32, ge=1, description="examples per step (ELECTRA: 32; the paper's scripts: 64, for NER 32)"
    )
    max_length: int = Field(128, ge=8, description="tokens per example (Liu et al. 2022: 128)")
    layer_decay: float = Field(
        0.8, gt=0, le=1, description="factor of the learning rate per lower layer (ELECTRA: 0.8)"
    )
    seed: int = Field(0, ge=0, description="seed of the first run; the other runs use the following seeds")

    def settings(self) -> FineTuningSettings:
        """Return what the trainer takes."""
        return FineTuningSettings(
            self.runs, self.epochs, self.learning_rate, self.batch_size, self.max_length, self.layer_decay, self.seed
        )


@dataclass(frozen=True)
class Example:
    """A labelled text or pair of texts, and the line that it stands in."""

    label: str
    texts: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Set(Generic[T]):
    """A data set: its name, what is learnt and what is scored."""

    name: str
    train: list[T]
    test: list[T]


@dataclass(frozen=True)
class Data(Generic[T]):
    """The sets that are there, and what a reader must know of them."""

    sets: list[Set[T]]
    notes: dict[str, Any] = field(default_factory=dict)


def loader(
    known: Sequence[str],
    read: Callable[[Path, Counter[str]], list[list[T]]],
    string: Callable[[T], str],
    endings: Sequence[str] = ("txt", "tsv"),
    corpora: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> Callable[[Source, Options], Data[T]]:
    """Return the `load` of a benchmark of some sets.

    Args:
        read: (file, counts of what was left out or mended) -> the examples of each query.
    """

    def load(source: Source, options: Options) -> Data[T]:
        """Read the sets whose files are there."""
        asked = None if options.datasets is None else _asked(options.datasets, known)
        parts = ("test", "dev") if options.part is None else (options.part,)
        sets: list[Set[T]] = []
        notes: dict[str, Any] = {}
        lacking: list[str] = []
        for name in asked or known:
            others = (corpora or {}).get(name, {})
            scored = file_of(source, name, parts, endings, others)
            train = file_of(source, name, ("train",), endings, others) if scored else None
            if scored is not None and (train is not None or options.split_dev):
                one, told = _set(name, train, scored, options, read, string)
                sets.append(one)
                notes |= told
                continue
            files = [f"{name}.{parts[-1] if scored is None else 'train'}.{ending}" for ending in endings]
            if asked:
                source.file(*map(glob.escape, files))
            lacking += files
            notes[name] = f"not run: no {' or '.join(files)}" + (f"; {SPLIT}" if scored is not None else "")
        if not sets:
            source.file(*lacking)
        return Data(sets, notes)

    return load


def _asked(datasets: str, known: Sequence[str]) -> list[str]:
    """Return the names in a list with commas, each once."""
    names = list(dict.fromkeys(name for part in datasets.split(",") if (name := part.strip())))
    if not names:
        raise UsageError(
            f"option 'datasets' names no set (value {datasets!r}); name some, or leave it out: then all of "
            f"{', '.join(known)} are run whose files are there"
        )
    for name in names:
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise UsageError(
                f"option 'datasets' takes names of sets, not the path {name!r}; give its folder as --data, and the "
                "name that its files begin with"
            )
    return names


def file_of(
    source: Source,
    name: str,
    parts: Sequence[str],
    endings: Sequence[str],
    others: Mapping[str, Sequence[str]] | None = None,
) -> Path | None:
    """Return the file of a set's first part that there is one of; None: of none. `others`: part -> further names."""
    literal = glob.escape(name)
    for part in parts:
        names = [
            f"{folder}{literal}{mark}{part}.{ending}"
            for ending in endings
            for folder in ("", "chineseblue/")
            for mark in (".", "/")
        ]
        path = source.file(*names, *(others or {}).get(part, ()), optional=True)
        if path is not None:
            return path
    return None


def _set(
    name: str,
    train: Path | None,
    scored: Path,
    options: Options,
    read: Callable[[Path, Counter[str]], list[list[T]]],
    string: Callable[[T], str],
) -> tuple[Set[T], dict[str, Any]]:
    counts: Counter[str] = Counter()
    chance = np.random.default_rng(options.seed)
    test = read(scored, counts)
    told = (
        f"trained on {train.name}, scored on {scored.name}"
        if train
        else f"trained and scored on parts of {scored.name}"
    )
    if train is not None:
        learnt = read(train, counts)
    else:
        # Whatever the reader takes for a query: what is asked in the same words must not be learnt.
        same: dict[str, list[list[T]]] = {}
        for query in test:
            same.setdefault(string(query[0]), []).append(query)
        groups = list(same.values())
        order = chance.permutation(len(groups))
        cut = round(SCORED_SHARE * len(groups))
        test, learnt = ([query for row in sorted(rows) for query in groups[row]] for rows in (order[:cut], order[cut:]))
    if options.limit is not None:
        learnt, test = (
            [part[row] for row in sorted(chance.permutation(len(part))[: options.limit])] for part in (learnt, test)
        )
        told += f", at most {options.limit} drawn from each"
    if not learnt or not test:
        raise InputError(
            "holds too few queries to make two parts", file=scored, remedy="three that differ are the least"
        )
    one = Set(
        name, [example for query in learnt for example in query], [example for query in test for example in query]
    )
    notes: dict[str, Any] = {name: told, f"{name}: training examples": len(one.train), f"{name}: scored": len(one.test)}
    return one, notes | {f"{name}: {what}": count for what, count in counts.items() if count}


def read_examples(path: Path, counts: Counter[str], columns: Sequence[str], *, by_query: bool) -> list[list[Example]]:
    """Read a file of labelled texts."""
    table = textio.held_rows(path, "\t")
    with_header = path.name.removesuffix(".gz").endswith(".tsv")
    wanted = ("label", *columns)
    layout = (
        f"expected {'a header with the columns' if with_header else 'the tab-separated fields'} {', '.join(wanted)}"
    )
    places = list(range(len(wanted)))
    if with_header:
        places, table = textio.places(table[0][1] if table else [], wanted, path, remedy=layout), table[1:]
    queries: dict[str, list[Example]] = {}
    for number, cells in table:
        if len(cells) <= max(places) or (not with_header and len(cells) != len(wanted)):
            raise InputError(f"a line of {len(cells)} fields", file=path, line=number, remedy=layout)
        label, *texts = (unquoted(cells[place], counts).strip() for place in places)
        if not label or not all(texts):
            counts["lines left out for an empty field"] += 1
            continue
        key = texts[0] if by_query else str(number)
        some = queries.setdefault(key, [])
        some.append(Example(label, tuple(texts), number))
    if not queries:
        raise InputError("holds no example", file=path, remedy=layout)
    return list(queries.values())


def read_pairs(path: Path, counts: Counter[str], columns: tuple[str, str], *, by_query: bool) -> list[list[Example]]:
    """Read a file of pairs with labels 0 and 1; see `read_examples`."""
    queries = read_examples(path, counts, columns, by_query=by_query)
    for query in queries:
        for example in query:
            if example.label not in (POSITIVE, NEGATIVE):
                raise InputError("a label that is neither 0 nor 1", file=path, line=example.line, value=example.label)
    return queries


def unquoted(cell: str, counts: Counter[str]) -> str:
    """Return a field without a spreadsheet's quotes, counted; see `textio.unquoted`."""
    plain = textio.unquoted(cell)
    if plain != cell:
        counts["fields freed of quotes"] += 1
    return plain


def query_of(example: Example) -> str:
    """Return an example's query: its first text."""
    return example.texts[0]


def encode(encoding: Encoding, examples: Sequence[Example]) -> list[finetuning.Encoded]:
    """Return examples of one text or two as the model takes them."""
    if len(examples[0].texts) == 1:
        return encoding.sentences([example.texts[0] for example in examples])
    return encoding.pairs([example.texts[0] for example in examples], [example.texts[1] for example in examples])


def classify(
    data: Data[Example], system: object, options: Options, uncounted: Callable[[str], frozenset[str]]
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Fine-tune on each set a softmax over its labels."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    frames = []
    notes = dict(data.notes)
    before = 0
    for dataset in data.sets:
        # Labels that only the scored part has follow; none is ever predicted.
        learnt = sorted({example.label for example in dataset.train})
        labels = learnt + sorted({example.label for example in dataset.test} - set(learnt))
        numbers = {label: number for number, label in enumerate(labels)}
        targets = [np.array([numbers[example.label]]) for example in dataset.train]
        train, test = (encode(encoding, part) for part in (dataset.train, dataset.test))
        runs = finetuning.fine_tune(system, options.settings(), train, targets, test, len(learnt))
        gold = np.array([numbers[example.label] for example in dataset.test])
        predicted = np.array([[int(logits[0].argmax()) for logits in run] for run in runs])
        counts = np.array([label not in uncounted(dataset.name) for label in labels])
        seen = {example.texts for example in dataset.train}
        columns: dict[str, Any] = {
            "dataset": [dataset.name] * len(gold),
            "query": [example.texts[0] for example in dataset.test],
            "text": [example.texts[-1] for example in dataset.test],
            "gold": [example.label for example in dataset.test],
            "predicted": [labels[np.bincount(some).argmax()] for some in predicted.T],
            "right": (predicted == gold).mean(axis=0),
            "seen": [example.texts in seen for example in dataset.test],
            "gold_number": gold + before,
            "gold_count": counts[gold].astype(float),
        }
        for run, some in enumerate(predicted, 1):
            columns[f"predicted_number_run{run}"] = some + before
            columns[f"right_run{run}"] = (counts[gold] & (some == gold)).astype(float)
            columns[f"predicted_run{run}"] = counts[some].astype(float)
        frames.append(pl.DataFrame(columns))
        before += len(labels)
        if len(labels) > len(learnt):
            notes[f"{dataset.name}: labels that no training example has"] = ", ".join(labels[len(learnt) :])
    return pl.concat(frames), notes


def maxima(
    rows: pl.DataFrame, columns: Sequence[str], name: str, by_run: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> list[Figure]:
    """Return the best run's number for each set.

    Args:
        by_run: (n, columns) -> (runs,).
    """
    figures = []
    for dataset in rows["dataset"].unique(maintain_order=True):
        part = rows.filter(pl.col("dataset") == dataset)
        values = part.select(pl.col(column).cast(pl.Float64) for column in columns).to_numpy()
        best = float(by_run(values).max())
        subset = maximum(f"dataset={dataset}")
        figures.append(Figure(name, subset, best if np.isfinite(best) else None, len(part)))
    return figures


def maximum(subset: str) -> str:
    """Return the name under which the best run's number stands beside the mean of a subset."""
    return f"{subset}, maximum of runs"


def f1_result(rows: pl.DataFrame, options: Options, notes: dict[str, Any], others: Sequence[Metric] = ()) -> Result:
    """Return the result of a task whose main measure is F1, with the columns of `count_columns`."""
    columns = count_columns(options.runs)
    rows = rows.with_columns(pl.int_range(pl.len()).alias("number"))
    return Result(
        rows,
        (Metric("F1", columns, mean_f1), *others),
        ("dataset", "seen"),
        maxima(rows, columns, "F1", runs_f1),
        {**notes, "runs": options.runs},
    )
