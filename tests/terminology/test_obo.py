from __future__ import annotations

import pytest

from alphita.terminology.loaders import obo
from tests.terminology.conftest import FIXTURES, cases

HEAD = "format-version: 1.2\n\n"
TERM = "[Term]\nid: XX:1\nname: One\n"


def test_crlf_and_bom_and_latin_1(load, small, write):
    text = (FIXTURES / "small.obo").read_text()
    again, _ = load(obo, write("crlf.obo", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()))
    assert again.content_hash == small.content_hash
    latin, _ = load(
        obo, write("latin.obo", (HEAD + TERM + 'synonym: "Ménière" EXACT []\n').encode("latin-1")), encoding="latin-1"
    )
    assert latin.concept("XX:1").terms[1].string == "Ménière"
    wide, _ = load(obo, write("wide.obo", (HEAD + TERM).encode("utf-16")), encoding="utf-16")
    assert wide.concept("XX:1").name == "One"


def test_the_headers_namespace_is_that_of_terms_without_one(load, write):
    head = HEAD.rstrip("\n") + "\ndefault-namespace: all\n\n"
    path = write("x.obo", head + TERM + "\n[Term]\nid: XX:2\nname: Two\nnamespace: own\n")
    terminology, _ = load(obo, path, semantic_type="namespace")
    assert [terminology.concept(f"XX:{number}").semantic_types for number in (1, 2)] == [["all"], ["own"]]
    assert load(obo, path)[0].concept("XX:1").semantic_types == []


@pytest.mark.parametrize(
    "name", ["exactMatch", '"exactMatch"', "skos:exactMatch", "http://www.w3.org/2004/02/skos/core#exactMatch"]
)
def test_mappings_by_whichever_name(load, write, name):
    lines = f'property_value: {name} DOID:1\nproperty_value: {name} "MESH:D1" xsd:anyURI\nproperty_value: Match X:1\n'
    terminology, rejects = load(obo, write("x.obo", HEAD + TERM + lines))
    assert rejects == []
    assert terminology.concept("XX:1").xrefs == [("skos:exactMatch", "DOID:1"), ("skos:exactMatch", "MESH:D1")]
    assert terminology.manifest["dropped"] == {"property_value Match": 1}


def test_lines_without_scope_can_be_taken(load, write):
    text = HEAD + TERM + 'synonym: "Eins" []\nsynonym: "Uno" layperson []\n'
    path = write("x.obo", text.replace("\n\n", '\nsynonymtypedef: layperson "lay"\n\n', 1))
    terminology, rejects = load(obo, path, missing_scope="related")
    assert rejects == []
    found = [(term.string, term.scope, term.type) for term in terminology.concept("XX:1").terms]
    assert found[1:] == [("Eins", "related", None), ("Uno", "related", "layperson")]


def test_ids_are_unique_over_several_files(load, write):
    first, second = write("a.obo", HEAD + TERM), write("b.obo", HEAD + TERM + "\n[Term]\nid: XX:2\nname: Two\n")
    terminology, [reject] = load(obo, first, second)
    assert terminology.n_concepts == 2
    assert reject[:2] == [str(second), "3"]
    assert "a.obo:3" in reject[4]
    assert [source["file"] for source in terminology.manifest["sources"]] == ["a.obo", "b.obo"]


# --- trailing qualifiers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "name"), cases("obo_qualifiers.tsv"))
def test_qualifiers_are_no_part_of_a_name(load, write, given, name):
    terminology, rejects = load(obo, write("x.obo", HEAD + f"[Term]\nid: XX:1\nname: {given}\n"))
    assert rejects == []
    assert terminology.concept("XX:1").name == name
    assert terminology.manifest["dropped"] == ({"trailing qualifiers": 1} if name == "plain name" else {})


@pytest.mark.parametrize("start", ["{a=", "{a", "{", '{a="x"'])
def test_a_run_of_spaces_in_braces_takes_no_time(start):
    value = f"plain {start}{' ' * 2_000_000}x}}y"
    assert obo._parted(value) == (value, "")


def test_qualifiers_of_every_tag_are_left_out(load, write):
    lines = [
        'synonym: "Eins" EXACT [PMID:1] {note="see [1]"}',
        'def: "Text {a=\\"b\\"}" [PMID:2] {note="see [2]"}',
        'comment: Words {source="x"}',
        'subset: slim {source="x"}',
        'alt_id: XX:9 {source="a ! b"}',
        'xref: UMLS:C1 {source="a {b} ! c"} ! label',
        'property_value: skos:exactMatch MESH:D1 {source="x"}',
    ]
    terminology, rejects = load(obo, write("x.obo", HEAD + TERM + "\n".join(lines) + "\n"))
    assert rejects == []
    concept = terminology.concept("XX:1")
    assert [(term.string, term.reference) for term in concept.terms] == [("One", None), ("Eins", "PMID:1")]
    assert [(text.text, text.reference) for text in concept.definitions] == [('Text {a="b"}', "PMID:2")]
    assert concept.properties == [("comment", "Words"), ("subset", "slim")]
    assert (concept.alt_ids, [target for _, target in concept.xrefs]) == (["XX:9"], ["UMLS:C1", "MESH:D1"])
    assert terminology.manifest["dropped"] == {"trailing qualifiers": len(lines)}


def test_relations_in_a_context_are_no_plain_relations(load, write):
    context = '{gci_relation="part_of", gci_filler="XX:3"}'
    lines = f'is_a: XX:2 {{source="x"}} ! Two\nis_a: XX:3 {context} ! Three\nrelationship: part_of XX:3 {context}\n'
    others = "\n[Term]\nid: XX:2\nname: Two\n\n[Term]\nid: XX:3\nname: Three\n"
    terminology, rejects = load(obo, write("x.obo", HEAD + TERM + lines + others))
    assert rejects == []
    assert terminology.concept("XX:1").relations == [("is_a", "XX:2")]
    assert terminology.manifest["dropped"] == {
        "is_a that holds in a context only": 1,
        "relationship that holds in a context only": 1,
        "trailing qualifiers": 3,
    }
