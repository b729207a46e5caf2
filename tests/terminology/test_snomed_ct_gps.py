from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import snomed_ct_gps
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
SET = FIXTURES / "snomed_ct_gps"
HEADER = "ConceptID\tActive\tFSN\tUSPreferredTerm"


@pytest.fixture
def whole(load: Load) -> Terminology:
    terminology, rejects = load(snomed_ct_gps, SET)
    assert rejects == []
    return terminology


def facts(terminology: Terminology) -> list[tuple[str, str, list[str], bool]]:
    concepts = (terminology.concept(row) for row in range(terminology.n_concepts))
    return [(one.id, one.name, one.semantic_types, one.retired) for one in concepts]


def test_names_tags_and_retired_concepts(whole: Terminology) -> None:
    assert facts(whole) == [
        ("SNOMEDCT:91001001", "Lantern", ["disorder"], False),
        ("SNOMEDCT:91003003", "Gray-blue lantern", ["disorder"], False),
        ("SNOMEDCT:91004004", "Flicker of lantern (glass)", ["finding"], False),
        ("SNOMEDCT:91005003", 'Lantern, "dim" kind', ["disorder"], True),
        ("SNOMEDCT:91006002", "Old lantern", [], True),
        ("SNOMEDCT:91007006", "Wick trim", ["regime/therapy"], False),
    ]
    assert [
        (term.string, term.language, term.preferred, term.term_type, term.source, term.code)
        for term in whole.concept("SNOMEDCT:91003003").terms
    ] == [
        ("Gray-blue lantern", "en", True, "SYN", "SNOMEDCT", "91003003"),
        ("Blue lantern", "en", False, "FSN", "SNOMEDCT", "91003003"),
    ]
    # A name without its tag that is the preferred term stands once.
    assert [term.string for term in whole.concept("SNOMEDCT:91001001").terms] == ["Lantern"]
    assert len(whole.triples) == 0
    assert [(source["name"], source["version"]) for source in whole.manifest["sources"]] == [
        ("SNOMED CT Global Patient Set", "20260101")
    ]
    assert whole.manifest["dropped"] == {"files that are not read": 1, "names without a tag: no semantic type": 1}


def test_retired_concepts_can_be_left_out(load: Load) -> None:
    terminology, _ = load(snomed_ct_gps, SET, inactive_concepts=False)
    assert terminology.n_concepts == 4
    assert terminology.manifest["dropped"]["inactive concepts"] == 2


def test_a_set_of_another_tool_ends_its_header_in_a_tab_and_its_lines_as_dos_does(load: Load, write: Write) -> None:
    lines = [f"{HEADER}\t", "91001001\t1\tLantern (disorder)\tLantern", "91003003\t1\tBlue (finding)\tBlue\t", ""]
    terminology, rejects = load(snomed_ct_gps, write("freeset.txt", "\r\n".join(lines)))
    assert rejects == []
    assert facts(terminology) == [
        ("SNOMEDCT:91001001", "Lantern", ["disorder"], False),
        ("SNOMEDCT:91003003", "Blue", ["finding"], False),
    ]


def test_bad_rows_are_told_and_the_rest_is_read(load: Load, write: Write) -> None:
    rows = [
        "91001001\t1\tLantern (disorder)\tLantern",
        "91001001\t1\tLantern (disorder)\tLantern",
        "LANTERN\t1\tLantern (disorder)\tLantern",
        "91003003\tyes\tBlue (finding)\tBlue",
        "91004004\t1\t \t",
        "91005003\t1\tToo few",
        f"91006002\t1\t{'x' * 10_001}\t",
    ]
    terminology, rejects = load(snomed_ct_gps, write("set.txt", "\n".join([HEADER, *rows])))
    assert terminology.n_concepts == 1
    assert sorted((row[1], row[2], row[4][:30]) for row in rejects) == [
        ("3", "ConceptID", "its id was defined before in t"),
        ("4", "ConceptID", "not an SCTID: 6 to 18 digits"),
        ("5", "Active", "must be 0 or 1"),
        ("6", "FSN", "neither a fully specified name"),
        ("7", "", "3 cells, but the header has 4"),
        ("8", "FSN", "longer than any term may be"),
    ]


def test_of_several_files_the_first_counts(load: Load, write: Write) -> None:
    one = write("a.txt", f"{HEADER}\n91001001\t1\tLantern (disorder)\tLantern\n")
    other = write("b.txt", f"{HEADER}\n91001001\t0\tLamp (finding)\tLamp\n91003003\t1\tBlue (finding)\tBlue\n")
    terminology, rejects = load(snomed_ct_gps, one, other)
    assert rejects == []
    assert [name for _, name, *_ in facts(terminology)] == ["Lantern", "Blue"]
    assert terminology.manifest["dropped"]["concepts that stand in an earlier file"] == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("id\tterm\n1\tfever\n", "no file here has the columns ConceptID, Active, FSN, USPreferredTerm"),
        (f"{HEADER}\n", "no concept in this file"),
        (f"{HEADER}\nx\t1\ta\tb\n", "no concept in this file"),
    ],
)
def test_what_is_no_set_is_refused(content: str, problem: str, write: Write) -> None:
    with pytest.raises(InputError, match=problem):
        snomed_ct_gps.load([write("x.txt", content)], snomed_ct_gps.Options(), Rejects(None))


NAMES = fuzz.words('"', "(a)", "a (b)", "\\", without="\t\r\n\ufeff")


@fuzz.examples(25)
@given(st.dictionaries(st.integers(100_000, 10**9).map(str), st.tuples(st.booleans(), NAMES, NAMES), min_size=1))
def test_what_is_written_is_read(rows: dict[str, tuple[bool, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"{code}\t{int(active)}\t{fsn} (disorder)\t{term}" for code, (active, fsn, term) in rows.items()]
        (folder / "set.txt").write_text("\n".join([HEADER, *lines, ""]), encoding="utf-8")
        terminology = fuzz.saved_and_opened(snomed_ct_gps, folder, snomed_ct_gps.Options())
        for code, (active, fsn, term) in rows.items():
            concept = terminology.concept(f"SNOMEDCT:{code}")
            assert (concept.name, concept.retired, concept.semantic_types) == (term, not active, ["disorder"])
            assert {found.string for found in concept.terms} == {term, fsn}


@fuzz.examples(60)
@given(fuzz.edited_or_random((SET / "SnomedINTL_GPSRelease_PRODUCTION_20260101T120000Z.txt").read_bytes()))
def test_a_damaged_file_is_read_or_refused(content: bytes) -> None:
    fuzz.check_sound_or_refused(snomed_ct_gps, {"set.txt": content}, snomed_ct_gps.Options())
