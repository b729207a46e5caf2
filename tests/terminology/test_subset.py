"""`terminology subset`: by source, language, semantic type, descendants, list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import alphita
from alphita import registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import PACKAGE, table
from alphita.terminology.store import Terminology
from alphita.terminology.subset import SubsetChoice, read_list, subset
from tests.terminology.conftest import FIXTURES, cases, check_held, facts, manifest_facts, read_rejects
from tests.terminology.test_cli import run
from tests.terminology.test_properties import check_csr

TERMS = """id,term,language,source,semantic_type,definition,parent,retired,xref
A:1,All,en,,,,,,
A:2,Cold,en,,Disease,A cold.,A:1,,B:1
A:2,Raffreddore,it,,Disease,,A:1,,
A:2,Chill,en-GB,B,,,,,C:1
A:3,Head cold,en,,Disease,,A:2,,
A:4,Fever,en,,Sign,,A:1,,
A:5,Febbre,it,,Sign,,A:4,,
A:6,Gone,en,,,,,1,
B:9,Wart,en,,Disease,,A:3,,
"""


@pytest.fixture
def whole(tmp_path):
    (tmp_path / "t.csv").write_text(TERMS)
    tables = table.load([tmp_path / "t.csv"], table.Options(), Rejects(None, strict=True))
    store.save(tables, tmp_path / "t.terminology")
    return store.load_terminology(tmp_path / "t.terminology")


def part(whole: Terminology, **choice: object) -> Terminology:
    path = whole.path.with_name("part.terminology")
    store.save(subset(whole, SubsetChoice(**choice)), path, rejects=Rejects(None, strict=True), force=True)  # type: ignore[arg-type]
    found = store.load_terminology(path)
    check_csr(found)
    return found


def test_no_choice_keeps_everything(whole):
    found = part(whole)
    assert found.terms.equals(whole.terms)
    assert [found.concept(row) for row in range(7)] == [whole.concept(row) for row in range(7)]


CASES = cases("subsets.tsv")


@pytest.mark.parametrize(("case", "name", "choice"), CASES, ids=[row[0] for row in CASES])
def test_choices_keep_these_facts(whole, load, case, name, choice):
    if name:
        whole, _ = load(registry.load(PACKAGE, name), FIXTURES / name)
    found = part(whole, **json.loads(choice))
    check_held("subsets", case, [row[0] for row in CASES], [*facts(found), "", *manifest_facts(found)])


def test_wrong_choices(whole):
    cases = [
        ({"sources": ["C"]}, UsageError, "unknown source 'C'"),
        ({"languages": ["de"]}, UsageError, "unknown language 'de'"),
        ({"semantic_types": ["Sing"]}, UsageError, "did you mean 'Sign'"),
        ({"descendants_of": ["A:77"]}, InputError, "no concept has this id"),
        ({"semantic_types": ["Sign"], "listed": ["A:2"]}, UsageError, "nothing is left"),
    ]
    for choice, error, said in cases:
        with pytest.raises(error, match=said):
            subset(whole, SubsetChoice(**choice))  # type: ignore[arg-type]


def test_list_files(whole, tmp_path):
    file = tmp_path / "ids.csv"
    lines = ["id,name", "# a comment", 'A:2,"Cold, common"', "", '"A:4 # fever",x', "A:2 # too", "A:404", "no id"]
    file.write_text("\r\n".join([*lines, ""]))
    with Rejects(tmp_path / "r.csv") as rejects:
        assert read_list(file, whole, rejects) == ["A:2", "A:4"]
    told = {(row[1], row[3], row[4]) for row in read_rejects(tmp_path / "r.csv")}
    assert told == {("7", "A:404", "no concept has this id"), ("8", "no id", "not a CURIE")}


def test_command(whole, tmp_path):
    (tmp_path / "ids").write_text("A:2\nA:404\n")
    output = tmp_path / "new" / "p.terminology"
    said = run("subset", whole.path, "-o", output, "--list", tmp_path / "ids", "--language", "en", "--language", "it")
    assert f"{output}: 1 concepts, 3 terms, 0 relations" in said
    assert alphita.load_terminology(output).manifest["config"]["listed"] == 1
    assert Path(f"{output}.rejects.csv").exists()
    with pytest.raises(InputError, match="ids:2"):
        run("subset", whole.path, "-o", tmp_path / "x", "--list", tmp_path / "ids", "--strict")
    for arguments, words in (([], "say what to keep"), (["--source", "A", "-o", output], "already exists")):
        with pytest.raises(UsageError, match=words):
            run("subset", whole.path, "-o", tmp_path / "x", *arguments)
