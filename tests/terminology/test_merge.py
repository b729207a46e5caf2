"""`terminology merge`: hand-made ontologies, random ones, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import alphita
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import merge as merging
from alphita.terminology import store
from alphita.terminology.loaders import snomed_ct, table
from alphita.terminology.merge import Merged, Options
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES
from tests.terminology.test_cli import run

AA, BB = ((FIXTURES / "merge" / f"{name}.obo").read_text() for name in ("aa", "bb"))


@pytest.fixture
def both(build):
    return [build("aa", AA), build("bb", BB)]


def saved(merged: Merged, path: Path) -> Terminology:
    rejects = Rejects(None, strict=True)
    store.save(merged.tables, path, rejects=rejects)
    return store.load_terminology(path)


def mappings(path: Path, *rows: str) -> Path:
    lines = ["# mapping_set_id: https://example.org/own.sssom.tsv", "subject_id\tpredicate_id\tobject_id"]
    path.write_text("\n".join([*lines, *("\t".join(row.split()) for row in rows)]) + "\n")
    return path


def test_a_merged_concept_has_the_first_id_and_all_facts_with_their_source(both, tmp_path):
    found = saved(merging.merge(both), tmp_path / "m.terminology")
    cold = found.concept("BB:1")
    assert (cold.id, cold.name, cold.source) == ("AA:1", "Common cold", "AA")
    assert [(term.string, term.source, term.preferred) for term in cold.terms] == [
        ("Common cold", "AA", True),
        ("Head cold", "AA", False),
        ("common cold", "BB", False),
        ("Coryza", "BB", False),
    ]
    assert {term.code for term in cold.terms} == {"1"}
    assert cold.alt_ids == ["AA:91", "BB:1"]
    assert [definition.source for definition in cold.definitions] == ["AA"]
    assert cold.properties == [("subset", "everyday")]
    assert found.resolve("AA:91") == found.resolve("AA:1") == found.resolve("BB:1")
    assert found.concept("BB:2").id == "AA:2"
    assert found.concept("AA:2").parents == ["AA:1", "BB:5"]
    sources, names = found.triple_sources
    assert sorted(names[source] for source in sources) == ["AA", "AA", "AA", "AA", "BB", "BB"]
    assert [source["version"] for source in found.manifest["sources"]] == ["a/1", "b/1"]


def test_the_name_is_that_of_the_first_member_even_if_none_of_its_terms_is_preferred(tmp_path):
    rejects = Rejects(None, strict=True)
    store.save(snomed_ct.load([FIXTURES / "snomed_ct"], snomed_ct.Options(), rejects), tmp_path / "s.terminology")
    (tmp_path / "z.csv").write_text(
        "id,term,language,preferred,xref\nZZ:1,Lamp,en,1,SNOMEDCT:91003003\nZZ:1,Leuchte,de,1,\n"
    )
    store.save(table.load([tmp_path / "z.csv"], table.Options(), rejects), tmp_path / "z.terminology")
    opened = [store.load_terminology(tmp_path / f"{name}.terminology") for name in ("s", "z")]
    assert [term.preferred for term in opened[1].concept("ZZ:1").terms] == [True, True]
    found = saved(merging.merge(opened, options=Options(agreement=0)), tmp_path / "m.terminology")
    lamp = found.concept("ZZ:1")
    assert (lamp.id, lamp.name) == ("SNOMEDCT:91003003", "Blue lantern")
    assert [term.string for term in lamp.terms if term.preferred] == ["Blue lantern", "Leuchte"]
    assert {term.string for term in lamp.terms} >= {"Lamp", "linterna azul"}
    assert not any(term.preferred for term in found.concept("SNOMEDCT:91004004").terms), "not merged, not changed"


def test_statements_to_ids_that_no_one_knows_are_counted(build):
    ontology = "format-version: 1.2\nontology: mm\n\n[Term]\nid: MM:1\nname: Sick\n"
    uris = ("http://example.org/1", "http://identifiers.org/mesh/D1", "http://purl.obolibrary.org/obo/BB_3")
    said = "".join(f"property_value: skos:exactMatch {uri}\n" for uri in uris)
    merged = merging.merge([build("mm", ontology + said), build("bb", BB)])
    assert [row["second"] for row in merged.joined] == ["BB:3"]
    assert merged.counts["statements by policy"]["skos:exactMatch: join"] == 3
    told = "statements to ids of unknown prefixes: followed only where two concepts share one"
    assert merged.counts["left out"][told] == 2, "http://example.org/1, and AA:4 that BB:2 refers to"


def test_what_was_refused_is_listed_with_its_chain(both):
    merged = merging.merge(both, options=Options(over="join"))
    told = [(row["kind"], row["concept"], row["other"], row["chain"]) for row in merged.conflicts]
    label = "[oboInOwl:hasDbXref, {}]"
    a, b = label.format("AA"), label.format("BB")
    assert told == [
        ("contested", "BB:3", "BB:4", f"BB:3 <-{a}- AA:3 -{a}-> BB:4"),
        ("contested", "BB:4", "BB:3", f"BB:4 <-{a}- AA:3 -{a}-> BB:3"),
        ("taken", "BB:2", "BB:5", f"BB:2 -{b}-> AA:4 (that is AA:2) -{a}-> UMLS:C0000002 <-{b}- BB:5"),
    ]
    assert merged.conflicts[2]["other_name"] == "Respiratory disease"
    assert merged.counts["refused"] == {"contested": 2, "taken": 1}
    assert merged.counts["merged concepts by their sources"] == {"AA + BB": 2}
    assert merged.counts["concepts"] == {"read": 11, "distinct ids": 11, "after the merge": 9, "made of several": 2}


def test_what_was_joined_is_listed_with_its_evidence(both):
    rows = merging.merge(both).joined
    assert [(row["id"], row["second"], row["names_agree"]) for row in rows] == [
        ("AA:2", "BB:2", "a synonym"),
        ("AA:1", "BB:1", "preferred"),
    ]
    assert "AA:1 -[oboInOwl:hasDbXref, AA]-> UMLS:C0000001 <-" in rows[1]["evidence"]


def test_policies(both, tmp_path):
    cases = {
        (): {"AA:1": "BB:1", "AA:2": "BB:2"},
        ("via=",): {"AA:2": "BB:2"},
        ("via=ICD10CM",): {"AA:1": "BB:1", "AA:2": "BB:2"},
        ("via=ICD10CM", "classification=ignore"): {"AA:2": "BB:2"},
        ("via=ICD10CM", "classifications="): {"AA:1": "BB:1", "AA:2": "BB:2"},
        ("xref=ignore",): {},
        ("xref=relate", "close=join"): {"AA:2": "BB:6"},
        ("close=names",): {"AA:1": "BB:1", "AA:2": "BB:2"},
        ("over=ignore",): {"AA:2": "BB:2"},
    }
    for number, (sets, wanted) in enumerate(cases.items()):
        options = alphita.config.resolve(Options, sets=sets)
        merged = merging.merge(both, options=options)
        assert {row["first"]: row["second"] for row in merged.joined} == wanted, sets
        saved(merged, tmp_path / f"{number}.terminology")


def test_mappings_that_do_not_join_become_relations(both, tmp_path):
    found = saved(merging.merge(both, options=Options(xref="relate")), tmp_path / "m.terminology")
    assert ("broad_match", "BB:6") in found.concept("AA:5").relations
    assert ("close_match", "BB:6") in found.concept("AA:2").relations
    assert ("has_db_xref", "BB:3") in found.concept("AA:3").relations
    assert ("has_db_xref", "AA:2") in found.concept("BB:2").relations, "the replacement of the retired AA:4"
    assert found.concept("AA:5").parents == []


def test_codes_of_terms(both, tmp_path):
    codes = table.load([FIXTURES / "merge" / "codes.csv"], table.Options(), Rejects(None))
    store.save(codes, tmp_path / "codes.terminology")
    opened = [both[0], both[1], store.load_terminology(tmp_path / "codes.terminology")]
    options = Options(exact="ignore", close="ignore", xref="ignore", classification="ignore")
    merged = merging.merge(opened, options=options)
    evidence = {(row["first"], row["second"]): row["evidence"] for row in merged.joined}
    assert evidence == {
        ("AA:1", "UMLS:C0000001"): "AA:1 <-[code of a term, UMLS]- UMLS:C0000001",
        ("BB:4", "UMLS:C0000003"): "BB:4 <-[code of a term, UMLS]- UMLS:C0000003",
        ("BB:1", "UMLS:C0000001"): "BB:1 <-[code of a term, UMLS]- UMLS:C0000001",
        ("AA:5", "UMLS:C0000005"): "AA:5 <-[code of a term, UMLS]- UMLS:C0000005",
    }
    refused = {(row["kind"], row["refused_first"], row["refused_second"]) for row in merged.conflicts}
    # Where two concepts have one code, that with the same name gets it. AA:91 is another id of AA:1.
    assert refused == {("taken", "AA:1", "UMLS:C0000002"), ("taken", "BB:4", "UMLS:C0000004")}
    assert merged.counts["statements by policy"]["code of a term: join"] == 6
    related = saved(merging.merge(opened, options=options.model_copy(update={"code": "relate"})), tmp_path / "r")
    assert ("has_code", "AA:5") in related.concept("UMLS:C0000005").relations
    ignored = merging.merge(opened, options=options.model_copy(update={"code": "ignore"}))
    assert ignored.joined == []


def test_mapping_files(both, tmp_path):
    file = mappings(
        tmp_path / "own.sssom.tsv",
        "BB:6 skos:exactMatch AA:5",
        "AA:2 skos:narrowMatch BB:3",
        "CC:1 skos:exactMatch AA:3",
        "CC:1 skos:exactMatch BB:4",
        "CC:2 skos:broadMatch BB:4",
        "ZZ:1 skos:exactMatch ZZ:2",
    )
    merged = merging.merge(both, [file])
    found = saved(merged, tmp_path / "m.terminology")
    assert found.concept("BB:6").id == "AA:5"
    assert ("skos:exactMatch", "AA:5") in found.concept("AA:5").xrefs, "the mapping is a fact, too"
    assert ("narrow_match", "BB:3") in found.concept("AA:2").relations
    assert found.concept("BB:4").id == "AA:3", "over CC:1, which is in neither; stronger than both xrefs"
    assert ("skos:narrowMatch", "CC:2") in found.concept("BB:4").xrefs, "turned round: CC:2 is not there"
    assert [(row["kind"], row["concept"], row["other"]) for row in merged.conflicts] == [("taken", "BB:4", "BB:3")]
    assert merged.counts["left out"]["mappings between concepts of neither terminology"] == 1
    assert found.manifest["sources"][-1]["name"] == "own"


def test_a_negated_mapping_keeps_apart(both, tmp_path):
    file = mappings(tmp_path / "own.sssom.tsv", "AA:1 skos:exactMatch BB:1")
    file.write_text(
        file.read_text().replace("object_id\n", "object_id\tpredicate_modifier\n").replace("BB:1", "BB:1\tNot")
    )
    merged = merging.merge(both, [file])
    told = [(row["kind"], row["source"], row["concept"], row["other"]) for row in merged.conflicts]
    assert ("vetoed", "", "AA:1", "BB:1") in told
    assert [row["second"] for row in merged.joined] == ["BB:2"]


def test_cross_references_that_rarely_join_one_name_mean_something_else(both):
    # Of three pairs of AA and BB that cross-references name, one has a name in common.
    for share, refused in ((0.33, 2), (0.34, 0)):
        merged = merging.merge(both, options=Options(agreement=share, over="ignore"))
        assert [row["second"] for row in merged.joined] == ["BB:2"]
        assert len(merged.conflicts) == refused
        left_out = merged.counts["left out"]
        assert left_out.get("cross-references between AA and BB: names differ, as most there do", 0) == 2 * (
            not refused
        )


def test_two_releases_of_one_terminology_are_one(build, tmp_path):
    old = build("old", AA.replace("name: Flu", "name: Influenza A").replace("is_obsolete: true\n", ""))
    found = saved(merging.merge([build("new", AA), old]), tmp_path / "m.terminology")
    assert found.n_concepts == 5
    assert found.concept("AA:4").retired, "the first one says so"
    assert [term.string for term in found.concept("AA:2").terms] == ["Flu", "Influenza A"]
    assert found.concept("AA:1").xrefs == [
        ("oboInOwl:hasDbXref", "UMLS:C0000001"),
        ("oboInOwl:hasDbXref", "ICD10CM:J00"),
    ]


def test_each_language_keeps_a_preferred_term(tmp_path):
    opened = []
    for name, rows in (("a", "A:1,Cold,en,B:1\n"), ("b", "B:1,Chill,en,\nB:1,Raffreddore,it,\n")):
        (tmp_path / f"{name}.csv").write_text("id,term,language,xref,preferred\n" + rows.replace("\n", ",1\n"))
        tables = table.load([tmp_path / f"{name}.csv"], table.Options(), Rejects(None))
        store.save(tables, tmp_path / f"{name}.terminology")
        opened.append(store.load_terminology(tmp_path / f"{name}.terminology"))
    found = saved(merging.merge(opened, options=Options(agreement=0)), tmp_path / "m.terminology")
    terms = {term.string: term.preferred for term in found.concept("A:1").terms}
    assert terms == {"Cold": True, "Raffreddore": True, "Chill": False}


# --- the command -----------------------------------------------------------------------------------------------------


def test_command(both, tmp_path):
    output = tmp_path / "new" / "m.terminology"
    file = mappings(tmp_path / "own.sssom.tsv", "AA:5 skos:exactMatch BB:6", "AA:5 skos:exactMatch nothing")
    said = run("merge", *(terminology.path for terminology in both), "-m", file, "-o", output, "--set", "over=join")
    assert "3  made of several" in said
    assert f"{output}: 8 concepts" in said
    with open(f"{output}.conflicts.tsv", newline="") as opened_:
        rows = list(csv.DictReader(opened_, delimiter="\t"))
    assert [row["kind"] for row in rows] == ["contested", "contested", "taken"]
    with open(f"{output}.joined.tsv", newline="") as opened_:
        assert len(list(csv.DictReader(opened_, delimiter="\t"))) == 3
    report = json.loads(Path(f"{output}.merge.json").read_text())
    assert (report["config"]["over"], report["refused"]) == ("join", {"contested": 2, "taken": 1})
    assert alphita.load_terminology(output).manifest["config"]["merged"][0]["name"] == "aa.terminology"
    assert Path(f"{output}.rejects.csv").read_text().count("not a CURIE") == 1
    with pytest.raises(InputError, match="not a CURIE"):
        run("merge", both[0].path, "-m", file, "-o", tmp_path / "x", "--strict")


def test_wrong_use(both, tmp_path):
    cases = [
        ([both[0].path, "-o", tmp_path / "x"], "at least two"),
        (["-o", tmp_path / "x"], "at least two"),
        ([both[0].path, both[1].path, "-o", both[0].path], "already exists"),
        ([both[0].path, both[1].path, "-o", tmp_path / "x", "--set", "xref=yes"], "option 'xref'"),
    ]
    for arguments, said in cases:
        with pytest.raises(UsageError, match=said):
            run("merge", *arguments)
    assert "--set xref=join" in run("merge", "--list")
    assert not (tmp_path / "x").exists()
