"""Fine-tuned tasks of Liu et al. 2022 (answer_ranking, classification, retrieval, sentence_pair), and their files.

Files of a data set NAME, for the parts train, dev and test, gzipped or not: NAME.PART.ENDING or NAME/PART.ENDING, also
in a folder chineseblue/.

- .txt, as ChineseBLUE is distributed: a label, a tab, a text, and for pairs a tab and the other text; no header.
- .tsv, for one's own product search (the paper's QTRel, QIC and QNER are not public): a header, and columns by name.
"""

from __future__ import annotations

import glob
import math
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
from alphita_lab.evaluation.benchmarks import Source, benchmark
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.finetuning import (
    Encoding,
    FineTuningSettings,
    count_columns,
    mean_f1,
    mean_precision,
    mean_recall,
    runs_f1,
)
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result, macro_f1

SPLIT = "if a set has no training file, --set split_dev=true trains on four fifths of the scored part"
# Share of the queries that is scored where `split_dev` makes two parts of one.
SCORED_SHARE = 0.2
POSITIVE, NEGATIVE = "1", "0"
# Benchmark -> the sets that it knows.
SETS = {
    "answer_ranking": ("cMedQA", "cMedQNLI"),
    "classification": ("cMedIC", "cMedTC", "QIC"),
    "retrieval": ("cMedIR",),
    "sentence_pair": ("cMedQQ", "QTRel-easy", "QTRel-hard"),
}
# Marks the figure of the best run beside the mean of a subset.
MAXIMUM = ", maximum of runs"

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
        False, description="if a set has no training file: train on 4/5 of the scored part's queries, score the rest"
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
        return FineTuningSettings(
            self.runs, self.epochs, self.learning_rate, self.batch_size, self.max_length, self.layer_decay, self.seed
        )


@dataclass(frozen=True)
class Example:
    """A labelled text or pair of texts, and its line in the file."""

    label: str
    texts: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Set(Generic[T]):
    """Examples to learn from and to score."""

    name: str
    train: list[T]
    test: list[T]


@dataclass(frozen=True)
class Data(Generic[T]):
    """The sets that are there, and what a reader must know of them."""

    sets: list[Set[T]]
    notes: dict[str, Any] = field(default_factory=dict)


def load_sets(
    source: Source,
    options: Options,
    known: Sequence[str],
    read: Callable[[Path, Counter[str]], list[list[T]]],
    string: Callable[[T], str],
    endings: Sequence[str] = ("txt", "tsv"),
    corpora: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> Data[T]:
    """Read the sets whose files are there.

    Args:
        read: (file, counts of what was left out or mended) -> the examples of each query.
    """
    chosen = None if options.datasets is None else _chosen_sets(options.datasets, known)
    parts = ("test", "dev") if options.part is None else (options.part,)
    sets: list[Set[T]] = []
    notes: dict[str, Any] = {}
    lacking: list[str] = []
    for name in chosen or known:
        others = (corpora or {}).get(name, {})
        scored = file_of(source, name, parts, endings, others)
        train = file_of(source, name, ("train",), endings, others) if scored else None
        if scored is not None and (train is not None or options.split_dev):
            dataset, set_notes = _set(name, train, scored, options, read, string)
            sets.append(dataset)
            notes |= set_notes
            continue
        files = [f"{name}.{parts[-1] if scored is None else 'train'}.{ending}" for ending in endings]
        if chosen:
            source.file(*map(glob.escape, files))
        lacking += files
        notes[name] = f"not run: no {' or '.join(files)}" + (f"; {SPLIT}" if scored is not None else "")
    if not sets:
        source.file(*lacking)
    return Data(sets, notes)


def _chosen_sets(datasets: str, known: Sequence[str]) -> list[str]:
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
    note = f"trained and scored on parts of {scored.name}"
    if train is not None:
        note = f"trained on {train.name}, scored on {scored.name}"
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
        note += f", at most {options.limit} drawn from each"
    if not learnt or not test:
        raise InputError(
            "holds too few queries to make two parts", file=scored, remedy="three that differ are the least"
        )
    dataset = Set(name, *([example for query in part for example in query] for part in (learnt, test)))
    notes: dict[str, Any] = {name: note, f"{name}: training examples": len(dataset.train)}
    notes[f"{name}: scored"] = len(dataset.test)
    return dataset, notes | {f"{name}: {what}": count for what, count in counts.items() if count}


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
        examples = queries.setdefault(key, [])
        examples.append(Example(label, tuple(texts), number))
    if not queries:
        raise InputError("holds no example", file=path, remedy=layout)
    return list(queries.values())


def read_pairs(path: Path, counts: Counter[str], columns: tuple[str, str], *, by_query: bool) -> list[list[Example]]:
    """Read a file of pairs with labels 0 and 1."""
    queries = read_examples(path, counts, columns, by_query=by_query)
    for query in queries:
        for example in query:
            if example.label not in (POSITIVE, NEGATIVE):
                raise InputError("a label that is neither 0 nor 1", file=path, line=example.line, value=example.label)
    return queries


def unquoted(cell: str, counts: Counter[str]) -> str:
    """Return a field without a spreadsheet's quotes, counted."""
    plain = textio.unquoted(cell)
    if plain != cell:
        counts["fields freed of quotes"] += 1
    return plain


def _query_of(example: Example) -> str:
    return example.texts[0]


def _encode(encoding: Encoding, examples: Sequence[Example]) -> list[finetuning.Encoded]:
    if len(examples[0].texts) == 1:
        return encoding.sentences([example.texts[0] for example in examples])
    return encoding.pairs([example.texts[0] for example in examples], [example.texts[1] for example in examples])


def _classify(
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
        train, test = (_encode(encoding, part) for part in (dataset.train, dataset.test))
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
            "predicted": [labels[np.bincount(labels_of_run).argmax()] for labels_of_run in predicted.T],
            "right": (predicted == gold).mean(axis=0),
            "seen": [example.texts in seen for example in dataset.test],
            "gold_number": gold + before,
            "gold_count": counts[gold].astype(float),
        }
        for run, labels_of_run in enumerate(predicted, 1):
            columns[f"predicted_number_run{run}"] = labels_of_run + before
            columns[f"right_run{run}"] = (counts[gold] & (labels_of_run == gold)).astype(float)
            columns[f"predicted_run{run}"] = counts[labels_of_run].astype(float)
        frames.append(pl.DataFrame(columns))
        before += len(labels)
        if len(labels) > len(learnt):
            notes[f"{dataset.name}: labels that no training example has"] = ", ".join(labels[len(learnt) :])
    return pl.concat(frames), notes


def maxima(
    rows: pl.DataFrame, columns: Sequence[str], name: str, by_run: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> list[Figure]:
    """Return the best run's number for each set; `by_run`: (n, columns) -> (runs,)."""
    figures = []
    for dataset in rows["dataset"].unique(maintain_order=True):
        part = rows.filter(pl.col("dataset") == dataset)
        values = part.select(pl.col(column).cast(pl.Float64) for column in columns).to_numpy()
        best = float(by_run(values).max())
        subset = f"dataset={dataset}{MAXIMUM}"
        figures.append(Figure(name, subset, best if np.isfinite(best) else None, len(part)))
    return figures


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


# Labels that F1 does not count.
UNCOUNTED = {"cMedIC": frozenset(["0"])}


def read_texts(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read a file of labelled texts."""
    return read_examples(path, counts, ("query",), by_query=False)


def _evaluate_classification(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored text."""
    rows, notes = _classify(data, system, options, lambda name: UNCOUNTED.get(name, frozenset()))
    columns = ("gold_number", *(f"predicted_number_run{run}" for run in range(1, options.runs + 1)))
    others = (Metric("accuracy", ("right",)), Metric("macro F1", columns, mean_macro_f1))
    result = f1_result(rows, options, notes, others)
    result.figures += maxima(rows, columns, "macro F1", runs_macro_f1)
    return result


@benchmark(Options, _evaluate_classification)
def classification(source: Source, options: Options) -> Data[Example]:
    """Classification of a text, fine-tuned: intents of queries (cMedIC, QIC) and kinds of trial criteria (cMedTC).

    A linear layer over [CLS], trained five times. F1 is the micro-averaged one; where every label counts it equals
    accuracy. In cMedIC the label 0, "no intention", does not count, as in the scripts of Liu et al. 2022. One's own
    files: NAME.PART.tsv with the columns query and label.
    """
    return load_sets(source, options, SETS["classification"], read_texts, _query_of)


def runs_macro_f1(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each run's macro F1, from (n, 1 + runs) label numbers: the gold one's, and each run's."""
    return np.array([macro_f1(values[:, [0, run]]) for run in range(1, values.shape[1])])


def mean_macro_f1(values: NDArray[np.float64]) -> float:
    """Return the mean of `runs_macro_f1`."""
    return float(runs_macro_f1(values).mean())


def read_question_pairs(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read a file of pairs with labels 0 and 1, each by itself."""
    return read_pairs(path, counts, ("query", "title"), by_query=False)


def _evaluate_sentence_pair(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored pair."""
    rows, notes = _classify(data, system, options, lambda _: frozenset([NEGATIVE]))
    columns = count_columns(options.runs)
    others = (
        Metric("accuracy", ("right",)),
        Metric("precision", columns, mean_precision),
        Metric("recall", columns, mean_recall),
    )
    return f1_result(rows, options, notes, others)


@benchmark(Options, _evaluate_sentence_pair)
def sentence_pair(source: Source, options: Options) -> Data[Example]:
    """Sentence pairs, fine-tuned: do two questions mean the same (cMedQQ), does a product title fit a query (QTRel).

    A linear layer over [CLS] of both texts, trained five times; F1 of the label 1, as Liu et al. 2022 report it: mean
    and maximum of the runs. One's own files: NAME.PART.tsv with the columns query, title and label (1: relevant, 0:
    not).
    """
    return load_sets(source, options, SETS["sentence_pair"], read_question_pairs, _query_of)


def _evaluate_answer_ranking(data: Data[Example], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored question."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    notes = dict(data.notes)
    frames = []
    for dataset in data.sets:
        targets = [np.array([int(example.label)]) for example in dataset.train]
        train, test = (_encode(encoding, part) for part in (dataset.train, dataset.test))
        runs = finetuning.fine_tune(system, options.settings(), train, targets, test, 2)
        # Above 0 where the label 1 is the likelier.
        scores = np.array([[float(logits[0, 1] - logits[0, 0]) for logits in run] for run in runs])
        frames.append(answer_rows(dataset, scores))
        notes[f"{dataset.name}: questions without a right answer, in no P@1 or MRR"] = frames[-1]["P@1"].null_count()
    result = f1_result(pl.concat(frames), options, notes, (Metric("P@1", ("P@1",)), Metric("MRR", ("MRR",))))
    for name in ("P@1", "MRR"):
        columns = [f"{name}_run{run}" for run in range(1, options.runs + 1)]
        result.figures += maxima(result.rows.drop_nulls(columns), columns, name, _column_means)
    return result


def _column_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = values.mean(axis=0)
    return means


@benchmark(Options, _evaluate_answer_ranking)
def answer_ranking(source: Source, options: Options) -> Data[Example]:
    """Answers to a question, fine-tuned: which of the candidates answer it (cMedQA, cMedQNLI).

    A linear layer over [CLS] of question and answer, trained five times. F1 of the label 1 over all candidates, as Liu
    et al. 2022 report it; and, of the questions with a right answer among the candidates, P@1 and MRR of the candidates
    in the order of their score. Of equal scores a wrong answer's goes first. One's own files: NAME.PART.tsv with the
    columns query, answer and label (1: answers the question, 0: does not); lines of one query are its candidates.
    """

    def read(path: Path, counts: Counter[str]) -> list[list[Example]]:
        return read_pairs(path, counts, ("query", "answer"), by_query=True)

    return load_sets(source, options, SETS["answer_ranking"], read, _query_of)


def answer_rows(dataset: Set[Example], scores: NDArray[np.float64]) -> pl.DataFrame:
    """Return one row a question from the scores of the candidates, (runs, candidates)."""
    questions: dict[str, list[int]] = {}
    for number, example in enumerate(dataset.test):
        questions.setdefault(example.texts[0], []).append(number)
    known = {example.texts[0] for example in dataset.train}
    right = np.array([example.label == POSITIVE for example in dataset.test])
    rows: list[dict[str, Any]] = []
    for question, places in questions.items():
        gold = right[places]
        row: dict[str, Any] = {
            "dataset": dataset.name,
            "query": question,
            "candidates": len(places),
            "seen": question in known,
            "gold_count": int(gold.sum()),
        }
        for run, of_run in enumerate(scores[:, places], 1):
            row[f"right_run{run}"] = int((gold & (of_run > 0)).sum())
            row[f"predicted_run{run}"] = int((of_run > 0).sum())
            rank = first_right(of_run, gold)
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
    """Return the rank, from 1, of the best right candidate by scores (n,); of equal ones the wrong come first."""
    scores, right = np.asarray(scores), np.asarray(right)
    if not right.any():
        return None
    return 1 + int((scores[~right] >= scores[right].max()).sum())


DOCUMENTS = 'expected lines of {"query": ..., "documents": [{"title": ..., "label": ...}, ...]}'


def read_documents(path: Path, counts: Counter[str]) -> list[list[Example]]:
    """Read queries with their documents: .json, one query a line, or .tsv."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        queries = read_examples(path, counts, ("query", "title"), by_query=True)
    else:
        queries = [_query(path, number, line, counts) for number, line in textio.lines(path)]
    for document in (document for query in queries for document in query):
        try:
            is_number = math.isfinite(float(document.label))
        except ValueError:
            is_number = False
        if not is_number:
            raise InputError("the label is not a number", file=path, line=document.line, value=document.label)
    kept = [query for query in queries if len({float(document.label) for document in query}) > 1]
    if len(kept) < len(queries):
        counts["queries left out for want of documents of different relevance"] += len(queries) - len(kept)
    if not kept:
        raise InputError("holds no query with documents of different relevance", file=path, remedy=DOCUMENTS)
    return kept


def _query(path: Path, number: int, line: str, counts: Counter[str]) -> list[Example]:
    def text(value: object) -> str:
        return "" if value is None else str(value).strip()

    try:
        facts = textio.json_value(line)
        query = text(facts["query"])
        documents = [(text(document["title"]), text(document["label"])) for document in facts["documents"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a query with documents: {error}", file=path, line=number, remedy=DOCUMENTS) from None
    full = [Example(label, (query, title), number) for title, label in documents if query and title and label]
    if len(full) < len(documents):
        counts["documents left out for an empty field"] += len(documents) - len(full)
    return full


def _evaluate_retrieval(data: Data[list[Example]], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a query."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    notes = dict(data.notes)
    frames = []
    for dataset in data.sets:
        train, test = ([document for query in part for document in query] for part in (dataset.train, dataset.test))
        labels = np.array([float(document.label) for document in train])
        low, spread = labels.min(), np.ptp(labels) or 1.0
        targets = [np.array([(label - low) / spread], np.float32) for label in labels]
        encoded = [_encode(encoding, part) for part in (train, test)]
        runs = finetuning.fine_tune(system, options.settings(), encoded[0], targets, encoded[1], 1)
        frames.append(retrieval_rows(dataset, np.array([[float(score[0, 0]) for score in run] for run in runs])))
        twice = len(dataset.test) - len({query[0].texts[0] for query in dataset.test})
        notes[f"{dataset.name}: scored queries whose string stands there before"] = twice
    rows = pl.concat(frames).with_columns(number=pl.int_range(pl.len()))
    columns = tuple(f"{what}_run{run}" for run in range(1, options.runs + 1) for what in ("ordered", "wrong"))
    metrics = (Metric("ordered pairs", ("ordered",)), Metric("PAIR", columns, mean_pair, fraction=False))
    shares = [f"share_run{run}" for run in range(1, options.runs + 1)]
    figures = [*maxima(rows, shares, "ordered pairs", _column_means), *maxima(rows, columns, "PAIR", runs_pair)]
    return Result(rows, metrics, ("dataset", "seen"), figures, {**notes, "runs": options.runs})


@benchmark(Options, _evaluate_retrieval)
def retrieval(source: Source, options: Options) -> Data[list[Example]]:
    """Documents for a query, fine-tuned: are they put in the order of their relevance (cMedIR).

    A linear layer over [CLS] of query and title, trained five times by squared error to give the relevance, 0 to 4, as
    the scripts of Liu et al. 2022 do. Scored are pairs of one query's documents of different relevance: "ordered pairs"
    is the share of a query's pairs whose better document has the higher score (equal scores are half right), and PAIR,
    which the paper reports, the number of rightly ordered pairs to one wrongly ordered, over all queries. That is the
    scripts' definition, for the paper gives none; there a query has two documents. One's own files: NAME.PART.tsv with
    the columns query, title and label (a number, greater is better); lines of one query are its documents.
    """

    # An example is one query with its documents; those of one string stay together, for a split must not part them.
    def read(path: Path, counts: Counter[str]) -> list[list[list[Example]]]:
        queries: dict[str, list[list[Example]]] = {}
        for query in read_documents(path, counts):
            queries.setdefault(query[0].texts[0], []).append(query)
        return list(queries.values())

    return load_sets(source, options, SETS["retrieval"], read, lambda query: query[0].texts[0], ("json", "tsv"))


def retrieval_rows(dataset: Set[list[Example]], scores: NDArray[np.float64]) -> pl.DataFrame:
    """Return one row a query from the scores of all documents, (runs, documents)."""
    known = {query[0].texts[0] for query in dataset.train}
    rows: list[dict[str, Any]] = []
    start = 0
    for query in dataset.test:
        string, labels = query[0].texts[0], [float(document.label) for document in query]
        row: dict[str, Any] = {"dataset": dataset.name, "query": string, "documents": len(query)}
        row["seen"] = string in known
        for run, of_run in enumerate(scores[:, start : start + len(query)], 1):
            ordered, pairs = ordered_pairs(of_run, labels)
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
    """Return how many pairs of different labels (n,) have scores (n,) in the same order, and how many pairs there are.

    A pair of equal scores counts as half ordered.
    """
    by_score = np.sign(np.subtract.outer(scores, scores))
    by_label = np.sign(np.subtract.outer(labels, labels))
    better = by_label > 0
    return float((by_score[better] + 1).sum() / 2), int(better.sum())


def runs_pair(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each run's PAIR score, from (n, 2 runs) rightly and wrongly ordered pairs; infinite if none is wrong."""
    sums = values.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores: NDArray[np.float64] = sums[0::2] / sums[1::2]
    return scores


def mean_pair(values: NDArray[np.float64]) -> float:
    """Return the mean of `runs_pair`."""
    return float(runs_pair(values).mean())
