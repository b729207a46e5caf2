"""Files in archives and folders: those that are found by their names (LOINC, OMOP, SNOMED CT), and any others."""

from __future__ import annotations

import shutil
import zipfile

import polars as pl
import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import loinc, obo, obographs, omop, snomed_ct, table
from tests.terminology.conftest import FIXTURES

LOINC, OMOP, SNOMED_CT = (FIXTURES / name for name in ("loinc", "omop", "snomed_ct"))
LOINC_TABLE = LOINC / "LoincTable" / "Loinc.csv"


def test_the_table_of_panels_is_not_the_table(load, tmp_path):
    # Real releases have a second Loinc.csv, of the terms of panels alone, whose folder comes first.
    whole, _ = load(loinc, LOINC)
    rows = LOINC_TABLE.read_bytes().splitlines(keepends=True)
    with zipfile.ZipFile(tmp_path / "Loinc_2.99.zip", "w") as archive:
        archive.writestr("AccessoryFiles/PanelsAndForms/Loinc.csv", b"".join(rows[:2]))
        for path in sorted(path for path in LOINC.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(LOINC))
        archive.writestr("ZCopy/Loinc.csv", b"".join(rows[:2]))
    terminology, rejects = load(loinc, tmp_path / "Loinc_2.99.zip")
    assert rejects == []
    assert terminology.manifest["counts"] == whole.manifest["counts"]
    left_out = "files of the release that are not read"
    assert terminology.manifest["dropped"][left_out] == whole.manifest["dropped"].get(left_out, 0) + 2


def test_a_table_is_needed_and_a_language_that_is_known(tmp_path, write):
    shutil.copytree(LOINC / "AccessoryFiles", tmp_path / "parts")
    with pytest.raises(InputError, match=r"no Loinc\.csv"):
        loinc.load([tmp_path / "parts"], loinc.Options(), Rejects(None))
    variant = write("xxYY1LinguisticVariant.csv", "LOINC_NUM\n90001-1\n")
    with pytest.raises(InputError, match="unknown language 'xx' in its name"):
        loinc.load([LOINC_TABLE, variant], loinc.Options(), Rejects(None))


def test_without_relationship_csv_the_known_inverses_are_left_out(load, tmp_path):
    shutil.copytree(OMOP, tmp_path / "x")
    (tmp_path / "x" / "RELATIONSHIP.csv").unlink()
    terminology, _ = load(omop, tmp_path / "x")
    assert sorted(terminology.relation_labels) == ["agent_of", "has_agent", "is_a", "rxnorm_has_ing", "rxnorm_ing_of"]


def test_a_second_concept_csv_or_none_is_an_error(write):
    whole = (OMOP / "CONCEPT.csv").read_bytes()
    with pytest.raises(InputError, match=r"no CONCEPT\.csv"):
        omop.load([OMOP / "VOCABULARY.csv"], omop.Options(), Rejects(None))
    with pytest.raises(UsageError, match="a second CONCEPT"):
        omop.load([OMOP, write("CONCEPT.csv", whole)], omop.Options(), Rejects(None))


@pytest.mark.parametrize(
    ("summary", "namespace"), [("UKCLSnapshot", "GB1000000"), ("SpanishExtensionSnapshot", "INT"), ("Snapshot", "XX")]
)
def test_files_are_told_by_their_names_whatever_the_edition_puts_in(load, tmp_path, summary, namespace):
    whole, _ = load(snomed_ct, SNOMED_CT)
    folder = tmp_path / "edition"
    shutil.copytree(SNOMED_CT, folder)
    for path in (folder / "Extension").rglob("*.txt"):
        path.rename(path.with_name(path.name.replace("Snapshot", summary).replace("_XX_", f"_{namespace}_")))
    terminology, rejects = load(snomed_ct, folder)
    assert rejects == []
    assert terminology.content_hash == whole.content_hash


def test_a_file_of_a_kind_that_is_read_is_named_where_it_is_left_out(load, tmp_path):
    shutil.copytree(SNOMED_CT, tmp_path / "x")
    odd = []
    for name in ("sct2_Concept_XX_20260301.txt", "der2_cRefset_LanguageXX_20260301.txt"):
        odd.append(tmp_path / "x" / name)
        odd[-1].write_bytes(b"id\r\n")
    (tmp_path / "x" / "der2_cRefset_AttributeValueSnapshot_XX_20260301.txt").write_bytes(b"id\r\n")
    terminology, rejects = load(snomed_ct, tmp_path / "x")
    assert {row[0] for row in rejects} == {str(path) for path in odd}
    assert all("neither Snapshot nor Full nor Delta" in row[4] for row in rejects)
    assert terminology.manifest["dropped"]["files of the release that are not read"] == 5


@pytest.mark.parametrize("missing", ["Concept", "Description"])
def test_a_missing_required_file_is_an_error(tmp_path, missing):
    shutil.copytree((SNOMED_CT / "International") / "Snapshot", tmp_path / "x")
    next((tmp_path / "x").rglob(f"sct2_{missing}_Snapshot*")).unlink()
    with pytest.raises(InputError, match=f"no {missing} snapshot"):
        snomed_ct.load([tmp_path / "x"], snomed_ct.Options(), Rejects(None))


# --- archives --------------------------------------------------------------------------------------------------------


def test_parquet_in_an_archive(load, tmp_path):
    frame = pl.DataFrame({"id": ["A:1", "A:2"], "term": ["one", "two"]})
    frame.write_parquet(tmp_path / "t.parquet")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "t.parquet", "t.parquet")
    terminology, rejects = load(table, tmp_path / "x.zip")
    assert rejects == []
    assert terminology.concept_names.to_pylist() == ["one", "two"]


def test_archives_that_cannot_be_read(tmp_path, write):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FIXTURES / "small.obo", "small.obo")
        archive.writestr("z_empty.obo", "")
        archive.writestr("notes.txt", "x")
    whole = (tmp_path / "x.zip").read_bytes()
    damaged = bytearray(whole)
    damaged[60:90] = bytes(30)
    # Bit 0 of the flags, in the member's head and in the directory at the end, says that it is encrypted.
    locked = bytearray(whole)
    for place, sign in ((6, b"PK\x03\x04"), (8, b"PK\x01\x02")):
        locked[whole.index(sign) + place] |= 1
    for name, content, problem in (
        ("damaged.zip", bytes(damaged), r"damaged\.zip/small\.obo: the zip file is damaged"),
        ("cut.zip", whole[:-30], r"cut\.zip: the zip file is damaged or cut short"),
        ("locked.zip", bytes(locked), "encrypted"),
        ("whole.zip", whole, r"whole\.zip/z_empty\.obo: the file is empty"),
    ):
        with pytest.raises(InputError, match=problem):
            obo.load([write(name, content)], obo.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"no file in it ends in \.json; it has \['notes.txt', 'small.obo'"):
        obographs.load([tmp_path / "x.zip"], obographs.Options(), Rejects(None))
