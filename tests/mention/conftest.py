"""A normaliser whose index knows names of laboratory findings, and codes of other vocabularies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import build
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import SmallTerminology

NAMES = ["leukocytosis", "hyperkalemia", "hypokalemia", "elevated serum bicarbonate concentration"]
NAMES += ["increased liver function tests", "decreased hemoglobin concentration", "microcephaly", "hypercalcemia"]
NAMES += ["high potassium", "eosinophilia", "elevated circulating c reactive protein concentration"]
NAMES += ["decreased circulating vitamin b12 concentration"]
XREFS = pa.table(
    {"concept": [7, 8, 9], "predicate": ["oboInOwl:hasDbXref"] * 3, "object": ["MESH:D7", "SNOMEDCT:89", "SNOMEDCT:89"]}
)


@pytest.fixture(scope="package")
def normalizer(tmp_path_factory) -> Normalizer:
    encoder = VocabularyEncoder()
    plain = synthetic_terminology()
    terms = [
        (plain.concept_ids[int(concept)].as_py(), string, "exact")
        for concept, string in zip(plain.term_concept, plain.terms.column("string").to_pylist(), strict=True)
    ]
    terms += [(f"L:{row:02}", name, "exact") for row, name in enumerate([*NAMES, "normal"])]
    terminology = SmallTerminology(terms)
    terminology.side_table = lambda name: XREFS if name == "xrefs" else pa.table({})
    index = build(terminology, encoder, tmp_path_factory.mktemp("mention") / "x.index")
    return Normalizer(index, encoder=encoder, calibration=quick_fit(index, encoder), error=0.1)
