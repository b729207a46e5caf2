"""The order of asking, against loops written from its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.review import priority, rows
from alphita.review.store import ReviewStore
from tests.review.reviews import candidate, say, store_of
from tests.review.reviews import row as row_of


def greedy(risk, cluster, decided, decay):
    """Ask again and again for the row of the greatest worth."""
    asked = dict.fromkeys(cluster, 0)
    for row, done in enumerate(decided):
        asked[cluster[row]] += done
    left = [row for row, done in enumerate(decided) if not done]
    found = []
    while left:
        best = max(left, key=lambda row: (risk[row] * np.power(decay, asked[cluster[row]]), -row))
        asked[cluster[best]] += 1
        left.remove(best)
        found.append(best)
    return found + [row for row, done in enumerate(decided) if done]


def led(vectors, risk, similar):
    """Take row after row by falling risk, and look at every leader."""
    leaders, found = [], {}
    for row in sorted(range(len(risk)), key=lambda row: (-risk[row], row)):
        best, owner = -np.inf, None
        for leader in leaders:
            norms = np.linalg.norm(vectors[row]) * np.linalg.norm(vectors[leader])
            cosine = vectors[row] @ vectors[leader] / norms if norms else -np.inf
            if cosine > best + 1e-6:
                best, owner = cosine, leader
        if owner is not None and best >= similar:
            found[row] = owner
        else:
            leaders.append(row)
            found[row] = row
    return [found[row] for row in range(len(risk))]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.booleans()), max_size=40),
    st.sampled_from([1.0, 0.5, 0.25]),
)
def test_one_sort_is_the_greedy_order(rows, decay):
    risk = np.array([row[0] / 4 for row in rows])
    cluster = np.array([row[1] for row in rows], np.int64)
    decided = np.array([row[2] for row in rows], bool)
    found = priority.order(risk, cluster, decided, decay=decay)
    assert found.tolist() == greedy(risk, cluster.tolist(), decided.tolist(), decay)


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_clusters_are_those_of_the_loop(monkeypatch, at_once):
    monkeypatch.setattr(priority, "AT_ONCE", at_once)
    random = np.random.default_rng(3)
    vectors = random.normal(size=(60, 3)).astype(np.float32)
    vectors[7] = 0
    risk = random.integers(0, 5, 60).astype(float)
    found = priority.clusters(vectors, risk, similar=0.8)
    assert found.tolist() == led(vectors.astype(float), risk, 0.8)
    assert 1 < len(set(found.tolist())) < 60
    assert found[7] == 7


def test_beyond_the_most_every_row_is_alone(monkeypatch):
    monkeypatch.setattr(priority, "MAX_COMPARED", 2)
    found = priority.clusters(np.ones((4, 2), np.float32), np.array([1.0, 4.0, 3.0, 2.0]))
    assert found.tolist() == [0, 1, 1, 3]


def test_letters_are_counted_of_the_rows_compared_alone(monkeypatch):
    monkeypatch.setattr(priority, "MAX_COMPARED", 2)
    counted = []
    monkeypatch.setattr(priority, "letters", lambda mentions: counted.append(mentions) or np.ones((2, 1), np.float32))
    # The first two share a cluster, the third is like them but beyond those compared: 8, 7 / 2, 3, 1.
    assert priority.rank(["a", "b", "c", "d"], [1, 7, 3, 8], [0.0] * 4).tolist() == [3, 1, 2, 0]
    assert counted == [["b", "d"]]


def test_the_second_of_a_kind_waits():
    mentions = ["left heart failure", "Left-heart failure", "renal colic", "skin rash"]
    places = priority.rank(mentions, [10, 10, 6, 2], [0.0, 0.1, 0.0, 0.0])
    # By worth: 10; the second, 9, counts half as the first was asked; 6; 2.
    assert places.tolist() == [0, 2, 1, 3]
    plain = priority.rank(mentions, [10, 10, 6, 2], [0.0, 0.1, 0.0, 0.0], decay=1.0)
    assert plain.tolist() == [0, 1, 2, 3]


def test_what_was_decided_comes_last_and_counts_in_its_cluster():
    mentions = ["left heart failure", "left heart failure 1", "renal colic"]
    assert priority.rank(mentions, [9, 8, 6], [0.0, 0.0, 0.0]).tolist() == [0, 2, 1]
    assert priority.rank(mentions, [9, 8, 3], [0.0, 0.0, 0.0], decided=[True, False, False]).tolist() == [2, 0, 1]
    assert priority.rank(mentions, [9, 8, 5], [0.0, 0.0, 0.0], decided=[True, False, False]).tolist() == [2, 1, 0]


def test_no_rows_no_confidence_and_empty_mentions():
    # Without a confidence it is taken as an even chance.
    assert priority.rank(["one", "two", "three"], [4, 4, 4], [0.4, None, 0.6]).tolist() == [0, 1, 2]
    assert priority.rank([], [], []).tolist() == []
    assert priority.rank(["", ""], [1, 2], [0.5, 0.5]).tolist() == [1, 0]


def test_a_stores_queue_is_asked_in_this_order(tmp_path, monkeypatch):
    mentions = {"left heart failure": 10, "Left-heart failure": 9, "renal colic": 6, "skin rash": 2, "renal colics": 4}
    rows = [
        row_of(mention, candidate("X:1", "x", confidence=0.0), number=number, frequency=frequency)
        for number, (mention, frequency) in enumerate(mentions.items(), 1)
    ]

    def asked():
        assert priority.update(store, "p") == len(rows)
        return [one.row.id for one in store.queue("p", order="learning")[1]]

    with store_of(tmp_path / "r.sqlite", rows, "h") as store:
        # By worth: 10, 6, 9 halved, 2 and 4 halved, which are equal.
        assert asked() == [1, 3, 2, 4, 5]
        say(store, 3, "nil")
        assert asked() == [1, 2, 4, 5]
        say(store, 1, "nil")
        assert asked() == [2, 4, 5]


def test_all_rows_of_a_project_are_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "AT_ONCE", 2)
    with store_of(tmp_path / "r.sqlite", [row_of(f"mention {n}", number=n) for n in range(1, 8)], "h") as store:
        say(store, 3, "nil")
        monkeypatch.setattr(ReviewStore, "queue", None)  # counts and skips rows for each page
        assert priority.update(store, "p") == 7
        every = list(store.every("p"))
        assert [standing.row.number for standing in every] == list(range(1, 8))
        assert [standing.settled for standing in every] == [row.settled for row in store.queued_rows("p")]
        assert [standing.row.id for standing in store.every("p", state="decided")] == [3]
