from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from alphita.errors import InputError, UsageError
from alphita.terminology.text import clean
from alphita_lab.encoder.wordpieces import count_words, fertility, open_wordpiece
from alphita_lab.training.text import corpora
from alphita_lab.training.text.corpora import Specials, open_tokenizer
from alphita_lab.training.text.matching import HeldOut
from alphita_lab.training.text.sequences import hold_out, pack, read

CLS, SEP = 2, 3
NONE = HeldOut(())


@pytest.fixture(scope="module")
def opened(model: Path) -> tuple[Tokenizer, Specials]:
    tokenizer, _, specials = open_tokenizer(model)
    return tokenizer, specials


def packed(texts: list[str], opened: tuple[Tokenizer, Specials], **given: object) -> tuple[list[list[int]], dict]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "sequences"
        options: dict = {"length": 10, "held_out": NONE} | given
        pack(iter(texts), *opened, folder, **options)
        table, counts = read(folder)
        rows = [table.rows(np.array([row]))[0].tolist() for row in range(len(table))]
        return rows, counts


def shown(rows: list[list[int]], tokenizer: Tokenizer) -> list[str]:
    return [" ".join(str(tokenizer.id_to_token(number)) for number in row) for row in rows]


def test_short_documents_share_a_sequence_and_long_ones_are_cut_between_words(opened) -> None:
    texts = ["heart pain", "", "the liver", "lung", "ab of the skin swelling cd of the eye brain", "bone"]
    rows, counts = packed(texts, opened, length=9)
    assert shown(rows, opened[0]) == [
        "[CLS] heart pain [SEP] the liver [SEP] lung [SEP]",
        "[CLS] a ##b of the skin swelling [SEP]",
        "[CLS] c ##d of the eye brain [SEP]",
        "[CLS] bone [SEP]",
    ]
    assert counts == {
        "documents": 6,
        "empty": 1,
        "pieces": 6,
        "pieces_with_held_out": 0,
        "tokens": 28,
        "sequences": 4,
        "held_out_too_short": 0,
    }


def by_hand(texts: list[str], tokenizer: Tokenizer, length: int) -> list[list[int]]:
    """The rule, word by word."""
    room = length - 2
    pieces: list[list[int]] = []
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        words: dict[int, list[int]] = {}
        for number, word in zip(encoding.ids, encoding.word_ids, strict=True):
            words.setdefault(word, []).append(number)
        piece: list[int] = []
        for word in words.values():
            if piece and len(piece) + len(word) > room:
                pieces.append(piece)
                piece = []
            piece = piece + word
            while len(piece) > room:
                pieces.append(piece[:room])
                piece = piece[room:]
        if piece:
            pieces.append(piece)
    joined: list[list[int]] = []
    for piece in pieces:
        if joined and len(joined[-1]) + 1 + len(piece) <= room:
            joined[-1] = [*joined[-1], SEP, *piece]
        else:
            joined.append(piece)
    return [[CLS, *one, SEP] for one in joined]


WORDS = st.sampled_from(["heart", "of", "the", "abc", "defghij", "pain", "xyxyxyxyxyxy", ",", "è"])


@given(st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=8), st.integers(3, 14))
@settings(max_examples=60)
def test_packing_is_that_of_the_rule_word_by_word(opened, texts: list[str], length: int) -> None:
    if not any(texts):
        with pytest.raises(InputError, match="no text to train on"):
            packed(texts, opened, length=length)
        return
    rows, counts = packed(texts, opened, length=length)
    assert rows == by_hand(texts, opened[0], length)
    assert counts["sequences"] == len(rows)
    assert counts["tokens"] == sum(map(len, rows))


def test_a_piece_with_a_held_out_string_is_dropped_and_counted(opened) -> None:
    held_out = HeldOut([clean("Heart pain"), clean("périnée"), clean("x")])
    assert held_out.too_short == 1
    texts = [
        "pain of the heart",
        "HEART-PAIN of the lung",
        "heart pains",
        "the perinee of the brain",
        "x",
        "of the liver of the lung of the bone, heart pain; skin swelling of the eye",
    ]
    rows, counts = packed(texts, opened, held_out=held_out, length=12)
    assert counts["pieces_with_held_out"] == 3
    assert counts["held_out_too_short"] == 1
    told = " ".join(shown(rows, opened[0]))
    assert "heart pain [" not in told
    assert "heart pain ##s" in told
    assert "p ##e" not in told
    assert "of the liver of the lung of the bone" in told, "the piece before is kept"
    assert "skin" not in told, "the rest of the piece is not"


def test_no_cut_goes_through_a_held_out_string(opened) -> None:
    held_out = HeldOut([clean("swelling of the heart")])
    for before in range(12):
        text = f"{'the ' * before}swelling of the heart {'eye ' * 8}"
        rows, counts = packed([text], opened, held_out=held_out, length=10)
        assert counts["pieces_with_held_out"] == 1
        told = " ".join(shown(rows, opened[0]))
        assert "swelling" not in told
        assert "heart" not in told


def test_held_out_strings_are_cut_out_of_what_is_counted() -> None:
    held_out = HeldOut([clean("heart pain")])
    texts = ["a heart pain, Heart-Pain b", "heart pains", "", "pain"]
    assert list(held_out.cut_out(texts)) == ["a  ,   b", "heart pains", "", "pain"]
    assert list(NONE.cut_out(texts)) == texts
    assert held_out.spans([]) == []


def test_a_corpus_without_text_is_a_clear_error(opened) -> None:
    for texts in ([], ["", "  "]):
        with pytest.raises(InputError, match=r"no text to train on: .*; look at corpus"):
            packed(texts, opened)
    with pytest.raises(InputError, match="1 pieces with held-out strings"):
        packed(["heart pain"], opened, held_out=HeldOut(["heart pain"]))


@given(st.integers(2, 400), st.floats(0, 0.6), st.integers(0, 5))
def test_dev_sequences_are_a_share_drawn_by_the_seed(n: int, share: float, seed: int) -> None:
    trained, dev = hold_out(n, int(share * n), [seed])
    assert sorted([*trained, *dev]) == list(range(n))
    assert len(dev) == int(share * n)
    assert np.array_equal(dev, hold_out(n, int(share * n), [seed])[1])


def test_dev_sequences_leave_some_to_train_on() -> None:
    assert not np.array_equal(hold_out(100, 20, [0])[1], hold_out(100, 20, [1])[1])
    with pytest.raises(InputError, match="none of them left"):
        hold_out(1, 1, [0])


# What a corpus would add to the vocabulary.


def test_learnt_tokens_and_their_shares(model: Path) -> None:
    like = open_wordpiece(model)
    counted = count_words(["polmone polmone heart heart heart ž ž polmonite polmonite"] * 5, like)
    names = Counter({"polmone": 1, "heart": 1})
    learnt = corpora.learn({"corpus": counted, "names": names}, 60, like=like)
    old = like.get_vocab()
    assert {"polmone", "polmonite"} <= set(learnt.tokens)
    assert not set(learnt.tokens) & set(old)
    figures = learnt.figures
    assert figures["added"] == len(learnt.tokens)
    assert figures["trained"] <= 60
    # Each trained token is known or added: no other reason here.
    assert figures["in_common"] == pytest.approx(1 - len(learnt.tokens) / figures["trained"])
    # The tiny vocabulary has all letters, with accents taken off: all new tokens are composed.
    assert figures["composed"] == 1.0
    assert figures["names_tokens_a_word_before"] == (len("polmone") + 1) / 2
    assert figures["names_tokens_a_word_after"] == 1.0
    before = fertility(counted, like.model)
    assert figures["corpus_tokens_a_word_before"] == before.tokens_a_word
    assert learnt.examples[0] == ["polmonite", ["p", *(f"##{letter}" for letter in "olmonite")], ["polmonite"]]


def test_tokens_of_foreign_letters_are_not_composed(model: Path) -> None:
    like = open_wordpiece(model)
    learnt = corpora.learn({"corpus": Counter({"боль": 9, "ab": 5})}, 20, like=like)
    spelt = [token for token in learnt.tokens if token.removeprefix("##").isascii()]
    assert learnt.figures["composed"] == pytest.approx(len(spelt) / len(learnt.tokens))
    assert 0 < learnt.figures["composed"] < 1


def test_no_gain_is_a_clear_error(model: Path) -> None:
    like = open_wordpiece(model)
    with pytest.raises(UsageError, match=r"gains nothing: of 4 tokens trained 4 are known.*vocabulary=0"):
        corpora.learn({"corpus": Counter({"of": 4})}, 4, like=like)


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
