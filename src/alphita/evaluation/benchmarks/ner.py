"""Named entities in a text, fine-tuned: in health records (cEHRNER), patients' questions (cMedQANER), queries (QNER).

A linear layer over the state of each character's first token, trained five times; micro F1 of entities, right if both
ends and the type are. Texts too long for the encoder are tagged window by window, cut at sentence ends, so that every
entity counts; the scripts of Liu et al. 2022 cut the text and score what is left. A tag I that continues nothing
begins an entity, as in conlleval. Files:

- .txt: a character, a space and its tag (B_type, I_type, also with "-"; O) a line, and an empty line between texts;
- .tsv, for one's own queries: the columns query and entities, start:end:type;start:end:type, in characters from 0, the
  end not included, nothing if there is none. Tagged are Chinese characters one by one, else runs of letters or digits;
  an entity that ends inside of such a run is widened to all of it, and counted.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from alphita.errors import InputError
from alphita.evaluation import finetuning
from alphita.evaluation.benchmarks import Info, Source, _chineseblue
from alphita.evaluation.benchmarks._chineseblue import Data, Set, unquoted
from alphita.evaluation.benchmarks._pair_files import read_table, read_text
from alphita.evaluation.finetuning import Encoding, count_columns, mean_f1, mean_precision, mean_recall
from alphita.evaluation.results import Metric, Result

SETS = ("cEHRNER", "cMedQANER", "QNER")
INFO = Info(
    title="named entities in health records, patients' questions and queries",
    task="fine-tuned",
    citation=_chineseblue.CITATION + "; the entities in queries of Liu et al. 2022",
    where=f"{_chineseblue.WHERE} (cEHRNER, cMedQANER). QNER is not public: give your own QNER.train.tsv, "
    "QNER.test.tsv, ... with the columns query, entities",
    systems="encoder",
    tested_on_real_data=True,
    main_metric="F1",
)
CUT = "the scripts cut a text at 128 tokens and do not score what follows; here all of it is scored; "
PUBLISHED = _chineseblue.published({
    "cEHRNER": CUT + "scored on a test part that may not be the one given here",
    "cMedQANER": CUT + "scored on a test part that may not be the one given here",
    "QNER": "the paper's own data, which are not public",
})  # fmt: skip
OUTSIDE = "O"
LINES = "expected lines of a character, a space and B_type, I_type or O, and an empty line between texts"
COLUMNS = "expected the columns query and entities, e.g. 0:3:brand;3:5:drug"

# A Chinese or Japanese character, a run of digits, a run of other letters, or any other mark.
WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\d+|[^\W\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]|_"
)

Span = tuple[int, int, str]


class Options(_chineseblue.Options):
    """How to fine-tune, and which sets."""


@dataclass(frozen=True)
class Sentence:
    """A text, where its characters or words stand in it (start, end), and a tag for each: "O", "B-type" or "I-type"."""

    text: str
    places: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The characters or words."""
        return [self.text[start:end] for start, end in self.places]

    def written(self, some: set[Span]) -> str:
        """Return entities as a person reads them: "headache (symptom); heart (body)"."""
        return "; ".join(
            f"{self.text[self.places[first][0] : self.places[end - 1][1]]} ({kind})"
            for first, end, kind in sorted(some)
        )


def read(path: Path, counts: Counter[str]) -> list[list[Sentence]]:
    """Read tagged texts; see the head of this file.

    Raises:
        InputError: another layout, another tag, spans that overlap or lie outside the text, or no text is there.
    """
    with_header = path.name.removesuffix(".gz").endswith(".tsv")
    sentences = _read_spans(path, counts) if with_header else _read_lines(path, counts)
    if not sentences:
        raise InputError("holds no text", file=path, remedy=COLUMNS if with_header else LINES)
    return [[one] for one in sentences]


def _read_lines(path: Path, counts: Counter[str]) -> list[Sentence]:
    sentences: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*read_text(path).split("\n"), ""], 1):
        line = line.rstrip("\r")
        if not line.strip():
            if words:
                ends = [0, *itertools.accumulate(map(len, words))]
                sentences.append(Sentence("".join(words), tuple(itertools.pairwise(ends)), tuple(tags)))
            words, tags = [], []
            continue
        word, _, tag = line.rpartition("\t" if "\t" in line else " ")
        if not word or not (tag == OUTSIDE or (tag[:2] in ("B_", "I_", "B-", "I-") and len(tag) > 2)):
            raise InputError("not a character and its tag", file=path, line=number, value=line, remedy=LINES)
        words.append(word)
        tags.append(tag if tag == OUTSIDE else f"{tag[0]}-{tag[2:]}")
        if tag[0] == "I" and (len(tags) == 1 or tags[-2] not in (tags[-1], "B" + tags[-1][1:])):
            counts["tags I that continue nothing, taken as B"] += 1
    return sentences


def _read_spans(path: Path, counts: Counter[str]) -> list[Sentence]:
    table = read_table(path, "\t")
    header = [cell.lower() for cell in table[0][1]] if table else []
    if "query" not in header or "entities" not in header:
        raise InputError("has no columns query and entities", file=path, line=1, remedy=COLUMNS)
    query, entities = header.index("query"), header.index("entities")
    sentences = []
    for number, cells in table[1:]:
        if len(cells) <= query or not cells[query]:
            counts["lines left out for an empty field"] += 1
            continue
        text = unquoted(cells[query], counts)
        places = tuple(match.span() for match in WORD.finditer(text))
        tags = [OUTSIDE] * len(places)
        # A line may end before an empty last column.
        for one in filter(None, cells[entities].split(";") if len(cells) > entities else []):
            start, end, kind = _span(one, path, number)
            inside = [word for word, place in enumerate(places) if place[0] < end and start < place[1]]
            if end > len(text) or not inside or any(tags[word] != OUTSIDE for word in inside):
                raise InputError(
                    "an entity outside the text or over another one", file=path, line=number, field="entities",
                    value=one, remedy=COLUMNS,
                )  # fmt: skip
            if places[inside[0]][0] < start or places[inside[-1]][1] > end:
                counts["entities widened to whole words"] += 1
            for word in inside:
                tags[word] = f"{'B' if word == inside[0] else 'I'}-{kind}"
        sentences.append(Sentence(text, places, tuple(tags)))
    return sentences


def _span(written: str, path: Path, line: int) -> Span:
    start, _, rest = written.strip().partition(":")
    end, _, kind = rest.partition(":")
    if not (start.isdecimal() and end.isdecimal() and kind.strip()):
        raise InputError("not an entity", file=path, line=line, field="entities", value=written, remedy=COLUMNS)
    return int(start), int(end), kind.strip()


def load(source: Source, options: Options) -> Data[Sentence]:
    """Read the sets whose files are there.

    Raises:
        UsageError: no data folder.
        InputError: no set is there, or a file is of another layout.
    """
    return _chineseblue.load(source, options, SETS, ("txt", "tsv"), read)


def spans(tags: Sequence[str]) -> set[Span]:
    """Return the entities that tags mark: (first, one past the last, type).

    A tag I behind another type or behind O begins an entity, as in conlleval and seqeval's default mode.
    """
    found: set[Span] = set()
    start = 0
    for place in range(1, len(tags) + 1):
        before = tags[place - 1]
        goes_on = place < len(tags) and before != OUTSIDE and tags[place] == "I" + before[1:]
        if not goes_on:
            if before != OUTSIDE:
                found.add((start, place, before[2:]))
            start = place
    return found


def evaluate(data: Data[Sentence], system: object, options: Options) -> Result:
    """Fine-tune and score one encoder; one row a scored text.

    Raises:
        UsageError: the system is no encoder.
    """
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    frames, tables = [], {}
    for one in data.sets:
        predicted = _tag(one, system, encoding, options)
        frame, types = _score(one, predicted)
        frames.append(frame)
        tables[f"{one.name}: by type of entity, mean of runs"] = types
    columns = count_columns(options.runs)
    others = (Metric("precision", columns, mean_precision), Metric("recall", columns, mean_recall))
    result = _chineseblue.f1_result(pl.concat(frames), options, data.notes, others)
    result.tables = tables
    return result


def _tag(one: Set[Sentence], system: object, encoding: Encoding, options: Options) -> list[list[list[str]]]:
    """Return the tags of each scored text by each run."""
    tags = sorted({tag for sentence in one.train for tag in sentence.tags})
    numbers = {tag: number for number, tag in enumerate(tags)}
    train, targets = [], []
    for sentence in one.train:
        for part, window in encoding.words(sentence.words):
            train.append(window)
            targets.append(np.array([numbers[tag] for tag in sentence.tags[part]]))
    windows = [encoding.words(sentence.words) for sentence in one.test]
    test = [window for some in windows for _, window in some]
    found = []
    for run in finetuning.fine_tune(system, options.settings(), train, targets, test, len(tags)):
        logits = iter(run)
        found.append([
            [tags[number] for _ in some for number in next(logits).argmax(axis=1)] for some in windows
        ])  # fmt: skip
    return found


def _score(one: Set[Sentence], predicted: list[list[list[str]]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one row a text, and one a type of entity."""
    known = {sentence.text for sentence in one.train}
    gold = [spans(sentence.tags) for sentence in one.test]
    found = [[spans(tags) for tags in run] for run in predicted]
    columns: dict[str, list[object]] = {
        "dataset": [one.name] * len(gold), "query": [sentence.text for sentence in one.test],
        "gold": [sentence.written(some) for sentence, some in zip(one.test, gold, strict=True)],
        "predicted": [sentence.written(some) for sentence, some in zip(one.test, found[0], strict=True)],
        "seen": [sentence.text in known for sentence in one.test], "gold_count": [len(some) for some in gold],
    }  # fmt: skip
    for number, run in enumerate(found, 1):
        columns[f"right_run{number}"] = [len(left & right) for left, right in zip(gold, run, strict=True)]
        columns[f"predicted_run{number}"] = [len(some) for some in run]
    types = []
    for kind in sorted({kind for some in gold for *_, kind in some}):
        # Columns as `mean_f1` takes them: gold, and right and predicted of each run.
        counts = np.zeros((len(gold), 1 + 2 * len(found)))
        for row, (left, *runs) in enumerate(zip(gold, *found, strict=True)):
            parts = [left, *(part for right in runs for part in (left & right, right))]
            counts[row] = [sum(span[2] == kind for span in part) for part in parts]
        types.append({
            "type": kind, "entities": int(counts[:, 0].sum()), "precision": mean_precision(counts),
            "recall": mean_recall(counts), "F1": mean_f1(counts),
        })  # fmt: skip
    schema = {"type": pl.String, "entities": pl.Int64, "precision": pl.Float64, "recall": pl.Float64, "F1": pl.Float64}
    return pl.DataFrame(columns), pl.DataFrame(types, schema=schema)
