"""Candidates gathered from pairs of strings: against a naive loop, and what hidden concepts do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.candidates import Requests, collect, requests_of
from alphita.index.lookup import EXACT, VECTORS
from tests.reference.ranking import candidates as reference


def one_each(n: int) -> Requests:
    return requests_of([[query] for query in range(n)])


def pairs_of(query, string, found_by, cosine, letters):
    return SimpleNamespace(query=query, string=string, found_by=found_by, cosine=cosine, letters=letters)


def world(seed: int):
    """Return a segment of 14 strings, 20 terms and 8 concepts, and the pairs of 5 queries."""
    random = np.random.default_rng(seed)
    counts = 1 + (random.random(14) < 0.3) * random.integers(1, 3, 14)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    terms = int(offsets[-1])
    segment = SimpleNamespace(
        offsets=offsets,
        term_concept=random.integers(0, 8, terms).astype(np.int32),
        standing=random.integers(0, 3, terms).astype(np.uint8),
    )
    query, string, routes = [], [], []
    for one in range(5):
        chosen = np.sort(random.choice(14, random.integers(0, 9), replace=False))
        exact = random.random() < 0.5
        for place, row in enumerate(chosen.tolist()):
            query.append(one)
            string.append(row)
            routes.append(VECTORS | (EXACT if exact and place == 0 else 0))
    p = len(query)
    pairs = pairs_of(
        np.array(query, np.int64),
        np.array(string, np.int64),
        np.array(routes, np.uint8),
        random.permutation(p).astype(np.float32) / 64,
        random.permutation(p).astype(np.float32) / 1024,
    )
    return segment, pairs


def naive(segment, pairs, queries, most, hidden_concept=-1):
    string_terms = [range(s, e) for s, e in zip(segment.offsets[:-1], segment.offsets[1:], strict=True)]
    rows = [row for query in queries for row in np.flatnonzero(pairs.query == query)]
    given_pairs = [
        (int(pairs.string[row]), bool(pairs.found_by[row] & EXACT), float(pairs.cosine[row]), float(pairs.letters[row]))
        for row in rows
    ]
    found = reference(given_pairs, string_terms, segment.term_concept.tolist(), segment.standing.tolist())
    found = [one for one in found if one[0] != hidden_concept]
    order = sorted(found, key=lambda one: (-(one[8] + 2 * one[7]), segment.standing[one[1]], one[0]))
    return sorted(order[:most])


def of_request(table, request):
    rows = slice(int(table.offsets[request]), int(table.offsets[request + 1]))
    columns = (
        table.concept,
        table.term,
        table.cosine,
        table.letters,
        table.best_cosine,
        table.best_letters,
        table.strings,
    )
    return sorted(zip(*(column[rows].tolist() for column in columns), strict=True))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 100_000), st.integers(1, 9))
def test_against_the_naive_loop(seed, most):
    segment, pairs = world(seed)
    table = collect(segment, pairs, one_each(5), most=most)
    for request in range(5):
        assert of_request(table, request) == [one[:7] for one in naive(segment, pairs, [request], most)]
    assert (np.diff(table.request) >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_what_is_hidden_is_not_there(seed):
    segment, pairs = world(seed)
    table = collect(segment, pairs, one_each(5), hidden_concepts=np.arange(5))
    for request in range(5):
        expected = naive(segment, pairs, [request], 24, request)
        assert of_request(table, request) == [one[:7] for one in expected]


def test_expansions_share_a_request_and_say_which_they_were():
    segment, pairs = world(11)
    table = collect(segment, pairs, requests_of([[0, 3], [1], [2, 3, 4]]))
    assert len(table.offsets) == 4
    for row in range(len(table.request)):
        own = [[0, 3], [1], [2, 3, 4]][int(table.request[row])]
        assert own[int(table.expansion[row])] == table.query[row]
    both = {int(c) for c in table.concept[table.offsets[0] : table.offsets[1]]}
    parts = [collect(segment, pairs, requests_of([[query]])) for query in (0, 3)]
    assert both == {int(c) for part in parts for c in part.concept}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_a_string_that_several_readings_find_counts_once(seed):
    segment, pairs = world(seed)
    table = collect(segment, pairs, requests_of([[0, 1, 2, 3]]))
    strings = set(pairs.string[np.isin(pairs.query, [0, 1, 2, 3])].tolist())
    for concept, counted in zip(table.concept.tolist(), table.strings.tolist(), strict=True):
        own = {
            one for one in strings if concept in segment.term_concept[segment.offsets[one] : segment.offsets[one + 1]]
        }
        assert counted == len(own)


def test_nothing_found_is_an_empty_table():
    segment, pairs = world(1)
    none = pairs_of(*(column[:0] for column in vars(pairs).values()))
    table = collect(segment, none, one_each(3))
    assert table.offsets.tolist() == [0, 0, 0, 0]
    assert len(table.concept) == 0


def test_homonyms_are_counted_by_concept():
    segment = SimpleNamespace(
        offsets=np.array([0, 3, 4]), term_concept=np.array([5, 5, 6, 5], np.int32), standing=np.zeros(4, np.uint8)
    )
    pairs = pairs_of(
        np.array([0, 0]),
        np.array([0, 1]),
        np.full(2, VECTORS, np.uint8),
        np.array([0.9, 0.95], np.float32),
        np.zeros(2, np.float32),
    )
    table = collect(segment, pairs, one_each(1))
    found = dict(zip(table.concept.tolist(), table.homonyms.tolist(), strict=True))
    assert found == {5: 0, 6: 1}
