"""What is remembered, forgotten, restored and exported."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import csv, jsonl, sssom
from alphita.review import memory, rules
from alphita.review.store import ReviewStore, Unknown
from tests.mappings.sample import header, write
from tests.review.samples import FOOT, HAND, TOE, Say, candidate, plan, project, row, store

pytestmark = pytest.mark.usefixtures("each_database")


def test_equal_after_cleaning(tmp_path):
    with store(tmp_path, [row(1, mention="Sore  TOE."), row(2, mention="?!"), row(3, mention="type 1")]) as reviews:
        say = Say(reviews)
        said = say("ann", 1, "accept")
        say("ann", 2, "accept"), say("ann", 3, "accept")
        asked = ["sore toe", "SORE\u00a0TOE", "sore toes", "?!", "!!", "", "type 2"]
        assert reviews.remembered("LAB", asked) == {"sore toe": said, "SORE\u00a0TOE": said}
        assert reviews.remembered("LAB", iter(["sore toe"])) == {"sore toe": said}
        assert reviews.remembered("RIS", asked) == {}
        assert reviews.remembered("LAB", []) == {}


@pytest.mark.parametrize("beside", [False, True])
def test_the_newest_counts_though_the_clock_was_set_back_between_two_programs(tmp_path, monkeypatch, beside):
    """The second program begins later, or serves beside the first, on a machine whose clock is behind."""
    ahead = timedelta(seconds=60)
    monkeypatch.setattr(rules, "_latest", "")
    monkeypatch.setattr(rules, "clock", SimpleNamespace(now=lambda: datetime.now(UTC) + ahead))
    with ExitStack() as opened:
        reviews = opened.enter_context(store(tmp_path, [row(1, mention="sore toe"), row(2, mention="sore toe")]))
        other = opened.enter_context(ReviewStore.open(reviews.address)) if beside else None
        first = Say(reviews)("ann", 1, "accept")
        ahead = -ahead
        monkeypatch.setattr(rules, "_latest", "")  # as another program begins
        other = other or opened.enter_context(ReviewStore.open(reviews.address))
        say = Say(other)
        say.n = 9
        second = say("ann", 2, "nil")
        assert first.at <= second.at
        assert other.remembered("LAB", ["sore toe"]) == {"sore toe": second}


def test_all_that_is_settled(tmp_path):
    with store(tmp_path, [row(1, mention="Toe"), row(2, mention="?!"), row(3), row(4)]) as reviews:
        reviews.add_project(project("later")), reviews.add_project(project("ris", source="RIS"))
        reviews.add_rows("later", [row(1, mention="TOE")]), reviews.add_rows("ris", [row(1, mention="toe")])
        say = Say(reviews)
        first = say("ann", 1, "accept")
        say("ann", 2, "accept"), say("ann", 3, "reject"), say("ann", 4, "flag")
        assert reviews.settled() == reviews.settled(source="LAB") == {"toe": first}
        second, third = Say(reviews, "later")("bob", 5, "nil"), Say(reviews, "ris")("ann", 6, "choose", HAND)
        assert reviews.settled() == {"toe": third}
        assert reviews.settled(source="LAB") == {"toe": second}
        assert reviews.settled(source="LAB", project="codes") == reviews.settled(project="codes") == {"toe": first}
        assert [reviews.remembered("LAB", ["TOE"], project=one) for one in ("codes", "ris")] == [{"TOE": first}, {}]
        reviews.forget(reviewer="bob", by="ann")
        assert reviews.settled(source="LAB") == {"toe": first}
        for unknown in ({"source": "LAP"}, {"project": "code"}):
            with pytest.raises(Unknown, match="did you mean"):
                reviews.settled(**unknown)


def test_thousands_at_once(tmp_path):
    with store(tmp_path, [row(number, 1.0) for number in range(1, 1_101)]) as reviews:
        reviews.bulk("codes", "ann", "b", threshold=1.0)
        found = reviews.remembered("LAB", (f"MENTION {number}" for number in range(1_200)))
        assert {mention: one.row for mention, one in found.items()} == {f"MENTION {n}": n for n in range(1, 1_101)}
        assert len(list(reviews.mappings("codes", settled_only=True))) == 1_100


def test_remembering_uses_the_index(tmp_path):
    with store(tmp_path, [row(number) for number in range(1, 50)]) as reviews:
        asked = memory.settling("forms", "source")
        found = plan(reviews, asked, source="LAB", forms=["mention 1"])
    assert "row_by_cleaned" in found
    assert "SCAN row" not in found
    assert "Seq Scan on row" not in found


def test_exactly_one_that_there_is(tmp_path):
    with store(tmp_path, [row(1)]) as reviews:
        Say(reviews)("ann", 1, "accept")
        for change in (reviews.forget, reviews.restore):
            for wrong in ({}, {"source": "LAB", "reviewer": "ann"}):
                with pytest.raises(UsageError, match="exactly one"):
                    change(**wrong, by="boss")
            for wrong in ({"source": "LABS"}, {"project": "code"}, {"reviewer": "anne"}):
                with pytest.raises(Unknown, match=r"unknown (source|project|reviewer) .* did you mean"):
                    change(**wrong, by="boss")
            with pytest.raises(InputError, match="must not be empty"):
                change(reviewer="ann", by=" ")


def exported(reviews, **asked):
    return list(reviews.mappings("codes", **asked))


def test_what_is_exported(tmp_path):
    nil = (candidate(None, 0.5, matched_term="toe"),)
    both = (candidate(TOE, 0.5, decision="accept"), candidate(FOOT, rank=2))
    rows = [
        *(row(number, candidates=both) for number in range(1, 10)),
        row(10, candidates=nil),
        row(11, candidates=nil),
        row(12, candidates=(), code=""),
    ]
    with store(tmp_path, rows) as reviews:
        say = Say(reviews)
        say("ann", 1, "accept", relation="narrow", comment="fits")
        say("ann", 2, "choose", FOOT)
        say("ann", 3, "choose", HAND, concept_name="hand", relation="broad")
        say("ann", 4, "nil", comment="none")
        say("ann", 5, "reject")
        say("ann", 6, "flag", comment="look")
        say("ann", 7, "accept"), say("bob", 7, "nil")
        say("ann", 8, "skip")
        say("ann", 9, "accept"), say("bob", 9, "reject"), say("cy", 9, "adjudicate", HAND)
        say("ann", 10, "nil"), say("ann", 11, "reject")
        found = exported(reviews)
        columns = ("row", "status", "concept_id", "concept_name", "relation")
        columns += ("reviewer", "comment", "confidence", "method")
        assert [tuple(getattr(one, name) for name in columns) for one in found] == [
            (1, "approved", TOE, f"name of {TOE}", "narrow", "ann", "fits", 0.5, "nearest"),
            (2, "approved", FOOT, f"name of {FOOT}", "exact", "ann", None, None, "nearest"),
            (3, "approved", HAND, "hand", "broad", "ann", None, None, "nearest"),
            (4, "approved", None, None, None, "ann", "none", None, "nil"),
            (5, "rejected", TOE, f"name of {TOE}", None, "ann", None, 0.5, "nearest"),
            (6, "flagged", TOE, f"name of {TOE}", None, "ann", "look", 0.5, "nearest"),
            (7, "flagged", TOE, f"name of {TOE}", None, None, "reviewers disagree", 0.5, "nearest"),
            (8, "unreviewed", TOE, f"name of {TOE}", None, None, None, 0.5, "nearest"),
            (9, "approved", HAND, None, "exact", "cy", None, None, "nearest"),
            (10, "approved", None, None, None, "ann", None, 0.5, "nil"),
            (11, "rejected", None, None, None, "ann", None, 0.5, "nil"),
            (12, "unreviewed", None, None, None, None, None, None, "nil"),
        ]
        # What one filters on: what a person approved may be used, what one rejected or flagged may not.
        decisions = {"approved": "reviewed", "rejected": None, "flagged": None, "unreviewed": "accept"}
        assert all(one.decision == decisions[one.status] for one in found if one.row < 12)
        said = {decision.row: decision.at for decision in reviews.history("codes")}
        assert all(one.rank == 1 and one.mention == f"mention {one.row}" for one in found)
        assert all(one.mention_code == (None if one.row == 12 else f"c{one.row}") for one in found)
        assert all(one.reviewed_at == said[one.row] for one in found if one.reviewer)
        settled = exported(reviews, settled_only=True)
        assert settled == [one for one in found if one.status in ("approved", "rejected")]
        for format in (csv, jsonl):
            path = write(format, header(), found, tmp_path / f"out{format.SUFFIXES[0]}")
            assert list(format.read(path, header(), Rejects(strict=True))) == found
        path = write(sssom, header(), settled, tmp_path / "out.sssom.tsv")
        back = sorted(sssom.read(path, header(), Rejects(strict=True)), key=lambda one: one.mention)
        # That NIL is wrong has no place in SSSOM.
        said = [one for one in settled if one.concept_id or one.status != "rejected"]
        said.sort(key=lambda one: one.mention)
        columns = ("mention", "concept_id", "reviewer", "comment")
        assert [[getattr(one, name) for name in columns] for one in back] == [
            [getattr(one, name) for name in columns] for one in said
        ]


def test_each_reviewers_comment_is_kept_however_a_row_stands(tmp_path):
    with store(tmp_path, [row(number) for number in range(1, 6)]) as reviews:
        say = Say(reviews)
        say("ann", 1, "accept", comment="a"), say("bob", 1, "accept", comment="b")
        say("ann", 2, "accept", comment="a"), say("bob", 2, "nil"), say("cy", 2, "adjudicate", HAND, comment="c")
        say("ann", 3, "accept", comment="a"), say("bob", 3, "nil", comment="b")
        say("ann", 4, "flag", comment="a"), say("bob", 4, "skip", comment="b")
        say("ann", 5, "skip", comment="a")
        said = ["ann: a; bob: b", "ann: a; cy: c", "reviewers disagree; ann: a; bob: b", "ann: a; bob: b", "ann: a"]
        assert [one.comment for one in exported(reviews)] == said
        assert reviews.remembered("LAB", ["mention 1"])["mention 1"].comment == said[0]
        assert [value.comment for value in reviews.settled().values()] == said[:2]
        say("ann", 5, "accept", comment="same"), say("bob", 5, "accept", comment="same")
        assert exported(reviews)[4].comment == "same"


def test_a_concepts_name_stays_when_the_next_reviewer_gives_none(tmp_path):
    with store(tmp_path, [row(1)]) as reviews:
        say = Say(reviews)
        say("ann", 1, "choose", HAND, concept_name="hand")
        assert say("bob", 1, "choose", HAND).concept_name == "hand"
        assert exported(reviews)[0].concept_name == "hand"
        assert say("bob", 1, "choose", FOOT).concept_name == f"name of {FOOT}"
