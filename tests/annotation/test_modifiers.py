"""Side and severity of a mention."""

from __future__ import annotations

import pytest

from alphita.annotation.context import modifiers_of
from alphita.annotation.tokens import sentences_of


@pytest.mark.parametrize(
    ("text", "mention", "values"),
    [
        ("severe scoliosis", "scoliosis", ["severe"]),
        ("severe left hip pain", "hip pain", ["left", "severe"]),
        ("pain in the left hip", "pain", ["left"]),
        ("pain, left hip fracture", "pain", []),
        ("mild fever and severe pain", "fever", ["mild"]),
        ("fever with severe pain", "fever", []),
        ("grave scoliosi destra", "scoliosi", ["severe", "right"]),
        ("leichte Übelkeit", "Übelkeit", ["mild"]),
        ("scoliosis", "scoliosis", []),
    ],
)
def test_the_nearest_word_of_the_phrase_counts(text, mention, values):
    start = text.index(mention)
    found = modifiers_of(sentences_of(text)[0], start, start + len(mention))
    assert sorted(one.value for one in found) == sorted(values)
    assert all(text[one.start : one.end] for one in found)
