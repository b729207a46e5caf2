"""The FHIR operations, R4 and R5: by a table, by the models of fhir.resources, and by what those do not check."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fhir import resources as r5
from fhir.resources import R4B as r4
from starlette.testclient import TestClient

from alphita.index.store import build
from alphita.review.files import coding_of, curie_of, source_system
from alphita.review.records import Decision, Project
from alphita.service import fhir, fhir_codes, fhir_expand
from alphita.service.failures import Fault
from tests.doubles import HashEncoder, SmallTerminology
from tests.mappings.test_fhir import EQUIVALENCES, RELATIONSHIPS
from tests.service.review_service import rows_of, service

MODELS = {"r4": r4, "r5": r5}
BOTH = pytest.mark.parametrize("release", MODELS)
SYSTEM, AX = "urn:alphita:source:LAB", "urn:alphita:terminology:AX"
OPERATIONS = {
    "CodeSystem": ("lookup", "subsumes", "validate-code"),
    "ConceptMap": ("translate",),
    "ValueSet": ("expand", "validate-code"),
}
# http://hl7.org/fhir/issue-type
_ISSUE_TYPES = (
    "invalid structure required value invariant security login unknown expired forbidden suppressed processing "
    "not-supported duplicate multiple-matches not-found deleted too-long code-invalid extension too-costly "
    "business-rule conflict transient lock-error no-store exception timeout incomplete throttled informational"
)
ISSUE_TYPES = frozenset(_ISSUE_TYPES.split())
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


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index)
    for name, rows in DECIDED.items():
        if name != "lab":
            made.store.add_project(Project(name, "LAB" if name == "other" else "MORE", "", "", "", "", ""))
            for row, (_, said, *_) in zip(rows_of([row for row, *_ in rows]), rows, strict=True):
                made.store.add_rows(name, [replace(row, candidates=(replace(row.candidates[0], decision=said),))])
        for row, (_, _, *decision) in zip(made.ids(name), rows, strict=False):
            made.store.decide(Decision(f"{name} {row}", name, row, "ann", *decision))
    yield made
    made.store.close()


def faults(document: dict, release: str) -> list[str]:
    """Return what breaks a required binding, the operation's definition or an invariant."""
    if document["resourceType"] == "OperationOutcome":
        issues = document["issue"]
        wrong = [issue for issue in issues if issue["code"] not in ISSUE_TYPES or issue["severity"] != "error"]
        return [f"issue {issue}" for issue in wrong] if issues else ["no issue"]
    if document["resourceType"] != "Parameters":
        return []
    top = document["parameter"]
    inner = [part for entry in top for part in entry.get("part", [])]
    innermost = [part for entry in inner for part in entry.get("part", [])]
    # inv-1: one of value, resource and part, and only one.
    found = [
        f"inv-1 {entry}"
        for entry in (*top, *inner, *innermost)
        if sum(key.startswith("value") or key in ("part", "resource") for key in entry) != 1
    ]
    names = [entry["name"] for entry in top]
    if "outcome" in names:
        outcomes = ("equivalent", "subsumes", "subsumed-by", "not-subsumed")
        return found if names == ["outcome"] and top[0]["valueCode"] in outcomes else [*found, f"{top}"]
    if "result" not in names:
        allowed = {"name", "version", "display", "designation", "property"}
        allowed |= {"definition"} if release == "r5" else set()
        return [*found, *({"name", "display"} - set(names)), *(set(names) - allowed)]
    if "match" not in names and set(names) - {"result", "message"}:
        return found  # of $validate-code
    if names.count("result") != 1 or names.count("message") > 1 or set(names) - {"result", "message", "match"}:
        found.append(f"names {names}")
    matched = False
    for entry in top:
        if entry["name"] != "match":
            continue
        parts = {part["name"]: part for part in entry["part"] if part["name"] != "property"}
        properties = [[part["name"] for part in one["part"]] for one in entry["part"] if one["name"] == "property"]
        if any(names != ["uri", "value"] or release == "r4" for names in properties):
            found.append(f"properties {properties}")
        key, codes = ("equivalence", EQUIVALENCES) if release == "r4" else ("relationship", RELATIONSHIPS)
        code = parts[key]["valueCode"]
        if code not in codes or set(parts) - {key, "concept", "source" if release == "r4" else "originMap"}:
            found.append(f"code {code}, parts {sorted(parts)}")
        matched |= code not in ("unmatched", "disjoint", "not-related-to")
    result = next(entry["valueBoolean"] for entry in top if entry["name"] == "result")
    return found if result == matched else [*found, "result"]


def checked(answer, release, status=200):
    """Return a resource, which is right by fhir.resources and by `faults`."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/fhir+json"
    document = answer.json()
    MODELS[release].get_fhir_model_class(document["resourceType"]).model_validate(document)
    assert faults(document, release) == []
    return document


def ask(lab, release, path, status=200, body=None, **query):
    client, url = lab.as_(), f"/fhir/{release}/{path}"
    if body is None:
        return checked(client.get(url, params=query or None), release, status)
    return checked(client.post(url, json={"resourceType": "Parameters", "parameter": body}), release, status)


def answers():
    """Yield release, path, body and answer of each row of the table; `"` is the answer of the row above."""
    table = Path(__file__).with_name("fhir_answers.tsv").read_text(encoding="utf-8").splitlines()
    answer = ""
    for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
        answer = answer if row["answer"] == '"' else row["answer"]
        yield from ((release, row["path"], row["body"], answer) for release in row["releases"].split())


@pytest.mark.parametrize(("release", "path", "body", "answer"), [*answers()])
def test_answers(lab, release, path, body, answer):
    """The table's answers are complete but for identifier and timestamp of an expansion."""
    document = ask(lab, release, path, body=json.loads(body) if body else None)
    for name in ("identifier", "timestamp"):
        document.get("expansion", {}).pop(name, None)
    assert (document.get("parameter") or document["expansion"]) == json.loads(answer)


@BOTH
def test_only_what_is_settled_is_served_and_at_once(tmp_path, index, release):
    fresh = service(tmp_path, index)
    row = fresh.ids()[3]

    def told():
        # Without a code of its own, the string is the code.
        document = ask(fresh, release, "ConceptMap/$translate", code="dulorin", system=SYSTEM)
        parts = [part for entry in document["parameter"] if entry["name"] == "match" for part in entry["part"]]
        concepts = [part["valueCoding"]["code"] for part in parts if part["name"] == "concept"]
        return document["parameter"][0]["valueBoolean"], concepts

    assert told() == (False, [])
    # One rejects, then takes the answer; two who disagree have settled nothing.
    for uid, who, decision, answer in (
        ("x", "ann", ("reject",), (False, [])),
        ("y", "ann", ("accept", "BX:2"), (True, ["2"])),
        ("z", "bob", ("nil",), (False, [])),
    ):
        fresh.store.decide(Decision(uid, "lab", row, who, *decision))
        assert told() == answer
    unknown = TestClient(fresh.app, client=("127.0.0.1", 1))
    checked(unknown.get("/fhir/r4/ConceptMap/$translate", params={"code": "L1", "system": SYSTEM}), "r4", 401)
    fresh.store.close()


@BOTH
def test_expand_the_whole_system_in_pages(lab, release, monkeypatch):
    def codes(**query):
        document = ask(lab, release, "ValueSet/$expand", url=AX, **query)
        return [one["code"] for one in document["expansion"].get("contains", [])], document["expansion"]["total"]

    ids = lab.index.segment.concepts.column("id").to_pylist()
    own = [id_.partition(":")[2] for id_ in ids if id_.startswith("AX:")]
    assert codes() == (own, len(own))
    assert [code for start in (0, 2, 4) for code in codes(offset=str(start), count="2")[0]] == own[:6]
    monkeypatch.setattr(fhir_expand, "MAX_CODES", 2)
    (issue,) = ask(lab, release, "ValueSet/$expand", 400, url=AX)["issue"]
    assert issue["code"] == "too-costly"
    assert "give 'filter', or 'count'" in issue["details"]["text"]


@pytest.mark.parametrize(("release", "version"), [("r4", "4.0.1"), ("r5", "5.0.0")])
def test_capabilities(lab, release, version):
    document = ask(lab, release, "metadata")
    assert (document["fhirVersion"], document["status"], document["kind"]) == (version, "active", "instance")
    # An instance says where it is (R4 cpb-15, R5 cpb-16), and each type stands once (cpb-9).
    assert document["implementation"]["description"]
    (rest,) = document["rest"]
    listed = {one["type"]: [operation["definition"] for operation in one["operation"]] for one in rest["resource"]}
    assert listed == {
        kind: [f"{fhir.DEFINITIONS}/{kind}-{name}" for name in names] for kind, names in OPERATIONS.items()
    }
    assert rest["interaction"] == [{"code": "batch"}]
    assert len(rest["resource"]) == len(listed)
    # What it says it can, it can: without parameters something is wrong with each, but it is there.
    for kind, names in OPERATIONS.items():
        for name in names:
            ask(lab, release, f"{kind}/${name}", 400)
    document = ask(lab, release, "metadata", mode="terminology")
    assert (document["resourceType"], document["kind"]) == ("TerminologyCapabilities", "instance")
    # Every system that it names, it expands; and each parameter of an expansion is one that it takes.
    assert AX in [system["uri"] for system in document["codeSystem"]]
    for system in document["codeSystem"]:
        assert ("content" in system) == (release == "r5")
        assert ask(lab, release, "ValueSet/$expand", url=system["uri"])["expansion"]["contains"]
    assert {one["name"] for one in document["expansion"]["parameter"]} <= set(fhir_expand.EXPAND)


@pytest.mark.parametrize(
    ("accept", "format_", "status"),
    [
        ("application/fhir+json; fhirVersion=4.0", "", 200),
        ("text/html, */*;q=0.1", "", 200),
        ("application/fhir+xml", "", 406),
        ("application/fhir+xml", "json", 200),
        ("*/*", "xml", 406),
        ("*/*", "application/fhir json", 200),
        ("application/fhir+json; fhirVersion=5.0", "", 406),
        ("application/fhir+json; fhirVersion=5.0, application/fhir+json; q=0.5", "", 200),
        ("application/fhir+json;q=0, application/fhir+xml", "", 406),
        ("application/json;q=0.001", "", 200),
        ("", "", 200),
    ],
)
def test_only_json(lab, accept, format_, status):
    answer = lab.as_().get("/fhir/r4/metadata", params={"_format": format_}, headers={"Accept": accept})
    checked(answer, "r4", status)


def test_a_known_system_and_its_version(tmp_path):
    terminology = SmallTerminology([("HP:0000001", "Sore toe", "exact"), ("HP:0000001", "Toe pain", "exact")])
    terminology.manifest = {"sources": [{"name": "HPO", "version": "2026-01-01", "licence": "x"}]}
    index = build(terminology, HashEncoder(), tmp_path / "hp.index")
    asked = {"code": ["HP:0000001"], "system": ["http://human-phenotype-ontology.org"]}
    found = fhir_codes.look_up(index, asked, "r4")
    assert [(entry["name"], entry.get("valueString")) for entry in found["parameter"]] == [
        *(("name", "Human Phenotype Ontology"), ("version", "2026-01-01"), ("display", "Sore toe")),
        ("designation", None),
    ]
    assert found["parameter"][3]["part"][-1]["valueString"] == "Toe pain"
    assert fhir_codes.look_up(index, {**asked, "version": ["2026-01-01"]}, "r4") == found
    with pytest.raises(Fault, match="another version") as caught:
        fhir_codes.look_up(index, {**asked, "version": ["2001"]}, "r4")
    assert caught.value.status == 404


def test_every_answer_is_documented_as_it_is_given(lab):
    document = lab.as_().get("/openapi.json").json()
    paths = {path: found for path, found in document["paths"].items() if path.startswith("/fhir/")}
    assert len(paths) == 16
    for operation in (operation for found in paths.values() for operation in found.values()):
        assert "_format" in [one["name"] for one in operation["parameters"]]
        assert {"200", "400", "406"} <= set(operation["responses"])
        assert all(list(answer["content"]) == ["application/fhir+json"] for answer in operation["responses"].values())


def test_codings():
    assert coding_of("HP:0001250") == ("http://human-phenotype-ontology.org", "HP:0001250")
    assert coding_of("SNOMEDCT:5") == ("http://snomed.info/sct", "5")
    assert coding_of("NCIT:C3262") == ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl", "C3262")
    assert curie_of("http://purl.obolibrary.org/obo/NCIT_", "C3262") == "NCIT:C3262"
    for curie in ("HP:0001250", "SNOMEDCT:5", "NCIT:C3262", "MONDO:0005148", "MINE:a b/c"):
        assert curie_of(*coding_of(curie)) == curie
    assert curie_of("http://nowhere.example.org", "1") is None
    assert source_system("https://example.org/codes") == "https://example.org/codes"
    assert source_system("Lab of A/B") == "urn:alphita:source:Lab%20of%20A%2FB"
    assert source_system("ICD10CM") == "http://hl7.org/fhir/sid/icd-10-cm"


def test_accents_of_names_and_filters_do_not_count(tmp_path):
    rows = [("AX:1", "Ménière's disease", "exact"), ("AX:2", "Me\u0301nie\u0300re-like vertigo", "exact")]
    index = build(SmallTerminology([*rows, ("AX:3", "Menagerie", "exact")]), HashEncoder(), tmp_path / "accents.index")
    for text in ("meniere", "MÉNIÈRE", "dis menière"):
        assert len(fhir_expand.matching(index, AX, text)) == len(rows) - (" " in text)
