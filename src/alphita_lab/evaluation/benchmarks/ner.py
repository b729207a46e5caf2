"""Named entities in a text, fine-tuned.

In health records (cEHRNER), patients' questions (cMedQANER), queries (QNER); in English, diseases in abstracts
(NCBI-Disease) and chemicals and diseases there (BC5CDR).

A linear layer over the state of each character's first token, trained five times; micro F1 of entities, right if both
ends and the type are. Texts too long for the encoder are tagged window by window, cut at sentence ends, so that every
entity counts; the scripts of Liu et al. 2022 cut the text and score what is left. A tag I that continues nothing
begins an entity, as in conlleval. Files:

- .txt: a character, a space and its tag (B_type, I_type, also with "-"; O) a line, and an empty line between texts;
- .tsv, for one's own queries: the columns query and entities, start:end:type;start:end:type, in characters from 0 of
  the field as it stands, white space counted (not the quotes that a spreadsheet put around it), the end not included,
  nothing if there is none. Tagged are Chinese characters one by one, else runs of letters or digits; an entity that
  ends inside of such a run is widened to all of it, and counted;
- of NCBI Disease and BC5CDR the files of `ncbi_disease` and `bc5cdr`, in PubTator's layout, tagged by the same words. A
  text is title and abstract. All four types of NCBI Disease are diseases; mentions without an id count too.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import polars as pl

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, _finetuned, _pubtator, about
from alphita_lab.evaluation.benchmarks._finetuned import Data, Options, Set, unquoted
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.finetuning import Encoding, count_columns, mean_f1, mean_precision, mean_recall
from alphita_lab.evaluation.scoring.results import Metric, Result

SETS = ("cEHRNER", "cMedQANER", "QNER", "NCBI-Disease", "BC5CDR")
# The files of a corpus, by itself or in the folder of the benchmark that maps its mentions.
CORPORA = {
    dataset: {
        part: [f"{folder}{name}" for folder in ("", f"{benchmark}/") for name in names]
        for part, names in _pubtator.CORPORA[benchmark].items()
    }
    for dataset, benchmark in (("NCBI-Disease", "ncbi_disease"), ("BC5CDR", "bc5cdr"))
}
INFO, PUBLISHED = about(__name__)
OUTSIDE = "O"
LINES = "expected lines of a character, a space and B_type, I_type or O, and an empty line between texts"
COLUMNS = "expected the columns query and entities, e.g. 0:3:brand;3:5:drug"

# A Chinese or Japanese character, a run of digits, a run of other letters, or any other mark.
WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\d+|[^\W\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]|_"
)

# The types of NCBI Disease; all are diseases.
DISEASES = ("SpecificDisease", "DiseaseClass", "CompositeMention", "Modifier")

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Sentence:
    """A text, where its characters or words stand in it (start, end), and a tag for each: "O", "B-type" or "I-type"."""

    text: str
    places: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.places]

    def written(self, entities: set[Span]) -> str:
        """Return entities as a person reads them: "headache (symptom); heart (body)"."""
        return "; ".join(
            f"{self.text[self.places[first][0] : self.places[end - 1][1]]} ({kind})"
            for first, end, kind in sorted(entities)
        )


def read(path: Path, counts: Counter[str]) -> list[list[Sentence]]:
    """Read tagged texts; see the head of this file."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        sentences, remedy = _read_spans(path, counts), COLUMNS
    elif _pubtator.TITLE.match(textio.read_text(path)):
        sentences, remedy = _read_pubtator(path, counts), _pubtator.LAYOUT
    else:
        sentences, remedy = _read_lines(path, counts), LINES
    if not sentences:
        raise InputError("holds no text", file=path, remedy=remedy)
    return [[sentence] for sentence in sentences]


def _read_lines(path: Path, counts: Counter[str]) -> list[Sentence]:
    sentences: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*textio.read_text(path).split("\n"), ""], 1):
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
    # White space at the head of a text is counted by the places of its entities.
    table = textio.held_rows(path, "\t", strip=False)
    header = [cell.strip().lower() for cell in table[0][1]] if table else []
    if "query" not in header or "entities" not in header:
        raise InputError("has no columns query and entities", file=path, line=1, remedy=COLUMNS)
    query, entities = header.index("query"), header.index("entities")
    sentences = []
    for number, cells in table[1:]:
        text = unquoted(cells[query], counts) if len(cells) > query else ""
        if not text.strip():
            counts["lines left out for an empty field"] += 1
            continue
        tagged = _Tagged(text, counts)
        # A line may end before an empty last column.
        for entity in filter(None, cells[entities].strip().split(";") if len(cells) > entities else []):
            if not tagged.mark(*_span(entity, path, number)):
                raise InputError(
                    "an entity outside the text or over another one",
                    file=path,
                    line=number,
                    field="entities",
                    value=entity,
                    remedy=COLUMNS,
                )
        sentences.append(tagged.sentence())
    return sentences


def _read_pubtator(path: Path, counts: Counter[str]) -> list[Sentence]:
    sentences = []
    for document in _pubtator.documents(path):
        if document.again:
            counts["texts left out, they stand there twice"] += 1
            continue
        tagged = _Tagged(document.text, counts)
        # Of two that overlap the one that begins first, or else the longer one.
        for mention in sorted(document.mentions, key=lambda mention: (mention.start, -mention.end)):
            kind = "Disease" if mention.type in DISEASES else mention.type
            if document.text[mention.start : mention.end] != mention.text:
                counts["entities left out, they do not stand where they should"] += 1
            elif not tagged.mark(mention.start, mention.end, kind):
                counts["entities left out, over another one"] += 1
        sentences.append(tagged.sentence())
    return sentences


class _Tagged:
    def __init__(self, text: str, counts: Counter[str]) -> None:
        self._text, self._counts = text, counts
        self._places = tuple(match.span() for match in WORD.finditer(text))
        self._tags = [OUTSIDE] * len(self._places)

    def mark(self, start: int, end: int, kind: str) -> bool:
        """Tag an entity, if it lies in the text and over no other one; tell whether."""
        first = bisect.bisect_right(self._places, start, key=itemgetter(1))
        behind = bisect.bisect_left(self._places, end, key=itemgetter(0))
        if end > len(self._text) or first >= behind or any(tag != OUTSIDE for tag in self._tags[first:behind]):
            return False
        if self._places[first][0] < start or self._places[behind - 1][1] > end:
            self._counts["entities widened to whole words"] += 1
        self._tags[first:behind] = [f"B-{kind}", *[f"I-{kind}"] * (behind - first - 1)]
        return True

    def sentence(self) -> Sentence:
        return Sentence(self._text, self._places, tuple(self._tags))


def _span(written: str, path: Path, line: int) -> Span:
    start, _, rest = written.strip().partition(":")
    end, _, kind = rest.partition(":")
    first, last = textio.whole_number(start), textio.whole_number(end)
    if first is None or last is None or not kind.strip():
        raise InputError("not an entity", file=path, line=line, field="entities", value=written, remedy=COLUMNS)
    if first >= last:
        raise InputError(
            "an entity that does not end behind its beginning",
            file=path,
            line=line,
            field="entities",
            value=written,
            remedy=COLUMNS,
        )
    return first, last, kind.strip()


def _string(sentence: Sentence) -> str:
    return sentence.text.strip()


def load(source: Source, options: Options) -> Data[Sentence]:
    """Read the sets whose files are there."""
    return _finetuned.load_sets(source, options, SETS, read, _string, corpora=CORPORA)


def spans(tags: Sequence[str]) -> set[Span]:
    """Return the entities that tags mark: (first, one past the last, type)."""
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
    """Fine-tune and score one encoder; one row a scored text."""
    encoding = Encoding(finetuning.encoder_of(system, options.max_length))
    frames, tables, notes = [], {}, dict(data.notes)
    for dataset in data.sets:
        predicted = _tag(dataset, system, encoding, options)
        frame, types = _score(dataset, predicted)
        frames.append(frame)
        if len(types):
            tables[f"{dataset.name}: by type of entity, mean of runs"] = types
        else:
            notes[f"{dataset.name}: by type of entity"] = "no figures, for no scored text has an entity"
    columns = count_columns(options.runs)
    others = (Metric("precision", columns, mean_precision), Metric("recall", columns, mean_recall))
    result = _finetuned.f1_result(pl.concat(frames), options, notes, others)
    result.tables = tables
    return result


def _tag(dataset: Set[Sentence], system: object, encoding: Encoding, options: Options) -> list[list[list[str]]]:
    tags = sorted({tag for sentence in dataset.train for tag in sentence.tags})
    numbers = {tag: number for number, tag in enumerate(tags)}
    train, targets = [], []
    for sentence in dataset.train:
        for part, window in encoding.words(sentence.words):
            train.append(window)
            targets.append(np.array([numbers[tag] for tag in sentence.tags[part]]))
    windows = [encoding.words(sentence.words) for sentence in dataset.test]
    test = [window for text_windows in windows for _, window in text_windows]
    tags_of_runs = []
    for run in finetuning.fine_tune(system, options.settings(), train, targets, test, len(tags)):
        logits = iter(run)
        tags_of_runs.append(
            [[tags[number] for _ in text_windows for number in next(logits).argmax(axis=1)] for text_windows in windows]
        )
    return tags_of_runs


def _score(dataset: Set[Sentence], predicted: list[list[list[str]]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one row a text, and one a type of entity."""
    known = set(map(_string, dataset.train))
    gold = [spans(sentence.tags) for sentence in dataset.test]
    entities = [[spans(tags) for tags in run] for run in predicted]
    columns: dict[str, list[object]] = {
        "dataset": [dataset.name] * len(gold),
        "query": [sentence.text for sentence in dataset.test],
        "gold": [sentence.written(found) for sentence, found in zip(dataset.test, gold, strict=True)],
        "predicted": [sentence.written(found) for sentence, found in zip(dataset.test, entities[0], strict=True)],
        "seen": [_string(sentence) in known for sentence in dataset.test],
        "gold_count": [len(found) for found in gold],
    }
    for number, run in enumerate(entities, 1):
        columns[f"right_run{number}"] = [len(left & right) for left, right in zip(gold, run, strict=True)]
        columns[f"predicted_run{number}"] = [len(found) for found in run]
    types = []
    for kind in sorted({kind for found in gold for *_, kind in found}):
        # Columns as `mean_f1` takes them: gold, and right and predicted of each run.
        counts = np.zeros((len(gold), 1 + 2 * len(entities)))
        for row, (left, *runs) in enumerate(zip(gold, *entities, strict=True)):
            parts = [left, *(part for right in runs for part in (left & right, right))]
            counts[row] = [sum(span[2] == kind for span in part) for part in parts]
        types.append(
            {
                "type": kind,
                "entities": int(counts[:, 0].sum()),
                "precision": mean_precision(counts),
                "recall": mean_recall(counts),
                "F1": mean_f1(counts),
            }
        )
    schema = {"type": pl.String, "entities": pl.Int64, "precision": pl.Float64, "recall": pl.Float64, "F1": pl.Float64}
    return pl.DataFrame(columns), pl.DataFrame(types, schema=schema)
