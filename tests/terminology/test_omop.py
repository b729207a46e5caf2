from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _tables, omop
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load, Write

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


def test_a_language_can_be_named(load: Load, tmp_path: Path) -> None:
    synonyms = [["1", "Uno", "77"], ["1", "Yksi", "78"]]
    folder = write_download(tmp_path, CONCEPT=[concept(1)], CONCEPT_SYNONYM=synonyms)
    terminology, [reject] = load(omop, folder, languages="77=es-MX")
    assert terminology.concept("OMOP:1").terms[1].language == "es-MX"
    assert reject[1:4] == ["3", "language_concept_id", "78"]


def test_without_relationship_csv_the_known_inverses_are_left_out(load: Load, tmp_path: Path) -> None:
    shutil.copytree(DOWNLOAD, tmp_path / "x")
    (tmp_path / "x" / "RELATIONSHIP.csv").unlink()
    terminology, _ = load(omop, tmp_path / "x")
    assert sorted(terminology.relation_labels) == ["agent_of", "has_agent", "is_a", "rxnorm_has_ing", "rxnorm_ing_of"]


def test_wrong_and_damaged_files_are_errors(tmp_path: Path, write: Write) -> None:
    whole = (DOWNLOAD / "CONCEPT.csv").read_bytes()
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
        patch.setattr(_tables, "BLOCK_BYTES", block)
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
