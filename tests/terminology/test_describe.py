from __future__ import annotations

import json

from alphita.terminology.describe import describe
from alphita.terminology.loaders import obo, table
from tests.terminology.conftest import FIXTURES


def test_counts(small):
    found = describe(small)
    assert found.totals["concepts"] == 4
    assert found.totals["live concepts"] == 3
    assert found.totals["terms"] == 11
    assert found.totals["terms of live concepts"] == 10
    assert found.totals["definitions of live concepts"] == 1
    assert found.terms_by_language == {"en": 10}
    assert found.terms_by_kind == {
        "preferred name": 3,
        "broad synonym": 1,
        "exact synonym": 1,
        "exact synonym, brand_name": 1,
        "exact synonym, layperson": 1,
        "exact synonym, plural": 1,
        "narrow synonym, brand_name": 1,
        "related synonym": 1,
    }
    assert sum(found.terms_by_kind.values()) == 10
    assert found.relations == {"is_a": 2, "has_finding_site": 1, "part_of": 1}
    assert found.concepts_by_semantic_type == {"(none)": 3}
    assert found.xrefs_by_prefix == {"MESH": 1, "MONDO": 1, "SNOMEDCT": 1, "UMLS": 1}
    assert found.concepts_by_terms == {"1": 1, "2": 1, "4": 1}
    assert found.homonyms == {"all scopes": 0, "exact in several concepts": 0}
    assert json.loads(json.dumps(found.as_json()))["content_hash"] == small.content_hash


def test_homonyms_and_types(load, tmp_path_factory):
    terminology, _ = load(table, FIXTURES / "terms.csv")
    found = describe(terminology)
    assert found.concepts_by_semantic_type == {"Disease": 1, "Sign or Symptom": 1}
    assert found.terms_by_language == {"en": 4, "it": 1}
    assert found.terms_by_kind["related synonym, obsolete, candidate"] == 1


def test_homonyms(load, tmp_path):
    from pathlib import Path

    path = Path(str(tmp_path)) / "h.csv"
    path.write_text(
        "id,term,scope\nX:1,Cold,\nX:2,Chill,\nX:2,COLD,related\nX:3,COPD,\nX:3,cold.,\nX:4,Gone,\nX:4,gone,\n"
    )
    found = describe(load(table, path)[0])
    assert found.homonyms == {"all scopes": 1, "exact in several concepts": 1}
    assert found.examples == [{"string": "cold", "concepts": ["X:1 Cold", "X:2 Chill", "X:3 COPD"]}]


def test_branches(load):
    terminology, _ = load(obo, FIXTURES / "small.obo", semantic_type="XX:0000001")
    assert describe(terminology).concepts_by_semantic_type == {
        'Abnormality of the "inner" ear {left}': 1,
        "Ear": 1,
        "(none)": 1,
    }
