"""Agreement: Cohen's kappa against scikit-learn's, and the progress of a project."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alphita.review import rules
from alphita.review.records import Progress
from tests.review.samples import FOOT, HAND, TOE, Say, row, store

pytestmark = pytest.mark.usefixtures("each_database")

metrics = pytest.importorskip("sklearn.metrics")
MEANINGS = st.sampled_from([TOE, FOOT, HAND, rules.NIL, rules.REJECTED])


@given(st.lists(st.tuples(MEANINGS, MEANINGS), min_size=2, max_size=30))
@example([("a", "a")] * 5)
def test_kappa_is_scikit_learns(pairs):
    first, second = zip(*pairs, strict=True)
    found = rules.kappa(pairs)
    if len({*first, *second}) == 1:
        assert found is None
    else:
        assert math.isclose(found, metrics.cohen_kappa_score(first, second), abs_tol=1e-12)
    assert rules.kappa([]) is rules.kappa(pairs[:1]) is None


def test_progress(tmp_path):
    with store(tmp_path, [row(number, frequency=number) for number in range(1, 8)]) as reviews:
        assert reviews.progress("codes") == Progress(7, 28, 0, 0, {}, {}, 0, 0, None, None, ())
        say = Say(reviews)
        pairs = {
            1: (TOE, TOE),
            2: (TOE, FOOT),
            3: (None, None),
            4: (None, "reject"),
            5: ("reject", "reject"),
            6: (TOE, "skip"),
        }
        for number, said in pairs.items():
            for who, what in zip(("bob", "ann"), said, strict=True):
                kind = what if what in ("reject", "skip") else "choose" if what else "nil"
                say(who, number, kind, what if kind == "choose" else None)
        say("cy", 1, "accept"), say("cy", 7, "flag")
        say("cy", 2, "adjudicate", HAND)
        found = reviews.progress("codes")
        classes = {number: [str(one) for one in said] for number, said in pairs.items() if number < 6}
        first, second = zip(*classes.values(), strict=True)
        assert found.kappa == pytest.approx(metrics.cohen_kappa_score(first, second))
        assert (found.pair, found.compared, found.agreed, found.disagreed) == (("ann", "bob"), 5, 3, (4,))
        assert found.by_kind == {"accept": 1, "adjudicate": 1, "choose": 5, "flag": 1, "nil": 3, "reject": 3, "skip": 1}
        assert found.by_reviewer == {"ann": 6, "bob": 6, "cy": 3}
        assert (found.rows, found.occurrences) == (7, 28)
        assert (found.decided, found.decided_occurrences) == (5, 1 + 2 + 3 + 5 + 6)
        assert found.to_json()["pair"] == ("ann", "bob")


def test_the_pair_with_most_in_common(tmp_path):
    with store(tmp_path, [row(number) for number in range(1, 4)]) as reviews:
        say = Say(reviews)
        for who, numbers in {"dee": (1, 2, 3), "cy": (1, 2, 3), "ann": (1, 2), "bob": (1, 2)}.items():
            for number in numbers:
                say(who, number, "nil" if number == 3 else "accept")
        assert (reviews.progress("codes").pair, reviews.progress("codes").kappa) == (("cy", "dee"), 1.0)


def test_the_same_concept_in_another_relation_is_a_disagreement(tmp_path):
    with store(tmp_path, [row(number) for number in (1, 2)]) as reviews:
        say = Say(reviews)
        say("ann", 1, "accept", relation="exact"), say("bob", 1, "accept", relation="broad")
        # Nothing said is exact.
        say("ann", 2, "accept", relation="exact"), say("bob", 2, "choose", TOE)
        assert (reviews.standing(1).state, reviews.standing(2).state) == ("disagreed", "decided")
        found = reviews.progress("codes")
        assert (found.compared, found.agreed, found.disagreed) == (2, 1, (1,))
        assert [mapping.status for mapping in reviews.mappings("codes")] == ["flagged", "approved"]
        say("cy", 1, "adjudicate", TOE, relation="broad")
        assert next(reviews.mappings("codes")).relation == "broad"


@pytest.mark.parametrize("blind", [True, False])
def test_disagreements_of_a_blind_project_are_for_those_who_decided(tmp_path, blind):
    with store(tmp_path, [row(number) for number in (1, 2)], blind=blind) as reviews:
        say = Say(reviews)
        for number in (1, 2):
            say("ann", number, "accept"), say("bob", number, "nil")
        say("cy", 1, "skip"), say("cy", 2, "reject")
        listed = [standing.row.id for standing in reviews.disagreements("codes", reviewer="cy")]
        assert listed == ([2] if blind else [1, 2])
        assert reviews.disagreements("codes", reviewer="dee") == ([] if blind else reviews.disagreements("codes"))
        assert len(reviews.disagreements("codes", reviewer="ann")) == 2
