"""OBO graphs in JSON."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.terminology.loaders import obographs
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES

GOOD = FIXTURES / "obographs" / "zz.json"
OBO = "http://purl.obolibrary.org/obo/"


@pytest.fixture
def small(load):
    terminology, rejects = load(obographs, GOOD)
    assert rejects == []
    return terminology


def graph(*nodes: Any, edges: Any = ()) -> str:
    return json.dumps({"graphs": [{"id": OBO + "x.json", "nodes": list(nodes), "edges": list(edges)}]})


def node(number: int, label: str | None = "One", **meta: Any) -> dict[str, Any]:
    found = {"id": f"{OBO}XX_{number}", "type": "CLASS"} | ({"lbl": label} if label else {})
    return found | ({"meta": meta} if meta else {})


def test_gzip_crlf_and_one_line(load, small, write):
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


def test_a_lone_graph(load, write):
    terminology, _ = load(obographs, write("x.json", json.dumps({"nodes": [node(1)]})))
    assert terminology.concept("XX:1").name == "One"


def test_bad_edges_and_nodes_without_label(load, write):
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


def test_ids_are_unique_over_several_files(load, write):
    first, second = write("a.json", graph(node(1))), write("b.json", graph(node(1, "Again"), node(2, "Two")))
    terminology, [reject] = load(obographs, first, second)
    assert reject[0] == str(second)
    assert "a.json" in reject[4]
    assert terminology.n_concepts == 2


KEYS = (
    *("id", "lbl", "type", "meta", "val", "pred", "synonyms", "xrefs", "definition", "comments"),
    *("basicPropertyValues", "sub", "obj", "nodeIds", "deprecated"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=3), JSON, JSON)
def test_json_of_another_shape(nodes, edges, meta, sets):
    parts = {"nodes": [node(1), *nodes], "edges": edges, "meta": meta, "equivalentNodesSets": sets, "id": meta}
    content = json.dumps({"graphs": [parts, meta]}).encode()
    fuzz.check_sound_or_refused(obographs, {"x.json": content}, obographs.Options())
