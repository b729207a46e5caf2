from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _tables, snomed_ct
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

RELEASE = FIXTURES / "snomed_ct"
INTERNATIONAL = RELEASE / "International"
LAMP, FLICKER, GREEN = "SNOMEDCT:91003003", "SNOMEDCT:91004004", "SNOMEDCT:91012002"

FSN, SYNONYM, DEFINITION = "900000000000003001", "900000000000013009", "900000000000550004"
PREFERRED, ACCEPTABLE = "900000000000548007", "900000000000549004"
INFERRED, IS_A, US = "900000000000011006", "116680003", "900000000000509007"
HEADERS = {
    "Concept": "id effectiveTime active moduleId definitionStatusId",
    "Description": "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId",
    "Relationship": "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId "
    "characteristicTypeId modifierId",
    "Association": "id effectiveTime active moduleId refsetId referencedComponentId targetComponentId",
    "Language": "id effectiveTime active moduleId refsetId referencedComponentId acceptabilityId",
}
NAMES = {
    "Association": "der2_cRefset_AssociationSnapshot_INT_20260101.txt",
    "Language": "der2_cRefset_LanguageSnapshot-en_INT_20260101.txt",
}


def write_release(folder: Path, **kinds: list[list[str]]) -> Path:
    for kind, rows in kinds.items():
        lines = [HEADERS[kind].replace(" ", "\t"), *("\t".join(row) for row in rows)]
        name = NAMES.get(kind, f"sct2_{kind}_Snapshot_INT_20260101.txt")
        (folder / name).write_bytes("\r\n".join([*lines, ""]).encode())
    return folder


def concept(identifier: str, active: str = "1", time: str = "20250101") -> list[str]:
    return [identifier, time, active, "900000000000207008", "900000000000074008"]


def description(identifier: str, of: str, term: str, kind: str = SYNONYM, language: str = "en") -> list[str]:
    return [identifier, "20250101", "1", "900000000000207008", of, language, kind, term, "900000000000448009"]


def relation(identifier: str, head: str, tail: str, kind: str = IS_A) -> list[str]:
    module = "900000000000207008"
    return [identifier, "20250101", "1", module, head, tail, "0", kind, INFERRED, "900000000000451002"]


@pytest.fixture
def whole(load: Load) -> Terminology:
    terminology, rejects = load(snomed_ct, RELEASE)
    assert rejects == []
    return terminology


def test_optional_files_may_be_missing(load: Load, tmp_path: Path) -> None:
    folder = write_release(
        tmp_path, Concept=[concept("910001001")], Description=[description("920001011", "910001001", "One")]
    )
    terminology, rejects = load(snomed_ct, folder)
    assert (rejects, terminology.concept("SNOMEDCT:910001001").name) == ([], "One")


@pytest.mark.parametrize(("active", "label"), [("0", "has_form"), ("1", "SNOMEDCT:910003005")])
def test_an_inactive_attribute_takes_no_name(load: Load, tmp_path: Path, active: str, label: str) -> None:
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
def test_files_are_told_by_their_names_whatever_the_edition_puts_in(
    load: Load, whole: Terminology, tmp_path: Path, summary: str, namespace: str
) -> None:
    folder = tmp_path / "edition"
    shutil.copytree(RELEASE, folder)
    for path in (folder / "Extension").rglob("*.txt"):
        path.rename(path.with_name(path.name.replace("Snapshot", summary).replace("_XX_", f"_{namespace}_")))
    terminology, rejects = load(snomed_ct, folder)
    assert rejects == []
    assert terminology.content_hash == whole.content_hash


def test_a_file_of_a_kind_that_is_read_is_named_where_it_is_left_out(load: Load, tmp_path: Path) -> None:
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
def test_a_missing_required_file_is_an_error(tmp_path: Path, missing: str) -> None:
    shutil.copytree(INTERNATIONAL / "Snapshot", tmp_path / "x")
    next((tmp_path / "x").rglob(f"sct2_{missing}_Snapshot*")).unlink()
    with pytest.raises(InputError, match=f"no {missing} snapshot"):
        snomed_ct.load([tmp_path / "x"], snomed_ct.Options(), Rejects(None))


# --- random releases -------------------------------------------------------------------------------------------------

WORDS = fuzz.words('a "quoted" one', "x | y", "{z}", "'", "# 1", "ab cd")
LANGUAGES = st.sampled_from(["en", "es", "sv"])


@st.composite
def releases(draw: st.DrawFn) -> dict[str, Any]:
    numbers = draw(st.lists(st.integers(1, 60), min_size=1, max_size=10, unique=True))
    ids = [f"91{number:04}001" for number in numbers]
    one = st.sampled_from(ids)
    return {
        "retired": draw(st.sets(one, max_size=3)),
        "names": {of: (draw(WORDS), draw(st.sampled_from(["finding", "body structure"]))) for of in ids},
        "synonyms": draw(st.lists(st.tuples(one, WORDS, LANGUAGES, st.booleans()), max_size=20)),
        "edges": draw(st.sets(st.tuples(one, st.sampled_from([IS_A, ids[0]]), one), max_size=15)),
    }


def written(content: dict[str, Any], folder: Path) -> Path:
    concepts = [concept(of, str(int(of not in content["retired"]))) for of in content["names"]]
    descriptions, language = [], []
    for number, (of, (name, tag)) in enumerate(content["names"].items()):
        descriptions.append(description(f"94{number:04}011", of, f"{name} ({tag})", FSN))
    for number, (of, term, code, preferred) in enumerate(content["synonyms"]):
        descriptions.append(description(f"95{number:04}011", of, term, language=code))
        acceptability = PREFERRED if preferred else ACCEPTABLE
        language.append([f"u{number}", "20250101", "1", "1", US, f"95{number:04}011", acceptability])
    edges = [relation(f"96{number:04}021", *edge[::2], edge[1]) for number, edge in enumerate(sorted(content["edges"]))]
    language.append(["other", "20250101", "1", "1", US, "999999011", PREFERRED])
    return write_release(folder, Concept=concepts, Description=descriptions, Relationship=edges, Language=language)


@fuzz.examples(15)
@given(releases(), st.sampled_from([64, 1000, 2**20]))
def test_a_random_release_is_read_as_written(content: dict[str, Any], block: int) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tables, "BLOCK_BYTES", block)
        options = snomed_ct.Options(dialect="en-us")
        terminology = fuzz.saved_and_opened(snomed_ct, written(content, Path(name)), options)
        assert terminology.concept_ids.to_pylist() == sorted(f"SNOMEDCT:{of}" for of in content["names"])
        for of, (own, tag) in content["names"].items():
            found = terminology.concept(f"SNOMEDCT:{of}")
            mine = [(term, code, preferred) for head, term, code, preferred in content["synonyms"] if head == of]
            wanted = {(own, "en"), *((term, code) for term, code, _ in mine)}
            assert sorted((term.string, term.language) for term in found.terms) == sorted(wanted)
            preferred = {(term, code) for term, code, is_preferred in mine if is_preferred}
            assert {(term.string, term.language) for term in found.terms if term.preferred} == preferred
            assert found.name == own or preferred
            assert (found.semantic_types, found.retired) == ([tag], of in content["retired"])
            label = {IS_A: "is_a"}
            assert set(found.relations) == {
                (label.get(kind, f"SNOMEDCT:{kind}"), f"SNOMEDCT:{tail}")
                for head, kind, tail in content["edges"]
                if head == of
            }
