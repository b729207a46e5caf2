"""Folding: the same as cleaning, but for stated letters, and each character with its place in the text."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.terminology.text import clean
from alphita_lab.training.text.folding import BEGIN, BREAK, END, JOINT, Fold, as_folded, marked

ODD = "aE1-_'´`’½⁹ \u0301\u0323\u200d\u00ad\t.ﬁＡΣσςßẞİⅣ가ᄀ\u1161\u11a8अ\u093cか\u3099ﾊﾟ\ud800"
TEXTS = st.text(st.one_of(st.characters(exclude_characters=JOINT), st.sampled_from(ODD)))


@given(TEXTS)
def test_it_is_cleaning_but_for_four_letters(text):
    cleaned = clean(text).replace("ß", "ss").replace("ς", "σ").replace("i\u0307", "i")
    assert Fold().keys([text]) == [cleaned]


@given(st.lists(TEXTS, min_size=1))
def test_texts_folded_together_are_those_folded_alone(texts):
    fold = Fold("it")
    together = fold(JOINT.join(texts))
    assert str(together).split(BREAK) == [str(fold(text)) for text in texts]
    assert len(together.starts) == len(together.ends) == len(together.flags) == len(str(together))


@given(TEXTS)
def test_every_character_has_its_place(text):
    fold = Fold()
    folded = fold(text)
    assert (folded.starts < folded.ends).all()
    assert (np.diff(folded.starts) >= 0).all()
    assert (np.diff(folded.ends) >= 0).all()
    for sign, start, end in zip(str(folded), folded.starts.tolist(), folded.ends.tolist(), strict=True):
        # A superscript's ^ and a fraction's space depend on the digit before.
        if sign not in " ^":
            assert sign in str(fold(text[max(0, start - 1) : end]))


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Dell’Ipertensione", "dell'ipertensione"),
        ("non-small  cell", "non small cell"),
        ("10-20 mg", "10-20 mg"),
        ("cafe\u0301", "café"),
        ("ﬁbrosi", "fibrosi"),
        ("10⁹/L", "10^9/l"),
        ("so\u00adft", "soft"),
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("IRITE", "irite"),
        ("İris", "iris"),
        ("σάς", "σάσ"),
        ("Perché\n\n è", "perché è"),
    ],
)
def test_examples(text, folded):
    assert str(Fold("it")(text)) == folded


def test_turkish_has_two_i():
    assert str(Fold("tr")("Irk İris ılık")) == "ırk iris ılık"
    assert str(Fold("tr-TR")("I")) == "ı"
    assert str(Fold("it")("I")) == "i"


def test_accents_are_taken_off_latin_letters_only():
    text = "Perché cœur ñ ø й が ẹ́"
    assert str(Fold("it", "strip")(text)) == "perche cœur n ø й が e"
    assert str(Fold("it")(text)) == unicodedata.normalize("NFC", text.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dell'ipertensione acuta", "<dell>'<ipertensione> <acuta>"),
        ("(b12)", "(<b12>)"),
        ("高血压 a", "高血压 <a>"),
        ("hiv感染", "<hiv>感染"),
        ("고혈압은 ct는", "<고혈압은 <ct><는"),
        ("", ""),
        ("ẹ́x", "<ẹ́x>"),
        ("ยา", "ยา"),
    ],
)
def test_words_are_marked(text, expected):
    found, places = marked(as_folded(text))
    assert found.replace(BEGIN, "<").replace(END, ">") == expected
    assert "".join(found[place] for place in places) == text
