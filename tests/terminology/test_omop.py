from __future__ import annotations

import shutil
import zipfile

import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import omop
from tests.terminology.conftest import FIXTURES

DOWNLOAD = FIXTURES / "omop"


def test_a_language_can_be_named(load, tmp_path):
    columns = "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code "
    columns += "valid_start_date valid_end_date invalid_reason"
    concept = "1\tOne\tCondition\tSNOMED\tDisorder\tS\tc 1\t19700101\t20991231\t"
    (tmp_path / "CONCEPT.csv").write_text("\t".join(columns.split()) + f"\n{concept}\n")
    synonyms = "concept_id\tconcept_synonym_name\tlanguage_concept_id\n1\tUno\t77\n1\tYksi\t78\n"
    (tmp_path / "CONCEPT_SYNONYM.csv").write_text(synonyms)
    terminology, [reject] = load(omop, tmp_path, languages="77=es-MX")
    assert terminology.concept("OMOP:1").terms[1].language == "es-MX"
    assert reject[1:4] == ["3", "language_concept_id", "78"]


def test_without_relationship_csv_the_known_inverses_are_left_out(load, tmp_path):
    shutil.copytree(DOWNLOAD, tmp_path / "x")
    (tmp_path / "x" / "RELATIONSHIP.csv").unlink()
    terminology, _ = load(omop, tmp_path / "x")
    assert sorted(terminology.relation_labels) == ["agent_of", "has_agent", "is_a", "rxnorm_has_ing", "rxnorm_ing_of"]


def test_wrong_and_damaged_files_are_errors(tmp_path, write):
    whole = (DOWNLOAD / "CONCEPT.csv").read_bytes()
    with pytest.raises(InputError, match=r"no CONCEPT\.csv"):
        omop.load([DOWNLOAD / "VOCABULARY.csv"], omop.Options(), Rejects(None))
    with pytest.raises(UsageError, match="a second CONCEPT"):
        omop.load([DOWNLOAD, write("CONCEPT.csv", whole)], omop.Options(), Rejects(None))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CONCEPT.csv", whole * 50)
    damaged = bytearray((tmp_path / "x.zip").read_bytes())
    damaged[60:90] = bytes(30)
    with pytest.raises(InputError, match="damaged"):
        omop.load([write("damaged.zip", bytes(damaged))], omop.Options(), Rejects(None))
