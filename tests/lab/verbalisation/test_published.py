"""Texts of concepts as others publish them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from alphita.errors import InputError, Rejects
from alphita_lab.verbalisation.generation import read_generated
from tests.stanzas import Stanza, ontology

AGCT = (
    '"heart pain" refers to a bad feeling in the heart.\n'
    '"Liver Pain" refers to a bad feeling in the liver.\n'
    "\n"
    '"pain" refers to a bad feeling.\n'
    '"knee pain" refers to a bad feeling in the knee.\n'
    "no such line\n"
)
HEART = {"T:0000001": ["heart pain refers to a bad feeling in the heart."]}


@pytest.fixture
def terminology(tmp_path):
    """Two concepts are called pain, of none it is the preferred name; liver pain is the preferred one of one."""
    stanzas = [
        Stanza(1, ["heart pain", "pain"]),
        Stanza(2, ["liver pain", "pain"]),
        Stanza(3, ["hepatic ache", "liver pain"]),
    ]
    return ontology(tmp_path / "t.terminology", stanzas)


@pytest.mark.parametrize("form", ["train.txt", "0000.parquet"])
def test_agct_as_it_is_published(terminology, tmp_path, form) -> None:
    file = tmp_path / form
    if form.endswith(".txt"):
        file.write_text(AGCT)
    else:
        pl.DataFrame({"text": AGCT.splitlines()}).write_parquet(file)
    with Rejects(tmp_path / "rejects.csv") as rejects:
        found = read_generated(file, terminology, rejects)
    assert found == HEART | {"T:0000002": ["Liver Pain refers to a bad feeling in the liver."]}
    told = (tmp_path / "rejects.csv").read_text()
    assert "no concept alone has this name" in told
    assert "knee pain" in told
    assert "is not of the form" in told
    assert rejects.count == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.tsv", "heart pain\tA bad feeling.\nheart pain\tWhat hurts within.\nalone\n"),
        ("pairs.tsv", "anchor\tpositive\nheart pain\tA bad feeling.\nheart pain\tWhat hurts within.\nalone\n"),
        ("pairs.csv", 'id,definition,concept\n1,A bad feeling.,heart pain\n2,What hurts within.,heart pain\n"x"\n'),
    ],
)
def test_pairs_keep_every_text_of_a_concept(terminology, tmp_path, name, text) -> None:
    file = tmp_path / name
    file.write_text(text)
    with Rejects() as rejects:
        found = read_generated(file, terminology, rejects)
    assert found == {"T:0000001": ["A bad feeling.", "What hurts within."]}
    assert rejects.count == 1


def test_what_names_no_concept_says_what_is_wanted(terminology, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('"elbow" refers to a joint.\n')
    with pytest.raises(InputError, match=r"a\.txt: no text of it is of a concept.*a terminology with these names"):
        read_generated(tmp_path / "a.txt", terminology)
    (tmp_path / "b.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match=r"b\.parquet: cannot be read"):
        read_generated(tmp_path / "b.parquet", terminology)
