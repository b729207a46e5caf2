from __future__ import annotations

import pytest

from alphita.terminology import prefixes
from tests.terminology.conftest import cases


@pytest.mark.parametrize(("written", "curie"), cases("prefixes.tsv"))
def test_normalize(written, curie):
    assert prefixes.normalize(written) == curie
    assert prefixes.normalize(curie) == curie


def test_expand_and_contract_are_inverse():
    for prefix, row in prefixes.table().items():
        if row.uri:
            uri = prefixes.expand(f"{prefix}:007")
            assert uri == row.uri + "007"
            assert prefixes.contract(uri) == f"{prefix}:007"
    assert prefixes.expand("NDC:1") is None
    assert prefixes.contract("HP:1") is None


def test_the_table_is_sound():
    table = prefixes.table()
    spellings = [name.lower() for row in table.values() for name in (row.prefix, *row.aliases)]
    assert len(spellings) == len(set(spellings))
    uris = [row.uri for row in table.values() if row.uri]
    assert len(uris) == len(set(uris))
    assert all(value == value.strip() for row in table.values() for value in (row.uri, row.fhir_system, row.name))
    assert table["SNOMEDCT"].fhir_system == "http://snomed.info/sct"
    assert table["MESH"].fhir_system == "https://www.nlm.nih.gov/mesh"
    assert table["MEDDRA"].fhir_system == "https://www.meddra.org"
    assert table["RXNORM"].omop_vocabulary_id == "RxNorm"


@pytest.mark.parametrize("text", ["", ":", "a:", ":b", "http://x", "plain"])
def test_what_is_no_curie(text):
    assert prefixes.parse_curie(text) is None
