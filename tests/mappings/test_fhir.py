"""FHIR ConceptMap R4 and R5: by fhir.resources, and by the bindings and invariants that it does not check."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from fhir.resources.conceptmap import ConceptMap as R5
from fhir.resources.R4B.conceptmap import ConceptMap as R4
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, fhir_r4, fhir_r5
from tests.mappings import sample
from tests.mappings.sample import header, mapping

BOTH = [fhir_r4, fhir_r5]
HEAD = header(version="3", date="2026-01-31", sources={"HP": "2026-01-01"}, source_version="2025")
STATUSES = ("draft", "active", "retired", "unknown")
EQUIVALENCES = (
    *("relatedto", "equivalent", "equal", "wider", "subsumes", "narrower", "specializes", "inexact", "unmatched"),
    "disjoint",
)
RELATIONSHIPS = (
    "related-to",
    "equivalent",
    "source-is-narrower-than-target",
    "source-is-broader-than-target",
    "not-related-to",
)


def faults(document: dict, release: int) -> list[str]:
    """Return what breaks a required binding or an invariant of ConceptMap."""
    found = [] if document.get("status") in STATUSES else ["status"]
    for group in document.get("group", []):
        if not group.get("element"):
            found.append("group without element")
        for element in group.get("element", []):
            targets = element.get("target", [])
            if release == 5 and element.get("noMap") and targets:
                found.append("cmd-4: target beside noMap")
            for target in targets:
                code = target.get("equivalence" if release == 4 else "relationship")
                if code not in (EQUIVALENCES if release == 4 else RELATIONSHIPS):
                    found.append(f"code {code}")
                needy = ("narrower", "inexact") if release == 4 else ("source-is-broader-than-target", "not-related-to")
                if code in needy and not target.get("comment"):
                    found.append("cmd-1: no comment")
                if release == 5:
                    declared = {one["code"] for one in document.get("property", [])}
                    found += [
                        "undeclared property" for one in target.get("property", []) if one["code"] not in declared
                    ]
    return found


def checked(module, lines, path, head=HEAD):
    """Write mappings; return the document, which is right by fhir.resources and by `faults`."""
    document = json.loads(sample.write(module, head, lines, path).read_text(encoding="utf-8"))
    (R4 if module is fhir_r4 else R5).model_validate(document)
    assert faults(document, 4 if module is fhir_r4 else 5) == []
    return document


def test_an_r5_document(tmp_path):
    lines = [
        mapping("sore toe", mention_code="T1", relation="broad", confidence=0.9, similarity=-0.25, status="approved"),
        mapping("no toe", None, mention_code="T2", row=2),
    ]
    document = checked(fhir_r5, lines, tmp_path / "a.json")
    one, other = document["group"]
    assert one["element"] == [{"code": "T2", "display": "no toe", "noMap": True}]
    assert (other["source"], other["target"]) == (
        "https://example.org/local/|2025",
        "http://human-phenotype-ontology.org|2026-01-01",
    )
    assert other["element"] == [
        {
            "code": "T1",
            "display": "sore toe",
            "target": [
                {
                    "code": "HP:0000001",
                    "relationship": "source-is-narrower-than-target",
                    "property": [
                        {"code": "confidence", "valueDecimal": 0.9},
                        {"code": "similarity", "valueDecimal": -0.25},
                        {"code": "status", "valueString": "approved"},
                    ],
                }
            ],
        }
    ]
    back = sample.read(fhir_r5, HEAD, tmp_path / "a.json")
    assert [(one.mention_code, one.similarity, one.confidence, one.status) for one in back] == [
        ("T2", None, None, "unreviewed"),
        ("T1", -0.25, 0.9, "approved"),
    ]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("system", ["", "HP", "SNOMEDCT"])
def test_a_nil_of_another_group_gives_way_to_a_target(tmp_path, module, system):
    lines = [
        mapping(concept_id=None, mention_code="1"),
        mapping(mention_code="1", row=2),
        mapping(concept_id=None, mention_code="1", row=3),
        # Another string of the same code is another element, and so is one without a target.
        mapping("toe", None, mention_code="1", row=4),
        mapping(concept_id=None, mention_code="2", row=5),
    ]
    told, path = [], tmp_path / "a.json"
    head = header(target_system=system, tell=told.append)
    checked(module, lines, path, head)
    back = {(one.mention_code, one.mention, one.concept_id) for one in sample.read(module, head, path)}
    assert back == {("1", "sore toe", "HP:0000001"), ("1", "toe", None), ("2", "sore toe", None)}
    assert told == [
        f"{path}: left out: 1 mapping equal to an earlier one",
        f"{path}: left out: 1 NIL of a code and string that has a target",
    ]


@pytest.mark.parametrize("module", BOTH)
def test_without_a_source_vocabulary_or_codes(tmp_path, module):
    document = checked(module, [mapping()], tmp_path / "a.json", header(source_vocabulary=""))
    assert "source" not in document["group"][0]
    assert "code" not in document["group"][0]["element"][0]
    system = header(source_vocabulary="ANY", source_system="urn:oid:1.2.3")
    assert checked(module, [mapping()], tmp_path / "a.json", system)["group"][0]["source"] == "urn:oid:1.2.3"


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"mention_code": " 1"}, "mention_code"),
        ({"mention_code": "1  2"}, "mention_code"),
        ({"mention": ""}, "mention"),
        ({"mention": "a\x0bb"}, "mention"),
        ({"concept_id": "HP"}, "concept_id"),
        ({"concept_id": ":1"}, "concept_id"),
    ],
)
def test_what_cannot_be_written(module, fields, field):
    line = mapping(**fields)
    assert module.validate(HEAD, line).field == field
    assert module.encode(HEAD, [line]) == b""
    assert sum(module.losses(HEAD, [line]).values()) == 1


@pytest.mark.parametrize("module", BOTH)
@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(sample.ODD, st.none() | sample.ODD), min_size=1, max_size=5))
def test_odd_strings(tmp_path_factory, module, pairs):
    lines = [
        mapping(name, mention_code=code, relation="exact", comment=name, concept_name=name, row=at)
        for at, (name, code) in enumerate(pairs, 1)
    ]
    path = tmp_path_factory.mktemp("odd") / "a.json"
    checked(module, lines, path)
    fitting = {
        (one.mention if one.mention.strip() else "", one.mention_code or None)
        for one in lines
        if module.validate(HEAD, one) is None
    }
    assert {(one.mention, one.mention_code) for one in sample.read(module, HEAD, path)} == fitting


def _without_row(mapping):
    return repr(replace(mapping, row=0))


@pytest.mark.parametrize("module", BOTH)
def test_what_others_wrote_and_is_not_held_is_counted(tmp_path, module):
    key = "equivalence" if module is fhir_r4 else "relationship"
    same, none = ("equal", "disjoint") if module is fhir_r4 else ("equivalent", "not-related-to")
    odd = {"dependsOn": [{"property": "sex"}], "property": [{"code": "rank"}]}
    elements = [{"code": "1", "target": [{"code": "1", key: same, **odd}]}, {"code": "2", "target": [{key: none}]}]
    group = {"source": "urn:a", "target": "http://snomed.info/sct", "element": elements, "unmapped": {"mode": "fixed"}}
    other = {"source": "urn:b", "target": "http://snomed.info/sct", "element": [{"code": "1", "display": "x"}]}
    path, head = tmp_path / "in.json", header()
    path.write_text(json.dumps({"resourceType": "ConceptMap", "group": [group, other]}))
    back = sample.read(module, head, path)
    assert [one.mention_vocabulary for one in back] == ["urn:a", "urn:a", "urn:b"]
    again = sample.read(module, head, sample.write(module, Header(with_review=True), back, tmp_path / "out.json"))
    assert sorted(map(_without_row, again)) == sorted(map(_without_row, back))
    assert head.lost == {"dependsOn": 1, "property rank": 1, f"targets that are {none}": 1, "unmapped": 1}


@pytest.mark.parametrize("module", BOTH)
def test_reading_what_others_wrote(tmp_path, module):
    path, key = tmp_path / "in.json", "equivalence" if module is fhir_r4 else "relationship"
    good = {
        "equivalence": ["equal", "subsumes", "specializes", "disjoint"],
        "relationship": [
            "equivalent",
            "source-is-narrower-than-target",
            "source-is-broader-than-target",
            "not-related-to",
        ],
    }[key]
    targets = [{"code": str(at), key: code} for at, code in enumerate(good)]
    bad = [{"code": "9", key: "same"}, {key: good[0]}]
    group = {
        "target": "http://snomed.info/sct",
        # That something is not a concept says that it is none only where it is said of nothing else.
        "element": [
            {"code": "1", "target": targets + bad},
            {"display": "x"},
            {},
            {"code": "4", "target": targets[-1:]},
            {"code": "5", "target": targets[-1:] + bad[:1]},
        ],
    }
    far = {"target": "http://nowhere.example.org", "element": [{"code": "2", "target": [{"code": "1", key: good[0]}]}]}
    path.write_text(json.dumps({"resourceType": "ConceptMap", "group": [group, far]}))
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(module.read(path, header(), rejects))
    assert [(one.row, one.concept_id, one.relation) for one in back] == [
        (1, "SNOMEDCT:0", "exact"),
        (1, "SNOMEDCT:1", "broad"),
        (1, "SNOMEDCT:2", "narrow"),
        (2, None, None),
        (4, None, None),
    ]
    text = (tmp_path / "rejects.csv").read_text()
    assert rejects.count == 5
    assert "--prefix NAME=http://nowhere.example.org" in text
    assert f"group[0].element[0].target[4].{key}" in text
    path.write_text('{"resourceType": "ValueSet"}')
    with pytest.raises(InputError, match="no ConceptMap"):
        list(module.read(path, header(), Rejects()))


def document_with(module, *, group=None, element=None, target=None):
    """Return a ConceptMap of one good mapping and a second, some of whose parts are another thing."""
    key = "equivalence" if module is fhir_r4 else "relationship"
    good = {"code": "5", key: "equivalent"}
    elements = [{"code": "1", "target": [good]}, {"code": "2", "target": [good | (target or {})], **(element or {})}]
    return {
        "resourceType": "ConceptMap",
        "group": [{"target": "http://snomed.info/sct", "element": elements, **(group or {})}],
    }


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    ("parts", "line", "field", "value"),
    [
        ({"element": {"code": 1203}}, "2", "group[0].element[1].code", "1203"),
        ({"element": {"display": ["x"]}}, "2", "group[0].element[1].display", "['x']"),
        ({"element": {"display": "\ud800"}}, "2", "group[0].element[1].display", "?"),
        ({"element": {"target": "none"}}, "2", "group[0].element[1].target", "none"),
        ({"element": {"target": ["none"]}}, "2", "group[0].element[1].target[0]", "none"),
        ({"target": {"code": 39972003}}, "2", "group[0].element[1].target[0].code", "39972003"),
        ({"target": {"display": 5}}, "2", "group[0].element[1].target[0].display", "5"),
        ({"target": {"comment": {}}}, "2", "group[0].element[1].target[0].comment", "{}"),
        ({"target": {"equivalence": []}}, "2", "group[0].element[1].target[0].equivalence", "[]"),
        ({"target": {"relationship": []}}, "2", "group[0].element[1].target[0].relationship", "[]"),
        ({"target": {"property": ["x"]}}, "2", "group[0].element[1].target[0].property[0]", "x"),
        ({"target": {"property": {"code": "x"}}}, "2", "group[0].element[1].target[0].property", "{'code': 'x'}"),
        ({"target": {"dependsOn": ["x"]}}, "2", "group[0].element[1].target[0].dependsOn[0]", "x"),
        ({"target": {"product": [1]}}, "2", "group[0].element[1].target[0].product[0]", "1"),
        ({"group": {"element": ["x"]}}, "1", "group[0].element[0]", "x"),
        ({"group": {"element": "x"}}, "", "group[0].element", "x"),
        ({"group": {"target": 7}}, "", "group[0].target", "7"),
    ],
)
def test_a_part_of_another_kind_is_set_aside(tmp_path, module, parts, line, field, value):
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document_with(module, **parts)))
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(module.read(path, header(), rejects))
    assert [one.mention_code for one in back] == ([] if "group" in parts else ["1"])
    with open(tmp_path / "rejects.csv", newline="") as file:
        (said,) = csv.DictReader(file)
    assert (said["line"], said["field"], said["value"]) == (line, field, value)


@pytest.mark.parametrize("module", BOTH)
def test_groups_of_another_kind(tmp_path, module):
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"resourceType": "ConceptMap", "group": ["x"]}))
    with Rejects(tmp_path / "rejects.csv") as rejects:
        assert list(module.read(path, header(), rejects)) == []
    assert "group[0],x,must be an object" in (tmp_path / "rejects.csv").read_text()
    path.write_text(json.dumps({"resourceType": "ConceptMap", "group": {}}))
    with pytest.raises(InputError, match=r"in\.json: must be a list \(field 'group'"):
        list(module.read(path, header(), Rejects()))


def test_a_confidence_that_is_no_probability_is_set_aside(tmp_path):
    path = tmp_path / "in.json"
    path.write_text(
        json.dumps(document_with(fhir_r5, target={"property": [{"code": "confidence", "valueDecimal": 7}]}))
    )
    with Rejects(tmp_path / "rejects.csv") as rejects:
        assert len(list(fhir_r5.read(path, header(), rejects))) == 1
    assert "group[0].element[1].target[0].property[0].valueDecimal,7," in (tmp_path / "rejects.csv").read_text()
