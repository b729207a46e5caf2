"""Single decisions: what is filled in, what is refused, who sees what, and undoing."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from alphita.errors import InputError
from alphita.review.records import Decision
from alphita.review.store import ReviewStore, Unknown
from tests.review.samples import FOOT, HAND, TOE, Say, candidate, project, row, store

pytestmark = pytest.mark.usefixtures("each_database")


@pytest.fixture
def reviews(tmp_path):
    with store(tmp_path, [row(1, 0.25), row(2, 0.75), row(3, candidates=(candidate(None, 0.5),))]) as made:
        yield made


def test_what_was_known_is_filled_in(reviews):
    sent = Decision("u", "codes", 1, "ann", "accept", TOE, comment="sûr <b>")
    stored = reviews.decide(sent)
    known = {"confidence": 0.25, "shown": (TOE, FOOT), "terminology": "t1", "release": "2026-01", "model": "m1"}
    assert stored == replace(sent, id=1, at=stored.at, relation="exact", concept_name=f"name of {TOE}", **known)
    assert abs(datetime.fromisoformat(stored.at) - datetime.now(UTC)) < timedelta(minutes=1)
    assert list(reviews.history("codes")) == [stored]
    assert reviews.newest(1) == stored


def test_what_is_said_is_kept(reviews):
    known = {"confidence": 0.5, "shown": (HAND,), "terminology": "t0", "release": "r0", "model": "m0"}
    sent = Decision("u", "codes", 1, "ann", "choose", HAND, "narrow", concept_name="hand", **known)
    stored = reviews.decide(sent)
    assert stored == replace(sent, id=1, at=stored.at)
    assert next(reviews.history("codes")) == stored


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2020-01-31T09:30:00+02:00", "2020-01-31T07:30:00.000+00:00"),
        ("2020-01-31T09:30:00", "2020-01-31T09:30:00.000+00:00"),
    ],
)
def test_a_time_that_is_given_is_kept_in_utc(reviews, given, kept):
    for uid, sent in (("u", given), ("v", kept)):
        stored = reviews.decide(Decision(uid, "codes", 1, "ann", "accept", TOE, at=sent))
        assert stored.at == kept
        assert reviews.newest(1) == stored


def test_the_relation_of_an_accepted_answer_is_the_answers(tmp_path):
    with store(tmp_path, [row(1, candidates=(candidate(TOE, relation="broad"),))]) as reviews:
        say = Say(reviews)
        assert say("ann", 1, "accept").relation == "broad"
        assert say("ann", 1, "accept", relation="narrow").relation == "narrow"
        assert say("ann", 1, "choose", TOE).relation == "exact"
        assert say("ann", 1, "nil").relation is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "acept"}, "unknown kind 'acept'; did you mean 'accept'"),
        ({"kind": "undo", "concept_id": None}, "calls of their own"),
        ({"undoes": 1}, "calls of their own"),
        ({"bulk": "b"}, "calls of their own"),
        ({"concept_id": None}, "accept needs a concept"),
        ({"concept_id": HAND}, "not the answer of row 1"),
        ({"kind": "choose", "concept_id": None}, "choose needs a concept"),
        ({"kind": "nil"}, "nil takes no concept"),
        ({"kind": "flag"}, "flag takes no concept"),
        ({"kind": "choose", "concept_id": "toe"}, "not a concept id"),
        ({"kind": "choose", "concept_id": "HP:0 1"}, "not a concept id"),
        ({"kind": "choose", "concept_id": "A:1|"}, "not a concept id"),
        ({"relation": "broader"}, "unknown relation 'broader'; did you mean 'broad'"),
        ({"kind": "nil", "concept_id": None, "relation": "exact"}, "a relation needs a concept"),
        ({"reviewer": " "}, "must not be empty"),
        ({"uid": ""}, "must not be empty"),
        ({"at": "yesterday"}, "not a time"),
        ({"at": "2999-01-31T09:30:00+00:00"}, "a time in the future"),
        ({"comment": "\ud800"}, "surrogate"),
        ({"reviewer": "\udfff"}, "surrogate"),
    ],
)
def test_what_is_not_sound_is_refused(reviews, fields, message):
    sent = replace(Decision("u", "codes", 1, "ann", "accept", TOE), **fields)
    with pytest.raises(InputError) as error:
        reviews.decide(sent)
    assert message in str(error.value)
    assert list(reviews.history("codes")) == []


@pytest.mark.parametrize("id", [0, 99, -1, 2**63, 2**100, 4])
def test_unknown_rows(reviews, id):
    reviews.add_project(project("other"))
    reviews.add_rows("other", [row(1)])
    with pytest.raises(Unknown, match="unknown row"):
        reviews.decide(Decision("u", "codes", id, "ann", "accept", TOE))
    if id != 4:
        for ask in (reviews.row, reviews.standing, reviews.newest, lambda one: reviews.history("codes", row=one)):
            with pytest.raises(Unknown, match="unknown row"):
                ask(id)


def test_an_unknown_project_offers_near_ones(reviews):
    for ask in (
        reviews.project,
        reviews.queue,
        reviews.progress,
        reviews.disagreements,
        reviews.mappings,
        reviews.history,
        lambda name: reviews.undo(name, "ann", "u"),
        lambda name: reviews.add_rows(name, []),
        lambda name: reviews.bulk(name, "ann", "u", threshold=1, preview=True),
        lambda name: reviews.remembered("LAB", [], project=name),
        lambda name: reviews.decide(Decision("u", name, 1, "ann", "accept", TOE)),
    ):
        with pytest.raises(Unknown, match="unknown project 'code'; did you mean 'codes'"):
            ask("code")


def test_sent_twice_it_is_kept_once(reviews):
    sent = Decision("u", "codes", 1, "ann", "accept", TOE)
    first = reviews.decide(sent, seen=0)
    assert reviews.decide(sent, seen=0) == first
    Say(reviews)("ann", 1, "nil")
    assert reviews.decide(sent) == first
    assert [decision.kind for decision in reviews.history("codes")] == ["accept", "nil"]
    for other in ({"row": 2}, {"reviewer": "bob"}, {"kind": "choose"}, {"comment": "x"}, {"relation": "broad"}):
        with pytest.raises(InputError, match="used for another action"):
            reviews.decide(replace(sent, **other))
    with pytest.raises(InputError, match="another action"):
        reviews.undo("codes", "ann", "u")
    with pytest.raises(InputError, match="another action"):
        reviews.bulk("codes", "ann", "u", threshold=0.5)


def test_the_uid_of_an_undo_or_of_a_bulk_action_is_no_decisions(reviews):
    reviews.bulk("codes", "ann", "b", threshold=1.0)
    reviews.undo("codes", "ann", "x")
    for uid in ("b", "x"):
        with pytest.raises(InputError, match="another action"):
            reviews.decide(Decision(uid, "codes", 1, "ann", "accept", TOE))
    with pytest.raises(InputError, match="another action"):
        reviews.bulk("codes", "ann", "b", threshold=0.9)
    with pytest.raises(InputError, match="another action"):
        reviews.undo("codes", "bob", "x")


def test_two_connections_and_many_threads(reviews):
    """Eight threads on two stores of one file decide at once: all is kept, in one order, and what follows fits."""
    failures = []
    with ReviewStore.open(reviews.address, timeout=60) as second:
        reviews.database.timeout = 60

        def work(number: int) -> None:
            # Threads 2k and 2k + 1 send the same, through either store: it is kept once.
            chosen, who = (reviews, second)[number % 2], f"r{number // 2}"
            try:
                for turn in range(15):
                    concept = (FOOT, HAND)[turn % 2]
                    stored = chosen.decide(Decision(f"{who} {turn}", "codes", turn % 3 + 1, who, "choose", concept))
                    assert stored in list(chosen.history("codes", row=turn % 3 + 1, reviewer=who))
                    chosen.queue("codes", reviewer=who)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for do in (threading.Thread.start, threading.Thread.join):
            list(map(do, threads))
        assert failures == []
        history = list(reviews.history("codes"))
        assert list(second.history("codes")) == history
        assert {decision.uid for decision in history} == {f"r{k} {turn}" for k in range(4) for turn in range(15)}
        assert [decision.id for decision in history] == list(range(1, 61))
        for row in (1, 2, 3):
            last = {decision.reviewer: decision for decision in history if decision.row == row}
            assert set(reviews.standing(row).decisions) == set(last.values())
            assert second.standing(row) == reviews.standing(row)


def test_a_reader_sees_one_moment(reviews):
    say = Say(reviews)
    say("ann", 1, "accept")
    running = reviews.history("codes")
    next(running)
    say("ann", 2, "accept")
    assert list(running) == []
    assert len(list(reviews.history("codes"))) == 2
