from __future__ import annotations

import csv
import gzip
import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import loinc
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
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


def rows_of(name: str) -> list[dict[str, str]]:
    """Read a fixture's file plainly, to count by."""
    with open(next(RELEASE.rglob(name)), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


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


def test_a_term(whole: Terminology) -> None:
    light = whole.concept(LIGHT)
    assert light.name == "Lantern light [Mass/volume] in Lamp oil"
    found = [(term.string, term.type, term.term_type) for term in light.terms if term.language == "en"]
    assert found == [
        ("Lantern light [Mass/volume] in Lamp oil", None, "LONG_COMMON_NAME"),
        ("Lantern light (Oil)", None, "DisplayName"),
        ("Lantern light", "layperson", "CONSUMER_NAME"),
        ("Lantern light:MCnc:Pt:Lamp oil:Qn", None, "FSN"),
        ("Lantern Lght Oil-mCnc", "abbreviation", "SHORTNAME"),
        ("Glow", None, "RELATEDNAMES2"),
        ("Light", None, "RELATEDNAMES2"),
        ("Qnt", None, "RELATEDNAMES2"),
    ]
    assert {term.string for term in light.terms if term.scope == "related"} == {"Glow", "Light", "Qnt"}
    assert [term.string for term in light.terms if term.preferred] == [light.name]
    assert light.semantic_types == ["LAMP"]
    assert [found.text for found in light.definitions] == ['How much "light",\nby weight | volume']
    assert light.properties[:2] == [("component", "Lantern light"), ("property", "MCnc")]
    assert ("status", "TRIAL") in whole.concept(SEEN).properties
    mood = whole.concept("LOINC:90005-2")
    assert mood.name == 'How is the lantern, "today"?'
    assert mood.properties[-1] == ("copyright_notice", 'Copyright (c) Lantern Society, "all" rights')


def test_translations(whole: Terminology) -> None:
    terms = whole.concept(LIGHT).terms
    assert [(term.string, term.type) for term in terms if term.language == "de-AT"] == [
        ("Laternenlicht im Lampenöl", None),
        ("Laternenlicht", None),
        ("Laternenlicht:Massenkonzentration:Zeitpunkt:Lampenöl:quantitativ", None),
    ]
    assert [(term.string, term.type) for term in terms if term.language == "fr-CA"] == [
        ("Lumière de lanterne", None),
        ("la lumière", "layperson"),
        ("LumLant", "abbreviation"),
    ]
    assert {term.language for term in whole.concept(SEEN).terms} == {"en"}
    assert whole.manifest["dropped"]["translations equal to the English name"] == 1


def test_parts_hierarchy_and_links(whole: Terminology) -> None:
    light = whole.concept(LIGHT)
    assert sorted(light.relations) == [
        ("analyte", "LOINC:LP900-1"),
        ("component", "LOINC:LP900-1"),
        ("is_a", "LOINC:LP900-1"),
        ("is_a", "LOINC:LP910-0"),
        ("system", "LOINC:LP901-9"),
    ]
    oil = whole.concept("LOINC:LP901-9")
    assert (oil.name, [term.string for term in oil.terms]) == ("Oil of lamps", ["Oil of lamps", "Lamp oil"])
    assert (oil.semantic_types, whole.concept("LOINC:LP902-7").retired) == (["SYSTEM"], True)
    # Part.csv has neither of these: a link and the hierarchy name them.
    assert whole.concept("LOINC:LP903-5").name == "Only linked"
    assert whole.concept("LOINC:LP910-0").name == "Lanterns"
    assert whole.resolve("LOINC:LP910-0") in whole.ancestors(whole.resolve(SEEN))


def test_one_target_replaces_a_deprecated_term(whole: Terminology) -> None:
    found = [whole.concept(f"LOINC:{number}") for number in ("90003-7", "90004-5", "90005-2")]
    assert [(concept.retired, concept.replaced_by, concept.consider) for concept in found] == [
        (True, [LIGHT], []),
        (True, [], [LIGHT, SEEN]),
        (False, [], [SEEN]),
    ]


def test_counts_agree_with_the_files(whole: Terminology) -> None:
    terms, parts = rows_of("Loinc.csv"), rows_of("Part.csv")
    links = rows_of("LoincPartLink_Primary.csv") + rows_of("LoincPartLink_Supplementary.csv")
    edges = rows_of("ComponentHierarchyBySystem.csv")
    numbers = {row["LOINC_NUM"] for row in terms} | {row["PartNumber"] for row in parts + links}
    numbers |= {row["CODE"] for row in edges}
    counts = whole.manifest["counts"]
    assert counts["concepts"] == len(numbers)
    assert counts["relations"] == len(links) + sum(bool(row["IMMEDIATE_PARENT"]) for row in edges)
    assert counts["definitions"] == sum(bool(row["DefinitionDescription"]) for row in terms)
    assert int(whole.retired.sum()) == sum(row["STATUS"] == "DEPRECATED" for row in terms) + 1
    related = [name.strip() for row in terms for name in row["RELATEDNAMES2"].split(";")]
    assert whole.terms["scope"].to_pylist().count("related") == len(list(filter(None, related)))
    assert whole.manifest["dropped"]["files of the release that are not read"] == 3


def test_the_table_alone_is_enough(load: Load) -> None:
    terminology, rejects = load(loinc, TABLE)
    assert (rejects, terminology.n_relations, terminology.n_concepts) == ([], 0, len(rows_of("Loinc.csv")))


def test_options(load: Load) -> None:
    languages = {}
    for wanted in ("", "none", "de", "fr-ca, de_AT"):
        terminology, _ = load(loinc, RELEASE, languages=wanted, related_names="none")
        languages[wanted] = set(terminology.terms["language"].to_pylist())
        assert "related" not in terminology.terms["scope"].to_pylist()
    assert languages == {
        "": {"en", "de-AT", "fr-CA"},
        "none": {"en"},
        "de": {"en", "de-AT"},
        "fr-ca, de_AT": {"en", "de-AT", "fr-CA"},
    }
    terminology, _ = load(loinc, RELEASE, related_names="all")
    related = {term.string for term in terminology.concept(LIGHT).terms if term.scope == "related"}
    assert related == {"Glow", "Light", "Qnt", "Schein", "Licht", "Lueur"}
    with pytest.raises(UsageError, match="'german' is not a language"):
        loinc.load([RELEASE], loinc.Options(languages="german"), Rejects(None))


def test_zip_and_gzip(load: Load, whole: Terminology, tmp_path: Path) -> None:
    packed = tmp_path / "gz"
    with zipfile.ZipFile(tmp_path / "Loinc_2.99.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in RELEASE.rglob("*") if path.is_file()):
            archive.write(path, f"Loinc_2.99/{path.relative_to(RELEASE)}")
            copy = packed / f"{path.relative_to(RELEASE)}.gz"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(gzip.compress(path.read_bytes()))
    for path in (packed, tmp_path / "Loinc_2.99.zip"):
        terminology, rejects = load(loinc, path)
        assert rejects == []
        assert terminology.manifest["counts"] == whole.manifest["counts"]
        assert terminology.concept(LIGHT) == whole.concept(LIGHT)
    assert [source["version"] for source in terminology.manifest["sources"]] == ["2.99"]


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


@pytest.mark.parametrize(
    ("file", "row", "field", "problem"),
    [
        ("Loinc.csv", ["3-3", "x"], "", "2 cells, but the header has 6"),
        ("Loinc.csv", ["three", "x", "", "", "", ""], "LOINC_NUM", "not a LOINC number"),
        ("Loinc.csv", ["1-1", "x", "", "", "", ""], "LOINC_NUM", "defined before"),
        ("Loinc.csv", ["3-3", "x", "", "", "GONE", ""], "STATUS", "must be one of"),
        ("Loinc.csv", ["3-3", "x\0", "", "", "", ""], "", "NUL"),
        ("Part.csv", ["P1", "COMPONENT", "x", "", ""], "PartNumber", "not a part number"),
        ("MapTo.csv", ["1-1", "9-9", ""], "MAP_TO", "no concept has this number"),
        ("MapTo.csv", ["9-9", "1-1", ""], "LOINC", "no concept has this number"),
        ("ComponentHierarchyBySystem.csv", ["", "1", "LP8-8", "1-1", "x"], "tail", "no concept has this id"),
        ("ComponentHierarchyBySystem.csv", ["", "1", "", "", "x"], "CODE", "empty code"),
        ("LoincPartLink_Primary.csv", ["1-1", "", "x", ""], "PartNumber", "not a part number"),
        ("deDE15LinguisticVariant.csv", ["9-9", "", "Neun"], "concept", "no concept has this id"),
        ("deDE15LinguisticVariant.csv", ["1-1", "", "x" * 10_001], "string", "longer than"),
    ],
)
def test_bad_rows_are_set_aside_with_file_and_line(
    load: Load, tmp_path: Path, file: str, row: list[str], field: str, problem: str
) -> None:
    files = {"Loinc.csv": [["1-1", "One", "", "", "", ""], ["2-2", "Two", "", "", "ACTIVE", ""]]}
    files.setdefault(file, []).append(row)
    folder = tmp_path / "release"
    folder.mkdir()
    terminology, [reject] = load(loinc, write_release(folder, files))
    assert reject[:3] == [str(folder / file), str(len(files[file]) + 1), field]
    assert problem in reject[4]
    assert terminology.concept_names.to_pylist() == ["One", "Two"]


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


def test_wrong_and_damaged_files_are_errors(tmp_path: Path, write: Write) -> None:
    for content, problem in (
        (gzip.compress(TABLE.read_bytes())[:-30], "cut short"),
        (b"", "empty"),
        (b"a,b\n1,2\n", "no column 'L"),
        (b"\xff\xfea\0", "UTF-16"),
        (b'"a\n', "no header"),
        (b"LOINC_NUM,LONG_COMMON_NAME\n", "no usable term"),
        (b"\xe9\xe9", "empty"),
    ):
        with pytest.raises(InputError, match=problem):
            loinc.load([write("Loinc.csv", content)], loinc.Options(), Rejects(None))
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


GOOD = {path.name: path.read_bytes() for path in sorted(RELEASE.rglob("*.csv"))}


@fuzz.examples(25)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_mutated_and_random_files_give_a_clear_error_or_a_terminology(which: str, data: st.DataObject) -> None:
    damaged = data.draw(fuzz.edited_or_random(GOOD[which]))
    fuzz.check_sound_or_refused(loinc, {**GOOD, which: damaged}, loinc.Options())
