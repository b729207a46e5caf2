from __future__ import annotations

import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from alphita.encoder.wordpieces import count_words
from alphita.errors import UsageError
from alphita_lab.training.text import corpora

TEXTS = ["Perché la tosse, perché la febbre?", "la tosse e la febbre", "Tosse secca; febbre alta."] * 5


def trained(folder: Path, texts: list[str] = TEXTS, size: int = 60, **settings: bool) -> Tokenizer:
    words = count_words(texts, corpora.empty(**settings))
    assert corpora.train(words, size, folder / "tokenizer.json", **settings) <= size
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_frequent_words_become_tokens_and_special_ones_come_first(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path)
    assert [tokenizer.token_to_id(token) for token in corpora.SPECIAL] == [0, 1, 2, 3, 4]
    encoded = tokenizer.encode("La TOSSE!", "Febbre")
    assert encoded.tokens == ["[CLS]", "la", "tosse", "[UNK]", "[SEP]", "febbre", "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 0, 1, 1]
    assert tokenizer.encode("[MASK]", add_special_tokens=False).ids == [4]
    assert tokenizer.get_vocab_size() <= 60


def test_case_and_accents_are_kept_on_request(tmp_path: Path) -> None:
    assert "perche" in trained(tmp_path).get_vocab()
    kept = trained(tmp_path, accents=True).get_vocab()
    assert "perché" in kept
    assert "perche" not in kept
    assert "Perché" in trained(tmp_path, size=90, lower_case=False, accents=True).get_vocab()


def test_the_order_of_the_texts_does_not_matter(tmp_path: Path) -> None:
    shuffled = TEXTS.copy()
    random.Random(0).shuffle(shuffled)
    one = trained(tmp_path).to_str()
    assert trained(tmp_path, shuffled).to_str() == one


def test_a_size_below_the_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="below the"):
        trained(tmp_path, size=12)
    assert not list(tmp_path.iterdir())
