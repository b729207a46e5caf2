"""`terminology subset`: by source, language, semantic type, descendants, list."""

from __future__ import annotations

from pathlib import Path

import pytest

import alphita
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import omop, table, umls
from alphita.terminology.store import Terminology
from alphita.terminology.subset import SubsetChoice, read_list, subset
from tests.terminology.conftest import FIXTURES, read_rejects
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


@pytest.mark.parametrize(
    ("choice", "concepts"),
    [
        ({"descendants_of": ["A:2"]}, "A:2 A:3 B:9"),
        ({"descendants_of": ["A:3", "A:4"]}, "A:3 A:4 A:5 B:9"),
        ({"semantic_types": ["Sign"]}, "A:4 A:5"),
        ({"semantic_types": ["Sign", "Disease"], "languages": ["it"]}, "A:2 A:5"),
        ({"listed": ["A:6", "A:4"]}, "A:4 A:6"),
        ({"retired": False}, "A:1 A:2 A:3 A:4 A:5 B:9"),
        ({"languages": ["en"], "descendants_of": ["A:1"]}, "A:1 A:2 A:3 A:4 B:9"),
        ({"languages": ["en-GB"]}, "A:2"),
        ({"sources": ["B"]}, "A:2 B:9"),
    ],
)
def test_choices(whole, choice, concepts):
    assert part(whole, **choice).concept_ids.to_pylist() == concepts.split()


def test_only_the_facts_of_the_sources_remain(whole):
    found = part(whole, sources=["B"]).concept("A:2")
    assert [term.string for term in found.terms] == ["Chill"]
    assert (found.xrefs, found.definitions, found.parents) == ([("oboInOwl:hasDbXref", "C:1")], [], [])


def test_the_part_of_a_source_keeps_what_its_distributor_says_of_it(load):
    whole, _ = load(omop, FIXTURES / "omop")
    found = part(whole, sources=["SNOMEDCT"])
    assert {term["source"] for term in found.terms.select(["source"]).to_pylist()} == {"SNOMEDCT"}
    ids = set(found.concept_ids.to_pylist())
    assert ids == {concept for concept in whole.concept_ids.to_pylist() if concept.startswith("SNOMEDCT:")}
    for identifier in ids:
        before, after = whole.concept(identifier), found.concept(identifier)
        assert set(after.relations) == {edge for edge in before.relations if edge[1] in ids}
        for name in ("alt_ids", "semantic_types", "replaced_by", "consider", "xrefs", "properties"):
            assert getattr(after, name) == getattr(before, name), name
    assert found.resolve("OMOP:101") == found.resolve("SNOMEDCT:91003003")
    assert found.n_relations > 0
    assert any(found.concept(identifier).replaced_by for identifier in ids)


def test_the_part_of_a_source_of_umls_keeps_its_semantic_types(load):
    whole, _ = load(umls, FIXTURES / "umls")
    found = part(whole, sources=["SNOMEDCT_US"])
    assert 0 < found.n_concepts < whole.n_concepts
    for identifier in found.concept_ids.to_pylist():
        assert found.concept(identifier).semantic_types == whole.concept(identifier).semantic_types != []
        stated = {definition.source for definition in found.concept(identifier).definitions}
        assert stated <= {"SNOMEDCT"}, "MeSH's, too, are in UMLS"


def test_a_language_takes_its_variants_and_its_definitions(whole):
    assert [term.string for term in part(whole, languages=["en"]).concept("A:2").terms] == ["Cold", "Chill"]
    found = part(whole, languages=["it"])
    assert [term.string for term in found.concept("A:2").terms] == ["Raffreddore"]
    assert found.concept("A:2").definitions == []
    assert found.manifest["dropped"] == {
        "concepts not chosen": 5,
        "definitions of other languages": 1,
        "relations to concepts not chosen": 2,
        "terms of other languages": 7,
    }


def test_relations_that_lead_out_are_counted(whole):
    found = part(whole, listed=["A:3", "A:2"])
    assert found.concept("A:3").parents == ["A:2"]
    assert found.manifest["dropped"]["relations to concepts not chosen"] == 1


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
