"""Annotations of diseases added to a terminology with HPO."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import hpoa
from alphita.terminology.loaders.hpoa import frequency_class
from alphita.terminology.store import load_terminology
from tests.terminology.conftest import FIXTURES, Load, Write

FOLDER = FIXTURES / "hpoa"
GOOD, OLD = FOLDER / "phenotype.hpoa", FOLDER / "old.hpoa"
HEAD = (
    "database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\t"
    "biocuration\n"
)


def test_optional_columns_may_be_missing(load: Load, bases: dict[str, Path], write: Write) -> None:
    path = write("x.hpoa", "database_id\tdisease_name\thpo_id\nOMIM:1\tOne\tHP:9000001\n")
    terminology, rejects = load(hpoa, path, onto=str(bases["hpoa"]))
    assert rejects == []
    assert terminology.concept("OMIM:1").relations == [("has_phenotype", "HP:9000001")]


FREQUENCY_WORDS = """
very_frequent HP:0040281 4/5 | obligate 1/1 | frequent 79/100 30% | occasional 29.9% 5% | very_rare 1/21
excluded 0% 0/7 HP:0040285 | unreadable 7/5 0/0 101% often -1% HP:0000001
"""


@pytest.mark.parametrize("words", re.split(r"[|\n]", FREQUENCY_WORDS.strip()))
def test_frequencies(words: str) -> None:
    word, *written = words.split()
    assert {frequency_class(one) or "unreadable" for one in written} == {word}
    assert frequency_class("5 %") == "occasional"


def row(**cells: str) -> str:
    given = {"database_id": "OMIM:1", "disease_name": "One", "hpo_id": "HP:9000001", "aspect": "P"} | cells
    return "\t".join(given.get(name, "") for name in HEAD.strip().split("\t"))


# --- properties ------------------------------------------------------------------------------------------------------

DISEASES = st.sampled_from(["OMIM:1", "OMIM:2", "DECIPHER:3", "ORPHA:90001"])
PHENOTYPES = st.sampled_from(["HP:9000001", "HP:9000002", "HP:0000118"])
FREQUENCIES = st.sampled_from(["", "1/2", "99%", "HP:0040284", "0/3"])
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=6)
ANNOTATIONS = st.tuples(
    DISEASES, NAMES.filter(lambda name: '"' not in name), PHENOTYPES, FREQUENCIES, st.sampled_from(["", "NOT"])
)
CHECKS = [HealthCheck.function_scoped_fixture]


@settings(max_examples=25, deadline=None, suppress_health_check=CHECKS)
@given(st.lists(ANNOTATIONS, max_size=12))
def test_written_and_loaded_it_is_the_same(
    bases: dict[str, Path], annotations: list[tuple[str, str, str, str, str]]
) -> None:
    lines = [
        row(database_id=disease, disease_name=name, hpo_id=term, frequency=frequency, qualifier=qualifier)
        for disease, name, term, frequency, qualifier in annotations
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.hpoa"
        path.write_text(HEAD + "".join(line + "\n" for line in lines), encoding="utf-8")
        tables = hpoa.load([path], hpoa.Options(onto=str(bases["hpoa"]), negated=True), Rejects(None, strict=True))
        store.save(tables, Path(folder) / "t.terminology", rejects=Rejects(None, strict=True))
        terminology = load_terminology(Path(folder) / "t.terminology")
        found = {
            disease: (
                {term.string for term in terminology.concept(disease).terms},
                {tail for label, tail in terminology.concept(disease).relations if label == "has_phenotype"},
                {tail for label, tail in terminology.concept(disease).relations if label == "lacks_phenotype"},
            )
            for disease in [*{annotation[0] for annotation in annotations}, "ORPHA:90001"]
        }
    wanted: dict[str, tuple[set[str], set[str], set[str]]] = {
        "ORPHA:90001": ({"Sock disease", "Disease of socks"}, set(), set())
    }
    for disease, name, term, frequency, qualifier in annotations:
        names, has, lacks = wanted.setdefault(disease, (set(), set(), set()))
        names.add(name)
        (lacks if qualifier or frequency == "0/3" else has).add(term)
    assert found == wanted
