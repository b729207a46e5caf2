"""The search of a review of OMOP vocabularies: filters, codes, "Maps to" and several targets."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.answer.omop import OmopConcepts
from alphita.errors import Rejects
from alphita.index.store import build
from alphita.jobs.spec import Concepts
from alphita.mappings.record import OmopConcept, bare
from alphita.review.records import ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from alphita.service.app import create
from alphita.service.concepts import Finder, Narrowed, choices, find_concept
from alphita.service.settings import Settings
from alphita.terminology import store
from alphita.terminology.loaders import omop
from tests.doubles import HashEncoder
from tests.terminology.omop_download import DATES, related, write_download

# id, name, domain, vocabulary, class, standard, code
CONCEPTS = [
    (1, "Wobbly leg", "Condition", "SNOMED", "Disorder", "S", "901"),
    (2, "Wobbly left leg", "Condition", "SNOMED", "Disorder", "S", "902"),
    (3, "History of falls", "Observation", "SNOMED", "Context-dependent", "S", "903"),
    (4, "Wobbly leg with falls", "Condition", "ICD10CM", "4-char billing code", "", "W19.1"),
    (5, "Wobbly leg gel", "Drug", "RxNorm", "Clinical Drug", "S", "7001"),
    (6, "Leg gels", "Drug", "ATC", "ATC 2nd", "C", "M09"),
    (7, "Wobbly leg, unspecified", "Condition", "ICD10CM", "4-char billing code", "", "W19.9"),
]
RELATIONS = [(2, 1, "Is a"), (4, 1, "Maps to"), (4, 3, "Maps to"), (7, 1, "Maps to"), (1, 1, "Maps to")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omop")
    rows = [[str(one), *cells, *DATES, ""] for one, *cells in CONCEPTS]
    write_download(folder, CONCEPT=rows, CONCEPT_RELATIONSHIP=[related(*one) for one in RELATIONS])
    with Rejects(strict=True) as rejects:
        store.save(omop.load([folder], omop.Options(), rejects), folder / "x.terminology")
    return build(store.load_terminology(folder / "x.terminology"), HashEncoder(), folder / "x.index")


def ids(found):
    return [one.omop.omop_concept_id for one in found]


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        ({}, [1, 5, 7, 4]),
        ({"standard": True}, [1, 5]),
        ({"domain": "Drug"}, [5]),
        ({"vocabulary": "ICD10CM"}, [7, 4]),
        ({"vocabulary": "ICD10CM", "standard": True}, []),
        ({"concept_class": "Disorder", "domain": "Condition"}, [1]),
        ({"domain": "none such"}, []),
    ],
)
def test_a_search_is_narrowed_and_standard_concepts_come_first(index, narrowed, expected):
    found = Finder(index).find("wobbly leg", 20, narrowed=Narrowed(**narrowed))
    beginning = [one for one in found if one.matched_term.lower().startswith("wobbly leg")]
    by_own_name = [one for one in beginning if one.matched_term == one.name]
    assert sorted(ids(by_own_name)) == sorted(expected)
    marks = [one.omop.standard_concept != "S" for one in beginning]
    assert marks == sorted(marks)


@pytest.mark.parametrize("typed", ["4", "W19.1", "w19.1", " W19.1 ", "ICD10CM:W19.1", "OMOP:4"])
def test_an_id_or_a_code_finds_its_concept_whatever_the_filters_are(index, typed):
    for narrowed in (Narrowed(), Narrowed(standard=True, domain="Drug"), Narrowed(domain="none such")):
        found = Finder(index).find(typed, 5, narrowed=narrowed)
        assert ids(found)[:1] == [4]
        assert [one.id for one in found[0].maps_to] == ["SNOMEDCT:901", "SNOMEDCT:903"]


def test_an_id_outside_the_project_is_not_found(index):
    of_drugs = Finder(index, Concepts(types=("Drug",)))
    assert [ids(of_drugs.find(typed, 5)[:1]) for typed in ("5", "7001", "M09")] == [[5], [5], [6]]
    assert 4 not in ids(of_drugs.find("W19.1", 5))
    of_conditions = Finder(index, Concepts(types=("Condition",)))
    assert [one.id for one in of_conditions.find("4", 5)[0].maps_to] == ["SNOMEDCT:901"]


def test_what_surrounds_a_concept(index):
    assert sorted(choices(index)) == ["concept_class", "domain", "vocabulary"]
    found = find_concept("OMOP:1", index, None)
    assert ([one.name for one in found.children], found.n_children, found.maps_to) == (["Wobbly left leg"], 1, [])
    assert [one.name for one in find_concept("SNOMEDCT:902", index, None).parents] == ["Wobbly leg"]
    assert [one.omop.domain_id for one in find_concept("OMOP:4", index, None).maps_to] == ["Condition", "Observation"]
    rows = index.concept_rows(["OMOP:6", "OMOP:4"]).tolist()
    assert OmopConcepts(index).of_rows(rows) == [
        OmopConcept(6, "M09", "ATC", "Drug", "ATC 2nd", "C"),
        OmopConcept(4, "W19.1", "ICD10CM", "Condition", "4-char billing code", None),
    ]


def test_a_review_takes_several_targets_and_begins_with_what_its_project_allows(index, tmp_path):
    with ReviewStore.open(tmp_path / "r.sqlite", create=True) as reviews:
        row = ReviewRow(0, "lab", 1, "L1", "falls", 1, {}, (bare(1, "L1", "falls", "ICD10CM:W19.1"),))
        facts = review_files.project_of("lab", "LAB", "text", index)
        review_files.add(reviews, facts, [row], index)
        standard = review_files.project_of("strict", "LAB", "text", index, concepts=Concepts(standard_only=True))
        review_files.add(reviews, standard, [ReviewRow(0, "strict", 1, "L1", "falls", 1)], index)
        app = create(Settings(rate=0), Normalizer(index, encoder=HashEncoder()), reviews)
        client = TestClient(app, client=("127.0.0.1", 50_000))
        assert client.get("/api/me").json()["choices"]["domain"] == ["Condition", "Drug", "Observation"]

        def found(**asked):
            return {one["id"] for one in client.get("/search", params={"q": "wobbly", **asked}).json()["concepts"]}

        assert "ICD10CM:W19.9" in found(project="lab")
        assert "ICD10CM:W19.9" not in found(project="strict")
        assert "ICD10CM:W19.9" in found(project="strict", standard=False)
        assert found(project="lab", domain="Drug") == {"RXNORM:7001"}
        (candidate,) = client.get("/api/projects/lab/rows/1").json()["candidates"]
        assert [one["name"] for one in candidate["maps_to"]] == ["Wobbly leg", "History of falls"]
        assert candidate["omop"]["vocabulary_id"] == "ICD10CM"

        def choose(uid, concept_id):
            body = {"uid": uid, "kind": "choose", "concept_id": concept_id, "seen": 0}
            return client.post("/api/projects/lab/rows/1/decisions", json=body)

        for wrong in ("SNOMEDCT:901|SNOMEDCT:1", "SNOMEDCT:901|SNOMEDCT:901", "|", "SNOMEDCT:901|"):
            assert choose("wrong", wrong).status_code == 422
        decision = choose("right", "SNOMEDCT:901|SNOMEDCT:903").json()["decision"]
        assert decision["concept_name"] == "Wobbly leg | History of falls"
        exported = client.get("/api/projects/lab/export", params={"format": "omop"}).text
        assert [line.split(",")[4] for line in exported.splitlines()[1:]] == ["1", "3"]
