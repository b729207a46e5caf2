"""Words in common, against sets; whole words of tokenizers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.index.segment import count_words
from alphita.mention.words import Vocabulary, english_words, whole_words

word = st.sampled_from(["renal", "failure", "acute", "left", "of", "kidney", "x1", "癌"])
strings = st.lists(st.lists(word, max_size=4).map(" ".join), min_size=1, max_size=6)
N3 = np.arange(3)


def vocabulary(*indexed: str) -> Vocabulary:
    return Vocabulary(count_words(indexed), len(indexed))


@settings(max_examples=80, deadline=None)
@given(strings, strings, st.data())
def test_against_sets(indexed, asked, data):
    def weight(word: str) -> float:
        return math.log((len(indexed) + 1) / (sum(word in text.split() for text in indexed) + 1)) + 1

    rows = data.draw(st.lists(st.integers(0, len(asked) - 1), max_size=8))
    others = data.draw(st.lists(st.integers(0, len(indexed) - 1), min_size=len(rows), max_size=len(rows)))
    words, pairs = vocabulary(*indexed), (np.array(rows, np.int64), indexed, np.array(others, np.int64))
    found = words.compare(asked, *pairs)
    # Those of the index are kept, part by part.
    for count in (len(indexed) - 1, len(indexed), len(indexed)):
        among = np.array(others, np.int64) < count
        again = words.compare(
            asked, pairs[0][among], indexed[:count], pairs[2][among], strings=np.arange(count, dtype=np.int64)
        )
        for one, other in zip(found[:5], again, strict=False):
            np.testing.assert_array_equal(one[among], other)
    for place, (row, other) in enumerate(zip(rows, others, strict=True)):
        one, two = set(asked[row].split()), set(indexed[other].split())
        shared = sum(map(weight, one & two))
        assert found.of_left[place] == pytest.approx(shared / max(sum(map(weight, one)), 1e-9), abs=1e-6)
        assert found.of_right[place] == pytest.approx(shared / max(sum(map(weight, two)), 1e-9), abs=1e-6)
        assert found.same[place] == (bool(one) and one == two)
        ends = [(text.split() or [None])[end] for text in (asked[row], indexed[other]) for end in (0, -1)]
        assert found.first[place] == (ends[0] is not None and ends[0] == ends[2])
        assert found.last[place] == (ends[1] is not None and ends[1] == ends[3])
    assert found.counts.tolist() == [len(set(text.split())) for text in asked]


def test_how_much_of_a_string_is_known():
    nothing = np.zeros(0, np.int64)
    asked = ["renal failure", "zyx", "renal zyx", ""]
    known = vocabulary("renal failure", "renal agenesis").compare(asked, nothing, [], nothing).known
    assert known[0] == pytest.approx(1)
    assert known[1] == known[3] == 0
    assert 0 < known[2] < 0.5


def test_what_only_strings_that_are_not_there_have_is_unknown():
    asked = ["zorbal failure", "zorbal failure", "renal failure"]
    gone = [{"zorbal": 1, "failure": 1}, {}, {"renal": 2, "failure": 1, "agenesis": 1}]
    every = vocabulary("renal failure", "renal agenesis", "zorbal failure")
    found = every.compare(asked, N3, ["zorbal failure"] * 3, N3, gone)
    # "failure" stands in another string too; "renal" in none but the two.
    less = vocabulary("renal failure", "renal agenesis").compare(asked[:1], N3[:1], asked[:1], N3[:1])
    assert 0 < found.known[0] < 0.5
    assert found.known[1] == pytest.approx(1)
    assert less.known[0] == pytest.approx(found.known[0], abs=0.1)
    assert 0 < found.known[2] < 0.5
    assert found.of_left[0] == pytest.approx(found.known[0])  # what is unknown is shared with nothing
    assert found.of_left[1] == pytest.approx(1)


WORDPIECES = dict.fromkeys(["[PAD]", "[unused1]", "a", "of", "ear", "Headache", "##itis", "##s", "12", "##7", "頭"], 0)
WORDPIECES |= dict.fromkeys(["été", "Ġ", "▁x"], 0)


@pytest.mark.parametrize(
    ("vocabulary", "whole", "pieces"),
    [
        # WordPiece, SentencePiece, byte-level BPE, and one without marks, which is of whole words.
        (WORDPIECES, ["ear", "headache", "été"], ["itis"]),
        (
            [[piece, 0.0] for piece in ("<s>", "▁ear", "▁Kopf", "schmerz", "s", "▁", "##", "▁ab", "頭痛", "▁12")],
            ["ear", "kopf"],
            ["schmerz", "頭痛"],
        ),
        (
            dict.fromkeys(["Ġear", "ĠHeadache", "itis", "ĠcÃ©phal", "Ãł", "Ġab", "<|end|>", "Ġ"], 0),
            ["ear", "headache"],
            ["itis"],
        ),
        ({"ear": 0, "nose": 1}, ["ear", "nose"], []),
    ],
)
def test_whole_words_of_a_tokenizer(tmp_path, vocabulary, whole, pieces):
    assert whole_words(tmp_path) == ([], [])
    whole_words.cache_clear()
    assert whole_words(model(tmp_path, vocabulary)) == (whole, pieces)


def model(folder: Path, vocabulary: object) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"model": null}', '{"model": {}}', '{"model": {"vocab": null}}', "\xff"]
)
def test_what_is_no_tokenizer_has_no_words(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content.encode("latin-1"))
    assert whole_words(tmp_path) == ([], [])


def test_words_of_the_dictionary():
    assert {"gaiter", "tinkling"} <= english_words()
    assert "mirosis" not in english_words()
    assert len(english_words()) > 100_000
