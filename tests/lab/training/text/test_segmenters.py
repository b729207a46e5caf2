"""Words against a loop over characters, and jieba's words put over them."""

from __future__ import annotations

import itertools
import sys
import unicodedata
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import MissingExtra, UsageError
from alphita_lab.training.text import sequences
from alphita_lab.training.text.sequences import Words, load, runs

UNSPACED = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "BOPOMOFO",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
)
SIGNS = "abZé1٣ßﬁ_-' .,\n病心脏かナ가나ไทย\u0e34\u0301\u00ad\u200b\u200d\u0939\u093f\x00😀"
TEXTS = st.one_of(st.text(SIGNS, max_size=30), st.text(max_size=20))


def by_hand(text: str) -> list[list[int]]:
    """The words of a text, character by character: first places and those behind the last."""
    words: list[list[int]] = []
    open_ = joined = False
    for place, sign in enumerate(text):
        if unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf") and sign != "\u200b":
            if open_:
                words[-1][1] = place + 1
        elif not sign.isalnum():
            open_ = joined = False
        else:
            spaced = not unicodedata.name(sign, "").startswith(UNSPACED)
            if joined and spaced:
                words[-1][1] = place + 1
            else:
                words.append([place, place + 1])
            open_, joined = True, spaced
    return words


@given(st.lists(TEXTS, max_size=6))
@settings(max_examples=300, deadline=None)
def test_words_are_those_of_a_loop_over_characters(texts: list[str]) -> None:
    found = Words()(texts)
    assert [one.tolist() for one in found] == [by_hand(text) for text in texts]
    assert all(one.shape == (len(one), 2) and one.dtype == np.int64 for one in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dell'ipertensione, 10 mg/die", ["Dell", "ipertensione", "10", "mg", "die"]),
        ("post-operative_pain 0.5", ["post", "operative", "pain", "0", "5"]),
        ("cite\u0301 naïve", ["cite\u0301", "naïve"]),
        ("\u0301a hyper\u00adtension", ["a", "hyper\u00adtension"]),
        ("患者HIV感染2型", ["患", "者", "HIV", "感", "染", "2", "型"]),
        ("ガン ｶﾞ", ["ガ", "ン", "ｶ", "ﾞ"]),
        ("고혈압은 হৃদ্\u200cরোগ", ["고혈압은", "হৃদ্\u200cরোগ"]),
        ("กิน ข้าว", ["กิ", "น", "ข้", "า", "ว"]),
        ("", []),
        (" ... ", []),
    ],
)
def test_what_a_word_is(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in Words()([text])[0].tolist()] == expected


def test_an_unknown_segmenter_is_named() -> None:
    with pytest.raises(UsageError, match=r"unknown segmenter 'jeiba'; did you mean 'jieba'\? choose from \['jieba', "):
        load("jeiba")


def test_jieba_that_is_not_installed_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(MissingExtra, match=r"jieba, which is not installed: pip install 'alphita\[chinese\]'"):
        load("jieba")


def test_jieba_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("jieba")
    segmenter = load("jieba")
    text = "患者有高血压和糖尿病，HIV阴性"
    words = [text[start:end] for start, end in segmenter([text])[0].tolist()]
    assert {"患者", "高血压", "糖尿病", "HIV", "阴性"} <= {*words}
    # Words of other scripts are those of Words.
    text = "heart-attack 心脏病"
    assert [text[start:end] for start, end in segmenter([text])[0].tolist()] == ["heart", "attack", "心脏病"]
    assert segmenter.facts["version"]


@pytest.mark.slow
def test_jieba_in_processes_finds_what_it_finds_in_one(monkeypatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("jieba")
    segmenter = load("jieba")
    texts = [f"患者有高血压和糖尿病，HIV阴性 {number}" for number in range(130)]
    alone = [spans.tolist() for spans in segmenter(texts)]
    monkeypatch.setattr(sequences, "FOR_PROCESSES", 1)
    monkeypatch.setattr("alphita.machine.threads", lambda: 2)
    assert [spans.tolist() for spans in segmenter(texts)] == alone
    assert segmenter._pool is not None


@given(st.lists(st.integers(-2, 3), max_size=20))
def test_runs_are_those_of_groupby(numbers: list[int]) -> None:
    expected, place = [], 0
    for number, group in itertools.groupby(numbers):
        size = len(list(group))
        if number >= 0:
            expected.append([place, place + size])
        place += size
    assert runs(np.array(numbers, np.int64)).tolist() == expected
