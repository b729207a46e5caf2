"""Usagi's mapping files."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from alphita.errors import Rejects, UsageError
from alphita.mappings.formats import usagi
from tests.mappings import sample
from tests.mappings.sample import header, mapping

FIRST = (
    "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,mappingStatus,equivalence,"
    "statusSetBy,statusSetOn,conceptId,conceptName,domainId,mappingType,comment,createdBy,createdOn,assignedReviewer"
)


def test_a_file_to_the_letter(tmp_path):
    lines = [
        mapping(
            "sore, red toe",
            mention_code="T1",
            frequency=7,
            relation="broad",
            confidence=0.876,
            similarity=0.5,
            concept_name="Toe",
        ),
        mapping("sore, red toe", "HP:0000002", mention_code="T1", rank=2),
        mapping("no toe", None, mention_code="T2", row=2),
        mapping(
            'a "bad"\ntoe\\',
            mention_code="T3",
            row=3,
            status="approved",
            relation="exact",
            reviewer="Ann",
            reviewed_at="2026-01-30T10:00:00+00:00",
            comment="yes",
        ),
        mapping(
            'a "bad"\ntoe\\',
            "HP:0000002",
            mention_code="T3",
            row=3,
            rank=2,
            status="approved",
            mapping_type="maps_to_value",
        ),
    ]
    path = sample.write(usagi, header(date="2026-01-31"), lines, tmp_path / "a.usagi.csv")
    end = ",alphita,1769817600000,"
    assert path.read_text().splitlines() == [
        FIRST,
        f'T1,"sore, red toe",7,12,0.88,UNCHECKED,WIDER,,0,11,Toe,Condition,MAPS_TO,{end}',
        f"T2,no toe,-1,,0.00,UNCHECKED,UNMATCHED,,0,0,,,MAPS_TO,{end}",
        f'T3,"a ""bad""\\ntoe\\\\",-1,,0.00,APPROVED,EQUAL,Ann,1769767200000,11,,Condition,MAPS_TO,yes{end}',
        f'T3,"a ""bad""\\ntoe\\\\",-1,,0.00,APPROVED,UNREVIEWED,,0,12,,Condition,MAPS_TO_VALUE,{end}',
    ]
    back = sample.read(usagi, header(), path)
    assert [(one.row, one.rank, one.concept_id, one.status, one.mapping_type) for one in back] == [
        (1, 1, "OMOP:11", "unreviewed", "maps_to"),
        (1, 2, "OMOP:12", "unreviewed", "maps_to"),
        (2, 1, None, "unreviewed", "maps_to"),
        (3, 1, "OMOP:11", "approved", "maps_to"),
        (3, 1, "OMOP:12", "approved", "maps_to_value"),
    ]
    assert back[3].mention == 'a "bad"\ntoe\\'
    assert back[3].reviewed_at == "2026-01-30T10:00:00+00:00"
    assert usagi.losses(header(), lines) == {
        "further candidates, but for their concept ids": 1,
        "similarity": 1,
        "confidence": 1,
        "rank": 1,
    }


def test_ids_of_omop_are_needed():
    with pytest.raises(UsageError, match="alphita terminology import omop"):
        usagi.encode(header(target_info=None), [mapping()])
    assert b",77," in usagi.encode(header(target_info=None), [mapping(concept_id="OMOP:77")])
    unknown = mapping(concept_id="HP:0000009")
    assert usagi.validate(header(), unknown).value == "HP:0000009"
    assert usagi.encode(header(), [unknown]) == b""
    assert usagi.losses(header(), [unknown]) == {"a concept without OMOP's concept id": 1}


def test_reading_what_others_wrote(tmp_path):
    path = tmp_path / "in.usagi.csv"
    path.write_text(
        "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,ADD_INFO:x,matchScore,mappingStatus,"
        "equivalence,statusSetBy,statusSetOn,conceptId,mappingType\n"
        "1,Cold,5,21;22,more,0.9,APPROVED,EQUIVALENT,Bo,1.7e+12,21,EVENT\n"
        "1,Cold,5,21;22,more,0.9,APPROVED,EQUAL,Bo,0,23,VALUE\n"
        "2,Wart,,,,0,DONE,EQUAL,,0,21,EVENT\n"
        "3,Wart,,,,0,UNCHECKED,SAME,,0,21,EVENT\n"
        "4,Wart,,,,0,UNCHECKED,,,0,many,EVENT\n"
        "5,Wart,,,,high,UNCHECKED,,,0,0,EVENT\n"
        "6,Mole,,,,,INVALID_TARGET,,,0,0,\n"
    )
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(usagi.read(path, header(), rejects))
    assert [(one.row, one.rank, one.concept_id, one.relation, one.mapping_type, one.status) for one in back] == [
        (1, 1, "OMOP:21", "exact", "maps_to", "approved"),
        (1, 1, "OMOP:23", "exact", "maps_to_value", "approved"),
        (1, 2, "OMOP:21", None, "maps_to", "unreviewed"),
        (1, 3, "OMOP:22", None, "maps_to", "unreviewed"),
        (6, 1, None, None, "maps_to", "flagged"),
    ]
    assert back[0].reviewed_at.startswith("2023-11-14")
    assert [line.split(",")[1:3] for line in (tmp_path / "rejects.csv").read_text().splitlines()[1:]] == [
        ["4", "mappingStatus"],
        ["5", "equivalence"],
        ["6", "conceptId"],
        ["7", "matchScore"],
    ]


def read_rows(tmp_path, columns, *rows, tell=None):
    """Return the mappings of a file of some columns, beside those that it must have, and its rejects' fields."""
    path = tmp_path / "in.usagi.csv"
    path.write_text("".join(f"{line}\n" for line in (f"sourceCode,sourceName,mappingStatus,conceptId{columns}", *rows)))
    head = header() if tell is None else header(tell=tell)
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(usagi.read(path, head, rejects))
    said = (tmp_path / "rejects.csv").read_text().splitlines()[1:] if rejects.count else []
    return back, [tuple(line.split(",")[1:4]) for line in said]


def test_no_frequency(tmp_path):
    back, rejects = read_rows(
        tmp_path, ",sourceFrequency", "1,a,APPROVED,5,-1", "2,b,APPROVED,5,", "3,c,APPROVED,5,0", "4,d,APPROVED,5,-2"
    )
    assert [one.frequency for one in back] == [None, None, 0]
    assert rejects == [("5", "sourceFrequency", "-2")]
    # As R writes them.
    back, rejects = read_rows(
        tmp_path, ",sourceFrequency", "1,a,APPROVED,5,1e+05", "2,b,APPROVED,5,1.6e+12", "3,c,APPROVED,5,1e+20"
    )
    assert [one.frequency for one in back] == [100_000, 1_600_000_000_000]
    assert rejects == [("4", "sourceFrequency", "1e+20")]
    # Usagi reads the cell as an integer.
    assert b",a toe,-1,," in usagi.encode(header(), [mapping("a toe")])
    assert "frequency" not in usagi.losses(header(), [mapping()])


def test_what_usagi_cannot_count_is_none(tmp_path):
    line = mapping(frequency=-5, status="approved", reviewer="Ann", reviewed_at="1969-12-31T10:00:00+00:00")
    path = sample.write(usagi, header(), [line], tmp_path / "a")
    assert [(one.frequency, one.reviewed_at) for one in sample.read(usagi, header(), path)] == [(None, None)]
    assert usagi.losses(header(), [line]) == {"frequency": 1, "reviewed_at": 1}


def test_a_match_score_is_no_confidence(tmp_path):
    path = sample.write(usagi, header(), [mapping(similarity=0.9)], tmp_path / "a")
    assert [(one.similarity, one.confidence) for one in sample.read(usagi, header(), path)] == [(0.9, None)]
    assert usagi.losses(header(), [mapping(similarity=0.9)]) == {}
    assert usagi.losses(header(), [mapping(confidence=0.9)]) == {"similarity": 1, "confidence": 1}
    scores = ("1", "1.01", "-0.5", "nan", "inf")
    back, rejects = read_rows(tmp_path, ",matchScore", *(f"{at},a,APPROVED,5,{one}" for at, one in enumerate(scores)))
    assert [one.similarity for one in back] == [1.0]
    assert rejects == [(str(line), "matchScore", score) for line, score in enumerate(scores[1:], 3)]


def test_a_time_that_is_none(tmp_path):
    times = ("1700000000000", "1700000000000000", "900000000000000000")
    back, rejects = read_rows(tmp_path, ",statusSetOn", *(f"{at},a,APPROVED,5,{one}" for at, one in enumerate(times)))
    assert [one.reviewed_at for one in back] == ["2023-11-14T22:13:20+00:00"]
    assert rejects == [("3", "statusSetOn", times[1]), ("4", "statusSetOn", times[2])]


def statuses(path):
    return [tuple(line.split(",")[place] for place in (5, 9)) for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("first", "second", "written"),
    [
        ("approved", "approved", "APPROVED"),
        ("approved", "unreviewed", "UNCHECKED"),
        ("flagged", "approved", "FLAGGED"),
        ("unreviewed", "flagged", "FLAGGED"),
        ("approved", "ignored", "UNCHECKED"),
        ("ignored", "ignored", "IGNORED"),
    ],
)
def test_a_mention_has_one_status(tmp_path, first, second, written):
    lines = [mapping(status=first), mapping(concept_id="HP:0000002", status=second, mapping_type="maps_to_value")]
    path = sample.write(usagi, header(), lines, tmp_path / "a")
    assert statuses(path) == [(written, "11"), (written, "12")]
    changed = sum(usagi.STATUSES[one] != written for one in (first, second))
    assert usagi.losses(header(), lines).get("status", 0) == changed


def test_words_of_usagi_are_written_again(tmp_path):
    path, head = tmp_path / "in.usagi.csv", header()
    path.write_text(
        "sourceCode,sourceName,mappingStatus,equivalence,mappingType,conceptId\n"
        "1,a,INVALID_TARGET,EQUIVALENT,EVENT,5\n2,b,APPROVED,EQUAL,MAPS_TO,5\n3,c,AUTO_MAPPED,UNMATCHED,,0\n"
    )
    back = sample.read(usagi, head, path)
    assert ([one.decision for one in back], head.lost) == ([None, "reviewed", None], {})
    assert usagi.losses(head, back) == {}
    again = sample.read(usagi, head, sample.write(usagi, head, back, tmp_path / "out.usagi.csv"))
    assert again == back
    # A person's later word counts, and not the file's.
    changed = replace(back[0], status="approved", relation="broad")
    assert usagi.losses(head, [changed]) == {
        "mappingStatus INVALID_TARGET": 1,
        "equivalence EQUIVALENT": 1,
        "decision": 1,
    }


def test_a_mention_given_again_is_one_with_all_frequencies(tmp_path):
    """Usagi would take neighbouring rows of one code and name for targets of one mention."""
    lines = [
        mapping("toe", mention_code="T1", row=1, frequency=3),
        mapping("toe", "HP:0000002", mention_code="T1", row=1, rank=2),
        mapping("toe", mention_code="T1", row=2, frequency=4),
        mapping("toe", "HP:0000002", mention_code="T1", row=2, rank=2),
        mapping("toe", None, mention_code="T1", row=3),
        mapping("toe", mention_code="T2", row=4, frequency=1),
        mapping("heel", None, row=5),
        mapping("heel", None, row=6),
        mapping("toe", mention_code="T1", row=7, frequency=5),
    ]
    path = sample.write(usagi, header(), lines, tmp_path / "a.usagi.csv")
    rows = [line.split(",")[:4] + line.split(",")[9:10] for line in path.read_text().splitlines()[1:]]
    assert rows == [
        ["T1", "toe", "7", "12", "11"],
        ["T2", "toe", "1", "", "11"],
        ["", "heel", "-1", "", "0"],
        ["T1", "toe", "5", "", "11"],
    ]
    assert [(one.row, one.rank, one.frequency) for one in sample.read(usagi, header(), path)] == [
        (1, 1, 7),
        (1, 2, 7),
        (2, 1, 1),
        (3, 1, None),
        (4, 1, 5),
    ]
    assert usagi.losses(header(), lines) == {
        "mentions given again, with the first one's row": 3,
        "further candidates, but for their concept ids": 1,
    }


def test_a_mention_that_goes_on_and_on_does_not_fill_the_memory():
    held = ()
    for row in range(100):
        lines = [mapping("toe", row=row, frequency=1), mapping("toe", "HP:0000002", row=row, rank=2)]
        complete, held = usagi.split_complete(header(), [*held, *lines])
        assert (complete, len(held)) == ([], 2)
    assert [one.frequency for one in held] == [100, 100]


def test_repetitions_with_other_targets_keep_them_all(tmp_path):
    lines = [
        mapping("toe", mention_code="T1", row=1, status="approved"),
        mapping("toe", "HP:0000002", mention_code="T1", row=2, status="approved", mapping_type="maps_to_value"),
        mapping("toe", "HP:0000002", mention_code="T1", row=3, status="approved"),
    ]
    back = sample.read(usagi, header(), sample.write(usagi, header(), lines, tmp_path / "a"))
    assert [(one.concept_id, one.mapping_type, one.status) for one in back] == [
        ("OMOP:11", "maps_to", "approved"),
        ("OMOP:12", "maps_to_value", "approved"),
        ("OMOP:12", "maps_to", "approved"),
    ]


def test_a_target_that_a_file_repeats_is_read_once(tmp_path):
    end = ",alphita,0,"
    row = f"T1,toe,3,,0.50,APPROVED,EQUAL,Ann,0,11,Toe,Condition,MAPS_TO,{end}"
    other = f"T1,toe,3,,0.50,APPROVED,EQUAL,Ann,0,11,Toe,Condition,MAPS_TO_VALUE,{end}"
    after = f"T2,toe,3,,0.50,APPROVED,EQUAL,Ann,0,11,Toe,Condition,MAPS_TO,{end}"
    path = tmp_path / "a.usagi.csv"
    path.write_text("\n".join([FIRST, row, row, other, after]) + "\n")
    with Rejects(tmp_path / "r.csv") as aside:
        back = list(usagi.read(path, header(), aside))
    assert [(one.mention_code, one.mapping_type) for one in back] == [
        ("T1", "maps_to"),
        ("T1", "maps_to_value"),
        ("T2", "maps_to"),
    ]
    assert aside.count == 1
    assert "the mention has this target already" in (tmp_path / "r.csv").read_text()
    assert ",3," in (tmp_path / "r.csv").read_text().splitlines()[1]


def test_a_rejected_target_beside_another_one_is_left_out(tmp_path):
    lines = [
        mapping(mention_code="1", status="rejected"),
        mapping(mention_code="1", concept_id="HP:0000002", rank=2, status="approved"),
        mapping(mention_code="2", row=2, status="rejected"),
        mapping(mention_code="2", concept_id=None, row=2, status="approved"),
        mapping(mention_code="3", row=3, status="rejected"),
        mapping(mention_code="3", concept_id="HP:0000002", row=3, rank=2, status="rejected"),
        mapping(mention_code="3", concept_id="HP:0000002", row=3, rank=3),
    ]
    path = sample.write(usagi, header(), lines, tmp_path / "a")
    assert statuses(path) == [("APPROVED", "12"), ("APPROVED", "0"), ("FLAGGED", "11"), ("FLAGGED", "12")]
    assert usagi.losses(header(), lines) == {
        "rejected mappings": 2,
        "further candidates, but for their concept ids": 1,
        "rank": 2,
        "status": 2,
    }


def test_columns_beside_the_mapping_are_kept_and_unknown_ones_are_told_once(tmp_path):
    told = []
    back, _ = read_rows(
        tmp_path,
        ",ADD_INFO:unit,domainId,assignedReviewer,createdBy,mine",
        "1,a,APPROVED,5,mg,Drug,,ann,x",
        "2,b,APPROVED,6,ml,Drug,,,",
        tell=told.append,
    )
    assert [line.partition("each has: ")[2] for line in told] == ["mine (1)"]
    out = sample.write(usagi, header().for_mappings(back), back, tmp_path / "out.usagi.csv")
    with open(out, newline="") as file:
        written = [(row["ADD_INFO:unit"], row["domainId"], row["createdBy"]) for row in csv.DictReader(file)]
    assert written == [("mg", "Drug", "ann"), ("ml", "Drug", "alphita")]
