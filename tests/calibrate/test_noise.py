"""Noise: deterministic, never nothing, and each kind does what it says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.calibrate import noise


@given(st.text(alphabet="abcdefghij '-klmnop", max_size=40), st.integers(0, 99))
def test_the_same_seed_gives_the_same_and_a_word_stays_a_word(string, seed):
    one, other = (noise.noisy(string, random.Random(seed)) for _ in range(2))
    assert one == other
    assert one.strip() or not string.strip()


@pytest.mark.parametrize("name", noise.KINDS)
def test_each_kind_takes_any_string(name):
    for string in ("", "a", "ab cd", "acute renal failure", "胃炎", "éà"):
        for seed in range(20):
            assert isinstance(noise.KINDS[name](string, random.Random(seed)), str)


def test_each_kind_changes_a_plain_name_now_and_then():
    for name, kind in noise.KINDS.items():
        made = {kind("chronic thyroiditis of youth", random.Random(seed)) for seed in range(30)}
        assert made - {"chronic thyroiditis of youth"}, name


def test_what_the_kinds_do():
    string = "acute renal failure"
    words = sorted(string.split())
    for seed in range(30):
        chance = random.Random(seed)
        assert sorted(noise.swap_words(string, chance).split()) == words
        assert len(noise.drop_word(string, chance).split()) == 2
        assert noise.inverted(string, chance) == "failure, acute renal"
        assert string in noise.lead_in(string, chance)
        assert abs(len(noise.slip(string, chance)) - len(string)) <= 1
    assert noise.plural("hernias", random.Random(0)) == "hernia"
    assert noise.plural("biopsies", random.Random(0)) == "biopsy"
