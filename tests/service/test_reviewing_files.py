"""The review API: files in, and out in every format, read back equal."""

from __future__ import annotations

import csv
import gzip
import io
import json
import time
from datetime import UTC, datetime

import pytest
from fhir.resources.conceptmap import ConceptMap as R5
from fhir.resources.R4B.conceptmap import ConceptMap as R4

from alphita import registry
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header
from alphita.review.records import Decision
from alphita.service import review_files
from tests.mappings import sample
from tests.mappings.test_fhir import faults
from tests.service.review_service import mapping, service
from tests.service.test_fhir import AX, SYSTEM

FORMATS = "alphita.mappings.formats"
ANSWERS = (
    "row,mention_code,mention,frequency,rank,concept_id,concept_name,relation,method,confidence\n"
    "1,A,Fevr,3,1,AX:4,Fever,exact,nearest,0.9\n1,A,Fevr,3,2,AX:2,Ache of the head,,nearest,\n"
    "2,B,nothing,1,1,,,,nil,0.5\n3,A,Fevr,4,1,AX:4,Fever,exact,nearest,0.9\n"
    "4,D,bad secret,1,1,AX:4,Fever,wrong,nearest,\n"
)
TYPE = {"Content-Type": "text/csv"}


def test_a_project_keeps_its_filters_and_is_searched_with_them(lab):
    body = "mention,concept_id\nheadach,AX:2\ndulorin,BX:1\n"
    asked = {"type": ["finding", "Drug"], "language": "en", "concept_source": "AX", "under": "AX:1"}
    said = send(lab, body, **asked).json()
    assert said["left_out"] == {"candidates that the project's filters leave out": 1}
    told = {"types": ["Drug", "finding"], "languages": ["en"], "sources": ["AX"], "under": ["AX:1"]}
    assert lab.as_().get("/api/projects/new").json()["filters"] == told
    assert lab.store.project("lab").filters == {}

    def found(typed, **more):
        answer = lab.as_().get("/search", params={"q": typed} | more).json()
        return [one["id"] for one in answer["concepts"]]

    assert found("ache", project="new")[0] == "AX:1"
    assert set(found("dulorin fever", project="new")) <= {"AX:1", "AX:2", "AX:3"}
    assert "BX:2" in found("dulorin") == found("dulorin", project="lab")
    assert found("BX:2") == ["BX:2"]
    assert "BX:2" not in found("BX:2", project="new")
    refused = send(lab, body, target="MSH")
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "filters")


def test_a_project_of_codes_is_searched_and_decided_by_them(lab):
    assert send(lab, "mention,concept_id\nsore,MESH:D901\n", target="msh").status_code == 201
    row = lab.store.queue("new")[1][0].row
    assert row.types == ("Finding",)
    asked = lab.as_().get("/search", params={"q": "ache", "project": "new"}).json()["concepts"]
    assert [one["id"] for one in asked] == ["MESH:D900", "MESH:D901|MESH:D902"]
    choice = {"uid": "u", "kind": "choose", "concept_id": asked[1]["id"], "seen": 0}
    made = lab.as_().post(f"/api/projects/new/rows/{row.id}/decisions", json=choice)
    assert made.status_code == 201, made.text
    assert made.json()["decision"]["concept_name"] == asked[1]["name"]


@pytest.fixture
def decided(lab):
    """L1 approved as broad, L2 rejected, L3 NIL; the row without a code is open."""
    rows = lab.ids()
    for place, kind, concept, relation in (
        (0, "accept", "AX:2", "broad"),
        (1, "reject", None, None),
        (2, "nil", None, None),
    ):
        lab.store.decide(Decision(f"d{place}", "lab", rows[place], "ann", kind, concept, relation, "<b>why</b>"))
    return lab


def send(lab, body=ANSWERS, headers=TYPE, **query):
    asked = {"name": "new", "source": "CLINIC", "column": "text"} | query
    return lab.as_("ann", "administrators").post("/api/projects", params=asked, content=body, headers=headers)


def export(lab, **query):
    return lab.as_("ann", "administrators").get("/api/projects/lab/export", params=query)


def test_import(lab):
    answer = send(lab)
    assert answer.status_code == 201
    said = answer.json()
    assert (said["new"], said["known"], said["set_aside"]) == (2, 0, 1)
    assert said["problems"] == [
        {"line": "6", "field": "relation", "problem": "must be one of ['exact', 'broad', 'narrow', 'related']"}
    ]
    assert "secret" not in answer.text
    project = lab.store.project("new")
    assert (project.source, project.column, project.blind) == ("CLINIC", "text", True)
    assert (project.terminology, project.model) == (
        lab.index.manifest["terminology_hash"],
        lab.index.manifest["model_hash"],
    )
    first, second = (one.row for one in lab.store.queue("new", order="row")[1])
    assert (first.code, first.mention, first.frequency, first.number, first.types) == ("A", "Fevr", 7, 1, ("Sign",))
    assert [candidate.concept_id for candidate in first.candidates] == ["AX:4", "AX:2"]
    assert (second.mention, second.candidates[0].concept_id, second.confidence) == ("nothing", None, 0.5)
    assert send(lab).json()["known"] == 2
    assert lab.as_().get("/api/projects/new/rows", params={"type": "Sign"}).json()["total"] == 1


def test_an_import_brings_its_decisions_and_sets_unsound_rows_aside(lab):
    head = "row,mention,frequency,concept_id,status,reviewer,reviewed_at\n"
    body = head + (
        "1,Fevr,1,AX:4,approved,eve,2024-05-06T07:08:09+00:00\n1,Fevr,1,AX:2,approved,eve,\n"
        "2,odd,-1,AX:4,unreviewed,,\n3,cold,1,AX:4,unreviewed,,\n"
    )
    said = send(lab, body, filename="old.csv").json()
    assert (said["new"], said["decided"], said["overtaken"], said["set_aside"]) == (2, 1, 0, 1)
    assert said["left_out"] == {}
    assert (said["problems"][0]["line"], said["problems"][0]["field"]) == ("2", "frequency")
    (decision,) = lab.store.history("new")
    assert (decision.reviewer, decision.at) == ("eve", "2024-05-06T07:08:09.000+00:00")
    assert decision.concept_id == "AX:4|AX:2"
    assert decision.uid.endswith(":old.csv")


def test_an_import_leaves_what_another_reviewer_decided_here(lab):
    row = lab.ids()[0]
    facts = lab.store.row(row)
    lab.store.decide(Decision("d", "lab", row, "eve", "nil"))
    time.sleep(0.002)
    head = "row,mention_code,mention,concept_id,status,reviewer,reviewed_at\n"
    body = f"{head}1,{facts.code},{facts.mention},AX:4,approved,eve,{datetime.now(UTC).isoformat()}\n"
    said = send(lab, body, name="lab", source=lab.store.project("lab").source).json()
    assert (said["decided"], said["overtaken"]) == (0, 1)
    assert [decision.kind for decision in lab.store.history("lab", row)] == ["nil"]


@pytest.mark.parametrize("name", ["../x", "..", ".", "a\\b", "a\x00b", "n" * 101, " a", ""])
def test_a_projects_name_can_stand_in_an_address(name):
    with pytest.raises(InputError, match="a project's name must have"):
        review_files.check_name(name)


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("parquet", {"format": "parquet"}),
        ("fhir_r4", {"format": "fhir_r4"}),
        ("sssom", {"filename": "in.sssom.tsv"}),
        ("jsonl", {"filename": "in.JSONL"}),
    ],
)
def test_import_of_other_formats(lab, tmp_path, name, query):
    lines = [mapping(1, 1, "HP:0000001", mention="Fevr", mention_code="A"), mapping(2, 1, None, mention="no")]
    head = sample.header(source_vocabulary="", target_system="HP")
    path = sample.write(registry.load(FORMATS, name), head, lines, tmp_path / "in")
    headers = {"Content-Type": "application/octet-stream"}
    answer = send(lab, path.read_bytes(), headers, **query)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["new"], answer.json()["set_aside"]) == (2, 0)
    found = [one.row for one in lab.store.queue("new", order="row")[1]]
    assert {(one.mention, one.candidates[0].concept_id) for one in found} == {("Fevr", "HP:0000001"), ("no", None)}


@pytest.mark.parametrize(
    ("limits", "lines", "said"),
    [
        ({"max_upload": 10_000}, ["1,x,AX:4"] * 2_000, "unpacked it has more than 10,000 bytes"),
        ({"max_upload_rows": 100}, ["1,x,AX:4"] * 101, "more than 100 mappings"),
        ({"max_upload_rows": 100}, ["x"] * 101, "more than 100 rows that cannot be read"),
        ({"max_upload_rows": 100}, ["1,x,AX:4"] * 100, ""),
    ],
)
def test_what_unpacks_to_too_much_is_refused(tmp_path, index, limits, lines, said):
    lab = service(tmp_path, index, **limits)
    body = gzip.compress("\n".join(["row,mention,concept_id", *lines, ""]).encode())
    assert len(body) < 200
    answer = send(lab, body)
    assert answer.status_code == (422 if said else 201), answer.text
    assert said in answer.text
    assert [project.name for project in lab.store.projects()] == (["lab"] if said else ["lab", "new"])
    lab.store.close()


def test_export_of_all_and_of_what_is_settled(decided):
    answer = export(decided, format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename=\"lab.csv\"; filename*=UTF-8''lab.csv"
    assert json.loads(answer.headers["x-alphita-losses"]) == {}
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["mention_code"], row["concept_id"], row["status"], row["decision"]) for row in rows] == [
        ("L1", "AX:2", "approved", "reviewed"),
        ("L2", "AX:4", "rejected", ""),
        ("L3", "", "approved", "reviewed"),
    ]
    assert (rows[0]["reviewer"], rows[0]["relation"], rows[0]["comment"]) == ("ann", "broad", "<b>why</b>")
    rows = list(csv.DictReader(io.StringIO(export(decided, format="csv", settled=False).text)))
    assert [row["status"] for row in rows] == ["approved", "rejected", "approved", "unreviewed"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("csv", {("L1", "AX:2"), ("L2", "AX:4"), ("L3", None)}),
        ("jsonl", {("L1", "AX:2"), ("L2", "AX:4"), ("L3", None)}),
        ("parquet", {("L1", "AX:2"), ("L2", "AX:4"), ("L3", None)}),
        ("sssom", {("L1", "AX:2"), ("L2", "AX:4"), ("L3", None)}),
        ("fhir_r4", {("L1", "AX:2"), ("L3", None)}),
        ("fhir_r5", {("L1", "AX:2"), ("L3", None)}),
    ],
)
def test_what_is_written_is_read_back_equal(decided, tmp_path, name, kept):
    answer = export(decided, format=name)
    assert answer.status_code == 200, answer.text
    path = tmp_path / "back"
    path.write_bytes(answer.content)
    between = ":" if name == "sssom" else ""
    header = Header(source_vocabulary="LAB", prefixes={"LAB": SYSTEM + between, "AX": AX + between})
    back = list(registry.load(FORMATS, name).read(path, header, Rejects(strict=True)))
    assert {(one.mention_code, one.concept_id) for one in back} == kept
    assert next(one.relation for one in back if one.mention_code == "L1") == "broad"


@pytest.mark.parametrize(("name", "release", "model"), [("fhir_r4", 4, R4), ("fhir_r5", 5, R5)])
def test_a_concept_map_is_valid_and_speaks_of_what_translate_serves(decided, name, release, model):
    answer = export(decided, format=name)
    assert answer.headers["content-type"] == "application/fhir+json"
    document = answer.json()
    model.model_validate(document)
    assert faults(document, release) == []
    assert document["url"] == "urn:alphita:review:lab"
    group = next(one for one in document["group"] if one.get("target") == AX)
    assert group["source"] == SYSTEM
    asked = {"code": group["element"][0]["code"], "system": group["source"], "url": document["url"]}
    found = decided.as_().get(f"/fhir/r{release}/ConceptMap/$translate", params=asked).json()
    concept = next(one for one in found["parameter"][1]["part"] if one["name"] == "concept")["valueCoding"]
    target = group["element"][0]["target"][0]
    assert concept == {"system": group["target"], "code": target["code"], "display": target["display"]}
    # A rejection has no place in a ConceptMap; that it is left out is said.
    assert json.loads(answer.headers["x-alphita-losses"])["rejected mappings"] == 1


@pytest.mark.parametrize("name", ["fhir_r4", "fhir_r5"])
def test_a_map_of_all_rows_holds_no_answer_that_nobody_has_accepted(decided, name):
    told = "answers that nobody has accepted (--with-review writes them)"
    answer = export(decided, format=name, settled=False)
    assert json.loads(answer.headers["x-alphita-losses"])[told] == 1
    everything = export(decided, format=name, settled=False, with_review=True)
    assert told not in json.loads(everything.headers["x-alphita-losses"])
    assert len(everything.content) > len(answer.content)


def test_translate_finds_the_codes_of_sssom(lab):
    body = (
        "#curie_map:\n#  ICD10CM: http://hl7.org/fhir/sid/icd-10-cm/\n#  AX: https://example.org/ax/\n"
        "subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification\n"
        "ICD10CM:R56.9\tfit\tskos:closeMatch\tAX:2\tsemapv:ManualMappingCuration\n"
    )
    answer = send(lab, body, {"Content-Type": "text/tab-separated-values"}, source="ICD10CM")
    # The predicate is kept with the row.
    assert answer.json()["left_out"] == {}
    asked = {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": "R56.9"}
    found = lab.as_("ann", "administrators").get("/fhir/r4/ConceptMap/$translate", params=asked).json()
    assert found["parameter"][0] == {"name": "result", "valueBoolean": True}
    # What the normaliser had said of it is not known.
    assert "extension" not in found["parameter"][1]


def test_usagi_and_omop_take_concepts_that_omop_numbers(decided, tmp_path):
    # AX is no vocabulary of OMOP's: both of its mappings are set aside, which is said.
    assert export(decided, format="usagi").headers["x-alphita-set-aside"] == "2"
    for place, row in enumerate(decided.ids()[:2]):
        seen = decided.store.newest(row, "ann").id
        decided.store.decide(Decision(f"o{place}", "lab", row, "ann", "choose", "BX:2"), seen=seen)
    for name in ("usagi", "omop"):
        answer = export(decided, format=name)
        assert answer.status_code == 200, answer.text
        assert ",1," in answer.text
        path = tmp_path / name
        path.write_bytes(answer.content)
        header = Header(source_vocabulary="LAB")
        back = list(registry.load(FORMATS, name).read(path, header, Rejects(strict=True)))
        assert [(one.mention_code, one.concept_id) for one in back] == [
            ("L1", "OMOP:1"),
            ("L2", "OMOP:1"),
            ("L3", None),
        ]


def test_a_page_for_people_goes_out_as_a_file_and_never_in(decided):
    answer = export(decided, format="html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="lab.html"')
    assert "&lt;b&gt;why&lt;/b&gt;" in answer.text
    assert "<b>why" not in answer.text
    refused = send(decided, answer.content, {"Content-Type": "application/octet-stream"}, filename="lab.html")
    assert refused.status_code == 422
    assert "an HTML page is for people" in refused.json()["error"]["message"]
