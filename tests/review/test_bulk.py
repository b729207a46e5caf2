"""Many rows at once: bulk acceptance, and moving a project to another release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alphita.errors import InputError
from alphita.review.records import Bulk, Decision, Rebase, Rebased
from alphita.review.store import Unknown
from tests.review.samples import FOOT, HAND, TOE, Say, candidate, project, row, store

pytestmark = pytest.mark.usefixtures("each_database")


@pytest.fixture
def reviews(tmp_path):
    rows = [
        row(1, 0.95, 10, types=("Sign",)),
        row(2, 0.9, 3),
        row(3, 0.9, 2, candidates=(candidate(None, 0.9),)),
        row(4, 0.89, 7),
        row(5, None),
        row(6, 1.0, types=("Sign", "Disease")),
        row(7, candidates=()),
    ]
    with store(tmp_path, rows) as made:
        made.add_project(project("other"))
        made.add_rows("other", [row(1, 1.0)])
        yield made


def test_accepts_what_is_open_and_sure_enough(reviews):
    say = Say(reviews)
    say("ann", 6, "flag"), say("ann", 2, "skip"), say("bob", 1, "nil")
    preview = reviews.bulk("codes", "ann", "b", threshold=0.9, preview=True)
    assert (preview.rows, preview.occurrences, preview.decisions) == (3, 15, ())
    assert preview.expected_wrong == pytest.approx(0.05 + 0.1 + 0.1)
    assert [decision.uid for decision in reviews.history("codes")] == ["codes 1", "codes 2", "codes 3"]
    done = reviews.bulk("codes", "ann", "b", threshold=0.9)
    assert replace(done, decisions=()) == preview
    assert [
        (decision.row, decision.kind, decision.concept_id, decision.relation, decision.bulk)
        for decision in done.decisions
    ] == [(1, "accept", TOE, "exact", "b"), (2, "accept", TOE, "exact", "b"), (3, "nil", None, None, "b")]
    assert [decision.confidence for decision in done.decisions] == [0.95, 0.9, 0.9]
    assert list(reviews.history("codes"))[3:] == list(done.decisions)
    assert reviews.standing(1).state == "disagreed"
    assert reviews.bulk("codes", "ann", "b", threshold=0.9) == done
    assert reviews.bulk("codes", "ann", "again", threshold=0.9) == Bulk(0, 0, 0.0)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), float("inf")])
def test_the_threshold_is_a_probability(reviews, threshold):
    for preview in (True, False):
        with pytest.raises(InputError, match="between 0 and 1"):
            reviews.bulk("codes", "ann", "b", threshold=threshold, preview=preview)


def test_an_action_needs_a_uid_and_a_reviewer(reviews):
    for reviewer, uid in (("", "b"), ("ann", " ")):
        with pytest.raises(InputError, match="must not be empty"):
            reviews.bulk("codes", reviewer, uid, threshold=1)
        with pytest.raises(InputError, match="must not be empty"):
            reviews.undo("codes", reviewer, uid)


NEW = {"terminology": "t2", "release": "2026-07", "model": "m2"}


def instead(old: Decision, concept: str | None, **fields) -> Decision:
    return replace(old, concept_id=concept, **fields)


def test_another_release(reviews):
    say = Say(reviews)
    accepted, chosen, nil = (
        say("ann", 1, "accept"),
        say("ann", 2, "choose", FOOT, relation="broad"),
        say("ann", 3, "nil"),
    )
    other = say("bob", 3, "reject")
    before = say("ann", 4, "choose", FOOT)
    flagged = say("ann", 4, "flag")
    moved = {1: (candidate(HAND, 0.7),), 4: (candidate(FOOT, 0.2),)}
    asked = {
        **NEW,
        "candidates": moved,
        "types": {1: ("Finding",), 6: ()},
        "reopen": [3, 4, 5],
        "follow": {
            accepted.id: instead(accepted, HAND, comment="replaced", concept_name=None),
            chosen.id: instead(chosen, "HP:0000009", concept_name="nine", relation=None),
        },
    }
    assert reviews.rebase("codes", "migration", "move", Rebase(**asked)) == Rebased(followed=2, reopened=2)
    found = reviews.project("codes")
    assert (found.terminology, found.release, found.model) == ("t2", "2026-07", "m2")
    # The answer now is what was accepted under another id.
    (first,) = reviews.standing(1).decisions
    assert first == replace(
        accepted,
        id=first.id,
        uid="move#1",
        at=first.at,
        concept_id=HAND,
        concept_name=f"name of {HAND}",
        comment="replaced",
        bulk="move",
        confidence=0.7,
        shown=(HAND,),
        **NEW,
    )
    (second,) = reviews.standing(2).decisions
    assert (second.kind, second.concept_id, second.concept_name) == ("choose", "HP:0000009", "nine")
    assert (second.relation, second.reviewer, second.terminology) == ("broad", "ann", "t2")
    for number in (3, 4, 5):
        assert (reviews.standing(number).state, reviews.standing(number).decisions) == ("open", ())
    undone = {decision.undoes: decision.reviewer for decision in reviews.history("codes") if decision.kind == "undo"}
    assert undone == dict.fromkeys((nil.id, other.id, before.id, flagged.id), "migration")
    assert reviews.queue("codes", types=["Sign"], state="all")[0] == 0
    assert [one.row.id for one in reviews.queue("codes", types=["Finding"], state="all")[1]] == [1]
    assert reviews.row(4).confidence == 0.2
    assert [one.row.id for one in reviews.queue("codes", search=HAND, state="all")[1]] == [1]
    # The same move again does nothing.
    n = len(list(reviews.history("codes")))
    assert reviews.rebase("codes", "migration", "move", Rebase(**asked)) == Rebased(2, 2)
    assert len(list(reviews.history("codes"))) == n
    # Undo stops there, but takes back what was decided since.
    assert say.undo("ann") == ()
    since = say("ann", 1, "nil")
    assert say.undo("ann") == (since,)
    assert reviews.standing(1).decisions == (first,)
    # What was reopened is news to who decided it.
    assert reviews.newest(4, "ann").kind == "undo"


def test_an_accepted_answer_that_is_one_no_more_was_chosen(reviews):
    accepted = Say(reviews)("ann", 1, "accept")
    reviews.rebase("codes", "m", "move", Rebase(**NEW, follow={accepted.id: instead(accepted, HAND)}))
    assert [decision.kind for decision in reviews.standing(1).decisions] == ["choose"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"candidates": {99: ()}},
        {"reopen": [99]},
        {"reopen": [8]},
        {"candidates": {8: ()}},
        {"types": {8: ()}},
        *({"follow": {id: Decision("", "", 0, "", "choose", one)}} for id, one in ((99, HAND), (1, HAND), (2, "h"))),
        {"candidates": {1: (candidate(TOE, 7.0),)}},
        {"lost": [1]},
    ],
)
def test_all_of_a_move_or_nothing(reviews, wrong):
    say = Say(reviews)
    say("ann", 1, "nil")
    second = say("ann", 1, "accept")
    before = reviews.standing(1), list(reviews.history("codes")), reviews.project("codes")
    asked = {**NEW, "candidates": {2: ()}, "follow": {second.id: instead(second, HAND)}, "reopen": [1]} | wrong
    with pytest.raises((Unknown, InputError)):
        reviews.rebase("codes", "m", "move", Rebase(**asked))
    assert (reviews.standing(1), list(reviews.history("codes")), reviews.project("codes")) == before
    assert reviews.row(2).candidates != ()


def test_the_uid_of_a_move_is_its_own(reviews):
    reviews.bulk("codes", "m", "move", threshold=1)
    with pytest.raises(InputError, match="another action"):
        reviews.rebase("codes", "m", "move", Rebase(**NEW))
