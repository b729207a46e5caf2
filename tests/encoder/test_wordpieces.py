from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from alphita.errors import UsageError
from alphita_lab.encoder.wordpieces import (
    changed,
    count_words,
    extended_model,
    fertility,
    most_saving,
    new_ids,
    open_wordpiece,
    propose,
    sparing,
    split,
    train_wordpiece,
    why_not,
    words_of,
)

from .conftest import VOCABULARY, write_model


def bert_like(vocabulary: list[str] = VOCABULARY, *, lowercase: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({token: n for n, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    return tokenizer


LIKE = bert_like()
LETTERS = st.text("abc", min_size=1, max_size=6)
COUNTS = st.dictionaries(LETTERS, st.integers(1, 4), min_size=1, max_size=12)
PIECES = st.sets(st.builds("{}{}".format, st.sampled_from(["", "##"]), st.text("abc", min_size=1, max_size=3)))


def pieces_of(model: models.WordPiece, word: str) -> list[str]:
    return [piece.value for piece in model.tokenize(word)]


def naive_training(words: dict[str, int], size: int, min_frequency: int) -> list[str]:
    """Join the most frequent pair, again and again; of equally frequent ones that of the lowest numbers."""
    tokens = sorted(set("".join(words))) + sorted({"##" + letter for word in words for letter in word[1:]})
    spelt = {word: [word[0], *("##" + letter for letter in word[1:])] for word in words}
    while len(tokens) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, pieces in spelt.items():
            for pair in itertools.pairwise(pieces):
                pairs[pair] += words[word]
        numbered = [
            (-count, tokens.index(left), tokens.index(right), left, right)
            for (left, right), count in pairs.items()
            if count >= min_frequency
        ]
        if not numbered:
            break
        *_, left, right = min(numbered)
        joined = left + right.removeprefix("##")
        if joined not in tokens:
            tokens.append(joined)
        for word, pieces in spelt.items():
            place, merged = 0, []
            while place < len(pieces):
                if pieces[place : place + 2] == [left, right]:
                    merged.append(joined)
                    place += 2
                else:
                    merged.append(pieces[place])
                    place += 1
            spelt[word] = merged
    return tokens


def trained_on(texts: Iterable[str], size: int, *, like: Tokenizer, min_frequency: int = 2) -> list[str]:
    """Train on texts; the words are counted first."""
    return train_wordpiece(count_words(texts, like), size, like=like, min_frequency=min_frequency)


@given(COUNTS, st.integers(6, 20), st.integers(1, 3))
def test_training_joins_the_most_frequent_pair_again_and_again(words, size, min_frequency):
    frequency: Counter[str] = Counter()
    for word, count in words.items():
        frequency.update({letter: count * word.count(letter) for letter in set(word)})
    rare = {letter for letter, count in frequency.items() if count < min_frequency}
    usable = {word: count for word, count in words.items() if not rare & set(word)}
    texts = [" ".join([word] * count) for word, count in words.items()]
    if not usable:
        with pytest.raises(UsageError, match="no word to train on"):
            trained_on(texts, size, like=LIKE, min_frequency=min_frequency)
        return
    expected = naive_training(usable, size, min_frequency)
    assert trained_on(texts, size, like=LIKE, min_frequency=min_frequency) == expected


def test_training_does_not_depend_on_the_order_of_texts():
    chance = random.Random(0)
    texts = ["".join(chance.choices("abcdefghij", k=chance.randint(1, 9))) for _ in range(400)] * 2
    first = trained_on(texts, 300, like=LIKE)
    assert len(first) == len(set(first)) == 300
    for _ in range(3):
        chance.shuffle(texts)
        assert trained_on(texts, 300, like=LIKE) == first


def test_texts_are_normalised_as_the_tokenizer_does_it():
    texts = ["Perché perché, PERCHE"] * 2
    assert trained_on(texts, 100, like=LIKE)[-1] == "perche"
    assert {"Perché", "perché", "PERCHE"} <= set(trained_on(texts, 100, like=bert_like(lowercase=False)))


def test_characters_of_other_scripts_become_tokens():
    texts = ["肺炎 の 患者", "肺炎患者", "легкое легкого"]
    trained = trained_on(texts, 80, like=LIKE)
    assert {"肺", "炎", "患", "者"} <= set(trained)
    assert not any(token.startswith("##肺") or "肺炎" in token for token in trained)  # each is a word of its own
    assert "легко" in trained
    assert "の" not in trained  # occurs once


def test_words_that_no_tokenizer_splits_are_left_out_and_frequent_ones_count_in_full():
    # BERT takes a word of more than 100 characters for unknown.
    trained = trained_on(["ab" * 50 + " " + "cd" * 51] * 2, 400, like=LIKE)
    assert "ab" * 50 in trained
    assert not any("c" in token for token in trained)
    tokens = propose({"ab": 12_000, "cd": 25_000, "e": 1_000_000}, 100, like=bert_like(["[UNK]"]))
    assert tokens[-2:] == ["cd", "ab"]
    characters = [chr(0x4E00 + place) for place in range(2000)]
    assert trained_on(characters * 2, 2100, like=LIKE) == characters


def test_too_small_a_size_names_the_smallest():
    with pytest.raises(UsageError, match="size 3 is below the 5 characters"):
        trained_on(["abc abc"], 3, like=LIKE)
    with pytest.raises(UsageError, match="no word to train on"):
        trained_on([" ", ""], 30, like=LIKE)


@settings(max_examples=200)
@given(st.lists(st.text(st.sampled_from("abé肺.,-\t\n\r\x0b\x1c\x85  Aß\ud800"), max_size=12)))
def test_words_are_those_of_the_texts_one_by_one(texts):
    expected: Counter[str] = Counter()
    for text in texts:
        expected.update(words_of(text, LIKE))
    assert count_words(iter(texts), LIKE) == expected


@settings(max_examples=200)
@given(st.sets(st.sampled_from([*"abc", "##a", "##b", "##c"])), PIECES, LETTERS)
def test_a_token_is_split_as_the_library_splits_a_word(letters, pieces, body):
    vocabulary = {piece: number for number, piece in enumerate(sorted({"[UNK]", "§", *letters, *pieces}))}
    model = models.WordPiece(vocabulary, unk_token="[UNK]")
    assert (split(body, vocabulary) or ["[UNK]"]) == pieces_of(model, body)
    # Behind a character that no longer piece begins with, the rest is inside a word.
    rest = split("##" + body, vocabulary)
    assert (["§", *rest] if rest else ["[UNK]"]) == pieces_of(model, "§" + body)


REFUSED = {
    "known": "heart ##itis a [CLS]",
    "special": "[M_s] ##[X] <s>",
    "digits": "12 ##2023",
    "never met": f"_ ## Polmone perché two_words alpha-1 {'x' * 101} 肺炎",
    None: "3 ##3 polmone ##polmone covid19 肺",
}


def test_what_cannot_be_added_is_told():
    for reason, tokens in REFUSED.items():
        for token in tokens.split():
            assert why_not({"_": "", "two_words": "two words"}.get(token, token), LIKE) == reason, token
    assert split("", {"a": 0}) is split("##", {"##a": 0}) is None


def test_new_ids_follow_the_last_and_old_ones_stay():
    like = bert_like(list(dict.fromkeys(VOCABULARY)))
    like.add_tokens(["[M_s]"])
    last = like.token_to_id("[M_s]")
    assert last == max(like.get_vocab().values())
    assert new_ids(["polmone", "##mone"], like) == {"polmone": last + 1, "##mone": last + 2}
    model = extended_model(["polmone", "##mone"], like)
    assert pieces_of(model, "polmone") == ["polmone"]
    assert pieces_of(model, "eumone") == ["e", "##u", "##mone"]
    assert [piece.id for piece in model.tokenize("hearts")] == [like.token_to_id("heart"), like.token_to_id("##s")]


@given(COUNTS, PIECES)
def test_tokens_are_ranked_by_what_they_save(words, tokens):
    old = ["[UNK]", "a", "b", "##a", "##b", "ab", "##ab"]
    like = bert_like(old)
    tokens = sorted(tokens - set(old))
    model = extended_model(tokens, like)
    saved = {}
    for token in tokens:
        uses = sum(count * pieces_of(model, word).count(token) for word, count in words.items())
        body = token.removeprefix("##")
        spelt = split(token, like.get_vocab()) or body
        saved[token] = (len(body) > 1, -uses if len(body) == 1 else -uses * (len(spelt) - 1), token)
    assert most_saving(tokens, words, like) == sorted(tokens, key=saved.__getitem__)


@settings(max_examples=200)
@given(COUNTS, PIECES)
def test_protected_words_are_split_as_before(words, tokens):
    old = ["[UNK]", "a", "b", "##a", "##b", "ab", "##ab"]
    like = bert_like(old)
    tokens = sorted(tokens - set(old))
    kept = sparing(tokens, words, like)
    model = extended_model(kept, like)
    known = [word for word in words if pieces_of(like.model, word) != ["[UNK]"]]
    assert all(pieces_of(model, word) == pieces_of(like.model, word) for word in known)
    # Only such tokens go as a protected word would use: part of it, at its beginning or inside.
    for token in set(tokens) - set(kept):
        body = token.removeprefix("##")
        assert any(body in word for word in known)


def test_a_proposal_goes_where_it_saves_most():
    texts = ["polmone polmonite polmonare pleura"] * 5 + ["milza milza 1999"] * 2
    words = count_words(texts, LIKE)
    every = propose(words, 400, like=LIKE)
    assert {"polmon", "polmone", "milza"} <= set(every)
    assert all(why_not(token, LIKE) is None for token in every)
    assert "1999" not in every
    few = propose(words, 400, like=LIKE, keep=4)
    assert few == most_saving(every, words, LIKE)[:4]
    assert few[:2] == ["##9", "9"]  # without them a word is unknown
    assert {"polmonite", "polmonare"} <= set(few)
    unchanged = propose(words, 400, like=LIKE, protected=count_words(["polmone"], LIKE))
    assert "polmone" not in unchanged
    assert "milza" in unchanged
    with pytest.raises(UsageError, match="must be 1 or more, not 0"):
        propose(words, 400, like=LIKE, keep=0)


def test_fertility_counts_words_as_often_as_they_occur():
    words = {"hearts": 3, "lung": 2, "肺": 1}
    found = fertility(words, LIKE.model)
    assert (found.words, found.tokens, found.unknown) == (6, 3 * 2 + 2 + 1, 1)
    assert found.tokens_a_word == 9 / 6
    assert found.unknown_share == 1 / 6
    assert fertility({}, LIKE.model).tokens_a_word == fertility({}, LIKE.model).unknown_share == 0
    assert changed(words, LIKE.model, extended_model(["肺", "lungs"], LIKE)) == 1 / 6
    assert changed(words, LIKE.model, LIKE.model) == changed({}, LIKE.model, LIKE.model) == 0


def test_the_tokenizer_of_an_encoder_is_opened_without_cutting_and_lower_case_counts(tiny, tmp_path):
    like = open_wordpiece(tiny)
    assert like.get_vocab() == {token: number for number, token in enumerate(VOCABULARY)}
    assert len(like.encode("lung " * 99).ids) == 101
    folder = write_model(tmp_path / "m")
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text()) | {"normalizer": None}
    file.write_text(json.dumps(content))
    assert words_of("Heart", open_wordpiece(folder)) == ["Heart"]
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": true}')
    assert words_of("Heart", open_wordpiece(folder)) == ["heart"]


@pytest.mark.parametrize(
    ("model", "kind"), [(models.BPE({"a": 0}, []), "BPE"), (models.Unigram([("a", 0.0)]), "Unigram")]
)
def test_other_kinds_of_tokenizer_are_refused(tmp_path: Path, model, kind):
    folder = write_model(tmp_path / "m")
    Tokenizer(model).save(str(folder / "tokenizer.json"))
    with pytest.raises(UsageError, match=f"of kind {kind}; only WordPiece .* BERT's, MiniLM's, ELECTRA's"):
        open_wordpiece(folder)
