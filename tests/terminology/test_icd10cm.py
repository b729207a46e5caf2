from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import icd10cm
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
SMALL = FIXTURES / "small_tabular.xml"


@pytest.fixture
def icd(load: Load) -> Terminology:
    terminology, rejects = load(icd10cm, SMALL)
    assert rejects == []
    return terminology


def test_levels_and_hierarchy(icd: Terminology) -> None:
    levels = {icd.concept_id(row): dict(icd.concept(row).properties)["level"] for row in range(icd.n_concepts)}
    assert levels == {
        "ICD10CM:A00-B99": "chapter",
        "ICD10CM:A00-A09": "section",
        "ICD10CM:A00": "category",
        "ICD10CM:A00.0": "code",
        "ICD10CM:A00.8": "code",
        "ICD10CM:B20-B20": "section",
        "ICD10CM:B20": "category",
        "ICD10CM:S00-T88": "chapter",
        "ICD10CM:S00-S09": "section",
        "ICD10CM:S06": "category",
        "ICD10CM:S06.0": "code",
        "ICD10CM:S06.0XXA": "7th character",
        "ICD10CM:S06.0XXD": "7th character",
        "ICD10CM:S06.307": "code",
        "ICD10CM:S06.307A": "7th character",
    }
    assert icd.concept("ICD10CM:A00.0").parents == ["ICD10CM:A00"]
    assert icd.concept("ICD10CM:A00").parents == ["ICD10CM:A00-A09"]
    assert icd.concept("ICD10CM:A00-A09").parents == ["ICD10CM:A00-B99"]
    assert icd.concept("ICD10CM:B20").parents == ["ICD10CM:B20-B20"]
    assert icd.concept("ICD10CM:A00-B99").parents == []
    assert icd.concept("ICD10CM:S06.0XXA").parents == ["ICD10CM:S06.0"]
    assert icd.relation_labels == ["is_a"]


def test_titles_and_inclusion_terms(icd: Terminology) -> None:
    assert icd.concept("ICD10CM:A00-B99").name == "Certain infections"
    assert icd.concept("ICD10CM:A00").name == "Cholera & kin"
    assert icd.concept("ICD10CM:S06.0XXA").name == "Concussion, initial encounter"
    terms = {term.string: term for term in icd.concept("ICD10CM:A00.0").terms}
    assert list(terms) == ["Cholera of kind 0", "Classical cholera", "Asiatic cholera"]
    assert {(term.scope, term.code, term.source, term.language) for term in terms.values()} == {
        ("exact", "A00.0", "ICD10CM", "en")
    }
    assert [term.scope for term in icd.concept("ICD10CM:A00.8").terms] == ["exact", "narrow"]
    includes = icd.concept("ICD10CM:A00-B99").terms[1]
    assert (includes.scope, includes.term_type) == ("narrow", "includes note")


def test_manifest(icd: Terminology) -> None:
    [source] = icd.manifest["sources"]
    assert (source["name"], source["version"]) == ("ICD10CM", "2026")
    assert icd.manifest["dropped"] == {"codeFirst": 1, "excludes1": 1, "introduction": 1, "notes": 1, "sevenChrNote": 1}


def test_options(load: Load) -> None:
    terminology, _ = load(icd10cm, SMALL, seventh_characters=False, other_inclusions="exact")
    assert terminology.n_concepts == 12
    assert [term.scope for term in terminology.concept("ICD10CM:A00.8").terms] == ["exact", "exact"]


def test_gzip(load: Load, icd: Terminology, write: Write) -> None:
    assert load(icd10cm, write("t.xml.gz", gzip.compress(SMALL.read_bytes())))[0].content_hash == icd.content_hash


@pytest.mark.parametrize(
    ("old", "new", "problem", "line"),
    [
        ("<name>A00.0</name>", "", "without a name", 20),
        ("<name>A00.0</name>", "<name>cholera</name>", "not an ICD-10-CM code", 20),
        ("<name>A00.8</name>", "<name>A00.0</name>", "defined before, at line 20", 26),
        ("<desc>Cholera of kind 0</desc>", "<desc> </desc>", "without a title", 20),
        ("<note>Asiatic cholera</note>", "<note></note>", "empty note", 24),
        ("Asiatic cholera", "x" * 100_000, "100,000 characters", 24),
    ],
)
def test_bad_entries_are_set_aside(load: Load, write: Write, old: str, new: str, problem: str, line: int) -> None:
    text = SMALL.read_text()
    assert old in text
    terminology, rejects = load(icd10cm, write("bad.xml", text.replace(old, new, 1)))
    assert problem in rejects[0][4]
    assert int(rejects[0][1]) == line
    assert terminology.concept("ICD10CM:B20").name == "An infection"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"not xml", "damaged, or no XML"),
        (b"<html></html>", "first element should be ICD10CM.tabular"),
        (b"<ICD10CM.tabular></ICD10CM.tabular>", "no chapter and no code"),
        (SMALL.read_bytes()[:1500], "cut short"),
        (SMALL.read_bytes()[:-3], "cut short"),
        (gzip.compress(SMALL.read_bytes())[:-30], "cut short"),
        (SMALL.read_bytes().replace(b"moon", b"mo\0on"), "damaged"),
        (SMALL.read_bytes().replace(b"moon", b"mo\xe9on"), "damaged"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><ICD10CM.tabular/>', "document type declaration"),
        (SMALL.read_bytes().replace(b"&amp;", b"&bomb;"), "undefined entity"),
    ],
)
def test_a_file_that_is_not_the_format_is_an_error(write: Write, content: bytes, problem: str) -> None:
    path = write("bad.xml", content)
    with pytest.raises(InputError, match=problem) as raised:
        icd10cm.load([path], icd10cm.Options(), Rejects(None))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "note", ["Conditions classifiable to C51-C63", "Should be coded to closed", "This category is for use here"]
)
def test_instructions_are_no_terms(load: Load, write: Write, note: str) -> None:
    path = write("x.xml", SMALL.read_text().replace("Asiatic cholera", note))
    terminology, rejects = load(icd10cm, path)
    assert rejects == []
    assert len(terminology.concept("ICD10CM:A00.0").terms) == 2
    assert terminology.manifest["dropped"]["notes that instruct coders and name nothing"] == 1


def test_unknown_encoding_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "tabular.xml"
    path.write_text('<?xml version="1.0" encoding="tf-8"?>\n<ICD10CM.tabular></ICD10CM.tabular>\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"encoding that cannot be read.*tf-8"):
        icd10cm.load([path], icd10cm.Options(), Rejects())


ORDER = [
    ("A00", 0, "Cholera", "Cholera"),
    ("A000", 1, "Cholera due to Vibrio cholerae 01", "Cholera due to Vibrio cholerae 01"),
    ("S060", 0, "Concussion", "Concussion"),
    ("S060X", 0, "Concussion", "Concussion"),
    ("S060X1", 0, "Concussion w LOC of 30 min or less", "Concussion with loss of consciousness of 30 minutes or less"),
    (
        "S060X1A",
        1,
        "Concussion w LOC of 30 min or less, init",
        "Concussion with loss of consciousness of 30 minutes or less, initial encounter",
    ),
    (
        "W000XXA",
        1,
        "Fall on same level due to ice and snow, initial encounter",
        "Fall on same level due to ice and snow, initial encounter",
    ),
]


def order_file(rows: list[tuple[str, int, str, str]] = ORDER) -> str:
    return "".join(
        f"{number:05} {code:<7} {valid} {short:<60} {title}\r\n"
        for number, (code, valid, short, title) in enumerate(rows, 1)
    )


def test_an_order_file(load: Load, write: Write) -> None:
    terminology, rejects = load(icd10cm, write("icd10cm_order_2025.txt", order_file()))
    assert rejects == []
    assert terminology.concept_ids.to_pylist() == [
        "ICD10CM:A00",
        "ICD10CM:A00.0",
        "ICD10CM:S06.0",
        "ICD10CM:S06.0X",
        "ICD10CM:S06.0X1",
        "ICD10CM:S06.0X1A",
        "ICD10CM:W00.0XXA",
    ]
    found = terminology.concept("ICD10CM:S06.0X1A")
    assert found.name == "Concussion with loss of consciousness of 30 minutes or less, initial encounter"
    assert [(term.string, term.scope, term.preferred, term.term_type) for term in found.terms] == [
        (found.name, "exact", True, "7th character"),
        ("Concussion w LOC of 30 min or less, init", "exact", False, "short title"),
    ]
    assert found.parents == ["ICD10CM:S06.0X1"]
    assert found.properties == [("level", "7th character"), ("billable", "yes")]
    assert terminology.concept("ICD10CM:A00.0").parents == ["ICD10CM:A00"]
    assert terminology.concept("ICD10CM:A00").properties == [("level", "category"), ("billable", "no")]
    assert len(terminology.concept("ICD10CM:A00.0").terms) == 1
    assert terminology.concept("ICD10CM:W00.0XXA").parents == []
    assert terminology.manifest["sources"][0]["version"] == "2025"
    shorter, _ = load(icd10cm, write("any name", order_file()), seventh_characters=False)
    assert shorter.n_concepts == 5
    assert shorter.manifest["dropped"] == {"codes of seven characters": 2}


def test_bad_rows_of_an_order_file_are_set_aside(load: Load, write: Write) -> None:
    rows = order_file().splitlines(keepends=True)
    bad = ["00001 A00\r\n", rows[0].replace(" 0 ", " 2 ", 1), rows[0].replace("A00", "0A0"), rows[0], "\r\n"]
    terminology, rejects = load(icd10cm, write("icd10cm-order-April-2025.txt", "".join(rows[:1] + bad + rows[1:])))
    assert [row[1] for row in rejects] == ["2", "3", "4", "5"]
    assert "not a row of an order file" in rejects[0][4]
    assert "defined before, at line 1" in rejects[3][4]
    assert terminology.n_concepts == len(ORDER)
    with pytest.raises(InputError, match="no code in this file"):
        icd10cm.load([write("icd10cm_order_2026.txt", "x\n")], icd10cm.Options(), Rejects(None))


def test_an_archive_gives_the_tabular_list_or_else_the_order_file(load: Load, tmp_path: Path, icd: Terminology) -> None:
    names = ["icd10cm_order_2025.txt", "icd10cm_order_addenda_2025.txt", "icd10cm_codes_2025.txt"]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, order_file())
    terminology, rejects = load(icd10cm, tmp_path / "x.zip")
    assert (rejects, terminology.n_concepts) == ([], len(ORDER))
    assert terminology.manifest["dropped"] == {f"file {name}": 1 for name in names[1:]}
    both, rejects = load(icd10cm, tmp_path / "x.zip", SMALL)
    assert (rejects, both.n_concepts) == ([], icd.n_concepts)
    assert both.manifest["dropped"]["file icd10cm_order_2025.txt"] == 1
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(InputError, match=r"no tabular list \(\.xml\) and no order file"):
        icd10cm.load([tmp_path / "y.zip"], icd10cm.Options(), Rejects(None))


def test_tables_beside_the_tabular_list_are_left_out(load: Load, tmp_path: Path, icd: Terminology) -> None:
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


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="unknown language"):
        icd10cm.Options(language="klingon")
