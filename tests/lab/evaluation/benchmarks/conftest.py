from __future__ import annotations

import pytest

from alphita.terminology.model import REPLACED_BY, XREF
from alphita.terminology.store import Terminology
from tests.lab.evaluation.small_terminologies import save, term


@pytest.fixture(scope="session")
def umls(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return save(
        tmp_path_factory.mktemp("umls") / "umls.terminology",
        [
            term("UMLS:C0000001", "Grumbling knee"),
            term("UMLS:C0000001", "Knie, grummelndes", "de", source="MSHGER"),
            term("UMLS:C0000002", "Blueberry shrub", source="MESH"),
            term("UMLS:C0000003", "Lantern"),
            term("UMLS:C0000005", "Noisy knee"),
            term("UMLS:C0000008", "Retired thing"),
        ],
        retired=["UMLS:C0000008"],
        semantic_types=[("UMLS:C0000001", "Finding"), ("UMLS:C0000002", "Plant")],
    )


@pytest.fixture(scope="session")
def hpo(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return save(
        tmp_path_factory.mktemp("hpo") / "hpo.terminology",
        [
            term("HP:0000101", "Grumbling knee"),
            term("HP:0000101", "Crepitating knee"),
            term("HP:0000105", "Noisy knee"),
            term("HP:0000103", "Obsolete old knee"),
            term("HP:0000104", "Obsolete older knee"),
            term("HP:0000106", "Old knee"),
            term("HP:0000107", "Obsolete oldest knee"),
        ],
        retired=["HP:0000103", "HP:0000104", "HP:0000107"],
        aliases=[("HP:0000105", "HP:0000102")],
        replacements=[("HP:0000103", REPLACED_BY, "HP:0000106"), ("HP:0000107", REPLACED_BY, "HP:0000103")],
        xrefs=[
            ("HP:0000101", XREF, "UMLS:C0000001"),
            ("HP:0000105", XREF, "UMLS:C0000001"),
            ("HP:0000104", XREF, "UMLS:C0000001"),
            ("HP:0000104", XREF, "UMLS:C0000002"),
        ],
    )


@pytest.fixture(scope="session")
def omop(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return save(
        tmp_path_factory.mktemp("omop") / "omop.terminology",
        [term("SNOMEDCT:1", "Blue lantern"), term("OMOP:102", "Left lantern")],
        aliases=[("SNOMEDCT:1", "OMOP:101")],
    )
