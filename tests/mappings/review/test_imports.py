"""What a file says was decided, as decisions of the store."""

from __future__ import annotations

from collections import Counter

import pytest

from alphita.errors import Rejects
from alphita.mappings.formats import Header, csv, usagi
from alphita.mappings.review import files
from alphita.mappings.review.records import Added
from tests.mappings import sample
from tests.mappings.review.samples import Say, store
from tests.mappings.sample import mapping

AT = "2024-05-06T07:08:09.000+00:00"
SAID = {"reviewer": "ann", "reviewed_at": AT, "comment": "seen", "status": "approved"}
USAGI = (
    "sourceCode,sourceName,mappingStatus,equivalence,statusSetBy,statusSetOn,conceptId,conceptName,mappingType,comment\n"
    "A1,heart attack,APPROVED,EQUAL,ann,1714979289000,4329847,Myocardial infarction,MAPS_TO,seen\n"
    "A1,heart attack,APPROVED,EQUAL,ann,1714979289000,4181583,Acute,MAPS_TO_VALUE,\n"
    "A2,asthma,APPROVED,WIDER,bob,0,317009,Asthma,MAPS_TO,\n"
    "A3,cough,UNCHECKED,UNREVIEWED,,0,254761,Cough,MAPS_TO,\n"
)


def read(path, *lines, left_out=None):
    given = sample.write(csv, Header(), lines, path / "in.csv")
    return files.read(given, csv, "codes", Rejects(strict=True), left_out=left_out)


def told(reviews):
    return [
        (one.row, one.reviewer, one.kind, one.concept_id, one.relation, one.comment, one.at)
        for one in reviews.history("codes")
    ]


def test_a_usagi_file_keeps_its_approvals(tmp_path):
    path = tmp_path / "lab.usagi.csv"
    path.write_text(USAGI)
    left_out = Counter()
    rows = files.read(path, usagi, "codes", Rejects(strict=True), left_out=left_out)
    assert left_out == {"further approved mappings of a row": 1}
    with store(tmp_path) as reviews:
        assert reviews.add_rows("codes", rows) == Added(3, 0, decided=2)
        first, second = reviews.history("codes")
        assert (first.reviewer, first.kind, first.concept_id, first.at, first.comment) == (
            "ann", "accept", "OMOP:4329847", AT, "seen"
        )  # fmt: skip
        assert (second.reviewer, second.relation) == ("bob", "broad")
        assert first.uid.startswith("import:")
        assert first.uid.endswith(":lab.usagi.csv")
        # A person looked at it: it was not accepted in bulk.
        assert first.bulk == ""
        assert [one.status for one in reviews.mappings("codes")] == ["approved", "approved", "unreviewed"]
        # The target beyond the one that a row holds is among the candidates.
        assert [one.concept_id for one in reviews.row(1).candidates] == ["OMOP:4329847", "OMOP:4181583"]
        assert reviews.add_rows("codes", rows) == Added(0, 3)


@pytest.mark.parametrize(
    ("lines", "expected", "left"),
    [
        ([mapping("toe", **SAID)], ("accept", "HP:0000001", "exact", "seen"), {}),
        ([mapping("toe", rank=2, **SAID), mapping("toe", "HP:2")], ("choose", "HP:0000001", "exact", "seen"), {}),
        ([mapping("toe", None, **SAID | {"relation": None})], ("nil", None, None, "seen"), {}),
        ([mapping("toe", **SAID | {"status": "rejected"})], ("reject", None, None, "seen"), {}),
        ([mapping("toe", **SAID | {"status": "flagged"})], ("flag", None, None, "seen"), {}),
        ([mapping("toe", **SAID | {"status": "ignored"})], ("skip", None, None, "ignored; seen"),
         {"ignored mappings, kept as skipped": 1}),
        ([mapping("toe", **SAID | {"status": "rejected"}), mapping("toe", "HP:2", **SAID)],
         ("accept", "HP:2", "exact", "seen"), {"further rejected mappings of a row": 1}),
        ([mapping("toe"), mapping("toe", "HP:2", rank=2, **SAID | {"status": "rejected"})], None,
         {"further rejected mappings of a row": 1}),
    ],
)  # fmt: skip
def test_what_each_status_becomes(tmp_path, lines, expected, left):
    left_out = Counter()
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, *lines, left_out=left_out))
        assert told(reviews) == ([] if expected is None else [(1, "ann", *expected, AT)])
    assert left_out == left


def test_two_reviewers_who_say_the_same_are_both_kept(tmp_path):
    lines = [mapping("toe", **SAID | {"reviewer": who}) for who in ("ann", "bob", None)]
    with store(tmp_path) as reviews:
        assert reviews.add_rows("codes", read(tmp_path, *lines)).decided == 3
        assert [one.reviewer for one in reviews.history("codes")] == ["ann", "bob", "imported"]
        assert reviews.standing(1).state == "decided"


def test_a_file_does_not_overtake_what_was_decided_here(tmp_path):
    old, new = (read(tmp_path, mapping("toe", **SAID | {"reviewed_at": at})) for at in (AT, "2999-01-01"))
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, mapping("toe")))
        Say(reviews)("ann", 1, "nil")
        assert reviews.add_rows("codes", old) == Added(0, 1, overtaken=1)
        assert reviews.standing(1).concept_id is None
        assert reviews.add_rows("codes", new) == Added(0, 1, decided=1)
        assert reviews.standing(1).concept_id == "HP:0000001"


def test_what_was_exported_here_is_known_here(tmp_path):
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, mapping("toe")))
        Say(reviews)("ann", 1, "nil", comment="none")
        back = read(tmp_path, *reviews.mappings("codes"))
        assert reviews.add_rows("codes", back) == Added(0, 1)
        assert len(list(reviews.history("codes"))) == 1


def test_an_undo_leaves_what_was_imported(tmp_path):
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, mapping("toe", **SAID), mapping("foot", row=2, **SAID)), by="cy")
        say = Say(reviews)
        say("ann", 1, "nil")
        assert [one.kind for one in say.undo("ann")] == ["nil"]
        assert say.undo("ann") == ()
        assert reviews.standing(1).concept_id == "HP:0000001"
