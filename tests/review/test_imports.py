"""What a file says was decided, as decisions of the store."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import pytest

from alphita.errors import Rejects
from alphita.mappings.formats import Header, csv, usagi
from alphita.review import files
from alphita.review.records import Added
from tests.mappings import sample
from tests.mappings.sample import mapping
from tests.review.samples import Say, project, store

pytestmark = pytest.mark.usefixtures("each_database")

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
    return list(files.read(given, csv, "codes", Rejects(strict=True), left_out=left_out))


def hours_ahead(hours):
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def told(reviews):
    names = attrgetter("row", "reviewer", "kind", "concept_id", "relation", "comment", "at")
    return [names(decision) for decision in reviews.history("codes")]


def test_a_usagi_file_keeps_its_approvals(tmp_path):
    path = tmp_path / "lab.usagi.csv"
    path.write_text(USAGI)
    left_out = Counter()
    rows = list(files.read(path, usagi, "codes", Rejects(strict=True), left_out=left_out))
    assert left_out == {"further approved mappings of a row": 1}
    with store(tmp_path) as reviews:
        assert reviews.add_rows("codes", rows) == Added(3, 0, decided=2)
        first, second = reviews.history("codes")
        assert told(reviews)[0] == (1, "ann", "accept", "OMOP:4329847", "exact", "seen", AT)
        assert (second.reviewer, second.relation) == ("bob", "broad")
        assert first.uid.startswith("import:")
        assert first.uid.endswith(":lab.usagi.csv")
        # A person looked at it: it was not accepted in bulk.
        assert first.bulk == ""
        assert [mapping.status for mapping in reviews.mappings("codes")] == ["approved", "approved", "unreviewed"]
        # The target beyond the one that a row holds is among the candidates.
        assert [candidate.concept_id for candidate in reviews.row(1).candidates] == ["OMOP:4329847", "OMOP:4181583"]
        assert reviews.add_rows("codes", rows) == Added(0, 3)


def test_targets_approved_together_are_one_decision_and_written_one_by_one(tmp_path):
    head, *lines = USAGI.replace("MAPS_TO_VALUE", "MAPS_TO").splitlines(keepends=True)
    path = tmp_path / "lab.usagi.csv"
    path.write_text(head + "".join(lines))
    left_out = Counter()
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", files.read(path, usagi, "codes", Rejects(strict=True), left_out=left_out))
        assert told(reviews)[0][:5] == (1, "ann", "choose", "OMOP:4329847|OMOP:4181583", "exact")
        assert left_out == {}
        written = usagi.encode(Header(), list(reviews.mappings("codes"))).decode()
    cells = [line.split(",") for line in written.splitlines()]
    assert [(one[0], one[5], *one[9:11]) for one in cells[:2]] == [
        ("A1", "APPROVED", "4329847", "Myocardial infarction"),
        ("A1", "APPROVED", "4181583", "Acute"),
    ]
    # Read again, they are one decision again.
    again, folder = tmp_path / "again.usagi.csv", tmp_path / "other"
    again.write_text(usagi.begin(Header()).decode() + written)
    folder.mkdir()
    with store(folder) as other:
        other.add_rows("codes", files.read(again, usagi, "codes", Rejects(strict=True)))
        assert told(other)[0][:5] == (1, "ann", "choose", "OMOP:4329847|OMOP:4181583", "exact")


def test_the_nearest_concept_of_a_nil_can_be_chosen(tmp_path):
    nil = mapping("toe", None, nearest_id="HP:2", nearest_name="Foot")
    for further in ([], [mapping("toe", "HP:2", rank=2)]):
        (row,) = read(tmp_path, nil, *further)
        assert [one.concept_id for one in row.candidates] == [None, "HP:2"]


@pytest.mark.parametrize(
    ("lines", "expected", "left"),
    [
        ([mapping("toe", **SAID)], ("accept", "HP:0000001", "exact", "seen"), {}),
        ([mapping("toe", rank=2, **SAID), mapping("toe", "HP:2")], ("choose", "HP:0000001", "exact", "seen"), {}),
        ([mapping("toe", None, **SAID | {"relation": None})], ("nil", None, None, "seen"), {}),
        ([mapping("toe", **SAID | {"status": "rejected"})], ("reject", None, None, "seen"), {}),
        ([mapping("toe", **SAID | {"status": "flagged"})], ("flag", None, None, "seen"), {}),
        (
            [mapping("toe", **SAID | {"status": "ignored"})],
            ("skip", None, None, "ignored; seen"),
            {"ignored mappings, kept as skipped": 1},
        ),
        (
            [mapping("toe", **SAID | {"status": "rejected"}), mapping("toe", "HP:2", **SAID)],
            ("accept", "HP:2", "exact", "seen"),
            {"further rejected mappings of a row": 1},
        ),
        (
            [mapping("toe"), mapping("toe", "HP:2", rank=2, **SAID | {"status": "rejected"})],
            None,
            {"further rejected mappings of a row": 1},
        ),
    ],
)
def test_what_each_status_becomes(tmp_path, lines, expected, left):
    left_out = Counter()
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, *lines, left_out=left_out))
        assert told(reviews) == ([] if expected is None else [(1, "ann", *expected, AT)])
    assert left_out == left


def test_what_a_reviewer_says_twice_of_a_row_is_put_together(tmp_path):
    lines = [mapping("toe", **SAID | {"comment": None, "reviewed_at": None}), mapping("toe", **SAID)]
    lines.append(mapping("toe", **SAID | {"comment": "again"}))
    lines += [mapping("toe", **SAID | {"reviewer": who}) for who in ("bob", None)]
    with store(tmp_path) as reviews:
        assert reviews.add_rows("codes", read(tmp_path, *lines)).decided == 3
        assert told(reviews)[0] == (1, "ann", "accept", "HP:0000001", "exact", "seen; again", AT)
        assert [decision.reviewer for decision in reviews.history("codes")] == ["ann", "bob", "imported"]
        assert reviews.standing(1).state == "decided"


REJECTED = {"status": "rejected"}
HERE = "as decided here"


@pytest.mark.parametrize(
    ("decided", "earlier", "concept", "said", "options", "added", "meant"),
    [
        (True, None, "HP:0000001", {}, {}, Added(0, 1, overtaken=1), None),
        (True, None, "HP:0000001", {"reviewed_at": HERE}, {}, Added(0, 1, overtaken=1), None),
        (True, None, "HP:0000001", {"reviewed_at": hours_ahead}, {}, Added(0, 1, decided=1), "HP:0000001"),
        (True, None, "HP:0000001", {"reviewed_at": hours_ahead}, {"by": "bob"}, Added(0, 1, overtaken=1), None),
        (True, None, "HP:0000001", {"reviewed_at": hours_ahead}, {"by": "ann"}, Added(0, 1, decided=1), "HP:0000001"),
        (False, None, "HP:9", REJECTED, {}, Added(0, 1, overtaken=1), None),
        (False, None, "HP:0000001", REJECTED, {}, Added(0, 1, decided=1), None),
        # A corrected file, of the same time.
        *(
            (False, SAID | {"reviewed_at": at}, "HP:2", {"reviewed_at": at}, {}, Added(0, 1, decided=1), "HP:2")
            for at in (AT, "2024-05-06", None)
        ),
    ],
)
def test_a_files_decision_is_taken_if_it_is_newer_and_nobody_elses(
    tmp_path, decided, earlier, concept, said, options, added, meant
):
    with store(tmp_path) as reviews:
        reviews.add_rows("codes", read(tmp_path, mapping("toe", **earlier or {})))
        here = Say(reviews)("ann", 1, "nil").at if decided else ""
        time.sleep(0.002)
        at = said.get("reviewed_at", AT)
        at = here if at == HERE else at(0) if callable(at) else at
        given = read(tmp_path, mapping("toe", concept, **SAID | said | {"reviewed_at": at}))
        assert reviews.add_rows("codes", given, **options, guarded=bool(options)) == added
        assert reviews.standing(1).concept_id == meant


def test_one_without_a_time_has_none_and_is_older_than_all_others(tmp_path):
    undated = mapping("toe", **SAID | {"reviewed_at": None})
    with store(tmp_path) as reviews:
        reviews.add_project(project("later"))
        reviews.add_rows("codes", read(tmp_path, mapping("toe", "HP:2", **SAID)))
        reviews.add_rows("later", read(tmp_path, undated))
        assert [decision.at for decision in reviews.history("later")] == [""]
        assert [one.reviewed_at for one in reviews.mappings("later")] == [None]
        assert reviews.remembered("LAB", ["toe"])["toe"].concept_id == "HP:2"


def test_an_old_file_brought_late_is_old(tmp_path):
    with store(tmp_path) as reviews:
        reviews.add_project(project("old"))
        reviews.add_rows("codes", read(tmp_path, mapping("toe")))
        said = Say(reviews)("ann", 1, "nil")
        reviews.add_rows("old", read(tmp_path, mapping("toe", **SAID)))
        assert reviews.remembered("LAB", ["toe"]) == {"toe": said}
        assert reviews.settled(source="LAB") == {"toe": said}
        flag = mapping("toe", **SAID | {"status": "flagged", "reviewer": "bob"})
        assert reviews.add_rows("codes", read(tmp_path, flag)).decided == 1
        assert reviews.standing(1).state == "decided"


def test_a_time_in_the_future_sets_the_row_aside(tmp_path):
    # A time without a zone may be that of a clock east of here.
    times = [hours_ahead(1), hours_ahead(1)[:19], hours_ahead(15)[:19], "2999-01-01", hours_ahead(-1)]
    lines = [mapping(f"toe {row}", row=row, **SAID | {"reviewed_at": at}) for row, at in enumerate(times, 1)]
    given = sample.write(csv, Header(), lines, tmp_path / "in.csv")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        rows = list(files.read(given, csv, "codes", rejects))
    assert [one.number for one in rows] == [2, 5]
    told = (tmp_path / "rejects.csv").read_text()
    assert (rejects.count, told.count("reviewed_at"), told.count("a time in the future")) == (3, 3, 3)


def test_what_a_row_means_is_what_it_maps_to(tmp_path):
    value = {"mapping_type": "maps_to_value"} | SAID
    lines = [
        mapping("nuts", "HP:2", **value),
        mapping("nuts", **SAID),
        mapping("red", row=2, **value),
        mapping("red", row=2, **SAID | {"reviewer": "bob", "mapping_type": "maps_to_unit"}),
    ]
    left_out = Counter()
    with store(tmp_path) as reviews:
        added = reviews.add_rows("codes", read(tmp_path, *lines, left_out=left_out))
        assert added.decided == 1
        assert told(reviews) == [(1, "ann", "accept", "HP:0000001", "exact", "seen", AT)]
    assert left_out == {
        "further approved mappings of a row": 1,
        "approved mappings that do not say what a row means (not maps_to)": 2,
    }


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
