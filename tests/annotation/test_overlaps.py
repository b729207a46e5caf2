"""Which of several spans stands."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from alphita.annotation.overlaps import Candidate, settle
from alphita.annotation.spans import Place


def candidate(start, end, concept="A", confidence=0.5, certain=False, name=False, pieces=None):
    pieces = pieces or (Place(start, end),)
    return Candidate(pieces, "", concept, concept, concept, confidence, "review", "nearest", name, False, certain)


def places(candidates):
    return [(one.start, one.end, one.concept_id) for one in settle(candidates)]


def test_the_longest_certain_one_stands():
    some = [
        candidate(0, 4, "A", 0.99, certain=True),
        candidate(0, 9, "B", 0.9, certain=True),
        candidate(0, 20, "C", 0.99),
    ]
    assert places(some) == [(0, 9, "B")]


def test_of_uncertain_ones_the_most_confident_stands():
    assert places([candidate(0, 9, "A", 0.4), candidate(3, 6, "B", 0.6)]) == [(3, 6, "B")]


def test_what_says_no_more_than_its_part_gives_way_unless_it_is_a_name():
    part, whole = candidate(5, 9, certain=True), candidate(0, 9, certain=True)
    assert places([whole, part]) == [(5, 9, "A")]
    assert places([whole._replace(is_name=True), part]) == [(0, 9, "A")]


def test_parts_that_share_a_head_stand_beside_each_other():
    shared = candidate(0, 9, "A", certain=True, pieces=(Place(0, 3), Place(6, 9)))
    whole = candidate(4, 9, "B", certain=True)
    assert places([shared, whole]) == [(0, 9, "A"), (4, 9, "B")]


SPANS = st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from("ABC"), st.floats(0, 1), st.booleans())


@given(st.lists(SPANS, max_size=12))
def test_what_stands_never_overlaps_and_nothing_could_be_added(spans):
    some = [candidate(start, start + size, concept, sure, certain) for start, size, concept, sure, certain in spans]
    standing = settle(some)
    assert all(one.end <= other.start for one, other in itertools.pairwise(standing))
    assert bool(standing) == bool(some)
