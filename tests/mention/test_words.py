"""Words in common, against sets; whole words of tokenizers; words that a terminology says for each other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.index.sources import terminology_of
from alphita.index.store import build
from alphita.mention.word_pairs import WordSynonyms
from alphita.mention.words import Vocabulary, english_words, everyday_words, whole_words
from alphita.terminology.store import load_terminology
from tests.doubles import HashEncoder

word = st.sampled_from(["renal", "failure", "acute", "left", "of", "kidney", "x1", "癌"])
strings = st.lists(st.lists(word, max_size=4).map(" ".join), min_size=1, max_size=6)
N3 = np.arange(3)


def vocabulary(*indexed: str) -> Vocabulary:
    return Vocabulary(pa.array(indexed, pa.large_string()))


@settings(max_examples=80, deadline=None)
@given(strings, strings, st.data())
def test_against_sets(indexed, asked, data):
    def weight(word: str) -> float:
        return math.log((len(indexed) + 1) / (sum(word in text.split() for text in indexed) + 1)) + 1

    rows = data.draw(st.lists(st.integers(0, len(asked) - 1), max_size=8))
    others = data.draw(st.lists(st.integers(0, len(indexed) - 1), min_size=len(rows), max_size=len(rows)))
    found = vocabulary(*indexed).compare(asked, np.array(rows, np.int64), indexed, np.array(others, np.int64))
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


def test_the_words_of_model_and_dictionary_are_joined_once(tmp_path):
    folder = model(tmp_path, {"▁kopfweh": 0, "▁ear": 1})
    words = everyday_words(folder)
    assert {"kopfweh", "ear", "gaiter", "tinkling"} <= words
    assert "mirosis" not in words
    # Every accepted answer asks for them.
    assert everyday_words(folder) is words
    assert len(english_words()) > 100_000


TABLE = """id,term
X:1,Renal cyst
X:1,Cyst of the kidneys
X:1,Renal tumour
X:2,Lung nodule
X:2,Pulmonary nodules
X:3,Voice
X:3,Vocal
X:4,Large red hand
X:4,Big wet hand
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("kidney", "renal", True),
        ("renal", "kidneys", True),
        ("lung", "pulmonary", True),
        ("cyst", "tumor", True),
        # Not of the same concept; nothing in common; two words apart.
        ("renal", "pulmonary", False),
        ("voice", "vocal", False),
        ("large", "big", False),
        ("renal", "renal", False),
    ],
)
def test_words_by_which_alone_two_names_of_a_concept_differ(tmp_path: Path, one, other, expected):
    table = tmp_path / "own.csv"
    table.write_text(TABLE, encoding="utf-8")
    index = build(load_terminology(terminology_of(table)), HashEncoder(), tmp_path / "own.index")
    synonyms = WordSynonyms(index.segment)
    assert ((one, other) in synonyms) is expected
    assert ((other, one) in synonyms) is expected
