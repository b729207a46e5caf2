"""Triples chosen and split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.terminology import splits
from alphita.terminology.store import Terminology
from alphita_lab.graph import triples
from alphita_lab.graph.triples import divide, triples_hash
from tests.lab.graph.graphs import STEPS, ring
from tests.tables import terminology_of


def named(division, part) -> set[tuple[str, str, str]]:
    return {(division.entities[h], division.relations[r], division.entities[t]) for h, r, t in part.tolist()}


def test_rare_inverse_retired_and_loops_are_left_out(graph) -> None:
    division = divide(graph)
    assert division.relations == sorted(STEPS)
    assert len(division.known) == 3 * 40
    assert not {"R:old", "R:alone"} & set(division.entities)
    assert division.entities == sorted(division.entities)
    assert [graph.concept_id(row) for row in division.concepts] == division.entities
    assert division.notes == {"rare_relations_left_out": 1, "inverse_relations_left_out": ["before (turns next round)"]}


@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 60), st.integers(0, 1000))
def test_a_split_leaves_all_in_training(n: int, relations: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    all_of_them = np.unique(np.stack([rng.integers(0, m, count) for m in (n, relations, n)], axis=1), axis=0)
    train, test, validation = triples.split(all_of_them, test=0.2, validation=0.1, seed=seed)
    assert sorted(map(tuple, np.concatenate([train, test, validation]).tolist())) == sorted(
        map(tuple, all_of_them.tolist())
    )
    assert set(all_of_them[:, [0, 2]].ravel()) == set(train[:, [0, 2]].ravel())
    assert set(all_of_them[:, 1]) == set(train[:, 1])
    assert len(test) <= round(0.2 * len(all_of_them)) + 1
    parts = [{frozenset((head, tail)) for head, _, tail in part.tolist()} for part in (train, test, validation)]
    assert sum(map(len, parts)) == len(set().union(*parts)), "two concepts have triples in two parts"


def test_the_directions_of_a_symmetric_relation_stay_together() -> None:
    rng = np.random.default_rng(0)
    one_way = np.stack([rng.integers(0, 40, 400), np.zeros(400, np.int64), rng.integers(40, 80, 400)], axis=1)
    rows = np.unique(np.concatenate([one_way, one_way[:, ::-1]]), axis=0)
    train, test, validation = triples.split(rows, test=0.1, validation=0.1, seed=0)
    for held in (test, validation):
        assert abs(len(held) - 0.1 * len(rows)) <= 2
    for part in (train, test, validation):
        found = set(map(tuple, part.tolist()))
        assert {(tail, relation, head) for head, relation, tail in found} == found


def test_a_split_of_pairs_of_one_triple_is_a_draw_of_triples() -> None:
    rows = np.array([[place, 0, (place + step) % 40] for place in range(40) for step in (1, 5, 9)])
    order = np.random.default_rng(3).permutation(len(rows))
    _, test, validation = triples.split(rows, test=0.06, validation=0.04, seed=3)
    assert set(map(tuple, test.tolist())) == set(map(tuple, rows[order[:7]].tolist()))
    assert set(map(tuple, validation.tolist())) == set(map(tuple, rows[order[7:12]].tolist()))


def test_held_out_triples_of_a_split_never_train(graph) -> None:
    split = splits.with_triples(splits.Split([], [], []), graph, fraction=0.15, seed=1)
    assert len(split) == 0  # it holds out no string, and is a split all the same
    division = divide(graph, held_out=split)
    trained = {frozenset((h, t)) for h, _, t in named(division, division.train) | named(division, division.validation)}
    assert not trained & {frozenset((head, tail)) for head, _, tail in split.triples}
    tested = named(division, division.test)
    assert len(tested) > 5
    assert tested == {row for row in split.triples if row[1] in STEPS and row[0] in division.entities} & named(
        division, division.known
    )
    assert division.notes["split"] == split.hash


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 60), st.integers(0, 1000))
def test_what_relations_turn_round_equals_a_loop(n: int, relations: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.unique(np.stack([rng.integers(0, m, count) for m in (n, relations, n)], axis=1), axis=0)
    there = set(map(tuple, rows.tolist()))
    wanted: dict[tuple[int, int], int] = {}
    for head, relation, tail in there:
        for other in range(relations):
            if (tail, other, head) in there:
                wanted[relation, other] = wanted.get((relation, other), 0) + 1
    assert triples._turned_round(rows, n) == wanted


def test_the_hash_is_of_ids_not_of_numbers() -> None:
    one = triples_hash(["a", "b"], ["r"], np.array([[0, 0, 1], [1, 0, 1]]))
    assert one == triples_hash(["b", "a"], ["q", "r"], np.array([[0, 1, 0], [1, 1, 0]]))
    assert one != triples_hash(["a", "b"], ["r"], np.array([[0, 0, 1]]))


def test_a_graph_of_which_nothing_can_be_held_out_trains_without_a_test_part(tmp_path: Path) -> None:
    pairs = ring(tmp_path / "t.terminology", n=40)
    with pytest.raises(InputError, match=r"none of 2 triples can be held out.*train without a test part: test=0"):
        divide(only(pairs, "seldom", tmp_path / "s.terminology"), rare=1)
    assert len(divide(only(pairs, "seldom", tmp_path / "again.terminology"), rare=1, test=0, validation=0).train) == 2


def only(terminology: Terminology, relation: str, folder: Path) -> Terminology:
    """Write and open a terminology of one of another's relations."""
    names, labels = terminology.concept_ids.to_pylist(), terminology.relation_labels
    rows = [(names[h], relation, names[t]) for h, r, t in terminology.triples.tolist() if labels[r] == relation]
    ids = sorted({end for head, _, tail in rows for end in (head, tail)})
    return terminology_of([(one, one, "en") for one in ids], folder, relations=rows)


def test_bad_input(graph) -> None:
    with pytest.raises(UsageError, match="must leave triples to train on"):
        divide(graph, test=0.5, validation=0.5)
    with pytest.raises(InputError, match=r"none is left: 5 kinds have fewer than 99 triples.*rare=1"):
        divide(graph, rare=99)
    with pytest.raises(InputError, match="this split holds no triples out"):
        divide(graph, held_out=splits.Split(["a"], ["R:001"], ["test"]))
    with pytest.raises(InputError, match="no held-out triple of this split is between concepts"):
        divide(graph, held_out=splits.Split([], [], [], triples=[("X:1", "next", "X:2")]))
    with pytest.raises(InputError, match=r"none of 120 triples is held out.*rare=1"):
        divide(graph, held_out=splits.Split([], [], [], triples=[("R:000", "next", "R:030")]))
