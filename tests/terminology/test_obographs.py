"""OBO graphs in JSON."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import obographs
from alphita.terminology.model import SCOPES
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
GOOD = FIXTURES / "obographs" / "zz.json"
OBO = "http://purl.obolibrary.org/obo/"


@pytest.fixture
def small(load: Load) -> Terminology:
    terminology, rejects = load(obographs, GOOD)
    assert rejects == []
    return terminology


def graph(*nodes: Any, edges: Any = ()) -> str:
    return json.dumps({"graphs": [{"id": OBO + "x.json", "nodes": list(nodes), "edges": list(edges)}]})


def node(number: int, label: str | None = "One", **meta: Any) -> dict[str, Any]:
    found = {"id": f"{OBO}XX_{number}", "type": "CLASS"} | ({"lbl": label} if label else {})
    return found | ({"meta": meta} if meta else {})


def test_everything_of_a_node_is_read(small: Terminology) -> None:
    concept = small.concept("ZZ:0000002")
    terms = [(term.string, term.scope, term.type, term.term_type, term.reference) for term in concept.terms]
    assert terms == [
        ('Ear "bell" | sign', "exact", None, None, None),
        ("Ear sign", "exact", "layperson", "layperson", "ORCID:1"),
        ("Ear signs", "exact", "plural", "OMO:0003004", None),
        ("Otoma", "exact", "brand_name", "ZZ:0000034", None),
        ("Left ear sign", "narrow", None, None, None),
        ("Sign", "broad", None, None, None),
        ("Signe d'oreille à cloche", "related", None, None, None),
    ]
    assert [term.preferred for term in concept.terms] == [True, *[False] * 6]
    assert {(term.language, term.status, term.source, term.code) for term in concept.terms} == {
        ("en", "official", "ZZ", "0000002")
    }
    [definition] = concept.definitions
    assert (definition.text, definition.reference) == ("A sign of the ear.\nSecond line.", "PMID:1, a, book")
    assert concept.alt_ids == ["ZZ:0000902"]
    assert concept.xrefs == [
        ("oboInOwl:hasDbXref", "MESH:D004427"),
        ("oboInOwl:hasDbXref", "SNOMEDCT:25906001"),
        ("skos:exactMatch", "UMLS:C0000001"),
    ]
    assert sorted(concept.relations) == [
        ("RO:9999999", "YY:0000003"),
        ("is_a", "ZZ:0000001"),
        ("part_of", "YY:0000001"),
        ("rings_like", "ZZ:0000001"),
    ]
    assert concept.properties == [
        ("comment", 'Seen in "clinics".'),
        ("comment", "And at sea."),
        ("subset", "demo_slim"),
        ("namespace", "demo_space"),
    ]


def test_retired_nodes(small: Terminology) -> None:
    retired = small.concept("ZZ:0000003")
    assert (retired.retired, retired.replaced_by, retired.consider) == (True, ["ZZ:0000002"], ["ZZ:0000001"])
    assert (small.concept("ZZ:0000004").retired, small.concept("ZZ:0000004").name) == (True, "ZZ:0000004")


def test_several_graphs_and_equivalent_nodes(small: Terminology) -> None:
    imported = small.concept("YY:0000001")
    assert [term.string for term in imported.terms] == ["Imported thing"]
    assert [text.text for text in imported.definitions] == ["It comes from elsewhere."]
    assert small.concept("YY:0000003").parents == ["YY:0000001"]
    assert small.concept("ZZ:0000001").xrefs == [("owl:equivalentClass", "UBERON:0000001")]


def test_manifest(small: Terminology) -> None:
    [source] = small.manifest["sources"]
    assert (source["name"], source["version"]) == ("zz", OBO + "zz/releases/2026-01-31/zz.json")
    assert source["licence"] == "https://example.org/licence"
    assert small.manifest["dropped"] == {
        "INDIVIDUAL node": 1,
        "PROPERTY node, beyond its id and label": 2,
        "node that has only an id": 2,
        "another label for a node, in another graph": 1,
        "edge of a node that was left out": 2,
        "logicalDefinitionAxioms": 1,
        "property creator": 1,
    }


def test_counts_against_an_independent_count(small: Terminology) -> None:
    nodes = [node for graph in json.loads(GOOD.read_text())["graphs"] for node in graph["nodes"]]
    classes = [node for node in nodes if node.get("type", "CLASS") == "CLASS" and len(node) > 1]
    assert small.n_concepts == len({node["id"] for node in classes})
    wanted = Counter(
        synonym["pred"].split("#")[-1] for node in classes for synonym in node.get("meta", {}).get("synonyms", [])
    )
    found = Counter(f"has{term['scope'].title()}Synonym" for term in small.terms.to_pylist() if not term["preferred"])
    assert found == wanted


def test_gzip_crlf_and_one_line(load: Load, small: Terminology, write: Write) -> None:
    hashed = small.content_hash
    content = GOOD.read_bytes()
    for path in (
        write("x.bin", gzip.compress(content)),
        write("crlf.json", content.replace(b"\n", b"\r\n")),
        write("line.json", json.dumps(json.loads(content))),
        write("one.json", b"\xef\xbb\xbf" + content),
    ):
        again, _ = load(obographs, path)
        assert again.content_hash == hashed


def test_a_lone_graph(load: Load, write: Write) -> None:
    terminology, _ = load(obographs, write("x.json", json.dumps({"nodes": [node(1)]})))
    assert terminology.concept("XX:1").name == "One"


def test_options(load: Load) -> None:
    terminology, _ = load(obographs, GOOD, language="de", semantic_type="namespace")
    assert {term.language for term in terminology.concept("ZZ:0000001").terms} == {"de"}
    assert terminology.concept("ZZ:0000002").semantic_types == ["demo_space"]
    terminology, _ = load(obographs, GOOD, semantic_type="ZZ:0000001")
    assert terminology.concept("ZZ:0000002").semantic_types == ['Ear "bell" | sign']
    with pytest.raises(UsageError, match="ZZ:7"):
        load(obographs, GOOD, semantic_type="ZZ:7")


@pytest.mark.parametrize(
    ("bad", "field", "problem"),
    [
        ({"lbl": "no id", "type": "CLASS"}, "id", "a string is wanted"),
        ("not a node", "id", "a string is wanted"),
        ({"id": OBO + "XX_1", "lbl": "again", "type": "CLASS"}, "id", "defined before, in the same graph"),
        ({"id": OBO + "XX_2", "lbl": "Two", "type": "THING"}, "type", "unknown type"),
        ({"id": "a b", "lbl": "Two"}, "id", "not an id"),
        (node(2, "x" * 10_001), "lbl", "10,001 characters"),
        (node(2, "half \ud800"), "lbl", "surrogate"),
        (node(2, "a\0b"), "lbl", "NUL"),
        (node(2, "Two", definition={"val": 7}), "meta.definition", "a string is wanted"),
        (node(2, "Two", synonyms=[{"pred": "hasSynonym", "val": "x"}]), "meta.synonyms[0]", "unknown kind of synonym"),
        (node(2, "Two", synonyms=[{"pred": "hasExactSynonym", "val": " "}]), "meta.synonyms[0]", "empty string"),
        (node(2, "Two", basicPropertyValues=[{"pred": "\ud800"}]), "meta.basicPropertyValues[0]", "surrogate"),
        (node(2, "Two", xrefs=["MESH:1"]), "meta.xrefs[0]", "a string is wanted"),
        ({"id": OBO + "XX_2", "lbl": "Two", "meta": [1]}, "meta", "must be an object"),
    ],
)
def test_bad_nodes_are_set_aside_with_their_place(load: Load, write: Write, bad: Any, field: str, problem: str) -> None:
    path = write("bad.json", graph(node(1), bad, node(9, "Nine")))
    terminology, rejects = load(obographs, path)
    assert rejects[0][0] == str(path)
    assert rejects[0][2] == f"graphs[0].nodes[1].{field}"
    assert problem in rejects[0][4]
    assert (terminology.concept("XX:1").name, terminology.concept("XX:9").name) == ("One", "Nine")
    with pytest.raises(InputError, match=r"bad\.json"):
        obographs.load([path], obographs.Options(), Rejects(None, strict=True))


def test_bad_edges_and_nodes_without_label(load: Load, write: Write) -> None:
    edges = [
        {"sub": OBO + "XX_1", "pred": "is_a", "obj": OBO + "XX_404"},
        {"sub": OBO + "XX_1", "pred": "is_a"},
        {"sub": OBO + "XX_1", "pred": "is_a", "obj": OBO + "XX_2"},
        {"sub": OBO + "XX_2", "pred": "is_a", "obj": OBO + "XX_1"},
    ]
    path = write("bad.json", graph(node(1), node(2, None, comments=["why?"]), edges=edges))
    terminology, rejects = load(obographs, path)
    assert [reject[2:] for reject in rejects] == [
        ["lbl", "XX:2", "a node without label; the concept is kept and shown by its id"],
        ["graphs[0].edges[1].obj", "", "a string is wanted"],
        ["tail", "XX:404", "no concept has this id (tail of relations)"],
    ]
    assert terminology.n_relations == 2  # a cycle is kept
    assert terminology.ancestors(0).tolist() == [1]


def test_ids_are_unique_over_several_files(load: Load, write: Write) -> None:
    first, second = write("a.json", graph(node(1))), write("b.json", graph(node(1, "Again"), node(2, "Two")))
    terminology, [reject] = load(obographs, first, second)
    assert reject[0] == str(second)
    assert "a.json" in reject[4]
    assert terminology.n_concepts == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"format-version: 1.2\n", "not JSON"),
        (b'{"graphs": [{"nodes": [', "not JSON, or cut short"),
        (b"[1, 2]", "no OBO graph"),
        (b'{"graphs": 7}', "no OBO graph"),
        (b'{"graphs": [{"nodes": []}]}', "no class"),
        (b'{"nodes": [{"id": "x:1", "type": "PROPERTY", "lbl": "x"}]}', "no class"),
        (b'{"graphs": "' + b"\xff" + b'"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"nodes": ' + b"9" * 5000 + b"}", "not JSON"),
        (gzip.compress(GOOD.read_bytes())[:-20], "cut short"),
    ],
)
def test_a_file_that_is_no_graph_is_an_error(write: Write, content: bytes, problem: str) -> None:
    path = write("bad.json", content)
    with pytest.raises(InputError, match=problem) as raised:
        obographs.load([path], obographs.Options(), Rejects(None))
    assert str(path) in str(raised.value)


# --- properties ------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(str.strip)
IDS = st.integers(1, 30)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, list[tuple[str, str]]], set[tuple[int, str, int]], set[int]]:
    ids = draw(st.lists(IDS, min_size=1, max_size=10, unique=True))
    synonyms = st.lists(st.tuples(WORDS, st.sampled_from(SCOPES)), max_size=4)
    terms = {number: [(draw(WORDS), "exact"), *draw(synonyms)] for number in ids}
    edge = st.tuples(st.sampled_from(ids), st.sampled_from(["is_a", "part_of"]), st.sampled_from(ids))
    return terms, draw(st.sets(edge, max_size=15)), draw(st.sets(st.sampled_from(ids), max_size=3))


@settings(max_examples=25, deadline=None)
@given(graphs())
def test_written_and_loaded_it_is_the_same(
    content: tuple[dict[int, list[tuple[str, str]]], set[tuple[int, str, int]], set[int]],
) -> None:
    terms, edges, retired = content
    nodes = [
        node(
            number,
            strings[0][0],
            deprecated=number in retired,
            synonyms=[{"pred": f"has{scope.title()}Synonym", "val": string} for string, scope in strings[1:]],
        )
        for number, strings in terms.items()
    ]
    nodes.append({"id": OBO + "BFO_0000050", "lbl": "part of", "type": "PROPERTY"})
    predicates = {"is_a": "is_a", "part_of": OBO + "BFO_0000050"}
    written = [
        {"sub": f"{OBO}XX_{head}", "pred": predicates[label], "obj": f"{OBO}XX_{tail}"} for head, label, tail in edges
    ]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.json"
        path.write_text(graph(*nodes, edges=written))
        store.save(
            obographs.load([path], obographs.Options(), Rejects(None, strict=True)), Path(name) / "t.terminology"
        )
        terminology = load_terminology(Path(name) / "t.terminology")
        assert terminology.n_concepts == len(terms)
        for number, strings in terms.items():
            concept = terminology.concept(f"XX:{number}")
            stripped = [(string.strip(), scope) for string, scope in strings]
            assert {(term.string, term.scope) for term in concept.terms} == set(stripped)
            assert concept.name == stripped[0][0]
            assert concept.retired == (number in retired)
            assert set(concept.relations) == {(label, f"XX:{tail}") for head, label, tail in edges if head == number}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(data: st.DataObject) -> None:
    content = GOOD.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    check(content[:start] + data.draw(st.binary(max_size=30)) + content[end:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "lbl",
                    "type",
                    "meta",
                    "val",
                    "pred",
                    "synonyms",
                    "xrefs",
                    "definition",
                    "comments",
                    "basicPropertyValues",
                    "sub",
                    "obj",
                    "nodeIds",
                    "deprecated",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=3), JSON, JSON)
def test_json_of_another_shape(nodes: list[Any], edges: list[Any], meta: Any, sets: Any) -> None:
    parts = {"nodes": [node(1), *nodes], "edges": edges, "meta": meta, "equivalentNodesSets": sets, "id": meta}
    check(json.dumps({"graphs": [parts, meta]}).encode())


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(content: bytes) -> None:
    check(content)


def check(content: bytes) -> None:
    """Load the content: a terminology, or a clear error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_bytes(content)
        try:
            tables = obographs.load([path], obographs.Options(), Rejects(Path(folder) / "rejects.csv"))
            store.save(tables, Path(folder) / "t.terminology", rejects=Rejects(None))
        except AlphitaError:
            assert not (Path(folder) / "t.terminology").exists()
            return
        assert load_terminology(Path(folder) / "t.terminology").n_concepts
