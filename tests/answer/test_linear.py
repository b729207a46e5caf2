"""The time of a mention, and of a text, grows no faster than its length: a request of one pattern stops nobody."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from alphita.annotation.annotator import Annotator
from alphita.annotation.spans import Document
from alphita.answer.normalizer import Normalizer
from alphita.answer.pipeline import Pipeline
from alphita.index.lookup import MAX_ENCODED_CHARACTERS
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.assertion import TOO_LONG
from tests.answer.synthetic import VocabularyEncoder, synthetic_terminology
from tests.doubles import HashEncoder

# Mentions are cut at 4,096 characters, and sentences at 400 words.
SIZES = {"mention": MAX_ENCODED_CHARACTERS // 2, "text": 3_000}
# Times as long for twice the length, and seconds that do not count.
MOST, FLOOR = 2.6, 0.03
PATTERNS = [json.loads(line) for line in Path(__file__).with_name("repeated.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    index = build(synthetic_terminology(), VocabularyEncoder(), tmp_path_factory.mktemp("linear") / "x.index")
    pipeline = Pipeline(index, VocabularyEncoder, Abbreviations.of_index(index), respell=True)
    return lambda string: pipeline.candidates(pipeline.ask([string], ["fever"])[0])


@pytest.fixture(scope="module")
def annotate(index_path):
    annotator = Annotator(Normalizer(Index.open(index_path), encoder=HashEncoder()))
    return lambda string: annotator.annotate([Document("", string)])


def seconds(work, string: str) -> float:
    start = time.process_time()
    work(string)
    return time.process_time() - start


@pytest.mark.parametrize("kind", SIZES)
def test_twice_as_long_takes_twice_as_long(kind, request):
    work, size = request.getfixturevalue({"mention": "read", "text": "annotate"}[kind]), SIZES[kind]
    work("left drall ache")
    slow = {}
    for number, pattern in enumerate(PATTERNS):
        # Another string each time: nothing is remembered.
        once, twice = (
            [f"{run}{number} {pattern * (length // len(pattern))}"[:length] for run in range(3)]
            for length in (size, 2 * size)
        )
        for before, after in zip(once, twice, strict=True):
            first, second = seconds(work, before), seconds(work, after)
            if second <= MOST * first + FLOOR:
                break
        else:
            slow[pattern] = round(first, 3), round(second, 3)
    assert not slow


def test_a_mention_is_cut_and_not_accepted(tmp_path):
    index = build(synthetic_terminology(), VocabularyEncoder(), tmp_path / "x.index")
    pipeline = Pipeline(index, VocabularyEncoder, respell=True)
    long, cut = pipeline.read(["drall ache " * 400, ("drall ache " * 400)[:MAX_ENCODED_CHARACTERS]])
    assert (long.string, long.doubt, cut.doubt) == (cut.string, TOO_LONG, "")
