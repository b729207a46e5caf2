from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from alphita.terminology.loaders import snomed_ct_gps
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import Load, Write

HEADER = "ConceptID\tActive\tFSN\tUSPreferredTerm"


def facts(terminology: Terminology) -> list[tuple[str, str, list[str], bool]]:
    concepts = (terminology.concept(row) for row in range(terminology.n_concepts))
    return [(one.id, one.name, one.semantic_types, one.retired) for one in concepts]


def test_a_set_of_another_tool_ends_its_header_in_a_tab_and_its_lines_as_dos_does(load: Load, write: Write) -> None:
    lines = [f"{HEADER}\t", "91001001\t1\tLantern (disorder)\tLantern", "91003003\t1\tBlue (finding)\tBlue\t", ""]
    terminology, rejects = load(snomed_ct_gps, write("freeset.txt", "\r\n".join(lines)))
    assert rejects == []
    assert facts(terminology) == [
        ("SNOMEDCT:91001001", "Lantern", ["disorder"], False),
        ("SNOMEDCT:91003003", "Blue", ["finding"], False),
    ]


def test_of_several_files_the_first_counts(load: Load, write: Write) -> None:
    one = write("a.txt", f"{HEADER}\n91001001\t1\tLantern (disorder)\tLantern\n")
    other = write("b.txt", f"{HEADER}\n91001001\t0\tLamp (finding)\tLamp\n91003003\t1\tBlue (finding)\tBlue\n")
    terminology, rejects = load(snomed_ct_gps, one, other)
    assert rejects == []
    assert [name for _, name, *_ in facts(terminology)] == ["Lantern", "Blue"]
    assert terminology.manifest["dropped"]["concepts that stand in an earlier file"] == 1


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
