"""What the FHIR operations answer, R4 and R5: by a table, and by the models of fhir.resources."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fhir.resources.operationoutcome import OperationOutcome
from fhir.resources.parameters import Parameters as R5Parameters
from fhir.resources.R4B.parameters import Parameters as R4Parameters
from fhir.resources.R4B.valueset import ValueSet as R4ValueSet
from fhir.resources.valueset import ValueSet as R5ValueSet

from alphita.review.records import Decision, Project
from tests.service.review_service import rows_of, service
from tests.service.test_fhir_translate import faults

BOTH = ["r4", "r5"]
AX, BX = "urn:alphita:terminology:AX", "urn:alphita:terminology:BX"
MODELS = {
    ("r4", "Parameters"): R4Parameters,
    ("r5", "Parameters"): R5Parameters,
    ("r4", "ValueSet"): R4ValueSet,
    ("r5", "ValueSet"): R5ValueSet,
}


# project -> its rows (see `rows_of`), the normalizer's decision, and the reviewer's
DECIDED = {
    "lab": [(None, None, "accept", "AX:2", "broad"), (None, None, "accept", "AX:4", "narrow"), (None, None, "nil")],
    "more": [
        (("M1", "headach", 1, ["AX:3"], 0.9), "accept", "accept", "AX:3"),
        (("M2", "fevr", 1, ["AX:1"], 0.6), "review", "choose", "AX:3"),
        (("M3", "x", 1, [None], 0.8), "nil", "nil"),
    ],
    "other": [
        (("L2", "fevr", 1, ["AX:4"], 0.9), None, "accept", "AX:4", "exact"),
        (("L9", "x", 1, ["BX:2|AX:1"], 0.9), None, "accept", "BX:2|AX:1", "exact"),
    ],
}
TABLE = Path(__file__).with_name("fhir_answers.tsv").read_text(encoding="utf-8").splitlines()


def answers():
    """Yield release, path, body and answer of each row; `"` is the answer of the row above."""
    answer = ""
    for row in csv.DictReader(TABLE, delimiter="\t", quoting=csv.QUOTE_NONE):
        answer = answer if row["answer"] == '"' else row["answer"]
        yield from ((release, row["path"], row["body"], answer) for release in row["releases"].split())


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index)
    for name, rows in DECIDED.items():
        if name != "lab":
            made.store.add_project(Project(name, "LAB" if name == "other" else "MORE", "", "", "", "", ""))
            answers = zip(rows_of([row for row, *_ in rows]), rows, strict=True)
            made.store.add_rows(
                name,
                [replace(row, candidates=(replace(row.candidates[0], decision=said[1]),)) for row, said in answers],
            )
        for row, (_, _, *decision) in zip(made.ids(name), rows, strict=False):
            made.store.decide(Decision(f"{name} {row}", name, row, "ann", *decision))
    yield made
    made.store.close()


@pytest.mark.parametrize(("release", "path", "body", "answer"), answers())
def test_answers(lab, release, path, body, answer):
    """The table's answers are complete but for identifier and timestamp of an expansion."""
    document = ask(lab, release, path, body=json.loads(body) if body else None)
    document.get("expansion", {}).pop("identifier", None)
    document.get("expansion", {}).pop("timestamp", None)
    assert (document.get("parameter") or document["expansion"]) == json.loads(answer)
    if path.startswith(("ConceptMap", "CodeSystem/$lookup")):
        assert faults(document, release) == []


def ask(lab, release, path, status=200, body=None, **query):
    client = lab.as_()
    answer = (
        client.get(f"/fhir/{release}/{path}", params=query or None)
        if body is None
        else client.post(f"/fhir/{release}/{path}", json={"resourceType": "Parameters", "parameter": body})
    )
    assert answer.status_code == status, answer.text
    document = answer.json()
    MODELS.get((release, document["resourceType"]), OperationOutcome).model_validate(document)
    return document


def codes(document):
    return [one["code"] for one in document["expansion"].get("contains", [])]


@pytest.mark.parametrize("release", BOTH)
def test_expand_the_whole_system_in_pages(lab, release):
    ids = lab.index.segment.concepts.column("id").to_pylist()
    own = [id_.partition(":")[2] for id_ in ids if id_.startswith("AX:")]
    whole = ask(lab, release, "ValueSet/$expand", url=AX)
    assert codes(whole) == own
    assert whole["expansion"]["total"] == len(own)
    pages = [ask(lab, release, "ValueSet/$expand", url=AX, offset=str(start), count="2") for start in (0, 2, 4)]
    assert [code for page in pages for code in codes(page)] == own[:6]


@pytest.mark.parametrize("release", BOTH)
def test_too_many_codes_are_not_sent(lab, release, monkeypatch):
    monkeypatch.setattr("alphita.service.fhir_codes.MAX_CODES", 2)
    (issue,) = ask(lab, release, "ValueSet/$expand", 400, url=AX)["issue"]
    assert issue["code"] == "too-costly"
    assert "give 'filter', or 'count'" in issue["details"]["text"]
