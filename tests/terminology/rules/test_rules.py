"""Reading and comparing: the fast comparison against loops and against explanations of single pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import UsageError
from alphita.terminology import rules as constraints
from alphita.terminology.rules import Contradiction, Profiler, explain, laterality, load
from alphita.terminology.rules._lexicon import Lexicon, disjoint, narrowest
from alphita.terminology.rules._slots import Slots
from alphita.terminology.text import clean

PROFILER = Profiler()
_TEXT = (
    "left right bilateral unilateral both eyes no without absent fever cough of with negative non acute "
    "chronic congenital acquired type 1 2 iii 1a grade second stage mild severe 500 mg 0.5 g /ml 10 ml years "
    "tablet cream oral iv neonatal adult male female hand foot finger sinistra senza 左肾 无发热 type-2 t2n0 , - / "
    "% "
)
WORDS = _TEXT.split()
STRINGS = st.one_of(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join), st.text(max_size=20))


@given(st.lists(STRINGS, min_size=1, max_size=6))
@settings(deadline=None)
def test_comparing_arrays_equals_explaining_pairs(strings):
    made = PROFILER.profile(strings)
    left, right = (np.array(side) for side in zip(*itertools.product(range(len(strings)), repeat=2), strict=True))
    compared = PROFILER.compare(made, left, made, right)
    for pair, (mine, other) in enumerate(zip(left, right, strict=True)):
        explained = {one.rule for one in PROFILER.explain(strings[mine], strings[other])}
        bits = int(compared.contradicts[pair])
        assert explained == {name for k, name in enumerate(PROFILER.rules) if bits >> k & 1}
        four = (compared.contradicts, compared.mention_only, compared.term_only, compared.agrees)
        assert all(a[pair] & b[pair] == 0 for a, b in itertools.combinations(four, 2))


@given(STRINGS)
@settings(deadline=None)
def test_a_string_never_contradicts_itself_and_cleaning_changes_nothing(string):
    made = PROFILER.profile([string, clean(string)])
    assert (made.codes[0] == made.codes[1]).all()
    assert (made.codes >= 0).all()
    assert PROFILER.explain(string, string) == []


@given(STRINGS, STRINGS)
@settings(deadline=None)
def test_comparing_is_symmetric(one, other):
    made = PROFILER.profile([one, other])
    there = PROFILER.compare(made, np.array([0]), made, np.array([1]))
    back = PROFILER.compare(made, np.array([1]), made, np.array([0]))
    assert there.contradicts == back.contradicts
    assert there.agrees == back.agrees
    assert there.mention_only == back.term_only


@given(st.permutations(["left", "right", "bilateral", "unilateral", "knee"]), st.integers(1, 5))
def test_word_order_does_not_matter_for_laterality(words, count):
    words = words[:count]
    made = Profiler(["laterality"]).profile([" ".join(words), " ".join(sorted(words))])
    assert made.codes[0] == made.codes[1]


SLOTS = Slots(count=3, kind_bits=2, major_bits=2, minor_bits=2)
VALUES = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 2)), max_size=4)


@given(VALUES, VALUES)
def test_slots_equal_a_loop(left, right):
    left_code, right_code = (SLOTS.code([SLOTS.value(*value) for value in side]) for side in (left, right))
    left, right = (set(side) if len(set(side)) <= 3 else set() for side in (left, right))
    fits = {(a, b) for a in left for b in right if a[:2] == b[:2] and (a[2] == b[2] or 0 in (a[2], b[2]))}
    kinds = {a[0] for a in left} & {b[0] for b in right}
    clash = any(not any(a[0] == kind for a, _ in fits) for kind in kinds)
    codes = np.array([left_code]), np.array([right_code])
    assert SLOTS.contradict(*codes)[0] == clash
    assert SLOTS.agree(*codes)[0] == bool(fits)


@given(st.lists(st.integers(0, 15), max_size=4), st.lists(st.integers(0, 15), max_size=4))
def test_sets_of_bits_equal_sets(left, right):
    def joined(values):
        sets = [{bit for bit in range(4) if value >> bit & 1} for value in values]
        return set().union(*(one for one in sets if not any(other < one for other in sets)))

    codes = np.array([narrowest(left)]), np.array([narrowest(right)])
    mine, other = joined(left), joined(right)
    assert disjoint(*codes)[0] == bool(mine and other and not mine & other)


def test_an_explanation_shows_the_words():
    assert explain("Left renal agenesis", "agenesia renale destra") == [
        Contradiction("laterality", "left", "destra", True, "laterality: 'left' against 'destra'")
    ]
    (one,) = explain("hand pain", "foot pain")
    assert (one.rule, one.veto) == ("body_site", False)
    assert [one.text for one in explain("no fever", "männliches Fieber, high fever")] == [
        "negation: 'no fever' against 'männliches fieber, high fever'"
    ]
    assert explain("", "fever") == []


def test_rules_are_the_folders_files_in_order():
    assert PROFILER.rules == tuple(registry.names("alphita.terminology.rules"))
    assert len(PROFILER.rules) == 12
    vetoes = sum(1 << k for k, name in enumerate(PROFILER.rules) if load(name).VETO)
    assert int(PROFILER.veto_mask) == vetoes
    with pytest.raises(UsageError, match="unknown rule 'lateral'; did you mean 'laterality'"):
        Profiler(["lateral"])


def test_readings_of_other_rules_are_refused():
    made = Profiler(["sex"]).profile(["male"])
    assert made.codes.shape == (1, 1)
    with pytest.raises(ValueError, match="compared by"):
        PROFILER.compare(made, np.array([0]), made, np.array([0]))


def test_nothing_to_read_or_compare():
    made = PROFILER.profile([])
    assert made.codes.shape == (0, 12)
    assert len(PROFILER.compare(made, np.array([], int), made, np.array([], int)).agrees) == 0


def test_a_word_is_asked_about_once():
    asked = []

    class Counting:
        def concerns(self, word):
            asked.append(word)
            return False

    concerned = constraints._Concerned([Counting()])
    assert [concerned[word] for word in ["fever", "high", "fever"]] == [0, 0, 0]
    assert asked == ["fever", "high"]


def test_a_lexicon_refuses_a_phrase_of_two_values_and_short_beginnings():
    with pytest.raises(ValueError, match="'Left' has two values"):
        Lexicon({1: {"en": "left"}, 2: {"en": "Left"}})
    with pytest.raises(ValueError, match=r"'le\*' is too short"):
        Lexicon({1: {"en": "le*"}})


@pytest.mark.parametrize(
    "string", ["left ear", "katarakt links", "atrophie unilatérale", "atrophie unilaterale", "des deux cotes", "左耳"]
)
def test_a_pattern_has_a_match_in_each_string_with_a_phrase(string):
    strings = pa.array([string, "ear", "cleft ear"], pa.large_string())
    assert laterality.side(string)
    assert pc.match_substring_regex(strings, laterality.PATTERN).to_pylist() == [True, False, False]
