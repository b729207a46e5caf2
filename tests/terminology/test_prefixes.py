from __future__ import annotations

import pytest

from alphita.terminology import prefixes


@pytest.mark.parametrize(
    ("written", "curie"),
    [
        ("MSH:D004427", "MESH:D004427"),
        ("msh:D004427", "MESH:D004427"),
        ("SNOMEDCT_US:1", "SNOMEDCT:1"),
        ("SNOMEDCT_US_2016_03_01:25906001", "SNOMEDCT:25906001"),
        ("ICD9CM_2005:780", "ICD9CM:780"),
        ("Odd_2005:1", "Odd_2005:1"),
        ("UMLS_CUI:C01", "UMLS:C01"),
        ("ICD-10:A00", "ICD10:A00"),
        ("Orphanet:558", "ORPHA:558"),
        ("http://purl.obolibrary.org/obo/HP_0001250", "HP:0001250"),
        ("http://purl.obolibrary.org/obo/ZFA_0000001", "ZFA:0000001"),
        ("https://id.nlm.nih.gov/mesh/D1", "MESH:D1"),
        ("http://purl.obolibrary.org/obo/APOLLO_SV_00000032", "APOLLO_SV:00000032"),
        ("http://purl.obolibrary.org/obo/GO_REF_0000001", "GO_REF:0000001"),
        ("http://purl.obolibrary.org/obo/uberon/core#part_of", "http://purl.obolibrary.org/obo/uberon/core#part_of"),
        ("http://identifiers.org/mesh/D003920", "MESH:D003920"),
        ("https://identifiers.org/mesh:D003920", "MESH:D003920"),
        ("http://identifiers.org/snomedct/22298006", "SNOMEDCT:22298006"),
        ("http://identifiers.org/medgen/41755", "MEDGEN:41755"),
        ("http://identifiers.org/hgnc/5", "HGNC:5"),
        ("https://identifiers.org/HP:0001250", "HP:0001250"),
        ("http://identifiers.org/hp/HP:0001250", "HP:0001250"),
        ("http://identifiers.org/nosuch/1", "http://identifiers.org/nosuch/1"),
        ("http://purl.bioontology.org/ontology/SNOMEDCT/22298006", "SNOMEDCT:22298006"),
        ("http://purl.bioontology.org/ontology/MESH/D003920", "MESH:D003920"),
        ("https://omim.org/phenotypicSeries/PS118220", "OMIMPS:118220"),
        ("http://example.org/x", "http://example.org/x"),
        ("NoSuchPrefix:1", "NoSuchPrefix:1"),
        ("plain", "plain"),
        (" HP:1 ", "HP:1"),
    ],
)
def test_normalize(written: str, curie: str) -> None:
    assert prefixes.normalize(written) == curie
    assert prefixes.normalize(curie) == curie


def test_expand_and_contract_are_inverse() -> None:
    for prefix, row in prefixes.table().items():
        if row.uri:
            uri = prefixes.expand(f"{prefix}:007")
            assert uri == row.uri + "007"
            assert prefixes.contract(uri) == f"{prefix}:007"
    assert prefixes.expand("NDC:1") is None
    assert prefixes.contract("HP:1") is None


def test_the_table_is_sound() -> None:
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
def test_what_is_no_curie(text: str) -> None:
    assert prefixes.parse_curie(text) is None
