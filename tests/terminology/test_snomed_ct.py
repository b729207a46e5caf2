from __future__ import annotations

import gzip
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
from alphita.terminology.loaders import _release, snomed_ct
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
RELEASE = FIXTURES / "snomed_ct"
INTERNATIONAL = RELEASE / "International"
TERMINOLOGY = "Snapshot/Terminology/sct2_"
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


def rows_of(pattern: str, folder: Path = RELEASE) -> list[dict[str, str]]:
    """Read the fixture's files plainly, to count by."""
    found = []
    for path in sorted(folder.rglob(pattern)):
        header, *lines = path.read_bytes().decode().replace("\r\n", "\n").rstrip("\n").split("\n")
        found += [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    return found


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


def test_names_synonyms_and_tags(whole: Terminology) -> None:
    lamp = whole.concept(LAMP)
    assert lamp.name == "Blue lantern"
    assert lamp.semantic_types == ["disorder"]
    assert not any(term.preferred for term in lamp.terms)
    assert [(term.string, term.language, term.term_type) for term in lamp.terms] == [
        ("Blue lantern", "en", "SYN"),
        ("linterna azul", "es", "SYN"),
        ("Azure lantern", "en", "SYN"),
        ('Blue lantern | "dim" kind', "en", "SYN"),
        ("Grey-blue lantern", "en", "SYN"),
        ("Gray-blue lantern", "en", "SYN"),
    ]
    assert {(term.source, term.code) for term in lamp.terms} == {("SNOMEDCT", "91003003")}
    flicker = whole.concept(FLICKER)
    assert (flicker.name, flicker.terms[0].term_type) == ("Flicker of lantern (glass)", "FSN")
    assert whole.concept("SNOMEDCT:91011001").semantic_types == []
    assert [(found.text, found.language) for found in lamp.definitions] == [
        ('A lantern, "blue" to most eyes, that | glows.', "en")
    ]


def test_a_dialect_says_which_terms_are_preferred(load: Load) -> None:
    names = {}
    for dialect in ("en-US", "en-GB", "es", "en_gb, es", US):
        terminology, _ = load(snomed_ct, RELEASE, dialect=dialect)
        names[dialect] = [terminology.concept(LAMP).name, terminology.concept(GREEN).name]
    assert names == {
        "en-US": ["Gray-blue lantern", "Green lantern"],
        "en-GB": ["Grey-blue lantern", "Green lantern"],
        "es": ["linterna azul", "linterna verde"],
        "en_gb, es": ["Grey-blue lantern", "linterna verde"],
        US: ["Gray-blue lantern", "Green lantern"],
    }
    assert [term.string for term in load(snomed_ct, RELEASE, dialect="en-gb,es")[0].concept(LAMP).terms[:2]] == [
        "Grey-blue lantern",
        "linterna azul",
    ]


@pytest.mark.parametrize("dialect", ["fr", "en-XX", "12"])
def test_a_dialect_that_is_not_there_is_wrong_use(dialect: str) -> None:
    with pytest.raises(UsageError, match=r"en-gb"):
        snomed_ct.load([RELEASE], snomed_ct.Options(dialect=dialect), Rejects(None))


def test_relations_values_and_labels(whole: Terminology) -> None:
    assert sorted(whole.concept(LAMP).relations) == [
        ("is_a", "SNOMEDCT:91002002"),
        ("lantern_colour", "SNOMEDCT:91011001"),  # another attribute of that name is inactive, and shown by its id
        ("lantern_site", FLICKER),
        ("lantern_site", "SNOMEDCT:91011001"),
    ]
    assert whole.concept(LAMP).properties == [("lantern_strength", "2.5"), ("SNOMEDCT:91009009", "deep blue")]
    root = whole.resolve("SNOMEDCT:91001001")
    assert root not in whole.ancestors(root)  # the fixture has a cycle in is-a
    assert whole.resolve(LAMP) in whole.ancestors(root)


def test_only_a_single_same_as_or_replaced_by_is_followed(whole: Terminology) -> None:
    found = {name: whole.concept(f"SNOMEDCT:{name}") for name in ("91005005", "91006006", "91007007")}
    assert all(concept.retired for concept in found.values())
    assert [(concept.replaced_by, concept.consider) for concept in found.values()] == [
        ([LAMP], ["SNOMEDCT:91002002"]),
        ([], [LAMP, FLICKER]),
        ([], [LAMP]),
    ]
    assert ("SNOMEDCT:900000000000523009", LAMP) in found["91007007"].xrefs
    assert whole.concept(LAMP).xrefs == [("SNOMEDCT:900000000000529008", FLICKER)]


def test_counts_agree_with_the_files(whole: Terminology) -> None:
    concepts = {row["id"] for row in rows_of("sct2_Concept_Snapshot*")}
    assert whole.manifest["counts"]["concepts"] == len(concepts)
    active = [row for row in rows_of("sct2_Description_Snapshot*") if row["active"] == "1"]
    names = [
        (row["conceptId"], row["languageCode"], row["term"].rpartition(" (")[0])
        if row["typeId"] == FSN and row["term"].endswith(")")
        else (row["conceptId"], row["languageCode"], row["term"])
        for row in active
    ]
    assert whole.n_terms == len(set(names))
    dropped = whole.manifest["dropped"]
    assert (
        dropped["strings equal to another of the concept (a name without its tag, say)"] == len(names) - whole.n_terms
    )
    kept = [row for row in rows_of("sct2_Relationship_Snapshot*") if row["active"] == "1"]
    stated = [row for row in kept if row["characteristicTypeId"] == "900000000000010007"]
    assert whole.n_relations == len(kept) - len(stated)
    assert dropped["stated relationships"] == len(stated) == 1
    assert dropped["files of the release that are not read"] == 2
    assert {(source["version"], source["name"]) for source in whole.manifest["sources"]} == {
        ("20260101", "SNOMED CT"),
        ("20260301", "SNOMED CT"),
    }


def test_an_extension_may_change_international_concepts(load: Load, whole: Terminology) -> None:
    assert whole.concept("SNOMEDCT:91009009").retired
    assert whole.manifest["dropped"]["Concept: other versions of a component in another file"] == 2
    alone, rejects = load(snomed_ct, INTERNATIONAL)
    assert rejects == []
    assert not alone.concept("SNOMEDCT:91009009").retired
    assert alone.concept(LAMP).properties == [("lantern_strength", "2.5"), ("SNOMEDCT:91009009", "deep blue")]


def test_languages_and_retired_concepts_can_be_left_out(load: Load) -> None:
    terminology, rejects = load(snomed_ct, RELEASE, languages="es", inactive_concepts=False)
    assert rejects == []
    assert set(terminology.terms["language"].to_pylist()) == {"es"}
    assert not terminology.retired.any()
    assert terminology.concept(GREEN).semantic_types == ["disorder"]
    assert "lantern_site" in terminology.relation_labels
    assert terminology.manifest["dropped"]["Association of inactive concepts"] == 5
    with pytest.raises(UsageError, match="'spanish' is not a language"):
        snomed_ct.load([RELEASE], snomed_ct.Options(languages="spanish"), Rejects(None))


def test_zip_gzip_and_single_files_give_the_same(load: Load, whole: Terminology, tmp_path: Path) -> None:
    files = sorted(RELEASE.rglob("*.txt"))
    with zipfile.ZipFile(tmp_path / "release.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, f"Release/{path.relative_to(RELEASE)}")
    zipped = tmp_path / "gz"
    for path in files:
        copy = zipped / f"{path.relative_to(RELEASE)}.gz"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(gzip.compress(path.read_bytes()))
    for paths in ([tmp_path / "release.zip"], [zipped], files):
        terminology, rejects = load(snomed_ct, *paths)
        assert rejects == []
        assert terminology.manifest["counts"] == whole.manifest["counts"]
        assert terminology.concept(LAMP) == whole.concept(LAMP)


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


def test_wrong_and_damaged_files_are_errors(tmp_path: Path, write: Write) -> None:
    good = next(INTERNATIONAL.rglob("sct2_Description_Snapshot*"))
    for content, problem in (
        (gzip.compress(good.read_bytes())[:-20], "cut short"),
        (b"", "empty"),
        (b"a,b\n1,2\n", "no column 'id'"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"\xe9\t\xe9\n", "not UTF-8"),
    ):
        folder = tmp_path / "release"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(INTERNATIONAL, folder)
        next(folder.rglob("sct2_Description_Snapshot*")).write_bytes(content)
        with pytest.raises(InputError, match=problem):
            snomed_ct.load([folder], snomed_ct.Options(), Rejects(None))
    for path in (write("cut.zip", b"PK\x03\x04 and no more"), tmp_path / "nothing"):
        with pytest.raises(InputError):
            snomed_ct.load([path], snomed_ct.Options(), Rejects(None))


@pytest.mark.parametrize(
    ("kind", "row", "field", "problem"),
    [
        ("Concept", ["910002002", "20250101", "1"], "", "3 cells, but the header has 5"),
        ("Concept", concept("910001001"), "id", "defined before"),
        ("Concept", concept("12"), "id", "not an SCTID"),
        ("Concept", concept("٩١٠٠٠٢٠٠٢"), "id", "not an SCTID"),
        ("Concept", concept("910002002", time="٢٠٢٥٠١٠١"), "effectiveTime", "not a date"),
        ("Concept", concept("910002002", "yes"), "active", "must be 0 or 1"),
        ("Concept", concept("910002002", time="20251301"), "effectiveTime", "not a date"),
        ("Description", description("920002022", "910009009", "x"), "conceptId", "no concept has this id"),
        ("Description", description("920002022", "910001001", " "), "term", "empty"),
        ("Description", description("920002022", "910001001", "x" * 10_001), "term", "longer"),
        ("Description", description("920002022", "910001001", "x", language="xx"), "languageCode", "unknown language"),
        ("Description", description("920002022", "910001001", "x", kind="1"), "typeId", "neither a name"),
        ("Description", description("920002022", "910001001", "\0"), "", "NUL"),
        ("Description", description("920001011", "910001001", "again"), "id", "defined before"),
        ("Relationship", relation("930001021", "910001001", "910009009"), "destinationId", "no concept"),
        ("Relationship", relation("930001021", "HELLO", "910001001"), "sourceId", "no concept"),
        ("Association", ["u", "20250101", "1", "1", "1", "910001001", "910009009"], "targetComponentId", "no concept"),
        ("Association", ["u", "20250101", "1", "1", "1", "?", "910001001"], "referencedComponentId", "not an SCTID"),
    ],
)
def test_bad_rows_are_set_aside_with_file_and_line(
    load: Load, tmp_path: Path, kind: str, row: list[str], field: str, problem: str
) -> None:
    kinds: dict[str, list[list[str]]] = {
        "Concept": [concept("910001001")],
        "Description": [description("920001011", "910001001", "One")],
    }
    kinds.setdefault(kind, []).append(row)
    folder = tmp_path / "release"
    folder.mkdir()
    terminology, [reject] = load(snomed_ct, write_release(folder, **kinds))
    assert Path(reject[0]).parent == folder
    assert kind in Path(reject[0]).name
    assert int(reject[1]) == len(kinds[kind]) + 1
    assert reject[2] == field
    assert problem in reject[4]
    assert terminology.concept_names.to_pylist() == ["One"]


def test_bytes_that_are_not_utf8_are_refused_line_by_line(load: Load, tmp_path: Path) -> None:
    rows = [description(f"92000{number}011", "910001001", f"Term {number}") for number in range(1, 5)]
    folder = write_release(tmp_path, Concept=[concept("910001001")], Description=rows)
    path = folder / "sct2_Description_Snapshot_INT_20260101.txt"
    path.write_bytes(path.read_bytes().replace(b"Term 3", b"Term \xe9"))
    terminology, [reject] = load(snomed_ct, folder)
    assert (reject[1], reject[4]) == ("4", "not UTF-8: byte 0xe9")
    assert terminology.n_terms == 3


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
        patch.setattr(_release, "BLOCK_BYTES", block)
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


GOOD = {path.name: path.read_bytes() for path in sorted(INTERNATIONAL.rglob("*Snapshot*.txt")) if path.is_file()}


@fuzz.examples(25)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_mutated_and_random_files_give_a_clear_error_or_a_terminology(which: str, data: st.DataObject) -> None:
    damaged = data.draw(fuzz.edited_or_random(GOOD[which]))
    fuzz.check_sound_or_refused(snomed_ct, {**GOOD, which: damaged}, snomed_ct.Options(dialect="en-gb"))
