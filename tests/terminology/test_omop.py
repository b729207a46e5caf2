from __future__ import annotations

import csv
import gzip
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _release, omop
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
DOWNLOAD = FIXTURES / "omop"
LAMP, FINDING = "SNOMEDCT:91003003", "SNOMEDCT:91002002"
CONCEPT = (
    "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code valid_start_date "
    "valid_end_date invalid_reason"
)
HEADERS = {
    "CONCEPT": CONCEPT,
    "CONCEPT_SYNONYM": "concept_id concept_synonym_name language_concept_id",
    "CONCEPT_RELATIONSHIP": "concept_id_1 concept_id_2 relationship_id valid_start_date valid_end_date invalid_reason",
}


def rows_of(name: str) -> list[dict[str, str]]:
    """Read a fixture's file plainly, to count by."""
    with open(DOWNLOAD / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def concept(
    identifier: int | str,
    name: str = "One",
    code: str = "c1",
    invalid: str = "",
    standard: str = "S",
    dates: tuple[str, str] = ("19700101", "20991231"),
    vocabulary: str = "SNOMED",
) -> list[str]:
    return [str(identifier), name, "Condition", vocabulary, "Disorder", standard, code, *dates, invalid]


def related(
    head: int | str, tail: int | str, label: str = "Is a", invalid: str = "", start: str = "19700101"
) -> list[str]:
    return [str(head), str(tail), label, start, "20991231", invalid]


def write_download(folder: Path, **files: list[list[str]]) -> Path:
    for name, rows in files.items():
        lines = [HEADERS[name].replace(" ", "\t"), *("\t".join(row) for row in rows)]
        (folder / f"{name}.csv").write_bytes("\n".join([*lines, ""]).encode())
    return folder


@pytest.fixture
def whole(load: Load) -> Terminology:
    terminology, rejects = load(omop, DOWNLOAD)
    assert rejects == []
    return terminology


def test_a_concept(whole: Terminology) -> None:
    lamp = whole.concept(LAMP)
    assert (lamp.name, lamp.source, lamp.alt_ids) == ("Blue lantern", "SNOMEDCT", ["OMOP:101"])
    assert lamp.semantic_types == ["Condition", "Disorder"]
    assert [(term.string, term.language, term.preferred) for term in lamp.terms] == [
        ("Blue lantern", "en", True),
        ("Azure lantern", "en", False),
        ("linterna azul", "es", False),
        ("blaue Laterne", "de", False),
        ("niebieska latarnia", "pl", False),
    ]
    assert {(term.source, term.code) for term in lamp.terms} == {("SNOMEDCT", "91003003")}
    assert lamp.properties == [("standard_concept", "S")]
    assert sorted(lamp.relations) == [("has_agent", "RXNORM:9900"), ("is_a", FINDING)]
    assert whole.concept(FINDING).name == 'Lantern "finding" | any'
    assert whole.resolve("OMOP:101") == whole.resolve(LAMP)


def test_ids_are_codes_where_a_code_names_one_concept(whole: Terminology) -> None:
    names = {
        "ICD10CM:L98": "Lantern old code, new meaning",
        "OMOP:106": "Lantern old code",
        "OMOP:110": "Condition",
        "OMOP:111": "Drug",
        "RxNorm_Extension:OMOP99": "blue lantern oil 5 MG",
        "ATC:Z01": "Lantern class",
    }
    assert {curie: whole.concept(curie).name for curie in names} == names
    assert whole.concept("OMOP:106").terms[0].source == "OMOP"
    for term, row in zip(whole.terms.to_pylist(), whole.term_concept.tolist(), strict=True):
        assert whole.resolve(f"{term['source']}:{term['code']}") == row
    for row in rows_of("CONCEPT")[1:]:
        assert whole.concept(f"OMOP:{row['concept_id']}").name == row["concept_name"]


def test_replacements_and_mappings(whole: Terminology) -> None:
    found = {name: whole.concept(f"OMOP:{name}") for name in (103, 104, 114)}
    assert all(concept.retired for concept in found.values())
    assert [(concept.replaced_by, concept.consider) for concept in found.values()] == [
        ([LAMP], []),
        ([], [LAMP, FINDING]),
        ([LAMP], [FINDING]),
    ]
    assert whole.concept("ICD10CM:L99.9").xrefs == [("OMOP:maps_to", LAMP)]
    assert whole.concept(LAMP).xrefs == []  # it maps to itself


def test_counts_agree_with_the_files(whole: Terminology) -> None:
    concepts = [row for row in rows_of("CONCEPT") if row["concept_id"] != "0"]
    counts = whole.manifest["counts"]
    assert counts["concepts"] == len(concepts)
    assert int(whole.retired.sum()) == sum(row["invalid_reason"] in ("D", "U") for row in concepts)
    assert counts["semantic_types"] == 2 * len(concepts)
    synonyms = {
        (row["concept_id"], row["concept_synonym_name"], row["language_concept_id"])
        for row in rows_of("CONCEPT_SYNONYM")
        if row["concept_id"] != "0"
    }
    names = {(row["concept_id"], row["concept_name"], "4180186") for row in concepts}
    assert whole.n_terms == len(synonyms | names)
    labels = Counter(row["relationship_id"] for row in rows_of("CONCEPT_RELATIONSHIP") if not row["invalid_reason"])
    assert whole.n_relations == labels["Is a"] + labels["RxNorm has ing"] + labels["Has agent"]
    dropped = whole.manifest["dropped"]
    assert dropped["the other direction of relationships"] == 5
    assert (dropped["invalid relationships"], dropped["file DRUG_STRENGTH.csv"], dropped["the concept 0"]) == (1, 1, 1)
    assert {source["version"] for source in whole.manifest["sources"]} == {"v5.0 01-JAN-26"}


def test_options(load: Load) -> None:
    terminology, rejects = load(omop, DOWNLOAD, vocabularies="RxNorm, RxNorm Extension", semantic_types="class")
    assert rejects == []
    assert terminology.concept_ids.to_pylist() == ["RXNORM:9900", "RxNorm_Extension:OMOP99"]
    assert terminology.concept("RXNORM:9900").semantic_types == ["Ingredient"]
    terminology, _ = load(omop, DOWNLOAD, relations="is_a")
    assert terminology.relation_labels == ["is_a"]
    assert terminology.concept("OMOP:103").replaced_by == [LAMP]
    for options, problem in (
        ({"vocabularies": "SNOMEDCT"}, "SNOMED"),
        ({"languages": "german=de"}, "4182504=de"),
        ({"languages": "5=?"}, "4182504=de"),
    ):
        with pytest.raises(UsageError, match=problem):
            omop.load([DOWNLOAD], omop.Options(**options), Rejects(None))


def test_a_language_can_be_named(load: Load, tmp_path: Path) -> None:
    synonyms = [["1", "Uno", "77"], ["1", "Yksi", "78"]]
    folder = write_download(tmp_path, CONCEPT=[concept(1)], CONCEPT_SYNONYM=synonyms)
    terminology, [reject] = load(omop, folder, languages="77=es-MX")
    assert terminology.concept("OMOP:1").terms[1].language == "es-MX"
    assert reject[1:4] == ["3", "language_concept_id", "78"]


def test_zip_gzip_and_one_file(load: Load, whole: Terminology, tmp_path: Path) -> None:
    packed = tmp_path / "gz"
    packed.mkdir()
    with zipfile.ZipFile(tmp_path / "vocabulary.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(DOWNLOAD.iterdir()):
            archive.write(path, path.name)
            (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    for path in (tmp_path / "vocabulary.zip", packed):
        terminology, rejects = load(omop, path)
        assert rejects == []
        assert terminology.manifest["counts"] == whole.manifest["counts"]
        assert terminology.concept(LAMP) == whole.concept(LAMP)
    terminology, rejects = load(omop, DOWNLOAD / "CONCEPT.csv")
    assert (rejects, terminology.n_relations, terminology.n_terms) == ([], 0, terminology.n_concepts)


def test_without_relationship_csv_the_known_inverses_are_left_out(load: Load, tmp_path: Path) -> None:
    shutil.copytree(DOWNLOAD, tmp_path / "x")
    (tmp_path / "x" / "RELATIONSHIP.csv").unlink()
    terminology, _ = load(omop, tmp_path / "x")
    assert sorted(terminology.relation_labels) == ["agent_of", "has_agent", "is_a", "rxnorm_has_ing", "rxnorm_ing_of"]


@pytest.mark.parametrize(
    ("file", "row", "field", "problem"),
    [
        ("CONCEPT", ["7", "x"], "", "2 cells, but the header has 10"),
        ("CONCEPT", concept("x7"), "concept_id", "not a number"),
        ("CONCEPT", concept("٧"), "concept_id", "not a number"),
        ("CONCEPT", concept(1), "concept_id", "defined before"),
        ("CONCEPT", concept(7, name=" "), "concept_name", "empty name"),
        ("CONCEPT", concept(7, name="x" * 10_001), "concept_name", "longer"),
        ("CONCEPT", concept(7, vocabulary=""), "vocabulary_id", "empty vocabulary"),
        ("CONCEPT", concept(7, invalid="X"), "invalid_reason", "must be D, U or empty"),
        ("CONCEPT", concept(7, standard="N"), "standard_concept", "must be S, C"),
        ("CONCEPT", concept(7, dates=("1970-01-01", "20991231")), "valid_start_date", "not a date"),
        ("CONCEPT", concept(7, dates=("20200101", "20200230")), "valid_end_date", "not a date"),
        ("CONCEPT", concept(7, dates=("20200101", "20191231")), "valid_end_date", "lies before"),
        ("CONCEPT", concept(7, name="a\0b"), "", "NUL"),
        ("CONCEPT_SYNONYM", ["9", "x", "4180186"], "concept_id", "no concept has this id"),
        ("CONCEPT_SYNONYM", ["1", "", "4180186"], "concept_synonym_name", "empty synonym"),
        ("CONCEPT_SYNONYM", ["1", "x", "five"], "language_concept_id", "no language is known"),
        ("CONCEPT_RELATIONSHIP", related(1, 9), "concept_id_2", "no concept has this id"),
        ("CONCEPT_RELATIONSHIP", related("", 1), "concept_id_1", "no concept has this id"),
        ("CONCEPT_RELATIONSHIP", related(1, 2, ""), "relationship_id", "empty label"),
        ("CONCEPT_RELATIONSHIP", related(1, 2, invalid="?"), "invalid_reason", "must be D, U"),
        ("CONCEPT_RELATIONSHIP", related(1, 2, start="21000101"), "valid_end_date", "lies before"),
    ],
)
def test_bad_rows_are_set_aside_with_file_and_line(
    load: Load, tmp_path: Path, file: str, row: list[str], field: str, problem: str
) -> None:
    files: dict[str, list[list[str]]] = {"CONCEPT": [concept(1), concept(2, "Two", "c2")]}
    files.setdefault(file, []).append(row)
    folder = tmp_path / "download"
    folder.mkdir()
    terminology, [reject] = load(omop, write_download(folder, **files))
    assert reject[:3] == [str(folder / f"{file}.csv"), str(len(files[file]) + 1), field]
    assert problem in reject[4]
    assert terminology.concept_names.to_pylist() == ["One", "Two"]
    assert (terminology.n_terms, terminology.n_relations) == (2, 0)


def test_wrong_and_damaged_files_are_errors(tmp_path: Path, write: Write) -> None:
    whole = (DOWNLOAD / "CONCEPT.csv").read_bytes()
    for content, problem in (
        (gzip.compress(whole)[:-20], "cut short"),
        (b"", "empty"),
        (b"concept_id,concept_name\n1,x\n", "no column"),
        (whole.split(b"\r\n")[0], "no usable concept"),
    ):
        with pytest.raises(InputError, match=problem):
            omop.load([write("CONCEPT.csv", content)], omop.Options(), Rejects(None))
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


# --- random downloads ------------------------------------------------------------------------------------------------

WORDS = fuzz.words('a "quoted" one', "x | y", '"', "NULL", "ab cd")
LANGUAGES = st.sampled_from([4180186, 4182511, 4182948])


@st.composite
def downloads(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(st.integers(1, 2**40), min_size=1, max_size=10, unique=True))
    one = st.sampled_from(ids)
    return {
        "names": {of: draw(WORDS) for of in ids},
        "codes": {of: draw(st.sampled_from(["A1", "B 2", "C3", "D4", "E5"])) for of in ids},
        "retired": draw(st.sets(one, max_size=4)),
        "synonyms": draw(st.lists(st.tuples(one, WORDS, LANGUAGES), max_size=20)),
        "edges": draw(st.sets(st.tuples(one, st.sampled_from(["Is a", "Has part"]), one), max_size=15)),
        "maps": draw(st.sets(st.tuples(one, one), max_size=8)),
    }


def written(content: dict[str, Any], folder: Path) -> Path:
    edges = [(head, tail, label) for head, label, tail in sorted(content["edges"])]
    edges += [(head, tail, "Maps to") for head, tail in sorted(content["maps"])]
    return write_download(
        folder,
        CONCEPT=[
            concept(of, name, content["codes"][of], "D" if of in content["retired"] else "")
            for of, name in content["names"].items()
        ],
        CONCEPT_SYNONYM=[[str(of), string, str(language)] for of, string, language in content["synonyms"]],
        CONCEPT_RELATIONSHIP=[related(*edge) for edge in edges],
    )


def curie_of(content: dict[str, Any], of: int) -> str:
    code = content["codes"][of]
    same = [other for other in content["codes"] if content["codes"][other] == code]
    live = [other for other in same if other not in content["retired"]]
    mine = same == [of] or live == [of]
    return f"SNOMEDCT:{code}" if mine and " " not in code else f"OMOP:{of}"


@fuzz.examples(15)
@given(downloads(), st.sampled_from([64, 1000, 2**20]))
def test_a_random_download_is_read_as_written(content: dict[str, Any], block: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_release, "BLOCK_BYTES", block)
        terminology = fuzz.saved_and_opened(omop, written(content, Path(name)), omop.Options())
        curies = {of: curie_of(content, of) for of in content["names"]}
        assert terminology.concept_ids.to_pylist() == sorted(curies.values())
        labels = {"Is a": "is_a", "Has part": "has_part"}
        for of, own in content["names"].items():
            found = terminology.concept(f"OMOP:{of}")
            assert (found.id, found.name, found.retired) == (curies[of], own, of in content["retired"])
            synonyms = {(string, omop.LANGUAGES[code]) for head, string, code in content["synonyms"] if head == of}
            assert sorted((term.string, term.language) for term in found.terms) == sorted(synonyms | {(own, "en")})
            assert set(found.relations) == {
                (labels[label], curies[tail]) for head, label, tail in content["edges"] if head == of and tail != of
            }
            targets = {curies[tail] for head, tail in content["maps"] if head == of and tail != of}
            assert {target for _, target in found.xrefs} == targets
            assert set(found.replaced_by if len(targets) == 1 else found.consider) == (
                targets if of in content["retired"] else set()
            )


GOOD = {path.name: path.read_bytes() for path in sorted(DOWNLOAD.glob("*.csv"))}


@fuzz.examples(25)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_mutated_and_random_files_give_a_clear_error_or_a_terminology(which: str, data: st.DataObject) -> None:
    damaged = data.draw(fuzz.edited_or_random(GOOD[which]))
    fuzz.check_sound_or_refused(omop, {**GOOD, which: damaged}, omop.Options())
