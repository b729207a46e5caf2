"""Whole words and pieces of words of tokenizers of each kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alphita.mention.words import english_words, everyday_words, whole_words


def model(folder: Path, vocabulary: object) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    return folder


def test_wordpiece(tmp_path):
    tokens = [
        "[PAD]",
        "[unused1]",
        "a",
        "of",
        "ear",
        "Headache",
        "##itis",
        "##s",
        "12",
        "##7",
        "頭",
        "été",
        "Ġ",
        "▁x",
        "ear",
    ]
    assert whole_words(model(tmp_path, dict.fromkeys(tokens, 0))) == (["ear", "headache", "été"], ["itis"])


def test_sentencepiece(tmp_path):
    tokens = [
        ["<s>", 0.0],
        ["▁ear", -1.0],
        ["▁Kopf", -2.0],
        ["schmerz", -3.0],
        ["s", -4.0],
        ["▁", -5.0],
        ["##", -6.0],
        ["▁ab", -7.0],
        ["頭痛", -8.0],
        ["▁12", -9.0],
    ]
    assert whole_words(model(tmp_path, tokens)) == (["ear", "kopf"], ["schmerz", "頭痛"])


def test_byte_level(tmp_path):
    tokens = ["Ġear", "ĠHeadache", "itis", "ĠcÃ©phal", "Ãł", "Ġab", "<|end|>", "Ġ"]
    assert whole_words(model(tmp_path, dict.fromkeys(tokens, 0))) == (["ear", "headache"], ["itis"])


def test_a_vocabulary_without_marks_is_of_whole_words(tmp_path):
    assert whole_words(model(tmp_path, {"ear": 0, "nose": 1})) == (["ear", "nose"], [])


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"model": null}', '{"model": {}}', '{"model": {"vocab": null}}', "\xff"]
)
def test_what_is_no_tokenizer_has_no_words(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content.encode("latin-1"))
    assert whole_words(tmp_path) == ([], [])


def test_a_folder_without_a_tokenizer_has_no_words(tmp_path):
    assert whole_words(tmp_path) == ([], [])


def test_the_words_of_model_and_dictionary_are_joined_once(tmp_path):
    folder = model(tmp_path, {"▁kopfweh": 0, "▁ear": 1})
    words = everyday_words(folder)
    assert {"kopfweh", "ear", "gaiter", "tinkling"} <= words
    assert "mirosis" not in words
    # Every accepted answer asks for them.
    assert everyday_words(folder) is words
    assert len(english_words()) > 100_000
