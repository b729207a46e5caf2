"""Rules: what each says of pairs of strings (examples.tsv), and the fast comparison against loops and explanations."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import textio
from alphita.errors import InputError, UsageError
from alphita.terminology.rules import RULES, Contradiction, IndexedProfiles, Profiler, explain, lexicon, sets
from alphita.terminology.rules.lexicon import Lexicon, read
from alphita.terminology.rules.negation import begins_with_denial
from alphita.terminology.rules.quantities import Slots
from alphita.terminology.text import clean

PROFILER = Profiler()
EXAMPLES = [tuple(row.values()) for row in textio.packaged(__package__, "examples.tsv")]
# Of each kind of example what is said of mention and term, and of term and mention.
EXPECTED = {
    "contradict": ({"contradicts"}, {"contradicts"}),
    "agree": ({"agrees"}, {"agrees"}),
    "one_sided": ({"mention_only"}, {"term_only"}),
    "neither": (set(), set()),
}
_TEXT = (
    "left right bilateral unilateral both eyes no without absent fever cough of with negative non acute "
    "chronic congenital acquired type 1 2 iii 1a grade second stage mild severe 500 mg 0.5 g /ml 10 ml years "
    "tablet cream oral iv neonatal adult male female hand foot finger sinistra senza 左肾 无发热 type-2 t2n0 , - / "
    "% "
)
STRINGS = st.one_of(st.lists(st.sampled_from(_TEXT.split()), max_size=7).map(" ".join), st.text(max_size=20))


def relations(rule: str, mention: str, term: str) -> set[str]:
    """Return what a rule says of a mention and a term."""
    profiles = PROFILER.profile([mention, term])
    compared = PROFILER.compare(profiles, np.array([0]), profiles, np.array([1]))
    bit = 1 << PROFILER.rules.index(rule)
    names = ("contradicts", "mention_only", "term_only", "agrees")
    return {name for name in names if getattr(compared, name)[0] & bit}


@pytest.mark.parametrize(("kind", "rule", "mention", "term"), EXAMPLES)
def test_examples(kind, rule, mention, term):
    if kind in EXPECTED:
        assert (relations(rule, mention, term), relations(rule, term, mention)) == EXPECTED[kind]
    elif kind == "silent":
        assert not PROFILER.profile([mention]).speaks[0] & (1 << PROFILER.rules.index(rule))
    else:
        assert begins_with_denial(read(mention)) == (kind == "denial")


def test_every_rule_has_examples_and_words():
    for kind in ("contradict", "agree", "one_sided", "silent"):
        assert {rule for other, rule, *_ in EXAMPLES if other == kind} == set(RULES)
    for axis in set(RULES) - {"number", "opposite", "stage", "strength"}:
        assert {"de", "en", "es", "fr", "it"} <= {row.language for row in lexicon.rows(axis)}, axis


def test_more_values_than_a_code_holds_are_not_judged():
    assert [found.words for found in RULES["number"].find(read("codes 5 6 7"))] == ["5", "6", "7"]
    assert relations("number", "codes 5 6 7", "code 8") == {"term_only"}
    assert relations("stage", "type 1 stage 2 grade 3 mild", "type 2") == {"term_only"}


@given(st.lists(STRINGS, min_size=1, max_size=6))
@settings(deadline=None)
def test_comparing_arrays_equals_explaining_pairs(strings):
    profiles = PROFILER.profile(strings)
    left, right = (np.array(side) for side in zip(*itertools.product(range(len(strings)), repeat=2), strict=True))
    compared = PROFILER.compare(profiles, left, profiles, right)
    for pair, (mine, other) in enumerate(zip(left, right, strict=True)):
        explained = {found.rule for found in PROFILER.explain(strings[mine], strings[other])}
        bits = int(compared.contradicts[pair])
        assert explained == {name for k, name in enumerate(PROFILER.rules) if bits >> k & 1}
        four = (compared.contradicts, compared.mention_only, compared.term_only, compared.agrees)
        assert all(a[pair] & b[pair] == 0 for a, b in itertools.combinations(four, 2))
    # The same of strings of an index, whatever came up before.
    indexed, n = IndexedProfiles(len(strings)), np.arange(len(strings))
    for some in (n[:1], n):
        again = indexed.compare(strings, left[right < len(some)], some, strings, right[right < len(some)])
    assert (again.contradicts == compared.contradicts).all()


@given(STRINGS, STRINGS)
@settings(deadline=None)
def test_a_string_never_contradicts_itself_and_comparing_is_symmetric(string, other):
    profiles = PROFILER.profile([string, clean(string), other])
    assert (profiles.codes[0] == profiles.codes[1]).all()
    assert (profiles.codes >= 0).all()
    assert PROFILER.explain(string, string) == []
    there = PROFILER.compare(profiles, np.array([0]), profiles, np.array([2]))
    back = PROFILER.compare(profiles, np.array([2]), profiles, np.array([0]))
    assert (there.contradicts, there.agrees, there.mention_only) == (back.contradicts, back.agrees, back.term_only)


@given(st.permutations(["left", "right", "bilateral", "unilateral", "knee"]), st.integers(1, 5))
def test_word_order_does_not_matter_for_laterality(words, count):
    words = words[:count]
    profiles = Profiler(["laterality"]).profile([" ".join(words), " ".join(sorted(words))])
    assert profiles.codes[0] == profiles.codes[1]


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
        bits = [{bit for bit in range(4) if value >> bit & 1} for value in values]
        return set().union(*(value for value in bits if not any(other < value for other in bits)))

    codes = np.array([sets.narrowest(left)]), np.array([sets.narrowest(right)])
    mine, other = joined(left), joined(right)
    assert sets.disjoint(*codes)[0] == bool(mine and other and not mine & other)


def test_an_explanation_shows_the_words():
    assert explain("Left renal agenesis", "agenesia renale destra") == [
        Contradiction("laterality", "left", "destra", True, "laterality: 'left' against 'destra'")
    ]
    (found,) = explain("hand pain", "foot pain")
    assert (found.rule, found.veto) == ("body_site", False)
    assert [found.text for found in explain("no fever", "männliches Fieber, high fever")] == [
        "negation: 'no fever' against 'männliches fieber, high fever'"
    ]
    assert explain("", "fever") == []


def test_some_rules_alone():
    assert PROFILER.rules == tuple(RULES) == tuple(sorted(RULES))
    assert int(PROFILER.veto_mask) == sum(1 << k for k, name in enumerate(RULES) if name != "body_site")
    with pytest.raises(UsageError, match="unknown rule 'lateral'; did you mean 'laterality'"):
        Profiler(["lateral"])
    profiles = Profiler(["sex"]).profile(["male"])
    assert profiles.codes.shape == (1, 1)
    with pytest.raises(ValueError, match="compared by"):
        PROFILER.compare(profiles, np.array([0]), profiles, np.array([0]))
    nothing = PROFILER.profile([])
    assert nothing.codes.shape == (0, len(RULES))
    assert len(PROFILER.compare(nothing, np.array([], int), nothing, np.array([], int)).agrees) == 0


def test_a_word_is_asked_about_once(monkeypatch):
    asked = []
    rule = SimpleNamespace(VETO=False, concerns=asked.append)
    monkeypatch.setitem(RULES, "sex", rule)
    assert not Profiler(["sex"]).profile(["fever high", "fever"]).speaks.any()
    assert asked == ["fever", "high"]


@pytest.mark.parametrize(
    ("phrases", "problem"),
    [([(1, ["left"]), (2, ["Left"])], "'Left' has two values"), ([(1, ["le*"])], r"'le\*' is too short")],
)
def test_a_lexicon_refuses(phrases, problem):
    with pytest.raises(ValueError, match=problem):
        Lexicon(phrases)


@pytest.mark.parametrize(
    "string", ["left ear", "katarakt links", "atrophie unilatérale", "atrophie unilaterale", "des deux cotes", "左耳"]
)
def test_a_pattern_has_a_match_in_each_string_with_a_phrase(string):
    strings = pa.array([string, "ear", "cleft ear"], pa.large_string())
    assert sets.side(string)
    assert pc.match_substring_regex(strings, sets.SIDE_PATTERN).to_pylist() == [True, False, False]


def test_a_word_has_one_value_of_an_axis(monkeypatch):
    named = [("sex", "male", "man|boy"), ("sex", "female", "woman|Boy"), ("severity", "mild", "man")]
    table = [{"axis": axis, "value": value, "language": "en", "words": words} for axis, value, words in named]
    monkeypatch.setattr(textio, "packaged", lambda *_: table)
    said = r"lexicon.tsv:3: 'Boy' has two values of the axis 'sex', 'male' before \(field 'value', value 'female'\)"
    with pytest.raises(InputError, match=said):
        lexicon._table.__wrapped__()
    table[1]["words"] = "woman"
    assert [row.value for row in lexicon._table.__wrapped__()["sex"]] == ["male", "female"]


def test_every_row_of_the_table_stands_once_and_has_words():
    table = {(axis, *row) for axis, some in lexicon._table().items() for row in some}
    assert len({row[:3] for row in table}) == len(table)
    assert all(word == word.strip() != "" for row in table for word in row[3])
    for axis in ("well", "ends", "begins"):
        assert {"en", "it", "de", "fr", "es"} <= {row.language for row in lexicon.rows(axis)}
