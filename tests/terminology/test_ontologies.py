"""Ontologies, as OBO files and as OBO graphs in JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.terminology.loaders import obo, obographs
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, cases

HEAD = "format-version: 1.2\n\n"
TERM = "[Term]\nid: XX:1\nname: One\n"
OBO = "http://purl.obolibrary.org/obo/"


def test_marks_of_encodings_and_one_long_line(load, write):
    obo_text, graphs = ((FIXTURES / name).read_bytes() for name in ("small.obo", "obographs/zz.json"))
    for loader, plain, others in (
        (
            obo,
            obo_text,
            [(b"\xef\xbb\xbf" + obo_text, {}), (obo_text.decode().encode("utf-16"), {"encoding": "utf-16"})],
        ),
        (obographs, graphs, [(b"\xef\xbb\xbf" + graphs, {}), (json.dumps(json.loads(graphs)), {})]),
    ):
        wanted, _ = load(loader, write("plain", plain))
        for content, options in others:
            assert load(loader, write("plain", content), **options)[0].content_hash == wanted.content_hash


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
    parts = {
        "nodes": [{"id": OBO + "XX_1", "type": "CLASS", "lbl": "One"}, *nodes],
        "edges": edges,
        "meta": meta,
        "equivalentNodesSets": sets,
        "id": meta,
    }
    content = json.dumps({"graphs": [parts, meta]}).encode()
    fuzz.check_sound_or_refused(obographs, {"x.json": content}, obographs.Options())
