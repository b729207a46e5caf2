from __future__ import annotations

import csv
import io
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import loinc
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load, Write

RELEASE = FIXTURES / "loinc"
TABLE = RELEASE / "LoincTable" / "Loinc.csv"
LIGHT, SEEN = "LOINC:90001-1", "LOINC:90002-9"
HEADERS = {
    "Loinc.csv": "LOINC_NUM,LONG_COMMON_NAME,SHORTNAME,CLASS,STATUS,RELATEDNAMES2",
    "MapTo.csv": "LOINC,MAP_TO,COMMENT",
    "Part.csv": "PartNumber,PartTypeName,PartName,PartDisplayName,Status",
    "LoincPartLink_Primary.csv": "LoincNumber,PartNumber,PartName,PartTypeName",
    "ComponentHierarchyBySystem.csv": "PATH_TO_ROOT,SEQUENCE,IMMEDIATE_PARENT,CODE,CODE_TEXT",
    "deDE15LinguisticVariant.csv": "LOINC_NUM,SHORTNAME,LONG_COMMON_NAME",
}


def write_release(folder: Path, files: dict[str, list[list[str]]], end: str = "\r\n") -> Path:
    for name, rows in files.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator=end)
        writer.writerow(HEADERS[name].split(","))
        writer.writerows(rows)
        (folder / name).write_bytes(text.getvalue().encode())
    return folder


@pytest.fixture
def whole(load: Load) -> Terminology:
    terminology, rejects = load(loinc, RELEASE)
    assert rejects == []
    return terminology


def test_the_table_of_panels_is_not_the_table(load: Load, whole: Terminology, tmp_path: Path) -> None:
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


def test_lines_are_right_after_cells_of_several_lines_and_bad_bytes(load: Load, write: Write) -> None:
    head = HEADERS["Loinc.csv"].encode() + b"\r\n"
    rows = b'1-1,"One\r\n, two",,,,\r\n\r\n2-2,Zwei \xe9,,,,\r\n3-3,"a"b,,,,\r\n4-4,Four,,,,\r\nx,Five,,,,\r\n'
    terminology, rejects = load(loinc, write("Loinc.csv", head + rows))
    assert [(row[1], row[4].partition(":")[0]) for row in rejects] == [
        ("5", "not UTF-8"),
        ("6", "not a row of this format"),
        ("8", "not a LOINC number"),
    ]
    assert terminology.concept_names.to_pylist() == ["One\r\n, two", "Four"]


def test_a_table_is_needed_and_a_language_that_is_known(tmp_path: Path, write: Write) -> None:
    shutil.copytree(RELEASE / "AccessoryFiles", tmp_path / "parts")
    with pytest.raises(InputError, match=r"no Loinc\.csv"):
        loinc.load([tmp_path / "parts"], loinc.Options(), Rejects(None))
    variant = write("xxYY1LinguisticVariant.csv", "LOINC_NUM\n90001-1\n")
    with pytest.raises(InputError, match="'xx', which is not known"):
        loinc.load([TABLE, variant], loinc.Options(), Rejects(None))


# --- random releases -------------------------------------------------------------------------------------------------

WORDS = fuzz.words('a "quoted", one', "x | y", '"', "two\nlines", "a;b")
CELLS = st.just("") | WORDS


@st.composite
def releases(draw: st.DrawFn) -> dict[str, Any]:
    numbers = [f"{n}-{n % 10}" for n in draw(st.lists(st.integers(1, 99_999), min_size=1, max_size=8, unique=True))]
    parts = [f"LP{n}-{n % 10}" for n in draw(st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True))]
    one, part = st.sampled_from(numbers), st.sampled_from(parts)
    return {
        "terms": {
            number: (draw(WORDS), draw(CELLS), draw(CELLS), draw(st.sampled_from(["", *loinc.STATUSES])))
            for number in numbers
        },
        "parts": {number: draw(WORDS) for number in parts},
        "links": draw(st.sets(st.tuples(one, part, st.sampled_from(["COMPONENT", "SYSTEM"])), max_size=10)),
        "edges": draw(st.sets(st.tuples(one | part, part), max_size=10)),
        "maps": draw(st.sets(st.tuples(one, one), max_size=6)),
        "german": draw(st.dictionaries(one, st.tuples(CELLS, CELLS), max_size=5)),
    }


def written(content: dict[str, Any], folder: Path) -> Path:
    names = content["parts"]
    files = {
        "Loinc.csv": [
            [n, name, short, kind, status, ""] for n, (name, short, kind, status) in content["terms"].items()
        ],
        "MapTo.csv": [[*pair, ""] for pair in sorted(content["maps"])],
        "Part.csv": [[number, "", name, "", "ACTIVE"] for number, name in names.items()],
        "LoincPartLink_Primary.csv": [[n, part, names[part], kind] for n, part, kind in sorted(content["links"])],
        "ComponentHierarchyBySystem.csv": [["", "1", parent, code, ""] for code, parent in sorted(content["edges"])],
        "deDE15LinguisticVariant.csv": [[number, *cells] for number, cells in content["german"].items()],
    }
    return write_release(folder, files, end="\n")


@fuzz.examples(15)
@given(releases())
def test_a_random_release_is_read_as_written(content: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder_name:
        terminology = fuzz.saved_and_opened(loinc, written(content, Path(folder_name)), loinc.Options())
        assert terminology.n_concepts == len(content["terms"]) + len(content["parts"])
        for number, (name, short, kind, status) in content["terms"].items():
            found = terminology.concept(f"LOINC:{number}")
            english = {name, short} - {""}
            german = set(content["german"].get(number, ())) - {""} - english
            wanted = {(string, "en") for string in english} | {(string, "de-DE") for string in german}
            assert sorted((term.string, term.language) for term in found.terms) == sorted(wanted)
            assert (found.name, found.retired) == (name, status == "DEPRECATED")
            assert found.semantic_types == [kind] * bool(kind)
            relations = {(kind.lower(), f"LOINC:{part}") for of, part, kind in content["links"] if of == number}
            relations |= {("is_a", f"LOINC:{parent}") for code, parent in content["edges"] if code == number}
            assert set(found.relations) == relations
            targets = {f"LOINC:{target}" for of, target in content["maps"] if of == number}
            follow = len(targets) == 1 and found.retired
            assert set(found.replaced_by) == (targets if follow else set())
            assert set(found.consider) == (set() if follow else targets)
        for number, name in content["parts"].items():
            assert terminology.concept(f"LOINC:{number}").name == name
