"""SOURCE_TO_CONCEPT_MAP."""

from __future__ import annotations

import gzip
import shutil
import zipfile

import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, TargetInfo, omop
from alphita.mappings.formats import csv as csv_format
from tests.mappings import sample
from tests.mappings.sample import header, mapping

FIRST = (
    "source_code,source_concept_id,source_vocabulary_id,source_code_description,target_concept_id,"
    "target_vocabulary_id,valid_start_date,valid_end_date,invalid_reason"
)


def test_a_file_to_the_letter(tmp_path):
    lines = [
        mapping("sore, red toe", mention_code="T1", relation="broad", status="approved"),
        mapping("no toe", None, row=2),
        mapping("a value", mention_code="T3", mapping_type="maps_to_value", row=3),
        mapping("not so", mention_code="T4", status="rejected", row=4),
        mapping("not so", "HP:0000002", mention_code="T4", rank=2, row=4),
    ]
    path = sample.write(omop, header(), lines, tmp_path / "a.stcm.csv")
    assert path.read_text().splitlines() == [
        FIRST,
        'T1,0,LOCAL,"sore, red toe",11,HPO,1970-01-01,2099-12-31,',
        "no toe,0,LOCAL,no toe,0,None,1970-01-01,2099-12-31,",
    ]
    back = sample.read(omop, header(), path)
    assert [(one.mention_code, one.mention, one.concept_id, one.method) for one in back] == [
        ("T1", "sore, red toe", "OMOP:11", "nearest"),
        (None, "no toe", None, "nil"),
    ]
    assert omop.losses(header(), lines) == {
        "targets of type maps_to_value": 1,
        "rejected mappings": 1,
        "further candidates": 1,
        "relation": 1,
        "decision": 1,
        "status": 1,
    }


def test_lengths():
    assert omop.validate(header(), mapping(mention_code="c" * 50)) is None
    long = mapping(mention_code="c" * 51)
    assert omop.validate(header(), long).field == "mention_code"
    assert omop.encode(header(), [long]) == b""
    assert omop.losses(header(), [long]) == {"a source code of more than 50 characters": 1}
    wordy = [mapping("d" * 255, mention_code="1"), mapping("d" * 256, mention_code="2")]
    assert [len(row.split(",")[3]) for row in omop.encode(header(), wordy).decode().splitlines()] == [255, 255]
    assert omop.losses(header(), wordy) == {"mention": 1}
    assert omop.begin(header(source_vocabulary="v" * 20)).decode() == FIRST + "\n"
    for name in ("v" * 21, ""):
        with pytest.raises(UsageError, match="1 to 20 characters"):
            omop.begin(header(source_vocabulary=name))
    far = header(target_info={"HP:0000001": TargetInfo(1, "", "w" * 21)}.get)
    assert omop.validate(far, mapping(mention_code="1")).problem == "a vocabulary id of more than 20 characters"


def test_tabs_and_line_breaks_are_one_blank(tmp_path):
    lines = [
        mapping("sore\t\ttoe", row=1),
        mapping("red \r\n toe", row=2),
        mapping("blue\ntoe", mention_code="T3", row=3),
        mapping("x" * 25 + "\t\n" + "y" * 24, row=4),
        mapping("sore toe", row=5),
    ]
    path = sample.write(omop, header(), lines, tmp_path / "a.stcm.csv")
    long = "x" * 25 + " " + "y" * 24
    assert [line.split(",")[:4:3] for line in path.read_text().splitlines()[1:]] == [
        ["sore toe", "sore toe"],
        ["red toe", "red toe"],
        ["T3", "blue toe"],
        [long, long],
    ]
    assert omop.losses(header(), lines) == {"mention": 4}


def test_reading_what_others_wrote(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(
        f"{FIRST}\n1,0,V,Cold,21,S,,,\n2,0,V,Wart,22,S,,,D\n3,0,V,Wart,x,S,,,\n,0,V,Wart,1,S,,,\n5,0,V,,0,S,,,\n"
    )
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(omop.read(path, header(), rejects))
    assert [(one.row, one.mention_code, one.mention, one.concept_id) for one in back] == [
        (1, "1", "Cold", "OMOP:21"),
        (5, None, "5", None),
    ]
    assert [line.split(",")[1:3] for line in (tmp_path / "rejects.csv").read_text().splitlines()[1:]] == [
        ["3", "invalid_reason"],
        ["4", "target_concept_id"],
        ["5", "source_code"],
    ]


def test_facts_of_concepts(tmp_path):
    path = tmp_path / "CONCEPT.csv"
    path.write_text(
        "concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_code\n"
        '31\tBlue "lantern"\tCondition\tSNOMED\t100\n32\tLamp\tDrug\tMine\tm1\n33\tOther\tDrug\tSNOMED\t101\n'
    )
    found = omop.load_concepts(path, {"SNOMEDCT:100", "OMOP:32", "HP:1"})
    assert found["SNOMEDCT:100"] == (31, "Condition", "SNOMED", None, "")
    assert found["OMOP:32"] == (32, "Drug", "Mine", None, "")
    assert "SNOMEDCT:101" not in found
    # As Athena gives it.
    (tmp_path / "CONCEPT.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    with zipfile.ZipFile(tmp_path / "athena.zip", "w") as archive:
        archive.writestr("CONCEPT_SYNONYM.csv", "x")
        archive.write(path, "vocabulary/CONCEPT.csv")
    (tmp_path / "folder").mkdir()
    shutil.copy(path, tmp_path / "folder" / "concept.csv")
    for packed in ("CONCEPT.csv.gz", "athena.zip", "folder"):
        assert omop.load_concepts(tmp_path / packed, {"SNOMEDCT:100", "OMOP:32", "HP:1"}) == found
    with zipfile.ZipFile(tmp_path / "athena.zip", "w") as archive:
        archive.writestr("CONCEPT_SYNONYM.csv", "x")
    with pytest.raises(InputError, match=r"no CONCEPT\.csv in it"):
        omop.load_concepts(tmp_path / "athena.zip", {"OMOP:32"})
    path.write_text("concept_id\tname\n")
    with pytest.raises(InputError, match="no column 'domain_id'"):
        omop.load_concepts(path, set())


def test_which_concepts_are_standard_and_valid(tmp_path):
    path = tmp_path / "CONCEPT.csv"
    path.write_text(
        "concept_id\tdomain_id\tvocabulary_id\tstandard_concept\tconcept_code\tinvalid_reason\n"
        "41\tCondition\tSNOMED\tS\t100\t\n42\tCondition\tICD10CM\t\tI21.9\t\n43\tCondition\tSNOMED\tC\t101\t\n"
        "44\tCondition\tSNOMED\t\t102\tU\n45\tCondition\tSNOMED\t\t103\tD\n46\tCondition\tSNOMED\tS\t103\t\n"
    )
    known = omop.load_concepts(path, ["SNOMEDCT:100", "ICD10CM:I21.9", "SNOMEDCT:101", "SNOMEDCT:102", "SNOMEDCT:103"])
    assert known["SNOMEDCT:100"][3:] == (True, "")
    assert known["ICD10CM:I21.9"][3:] == known["SNOMEDCT:101"][3:] == (False, "")
    assert known["SNOMEDCT:102"][3:] == (False, "U")
    # A code that was given a new meaning.
    assert known["SNOMEDCT:103"].omop_concept_id == 46
    assert known["OMOP:45"].invalid_reason == "D"
    head = header(target_info=known.get)
    assert omop.validate(head, mapping(concept_id="SNOMEDCT:100")) is None
    for concept, said in (("ICD10CM:I21.9", "not a Standard Concept"), ("SNOMEDCT:102", "no longer valid in OMOP")):
        lines = [mapping(concept_id=concept), mapping(concept_id=concept, row=2, status="rejected")]
        problem = omop.validate(head, lines[0])
        assert (problem.field, problem.value) == ("concept_id", concept)
        assert said in problem.problem
        assert "'Maps to' in CONCEPT_RELATIONSHIP" in problem.problem
        # It is left out for another reason, which is counted.
        assert omop.validate(head, lines[1]) is None
        assert omop.encode(head, lines) == b""
        assert omop.losses(head, lines) == {problem.problem: 1, "rejected mappings": 1}


def test_a_code_and_its_target_are_written_once(tmp_path):
    lines = [
        mapping("sore toe", mention_code="1"),
        mapping("Sore toe", mention_code="1", row=2),
        mapping("toe,\nsore", "HP:0000002", mention_code="1", row=3),
        mapping("sore toe", mention_code="2", row=4),
        mapping("none", None, mention_code="3", row=5),
        mapping("sore toe", mention_code="1", row=6),
    ]
    told = []
    path = sample.write(omop, header(tell=told.append), lines, tmp_path / "a.stcm.csv", pieces=2)
    back = sample.read(omop, header(), path)
    assert [(one.mention_code, one.mention, one.concept_id) for one in back] == [
        ("1", "sore toe", "OMOP:11"),
        ("1", "toe, sore", "OMOP:12"),
        ("2", "sore toe", "OMOP:11"),
        ("3", "none", None),
    ]
    assert told == [f"{path}: left out: 2 rows with the code and target of an earlier one"]
    # What goes to stdout as it grows would repeat them.
    assert not omop.STREAMS


def test_target_0_is_left_out_where_a_code_has_another_target(tmp_path):
    lines = [
        mapping("sore toe", None, mention_code="1"),
        mapping("Sore toe", mention_code="1", row=2),
        mapping("sore toe", None, mention_code="1", row=3),
        mapping("none", None, mention_code="2", row=4),
        mapping("none", None, mention_code="2", row=5),
        mapping("heel", mention_code="3", row=6),
        mapping("source_code", None, row=7),
        # Without a text nothing was asked.
        mapping(" ", None, mention_code="4", row=8),
    ]
    told = []
    path = sample.write(omop, header(tell=told.append), lines, tmp_path / "a.stcm.csv")
    assert path.read_text().splitlines()[0] == FIRST
    back = sample.read(omop, header(), path)
    assert [(one.mention_code or one.mention, one.concept_id) for one in back] == [
        ("1", "OMOP:11"),
        ("2", None),
        ("3", "OMOP:11"),
        ("source_code", None),
    ]
    assert told == [
        f"{path}: 1 row without a code; the text is the source_code",
        f"{path}: left out: 1 row with the code and target of an earlier one",
        f"{path}: left out: 2 rows with target 0 of a code that has another target",
    ]


def test_vocabularies_dates_and_source_concepts_are_written_again(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(
        f"{FIRST}\n1,0,V,Cold,21,S,1970-01-01,2099-12-31,\n1,0,W,Wart,22,S,2020-01-01,2021-12-31,\n3,7,V,Mole,23,S,,,\n"
    )
    back = sample.read(omop, Header(), path)
    out = sample.write(omop, Header(with_review=True).for_mappings(back), back, tmp_path / "out.csv")
    assert sample.read(omop, Header(), out) == back
    assert "1,0,W,Wart,22,S,2020-01-01,2021-12-31," in out.read_text().splitlines()
    assert csv_format.losses(Header(), back) == {
        "mention_vocabulary": 3,
        "target_vocabulary_id": 3,
        "valid_start_date": 1,
        "valid_end_date": 1,
        "source_concept_id": 1,
    }
