"""OBO graphs in JSON."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import obographs
from alphita.terminology.model import SCOPES
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load, Write

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
    content = json.dumps({"graphs": [parts, meta]}).encode()
    fuzz.check_sound_or_refused(obographs, {"x.json": content}, obographs.Options())
