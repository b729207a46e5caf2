from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import snomed_ct, snomed_ct_gps
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES

RELEASE = FIXTURES / "snomed_ct"
INTERNATIONAL = RELEASE / "International"
FSN, SYNONYM, IS_A = "900000000000003001", "900000000000013009", "116680003"
HEADERS = {
    "Concept": "id effectiveTime active moduleId definitionStatusId",
    "Description": "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId",
    "Relationship": "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId "
    "characteristicTypeId modifierId",
}


def write_release(folder: Path, **kinds: list[list[str]]) -> Path:
    for kind, rows in kinds.items():
        lines = [HEADERS[kind].replace(" ", "\t"), *("\t".join(row) for row in rows)]
        name = f"sct2_{kind}_Snapshot_INT_20260101.txt"
        (folder / name).write_bytes("\r\n".join([*lines, ""]).encode())
    return folder


def concept(identifier: str, active: str = "1") -> list[str]:
    return [identifier, "20250101", active, "1", "1"]


def description(identifier: str, of: str, term: str, kind: str = SYNONYM) -> list[str]:
    return [identifier, "20250101", "1", "1", of, "en", kind, term, "1"]


def relation(identifier: str, head: str, tail: str, kind: str = IS_A) -> list[str]:
    return [identifier, "20250101", "1", "1", head, tail, "0", kind, "900000000000011006", "900000000000451002"]


@pytest.fixture
def whole(load):
    terminology, rejects = load(snomed_ct, RELEASE)
    assert rejects == []
    return terminology


def test_optional_files_may_be_missing(load, tmp_path):
    folder = write_release(
        tmp_path, Concept=[concept("910001001")], Description=[description("920001011", "910001001", "One")]
    )
    terminology, rejects = load(snomed_ct, folder)
    assert (rejects, terminology.concept("SNOMEDCT:910001001").name) == ([], "One")


@pytest.mark.parametrize(("active", "label"), [("0", "has_form"), ("1", "SNOMEDCT:910003005")])
def test_an_inactive_attribute_takes_no_name(load, tmp_path, active, label):
    one, two, live, other = "910001001", "910002008", "910003005", "910004004"
    folder = write_release(
        tmp_path,
        Concept=[concept(one), concept(two), concept(live), concept(other, active)],
        Description=[
            description("920001011", one, "One (x)", FSN),
            description("920002010", two, "Two (x)", FSN),
            description("920003017", live, "Has form (attribute)", FSN),
            description("920004011", other, "has form (attribute)", FSN),
        ],
        Relationship=[relation("930001021", one, two, live)],
    )
    terminology, _ = load(snomed_ct, folder)
    assert terminology.concept(f"SNOMEDCT:{one}").relations == [(label, f"SNOMEDCT:{two}")]


@pytest.mark.parametrize(
    ("summary", "namespace"), [("UKCLSnapshot", "GB1000000"), ("SpanishExtensionSnapshot", "INT"), ("Snapshot", "XX")]
)
def test_files_are_told_by_their_names_whatever_the_edition_puts_in(load, whole, tmp_path, summary, namespace):
    folder = tmp_path / "edition"
    shutil.copytree(RELEASE, folder)
    for path in (folder / "Extension").rglob("*.txt"):
        path.rename(path.with_name(path.name.replace("Snapshot", summary).replace("_XX_", f"_{namespace}_")))
    terminology, rejects = load(snomed_ct, folder)
    assert rejects == []
    assert terminology.content_hash == whole.content_hash


def test_a_file_of_a_kind_that_is_read_is_named_where_it_is_left_out(load, tmp_path):
    shutil.copytree(RELEASE, tmp_path / "x")
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
    shutil.copytree(INTERNATIONAL / "Snapshot", tmp_path / "x")
    next((tmp_path / "x").rglob(f"sct2_{missing}_Snapshot*")).unlink()
    with pytest.raises(InputError, match=f"no {missing} snapshot"):
        snomed_ct.load([tmp_path / "x"], snomed_ct.Options(), Rejects(None))


# --- free sets --------------------------------------------------------------------------------------------------------

SET_HEADER = "ConceptID\tActive\tFSN\tUSPreferredTerm"


def names(terminology: Terminology) -> list[tuple[str, str, list[str], bool]]:
    concepts = (terminology.concept(row) for row in range(terminology.n_concepts))
    return [(concept.id, concept.name, concept.semantic_types, concept.retired) for concept in concepts]


def test_a_set_of_another_tool_ends_its_header_in_a_tab_and_its_lines_as_dos_does(load, write):
    lines = [f"{SET_HEADER}\t", "91001001\t1\tLantern (disorder)\tLantern", "91003003\t1\tBlue (finding)\tBlue\t", ""]
    terminology, rejects = load(snomed_ct_gps, write("freeset.txt", "\r\n".join(lines)))
    assert rejects == []
    assert names(terminology) == [
        ("SNOMEDCT:91001001", "Lantern", ["disorder"], False),
        ("SNOMEDCT:91003003", "Blue", ["finding"], False),
    ]


def test_of_several_files_the_first_counts(load, write):
    one = write("a.txt", f"{SET_HEADER}\n91001001\t1\tLantern (disorder)\tLantern\n")
    other = write("b.txt", f"{SET_HEADER}\n91001001\t0\tLamp (finding)\tLamp\n91003003\t1\tBlue (finding)\tBlue\n")
    terminology, rejects = load(snomed_ct_gps, one, other)
    assert rejects == []
    assert [name for _, name, *_ in names(terminology)] == ["Lantern", "Blue"]
    assert terminology.manifest["dropped"]["concepts that stand in an earlier file"] == 1
