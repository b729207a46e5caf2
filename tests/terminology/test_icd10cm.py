"""ICD-10-CM: the tabular list, the order file and the alphabetical index."""

from __future__ import annotations

import gzip

import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.detect import detect
from alphita.terminology.loaders import icd10cm
from alphita.terminology.loaders.icd10cm import IndexRow
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES, cases, zipped

SMALL, INDEX = FIXTURES / "small_tabular.xml", FIXTURES / "small_index.xml"
LIST = SMALL.read_bytes()
ORDER = (FIXTURES / "icd10cm_order" / "icd10cm_order_2025.txt").read_bytes().decode()


@pytest.fixture
def icd(load):
    terminology, rejects = load(icd10cm, SMALL)
    assert rejects == []
    return terminology


@pytest.mark.parametrize(("old", "new", "problem", "line"), cases("icd10cm_bad_entries.tsv"))
def test_bad_entries_are_set_aside(load, write, old, new, problem, line):
    text = LIST.decode()
    assert old in text
    terminology, rejects = load(icd10cm, write("bad.xml", text.replace(old, new, 1)))
    assert problem in rejects[0][4]
    assert rejects[0][1] == line
    assert terminology.concept("ICD10CM:B20").name == "An infection"


@pytest.mark.parametrize(
    "note", ["Conditions classifiable to C51-C63", "Should be coded to closed", "This category is for use here"]
)
def test_instructions_are_no_terms(load, write, note):
    path = write("x.xml", LIST.decode().replace("Asiatic cholera", note))
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
    (tmp_path / "icd10cm-tabular-2026.xml").write_bytes(LIST)
    terminology, rejects = load(icd10cm, tmp_path)
    assert (rejects, terminology.n_concepts) == ([], icd.n_concepts)
    assert terminology.manifest["dropped"]["file icd10cm-drug-2026.xml"] == 1
    # One that is named itself is not passed over.
    with pytest.raises(InputError, match=r"no entry with a code"):
        icd10cm.load([tmp_path, tmp_path / "icd10cm-drug-2026.xml"], icd10cm.Options(), Rejects(None))


# --- the index -------------------------------------------------------------------------------------------------------


HEADER = "RowID,Letter,Level,Term,See,SeeAlso,NonEssModif,Code\n"
# The same entries as in the XML.
TABLE = HEADER + (
    "1,C,0,Cholera,,,(Asiatic)(epidemic),A00.0\n"
    '2,C,1,"bowel, acute",,,(gut),A00.0\n'
    "3,C,2,due to,,,,\n"
    "4,C,3,moon dust,,,,A00.-\n"
    "5,C,2,specified NEC,,,,A00.8\n"
    "6,C,1,classical,,,,A00.0\n"
    "7,C,1,lunar,,,,A00.8\n"
    "8,C,1,with dementia,,,,B20.- [A00.0]\n"
    "9,C,0,Choleriform,Cholera,,,\n"
    "10,C,0,Concussion,,,(brain),S06.0X-\n"
    "11,C,1,old,,,,S06.9\n"
)
DROPPED = {
    "index entries without a code": 2,
    "index entries that make no name of their own": 1,
    # "classical cholera" is an inclusion term, "Concussion" the title.
    "index entries that repeat a name of their code": 2,
    "index entries of codes that are not in the tabular list": 1,
}
NAMES = {
    ("A00.0", "Cholera", "exact"),
    ("A00.0", "acute bowel cholera", "exact"),
    ("A00", "acute bowel cholera due to moon dust", "exact"),
    ("A00.8", "lunar cholera", "narrow"),
    ("B20", "Cholera with dementia", "narrow"),
}


def entries(terminology: Terminology) -> set[tuple[str, str, str]]:
    concepts = map(terminology.concept, range(terminology.n_concepts))
    return {
        (term.code, term.string, term.scope)
        for concept in concepts
        for term in concept.terms
        if term.term_type == "index entry"
    }


def index_drops(terminology: Terminology) -> dict[str, int]:
    return {name: count for name, count in terminology.manifest["dropped"].items() if name.startswith("index ")}


@pytest.mark.parametrize(
    ("name", "content", "version"),
    [
        ("icd10cm-index-2025.xml", INDEX.read_bytes(), "2025"),
        ("Index.csv", TABLE, None),
        ("Index.csv.gz", gzip.compress(TABLE.encode()), None),
        ("any.txt", TABLE.replace("\n", "\r\n").encode("utf-16"), None),
    ],
)
def test_entries_become_names(load, write, name, content, version):
    path = write(name, content)
    terminology, rejects = load(icd10cm, SMALL, path)
    assert rejects == []
    assert entries(terminology) == NAMES
    assert index_drops(terminology) == DROPPED
    source = terminology.manifest["sources"][1]
    assert (source["name"], source["file"], source["version"]) == ("ICD10CM", name, version)
    assert all(not term.preferred for term in terminology.concept("ICD10CM:A00.0").terms[1:])
    # The order in which they are given makes no difference, nor does the same index in two forms.
    assert load(icd10cm, path, SMALL)[0].content_hash == terminology.content_hash
    assert entries(load(icd10cm, path, INDEX, SMALL)[0]) == NAMES


def test_the_index_follows_the_options(load, write):
    terminology, _ = load(icd10cm, SMALL, INDEX, other_inclusions="related")
    assert {scope for _, _, scope in entries(terminology)} == {"exact", "related"}
    terminology, _ = load(icd10cm, SMALL, INDEX, index_entries=False)
    assert entries(terminology) == set()
    assert terminology.manifest["dropped"]["file small_index.xml"] == 1
    assert terminology.content_hash == load(icd10cm, SMALL)[0].content_hash


def test_the_index_of_a_release_is_found_and_its_tables_are_left_out(load, tmp_path):
    drugs = "<ICD10CM.index><title>TABLE</title><indexHeading/><letter></letter></ICD10CM.index>"
    others = {
        "icd10cm-drug-2025.xml": drugs,
        "neo.xml": drugs,
        "icd10cm-eindex-2025.xml": INDEX.read_text(),
        "x.xml": INDEX.read_text().replace("INDEX TO DISEASES and INJURIES", "EXTERNAL CAUSE INDEX"),
        "ExternalIndex.csv": TABLE,
        "codes.csv": "Code,Description\nA00,Cholera\n",
    }
    files = {"icd10cm-tabular-2025.xml": SMALL.read_text(), "icd10cm-index-2025.xml": INDEX.read_text()} | others
    zipped(tmp_path / "x.zip", {f"a/{name}": content.encode() for name, content in files.items()})
    assert detect(tmp_path / "x.zip").format == "icd10cm"
    terminology, rejects = load(icd10cm, tmp_path / "x.zip")
    assert rejects == []
    assert entries(terminology) == NAMES
    assert {name for name in terminology.manifest["dropped"] if name.startswith("file ")} == {
        f"file {name}" for name in others
    }


def test_an_index_beside_an_order_file(load, write):
    terminology, rejects = load(icd10cm, write("icd10cm_order_2025.txt", ORDER), INDEX)
    assert rejects == []
    assert ("A00.0", "acute bowel cholera", "exact") in entries(terminology)
    assert ("S06.0X", "Concussion", "exact") not in entries(terminology)


def test_an_index_alone_is_an_error_that_says_what_to_give(write, tmp_path):
    wanted = r"without the tabular list.*give both.*alphita terminology import icd10cm icd10cm-tabular-2025.xml "
    (tmp_path / "a").mkdir()
    for path in (INDEX, write("a/Index.csv", TABLE), tmp_path / "a"):
        for read in (detect, lambda path: icd10cm.load([path], icd10cm.Options(), Rejects())):
            with pytest.raises(InputError, match=wanted):
                read(path)
    with pytest.raises(InputError, match="a table of your own: alphita terminology import table"):
        detect(write("least.csv", "Level,Term,Code\n0,Cholera,A00\n"))


def test_a_table_with_other_columns_is_a_table(write):
    assert detect(write("own.csv", "Level,Term,Code,Ward\n0,Cholera,A00,3\n")).format == "table"
    assert detect(write("own.csv", "Code,Term\nA00,Cholera\n")).format == "table"


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "value", "problem", "below"), cases("icd10cm_index_bad_rows.tsv")
)
def test_bad_rows_are_set_aside_with_those_below_them(load, write, old, new, line, field, value, problem, below):
    assert TABLE.count(old) == 1
    path = write("Index.csv", TABLE.replace(old, new).encode("latin-1"))
    terminology, rejects = load(icd10cm, SMALL, path)
    [[file, at, name, what, why]] = rejects
    assert (file, at, name) == (str(path), line, field)
    assert problem in why
    assert value in ("-", what)
    # None of those that are left has got another main term.
    assert entries(terminology) < NAMES
    assert index_drops(terminology).get("index entries below one that was left out", 0) == int(below)
    # The next main term is read.
    assert index_drops(terminology)["index entries of codes that are not in the tabular list"] == 1


@pytest.mark.parametrize(("old", "new", "line", "field", "value"), cases("icd10cm_index_bad_entries.tsv"))
def test_bad_entries_of_xml_are_set_aside(load, write, old, new, line, field, value):
    text = INDEX.read_text()
    assert text.count(old) == 1
    path = write("bad.xml", text.replace(old, new))
    terminology, rejects = load(icd10cm, SMALL, path)
    assert [row[:4] for row in rejects] == [[str(path), line, field, value]]
    assert {name for _, name, _ in entries(terminology)} >= {"Cholera", "lunar cholera", "Cholera with dementia"}
    assert entries(terminology) < NAMES


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("list.xml", LIST[:1500], "cut short"),
        ("list.xml", LIST[:-3], "cut short"),
        ("list.xml", LIST.replace(b"moon", b"mo\0on"), "damaged"),
        ("list.xml", LIST.replace(b"&amp;", b"&bomb;"), "undefined entity"),
        ("x.xml", INDEX.read_bytes()[:900], "cut short"),
        ("x.xml", INDEX.read_bytes().replace(b"moon", b"mo\xe9on"), "damaged"),
        ("x.xml", b'<!DOCTYPE x [<!ENTITY a "b">]>' + INDEX.read_bytes()[39:], "document type declaration"),
        ("x.xml", b"<ICD10CM.index><version>2025</version></ICD10CM.index>", "no entry with a code"),
        ("x.csv", HEADER + "1,A,0,Abasia,,,,\n", "no entry with a code"),
        ("x.csv.gz", gzip.compress(TABLE.encode())[:-9], "cut short"),
        ("x.csv", "Code,Description\nA00,Cholera\n", "no XML"),
    ],
)
def test_a_file_that_is_no_list_and_no_index_is_an_error(write, name, content, problem):
    path = write(name, content)
    with pytest.raises(InputError, match=problem) as raised:
        icd10cm.load([path] if name == "list.xml" else [SMALL, path], icd10cm.Options(), Rejects())
    assert str(path) in str(raised.value)


def test_a_code_that_is_not_there_is_dropped_but_what_ends_in_a_dash_goes_to_what_there_is(load, write):
    rows = '0,Lunacy,A00.17-\n0,Madness,A00.17\n0,Folly,A01.-\n0,Rage,"A00.8, B20*"\n0,Fury,S06.0XXA\n'
    terminology, rejects = load(icd10cm, SMALL, write("i.csv", "Level,Term,Code\n" + rows))
    assert rejects == []
    assert entries(terminology) == {
        ("A00", "Lunacy", "narrow"),
        ("A00.8", "Rage", "narrow"),
        ("S06.0XXA", "Fury", "exact"),
    }
    assert index_drops(terminology)["index entries of codes that are not in the tabular list"] == 2


@pytest.mark.parametrize(("path", "name"), cases("icd10cm_index_names.tsv"))
def test_names_of_entries(path, name):
    terms = path.split(" / ")
    rows = [IndexRow(level, term, "") for level, term in enumerate(terms[:-1])]
    found = list(icd10cm.names([*rows, IndexRow(len(rows), terms[-1], "A00.1-")]))
    assert found == [("A00.1", one) for one in name.split("|") if one != "-"]


def test_unspecified_has_no_name_where_its_parent_has_a_code():
    rows = [IndexRow(0, "Cyst", "A00.0"), IndexRow(1, "unspecified site", "A00.9"), IndexRow(3, "skipped", "A00.1")]
    assert list(icd10cm.names(rows)) == [("A00.0", "Cyst"), ("A00.1", "skipped cyst")]
