from __future__ import annotations

import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import icd10cm
from tests.terminology.conftest import FIXTURES, cases, zipped

SMALL = FIXTURES / "small_tabular.xml"
ORDER = (FIXTURES / "icd10cm_order" / "icd10cm_order_2025.txt").read_bytes().decode()


@pytest.fixture
def icd(load):
    terminology, rejects = load(icd10cm, SMALL)
    assert rejects == []
    return terminology


@pytest.mark.parametrize(("old", "new", "problem", "line"), cases("icd10cm_bad_entries.tsv"))
def test_bad_entries_are_set_aside(load, write, old, new, problem, line):
    text = SMALL.read_text()
    assert old in text
    terminology, rejects = load(icd10cm, write("bad.xml", text.replace(old, new, 1)))
    assert problem in rejects[0][4]
    assert rejects[0][1] == line
    assert terminology.concept("ICD10CM:B20").name == "An infection"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (SMALL.read_bytes()[:1500], "cut short"),
        (SMALL.read_bytes()[:-3], "cut short"),
        (SMALL.read_bytes().replace(b"moon", b"mo\0on"), "damaged"),
        (SMALL.read_bytes().replace(b"moon", b"mo\xe9on"), "damaged"),
        (SMALL.read_bytes().replace(b"&amp;", b"&bomb;"), "undefined entity"),
    ],
)
def test_a_file_that_is_not_the_format_is_an_error(write, content, problem):
    path = write("bad.xml", content)
    with pytest.raises(InputError, match=problem) as raised:
        icd10cm.load([path], icd10cm.Options(), Rejects(None))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "note", ["Conditions classifiable to C51-C63", "Should be coded to closed", "This category is for use here"]
)
def test_instructions_are_no_terms(load, write, note):
    path = write("x.xml", SMALL.read_text().replace("Asiatic cholera", note))
    terminology, rejects = load(icd10cm, path)
    assert rejects == []
    assert len(terminology.concept("ICD10CM:A00.0").terms) == 2
    assert terminology.manifest["dropped"]["notes that instruct coders and name nothing"] == 1


def test_bad_rows_of_an_order_file_are_set_aside(load, write):
    rows = ORDER.splitlines(keepends=True)
    bad = ["00001 A00\r\n", rows[0].replace(" 0 ", " 2 ", 1), rows[0].replace("A00", "0A0"), rows[0], "\r\n"]
    terminology, rejects = load(icd10cm, write("icd10cm-order-April-2025.txt", "".join(rows[:1] + bad + rows[1:])))
    assert [row[1] for row in rejects] == ["2", "3", "4", "5"]
    assert "not a row of an order file" in rejects[0][4]
    assert "defined before, at line 1" in rejects[3][4]
    assert terminology.n_concepts == 7
    with pytest.raises(InputError, match="no code in this file"):
        icd10cm.load([write("icd10cm_order_2026.txt", "x\n")], icd10cm.Options(), Rejects(None))


def test_an_archive_gives_the_tabular_list_or_else_the_order_file(load, tmp_path, icd):
    names = ["icd10cm_order_2025.txt", "icd10cm_order_addenda_2025.txt", "icd10cm_codes_2025.txt"]
    archive = zipped(tmp_path / "x.zip", dict.fromkeys(names, ORDER.encode()))
    terminology, rejects = load(icd10cm, archive)
    assert (rejects, terminology.n_concepts) == ([], 7)
    assert terminology.manifest["dropped"] == {f"file {name}": 1 for name in names[1:]}
    both, rejects = load(icd10cm, archive, SMALL)
    assert (rejects, both.n_concepts) == ([], icd.n_concepts)
    assert both.manifest["dropped"]["file icd10cm_order_2025.txt"] == 1
    with pytest.raises(InputError, match=r"no tabular list \(\.xml\) and no order file"):
        icd10cm.load([zipped(tmp_path / "y.zip", {"readme.txt": b"x"})], icd10cm.Options(), Rejects(None))


def test_tables_beside_the_tabular_list_are_left_out(load, tmp_path, icd):
    index = "<?xml version='1.0' encoding='utf-8'?>\n<ICD10CM.index><version>2026</version></ICD10CM.index>\n"
    for name in ("icd10cm-drug-2026.xml", "icd10cm-neoplasm-2026.xml"):
        (tmp_path / name).write_text(index)
    with pytest.raises(InputError, match=r"not an ICD-10-CM tabular list"):
        icd10cm.load([tmp_path], icd10cm.Options(), Rejects(None))
    (tmp_path / "icd10cm-tabular-2026.xml").write_bytes(SMALL.read_bytes())
    terminology, rejects = load(icd10cm, tmp_path)
    assert (rejects, terminology.n_concepts) == ([], icd.n_concepts)
    assert terminology.manifest["dropped"]["file icd10cm-drug-2026.xml"] == 1
    # One that is named itself is not passed over.
    with pytest.raises(InputError, match=r"no entry with a code"):
        icd10cm.load([tmp_path, tmp_path / "icd10cm-drug-2026.xml"], icd10cm.Options(), Rejects(None))
