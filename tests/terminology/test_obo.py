from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _columns, obo
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
HEAD = "format-version: 1.2\n\n"
TERM = "[Term]\nid: XX:1\nname: One\n"


def test_everything_of_a_term_is_read(small: Terminology) -> None:
    concept = small.concept("XX:0000002")
    assert concept.name == 'Abnormality of the "inner" ear {left}'
    assert not concept.retired
    terms = [(term.string, term.scope, term.type, term.term_type, term.reference) for term in concept.terms]
    assert terms == [
        ('Abnormality of the "inner" ear {left}', "exact", None, None, None),
        ("Ear trouble", "exact", "layperson", "layperson", "ORCID:1"),
        ("Abnormalities of the inner ear", "exact", "plural", "plural_form", None),
        ("Otoma", "exact", "brand_name", "XX:0034", None),
        ("Wax plug", "narrow", "brand_name", "XX:0034", None),
        ("Disorder of ears", "broad", None, None, None),
        ('Ear "things"', "related", None, None, None),
    ]
    assert [term.preferred for term in concept.terms] == [True, *[False] * 6]
    assert {(term.language, term.status, term.source, term.code) for term in concept.terms} == {
        ("en", "official", "XX", "0000002")
    }
    [definition] = concept.definitions
    assert definition.text == "A fault of the ear.\nSecond line."
    assert definition.reference == 'PMID:1, "a, book"'
    assert concept.alt_ids == ["XX:0000902", "XX:0000903"]
    assert concept.xrefs == [
        ("oboInOwl:hasDbXref", "MESH:D004427"),
        ("oboInOwl:hasDbXref", "SNOMEDCT:25906001"),
        ("oboInOwl:hasDbXref", "MONDO:0000001"),
        ("skos:exactMatch", "UMLS:C0013447"),
    ]
    assert concept.parents == ["XX:0000001"]
    assert sorted(concept.relations) == [
        ("has_finding_site", "XX:0000003"),
        ("is_a", "XX:0000001"),
        ("part_of", "XX:0000001"),
    ]
    assert concept.properties == [("comment", 'Seen in "clinics".'), ("subset", "demo_slim")]


def test_retired_terms_and_old_synonym_tags(small: Terminology) -> None:
    retired = small.concept("XX:0000004")
    assert retired.retired
    assert (retired.replaced_by, retired.consider) == (["XX:0000002"], ["XX:0000003"])
    assert [(term.string, term.scope) for term in small.concept("XX:0000003").terms][1] == ("Auris", "exact")


def test_the_manifest_says_where_it_comes_from_and_what_was_left_out(small: Terminology) -> None:
    [source] = small.manifest["sources"]
    assert (source["name"], source["version"]) == ("demo", "demo/2026-01-31")
    assert source["licence"] == "https://example.org/licence"
    assert len(source["sha256"]) == 64
    assert small.manifest["dropped"] == {
        "[Instance] stanza": 1,
        "[Typedef] stanza, beyond its id and name": 1,
        "creation_date": 1,
        "intersection_of": 1,
        "property_value terms:creator": 1,
        "trailing qualifiers": 5,
    }


def test_gzip_gives_the_same(load: Load, small: Terminology, write: Write) -> None:
    path = write("small.bin", gzip.compress((FIXTURES / "small.obo").read_bytes()))
    assert load(obo, path)[0].content_hash == small.content_hash


def test_rows_packed_early_give_the_same(load: Load, small: Terminology, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_columns, "ROWS_AT_ONCE", 2)
    assert load(obo, FIXTURES / "small.obo")[0].content_hash == small.content_hash
    terminology, _ = load(obo, FIXTURES / "small.obo", semantic_type="XX:0000001")
    assert terminology.concept("XX:0000003").semantic_types == ["Ear"]


def test_crlf_and_bom_and_latin_1(load: Load, small: Terminology, write: Write) -> None:
    text = (FIXTURES / "small.obo").read_text()
    again, _ = load(obo, write("crlf.obo", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()))
    assert again.content_hash == small.content_hash
    latin, _ = load(
        obo, write("latin.obo", (HEAD + TERM + 'synonym: "Ménière" EXACT []\n').encode("latin-1")), encoding="latin-1"
    )
    assert latin.concept("XX:1").terms[1].string == "Ménière"
    wide, _ = load(obo, write("wide.obo", (HEAD + TERM).encode("utf-16")), encoding="utf-16")
    assert wide.concept("XX:1").name == "One"


def test_language_and_namespace_options(load: Load) -> None:
    terminology, _ = load(obo, FIXTURES / "small.obo", language="de", semantic_type="namespace")
    assert {term.language for term in terminology.concept("XX:0000003").terms} == {"de"}
    assert terminology.concept("XX:0000001").semantic_types == ["root_space"]
    assert terminology.concept("XX:0000003").semantic_types == ["demo"]


def test_the_headers_namespace_is_that_of_terms_without_one(load: Load, write: Write) -> None:
    head = HEAD.rstrip("\n") + "\ndefault-namespace: all\n\n"
    path = write("x.obo", head + TERM + "\n[Term]\nid: XX:2\nname: Two\nnamespace: own\n")
    terminology, _ = load(obo, path, semantic_type="namespace")
    assert [terminology.concept(f"XX:{number}").semantic_types for number in (1, 2)] == [["all"], ["own"]]
    assert load(obo, path)[0].concept("XX:1").semantic_types == []


@pytest.mark.parametrize(
    "name", ["exactMatch", '"exactMatch"', "skos:exactMatch", "http://www.w3.org/2004/02/skos/core#exactMatch"]
)
def test_mappings_by_whichever_name(load: Load, write: Write, name: str) -> None:
    lines = f'property_value: {name} DOID:1\nproperty_value: {name} "MESH:D1" xsd:anyURI\nproperty_value: Match X:1\n'
    terminology, rejects = load(obo, write("x.obo", HEAD + TERM + lines))
    assert rejects == []
    assert terminology.concept("XX:1").xrefs == [("skos:exactMatch", "DOID:1"), ("skos:exactMatch", "MESH:D1")]
    assert terminology.manifest["dropped"] == {"property_value Match": 1}


def test_branches_as_semantic_types(load: Load) -> None:
    terminology, _ = load(obo, FIXTURES / "small.obo", semantic_type="XX:0000001")
    assert terminology.concept("XX:0000003").semantic_types == ["Ear"]
    assert terminology.concept("XX:0000001").semantic_types == []
    with pytest.raises(UsageError, match="XX:7"):
        load(obo, FIXTURES / "small.obo", semantic_type="XX:7")


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ('synonym: "Eins" [X:1]', 6, "without a scope"),
        ('synonym: "Eins"', 6, "without a scope"),
        ("synonym: Eins EXACT []", 6, "quotes"),
        ('synonym: "Eins EXACT []', 6, "quotes"),
        ('synonym: "" EXACT []', 6, "empty string"),
        ('synonym: "' + "x" * 100_000 + '" EXACT []', 6, "100,000 characters"),
        ('synonym: "a\0b" EXACT []', 6, "NUL"),
        ("def: no quotes", 6, "quotes"),
        ("name: Two", 6, "second name"),
        ("relationship: part_of", 6, "relation target"),
        ("is_a: XX:404 ! nowhere", 6, "no concept has this id"),
        ("this is not a tag", 6, "tag: value"),
        ("\n[Term]\nname: no id", 7, "without id"),
        ("\n[Term]\nid: XX:1\nname: again", 7, "defined before"),
        ("\n[Term]\nid: XX:2", 7, "without name"),
    ],
)
def test_bad_lines_are_set_aside_with_their_place(
    load: Load, write: Write, lines: str, line: int, problem: str
) -> None:
    path = write("bad.obo", HEAD + TERM + lines + "\n\n[Term]\nid: XX:9\nname: Nine\n")
    terminology, rejects = load(obo, path)
    [[file, number, _, value, said]] = rejects
    assert file == str(path)
    assert int(number) == line
    assert problem in said
    assert len(value) <= 80
    assert terminology.concept("XX:1").name == "One"
    assert terminology.concept("XX:9").name == "Nine"
    assert len(terminology.concept("XX:1").terms) == 1


def test_strict_stops_at_the_first_bad_line(write: Write) -> None:
    path = write("bad.obo", HEAD + TERM + 'synonym: "Eins"\n')
    with pytest.raises(InputError, match=r"bad\.obo:6: .*scope"):
        obo.load([path], obo.Options(), Rejects(None, strict=True))


def test_lines_without_scope_can_be_taken(load: Load, write: Write) -> None:
    text = HEAD + TERM + 'synonym: "Eins" []\nsynonym: "Uno" layperson []\n'
    path = write("x.obo", text.replace("\n\n", '\nsynonymtypedef: layperson "lay"\n\n', 1))
    terminology, rejects = load(obo, path, missing_scope="related")
    assert rejects == []
    found = [(term.string, term.scope, term.type) for term in terminology.concept("XX:1").terms]
    assert found[1:] == [("Eins", "related", None), ("Uno", "related", "layperson")]


def test_wrong_encoding_is_named_line_by_line(load: Load, write: Write) -> None:
    text = HEAD + TERM + 'synonym: "Ménière" EXACT []\nsynonym: "Eins" EXACT []\n'
    terminology, [reject] = load(obo, write("latin.obo", text.encode("latin-1")))
    assert reject[1] == "6"
    assert "not utf-8: byte 0xe9" in reject[4]
    assert "latin-1" in reject[4]
    assert [term.string for term in terminology.concept("XX:1").terms] == ["One", "Eins"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"\n\n", "no \\[Term\\]"),
        (b'{"graphs": []}', "not an OBO file"),
        (b"<html>\n<body>", "not an OBO file"),
        (b"id,term\nXX:1,One\n", "not an OBO file"),
        (b"format-version: 1.2\n", "no \\[Term\\]"),
        (HEAD.encode() + gzip.compress(b"x"), "no \\[Term\\]"),
        ((HEAD + TERM).encode("utf-16"), "UTF-16"),
        (gzip.compress(HEAD.encode() * 100)[:-20], "cut short"),
        (b"\x1f\x8bnonsense", "cut short"),
        (b"\x00" * 100, "no \\[Term\\]"),
        (b"PK\x03\x04\xff\xfe\x00", "cut short"),
    ],
)
def test_a_file_that_is_not_obo_is_an_error(write: Write, content: bytes, problem: str) -> None:
    path = write("bad.obo", content)
    with pytest.raises(InputError, match=problem) as raised:
        obo.load([path], obo.Options(), Rejects(None))
    assert str(path) in str(raised.value)


def test_missing_files_folders_and_encodings(tmp_path: Path, write: Write) -> None:
    with pytest.raises(InputError, match="No such file"):
        obo.load([tmp_path / "none.obo"], obo.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"no file in it ends in \.obo"):
        obo.load([tmp_path], obo.Options(), Rejects(None))
    with pytest.raises(UsageError, match="unknown encoding 'klingon'"):
        obo.load([write("x.obo", HEAD + TERM)], obo.Options(encoding="klingon"), Rejects(None))


def test_ids_are_unique_over_several_files(load: Load, write: Write) -> None:
    first, second = write("a.obo", HEAD + TERM), write("b.obo", HEAD + TERM + "\n[Term]\nid: XX:2\nname: Two\n")
    terminology, [reject] = load(obo, first, second)
    assert terminology.n_concepts == 2
    assert reject[:2] == [str(second), "3"]
    assert "a.obo:3" in reject[4]
    assert [source["file"] for source in terminology.manifest["sources"]] == ["a.obo", "b.obo"]


# --- trailing qualifiers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ('plain name {source="PMID:1"}', "plain name"),
        ('plain name {source="PMID:1", note="a \\"b\\" {c} ! d"}', "plain name"),
        ('plain name {source="PMID:1"} ! comment', "plain name"),
        ("plain name {}", "plain name"),
        ("plain name {left}", "plain name {left}"),
        ("N-{4-[x]phenyl}", "N-{4-[x]phenyl}"),
        (r"plain name \{source=1\}", "plain name {source=1}"),
    ],
)
def test_qualifiers_are_no_part_of_a_name(load: Load, write: Write, given: str, name: str) -> None:
    terminology, rejects = load(obo, write("x.obo", HEAD + f"[Term]\nid: XX:1\nname: {given}\n"))
    assert rejects == []
    assert terminology.concept("XX:1").name == name
    assert terminology.manifest["dropped"] == ({"trailing qualifiers": 1} if name == "plain name" else {})


@pytest.mark.parametrize("start", ["{a=", "{a", "{", '{a="x"'])
def test_a_run_of_spaces_in_braces_takes_no_time(start: str) -> None:
    value = f"plain {start}{' ' * 2_000_000}x}}y"
    assert obo._parted(value) == (value, "")


def test_qualifiers_of_every_tag_are_left_out(load: Load, write: Write) -> None:
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


def test_relations_in_a_context_are_no_plain_relations(load: Load, write: Write) -> None:
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
