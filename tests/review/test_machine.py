"""Any run of decisions, undos, bulk actions, forgetting and restoring, against a naive store."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alphita.errors import InputError
from alphita.review.records import Decision
from alphita.review.store import Conflict, NoDisagreement, ReviewStore
from alphita.terminology.text import clean
from tests.review.naive import Naive
from tests.review.samples import FOOT, HAND, TOE, candidate, project, row

REVIEWERS = ("ann", "bob", "cy")
PROJECTS = (project(), project("open", blind=False), project("other", source="RIS"))
MENTIONS = ("Sore toe", "sore  toe", "SORE TOE.", "toe", "?!")
KINDS = ("accept", "choose", "nil", "reject", "skip", "flag", "adjudicate")
FORGET = st.sampled_from(
    [
        ("source", "LAB"),
        ("source", "RIS"),
        ("project", "codes"),
        ("project", "open"),
        *(("reviewer", one) for one in REVIEWERS),
    ]
)
who, where = st.sampled_from(REVIEWERS), st.sampled_from([one.name for one in PROJECTS])
FAST = Path("/dev/shm")


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = self.address()
        self.store = ReviewStore.open(self.path, create=True)
        self.naive, self.n = Naive(), 0

    def address(self) -> str:
        self.folder = tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None)
        return f"{self.folder.name}/reviews.sqlite"

    def teardown(self) -> None:
        self.store.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def uid(self) -> str:
        self.n += 1
        return f"u{self.n}"

    @initialize(
        rows=st.lists(
            st.tuples(
                where,
                st.sampled_from(MENTIONS),
                st.sampled_from([None, 0.0, 0.5, 0.9, 1.0]),
                st.integers(0, 3),
                st.sampled_from([TOE, None]),
                st.sets(st.sampled_from("ab")),
            ),
            min_size=3,
            max_size=6,
        )
    )
    def fill(self, rows) -> None:
        for one in PROJECTS:
            self.store.add_project(one)
            self.naive.projects[one.name] = one
        for number, (name, mention, confidence, frequency, concept, types) in enumerate(rows, 1):
            candidates = (candidate(concept, confidence), candidate(FOOT, rank=2))
            made = row(number, frequency=frequency, mention=mention, candidates=candidates, types=tuple(sorted(types)))
            assert self.store.add_rows(name, [made, made]).new == 1
            self.naive.rows[number] = self.store.row(number)
            assert self.store.row(number).project == name

    @rule(data=st.data(), reviewer=who, kind=st.sampled_from(KINDS))
    def decide(self, data, reviewer, kind) -> None:
        number = data.draw(st.sampled_from(sorted(self.naive.rows)))
        about = self.naive.rows[number]
        concept = None
        if kind == "accept":
            concept = about.candidates[0].concept_id
            kind = kind if concept else "nil"
        elif kind in ("choose", "adjudicate"):
            concept = data.draw(st.sampled_from([FOOT, HAND] + [None] * (kind == "adjudicate")))
        before = self.store.newest(number, None if kind == "adjudicate" else reviewer)
        sent = Decision(self.uid(), about.project, number, reviewer, kind, concept)
        if kind == "adjudicate" and not self.naive.is_disputed(number):
            with pytest.raises(NoDisagreement):
                self.store.decide(sent)
            return
        if before is not None:
            with pytest.raises(Conflict) as conflict:
                self.store.decide(sent, seen=before.id - 1)
            assert conflict.value.newest == before
        stored = self.store.decide(sent, seen=before.id if before else 0)
        self.naive.decide(sent)
        assert stored.id > (before.id if before else 0)
        # Sent again, because the answer was lost on its way.
        assert self.store.decide(sent, seen=0) == stored

    @rule(name=where, reviewer=who)
    def undo(self, name, reviewer) -> None:
        uid = self.uid()
        taken = self.store.undo(name, reviewer, uid)
        expected = self.naive.undo(name, reviewer, uid)
        assert len(taken) == len(expected)
        assert self.store.undo(name, reviewer, uid) == taken
        assert [decision.id for decision in taken] == expected

    @rule(
        name=where,
        reviewer=who,
        threshold=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        types=st.sampled_from(["", "a", "ab"]),
    )
    def bulk(self, name, reviewer, threshold, types) -> None:
        uid = self.uid()
        asked = {"threshold": threshold, "types": list(types)}
        preview = self.store.bulk(name, reviewer, uid, **asked, preview=True)
        done = self.store.bulk(name, reviewer, uid, **asked)
        expected = [self.naive.rows[id] for id in self.naive.bulk(name, reviewer, uid, threshold, list(types))]
        assert [decision.row for decision in done.decisions] == [one.id for one in expected]
        assert (done.rows, done.occurrences) == (len(expected), sum(one.frequency for one in expected))
        assert math.isclose(done.expected_wrong, sum(1 - one.confidence for one in expected), abs_tol=1e-12)
        assert preview == type(done)(done.rows, done.occurrences, done.expected_wrong)
        assert self.store.bulk(name, reviewer, uid, **asked) == done

    @rule(what=FORGET)
    def forget(self, what) -> None:
        if what[0] == "reviewer" and not self.naive.of(*what):
            return
        assert self.store.forget(**dict([what]), by="boss") == self.naive.forget(*what)

    @precondition(lambda self: self.naive.forgotten)
    @rule(data=st.data())
    def restore(self, data) -> None:
        what = data.draw(st.sampled_from(sorted(self.naive.forgotten)))
        assert self.store.restore(**dict([what]), by="boss") == self.naive.restore(*what)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = ReviewStore.open(self.path)

    @precondition(lambda self: self.naive.decisions)
    @rule(data=st.data())
    def reuse_uid(self, data) -> None:
        stored = data.draw(st.sampled_from(list(self.store.history("codes")) or [None]))
        if stored is not None:
            with pytest.raises(InputError, match="uid"):
                self.store.decide(Decision(stored.uid, "codes", stored.row, "dee", "skip"))

    @invariant()
    def stands(self) -> None:
        for id in self.naive.rows:
            for reviewer in (None, *REVIEWERS):
                found = self.store.standing(id, reviewer=reviewer)
                state, by = self.naive.stand(id, reviewer)
                assert [decision.id for decision in found.decisions] == [
                    decision.id for decision in self.naive.visible(id, reviewer)
                ]
                assert (found.state, found.settled) == (state, by is not None)
                assert found.concept_id == (by.concept_id if by else None)

    @invariant()
    def queues(self) -> None:
        for name in self.naive.projects:
            for reviewer in (None, "ann"):
                for order, state in (
                    ("risk", "open"),
                    ("frequency", "all"),
                    ("confidence", "decided"),
                    ("row", "flagged"),
                ):
                    total, page = self.store.queue(name, reviewer=reviewer, order=order, state=state)
                    expected = self.naive.queue(name, reviewer, order, state)
                    assert (total, [one.row.id for one in page]) == (len(expected), expected)
                    assert all(one == self.store.standing(one.row.id, reviewer=reviewer) for one in page[:1])

    @invariant()
    def remembers(self) -> None:
        cleaned = {id: clean(one.mention) for id, one in self.naive.rows.items()}
        for source in ("LAB", "RIS"):
            found = self.store.remembered(source, MENTIONS)
            for mention in MENTIONS:
                expected = clean(mention) and self.naive.remembered(source, clean(mention), cleaned)
                assert (found[mention].id if mention in found else None) == (expected.id if expected else None)

    @invariant()
    def keeps_history(self) -> None:
        found = sorted(
            (one for name in self.naive.projects for one in self.store.history(name)), key=lambda one: one.id
        )
        expected = self.naive.decisions
        assert [(one.id, one.kind, one.undoes, one.reviewer, one.concept_id) for one in found] == [
            (one.id, one.kind, one.undoes, one.reviewer, one.concept_id) for one in expected
        ]
        assert [one.forgotten for one in found] == [self.naive.is_forgotten(one) for one in expected]

    @invariant()
    def progresses(self) -> None:
        for name in self.naive.projects:
            found = self.store.progress(name)
            of = [id for id, one in self.naive.rows.items() if one.project == name]
            states = {id: self.naive.stand(id, None)[0] for id in of}
            in_force = [one for id in of for one in self.naive.in_force(id).values()]
            assert found.rows == len(of)
            assert found.decided == sum(state == "decided" for state in states.values())
            assert found.disagreed == tuple(id for id in of if states[id] == "disagreed")
            assert sum(found.by_kind.values()) == sum(found.by_reviewer.values()) == len(in_force)
            assert all(found.by_kind[decision.kind] and found.by_reviewer[decision.reviewer] for decision in in_force)


Machine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMachine = Machine.TestCase


def test_in_postgresql(schema) -> None:
    class InPostgresql(Machine):
        def address(self) -> str:
            return schema()

    few = settings(Machine.TestCase.settings, max_examples=2, stateful_step_count=8)
    run_state_machine_as_test(InPostgresql, settings=few)
