from __future__ import annotations

import shutil
import zipfile

import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import loinc
from tests.terminology.conftest import FIXTURES

RELEASE = FIXTURES / "loinc"
TABLE = RELEASE / "LoincTable" / "Loinc.csv"
HEADER = b"LOINC_NUM,LONG_COMMON_NAME,SHORTNAME,CLASS,STATUS,RELATEDNAMES2\r\n"


@pytest.fixture
def whole(load):
    terminology, rejects = load(loinc, RELEASE)
    assert rejects == []
    return terminology


def test_the_table_of_panels_is_not_the_table(load, whole, tmp_path):
    # Real releases have a second Loinc.csv, of the terms of panels alone, whose folder comes first.
    rows = TABLE.read_bytes().splitlines(keepends=True)
    with zipfile.ZipFile(tmp_path / "Loinc_2.99.zip", "w") as archive:
        archive.writestr("AccessoryFiles/PanelsAndForms/Loinc.csv", b"".join(rows[:2]))
        for path in sorted(path for path in RELEASE.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(RELEASE))
        archive.writestr("ZCopy/Loinc.csv", b"".join(rows[:2]))
    terminology, rejects = load(loinc, tmp_path / "Loinc_2.99.zip")
    assert rejects == []
    assert terminology.manifest["counts"] == whole.manifest["counts"]
    left_out = "files of the release that are not read"
    assert terminology.manifest["dropped"][left_out] == whole.manifest["dropped"].get(left_out, 0) + 2


def test_lines_are_right_after_cells_of_several_lines_and_bad_bytes(load, write):
    rows = b'1-1,"One\r\n, two",,,,\r\n\r\n2-2,Zwei \xe9,,,,\r\n3-3,"a"b,,,,\r\n4-4,Four,,,,\r\nx,Five,,,,\r\n'
    terminology, rejects = load(loinc, write("Loinc.csv", HEADER + rows))
    assert [(row[1], row[4].partition(":")[0]) for row in rejects] == [
        ("5", "not UTF-8"),
        ("6", "not a row of this format"),
        ("8", "not a LOINC number"),
    ]
    assert terminology.concept_names.to_pylist() == ["One\r\n, two", "Four"]


def test_a_table_is_needed_and_a_language_that_is_known(tmp_path, write):
    shutil.copytree(RELEASE / "AccessoryFiles", tmp_path / "parts")
    with pytest.raises(InputError, match=r"no Loinc\.csv"):
        loinc.load([tmp_path / "parts"], loinc.Options(), Rejects(None))
    variant = write("xxYY1LinguisticVariant.csv", "LOINC_NUM\n90001-1\n")
    with pytest.raises(InputError, match="'xx', which is not known"):
        loinc.load([TABLE, variant], loinc.Options(), Rejects(None))
